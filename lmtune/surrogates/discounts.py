"""Discounts of ranks as tables, halves of ranks included, since ties share the mean of their places."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def discount_table(items: int, k: int | None) -> NDArray[np.float64]:
    """Return 1 / log2(1 + r) at index 2 r for ranks r up to `items`, halves included; 0 beyond k.

    Of shape (2 items + 1,). Index 0 means nothing.
    """
    ranks = np.arange(2 * items + 1) / 2
    ranks[0] = 1
    table = 1 / np.log2(1 + ranks)
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
