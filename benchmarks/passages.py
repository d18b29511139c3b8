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
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

    return (ShardedIndex if options.shards > 1 else ColumnarIndex).open(home / "index")


def candidates(home: Path, options: argparse.Namespace) -> Any:
    from lmtune.candidates.storage import pool_for
    from lmtune.collections.loading import load

    known = load(collection(options.collection), need=["topics", "qrels"])
    index = opened(home, options)
    return pool_for(index, known.topics, known.qrels, name=known.name, model="bm25", depth=DEPTH)


@stage
def build(home: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Index the passages."""
    from lmtune.collections.loading import load
    from lmtune.index.analysis import Analyzer
    from lmtune.index.builder import build_index
    from lmtune.index.sharding import build_sharded_index

    source = load(collection(options.collection), need=["documents"]).documents
    assert source is not None
    analyzer = Analyzer(stemmer="none", stopwords="none")
    if options.shards > 1:
        build_sharded_index(source, home / "index", analyzer, options.shards)
    else:
        build_index(source, home / "index", analyzer)
    size = sum(path.stat().st_size for path in (home / "index").rglob("*") if path.is_file())
    return {"documents": opened(home, options).num_docs, "disk_mb": size / 2**20}


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


def run_stage(home: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Do a stage in this process."""
    from joblib.externals.loky import get_reusable_executor

    from lmtune.parallel import Workers

    begin = time.perf_counter()
    with Workers(options.workers).engaged():
        found = STAGES[options.stage](home, options)
    wall = time.perf_counter() - begin
    get_reusable_executor().shutdown(wait=True)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, workers = (use.ru_maxrss / 1024 for use in used)
    cpu = sum(use.ru_utime + use.ru_stime for use in used)
    return {"wall": wall, "cpu": cpu, "own_mb": own, "worker_mb": workers} | found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collection", default="msmarco")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--seconds", type=float, default=600.0, help="of the certificate")
    parser.add_argument("--home", type=Path, help="where the index is kept; a temporary folder by default")
    parser.add_argument("--stage", choices=STAGES)
    options = parser.parse_args()
    if options.stage:
        print(json.dumps(run_stage(options.home, options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        home = options.home or Path(folder)
        for name in STAGES:
            command = [sys.executable, __file__, *sys.argv[1:], "--stage", name, "--home", str(home)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            print(name, done.stdout.splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
