"""Time and memory of sharded indexes by size, with an extrapolation to larger collections.

    python benchmarks/shards.py --documents 1000000 --shards 1 4 16

Each stage runs in a separate process with worker processes, so memory peaks are those of the stage. Every
number of shards must give the same pool. Seconds are processor seconds, which do not include other programs.
The extrapolation multiplies the measured costs per posting and per document.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measuring import answer, build_plain, staged
from synthetic import collection

JUDGED = 100
BYTES = 5  # of a posting on disk, at most; compression reduces it
LARGE = {"ClueWeb09B": 50_220_423, "MS MARCO v2": 138_364_198}


def build(home: Path, name: str, shards: int) -> dict[str, Any]:
    """Index a collection in shards."""
    return {"disk": build_plain(name, home / f"{shards}", shards) * 2**20}


def extract(home: Path, name: str, shards: int) -> dict[str, Any]:
    """Extract and prune candidates, with judgments of random documents."""
    from lmtune.candidates.extraction import extract_pruned
    from lmtune.collections.loading import load
    from lmtune.index.sharded import ShardedIndex

    index, topics = ShardedIndex.open(home / f"{shards}"), load(name, need=["topics"]).topics
    rng = np.random.default_rng(0)
    qrels = {
        topic: dict.fromkeys(index.docnos(rng.integers(0, index.num_docs, JUDGED)), 1) for topic in topics
    }
    pool = extract_pruned(index, topics, qrels)
    whole = hashlib.sha256()
    for columns in (pool.candidates, pool.judged):
        for array in vars(columns).values():
            whole.update(array.tobytes())
    return {"kept": int(pool.candidates.doc.size), "pool": whole.hexdigest()}


def count(home: Path, name: str, shards: int) -> dict[str, Any]:
    """Count the postings of the topics' distinct terms."""
    from lmtune.collections.loading import load
    from lmtune.index.sharded import ShardedIndex

    index, topics = ShardedIndex.open(home / f"{shards}"), load(name, need=["topics"]).topics
    terms = {term for text in topics.values() for term in index.analyze(text)}
    found = (shard.postings(term) for shard in index.shards for term in terms)
    return {"postings": sum(own.docs.size for own in found if own is not None), "topics": len(topics)}


STAGES = {stage.__name__: stage for stage in (build, extract, count)}


def measured(stage: str, home: Path, name: str, shards: int, workers: int) -> dict[str, Any]:
    """Run a stage in a separate process."""
    options = ["--home", home, "--workers", workers, "--documents", name, "--shards", shards]
    found: dict[str, Any] = answer(__file__, "--stage", stage, *options)
    return found


def line(x: list[float], y: list[float]) -> tuple[float, float]:
    """Return the slope and intercept of the least-squares line through points."""
    slope, value = np.polyfit(x, y, 1)
    return float(slope), float(value)


def model(rows: list[dict[str, Any]], topics: int) -> None:
    """Print the estimated cost of larger collections, from linear fits to the measurements."""
    found = [row["extract"] for row in rows]
    seconds, start = line([row["postings"] for row in rows], [own["cpu"] for own in found])
    driver, driver_0 = line([own["kept"] for own in found], [own["own_mb"] for own in found])
    # Candidates grow as a power of the documents; use the two largest sizes, because the power decreases.
    sizes = sorted({(row["documents"], row["extract"]["kept"]) for row in rows})[-2:]
    (fewer, kept_of_fewer), (more, kept_of_more) = sizes
    power = float(np.log(kept_of_more / kept_of_fewer) / np.log(more / fewer))
    in_shard = [row["documents"] / row["shards"] for row in rows]
    worker, worker_0 = line(in_shard, [own["worker_mb"] for own in found])
    disk, _ = line([row["documents"] for row in rows], [row["build"]["disk"] for row in rows])
    share = rows[-1]["postings"] / rows[-1]["documents"] / rows[-1]["topics"]
    print(
        f"\n{seconds * 1e9:.0f} ns of a processor a posting, and {start:.1f} s;"
        f" {share:.3f} postings a document and topic; {disk:.0f} bytes a document;\n"
        f"worker {worker * 1e6:.0f} MB a million documents of its shard, and {worker_0:.0f} MB;"
        f" driver {driver * 1e6:.0f} bytes a candidate, and {driver_0:.0f} MB;\n"
        f"candidates grow with the documents to the power {power:.2f}"
    )
    print("| collection | shards | postings, 1e9 | GB read | hours of a processor | driver MB | worker MB |")
    for name, documents in LARGE.items():
        postings = share * documents * topics
        kept = kept_of_more * (documents / more) ** power * topics / rows[-1]["topics"]
        for shards in (16, 64, 256):
            print(
                f"| {name} | {shards} | {postings / 1e9:.1f} | {postings * BYTES / 1e9:.0f} |"
                f" {postings * seconds / 3600:.1f} | {driver * kept + driver_0:,.0f} |"
                f" {worker * documents / shards + worker_0:,.0f} |"
            )


def main() -> None:
    """Run all measurements, or a single stage (in child processes)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--documents", nargs="+", default=["1000000x50"], help="sizes of synthetic collections"
    )
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--topics", type=int, default=250, help="number of topics of the extrapolation")
    parser.add_argument("--home", type=Path, default=Path("indexes/benchmark"))
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage:
        work = partial(STAGES[given.stage], given.home, given.documents[0], given.shards[0])
        print(json.dumps(staged(work, given.workers)))
        return
    rows: list[dict[str, Any]] = []
    print("| documents | shards | disk MB | build s | driver, worker MB | extract s | driver, worker MB |")
    for size in given.documents:
        pools = set()
        for shards in given.shards:
            row: dict[str, Any] = {"documents": int(size.partition("x")[0]), "shards": shards}
            row |= {
                stage: measured(stage, given.home, collection(size), shards, given.workers)
                for stage in STAGES
            }
            row |= row["count"]
            pools.add(row["extract"]["pool"])
            built, found = row["build"], row["extract"]
            print(
                f"| {row['documents']:,} | {shards} | {built['disk'] / 1e6:,.0f} | {built['cpu']:.0f} |"
                f" {built['own_mb']:,.0f}, {built['worker_mb']:,.0f} | {found['cpu']:.1f} |"
                f" {found['own_mb']:,.0f}, {found['worker_mb']:,.0f} |",
                flush=True,
            )
            rows.append(row)
            shutil.rmtree(given.home)
        print(
            f"{size}: {len(pools)} pool of {found['kept']:,} candidates; {row['postings']:,} postings",
            flush=True,
        )
        if len(pools) > 1:
            sys.exit("the pools differ")
    model(rows, given.topics)


if __name__ == "__main__":
    main()
