"""Tune retrieval models, fuse and rerank runs, and report as trec_eval does.

``__init__.pyi`` lists the public names. Each is imported at its first use, so that ``import lmtune`` is fast.
"""

import lazy_loader

from lmtune._moved import install

install()
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
