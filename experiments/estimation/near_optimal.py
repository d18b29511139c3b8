"""How often the box of near-optimal settings contains the population's best setting.

    python -m experiments.estimation.near_optimal ../shared/data/{cranfield,npl,med,cacm} --topics 25 50 100

All topics of a collection are the population; the grid point with their best mean is the best setting.
Samples of topics are drawn with replacement, and the grid's best setting of a sample is recommended.
Columns:

- ``kept``: how often the best setting is not significantly worse than the recommended one on the sample; a
  95% region keeps it in 95% of the samples
- how often the best setting is in the box of `near_optimal`
- the box's share of the grid
- the mean distance to the best setting on all topics, of the recommended setting and of the box's worst point

Both parameters must be free.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.common import Results, each, gather, main
from experiments.datasets import load_pool, short_name
from lmtune.measures import paired_t_test, parse_measure
from lmtune.tuning.direct import Surface
from lmtune.tuning.experiment.result import SIGNIFICANCE
from lmtune.tuning.experiment.run import near_optimal
from lmtune.tuning.space import ParameterSpace

QUICK = {"grid": (8, 8), "samples": 20}
COLUMNS = ("kept", "in_box", "share_of_grid", "loss", "worst_in_box")


def experiment(
    *,
    collections: tuple[str, ...],
    model: str = "bm25",
    measure: str = "AP",
    grid: tuple[int, ...] = (20, 26),
    topics: tuple[int, ...] = (25, 50, 100),
    samples: int = 200,
) -> Results:
    """Count how often the box contains the best setting.

    Parameters
    ----------
    collections : tuple of str
        collections: names or paths for lmtune.load
    model : str
        a model of two parameters
    measure : str
        the measure
    grid : tuple of int
        grid points along each parameter
    topics : tuple of int
        sizes of the samples
    samples : int
        samples of each size
    """
    common = {"model": model, "measure": measure, "grid": grid, "sizes": topics, "samples": samples}
    return gather(each(examine, [{**common, "collection": name} for name in collections]))


def examine(
    *, collection: str, model: str, measure: str, grid: tuple[int, ...], sizes: tuple[int, ...], samples: int
) -> dict[str, Any]:
    """Return a row for each sample size."""
    pool, judged_by = load_pool(collection, model=model), parse_measure(measure)
    surface = Surface.compute(pool, [judged_by], space=ParameterSpace.of(pool.formula), shape=grid)
    values = surface.values[:, :, 0]
    means = values.mean(axis=0)
    best = int(means.argmax())
    rng, found = np.random.default_rng(0), []
    for size in sizes:
        rows = []
        for _ in range(samples):
            sample = rng.integers(len(values), size=size)
            chosen = int(values[sample].mean(axis=0).argmax())
            setting = surface.setting(chosen)
            own, other = values[sample, chosen], values[sample, best]
            kept = other.mean() >= own.mean() or not paired_t_test(other, own) < SIGNIFICANCE
            box = near_optimal(surface, judged_by, sample, setting, own)
            inside = np.arange(len(means)) == chosen
            if box:
                lows, highs = np.array([box[name] for name in surface.names]).T
                inside = ((surface.settings >= lows) & (surface.settings <= highs)).all(axis=1)
            loss = means[best] - means[chosen], means[best] - means[inside].min()
            rows.append((kept, inside[best], inside.mean(), *loss))
        row = {"collection": short_name(collection), "topics": len(values), "sample": size}
        found.append(row | dict(zip(COLUMNS, np.mean(rows, axis=0).tolist(), strict=True)))
    return {"boxes": found}


if __name__ == "__main__":
    main(__spec__)
