"""Results as text, tables, pictures and pages, and the folders that keep them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
