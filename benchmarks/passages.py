"""A synthetic collection of MS MARCO's size: indexing, candidate extraction, tuning and certifying MRR@10.

    python benchmarks/passages.py                                          # 8.8 million, one index
    python benchmarks/passages.py --shards 16
    python benchmarks/passages.py --collection msmarco-100000x100

Each stage runs in a separate process. Its line has wall and processor seconds, and the peak memory of the
process and its workers. BM25 is tuned on half of the topics and tested on the other half. The certified
bound is for all topics, over all settings in BM25's range.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from measuring import answer, build_plain, staged
from synthetic import collection

STAGES: dict[str, Callable[[Path, argparse.Namespace], dict[str, Any]]] = {}
DEPTH, MEASURE = 10, "RR@10"


def stage(
    function: Callable[[Path, argparse.Namespace], dict[str, Any]],
) -> Callable[[Path, argparse.Namespace], dict[str, Any]]:
    STAGES[function.__name__] = function
    return function


def opened(home: Path, options: argparse.Namespace) -> Any:
    from lmtune.index.columnar import ColumnarIndex
    from lmtune.index.sharded import ShardedIndex

    return (ShardedIndex if options.shards else ColumnarIndex).open(home / "index")


def candidates(home: Path, options: argparse.Namespace) -> Any:
    from lmtune.candidates.storage import pool_for
    from lmtune.collections.loading import load

    known = load(collection(options.collection), need=["topics", "qrels"])
    index = opened(home, options)
    return pool_for(index, known.topics, known.qrels, name=known.name, model="bm25", depth=DEPTH)


@stage
def build(home: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Index the passages."""
    size = build_plain(collection(options.collection), home / "index", options.shards)
    return {"documents": opened(home, options).num_docs, "disk_mb": size}


@stage
def extract(home: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Extract the candidates that are in the top ten at some setting."""
    pool = candidates(home, options)
    return {"topics": len(pool.topics), "candidates": int(pool.candidates.doc.size)}


@stage
def tune(home: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Tune by grid and coordinate ascent on every second topic, and measure the other topics."""
    from lmtune.measures.evaluate import measure_settings
    from lmtune.measures.measure import parse_measure
    from lmtune.tuning.direct import CoordinateAscent, GridSearch

    pool, measure = candidates(home, options), parse_measure(MEASURE)
    train, test = pool.topics[::2], pool.positions(pool.topics[1::2])
    grid = GridSearch(measure, depth=DEPTH).fit(pool, topics=train)
    ascent = CoordinateAscent(measure, depth=DEPTH, starts=[grid.best_params_]).fit(pool, topics=train)
    best = max((grid, ascent), key=lambda tuner: tuner.best_value_)
    settings = {"setting": best.best_params_, "default": {}}
    held_out = {
        name: float(measure_settings(pool, setting, [measure], depth=DEPTH)[test].mean())
        for name, setting in settings.items()
    }
    return (
        {"setting": best.best_params_, "training": best.best_value_}
        | {f"{name}, held out": value for name, value in held_out.items() if name != "setting"}
        | {"held out": held_out["setting"]}
    )


@stage
def certify(home: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Certify an upper bound of the measure over the whole parameter range, on all topics."""
    from lmtune.tuning.certificate.optimum import CertifiedOptimum

    proven = CertifiedOptimum(MEASURE, tolerance=options.tolerance, depth=DEPTH, max_seconds=options.seconds)
    proven.fit(candidates(home, options))
    return {"setting": proven.best_params_, "best": proven.best_value_, "bound": proven.bound_}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collection", default="msmarco")
    parser.add_argument("--shards", type=int, default=0, help="number of shards; 0 builds one index")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit of the certificate")
    parser.add_argument("--home", type=Path, help="folder of the index; a temporary folder by default")
    parser.add_argument("--stage", choices=STAGES)
    options = parser.parse_args()
    if options.stage:
        work = partial(STAGES[options.stage], options.home, options)
        print(json.dumps(staged(work, options.workers)))
        return
    with tempfile.TemporaryDirectory() as folder:
        home = options.home or Path(folder)
        for name in STAGES:
            found = answer(__file__, *sys.argv[1:], "--stage", name, "--home", home)
            print(name, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
