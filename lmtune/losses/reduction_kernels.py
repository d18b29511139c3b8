"""A kernel that reduces the losses of queries: one call instead of ten small operations."""

from __future__ import annotations

from lmtune.arrays import Floats
from lmtune.compiled import compiled
from lmtune.losses.exponential_kernels import lane_sum


@compiled()
def reduce_losses(
    labels: Floats, losses: Floats, mean: bool, kept: Floats, shares: Floats, total: Floats
) -> None:
    """Fill the losses of queries with a relevant item, their shares in the total, and the total.

    Parameters
    ----------
    labels : array of shape (queries, items)
        Of the same floating-point type as the losses.
    losses : array of shape (queries,)
    mean : bool
        Whether the total is the mean over queries with a relevant item, instead of the sum.
    kept, shares : arrays of shape (queries,)
        To fill; 0 for queries without a relevant item.
    total : array of shape (1,)
        To fill.
    """
    zero, one = losses.dtype.type(0.0), losses.dtype.type(1.0)
    count = 0
    for q in range(losses.size):
        kept[q] = shares[q] = zero
        for label in labels[q]:
            if label > zero:
                kept[q], shares[q] = losses[q], one
                count += 1
                break
    divisor = losses.dtype.type(max(count, 1)) if mean else one
    total[0] = lane_sum(kept) / divisor
    for q in range(losses.size):
        shares[q] /= divisor
