"""Measure how honest the printed gain of a tuned setting is, for several rules that choose the method.

    python benchmarks/selection.py pydocs:bm25:50 cranfield:two-stage:50 --draws 40

A case is a collection, a model and a number of topics. Each draw tunes on that many topics, as `lmtune tune`
does.
The true gain over the default is that of the final setting on all topics that were not drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

import lmtune
from experiments.datasets import usable_topics
from experiments.synthetic import folder_of
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.storage import pool_for
from lmtune.measures import parse_measure
from lmtune.measures.evaluate import measure_settings
from lmtune.tuning.experiment.result import DEFAULT, DIRECT, OPTIMAL

Vector = NDArray[np.float64]
RESAMPLES, CONFIDENCE = 1000, 0.95


class Printed(NamedTuple):
    """A rule's method, its printed gain over the default, and the interval of that."""

    method: str
    gain: float
    low: float
    high: float


def best_mean(gains: dict[str, Vector]) -> Printed:
    """Choose the method with the best held-out mean; print its gain as if it had been fixed."""
    method = max(gains, key=lambda name: float(gains[name].mean()))
    return fixed(gains, method)


def corrected(gains: dict[str, Vector], rng: np.random.Generator) -> Printed:
    """Choose the best mean; correct its gain by the bootstrap (Tsamardinos et al., 2018, algorithm 3).

    The method is chosen on each resample of topics, and measured on the topics that the resample lacks.
    """
    names, table = [*gains], np.array([*gains.values()])
    topics, outside = table.shape[1], []
    for _ in range(RESAMPLES):
        drawn = rng.integers(topics, size=topics)
        left = np.setdiff1d(np.arange(topics), drawn)
        if left.size:
            outside.append(table[table[:, drawn].mean(axis=1).argmax(), left].mean())
    low, high = np.quantile(outside, [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
    method = names[int(table.mean(axis=1).argmax())]
    return Printed(method, float(np.mean(outside)), float(low), float(high))


def fixed(gains: dict[str, Vector], method: str) -> Printed:
    """Return the mean gain of a method that is fixed beforehand, with the interval of a paired t-test."""
    own = gains[method]
    mean, error = float(own.mean()), float(own.std(ddof=1)) / np.sqrt(own.size)
    reach = float(stats.t.ppf(0.5 + CONFIDENCE / 2, own.size - 1)) * error
    return Printed(method, mean, mean - reach, mean + reach)


def draws(case: str, measure_name: str, folds: int, number: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield a row for each draw of topics and rule."""
    name, model, size = case.rsplit(":", 2)
    measure, dataset = parse_measure(measure_name), lmtune.load(folder_of(name))
    assert dataset.documents is not None
    index, usable = lmtune.index_for(dataset.documents), usable_topics(name)

    def pool_of(topics: list[str]) -> CandidatePool:
        texts = {topic: dataset.topics[topic] for topic in topics}
        return pool_for(index, texts, dataset.qrels, name=dataset.name, model=model)

    whole = pool_of(usable)
    plan = lmtune.Plan(measures=(measure,), model=model, baseline={})
    for draw in range(number):
        rng = np.random.default_rng([seed, draw])
        chosen = {*rng.permutation(usable)[: int(size)].tolist()}
        drawn = [topic for topic in usable if topic in chosen]
        rest = whole.positions([topic for topic in usable if topic not in chosen])
        parts = lmtune.cross_validation(drawn, folds, seed=draw)
        result = lmtune.run_experiment(pool_of(drawn), parts, plan, traced=False, progress=False)
        rows = {row.method: row for row in result.rows if row.method != OPTIMAL}
        default = rows.pop(DEFAULT)
        gains = {method: row.values - default.values for method, row in rows.items()}
        settings = [default.fits[0].params, *(row.final.params for row in rows.values() if row.final)]
        means = measure_settings(whole, settings, [measure], topics=rest)[:, :, 0].mean(axis=0)
        true = dict(zip(rows, means[1:] - means[0], strict=True))
        rules = {
            "best mean": best_mean(gains),
            "Direct": fixed(gains, DIRECT),
            f"tune's ({result.fixed_method})": fixed(gains, result.fixed_method),
            "bootstrap-corrected": corrected(gains, rng),
        }
        for rule, printed in rules.items():
            is_certain = printed.low > 0.0
            yield {
                "case": case,
                "rule": rule,
                "printed": printed.gain,
                "true": true[printed.method],
                "covered": printed.low <= true[printed.method] <= printed.high,
                "recommended": is_certain,
                "used": true[printed.method] if is_certain else 0.0,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", help="collection:model:topics")
    parser.add_argument("--measure", default="AP")
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for case in options.cases:
        table = pd.DataFrame(draws(case, options.measure, options.folds, options.draws, options.seed))
        table.insert(4, "bias", table["printed"] - table["true"])
        groups = table.groupby(["case", "rule"], sort=False)
        means = groups.mean()
        means.insert(3, "error", groups["bias"].sem())
        print(means.round(4).to_string(), flush=True)


if __name__ == "__main__":
    main()
