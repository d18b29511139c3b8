"""Optimisation and estimation error of models with many parameters, by experiments/estimation/PROTOCOL.md.

    python -m experiments.estimation.models cranfield --model bm25+weights --topics 10 25 50 > fits.tsv
    python -m experiments.estimation.models cranfield --model bm25f:title,contents > fields.tsv
    python -m experiments.estimation.models --summarise fits.tsv ...

Each draw fits every method on random topics of a collection, and splits the loss on all other topics into the
two errors. There is a row for each draw and method. ``--summarise`` prints the means of several tables, with
Student's t over collections.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.datasets import whole_pool
from experiments.estimation.choices import OPTIMUM, parts_and_gaps
from experiments.fusion.estimation import FEWEST, summarise
from experiments.term_weights.__main__ import AP, by_gradient, direct
from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import measure_settings
from lmtune.tuning.direct import CoordinateAscent
from lmtune.tuning.experiment.result import DIRECT
from lmtune.tuning.surrogate import SurrogateTuner

KEYS = ["collection", "model", "topics"]
SETTINGS = (200, 1000)
Setting = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", help="collections; with --summarise: tables", nargs="+")
    parser.add_argument("--model", default="bm25+weights")
    parser.add_argument(
        "--plain", default="bm25", help="a simpler model, fitted by direct search with 200 settings"
    )
    parser.add_argument("--topics", type=int, nargs="+", default=[10, 25, 50])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument(
        "--settings", type=int, nargs="+", default=SETTINGS, help="numbers of settings of direct search"
    )
    parser.add_argument("--summarise", action="store_true")
    options = parser.parse_args()
    if options.summarise:
        tables = pd.concat(pd.read_csv(file, sep="\t") for file in options.collection)
        summarise(tables, KEYS).to_csv(sys.stdout, sep="\t", index=False, float_format="%.4f")
        return
    head = True
    for name in options.collection:
        pool, plain = whole_pool(name, options.model), whole_pool(name, options.plain)
        usable = len(pool.topics) - FEWEST
        for size in filter(usable.__ge__, options.topics):
            for draw in range(options.draws):
                rng = np.random.default_rng([size, draw])
                keys = dict(zip(KEYS, (Path(name).name, options.model, size), strict=True)) | {"draw": draw}
                rows = pd.DataFrame(fits(pool, plain, size, options.settings, rng)).assign(**keys)
                rows.to_csv(sys.stdout, sep="\t", index=False, header=head, float_format="%.6f")
                sys.stdout.flush()
                head = False


def fits(
    pool: CandidatePool, plain: CandidatePool, size: int, settings: tuple[int, ...], rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Yield a row for each method: means, the two gaps, and the loss relative to the best setting found."""
    topics = np.array(pool.topics)
    order = rng.permutation(topics.size)
    train, test = np.sort(order[:size]), np.sort(order[size:])

    def by_topic(setting: Setting, of: CandidatePool = pool) -> np.ndarray:
        return measure_settings(of, setting, [AP])[:, 0, 0]

    def climbed(places: np.ndarray, start: Setting) -> Setting:
        tuner = CoordinateAscent(AP, starts=[start], restarts=0)
        return dict(tuner.fit(pool, topics=topics[places].tolist()).best_params_)

    own = topics[train].tolist()
    found = {f"{DIRECT} {count}": direct(pool, own, count).params for count in settings}
    found["Approx"] = dict(SurrogateTuner(starts=1).fit(pool, topics=own).best_params_)
    if pool.formula.simpler:
        found |= {f"shrunk {name}": by_gradient(name, pool, own).params for name in ("Approx", "RankNet")}
    values = {name: by_topic(setting) for name, setting in found.items()}
    best = climbed(train, found[max(found, key=lambda name: float(values[name][train].mean()))])
    values |= {OPTIMUM: by_topic(best), "plain": by_topic(direct(plain, own, settings[0]).params, plain)}
    yield from parts_and_gaps(values, lambda places: by_topic(climbed(places, best)), train, test, rng)


if __name__ == "__main__":
    main()
