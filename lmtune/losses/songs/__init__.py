"""SONG and K-SONG: NDCG surrogates by stochastic compositional optimisation, for lists of any length."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
