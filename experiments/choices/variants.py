"""Does it matter which BM25 is meant? Each variant at its own best setting, on all topics.

    python -m experiments.choices.variants ../shared/data/cranfield ../shared/data/cacm ... --measure AP

A row is a collection and a variant: the highest mean, by how much it may fall short of the best of all
settings (proven; nothing where no proof is known), the setting, the difference from Lucene's with a paired
t-test, corrected by Holm over all rows, and that where both have the usual k1 = 1.2, b = .75.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from lmtune.candidates.pool import CandidatePool
from lmtune.collections.loading import load
from lmtune.errors import InputError
from lmtune.index.cache import index_for
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measure
from lmtune.models.bm25 import PREFIX, VARIANTS
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.direct import CoordinateAscent, GridSearch

REFERENCE, USUAL = "lucene", {"k1": 1.2, "b": 0.75}
ASCENTS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--measure", type=parse_measure, default="AP")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--grid", type=int, nargs=2, default=[20, 26])
    options = parser.parse_args()
    begin, rows = time.process_time(), []
    for name in options.collections:
        collection = load(name)
        assert collection.documents is not None
        index = index_for(collection.documents)
        best: dict[str, np.ndarray] = {}
        usual: dict[str, np.ndarray] = {}
        for variant in VARIANTS:
            pool = CandidatePool.build(index, collection.topics, collection.qrels, model=PREFIX + variant)
            setting, gap = fitted(pool, options.measure, options.tolerance, tuple(options.grid))
            best[variant], usual[variant] = (
                measure_settings(pool, own, [options.measure])[:, 0, 0] for own in (setting, USUAL)
            )
            row = {
                "collection": collection.name,
                "variant": variant,
                "mean": best[variant].mean(),
                "gap": gap,
            }
            difference = best[variant] - best[REFERENCE]
            p = stats.ttest_1samp(difference, 0.0).pvalue if difference.any() else np.nan
            row |= {**setting, "difference": difference.mean(), "p": p}
            rows.append(row | {"as usual": (usual[variant] - usual[REFERENCE]).mean()})
    table = pd.DataFrame(rows)
    tested = table["p"].notna()
    if tested.any():
        table.loc[tested, "p"] = multipletests(table.loc[tested, "p"], method="holm")[1]
    print(table.to_string(index=False, float_format="{:.4f}".format))
    print(f"{time.process_time() - begin:.0f} CPU s")


def fitted(
    pool: CandidatePool, measure: Measure, tolerance: float, grid: tuple[int, ...]
) -> tuple[dict[str, float], float]:
    """Return the best setting, and by how much at most it falls short of the best of all, where known."""
    try:
        proof = CertifiedOptimum(measure, tolerance=tolerance).fit(pool)
        return dict(proof.best_params_), proof.bound_ - proof.best_value_
    except InputError:
        points = GridSearch(measure, shape=grid).fit(pool)
        names = list(points.best_params_)
        first = points.results_.sort_values(str(measure), ascending=False, kind="stable").head(ASCENTS)
        starts = [dict(zip(names, row, strict=True)) for row in first[names].to_numpy().tolist()]
        return dict(CoordinateAscent(measure, starts=starts).fit(pool).best_params_), np.nan


if __name__ == "__main__":
    main()
