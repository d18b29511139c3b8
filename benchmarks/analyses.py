"""Index a collection under several analyses in one pass, and one after the other.

    python benchmarks/analyses.py --documents 50000 --repeats 3

Both leave the same bytes (`tests/indexing/test_builder.py`); they run alternately, in this process.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from made_corpus import write_corpus

from lmtune.formats.file_documents import FileDocuments, document_files
from lmtune.indexing.analysis import Analyzer
from lmtune.indexing.builder import build_index


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--corpus", type=Path, help="documents in place of made ones")
    parser.add_argument("--stemmers", default="porter,english,none")
    parser.add_argument("--stopwords", default="lucene,none")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    analyzers = [
        Analyzer(stemmer, stopwords)
        for stemmer in options.stemmers.split(",")
        for stopwords in options.stopwords.split(",")
    ]
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        if options.corpus is None:
            write_corpus(home / "corpus", documents=options.documents)
        source = FileDocuments("made", document_files(options.corpus or home / "corpus"))
        build_index(source, home / "warm", analyzers[0], workers=options.workers)
        (first, own), *others = {home / str(n): own for n, own in enumerate(analyzers)}.items()
        seconds: dict[str, list[float]] = {"one by one": [], "together": []}
        for _ in range(options.repeats):
            begin = time.perf_counter()
            for path, analyzer in ((first, own), *others):
                build_index(source, path, analyzer, workers=options.workers)
            seconds["one by one"].append(time.perf_counter() - begin)
            begin = time.perf_counter()
            build_index(source, first, own, workers=options.workers, beside=dict(others))
            seconds["together"].append(time.perf_counter() - begin)
    alone, together = map(statistics.median, seconds.values())
    print(f"analyses\t{len(analyzers)}\tone by one\t{alone:.2f} s\ttogether\t{together:.2f} s", end="")
    print(f"\t{together / alone:.2f}")


if __name__ == "__main__":
    main()
