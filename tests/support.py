"""An index over a handful of token lists, for tests that need no files."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.candidates.columns import join_columns, starts, topic_columns
from lmtune.candidates.pool import CandidatePool
from lmtune.index.protocol import Positions, Postings

COLLECTIONS = int(os.environ.get("LMTUNE_COLLECTIONS", "50"))
"""How many made collections, documents or lists a property is tried on; `make attack` says more."""

SAMPLED = "TRITON_INTERPRET" in os.environ and "LMTUNE_EACH_LOSS" not in os.environ
"""Whether lists are few: Triton's interpreter takes a millisecond for what a GPU does in a cycle."""


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

    def terms(self) -> list[str]:
        return sorted(self._postings)

    def postings(self, term: str) -> Postings | None:
        if term not in self._postings:
            return None
        docs, tfs = zip(*self._postings[term], strict=True)
        return Postings(np.array(docs, np.int32), np.array(tfs, np.int32))

    def positions(self, term: str) -> Positions | None:
        found = self.postings(term)
        if found is None:
            return None
        held = [at for doc in found.docs for at, token in enumerate(self._tokens[doc]) if token == term]
        return Positions(*found, np.array(held, np.int32))

    def docnos(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        return [self._docnos[int(doc)] for doc in docs]

    def doc_numbers(self, docnos: Sequence[str]) -> NDArray[np.int32]:
        places = {docno: doc for doc, docno in enumerate(self._docnos)}
        return np.array([places.get(docno, -1) for docno in docnos], np.int32)


class FieldedTiny(TinyIndex):
    """Documents of a title, a body and both."""

    def __init__(self, texts: dict[str, dict[str, str]]) -> None:
        super().__init__({docno: f"{own['title']} {own['body']}" for docno, own in texts.items()})
        self.texts = texts
        self.own = {
            field: TinyIndex({docno: own[field] for docno, own in texts.items()})
            for field in ("title", "body")
        }

    def field(self, name: str) -> TinyIndex:
        return self.own[name]


def read_answer(text: str) -> tuple[str, dict[str, str]]:
    """Return the title and the labelled lines with which an output opens."""
    title, _, *lines = text.splitlines()
    labelled = [line.strip() for line in lines[: lines.index("")]]
    return title, dict(re.split(r" {3,}", line, maxsplit=1) for line in labelled)


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


class NumberedIndex(TinyIndex):
    """Documents that are only lengths: what a pool of made-up frequencies needs of an index."""

    def __init__(self, lengths: NDArray[np.integer]) -> None:
        super().__init__({f"d{i:06d}": "" for i in range(lengths.size)}, "made")
        self.lengths = lengths.astype(np.int32)
        self.total_terms = int(lengths.sum())


def random_pool(
    seed: int,
    *,
    documents: int = 60,
    weights: Sequence[Sequence[int]] = ((1, 1, 1),),
    longest: int = 40,
    rate: float = 0.7,
    p_range: tuple[float, float] = (1e-7, 1e-1),
    equal_p: bool = False,
    gains: int = 2,
) -> CandidatePool:
    """Make a pool of random frequencies, one topic for each tuple of query weights.

    Documents are short and frequencies low, so that ties and near ties are common; `equal_p`
    gives all terms the same probability, so that permuted frequencies score alike but for rounding.
    """
    rng = np.random.default_rng(seed)
    blocks = [rng.poisson(rng.gamma(0.5, 2 * rate, (len(w), documents))) for w in weights]
    lengths = np.maximum.reduce([block.sum(0) for block in blocks])
    lengths = np.maximum(1, lengths + rng.integers(0, longest, documents) // 2)
    index = NumberedIndex(lengths)
    columns, judged, all_gains, p = [], [], [], []
    for block in blocks:
        terms = block.shape[0]
        low, high = np.log(p_range)
        p.append(np.exp(rng.uniform(low, high, 1 if equal_p else terms) + np.zeros(terms)))
        doc = np.flatnonzero(block.any(0)).astype(np.int32)
        doc = doc[np.lexsort((-doc, -block[:, doc].sum(0), lengths[doc]))]
        gain = rng.integers(-1, gains + 1, doc.size).astype(np.int32)
        tf = block[:, doc].astype(np.int32)
        columns.append(topic_columns(doc, index.lengths[doc], gain, tf))
        seen = gain >= 0
        judged.append(topic_columns(doc[seen], index.lengths[doc][seen], gain[seen], tf[:, seen]))
        all_gains.append(np.append(gain[seen], 1).astype(np.int32))
    return CandidatePool(
        name="made",
        index=index,
        topics=tuple(str(t + 1) for t in range(len(weights))),
        terms=tuple(tuple(f"w{w}" for w in range(len(weight))) for weight in weights),
        term_start=starts(weights),
        value=np.concatenate(p),
        count=np.concatenate([np.array(weight, np.int64) for weight in weights]),
        group=np.zeros(sum(map(len, weights)), np.int8),
        candidates=join_columns(columns),
        judged=join_columns(judged),
        judgment_start=starts(all_gains),
        judgments=np.concatenate(all_gains),
        unknown_terms={},
        unknown_documents=len(weights),
    )


def at(lambdas: ArrayLike, mus: ArrayLike) -> NDArray[np.float64]:
    """Make settings of lambdas and mus, shape (settings, 2)."""
    return np.column_stack(np.broadcast_arrays(np.atleast_1d(lambdas), mus)).astype(np.float64)


def best_documents(pool: CandidatePool, t: int, lambda_: float, mu: float, depth: int) -> list[int]:
    """Rank topic t's candidates and return the numbers of the best `depth` documents."""
    return [
        int(d) for d in pool.candidates.doc[pool.candidates.rows(t)][pool.top(t, at(lambda_, mu)[0], depth)]
    ]
