"""Measure tuning on a synthetic collection: pruning, settings per second, RankNet, certificate.

    python benchmarks/tuning.py --collection robust04 --output figures.json
    python benchmarks/tuning.py --collection 50000x100 --anserini-python ENV/bin/python

All comparisons are within one run on the same data. Seconds are processor seconds of this process, summed
over threads, unless they are called wall.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
from measuring import ANSERINI_HELP, answer, machine, write_figures
from numpy.typing import NDArray
from synthetic import collection

import lmtune
from lmtune.candidates.extraction import extract_pruned
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.candidates.regions import Regions
from lmtune.candidates.skyband import skyband
from lmtune.compiled import compiled
from lmtune.index.lucene.java import is_installed
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measures
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.space import ParameterSpace

MEASURES = parse_measures(["AP", "P@10", "Bpref"])
SPACE = ParameterSpace.of("two-stage", {"lambda": (0.0, 0.95), "mu": (50.0, 10_000.0)})
_PYSERINI = Path(__file__).with_name("pyserini_qld.py")


def main() -> None:
    options = parse_options()
    versions = {"numpy": np.__version__, "lmtune": lmtune.__version__}
    figures: dict[str, Any] = {"machine": machine() | versions, "collection": options.collection}
    data = lmtune.load(collection(options.collection))
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        home = options.indexes or Path(scratch)
        with clock(figures, "index"):
            index = lmtune.index_for(data.documents, home=home)
        with clock(figures, "pool, unpruned"):
            whole = CandidatePool.build(index, data.topics, data.qrels)
        pruned = pruning(figures, whole, data, index)
        regions = cells(figures, pruned)
        warm_up(pruned, regions)
        settings(figures, whole, pruned, regions)
        del whole
        ranknet(figures, pruned)
        evaluators(figures, pruned, data.qrels)
        if options.tolerance:
            certificate(figures, pruned, options.tolerance)
        if options.anserini_python is not None:
            pyserini(figures, data, pruned, options.anserini_python, Path(scratch))
    figures["peak memory, MB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    write_figures(figures, options.output)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collection", default="robust04", help="a synthetic collection, or a folder")
    parser.add_argument("--indexes", type=Path, help="folder of built indexes")
    parser.add_argument("--scratch", type=Path, help="folder for temporary files")
    parser.add_argument(
        "--tolerance", type=float, default=1e-3, help="tolerance of the certificate; 0 skips it"
    )
    parser.add_argument(
        "--anserini-python",
        type=Path,
        default=Path(sys.executable) if is_installed() else None,
        help=ANSERINI_HELP,
    )
    parser.add_argument("--output", type=Path, help="a JSON file")
    return parser.parse_args()


@contextmanager
def clock(figures: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    row: dict[str, Any] = {}
    cpu, wall = time.process_time(), time.perf_counter()
    yield row
    row["seconds"] = round(time.process_time() - cpu, 4)
    row["wall seconds"] = round(time.perf_counter() - wall, 4)
    figures[name] = row
    print(name, row, file=sys.stderr, flush=True)


def median_candidates(pool: CandidatePool) -> int:
    return int(np.median(np.diff(pool.candidates.start)))


def pruning(figures: dict[str, Any], whole: CandidatePool, data: Any, index: Any) -> CandidatePool:
    small = CandidatePool.build(index, dict(list(data.topics.items())[:1]), data.qrels)
    for mode in ("e", "tf"):
        skyband(small, mode=mode)  # compiles
        with clock(figures, f"skyband, {mode}-dominance") as row:
            pruned = skyband(whole, mode=mode)
        row["median candidates before"] = median_candidates(whole)
        row["median candidates after"] = median_candidates(pruned)
    with clock(figures, "pool, pruned while it is extracted"):
        return extract_pruned(index, data.topics, data.qrels)


def cells(figures: dict[str, Any], pruned: CandidatePool) -> Regions:
    Regions.build(pruned, SPACE.ranges, shape=(1, 1))
    with clock(figures, "regions, 16 x 16") as row:
        regions = Regions.build(pruned, SPACE.ranges, shape=(16, 16))
    sizes = np.diff(regions.start, axis=1)
    row["mean candidates a topic and cell"] = round(float(sizes.mean()), 1)
    return regions


def warm_up(pruned: CandidatePool, regions: Regions) -> None:
    for options in ({}, {"regions": regions}):
        measure_settings(pruned, {"lambda": 0.5, "mu": 500.0}, MEASURES, **options)  # type: ignore[arg-type]


def settings(figures: dict[str, Any], whole: CandidatePool, pruned: CandidatePool, regions: Regions) -> None:
    rng = np.random.default_rng(0)
    drawn = np.array([SPACE.random(rng) for _ in range(1024)])
    works: dict[str, tuple[int, Callable[[int], NDArray[np.float64]]]] = {
        "cells": (1024, lambda n: measure_settings(pruned, drawn[:n], MEASURES, regions=regions)),
        "skyband": (128, lambda n: measure_settings(pruned, drawn[:n], MEASURES)),
        "unpruned": (16, lambda n: measure_settings(whole, drawn[:n], MEASURES)),
        "numpy, unpruned": (2, lambda n: numpy_baseline(whole, *drawn[:n].T)),
    }
    rates = {}
    reference = np.empty(0)
    for name, (count, work) in works.items():
        with clock(figures, f"settings, {name}") as row:
            values = work(count)
        if not reference.size:
            reference = values
        row["largest difference of a value"] = float(np.abs(values - reference[:, :count]).max())
        rates[name] = count / row["wall seconds"]
        row["settings a second"] = round(rates[name], 2)
    figures["ratio, cells to numpy"] = round(rates["cells"] / rates["numpy, unpruned"], 1)
    figures["ratio, skyband to numpy"] = round(rates["skyband"] / rates["numpy, unpruned"], 1)


def numpy_baseline(
    pool: CandidatePool, lambdas: NDArray[np.float64], mus: NDArray[np.float64], depth: int = 1000
) -> NDArray[np.float64]:
    """Score, cut by argpartition, sort and measure with NumPy, as a straightforward implementation would."""
    out = np.zeros((len(pool.topics), lambdas.size, 3))
    relevant, nonrelevant = pool.judged_counts()
    for t in range(len(pool.topics)):
        rows, terms = pool.candidates.rows(t), pool.term_rows(t)
        tf, length = pool.tf_block(pool.candidates, t), pool.candidates.length[rows]
        gain, p, count = pool.candidates.gain[rows], pool.value[terms, None], pool.count[terms, None]
        for s, (lambda_, mu) in enumerate(zip(lambdas, mus, strict=True)):
            x = (1.0 - lambda_) * (tf + mu * p) / (mu + length) + lambda_ * p
            score = (count * np.log(x)).sum(axis=0)
            top = np.arange(score.size)
            if score.size > depth:
                top = np.argpartition(-score, depth - 1)[:depth]
                top = np.flatnonzero(score >= score[top].min())
            top = top[np.lexsort((top, -score[top]))][:depth]
            places = np.flatnonzero(gain[top] >= 1)
            above = np.cumsum(gain[top] == 0)[places]
            bound = max(1, min(relevant[t], nonrelevant[t]))
            kept = np.where(above > 0, 1.0 - np.minimum(above, relevant[t]) / bound, 1.0)
            precision = np.arange(1, places.size + 1) / (places + 1)
            found = max(1, relevant[t])
            out[t, s] = precision.sum() / found, (places < 10).sum() / 10, kept.sum() / found
    return out


def ranknet(figures: dict[str, Any], pruned: CandidatePool) -> None:
    pairs = Pairs.build(pruned)
    pairs.cost({"lambda": 0.5, "mu": 500.0})
    figures["RankNet pairs"] = int(pairs.per_topic.sum())
    with clock(figures, "RankNet cost and gradient") as row:
        for _ in range(10):
            ours = pairs.cost({"lambda": 0.6, "mu": 300.0})
    figures["RankNet cost and gradient"] = {k: round(v / 10, 5) for k, v in row.items()}
    libm_loop(pairs, 0.6, 300.0, topics=1)
    with clock(figures, "RankNet, exp and log1p a pair"):
        plain = libm_loop(pairs, 0.6, 300.0)
    figures["RankNet, largest relative difference"] = float(
        max(abs(a / b - 1.0) for a, b in zip((ours.value, *ours.gradient), plain, strict=True))
    )
    ratio = figures["RankNet, exp and log1p a pair"]["seconds"]
    ratio /= figures["RankNet cost and gradient"]["seconds"]
    figures["ratio, RankNet to the plain loop"] = round(ratio, 1)
    with clock(figures, "RankNet fit") as row:
        tuner = lmtune.RankNetTuner().fit(pruned, pairs=pairs)
    row["evaluations"] = tuner.n_evaluations_
    row |= {name: round(value, 4) for name, value in tuner.best_params_.items()}


def libm_loop(
    pairs: Pairs, lambda_: float, mu: float, topics: int | None = None
) -> tuple[float, float, float]:
    total = np.zeros(3)
    pool, columns = pairs.pool, pairs.columns
    for t in range(topics or len(pool.topics)):
        rows, terms = columns.rows(t), pool.term_rows(t)
        scored = lmtune.score_and_gradient(
            pool.tf_block(columns, t),
            columns.length[rows],
            pool.value[terms],
            lambda_=lambda_,
            mu=mu,
            count=pool.count[terms],
        )
        total += _libm_pairs(scored.score, scored.dlambda, scored.dmu, int(pairs.relevant[t]))
    return float(total[0]), float(total[1]), float(total[2])


@compiled()
def _libm_pairs(score, dlambda, dmu, split):  # type: ignore[no-untyped-def]
    out = np.zeros(3)
    for r in range(split):
        for n in range(split, score.size):
            x = score[n] - score[r]
            e = math.exp(-abs(x))
            out[0] += max(x, 0.0) + math.log1p(e)
            share = 1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e)
            out[1] += share * (dlambda[n] - dlambda[r])
            out[2] += share * (dmu[n] - dmu[r])
    return out


def evaluators(figures: dict[str, Any], pruned: CandidatePool, qrels: dict[str, dict[str, int]]) -> None:
    """Evaluate one run: ranked lists in memory with ir_measures and ranx, the pool with lmtune's kernel."""
    run = {}
    for ranking in rank(pruned, {"lambda": 0.4, "mu": 1000.0}):
        run[ranking.topic] = {d: float(-i) for i, d in enumerate(ranking.docnos)}
    names = [ir_measures.parse_measure(str(m)) for m in MEASURES]
    others: dict[str, Callable[[], Any]] = {
        "ir_measures, one run": lambda: ir_measures.calc_aggregate(names, qrels, run)
    }
    try:
        import ranx  # type: ignore[import-not-found, unused-ignore]

        judged = ranx.Qrels({t: {d: max(g, 0) for d, g in j.items()} for t, j in qrels.items()})
        ranked = ranx.Run(run)
        others["ranx, one run"] = lambda: ranx.evaluate(judged, ranked, ["map", "precision@10"])
    except ImportError:
        figures["ranx"] = "not installed"
    for name, work in others.items():
        work()
        with clock(figures, name):
            work()
    with clock(figures, "our kernel, scoring included, one setting"):
        measure_settings(pruned, {"lambda": 0.4, "mu": 1000.0}, MEASURES)


def certificate(figures: dict[str, Any], pruned: CandidatePool, tolerance: float) -> None:
    for measure in ("AP", "P@10", "Bpref"):
        with clock(figures, f"certificate, {measure} to {tolerance:g}") as row:
            found = lmtune.CertifiedOptimum(measure, tolerance=tolerance, space=SPACE).fit(pruned)
        row["best"], row["bound"] = found.best_value_, found.bound_
        row["boxes"], row["certified"] = found.n_boxes_, found.certified_
        gaps = (found.bounds_["bound"] - found.bounds_["best"]).tolist()
        curve = list(zip(found.bounds_["boxes"].tolist(), gaps, strict=True))
        row["boxes and gap"] = curve[:: max(1, len(curve) // 12)]


def pyserini(figures: dict[str, Any], data: Any, pruned: CandidatePool, python: Path, scratch: Path) -> None:
    """Time pyserini's search on the same documents, at a few settings of Dirichlet smoothing and BM25."""
    corpus = scratch / "corpus"
    corpus.mkdir()
    with (corpus / "docs.jsonl").open("w", encoding="utf-8") as file:
        for batch in data.documents.batches():
            for document in batch.read():
                file.write(json.dumps({"id": document.docno, "contents": document.text}) + "\n")
    (scratch / "topics.json").write_text(json.dumps(data.topics), encoding="utf-8")
    theirs = answer(_PYSERINI, corpus, scratch / "lucene", scratch / "topics.json", python=python)
    bm25 = extract_pruned(pruned.index, data.topics, data.qrels, model="bm25")
    with clock(figures, "regions, bm25, 16 x 16"):
        regions = Regions.build(bm25)
    for name, pool, shape, cells in (
        ("dirichlet, skyband", pruned, (8, 64), None),
        ("bm25, skyband", bm25, (8, 8), None),
        ("bm25, cells", bm25, (48, 48), regions),
    ):
        model = name.split(",")[0]
        grid = ParameterSpace.of(model).grid(shape)
        measure_settings(pool, grid[:1], MEASURES, regions=cells)  # compiles
        rows = []
        for _ in range(3):
            with clock(figures, f"settings, {name}") as row:
                measure_settings(pool, grid, MEASURES, regions=cells)
            rows.append(row)
        for unit, seconds in zip(("seconds", "wall seconds"), theirs[model], strict=True):
            ours = min(row[unit] for row in rows) / len(grid)
            figures[f"{name}, {unit} a setting"] = round(ours, 5)
            figures[f"{model}, pyserini's {unit} a setting"] = round(seconds, 4)
            figures[f"{name}, ratio of {unit} to pyserini's"] = round(seconds / ours, 1)


if __name__ == "__main__":
    main()
