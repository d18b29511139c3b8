"""Kernel input: queries with items by falling label, ranks by score, and tables of rank discounts."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Floats, Integers
from lmtune.compiled import compiled

Measure = Literal["ndcg", "mrr", "precision", "arp"]
"""Measures for weights of swaps: NDCG, MRR, precision, average relevance position."""


def discount_table(items: int, k: int | None, measure: Measure = "ndcg") -> NDArray[np.float64]:
    """Return the discounts of ranks and half ranks, shape (2 items + 1,).

    Index 2 r has the discount of rank r: 1 / log2(1 + r), for MRR 1 / r, for precision 1 / k; 0 beyond k.
    Index 0 is arbitrary.
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
    """Return mu (D(d) - D(d + 1)) for rank distances d, at index 2 d; shape (2 items + 1,).

    Indices below 2 are arbitrary: the ranks of items with different labels differ by at least 1.
    """
    table = discount_table(items + 1, None)
    return mu * (table[:-2] - table[2:])


class ByLabel(NamedTuple):
    """Lists of items with their order by falling label.

    Attributes
    ----------
    scores, labels : arrays of shape (queries, items)
        Of the same floating-point type.
    order : int64 array of shape (queries, items)
        Indices of each query's items by falling label, padding last.
    real : int64 array of shape (queries,)
        Number of items without padding.
    """

    scores: Floats
    labels: Floats
    order: Integers
    real: Integers


@compiled()
def mark_nonfinite(s: Floats, items: Integers, q: int, losses: Floats, gradients: Floats) -> bool:
    """Return whether a score is not finite; if so, set query q's loss and gradient to NaN."""
    if np.isfinite(s).all():
        return False
    losses[q] = np.nan
    gradients[q][items] = np.nan
    return True


@compiled()
def first_below(labels: Floats) -> Integers:
    """For falling labels, return for each item the index of the first item with a lower label."""
    n = labels.size
    indices = np.empty(n, np.int64)
    first = n
    for i in range(n - 1, -1, -1):
        if i + 1 < n and labels[i + 1] < labels[i]:
            first = i + 1
        indices[i] = first
    return indices


@compiled()
def doubled_ranks(scores: Floats, labels: Floats, by_score: Integers) -> NDArray[np.int32]:
    """Rank items by falling score, then rising label; ties get their mean rank.

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
        Twice the ranks; ranks start at 1.
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
        # Labels fall with the index, so sorting indices downwards sorts labels upwards.
        tied = -np.sort(-by_score[start:stop])
        first = 0
        while first < tied.size:
            last = first
            while last + 1 < tied.size and labels[tied[last + 1]] == labels[tied[first]]:
                last += 1
            for k in range(first, last + 1):
                doubled[tied[k]] = 2 * start + first + last + 2
            first = last + 1
        start = stop
    return doubled
