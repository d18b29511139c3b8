"""Small learning-to-rank data with something to learn."""

from __future__ import annotations

import numpy as np

from lmtune.rerank.data import RankingData


def made_lists(
    seed: int, *, queries: int = 24, features: int = 6, longest: int = 12, empty: float = 0.0
) -> RankingData:
    """Make lists of 2 to `longest` items whose grades, 0 to 2, follow from two features.

    A share `empty` of the queries has no relevant item.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, longest + 1, queries)
    table = rng.normal(size=(int(lengths.sum()), features)).astype(np.float32)
    wanted = 1.5 * table[:, 0] - table[:, 1] ** 2 + 0.3 * rng.normal(size=len(table))
    labels = np.digitize(wanted, [0.0, 1.2]).astype(np.float32)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    for q in range(queries):
        rows = slice(starts[q], starts[q + 1])
        if q < empty * queries:
            labels[rows] = 0.0
        elif not labels[rows].any():
            labels[starts[q]] = 1.0
    return RankingData.from_lengths(table, labels, lengths, queries=[f"{seed}-{q}" for q in range(queries)])
