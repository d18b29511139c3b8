"""Bounds over unjudged documents as judgements are thinned out: width, and how often they hold the truth.

    python -m experiments.judges.thinning QRELS RUNS_FOLDER [--measures AP,P@10,nDCG@10]

Of each part of the judgements, drawn pair by pair: the mean width of runs' bounds, Judged@10, how often the
truth (all judgements, the rest not relevant) is within the bounds, and of how many pairs of runs the sign of
the difference is certain. Then, as means over runs: how far AP by the part, and infAP, which takes it for a
sample of the judgements, are from AP by all.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np

from lmtune.io.qrels import read_qrels
from lmtune.measures.from_files import EvaluationOptions, evaluate
from lmtune.measures.residual_bounds import difference_bounds, residuals
from lmtune.measures.significance.comparison import run_labels

PARTS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("qrels", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--measures", default="AP,P@10,nDCG@10")
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--most", type=int, default=8, help="runs")
    options = parser.parse_args()
    paths = sorted(options.runs.iterdir())[: options.most]
    runs = dict(zip(run_labels(paths), paths, strict=True))
    measures = options.measures.split(",")
    whole = read_qrels(options.qrels)
    settings = EvaluationOptions(complete=True, depth=options.depth)
    truth = evaluate(whole, runs, measures, settings=settings)
    pairs = list(combinations(runs, 2))
    rng = np.random.default_rng(0)
    order = {t: {d: rng.random() for d in own} for t, own in whole.items()}
    print(
        "| judgements | measure | judged@10 | width | truth within | certain signs |\n| ---: | --- |"
        + " ---: |" * 4
    )
    estimates = []
    for part in PARTS:
        # A topic keeps one document at least: without it would not be judged.
        kept = {
            t: {d: g for d, g in own.items() if order[t][d] <= max(part, min(order[t].values()))}
            for t, own in whole.items()
        }
        sampled = {t: {d: kept[t].get(d, -1) for d in own} for t, own in whole.items()}
        found = evaluate(sampled, runs, ["AP", "infAP"], settings=settings)
        gaps = (found.sub(truth["AP"], axis=0)).abs().mean()
        estimates.append(f"| {100 * part:g} % | {gaps['AP']:.4f} | {gaps['infAP']:.4f} |")
        frame = residuals(kept, runs, measures, settings=settings)
        bounds = difference_bounds(kept, runs, pairs, measures, settings)
        for m, measure in enumerate(measures):
            own = frame.xs(measure, level="measure")
            real = truth[measure].loc[own.index]
            within = (own["lowest"] <= real + 1e-12) & (real <= own["highest"] + 1e-12)
            certain = np.mean([not low <= 0.0 <= high for low, high in (bounds[pair][m] for pair in pairs)])
            width = (own["highest"] - own["lowest"]).mean()
            print(
                f"| {100 * part:g} % | {measure} | {own['judged@10'].mean():.3f} | {width:.3f} "
                f"| {100 * within.mean():.0f} % | {100 * certain:.0f} % |"
            )
    print("\n| judgements | AP: distance | infAP: distance |\n| ---: | ---: | ---: |")
    print("\n".join(estimates))


if __name__ == "__main__":
    main()
