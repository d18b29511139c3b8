"""Error rates of a gate that compares a new run with a baseline, on archives of runs.

    python -m experiments.estimation.gates robust04_runs trec_dl21_runs trec_covid_round1 pydocs

Archives and their populations are those of `experiments.estimation.corrections`. Each draw takes pairs of
runs and shifts the second one of each pair to a true difference from the first, in the population. Then it
draws topics with replacement, and applies each rule to all pairs: a gate with one requirement a pair. The
difference is in units of the margin. Pairs are of neighbours: the second run has one of the next means below
or above the first one's, as a changed system has.

Rules: ``observed`` requires an observed difference of at least minus the margin; the others require a lower
bound above it, with this correction.

Columns of ``gates``:

- ``requirements``, ``difference``: the number of pairs, which all have this true difference
- one a rule: how often the gate passes. With a difference of 0 or more a failure is a false alarm; with minus
  1 or less a pass is a miss.
- ``deviation``: the median standard deviation of a pair's differences by topic
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from experiments.common import Results, each, gather, main
from experiments.datasets import short_name
from experiments.estimation.corrections import archive_values
from lmtune.measures.significance.tests import LEVEL

QUICK = {"draws": 10, "topics": (25,), "grid": (4, 4)}
DIFFERENCES = (1.0, 0.0, -0.5, -1.0, -2.0)
"""True differences, in margins: better, equal, worse within the margin, at its limit, and beyond."""

Values = NDArray[np.float64]


def experiment(
    *,
    archives: tuple[str, ...],
    measure: str = "nDCG@10",
    topics: tuple[int, ...] = (25, 50, 200),
    margins: tuple[float, ...] = (0.01, 0.02, 0.05),
    requirements: tuple[int, ...] = (1, 4),
    neighbours: int = 5,
    draws: int = 2000,
    grid: tuple[int, ...] = (6, 6),
    seed: int = 0,
) -> Results:
    """Estimate how often each rule fails and passes.

    Parameters
    ----------
    archives : tuple of str
        folders with qrels* and runs, or collections for lmtune.load
    measure : str
        the measure
    topics : tuple of int
        numbers of topics in a draw, with replacement
    margins : tuple of float
        margins, in the unit of the measure
    requirements : tuple of int
        numbers of pairs in a gate
    neighbours : int
        the second run has at most this distance in the order of means
    draws : int
        number of draws for each archive, number of topics and number of pairs
    grid : tuple of int
        grid points along each parameter of BM25 and two-stage smoothing, for collections
    seed : int
        seed of the draws
    """
    shared: dict[str, Any] = {
        "measure": measure,
        "margins": margins,
        "requirements": requirements,
        "grid": grid,
    }
    shared |= {"neighbours": neighbours, "draws": draws, "seed": seed}
    cells = [{"archive": archive, "topics": size, **shared} for archive in archives for size in topics]
    return gather(each(examine, cells))


def examine(
    *,
    archive: str,
    topics: int,
    measure: str,
    margins: tuple[float, ...],
    requirements: tuple[int, ...],
    neighbours: int,
    draws: int,
    grid: tuple[int, ...],
    seed: int,
) -> dict[str, Any]:
    """Return the rows of ``gates`` for an archive and a number of topics."""
    values = archive_values(archive, measure, grid)
    values = values[:, np.argsort(values.mean(axis=0))]
    rows = []
    for pairs in requirements:
        rng = np.random.default_rng(seed)
        drawn = np.stack([draw_differences(values, rng, topics, pairs, neighbours) for _ in range(draws)])
        deviation = float(np.median(drawn.std(axis=1, ddof=1)))
        for margin in margins:
            for units in DIFFERENCES:
                row: dict[str, Any] = {"archive": short_name(archive), "topics": topics, "margin": margin}
                row |= {"requirements": pairs, "difference": units, "deviation": deviation}
                passed = rules(drawn + units * margin, margin)
                rows.append(row | {rule: float(is_met.mean()) for rule, is_met in passed.items()})
    return {"gates": rows}


def draw_differences(
    values: Values, rng: np.random.Generator, topics: int, pairs: int, neighbours: int
) -> Values:
    """Return differences by topic of pairs of runs whose true difference is 0, shape (topics, pairs).

    Columns of `values` are in the order of their means.
    """
    first = rng.integers(values.shape[1], size=pairs)
    steps = rng.integers(1, neighbours + 1, size=pairs) * rng.choice([-1, 1], size=pairs)
    second = first + steps
    second = np.where((second < 0) | (second >= values.shape[1]), first - steps, second)
    differences = values[:, second] - values[:, first]
    differences -= differences.mean(axis=0)
    return np.asarray(differences[rng.integers(len(values), size=topics)])


def rules(differences: Values, margin: float) -> dict[str, NDArray[np.bool_]]:
    """Return by each rule whether gates pass; `differences` has shape (gates, topics, pairs)."""
    topics, pairs = differences.shape[1:]
    means, errors = differences.mean(axis=1), differences.std(axis=1, ddof=1) / np.sqrt(topics)
    with np.errstate(divide="ignore", invalid="ignore"):  # equal runs; NaN at the limit does not pass
        p = np.sort(stdtr(topics - 1, -(means + margin) / errors), axis=1)
    factors = {"none": 1, "Holm": np.arange(pairs, 0, -1), "Bonferroni": pairs}
    passed = {name: (p * factor < LEVEL).all(axis=1) for name, factor in factors.items()}
    return {"observed": (means >= -margin).all(axis=1)} | passed


if __name__ == "__main__":
    main(__spec__)
