"""A query's real items by falling label, and their ranks by score."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled

Floats = NDArray[np.floating[Any]]
Places = NDArray[np.int64]


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
    order: Places
    real: Places


@compiled()
def spoiled(s: Floats, items: Places, q: int, losses: Floats, gradients: Floats) -> bool:
    """Tell whether a score is not finite; if so, neither are query q's loss and gradient."""
    if np.isfinite(s).all():
        return False
    losses[q] = np.nan
    gradients[q][items] = np.nan
    return True


@compiled()
def below(labels: Floats) -> Places:
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
def doubled_ranks(scores: Floats, labels: Floats, by_score: Places) -> NDArray[np.int32]:
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


@compiled()
def ideal_dcg(gains: Floats, discounts: Floats) -> float:
    """Sum falling gains times the discounts of places; ``discounts[2 r]`` is that of rank r."""
    total = 0.0
    for i in range(gains.size):
        total += gains[i] * discounts[2 * (i + 1)]
    return total
