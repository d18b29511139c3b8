"""How often the near-optimal region's claim is true, and how large the region is.

    python -m experiments.estimation.near_optimal pydocs ../shared/data/{cranfield,npl,wikiqa}

All topics of a collection are the population; the true loss of a grid point is its distance to the best
grid point on all topics. Samples of topics are drawn with replacement. Columns are shares or means over the
samples:

- ``covered``: no bound of `loss_bounds` is below the true loss
- ``true``: all settings in the region are truly within the margin of the best one (an empty region counts)
- ``empty``: no setting is in the region
- ``share``: the region's share of the grid where it is not empty
- ``bound``, ``loss``: the smallest bound, and the true loss of its setting
- ``best_loss``: the true loss of the setting with the highest mean on the sample
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from experiments.common import Results, each, gather, main
from experiments.datasets import load_pool, short_name
from lmtune.measures import parse_measure
from lmtune.measures.significance.near_best import MARGIN, loss_bounds
from lmtune.tuning.direct import Surface
from lmtune.tuning.space import ParameterSpace

QUICK = {"grid": (8, 8), "samples": 20}
COLUMNS = ("covered", "true", "empty", "bound", "loss", "best_loss")
# A true loss may exceed its bound by rounding.
_ROUNDING = 1e-9


def experiment(
    *,
    collections: tuple[str, ...],
    models: tuple[str, ...] = ("bm25", "two-stage"),
    measure: str = "AP",
    grid: tuple[int, ...] = (20, 26),
    topics: tuple[int, ...] = (20, 50, 100, 200),
    samples: int = 200,
    margin: float = MARGIN,
) -> Results:
    """Count how often the region's claim is true.

    Parameters
    ----------
    collections : tuple of str
        collections: names or paths for lmtune.load
    models : tuple of str
        models of two parameters
    measure : str
        the measure
    grid : tuple of int
        grid points along each parameter
    topics : tuple of int
        sizes of the samples
    samples : int
        samples of each size
    margin : float
        the margin
    """
    common = {"measure": measure, "grid": grid, "sizes": topics, "samples": samples, "margin": margin}
    cases = product(collections, models)
    return gather(each(examine, [{**common, "collection": name, "model": model} for name, model in cases]))


def examine(
    *,
    collection: str,
    model: str,
    measure: str,
    grid: tuple[int, ...],
    sizes: tuple[int, ...],
    samples: int,
    margin: float,
) -> dict[str, Any]:
    """Return a row for each sample size."""
    pool, judged_by = load_pool(collection, model=model), parse_measure(measure)
    surface = Surface.compute(pool, [judged_by], space=ParameterSpace.of(pool.formula), shape=grid)
    values = surface.values[:, :, 0]
    means = values.mean(axis=0)
    losses = means.max() - means
    rng, found = np.random.default_rng(0), []
    for size in sizes:
        rows, shares = [], []
        for _ in range(samples):
            sample = values[rng.integers(len(values), size=size)]
            bounds = loss_bounds(sample)
            near, first = bounds <= margin, int(bounds.argmin())
            shares.append(near.mean() if near.any() else np.nan)
            covered = (losses <= bounds + _ROUNDING).all()
            true = (losses[near] <= margin + _ROUNDING).all()
            chosen = losses[first], losses[sample.mean(axis=0).argmax()]
            rows.append((covered, true, not near.any(), bounds[first], *chosen))
        row = dict(zip(COLUMNS, np.mean(rows, axis=0).tolist(), strict=True))
        share = float(np.nanmean(shares)) if not np.isnan(shares).all() else np.nan
        keys = {"collection": short_name(collection), "topics": len(values), "model": model, "sample": size}
        found.append(keys | row | {"share": share})
    return {"regions": found}


if __name__ == "__main__":
    main(__spec__)
