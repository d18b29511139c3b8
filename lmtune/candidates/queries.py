"""From topics in words to topics whose terms have feedback weights and features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lmtune.arrays import Doubles
from lmtune.index.protocol import Index
from lmtune.index.sharded import shards_of
from lmtune.index.windows import count_windows, document_vectors, windows_of
from lmtune.io.topics import WeightedQuery
from lmtune.models.feedback import (
    EXPANSIONS,
    Corpus,
    FeedbackDocument,
    Weights,
    feedback_weights,
    term_statistics,
)
from lmtune.models.term_features import QueryTerm, TermFile
from lmtune.models.weighted import Feedback, Weighted, norm_of

if TYPE_CHECKING:
    from lmtune.candidates.pool import CandidatePool

# P(w|F) of a feature is of all the terms that feedback documents have.
_EVERY = 1_000_000


def weigh(
    index: Index, topics: Mapping[str, str], formula: Weighted, first: Iterable[CandidatePool]
) -> dict[str, str]:
    """Return topics with what a formula's parameters make weights of.

    Parameters
    ----------
    index : Index
        The documents.
    topics : mapping of str to str
        In words. One that has weights already, or no term that the collection holds, stays as it is.
    formula : Weighted
        Which feedback and features it has.
    first : iterable of CandidatePool
        Pools of the formula's base, which make the first search; without judgments.

    Raises
    ------
    InputError
        Where an index keeps neither terms nor texts.
    """
    wanted = formula.feedback or Feedback("rm3")
    found = _best(index, first, formula.first, wanted.documents) if formula.searches_first else {}
    counts = {topic: _counts(index, text, formula) for topic, text in topics.items()}
    known = {term: term_statistics(index, term) for term in _terms(counts.values(), found)}
    collection = Corpus(known, index.num_docs, index.total_terms)
    computes = [
        own.compute.of_terms(index.analyze, topics) if isinstance(own.compute, TermFile) else own.compute
        for own in formula.features.values()
    ]
    weighted: dict[str, str] = {}
    for topic, text in topics.items():
        documents = found.get(topic, [])
        feedback: Weights = {}
        if formula.feedback is not None:
            feedback = feedback_weights(EXPANSIONS[wanted.kind], documents, wanted.terms, collection)
        shares: Weights = {}
        if "feedback" in formula.features:
            shares = feedback_weights(EXPANSIONS["rm3"], documents, _EVERY, collection)
        beside = _beside(index, text) if formula.needs_positions else {}
        terms = _query_terms(topic, counts[topic], shares, collection, beside)
        scaled = _scaled(feedback, counts[topic], formula.norm)
        rows = _rows(terms, None if formula.feedback is None else scaled, computes)
        weighted[topic] = WeightedQuery.of(rows, are_terms=True) if rows else text
    return weighted


def _scaled(feedback: Weights, counts: Mapping[str, float], norm: float | None) -> Weights:
    """Give feedback weights the norm of the query, terms that the collection lacks among it."""
    if not feedback or norm is None:
        return feedback
    query, own = (norm_of(np.abs([*some.values()]), norm) for some in (counts, feedback))
    return {term: weight * query / own for term, weight in feedback.items()}


def _query_terms(
    topic: str, counts: Mapping[str, float], shares: Weights, collection: Corpus, beside: Mapping[str, int]
) -> list[QueryTerm]:
    """Return what features look at of a query's terms that the collection holds."""
    known = [term for term in counts if collection.terms[term].df]
    return [
        QueryTerm(
            topic,
            term,
            counts[term],
            place,
            len(known),
            collection.terms[term],
            collection.documents,
            collection.tokens,
            shares.get(term, 0.0),
            beside.get(term, 0),
        )
        for place, term in enumerate(known)
    ]


def _beside(index: Index, text: str) -> Mapping[str, int]:
    """Count how often the collection has a query's terms beside their neighbours there."""
    words = () if isinstance(text, WeightedQuery) else index.analyze(text)
    windows, found = list(windows_of(words, ordered=True)), Counter[str]()
    for shard in shards_of(index):
        for window, postings in zip(windows, count_windows(shard, windows), strict=True):
            times = 0 if postings is None else int(postings.tfs.sum(dtype=np.int64))
            found.update(dict.fromkeys((window.first, window.second), times))
    return found


def _rows(
    terms: Sequence[QueryTerm], feedback: Weights | None, computes: Sequence[Callable[[QueryTerm], float]]
) -> dict[str, float | tuple[float, ...]]:
    """Return each term's count, its feedback weight where there is feedback, and its features."""
    rows: dict[str, float | tuple[float, ...]] = {}
    for own in terms:
        expanded = () if feedback is None else (feedback.get(own.term, 0.0),)
        rows[own.term] = (float(own.times), *expanded, *(float(compute(own)) for compute in computes))
    for term, weight in (feedback or {}).items():
        rows.setdefault(term, (0.0, weight, *(0.0 for _ in computes)))
    return rows


def _best(
    index: Index, pools: Iterable[CandidatePool], setting: Doubles, documents: int
) -> dict[str, list[FeedbackDocument]]:
    """Return each topic's best documents at a setting, with their terms and scores."""
    scores, docs = dict[str, list[float]](), []
    for pool in pools:
        for t, topic in enumerate(pool.topics):
            top = pool.top(t, setting, documents)
            scores[topic] = pool.formula.differentiate(pool.topic_documents(t, top), setting)[0].tolist()
            docs.append(pool.candidates.doc[pool.candidates.rows(t)][top])
    vectors = iter(document_vectors(index, np.concatenate(docs)))
    return {topic: [FeedbackDocument(next(vectors), score) for score in own] for topic, own in scores.items()}


def _counts(index: Index, text: str, formula: Weighted) -> Mapping[str, float]:
    """Return how often the formula counts each term of a query, or the term's weight there."""
    if isinstance(text, WeightedQuery):
        return {term: float(weight) for term, weight in text.by_term(index.analyze).items()}  # type: ignore[arg-type]
    return {column.term: column.times for column in formula.columns(index.analyze(text))}  # type: ignore[misc]


def _terms(
    counts: Iterable[Mapping[str, float]], found: Mapping[str, list[FeedbackDocument]]
) -> dict[str, None]:
    terms = {term: None for own in counts for term in own}
    return terms | {term: None for own in found.values() for document in own for term in document.terms}
