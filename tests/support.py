"""An index over a handful of token lists, for tests that need no files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lmtune.indexing.index import Postings


class TinyIndex:
    """Documents given as white-space separated tokens; queries are analysed the same way."""

    def __init__(self, documents: Mapping[str, str], name: str = "tiny") -> None:
        self.name = name
        self.documents = dict(documents)
        self._docnos = list(documents)
        self._tokens = [text.split() for text in documents.values()]
        self.num_docs = len(self._docnos)
        self.lengths = np.array([len(tokens) for tokens in self._tokens], np.int32)
        self.total_terms = int(self.lengths.sum())
        self.docno_rank = np.argsort(np.argsort(np.array(self._docnos, object))).astype(np.int32)
        self.fingerprint = hashlib.blake2b(repr(documents).encode()).hexdigest()
        self._postings: dict[str, list[tuple[int, int]]] = {}
        for doc, tokens in enumerate(self._tokens):
            for term, tf in Counter(tokens).items():
                self._postings.setdefault(term, []).append((doc, tf))

    def analyze(self, text: str) -> list[str]:
        return text.split()

    def postings(self, term: str) -> Postings | None:
        if term not in self._postings:
            return None
        docs, tfs = zip(*self._postings[term], strict=True)
        return Postings(np.array(docs, np.int32), np.array(tfs, np.int32))

    def docnos(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        return [self._docnos[int(doc)] for doc in docs]

    def doc_numbers(self, docnos: Sequence[str]) -> NDArray[np.int32]:
        places = {docno: doc for doc, docno in enumerate(self._docnos)}
        return np.array([places.get(docno, -1) for docno in docnos], np.int32)


def random_collection(
    seed: int, *, documents: int = 60, topics: int = 6, vocabulary: int = 12, gains: int = 2
) -> tuple[TinyIndex, dict[str, str], dict[str, dict[str, int]]]:
    """Make a small collection with short documents, so that ties are common."""
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(vocabulary)]
    weights = 1.0 / np.arange(1, vocabulary + 1)
    weights /= weights.sum()
    texts = {
        f"d{rng.permutation(1000)[0]:03d}-{i}": " ".join(
            rng.choice(words, size=rng.integers(1, 15), p=weights)
        )
        for i in range(documents)
    }
    index = TinyIndex(texts)
    queries = {
        str(t): " ".join(rng.choice([*words, "absent"], size=rng.integers(1, 6)))
        for t in range(1, topics + 1)
    }
    docnos = np.array(list(texts), object)
    qrels = {
        topic: {
            str(docno): int(rng.integers(-1, gains + 1))
            for docno in rng.choice(docnos, size=rng.integers(1, documents // 2), replace=False)
        }
        for topic in queries
    }
    for topic, judged in qrels.items():
        judged[f"missing-{topic}"] = 1
    return index, queries, qrels
