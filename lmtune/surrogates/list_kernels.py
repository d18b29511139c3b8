"""ListNet and ListMLE: sums over items, in double precision."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled
from lmtune.surrogates.packing_kernels import ByLabel, spoiled

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@compiled()
def listnet_queries(
    first: int,
    last: int,
    scores: Matrix,
    labels: Matrix,
    mask: NDArray[np.bool_],
    softmax: bool,
    losses: Vector,
    gradients: Matrix,
) -> None:
    """Fill the losses and gradients of queries ``first`` to ``last`` (not included).

    Parameters
    ----------
    first, last : int
    scores, labels : float64 arrays of shape (queries, items)
    mask : bool array of shape (queries, items)
    softmax : bool
        Whether targets are the softmax of the labels, rather than the labels.
    losses : float64 array of shape (queries,)
    gradients : float64 array of shape (queries, items)
        0 on padding already.
    """
    items = scores.shape[1]
    shares = np.empty(items)
    targets = np.empty(items)
    for q in range(first, last):
        best, top = -np.inf, -np.inf
        for i in range(items):
            if mask[q, i]:
                best = max(best, scores[q, i])
                top = max(top, labels[q, i])
        total, weights = 0.0, 0.0
        for i in range(items):
            if mask[q, i]:
                if not np.isfinite(scores[q, i]):
                    total = np.nan
                shares[i] = math.exp(scores[q, i] - best)
                targets[i] = math.exp(labels[q, i] - top) if softmax else labels[q, i]
                total += shares[i]
                weights += targets[i]
        scale = 1.0 / weights if softmax else 1.0
        logarithm = best + math.log(total)
        loss = 0.0
        for i in range(items):
            if mask[q, i]:
                loss += targets[i] * (logarithm - scores[q, i])
                gradients[q, i] = scale * (weights * (shares[i] / total) - targets[i])
        losses[q] = loss * scale


@compiled()
def listmle_queries(
    first: int, last: int, lists: ByLabel, shared: bool, losses: Vector, gradients: Matrix
) -> None:
    """Do the same for items in a given order.

    Parameters
    ----------
    first, last, losses, gradients
        As of `listnet_queries`.
    lists : ByLabel
        In double precision.
    shared : bool
        Whether items of equal labels have one denominator.
    """
    for q in range(first, last):
        items = lists.order[q, : lists.real[q]]
        s = lists.scores[q][items]
        y = lists.labels[q][items]
        n = s.size
        if spoiled(s, items, q, losses, gradients):
            continue
        logarithm = np.empty(n)
        best, total = -np.inf, 0.0
        for i in range(n - 1, -1, -1):
            if s[i] > best:
                total = total * math.exp(best - s[i]) + 1.0
                best = s[i]
            else:
                total += math.exp(s[i] - best)
            logarithm[i] = best + math.log(total)
        if shared:
            for i in range(1, n):
                if y[i] == y[i - 1]:
                    logarithm[i] = logarithm[i - 1]
        # Item i stands in the denominators of all places up to its own (up to the last of its
        # label, if they are shared): exp(s_i - L_i) times the sum of exp(L_i - L_k) over those.
        loss, inverse = 0.0, 0.0
        start = 0
        while start < n:
            stop = start + 1
            while shared and stop < n and y[stop] == y[start]:
                stop += 1
            if start > 0:
                inverse *= math.exp(logarithm[start] - logarithm[start - 1])
            inverse += stop - start
            for i in range(start, stop):
                loss += logarithm[i] - s[i]
                gradients[q, items[i]] = math.exp(s[i] - logarithm[i]) * inverse - 1.0
            start = stop
        losses[q] = loss
