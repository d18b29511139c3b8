"""Kernel of the listwise cross-entropy on whole lists, where each running estimate is the current value."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Floats, Integers
from lmtune.compiled import compiled
from lmtune.losses.list_kernels import fill_shares


class PairArrays(NamedTuple):
    """The relevant pairs and running estimates of a `PairState`, as arrays that share its memory.

    Attributes
    ----------
    query_ids : int64 array of shape (Q,)
    sizes : int64 array of shape (2, Q)
        Numbers of relevant and other items of each list.
    keys : int64 array of shape (P + 1,)
        Position of the query times `stride`, plus the item's id; ascending.
    stride : int
    estimates : float32 array of shape (P + 1,)
    label_sums : float32 array of shape (Q,)
    """

    query_ids: Integers
    sizes: Integers
    keys: Integers
    stride: int
    estimates: Floats
    label_sums: Floats


class Batch(NamedTuple):
    """A padded batch of lists.

    Attributes
    ----------
    scores, labels : arrays of shape (B, n)
        Of the same floating-point type.
    mask : bool array of shape (B, n)
        False on padding.
    queries : int64 array of shape (B,)
    items : int64 array of shape (B, n)
    """

    scores: Floats
    labels: Floats
    mask: NDArray[np.bool_]
    queries: Integers
    items: Integers


class WholeLists(NamedTuple):
    """Where the batch's queries and relevant items stand, to be filled by `_find_whole_lists`.

    Attributes
    ----------
    positions : int64 array of shape (B,)
        Positions of the queries in `PairArrays`.
    relevant, slots : int64 arrays of shape (B, n)
        The indices of each list's relevant items, and the positions of their pairs in `PairArrays.keys`; the
        first `sizes[0]` of a row are used.
    """

    positions: Integers
    relevant: Integers
    slots: Integers


@compiled()
def _find_whole_lists(batch: Batch, pairs: PairArrays, lists: WholeLists) -> bool:
    """Return whether all lists are whole; if so, fill `lists`.

    False also for an unknown query or pair, and for a score that is not a finite number.
    """
    for q in range(batch.queries.size):
        position = np.searchsorted(pairs.query_ids, batch.queries[q])
        if position == pairs.query_ids.size or pairs.query_ids[position] != batch.queries[q]:
            return False
        lists.positions[q] = position
        real, count = 0, 0
        for i in range(batch.mask.shape[1]):
            if batch.mask[q, i]:
                if not math.isfinite(batch.scores[q, i]):
                    return False
                lists.relevant[q, count] = i
                count += batch.labels[q, i] > 0.0
                real += 1
        if count != pairs.sizes[0, position] or real - count != pairs.sizes[1, position]:
            return False
        slot = -1
        for k in range(count):
            item = batch.items[q, lists.relevant[q, k]]
            key = position * pairs.stride + item
            # Items usually stand in the order of their ids.
            if k == 0 or pairs.keys[slot + 1] != key:
                slot = np.searchsorted(pairs.keys, key) - 1
            slot += 1
            if item < 0 or item >= pairs.stride or pairs.keys[slot] != key:
                return False
            lists.slots[q, k] = slot
    return True


@compiled()
def whole_cross_entropy(batch: Batch, pairs: PairArrays, gradients: Floats) -> tuple[bool, float]:
    """Compute the loss of whole lists, store ln g of each relevant pair, and fill the gradients (B, n).

    Gradients must be 0 at first. Returns (False, 0), without changes, if `_find_whole_lists` is False.
    """
    queries, items = batch.mask.shape
    shape = (queries, items)
    lists = WholeLists(np.empty(queries, np.int64), np.empty(shape, np.int64), np.empty(shape, np.int64))
    if not _find_whole_lists(batch, pairs, lists):
        return False, 0.0
    judged = max(1, np.count_nonzero(pairs.sizes[0][lists.positions]))
    shares = np.empty_like(batch.scores[0])
    loss = 0.0
    for q, position in enumerate(lists.positions):
        count, others = pairs.sizes[:, position]
        if count == 0:
            continue
        best, total = fill_shares(batch.scores[q], batch.mask[q], shares)
        log_total, log_length = math.log(total), math.log(count + others)
        scale = 1.0 / (pairs.label_sums[position] * judged)
        weights = 0.0
        for k in range(count):
            i = lists.relevant[q, k]
            weight = float(batch.labels[q, i]) * scale
            cost = log_total + (float(best) - float(batch.scores[q, i]))
            pairs.estimates[lists.slots[q, k]] = cost - log_length
            loss += weight * cost
            weights += weight
            gradients[q, i] = -weight
        factor = shares.dtype.type(weights / total)
        for i in range(shares.size):
            gradients[q, i] += factor * shares[i]
    return True, loss
