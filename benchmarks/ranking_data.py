"""Measure learning-to-rank data: reading and writing LETOR files, batches, features of a run.

    python benchmarks/ranking_data.py --rows 200000 --collection 20000x100
    python benchmarks/ranking_data.py --fold 3771125 --scratch DIR     # MSLR-WEB30K's size: 7 GB of files

Seconds are processor seconds of this process unless they are called wall.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from synthetic import collection

import lmtune
from lmtune.io.letor import read_letor, write_letor
from lmtune.io.letor_rows import Letor
from lmtune.measures.measure import exponential_ndcg
from lmtune.rerank.data import RankingData, batches
from lmtune.rerank.features import FEATURES
from lmtune.rerank.learners.feature_networks import fit
from lmtune.rerank.letor_folder import read_letor_folder
from lmtune.rerank.loss_names import parse_loss
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.reranker import evaluate_queries, reported_measures
from lmtune.rerank.settings import Settings
from lmtune.rerank.sources import run_data

WIDTH = 136
EPOCH = Settings(loss=parse_loss("lambdarank"), network="b64", epochs=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--collection", default="20000x100", help="a synthetic collection, or a folder")
    parser.add_argument(
        "--fold", type=int, help="only measure a fold with this number of rows, from reading to testing"
    )
    parser.add_argument("--scratch", type=Path, help="folder for temporary files")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        if options.fold:
            fold(figures, options.fold, Path(scratch))
            print(json.dumps(figures, indent=1))
            return
        letor(figures, options.rows, Path(scratch))
        features(figures, options.collection, Path(scratch))
    print(json.dumps(figures, indent=1))


def letor(figures: dict[str, Any], rows: int, scratch: Path) -> None:
    random = np.random.default_rng(0)
    path = scratch / "train.txt"
    data = made(random, rows)
    begin = time.process_time()
    write_letor(path, data)
    figures["written, rows/s"] = round(rows / (time.process_time() - begin))
    del data
    megabytes = path.stat().st_size / 1e6
    figures["file, MB"] = round(megabytes)
    small = scratch / "small.txt"
    write_letor(small, made(random, 100))
    read_letor(small, cache=False)  # compiles
    figures["first call, memory at most, MB"] = peak(path, scratch / "other")
    begin = time.process_time()
    read_letor(path, cache=scratch / "cache")
    seconds = time.process_time() - begin
    figures["first call, MB/s"] = round(megabytes / seconds)
    figures["first call, rows/s"] = round(rows / seconds)
    wall = time.perf_counter()
    found = read_letor(path, cache=scratch / "cache")
    float(found.features.sum())
    figures["later calls, rows/s, wall"] = round(rows / (time.perf_counter() - wall))
    ranking = RankingData(found.features, found.labels, found.starts, found.queries)
    begin = time.process_time()
    count = sum(1 for _ in batches(ranking, size=64, seed=0, epoch=0, list_size=120))
    figures["batch of 64 x 120, ms"] = round((time.process_time() - begin) / count * 1e3, 2)


def fold(figures: dict[str, Any], rows: int, scratch: Path) -> None:
    """Time a fold from its files to test values; GB is the process's peak so far, including memory maps."""
    piece = made(np.random.default_rng(0), 37_680)
    write_letor(scratch / "piece.txt", replace(piece, features=piece.features.round(4)))
    text = (scratch / "piece.txt").read_bytes()
    for part, share in (("train", 0.6), ("vali", 0.2), ("test", 0.2)):
        with (scratch / f"{part}.txt").open("wb") as stream:
            for number in range(max(1, round(share * rows / len(piece.labels)))):
                stream.write(text.replace(b" qid:", b" qid:%d-" % number))
    files = [scratch / f"{part}.txt" for part in ("train", "vali", "test")]
    figures["files, GB"] = round(sum(file.stat().st_size for file in files) / 1e9, 2)
    read_letor(scratch / "piece.txt", cache=False)  # compiles
    (scratch / "piece.txt").unlink()

    def stage(name: str, work: Callable[[], Any]) -> Any:
        wall, begin = time.perf_counter(), time.process_time()
        result = work()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        spent = round(time.process_time() - begin, 1)
        figures[name] = {"s": spent, "s wall": round(time.perf_counter() - wall, 1), "GB": round(memory, 2)}
        return result

    [split] = stage("read", lambda: read_letor_folder(scratch))
    figures["rows"] = sum(len(part.labels) for part in (split.train, split.validation, split.test))
    split = stage("read again", lambda: read_letor_folder(scratch))[0]
    split = stage("normalised", lambda: split.map(Normalisation().fit(split.train).transform))
    fit(split.validation.select(split.validation.queries[:64]), split.validation.select(["0-0"]), EPOCH)
    trained = stage("an epoch, validated", lambda: fit(split.train, split.validation, EPOCH))
    scores = stage("test rows scored", lambda: trained.score(split.test))
    stage(
        "nDCG@1, 3, 5, 10",
        lambda: evaluate_queries([(split.test, scores)], reported_measures(exponential_ndcg(10))),
    )


def peak(path: Path, cache: Path) -> int:
    """Return the peak memory of reading `path` in MB, without the memory map of the result."""
    tracemalloc.start()
    read_letor(path, cache=cache)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return round(most / 1e6)


def made(random: np.random.Generator, rows: int) -> Letor:
    """Make rows like those of MSLR-WEB30K: counts and scores, a fifth of them 0."""
    features = random.normal(size=(rows, WIDTH)).astype(np.float32)
    features[:, :40] = random.integers(0, 500, (rows, 40))
    features[random.random(features.shape) < 0.2] = 0
    starts = np.append(np.arange(0, rows, 120), rows)
    names = tuple(str(query) for query in range(len(starts) - 1))
    return Letor(features, random.integers(0, 5, rows).astype(np.float32), starts, names, None)


def features(figures: dict[str, Any], name: str, scratch: Path) -> None:
    data = lmtune.load(collection(name))
    index = lmtune.index_for(data.documents, home=scratch)
    run = {}
    for topic, text in data.topics.items():
        scores = np.zeros(index.num_docs)
        for term in set(index.analyze(text)):
            if postings := index.postings(term):
                idf = np.log(index.num_docs / postings.docs.size)
                scores[postings.docs] += (1 + np.log(postings.tfs)) * idf
        top = np.argsort(-scores, kind="stable")[:1000]
        run[topic] = dict(zip(index.docnos(top), scores[top].tolist(), strict=True))
    run_data(run, index, data.topics, data.qrels)  # compiles
    begin, wall = time.process_time(), time.perf_counter()
    made = run_data(run, index, data.topics, data.qrels)
    seconds = time.process_time() - begin
    figures[f"{len(FEATURES)} features of {len(made.queries)} x 1,000 documents, s"] = round(seconds, 2)
    figures["the same, s wall"] = round(time.perf_counter() - wall, 2)
    figures["features, microseconds a document"] = round(seconds / len(made.labels) * 1e6, 2)


if __name__ == "__main__":
    main()
