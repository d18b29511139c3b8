"""Bounds over unjudged documents with fewer and fewer judgments: width and coverage.

    python -m experiments.judges.thinning QRELS RUNS_FOLDER [--measures AP,P@10,nDCG@10]

Columns for each random part of the judgments:

- mean width of the runs' bounds, and Judged@10
- how often the value with all judgments (other documents not relevant) is within the bounds
- number of pairs of runs with a certain sign of the difference
- mean distance over runs to AP with all judgments, of AP and of infAP with the part
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.common import Results, main
from experiments.judges.reading import thinned
from lmtune.io.qrels import read_qrels
from lmtune.measures.from_files import EvaluationOptions, evaluate
from lmtune.measures.residual_bounds import difference_bounds, residuals
from lmtune.measures.significance.comparison import run_labels

QUICK = {"most": 3, "measures": ("AP",)}
PARTS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)


def experiment(
    *,
    qrels: str,
    runs: str,
    measures: tuple[str, ...] = ("AP", "P@10", "nDCG@10"),
    depth: int = 100,
    most: int = 8,
) -> Results:
    """Compute bounds from parts of the judgments, and compare them with all judgments.

    Parameters
    ----------
    qrels : str
        judgments
    runs : str
        a folder of runs
    measures : tuple of str
        the measures
    depth : int
        evaluation depth of the runs
    most : int
        maximum number of runs
    """
    paths = sorted(Path(runs).iterdir())[:most]
    labelled = dict(zip(run_labels(paths), paths, strict=True))
    whole, settings = read_qrels(Path(qrels)), EvaluationOptions(complete=True, depth=depth)
    truth = evaluate(whole, labelled, measures, settings=settings)
    pairs = list(combinations(labelled, 2))
    rows, estimates = [], []
    for part in PARTS:
        kept = thinned(whole, part)
        sampled = {t: {d: kept[t].get(d, -1) for d in own} for t, own in whole.items()}
        found = evaluate(sampled, labelled, ["AP", "infAP"], settings=settings)
        gaps = (found.sub(truth["AP"], axis=0)).abs().mean()
        estimates.append({"judgments": part, "AP": gaps["AP"], "infAP": gaps["infAP"]})
        frame = residuals(kept, labelled, measures, settings=settings)
        bounds = difference_bounds(kept, labelled, pairs, measures, settings)
        for m, measure in enumerate(measures):
            own = frame.xs(measure, level="measure")
            real = truth[measure].loc[own.index]
            within = (own["lowest"] <= real + 1e-12) & (real <= own["highest"] + 1e-12)
            certain = np.mean([not low <= 0.0 <= high for low, high in (bounds[pair][m] for pair in pairs)])
            row = {"judgments": part, "measure": measure, "judged@10": own["judged@10"].mean()}
            row["width"] = (own["highest"] - own["lowest"]).mean()
            rows.append({**row, "within": within.mean(), "certain signs": certain})
    return {"bounds": pd.DataFrame(rows), "distances": pd.DataFrame(estimates)}


if __name__ == "__main__":
    main(__spec__)
