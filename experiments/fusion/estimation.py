"""Optimisation and estimation error of fusion weights: experiments/estimation/PROTOCOL.md, "Weights of runs".

    python -m experiments.fusion.estimation QRELS RUNS... --runs 3 6 --topics 5 10 20 40 80 > fits.tsv
    python -m experiments.fusion.estimation --summarise fits.tsv ...

Each draw takes random runs and topics, fits every method on them, certifies their best weights, and splits
the loss on all other topics into the two errors. There is a row for each draw and method; it begins with the
folder of the runs. ``--summarise`` prints the means of several tables, with Student's t.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from experiments.estimation.choices import OPTIMUM, parts_and_gaps
from lmtune.candidates.pool import CandidatePool
from lmtune.fusion.certificate import certify
from lmtune.fusion.fusing import judged_topics
from lmtune.fusion.methods import METHODS, Chosen, FusionOptions, fused_pool
from lmtune.fusion.runs import RunSet
from lmtune.fusion.search import Fitting
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measure
from lmtune.measures.significance.comparison import run_labels

FITTED = ("linear", "shrunk", "forward")
TIMES, TOLERANCE, FEWEST = 10.0, 1e-3, 20
KEYS = ["collection", "runs", "topics"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="judgments and runs; with --summarise: tables")
    parser.add_argument("--measure", type=parse_measure, default="nDCG@10")
    parser.add_argument("--runs", type=int, nargs="+", default=[3, 6])
    parser.add_argument("--topics", type=int, nargs="+", default=[5, 10, 20, 40, 80])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--boxes", type=int, default=4000, help="tolerance of the certificate")
    parser.add_argument("--summarise", action="store_true")
    options = parser.parse_args()
    if options.summarise:
        tables = pd.concat(pd.read_csv(file, sep="\t") for file in options.files)
        summarise(tables).to_csv(sys.stdout, sep="\t", index=False, float_format="%.4f")
        return
    qrels, files = read_qrels(options.files[0]), options.files[1:]
    read = dict(zip(run_labels(files), map(read_run, files), strict=True))
    head = True
    usable = len(judged_topics(RunSet.of(read), qrels)) - FEWEST
    for count in options.runs:
        for size in filter(usable.__ge__, options.topics):
            for draw in range(options.draws):
                rng = np.random.default_rng([count, size, draw])
                some = rng.choice(len(read), count, replace=False)
                runs = RunSet.of({name: read[name] for name in np.array([*read])[np.sort(some)].tolist()})
                keys = dict(zip(KEYS, (files[0].parent.parent.name, count, size), strict=True)) | {
                    "draw": draw
                }
                rows = pd.DataFrame(fits(runs, qrels, options.measure, size, options.boxes, rng)).assign(
                    **keys
                )
                rows.to_csv(sys.stdout, sep="\t", index=False, header=head, float_format="%.6f")
                sys.stdout.flush()
                head = False


def fits(
    runs: RunSet,
    qrels: dict[str, dict[str, int]],
    measure: Measure,
    size: int,
    boxes: int,
    rng: np.random.Generator,
) -> Iterator[dict[str, object]]:
    """Yield a row for each method: means, the two gaps, and the loss to the optimum on other topics."""
    topics = judged_topics(runs, qrels)
    order = rng.permutation(len(topics))
    train, test = np.sort(order[:size]), np.sort(order[size:])
    equal = dict.fromkeys(runs.names, 1.0)
    pool = fused_pool(runs, Chosen("linear", equal), FusionOptions(), qrels, topics)
    ranks = fused_pool(runs, Chosen("rrf", equal), FusionOptions(), qrels, topics)

    def by_topic(weights: dict[str, float], of: CandidatePool = pool) -> np.ndarray:
        return measure_settings(of, weights, [measure])[:, 0, 0]

    def fit(method: str, places: np.ndarray) -> dict[str, float]:
        search = METHODS[method].fit
        assert search is not None
        return dict(search(Fitting(pool, measure, [topics[place] for place in places]))[0].best_params_)

    values = {name: by_topic(fit(name, train)) for name in FITTED}
    best = max(FITTED, key=lambda name: float(values[name][train].mean()))
    proof = certify(
        pool,
        measure,
        fit(best, train),
        topics=[topics[place] for place in train],
        tolerance=TOLERANCE,
        boxes=boxes,
    )
    values |= {OPTIMUM: by_topic(proof.weights), "equal": by_topic(equal), "rrf": by_topic(equal, ranks)}
    unproven = float(proof.bound - values[OPTIMUM][train].mean())

    def refit(places: np.ndarray) -> np.ndarray:
        return by_topic(fit("linear", places))

    yield from parts_and_gaps(values, refit, train, test, rng, unproven=unproven)


def summarise(fits: pd.DataFrame, keys: Sequence[str] = KEYS) -> pd.DataFrame:
    """Return means over collections by the other keys and method, with p-values of Student's t.

    Both p-values are one-sided. ``p ten times`` tests that the estimation error, from below, is at least ten
    times the optimisation error. ``p better`` tests that the method is above the optimum on other topics.
    """
    means = fits.groupby([*keys, "method"]).mean(numeric_only=True).drop(columns="draw").reset_index()

    def row(group: pd.DataFrame) -> pd.Series[float]:
        ten = group["below"] - TIMES * group["optimisation"]
        tests = {
            name: stats.ttest_1samp(values, 0.0, alternative="greater").pvalue if len(group) > 1 else np.nan
            for name, values in (("p ten times", ten), ("p better", -group["part"]))
        }
        numbers = group.drop(columns=[*keys, "method"]).mean()
        return pd.Series({**numbers, **tests, "collections": float(len(group))})

    return means.groupby([*keys[1:], "method"])[means.columns.tolist()].apply(row).reset_index()


if __name__ == "__main__":
    main()
