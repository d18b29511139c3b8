"""A setting learnt on other collections, for one without judgements: held out by collection.

    python -m experiments.estimation.prior ../shared/data/cranfield ../shared/data/cacm ... pydocs

For each collection the setting of the grid with the highest mean, over the others, of a measure divided by
its highest there, measured on that collection; below, over all collections, the difference to usual settings
with its 90% interval and one-sided p-value by Student's t. See experiments/estimation/PROTOCOL.md.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from experiments.datasets import load_pool, short_name
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.tests import mean_interval
from lmtune.tuning.direct import Surface
from lmtune.tuning.space import ParameterSpace

USUAL: dict[str, dict[str, tuple[float, float]]] = {
    "bm25": {"Anserini": (0.9, 0.4), "Lucene": (1.2, 0.75)},
    "two-stage": {"Anserini": (0.0, 1000.0)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--measure", default="AP")
    parser.add_argument("--grid", type=int, nargs=2, default=(20, 26))
    options = parser.parse_args()
    measure = parse_measure(options.measure)
    for model, usual in USUAL.items():
        means, known = {}, {}
        for name in options.collections:
            pool = load_pool(name, model=model)
            space = ParameterSpace.of(pool.formula)
            surface = Surface.compute(pool, [measure], space=space, shape=options.grid)
            means[short_name(name)] = surface.means(measure, pool.positions())
            values = measure_settings(pool, np.array(list(usual.values())), [measure])
            known[short_name(name)] = values[:, :, 0].mean(axis=0)
        rows = pd.DataFrame(held_out(means, known, surface.settings, list(usual)))
        print(f"{model}\n{rows.round(4).to_string(index=False)}")
        for name in usual:
            gains = (rows["learnt"] - rows[name]).to_numpy()
            low, high = mean_interval(gains, 0.0, 0.9)
            p = stats.ttest_1samp(gains, 0.0, alternative="greater").pvalue
            print(f"minus {name}: {gains.mean():+.4f} ({low:+.4f} to {high:+.4f}), p = {p:.4f}")
        shares = np.mean([own / own.max() for own in means.values()], axis=0)
        print(f"of all collections: {surface.settings[shares.argmax()]}\n")


def held_out(means: Any, known: Any, settings: Any, usual: list[str]) -> list[dict[str, Any]]:
    """Return a row a collection: the setting learnt on the others, its mean, usual settings' and the best."""
    rows = []
    for name, own in means.items():
        others = [other / other.max() for key, other in means.items() if key != name]
        learnt = int(np.mean(others, axis=0).argmax())
        row = {"collection": name, "setting": settings[learnt].tolist(), "learnt": own[learnt]}
        rows.append({**row, **dict(zip(usual, known[name], strict=True)), "best": own.max()})
    return rows


if __name__ == "__main__":
    main()
