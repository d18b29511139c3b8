"""Label sets of imperfect judges, such as LLMs: agreement with human judgments, and corrected means."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
