"""ListNet and ListMLE: sums over items, in double precision whatever the scores' type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Doubles, Floats
from lmtune.compiled import compiled
from lmtune.losses.exponential_kernels import decay, lane_dot, lane_max, lane_sum
from lmtune.losses.packing_kernels import ByLabel, spoiled

# Numbers between these are multiplied before one logarithm is taken of all.
_LEAST, _MOST = 1e-250, 1e250


@compiled()
def _shares(values: Floats, mask: NDArray[np.bool_], powers: Floats) -> tuple[Any, float]:
    """Fill with powers of e, referred to the greatest value, 0 on padding; return it and their sum."""
    lowest, zero = values.dtype.type(-np.inf), values.dtype.type(0.0)
    for i in range(values.size):
        powers[i] = values[i] if mask[i] else lowest
    best = lane_max(powers)
    for i in range(values.size):
        powers[i] = decay(best - powers[i])
    for i in range(values.size):
        powers[i] = powers[i] if mask[i] else zero
    return best, lane_sum(powers)


@compiled()
def listnet_queries(
    first: int,
    last: int,
    scores: Floats,
    labels: Floats,
    mask: NDArray[np.bool_],
    softmax: bool,
    losses: Floats,
    gradients: Floats,
) -> None:
    """Fill the losses and gradients of queries ``first`` to ``last`` (not included).

    Parameters
    ----------
    first, last : int
    scores, labels : arrays of shape (queries, items)
        Of one floating-point type, as the losses and gradients; 0 on padding.
    mask : bool array of shape (queries, items)
    softmax : bool
        Whether targets are the softmax of the labels, rather than the labels.
    losses : array of shape (queries,)
    gradients : array of shape (queries, items)
    """
    shares, weights, zeros = np.empty_like(scores[0]), np.empty_like(scores[0]), np.zeros_like(scores[0])
    behind = np.empty(scores.shape[1])
    for q in range(first, last):
        s, real = scores[q], mask[q]
        losses[q] = 0.0
        if not real.any():
            continue
        best, total = _shares(s, real, shares)
        targets = weights if softmax else labels[q]
        scale = 1.0 / _shares(labels[q], real, weights)[1] if softmax else 1.0
        weight = scale * lane_sum(targets)
        # Each item's cost is ln(total) and how far it is behind the best: no two of these cancel.
        for i in range(s.size):
            behind[i] = float(best) - s[i]
        losses[q] = weight * math.log(total) + scale * lane_dot(behind, targets)
        own, other = s.dtype.type(weight / total), s.dtype.type(scale)
        for i in range(s.size):
            gradients[q, i] = own * shares[i] - other * targets[i]
        spoilt = lane_dot(s, zeros)  # NaN where a score is not finite, else 0
        if spoilt != 0.0:
            losses[q] = spoilt
            gradients[q] = np.where(real, spoilt, 0.0)


@compiled()
def shuffle_ties(first: int, last: int, lists: ByLabel, draws: Doubles) -> None:
    """Put items of equal labels into a random order, each order as likely (Fisher and Yates).

    Parameters
    ----------
    first, last : int
        As of `listnet_queries`.
    lists : ByLabel
        Whose order is changed in place.
    draws : float64 array of shape (queries, items)
        Independent and uniform in [0, 1).
    """
    for q in range(first, last):
        items = lists.order[q, : lists.real[q]]
        start = 0
        for i in range(1, items.size):
            if lists.labels[q, items[i]] != lists.labels[q, items[start]]:
                start = i
            other = start + int(draws[q, i] * (i - start + 1))
            items[i], items[other] = items[other], items[i]


@compiled()
def _references(s: Doubles, powers: Doubles, references: Doubles) -> None:
    """Fill with r_i, the greatest of s_i, s_i+1, ..., and with powers of e of s_i - r_i."""
    reference = -np.inf
    for i in range(s.size - 1, -1, -1):
        reference = max(reference, s[i])
        references[i] = reference
    for i in range(s.size):
        powers[i] = decay(references[i] - s[i])


@compiled()
def listmle_queries(
    first: int, last: int, lists: ByLabel, shared: bool, losses: Floats, gradients: Floats
) -> None:
    """Do the same for items in a given order.

    Parameters
    ----------
    first, last, losses, gradients
        As of `listnet_queries`.
    lists : ByLabel
    shared : bool
        Whether items of equal labels have one denominator.
    """
    for q in range(first, last):
        items = lists.order[q, : lists.real[q]]
        if spoiled(lists.scores[q][items], items, q, losses, gradients):
            continue
        s = lists.scores[q][items].astype(np.float64)
        n = s.size
        powers, references, totals = np.empty(n), np.empty(n), np.empty(n)
        _references(s, powers, references)
        total = 0.0
        for i in range(n - 1, -1, -1):
            if i + 1 < n and references[i] != references[i + 1]:
                total *= math.exp(references[i + 1] - references[i])
            total += powers[i]
            totals[i] = total
        # Item i stands in the denominators of all places up to its own (up to the last of its
        # label, if they are shared): its gradient is e^s_i times the sum of their inverses, less 1.
        loss, inverse, product, start = 0.0, 0.0, 1.0, 0
        while start < n:
            stop = start + 1
            while shared and stop < n and lists.labels[q, items[stop]] == lists.labels[q, items[start]]:
                stop += 1
            if not _LEAST < product < _MOST:
                loss += math.log(product)
                product = 1.0
            if stop == start + 1:
                product *= totals[start]
            else:
                loss += (stop - start) * math.log(totals[start])
            for i in range(start, stop):
                if i > 0 and references[i] != references[i - 1]:
                    inverse *= math.exp(references[i] - references[i - 1])
                if i == start:
                    inverse += (stop - start) / totals[i]
                loss += references[start] - s[i]
                gradients[q, items[i]] = powers[i] * inverse - 1.0
            start = stop
        losses[q] = loss + math.log(product)
