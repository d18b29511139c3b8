"""Compare the variants of BM25, each at its own best setting, on all topics.

    python -m experiments.choices.variants ../shared/data/cranfield ../shared/data/cacm ... --measure AP

There is a row for each collection and variant:

- the highest mean, and the proven distance to the best possible mean (blank without a proof)
- the setting
- the difference from Lucene's variant, with a paired t-test and Holm's correction over all rows
- the same difference with k1 = 1.2, b = 0.75 for both
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from experiments.common import Results, each, main
from lmtune import CandidatePool, CertifiedOptimum, CoordinateAscent, GridSearch, InputError, index_for, load
from lmtune.measures import Measure, parse_measure
from lmtune.measures.evaluate import measure_settings
from lmtune.models.bm25 import BM25_PREFIX, VARIANTS

QUICK = {"grid": (8, 8), "tolerance": 0.01}
USUAL = {"k1": 1.2, "b": 0.75}
ASCENTS = 3


def experiment(
    *,
    collections: tuple[str, ...],
    measure: str = "AP",
    tolerance: float = 1e-3,
    grid: tuple[int, ...] = (20, 26),
) -> Results:
    """Compare the variants of BM25 at their best settings.

    Parameters
    ----------
    collections : tuple of str
        collections: names or paths for lmtune.load
    measure : str
        the measure
    tolerance : float
        tolerance of the certificates
    grid : tuple of int
        grid points along each parameter, for variants without a proof
    """
    common = {"measure": measure, "tolerance": tolerance, "grid": grid}
    rows = each(compare, [{**common, "collection": name} for name in collections])
    table = pd.DataFrame([row for own in rows for row in own])
    tested = table["p"].notna()
    if tested.any():
        table.loc[tested, "p"] = multipletests(table.loc[tested, "p"], method="holm")[1]
    return {"variants": table}


def compare(
    *, collection: str, measure: str, tolerance: float, grid: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Return a row for each variant, with uncorrected p-values."""
    data, judged_by, rows = load(collection), parse_measure(measure), []
    assert data.documents is not None
    index = index_for(data.documents)
    reference: list[Any] = []  # the first is Lucene's
    for variant in VARIANTS:
        pool = CandidatePool.build(index, data.topics, data.qrels, model=BM25_PREFIX + variant)
        setting, gap = fitted(pool, judged_by, tolerance, grid)
        values = [measure_settings(pool, own, [judged_by])[:, 0, 0] for own in (setting, USUAL)]
        reference = reference or values
        difference, as_usual = (own - first for own, first in zip(values, reference, strict=True))
        p = stats.ttest_1samp(difference, 0.0).pvalue if difference.any() else np.nan
        row = {"collection": data.name, "variant": variant, "mean": values[0].mean(), "gap": gap}
        row |= {**setting, "difference": difference.mean(), "p": p}
        rows.append(row | {"as usual": as_usual.mean()})
    return rows


def fitted(
    pool: CandidatePool, measure: Measure, tolerance: float, grid: tuple[int, ...]
) -> tuple[dict[str, float], float]:
    """Return the best setting, and a proven bound of its distance to the best mean if there is one."""
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
    main(__spec__)
