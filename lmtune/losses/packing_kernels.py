"""A query's real items by falling label, their ranks by score, and discounts of ranks as tables."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Floats, Integers
from lmtune.compiled import compiled

Measure = Literal["ndcg", "mrr", "precision", "arp"]
"""What swaps change: NDCG, MRR, precision, the average relevance position."""


def discount_table(items: int, k: int | None, measure: Measure = "ndcg") -> NDArray[np.float64]:
    """Return each rank's discount at index 2 r for ranks r up to `items`, halves included; 0 beyond k.

    It is 1 / log2(1 + r), of MRR 1 / r, of precision 1 / k. Of shape (2 items + 1,). Index 0 means nothing.
    """
    ranks = np.arange(2 * items + 1) / 2
    ranks[0] = 1
    if measure == "precision":
        table = np.full(ranks.size, 1 / (k or items))
    else:
        table = 1 / (ranks if measure == "mrr" else np.log2(1 + ranks))
    if k is not None:
        table[ranks > k] = 0
    return table


def tightness_table(items: int, mu: float) -> NDArray[np.float64]:
    """Return mu (D(d) - D(d + 1)) at index 2 d for distances d of ranks up to `items`.

    Of shape (2 items + 1,). Indices below 2 mean nothing: items of different labels stand at least
    one rank apart.
    """
    table = discount_table(items + 1, None)
    return mu * (table[:-2] - table[2:])


class ByLabel(NamedTuple):
    """Queries whose items are taken by falling label.

    Attributes
    ----------
    scores, labels : arrays of shape (queries, items)
        Both of one floating-point type.
    order : int64 array of shape (queries, items)
        Each query's items by falling label, padding last.
    real : int64 array of shape (queries,)
        Items that are not padding.
    """

    scores: Floats
    labels: Floats
    order: Integers
    real: Integers


@compiled()
def spoiled(s: Floats, items: Integers, q: int, losses: Floats, gradients: Floats) -> bool:
    """Tell whether a score is not finite; if so, neither are query q's loss and gradient."""
    if np.isfinite(s).all():
        return False
    losses[q] = np.nan
    gradients[q][items] = np.nan
    return True


@compiled()
def below(labels: Floats) -> Integers:
    """For labels that fall, find the first place after each that has a lower label."""
    n = labels.size
    found = np.empty(n, np.int64)
    first = n
    for i in range(n - 1, -1, -1):
        if i + 1 < n and labels[i + 1] < labels[i]:
            first = i + 1
        found[i] = first
    return found


@compiled()
def doubled_ranks(scores: Floats, labels: Floats, by_score: Integers) -> NDArray[np.int32]:
    """Rank items by falling score, then rising label; equal ones share the mean of their places.

    Parameters
    ----------
    scores : float array of shape (items,)
    labels : float array of shape (items,)
        Falling.
    by_score : int64 array of shape (items,)
        The items by falling score, ties in any order.

    Returns
    -------
    int32 array of shape (items,)
        Twice the ranks, the first of which is 1.
    """
    n = scores.size
    doubled = np.empty(n, np.int32)
    start = 0
    while start < n:
        stop = start + 1
        while stop < n and scores[by_score[stop]] == scores[by_score[start]]:
            stop += 1
        if stop == start + 1:
            doubled[by_score[start]] = 2 * stop
            start = stop
            continue
        # Labels fall from item to item, so items in falling order have rising labels.
        tied = -np.sort(-by_score[start:stop])
        first = 0
        while first < tied.size:
            last = first
            while last + 1 < tied.size and labels[tied[last + 1]] == labels[tied[first]]:
                last += 1
            for place in range(first, last + 1):
                doubled[tied[place]] = 2 * start + first + last + 2
            first = last + 1
        start = stop
    return doubled
