"""Small runs with many ties, and their judgments."""

from __future__ import annotations

import numpy as np

from lmtune.fusion.runs import RunSet


def made(
    seed: int, *, topics: int = 5, runs: int = 2, docs: int = 14, levels: int = 6
) -> tuple[RunSet, dict[str, dict[str, int]]]:
    """Make runs of few different scores, so that many documents tie, also while they change places."""
    rng = np.random.default_rng(seed)
    names = [f"d{number:02}" for number in range(docs)]
    given = {
        f"r{run}": {
            str(topic): {d: float(rng.integers(levels)) for d in names if rng.random() < 0.8} or {"d00": 1.0}
            for topic in range(topics)
        }
        for run in range(runs)
    }
    judged = {
        str(topic): {d: int(rng.integers(-1, 4)) for d in names if rng.random() < 0.6} | {"d03": 2}
        for topic in range(topics)
    }
    return RunSet.of(given), judged
