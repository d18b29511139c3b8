"""Tune retrieval models, fuse and rerank runs, and report as trec_eval does.

``__init__.pyi`` lists the public names; each is imported when first used, so that ``import lmtune``
is immediate.
"""

import lazy_loader

from lmtune._moved import install

install()
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
