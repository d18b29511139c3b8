"""Judges that err: how far they agree, and what a few human judgments correct."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
