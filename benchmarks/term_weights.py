"""Compare a model with its expansion and weights of terms, on topics held out, and time a gradient.

    python benchmarks/term_weights.py cranfield med --model bm25 --parts +rm3 +weights +rm3+weights

Five folds; the plain model by `SurrogateTuner`, the others by `RidgeTuner`, which looks at training
topics alone. Seconds are processor seconds of this process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
from scipy.stats import ttest_rel

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.datasets.folds import Fold
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.tuning.lists import Lists
from lmtune.tuning.objectives import SurrogateCost, parse_objective
from lmtune.tuning.ridge import RidgeTuner
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import SurrogateTuner

AP = parse_measure("AP")


def folds_of(topics: Sequence[str], count: int) -> list[Fold]:
    """Deal topics to folds, shuffled with seed 0."""
    order = np.random.default_rng(0).permutation(len(topics)).tolist()
    tests = [[topics[at] for at in order[first::count]] for first in range(count)]
    return [Fold(tuple(topic for topic in topics if topic not in test), tuple(test)) for test in tests]


def gradient_ratio(pool: CandidatePool) -> float:
    """Return how many times measuring one setting an evaluation with its gradient takes."""
    space = ParameterSpace.of(pool.formula)
    lists = Lists.build(pool, space)
    cost, start = SurrogateCost(lists, parse_objective("approx-ap"), pool.positions()), space.start
    seconds = np.inf * np.ones(2)
    for _ in range(6):
        for at in range(2):
            begin = time.process_time()
            if at:
                cost(start, 32.0, threads=1)
            else:
                measure_settings(pool, start[None], [AP], threads=1)
            seconds[at] = min(seconds[at], time.process_time() - begin)
    return float(seconds[1] / seconds[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--model", default="bm25")
    parser.add_argument("--parts", nargs="+", default=["+rm3", "+kld", "+weights", "+kld+weights"])
    parser.add_argument("--folds", type=int, default=5)
    options = parser.parse_args()
    head = "collection model held-out training difference p harmed helped evaluations seconds ratio steps"
    print("\t".join(head.split()))
    for name in options.collections:
        dataset = lmtune.load(name)
        index = lmtune.index_for(dataset.documents)
        relevant = {topic for topic, judged in dataset.qrels.items() if any(g > 0 for g in judged.values())}
        topics = {topic: text for topic, text in dataset.topics.items() if topic in relevant}
        folds = folds_of(list(topics), options.folds)
        plain = None
        for part in ("", *options.parts):
            pool = CandidatePool.build(index, topics, dataset.qrels, model=options.model + part)
            begin, values, training = time.process_time(), np.zeros(len(topics)), []
            evaluations, steps = 0, []
            for fold in folds:
                plain_tuner = SurrogateTuner("approx-ap", starts=1)
                tuner = (RidgeTuner(plain_tuner) if part else plain_tuner).fit(pool, topics=fold.train)
                evaluations += tuner.n_evaluations_
                steps.append(getattr(tuner, "step_", "plain"))
                for own, kept in ((fold.test, True), (fold.train, False)):
                    places = pool.positions(own)
                    found = measure_settings(pool, tuner.best_params_, [AP], topics=places)[:, 0, 0]
                    if kept:
                        values[places] = found
                    else:
                        training.append(found.mean())
            seconds = time.process_time() - begin
            plain = values if plain is None else plain
            gains = values - plain
            p = ttest_rel(values, plain).pvalue if gains.any() else float("nan")
            figures = [f"{values.mean():.4f}", f"{np.mean(training):.4f}", f"{gains.mean():+.4f}", f"{p:.2g}"]
            shares = [f"{np.mean(gains < 0):.2f}", f"{np.mean(gains > 0):.2f}"]
            rest = [str(evaluations), f"{seconds:.0f}", f"{gradient_ratio(pool):.1f}", " ".join(steps)]
            print("\t".join([dataset.name, options.model + part, *figures, *shares, *rest]), flush=True)


if __name__ == "__main__":
    main()
