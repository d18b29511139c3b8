"""Ranks by counting, by pairs and by buckets, against sorting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from lmtune.measures.kernels import allocate_buckets, count_all_above

SCORES: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "products": lambda rng, size: np.exp(rng.normal(0.0, 40.0, size)),
    "logarithms": lambda rng, size: rng.normal(-10.0, 3.0, size),
    "both signs, huge": lambda rng, size: (
        rng.choice([-1.0, 1.0], size) * np.exp(rng.uniform(-740, 709, size))
    ),
    "ties": lambda rng, size: rng.integers(0, 7, size) / 3.0,
    "neighbours": lambda rng, size: 1.0 + np.spacing(1.0) * rng.integers(0, 4, size),
    "zeros": lambda rng, size: rng.choice([-0.0, 0.0, 5e-324, -5e-324, 1.0], size),
    "no match": lambda rng, size: rng.choice([-np.inf, -1.0, np.inf], size),
    "all equal": lambda rng, size: np.full(size, rng.random()),
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize(("documents", "relevant", "judged"), [(9, 3, 2), (200, 60, 40), (5000, 90, 700)])
def test_counts_are_those_of_a_sort(kind: str, documents: int, relevant: int, judged: int) -> None:
    rng = np.random.default_rng(documents)
    for _ in range(5):
        score = SCORES[kind](rng, documents)
        chosen = rng.permutation(documents)[: relevant + judged]
        positions, others = np.sort(chosen[:relevant]), np.sort(chosen[relevant:])
        ranks = np.empty(documents, np.int64)
        ranks[np.argsort(-score, kind="stable")] = np.arange(documents)
        above, others_above = np.empty(relevant, np.int64), np.empty(relevant, np.int64)
        room = allocate_buckets(documents, relevant)
        assert bool(room.of.size) == (relevant > 24)
        count_all_above(score, positions, others, room, above, others_above)
        assert (above == ranks[positions]).all()
        assert (others_above == (ranks[others] < ranks[positions, None]).sum(axis=1)).all()
        assert sorted(room.order.tolist()) == list(range(relevant))
