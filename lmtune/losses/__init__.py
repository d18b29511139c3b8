"""Losses of learning to rank, as functions of scores and labels.

Each is called ``loss(scores, labels, *, mask=None, reduce="mean", ...)`` with tensors of shape
(queries, items) or (queries, items, 1), or with a list of tensors, one a query; labels may be arrays,
and are -1 on padding where there is no mask. None depends on the order of the items or on padding;
padding gets gradient 0; a query without a relevant item contributes 0 and is not counted in the mean.

They are imported when first used, for they need torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
