"""Compare the mean of fits to resampled topics with Direct, by number of training topics.

    python -m experiments.bagging pubmedqa trecqa --output results/bagging

The protocol is docs/protocols/bagging.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import Results, each, gather, main
from experiments.datasets import load_pool, short_name, usable_topics
from experiments.methods import disjoint_sets
from lmtune.candidates.pool import CandidatePool
from lmtune.measures import parse_measure
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.significance.tests import randomization_test
from lmtune.tuning.bagging import bagged_setting
from lmtune.tuning.direct import CoordinateAscent, KnownValues, Surface, climb_together
from lmtune.tuning.experiment.result import DEFAULT, DIRECT
from lmtune.tuning.space import ParameterSpace

QUICK = {"sizes": (5,), "draws": 3, "grid": (6, 6), "most": 40}
FEWEST = 20
"""The minimum number of test topics."""
BAGGED, GRID = "Bagged", "Grid"
ASCENTS, RESTARTS = 3, 2
LEVEL, LOWEST = 0.05, -0.005


def experiment(
    *,
    collections: tuple[str, ...],
    models: tuple[str, ...] = ("bm25", "two-stage"),
    measure: str = "AP",
    grid: tuple[int, ...] = (20, 26),
    sizes: tuple[int, ...] = (5, 10, 20, 50),
    draws: int = 40,
    most: int = 400,
) -> Results:
    """Fit by bagging, by the grid and by Direct on training sets; measure the settings on all other topics.

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
    sizes : tuple of int
        numbers of training topics; 20 test topics must be left
    draws : int
        training sets of each size
    most : int
        number of topics to draw from collections with more
    """
    common = {"measure": measure, "grid": grid, "sizes": sizes, "draws": draws, "most": most}
    calls = [{**common, "collection": c, "model": model} for c, model in product(collections, models)]
    fits = gather(each(examine, calls))["fits"]
    keys = ["collection", "model", "size"]
    means = fits.groupby([*keys, "method"], sort=False)["test"].mean().unstack().reset_index()
    return {"fits": fits, "means": means, "answer": answer(means)}


def examine(
    *,
    collection: str,
    model: str,
    measure: str,
    grid: tuple[int, ...],
    sizes: tuple[int, ...],
    draws: int,
    most: int,
) -> dict[str, list[dict[str, Any]]]:
    """Return a row for each training set and method."""
    judged_by = parse_measure(measure)
    topics = most if len(usable_topics(collection)) > most else 0
    pool = load_pool(collection, model=model, topics=topics)
    space = ParameterSpace.of(pool.formula)
    surface = Surface.compute(pool, [judged_by], space=space, shape=grid)
    known = KnownValues.from_surface(surface, pool, [judged_by], DEPTH)
    rows = []
    for size in (size for size in sizes if size <= len(pool.topics) - FEWEST):
        sets = list(disjoint_sets(pool.topics, size, draws, seed=0))
        chosen = [_settings(surface, known, space, subset) for subset in sets]
        tried = np.array([setting for settings in chosen for setting in settings.values()])
        values = measure_settings(pool, tried, [judged_by])[:, :, 0]
        names = [(number, name) for number, settings in enumerate(chosen) for name in settings]
        for (number, name), setting, by_topic in zip(names, tried, values.T, strict=True):
            train = pool.positions(sets[number])
            test = np.setdiff1d(pool.positions(), train)
            means = {"train": float(by_topic[train].mean()), "test": float(by_topic[test].mean())}
            rows.append(
                {"collection": short_name(collection), "model": model, "size": size, "set": number}
                | {"method": name, **means, "setting": " ".join(f"{value:.6g}" for value in setting)}
            )
    return {"fits": rows}


def _settings(
    surface: Surface, known: KnownValues, space: ParameterSpace, subset: Sequence[str]
) -> dict[str, Any]:
    """Return the settings of all methods on training topics."""
    pool: CandidatePool = known.pool
    [measure], train = known.measures, pool.positions(subset)
    rows = surface.best(measure, train, ASCENTS)
    starts = [surface.setting(row) for row in rows]
    ascent = CoordinateAscent(measure, space=space, starts=starts, restarts=RESTARTS)
    climb_together([ascent], known, topics=subset)
    return {
        DEFAULT: space.vector({}),
        GRID: surface.settings[rows[0]],
        DIRECT: space.vector(ascent.best_params_),
        BAGGED: bagged_setting(surface, measure, train, space),
    }


def answer(means: pd.DataFrame) -> pd.DataFrame:
    """Apply the protocol's rule to each size: mean, sign-flip test, lowest difference over collections."""
    rows = []
    for other in (DIRECT, GRID, DEFAULT):
        gains = means.assign(gain=means[BAGGED] - means[other])
        parts = {"both": gains} | {str(name): part for name, part in gains.groupby("model", sort=False)}
        for (name, part), size in product(parts.items(), sorted(means["size"].unique())):
            own = part[part["size"] == size].groupby("collection", sort=False)["gain"].mean()
            p = randomization_test(own.to_numpy(), 0.0, "greater").p_value
            figures = {"mean": own.mean(), "p": p, "lowest": own.min(), "above": int((own > 0.0).sum())}
            passes = own.mean() > 0.0 and p < LEVEL and own.min() >= LOWEST
            rows.append(
                {"against": other, "model": name, "size": size, "collections": len(own)}
                | {**figures, "passes": passes}
            )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main(__spec__)
