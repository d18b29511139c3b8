"""Passages and queries in MS MARCO's number, from nothing: index, candidates, MRR@10 tuned and certified.

    python benchmarks/passages.py                                          # 8.8 million, one index
    python benchmarks/passages.py --shards 16
    python benchmarks/passages.py --collection msmarco-100000x100

Each stage is a process of its own, whose wall and processor seconds and peak memory, with that of its
workers, stand in a line. Half of the topics choose BM25's parameters and the other half judges them; the
bound is over all settings of BM25's range, for all topics.
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
    """Extract the candidates that can be among the first ten, for any setting."""
    pool = candidates(home, options)
    return {"topics": len(pool.topics), "candidates": int(pool.candidates.doc.size)}


@stage
def tune(home: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Choose by a grid and coordinate ascents on every second topic, and measure the others."""
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
    """Bound the measure over the whole range, on all topics."""
    from lmtune.tuning.certificate.optimum import CertifiedOptimum

    proven = CertifiedOptimum(MEASURE, tolerance=options.tolerance, depth=DEPTH, max_seconds=options.seconds)
    proven.fit(candidates(home, options))
    return {"setting": proven.best_params_, "best": proven.best_value_, "bound": proven.bound_}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collection", default="msmarco")
    parser.add_argument("--shards", type=int, default=0, help="0: one index")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--seconds", type=float, default=600.0, help="of the certificate")
    parser.add_argument("--home", type=Path, help="where the index is kept; a temporary folder by default")
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
