"""How many judged topics fusion weights need: held-out means by number of training topics.

    python -m experiments.fusion.topics qrels.txt runs/* --measure AP --topics 5 10 20 40 80 > a.tsv
    python -m experiments.fusion.topics qrels.txt runs/* --runs 2 --methods linear shrunk equal > pairs.tsv
    python -m experiments.fusion.topics nist.txt runs/* --beside gpt4.txt --topics 5 10 20 40 > transfer.tsv
    python -m experiments.fusion.topics --draw picture.svg a.tsv ...

Each draw fits every method on random topics and evaluates it on all others. A row has the mean over draws,
its difference from reciprocal rank fusion on the same topics, and the number of draws above it.

With ``--beside`` each tuned method is also fitted once on all topics of other judgments, such as a model's,
and evaluated on the same topics: row METHOD@FILE.

The picture has a panel for each table: the mean difference, and a bar from the worst to the best draw.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lmtune.candidates.pool import CandidatePool
from lmtune.fusion.fusing import judged_topics
from lmtune.fusion.methods import METHODS, Chosen, FusionOptions, fused_pool
from lmtune.fusion.runs import RunSet
from lmtune.fusion.search import Fitting
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.comparison import run_labels
from lmtune.report.figures.style import finish, in_style, legend_below, looks, new_panels, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("topics", "method", "mean", "from rrf", "worst", "best", "above rrf", "CPU s a fit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="judgments and runs; with --draw: tables")
    parser.add_argument("--measure", default="AP")
    parser.add_argument("--topics", type=int, nargs="+", default=[5, 10, 20, 40, 80])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--runs", type=int, help="fuse so many runs, drawn anew for each draw; default: all")
    parser.add_argument("--methods", nargs="+", default=["shrunk", "forward", "equal"], choices=METHODS)
    parser.add_argument("--beside", type=Path, help="other judgments, for other topics of the same runs")
    parser.add_argument("--draw", type=Path)
    options = parser.parse_args()
    if options.draw is not None:
        save(picture(options.files), options.draw)
        return
    files = options.files[1:]
    by_name = dict(zip(run_labels(files), map(read_run, files), strict=True))
    runs = RunSet.of(by_name)
    qrels, measure = read_qrels(options.files[0]), parse_measure(options.measure)
    topics, beside = np.array(judged_topics(runs, qrels)), []
    if options.beside is not None:
        others_judged = read_qrels(options.beside)
        beside = [topic for topic in judged_topics(runs, others_judged) if topic not in qrels]
        qrels = {**others_judged, **qrels}
    equal = dict.fromkeys(runs.names, 1.0)
    methods = dict.fromkeys(("rrf", *options.methods))

    def pools_of(runs: RunSet) -> dict[str, CandidatePool]:
        chosen = {name: Chosen(name, dict.fromkeys(runs.names, 1.0)) for name in methods}
        every = [*topics.tolist(), *beside]
        return {name: fused_pool(runs, one, FusionOptions(), qrels, every) for name, one in chosen.items()}

    pools = pools_of(runs)
    given: dict[str, tuple[str, dict[str, float]]] = {}
    for name, fit in ((name, METHODS[name].fit) for name in methods if beside):
        if fit is not None:
            fitted = fit(Fitting(pools[name], measure, beside))[0].best_params_
            given[f"{name}@{run_labels([options.beside])[0]}"] = name, fitted
    print("\t".join(COLUMNS))
    for size in options.topics:
        means: dict[str, list[float]] = {name: [] for name in (*methods, *given)}
        seconds = dict.fromkeys(means, 0.0)
        for draw in range(options.draws):
            rng = np.random.default_rng([size, draw])
            order = rng.permutation(len(topics))
            if options.runs is not None:
                names = rng.choice(list(by_name), options.runs, replace=False).tolist()
                equal = dict.fromkeys(names, 1.0)
                pools = pools_of(RunSet.of({name: by_name[name] for name in names}))
            fitting, others = topics[order[:size]].tolist(), topics[order[size:]].tolist()
            for name, pool in pools.items():
                begin, weights, fit = time.process_time(), equal, METHODS[name].fit
                if fit is not None:
                    weights = fit(Fitting(pool, measure, fitting))[0].best_params_
                seconds[name] += time.process_time() - begin
                values = measure_settings(pool, weights, [measure], topics=pool.positions(others))
                means[name].append(float(values.mean()))
            for label, (name, weights) in given.items():
                pool = pools[name]
                values = measure_settings(pool, weights, [measure], topics=pool.positions(others))
                means[label].append(float(values.mean()))
        for name, own in means.items():
            gains = np.array(own) - np.array(means["rrf"])
            figures = f"{np.mean(own):.4f}\t{gains.mean():+.4f}\t{gains.min():+.4f}\t{gains.max():+.4f}"
            cost = seconds[name] / options.draws
            print(f"{size}\t{name}\t{figures}\t{(gains > 0).sum()}\t{cost:.1f}", flush=True)


@in_style
def picture(tables: Sequence[Path]) -> Figure:
    figure, panels, columns = new_panels(len(tables), 2.6)
    said, read = [], []
    for table in tables:
        with table.open(newline="") as stream:
            read.append([row for row in csv.DictReader(stream, delimiter="\t") if row["method"] != "rrf"])
    methods = looks(list(dict.fromkeys(row["method"] for rows in read for row in rows)))
    for ax, table, rows in zip(panels, tables, read, strict=True):
        for place, (name, look) in enumerate(methods.items()):
            if not (own := [row for row in rows if row["method"] == name]):
                continue
            sizes = [int(row["topics"]) for row in own]
            mean, worst, best = ([float(row[key]) for row in own] for key in ("from rrf", "worst", "best"))
            beside = np.array(sizes) * 1.03 ** (place - 0.5 * len(methods))
            ax.vlines(beside, worst, best, color=look.color, lw=1, alpha=0.6)
            ax.plot(beside, mean, label=name, **look.options())
            said.append(f"{table.stem}, {name}: {mean[0]:+.4f} at {sizes[0]}, {mean[-1]:+.4f} at {sizes[-1]}")
        ax.axhline(0.0, color="#555555", lw=0.8)
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
        ax.set_xlabel("training topics")
        ax.set_title(table.stem)
    for ax in panels[::columns]:
        ax.set_ylabel("difference from RRF, held out")
    legend_below(figure, 5)
    return finish(figure, f"Held-out differences from RRF by number of training topics.  {'; '.join(said)}.")


if __name__ == "__main__":
    main()
