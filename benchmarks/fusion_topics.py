"""How many judged topics tuned weights of runs need: held-out means by how many topics they are fitted on.

    python benchmarks/fusion_topics.py qrels.txt runs/* --measure AP --topics 5 10 20 40 80 --draws 10

Each draw fits every method on a random set of topics and measures it on all others; a row has the mean over
draws, its difference from reciprocal rank fusion on the same topics, and in how many draws it was above that.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from lmtune.formats.qrels import read_qrels
from lmtune.formats.runs import read_run
from lmtune.fusion.fusing import METHODS, Chosen, FusionOptions, fused_pool, judged_topics
from lmtune.fusion.runs import RunSet
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.run_files import run_labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("qrels", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--measure", default="AP")
    parser.add_argument("--topics", type=int, nargs="+", default=[5, 10, 20, 40, 80])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--methods", nargs="+", default=["shrunk", "forward", "equal"], choices=METHODS)
    options = parser.parse_args()
    runs = RunSet.of(dict(zip(run_labels(options.runs), map(read_run, options.runs), strict=True)))
    qrels, measure = read_qrels(options.qrels), parse_measure(options.measure)
    topics = np.array(judged_topics(runs, qrels))
    equal = dict.fromkeys(runs.names, 1.0)
    methods = dict.fromkeys(("rrf", *options.methods))
    pools = {
        name: fused_pool(runs, Chosen(name, equal), FusionOptions(), qrels, topics.tolist())
        for name in methods
    }
    print("topics\tmethod\tmean\tfrom rrf\tworst\tbest\tabove rrf\tCPU s a fit")
    for size in options.topics:
        means: dict[str, list[float]] = {name: [] for name in methods}
        seconds = dict.fromkeys(methods, 0.0)
        for draw in range(options.draws):
            order = np.random.default_rng([size, draw]).permutation(len(topics))
            fitting, others = topics[order[:size]].tolist(), topics[order[size:]].tolist()
            for name, pool in pools.items():
                begin, weights, fit = time.process_time(), equal, METHODS[name].fit
                if fit is not None:
                    weights = fit(pool, measure, fitting)[0].best_params_
                seconds[name] += time.process_time() - begin
                values = measure_settings(pool, weights, [measure], topics=pool.positions(others))
                means[name].append(float(values.mean()))
        for name, own in means.items():
            gains = np.array(own) - np.array(means["rrf"])
            figures = f"{np.mean(own):.4f}\t{gains.mean():+.4f}\t{gains.min():+.4f}\t{gains.max():+.4f}"
            cost = seconds[name] / options.draws
            print(f"{size}\t{name}\t{figures}\t{(gains > 0).sum()}\t{cost:.1f}", flush=True)


if __name__ == "__main__":
    main()
