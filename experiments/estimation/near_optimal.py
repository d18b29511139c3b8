"""How often the box of near-optimal settings holds the best setting of the topics that a sample comes from.

    python -m experiments.estimation.near_optimal ../shared/data/{cranfield,npl,med,cacm} --topics 25 50 100

A collection's topics are taken for all there are, and the grid point with their best mean for the best
setting. Of samples of topics, drawn with replacement, the grid's best is what one would recommend; the
columns are how often the best setting of all is not significantly worse than it on the sample ("kept"), how
often it lies in the box of `near_optimal`, what share of the grid the box is, and how far below the best of
all the sample's best and the worst point of the box lie on all topics, in the mean. On the samples' own
topics nothing is chosen but the recommended setting: a region of 95% would keep the best in 95% of them.
Both parameters are to be free.
"""

from __future__ import annotations

import argparse

import numpy as np

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.tests import paired_t_test
from lmtune.tuning.direct import Surface
from lmtune.tuning.experiment.result import SIGNIFICANCE
from lmtune.tuning.experiment.run import near_optimal
from lmtune.tuning.space import ParameterSpace


def run(name: str, options: argparse.Namespace) -> None:
    """Print a row for each size of samples."""
    dataset = lmtune.load(name)
    relevant = [t for t, judged in dataset.qrels.items() if any(gain > 0 for gain in judged.values())]
    topics = {topic: text for topic, text in dataset.topics.items() if topic in set(relevant)}
    pool = CandidatePool.build(
        lmtune.index_for(dataset.documents), topics, dataset.qrels, model=options.model
    )
    measure = parse_measure(options.measure)
    space = ParameterSpace.of(pool.formula)
    surface = Surface.compute(pool, [measure], space=space, shape=tuple(options.grid))
    values = surface.values[:, :, 0]
    means = values.mean(axis=0)
    best = int(means.argmax())
    rng = np.random.default_rng(0)
    for size in options.topics:
        rows = []
        for _ in range(options.samples):
            sample = rng.integers(len(values), size=size)
            chosen = int(values[sample].mean(axis=0).argmax())
            setting = dict(zip(surface.names, surface.settings[chosen].tolist(), strict=True))
            own, other = values[sample, chosen], values[sample, best]
            kept = other.mean() >= own.mean() or not paired_t_test(other, own) < SIGNIFICANCE
            box = near_optimal(surface, measure, sample, setting, own)
            inside = np.arange(len(means)) == chosen
            if box:
                lows, highs = np.array([box[name] for name in surface.names]).T
                inside = ((surface.settings >= lows) & (surface.settings <= highs)).all(axis=1)
            loss = means[best] - means[chosen], means[best] - means[inside].min()
            rows.append((kept, inside[best], inside.mean(), *loss))
        cells = [f"{value:.3f}" for value in np.mean(rows, axis=0)[:3]]
        cells += [f"{value:.4f}" for value in np.mean(rows, axis=0)[3:]]
        print("\t".join([dataset.name, str(len(values)), str(size), *cells]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--model", default="bm25")
    parser.add_argument("--measure", default="AP")
    parser.add_argument("--grid", nargs="+", type=int, default=[20, 26])
    parser.add_argument("--topics", nargs="+", type=int, default=[25, 50, 100])
    parser.add_argument("--samples", type=int, default=200)
    options = parser.parse_args()
    print("collection\ttopics\tsample\tkept\tin box\tshare of grid\tloss\tworst in box")
    for name in options.collections:
        run(name, options)


if __name__ == "__main__":
    main()
