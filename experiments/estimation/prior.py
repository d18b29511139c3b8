"""A setting learnt on other collections, for a collection without judgments.

    python -m experiments.estimation.prior ../shared/data/cranfield ../shared/data/cacm ... pydocs

Each collection is held out. The setting has the highest mean over the other collections of the measure
divided by its maximum there. The last rows compare it with common settings over all collections: difference,
90% interval and one-sided p-value of Student's t. See experiments/estimation/PROTOCOL.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from experiments.common import Results, main
from experiments.datasets import load_pool, short_name
from lmtune.measures import parse_measure
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.significance.tests import mean_interval
from lmtune.tuning.direct import Surface
from lmtune.tuning.space import ParameterSpace

QUICK = {"grid": (8, 8)}
USUAL: dict[str, dict[str, tuple[float, float]]] = {
    "bm25": {"Anserini": (0.9, 0.4), "Lucene": (1.2, 0.75)},
    "two-stage": {"Anserini": (0.0, 1000.0)},
}


def experiment(
    *, collections: tuple[str, ...], measure: str = "AP", grid: tuple[int, ...] = (20, 26)
) -> Results:
    """Choose a setting on all collections but one, and evaluate it on that one.

    Parameters
    ----------
    collections : tuple of str
        collections: names or paths for lmtune.load
    measure : str
        the measure
    grid : tuple of int
        grid points along each parameter
    """
    judged_by = parse_measure(measure)
    results, differences = {}, []
    for model, usual in USUAL.items():
        means, known = {}, {}
        for name in collections:
            pool = load_pool(name, model=model)
            surface = Surface.compute(pool, [judged_by], space=ParameterSpace.of(pool.formula), shape=grid)
            means[short_name(name)] = surface.means(judged_by, pool.positions())
            values = measure_settings(pool, np.array(list(usual.values())), [judged_by])
            known[short_name(name)] = values[:, :, 0].mean(axis=0)
        rows = results[model] = pd.DataFrame(held_out(means, known, surface.settings, list(usual)))
        shares = np.mean([own / own.max() for own in means.values()], axis=0)
        setting = surface.settings[shares.argmax()].tolist()
        for name in usual:
            gains = (rows["learnt"] - rows[name]).to_numpy()
            low, high = mean_interval(gains, 0.0, 0.9)
            p = stats.ttest_1samp(gains, 0.0, alternative="greater").pvalue
            row = {"model": model, "setting of all": setting, "minus": name, "difference": gains.mean()}
            differences.append(row | {"low": low, "high": high, "p": p})
    return {**results, "differences": pd.DataFrame(differences)}


def held_out(means: Any, known: Any, settings: Any, usual: list[str]) -> list[dict[str, Any]]:
    """Return a row for each collection: the setting of the others, its mean, and those of common settings."""
    rows = []
    for name, own in means.items():
        others = [other / other.max() for key, other in means.items() if key != name]
        learnt = int(np.mean(others, axis=0).argmax())
        row = {"collection": name, "setting": settings[learnt].tolist(), "learnt": own[learnt]}
        rows.append({**row, **dict(zip(usual, known[name], strict=True)), "best": own.max()})
    return rows


if __name__ == "__main__":
    main(__spec__)
