"""Experiments that put the papers' claims to the test, on their data or one's own."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
