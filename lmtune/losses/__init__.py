"""Losses for learning to rank, as functions of scores and labels.

Call a loss as ``loss(scores, labels, *, mask=None, reduce="mean", ...)``. Scores are a tensor of shape
(queries, items) or (queries, items, 1), or a list with one tensor per query. Labels may be arrays; without
a mask, label -1 marks padding. No loss depends on the order of the items or on padding. The gradient is 0
on padding. A query without a relevant item contributes 0 and is left out of the mean.

The losses need torch, so each is imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
