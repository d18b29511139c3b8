"""Add feedback weights and features to the terms of topics."""

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

# The feature P(w|F) includes all terms of the feedback documents.
_ALL_TERMS = 1_000_000


def weigh(
    index: Index, topics: Mapping[str, str], formula: Weighted, first: Iterable[CandidatePool]
) -> dict[str, str]:
    """Return topics as weighted queries, with the inputs of a formula's term weights.

    Parameters
    ----------
    index : Index
        The documents.
    topics : mapping of str to str
        Query texts. A topic without a term in the collection is returned unchanged.
    formula : Weighted
        The formula with feedback and features.
    first : iterable of CandidatePool
        Pools of the base formula for the first search, without judgments.

    Raises
    ------
    InputError
        If the index stores neither the documents' terms nor their texts.
    """
    wanted = formula.feedback or Feedback("rm3")
    best = _best_documents(index, first, formula.first, wanted.documents) if formula.searches_first else {}
    counts = {topic: _counts(index, text, formula) for topic, text in topics.items()}
    known = {term: term_statistics(index, term) for term in _terms(counts.values(), best)}
    collection = Corpus(known, index.num_docs, index.total_terms)
    computes = [
        each.compute.of_terms(index.analyze, topics) if isinstance(each.compute, TermFile) else each.compute
        for each in formula.features.values()
    ]
    weighted: dict[str, str] = {}
    for topic, text in topics.items():
        documents = best.get(topic, [])
        feedback: Weights = {}
        if formula.feedback is not None:
            feedback = feedback_weights(EXPANSIONS[wanted.kind], documents, wanted.terms, collection)
        shares: Weights = {}
        if "feedback" in formula.features:
            shares = feedback_weights(EXPANSIONS["rm3"], documents, _ALL_TERMS, collection)
        beside = _count_beside(index, text) if formula.needs_positions else {}
        terms = _query_terms(topic, counts[topic], shares, collection, beside)
        scaled = _scale(feedback, counts[topic], formula.norm)
        rows = _rows(terms, None if formula.feedback is None else scaled, computes)
        weighted[topic] = WeightedQuery.of(rows, are_terms=True) if rows else text
    return weighted


def _scale(feedback: Weights, counts: Mapping[str, float], norm: float | None) -> Weights:
    """Scale feedback weights to the norm of the query, including terms outside the collection."""
    if not feedback or norm is None:
        return feedback
    query, unscaled = (norm_of(np.abs([*some.values()]), norm) for some in (counts, feedback))
    return {term: weight * query / unscaled for term, weight in feedback.items()}


def _query_terms(
    topic: str, counts: Mapping[str, float], shares: Weights, collection: Corpus, beside: Mapping[str, int]
) -> list[QueryTerm]:
    """Return the inputs of features for the query terms in the collection."""
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


def _count_beside(index: Index, text: str) -> Mapping[str, int]:
    """Count the occurrences of query terms in the collection next to their neighbours in the query."""
    words = () if isinstance(text, WeightedQuery) else index.analyze(text)
    windows, counts = list(windows_of(words, ordered=True)), Counter[str]()
    for shard in shards_of(index):
        for window, postings in zip(windows, count_windows(shard, windows), strict=True):
            times = 0 if postings is None else int(postings.tfs.sum(dtype=np.int64))
            counts.update(dict.fromkeys((window.first, window.second), times))
    return counts


def _rows(
    terms: Sequence[QueryTerm], feedback: Weights | None, computes: Sequence[Callable[[QueryTerm], float]]
) -> dict[str, float | tuple[float, ...]]:
    """Return each term's count, its feedback weight if there is feedback, and its features."""
    rows: dict[str, float | tuple[float, ...]] = {}
    for word in terms:
        expanded = () if feedback is None else (feedback.get(word.term, 0.0),)
        rows[word.term] = (float(word.times), *expanded, *(float(compute(word)) for compute in computes))
    for term, weight in (feedback or {}).items():
        rows.setdefault(term, (0.0, weight, *(0.0 for _ in computes)))
    return rows


def _best_documents(
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
    return {
        topic: [FeedbackDocument(next(vectors), score) for score in each] for topic, each in scores.items()
    }


def _counts(index: Index, text: str, formula: Weighted) -> Mapping[str, float]:
    """Return the count of each query term in the formula, or the term's weight in a weighted query."""
    if isinstance(text, WeightedQuery):
        return {term: float(weight) for term, weight in text.by_term(index.analyze).items()}  # type: ignore[arg-type]
    return {column.term: column.times for column in formula.columns(index.analyze(text))}  # type: ignore[misc]


def _terms(
    counts: Iterable[Mapping[str, float]], best: Mapping[str, list[FeedbackDocument]]
) -> dict[str, None]:
    terms = {term: None for each in counts for term in each}
    return terms | {term: None for each in best.values() for document in each for term in document.terms}
