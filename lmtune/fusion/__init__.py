"""Fusion of runs: weights by exact line search or gradients, held-out evaluation, bounds over all weights."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
