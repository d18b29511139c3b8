"""ListNet and ListMLE: sums over items, in double precision."""

from __future__ import annotations

import math

import numpy as np

from lmtune.compiled import compiled


@compiled()
def listnet_queries(first, last, scores, labels, mask, softmax, losses, gradients):  # type: ignore[no-untyped-def]
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
def listmle_queries(first, last, scores, labels, order, real, shared, losses, gradients):  # type: ignore[no-untyped-def]
    """Do the same for items in a given order.

    Parameters
    ----------
    first, last, scores, labels, losses, gradients
        As of `listnet_queries`.
    order : int64 array of shape (queries, items)
        Items by falling label, padding last.
    real : int64 array of shape (queries,)
        Items that are not padding.
    shared : bool
        Whether items of equal labels have one denominator.
    """
    for q in range(first, last):
        items = order[q, : real[q]]
        s = scores[q][items]
        y = labels[q][items]
        n = s.size
        if not np.isfinite(s).all():
            losses[q] = np.nan
            gradients[q][items] = np.nan
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
