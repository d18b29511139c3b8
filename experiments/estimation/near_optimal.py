"""How often the box of near-optimal settings holds the best setting of the topics that a sample comes from.

    python -m experiments.estimation.near_optimal ../shared/data/{cranfield,npl,med,cacm} --topics 25 50 100

A collection's topics are taken for all there are, and the grid point with their best mean for the best
setting. Of samples of topics, drawn with replacement, the grid's best is what one would recommend; the
columns are how often the best setting of all is not significantly worse than it on the sample (``kept``), how
often it lies in the box of `near_optimal`, what share of the grid the box is, and how far below the best of
all the sample's best and the worst point of the box lie on all topics, in the mean. On the samples' own
topics nothing is chosen but the recommended setting: a region of 95% would keep the best in 95% of them.
Both parameters are to be free.
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
    """Count how often the box holds the best setting.

    Parameters
    ----------
    collections : tuple of str
        collections, as lmtune.load takes them
    model : str
        a model of two parameters
    measure : str
        the measure
    grid : tuple of int
        points along each parameter
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
    """Return a row a sample size."""
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
