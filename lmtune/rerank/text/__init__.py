"""Text rerankers: cross-encoders, trained with lmtune's losses in bounded memory."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
