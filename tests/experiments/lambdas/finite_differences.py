"""Finite differences of NDCG in the scores as lambdas, which Yue and Burges (2007, 5.3) tried.

    lmtune rerank train LETOR_DIR --loss lambdas:tests/laboratory/lambdas/finite_differences.py:ndcg_slopes \
        --output model
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
STEP = 0.1


def ndcg_slopes(scores: Array, labels: Array) -> Array:
    """Return (NDCG(s + c e_i) - NDCG(s - c e_i)) / 2c of each score, c = 0.1, gains 2^y - 1."""
    if not labels.any():
        return np.zeros(scores.size)
    moved = scores + STEP * np.stack([np.eye(scores.size), -np.eye(scores.size)])
    order = np.argsort(-moved, axis=-1, kind="stable")
    discounts = 1.0 / np.log2(np.arange(2, scores.size + 2))
    up, down = ((2.0 ** labels[order]) - 1.0) @ discounts
    best = ((2.0 ** -np.sort(-labels)) - 1.0) @ discounts
    slopes: Array = (up - down) / (2.0 * STEP * best)
    return slopes
