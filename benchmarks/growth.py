"""Growth of processor time with documents, topics, terms, parameters, runs and shards, one at a time.

    python benchmarks/growth.py > docs/pictures/growth.csv
    python benchmarks/growth.py --draw picture.png docs/pictures/growth.csv

The columns are the quantity that grows, its size, the work, and processor seconds: the minimum of a few
repeats on one thread. Collections are synthetic. Queries with more terms are concatenations of several
queries. Runs have random scores.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator
from measuring import least
from synthetic import collection

import lmtune
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.dataset import Dataset
from lmtune.fusion.methods import Chosen, FusionOptions, fused_pool
from lmtune.fusion.runs import RunSet
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.sharding import build_sharded_index
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.tuning.pairs import Lists
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import SurrogateCost, parse_objective

COLUMNS = GROWS, SIZE, WORK, SECONDS = ["what grows", "how many", "work", "processor seconds"]
EXTRACT = "extract candidates"
MODELS = {2: "bm25", 4: "bm25+rm3", 10: "bm25+weights"}
AP, PLAIN = parse_measure("AP"), Analyzer(stemmer="none", stopwords="none")
DEPTH, TOGETHER = 100, 16
Rows = Iterator[tuple[str, float]]


def extracted(index: Any, topics: Mapping[str, str], qrels: Any, model: str = "bm25") -> Rows:
    pool, seconds = least(lambda: CandidatePool.build(index, topics, qrels, model=model))
    yield EXTRACT, seconds
    yield from measured(pool)


def measured(pool: CandidatePool, *, gradient: bool = False) -> Rows:
    space = ParameterSpace.of(pool.formula)
    start = space.start
    some = np.tile(start, (TOGETHER, 1))
    yield "measure a setting", least(lambda: measure_settings(pool, some, [AP], threads=1))[1] / TOGETHER
    if gradient:
        cost = SurrogateCost(Lists.build(pool, space), parse_objective("approx-ap"), pool.positions())
        yield "smooth AP and its gradient", least(lambda: cost(start, 32.0, threads=1))[1]


def of_documents(dataset: Dataset, home: Path) -> Rows:
    assert dataset.documents is not None
    source = dataset.documents
    index, seconds = least(lambda: build_index(source, home / dataset.name, PLAIN, workers=1))
    yield "index", seconds
    yield from extracted(index, dataset.topics, dataset.qrels)


def of_shards(dataset: Dataset, home: Path, count: int) -> Rows:
    assert dataset.documents is not None
    source = dataset.documents
    index, seconds = least(
        lambda: build_sharded_index(source, home / f"{count} shards", PLAIN, count, workers=1)
    )
    yield "index", seconds
    yield from extracted(index, dataset.topics, dataset.qrels)


def of_terms(dataset: Dataset, index: Any, joined: int) -> Rows:
    texts = list(dataset.topics.values())
    topics = {
        topic: " ".join(texts[(at + other) % len(texts)] for other in range(joined))
        for at, topic in enumerate(dataset.topics)
    }
    yield from extracted(index, topics, dataset.qrels)


def of_runs(count: int, topics: int) -> Rows:
    rng = np.random.default_rng(count)
    names = [f"d{number}" for number in range(DEPTH)]
    runs = RunSet.of(
        {
            f"run{run}": {
                str(t): dict(zip(names, rng.random(DEPTH).tolist(), strict=True)) for t in range(topics)
            }
            for run in range(count)
        }
    )
    qrels = {str(t): dict.fromkeys(names[:10], 1) for t in range(topics)}
    equal = Chosen("linear", dict.fromkeys(runs.names, 1.0))
    yield from measured(fused_pool(runs, equal, FusionOptions(), qrels, [*qrels]))


def cases(documents: list[int], topics: list[int], home: Path) -> Iterator[tuple[str, int, Rows]]:
    """Yield each quantity, its size and its rows; rows are computed when they are consumed."""
    few, half = documents[1], topics[len(topics) // 2]
    for count in documents:
        yield (
            "thousand documents",
            count // 1000,
            of_documents(lmtune.load(collection(f"{count}x{half}")), home),
        )
    base = lmtune.load(collection(f"{few}x{half}"))
    assert base.documents is not None
    index = build_index(base.documents, home / "base", PLAIN, workers=1)
    for count in topics:
        other = lmtune.load(collection(f"{few}x{count}"))
        assert other.documents is not None
        own = build_index(other.documents, home / f"{count} topics", PLAIN, workers=1)
        yield "topics", count, extracted(own, other.topics, other.qrels)
    for joined in (1, 2, 4, 8):
        yield "queries in one", joined, of_terms(base, index, joined)
    for count, model in MODELS.items():
        pool = CandidatePool.build(index, base.topics, base.qrels, model=model)
        yield "parameters", count, measured(pool, gradient=True)
    for count in (2, 4, 8, 16):
        yield "runs", count, of_runs(count, half)
    for count in (1, 4, 16):
        yield "shards", count, of_shards(base, home, count)


def draw(table: pd.DataFrame) -> Figure:
    """Draw processor seconds, one panel per quantity."""
    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    colours = {work: f"C{number}" for number, work in enumerate(table[WORK].unique())}
    for ax, (title, part) in zip(figure.subplots(2, 3).flat, table.groupby(GROWS, sort=False), strict=True):
        for work, points in part.groupby(WORK, sort=False):
            ax.plot(points[SIZE], points[SECONDS], ".-", color=colours[work], lw=1)
        ax.set_title(str(title), fontsize="small")
        ax.set(xscale="log", yscale="log", xticks=sorted(part[SIZE].unique()))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.tick_params(labelsize="x-small")
    figure.supylabel(SECONDS, fontsize="small")
    lines = [Line2D([], [], color=colour, marker=".", label=work) for work, colour in colours.items()]
    figure.legend(handles=lines, loc="outside lower center", ncols=3, fontsize="x-small")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--documents", type=int, nargs="+", default=[16_000, 64_000, 256_000, 1_024_000])
    parser.add_argument("--topics", type=int, nargs="+", default=[25, 50, 100, 200])
    parser.add_argument("--draw", type=Path)
    options = parser.parse_args()
    if options.draw:
        options.draw.parent.mkdir(parents=True, exist_ok=True)
        draw(pd.read_csv(options.file)).savefig(options.draw, dpi=200)
        return
    with tempfile.TemporaryDirectory() as home:
        for count in MODELS.values():  # kernels compile
            warm = lmtune.load(collection("1000x3"))
            assert warm.documents is not None
            index = build_index(warm.documents, Path(home) / f"warm {count}", PLAIN, workers=1)
            list(measured(CandidatePool.build(index, warm.topics, warm.qrels, model=count), gradient=True))
        list(of_runs(2, 2))
        print(",".join(COLUMNS))
        for grows, size, rows in cases(options.documents, options.topics, Path(home)):
            for work, seconds in rows:
                print(f"{grows},{size},{work},{seconds:.6f}", flush=True)


if __name__ == "__main__":
    main()
