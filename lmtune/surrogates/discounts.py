"""Discounts of ranks as tables, halves of ranks included, since ties share the mean of their places."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
