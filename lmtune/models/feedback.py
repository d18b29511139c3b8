"""Feedback models: the terms that a first search's best documents add to a query, and their weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lmtune.index.protocol import Index

# What Anserini holds for no feedback term, as do we: single letters and long strings; terms of more than a
# tenth of the documents.
_SHORTEST, _LONGEST, _COMMON = 2, 20, 10
KEPT = (
    f"feedback terms are {_SHORTEST} to {_LONGEST} letters or digits, in at most 1/{_COMMON} of the documents"
)

Weights = dict[str, float]


class FeedbackDocument(NamedTuple):
    """A document of the first search: how often it has which terms, and its score."""

    terms: Mapping[str, int]
    score: float


class TermStatistics(NamedTuple):
    """How often a term occurs in the collection, cf, and in how many documents, df."""

    cf: int
    df: int


class Corpus(NamedTuple):
    """What feedback looks at of a collection.

    Attributes
    ----------
    terms : mapping of str to TermStatistics
        Of all terms of feedback documents.
    documents, tokens : int
        Its documents, empty ones among them, and its tokens.
    """

    terms: Mapping[str, TermStatistics]
    documents: int
    tokens: int


class Expansion(NamedTuple):
    """A kind of feedback.

    Attributes
    ----------
    what : str
        For a reader who does not know the name.
    norm : float
        By which its weights and the query's are made comparable: 1, 2 or infinity.
    weigh : callable
        From feedback documents, how many terms are wanted, and the collection, to weights.
    needs_positive_scores : bool
        Whether documents' scores are their weights.
    """

    what: str
    norm: float
    weigh: Callable[[Sequence[FeedbackDocument], int, Corpus], Weights]
    needs_positive_scores: bool = False


def _relevance_model(documents: Sequence[FeedbackDocument], terms: int, collection: Corpus) -> Weights:  # noqa: ARG001
    """Return P(w|F) = sum_D P(w|D) exp(score(D)), over its sum."""
    best = max(document.score for document in documents)
    likelihoods = [math.exp(document.score - best) for document in documents]
    weights = _mixed([document.terms for document in documents], likelihoods)
    total = sum(likelihoods)
    return {term: weight / total for term, weight in weights.items()}


def _divergence(documents: Sequence[FeedbackDocument], terms: int, collection: Corpus) -> Weights:
    """Return P(w|F) log(P(w|F) / P(w|C)) of the relevance model, where it is above 0."""
    shares = _relevance_model(documents, terms, collection)
    ratios = {term: own * collection.tokens / collection.terms[term].cf for term, own in shares.items()}
    return {term: own * math.log(ratios[term]) for term, own in shares.items() if ratios[term] > 1.0}


def _anserini_relevance_model(
    documents: Sequence[FeedbackDocument],
    terms: int,
    collection: Corpus,  # noqa: ARG001
) -> Weights:
    """Return sum_D P(w|D) score(D), P(w|D) among a document's `terms` most frequent terms."""
    kept = [_heaviest(document.terms, terms) for document in documents]
    return _mixed(kept, [document.score for document in documents])


def _mixed(documents: Sequence[Mapping[str, float]], weights: Sequence[float]) -> Weights:
    """Add documents' distributions of terms up, each times its weight."""
    mixed: Weights = {}
    for counts, weight in zip(documents, weights, strict=True):
        total = sum(counts.values())
        for term, tf in counts.items():
            mixed[term] = mixed.get(term, 0.0) + tf / total * weight
    return mixed


def _centroid(documents: Sequence[FeedbackDocument], terms: int, collection: Corpus) -> Weights:  # noqa: ARG001
    """Return the mean of the documents' vectors of length 1, of their `terms` most frequent terms."""
    weights: Weights = {}
    for document in documents:
        kept = _heaviest(document.terms, terms)
        length = math.sqrt(sum(tf * tf for tf in kept.values()))
        for term, tf in kept.items():
            weights[term] = weights.get(term, 0.0) + tf / length / len(documents)
    return weights


def _bose_einstein(documents: Sequence[FeedbackDocument], terms: int, collection: Corpus) -> Weights:  # noqa: ARG001
    """Return tf log2((1 + P) / P) + log2(1 + P), tf in all the documents together and P = cf / N."""
    counts: dict[str, int] = {}
    for document in documents:
        for term, tf in document.terms.items():
            counts[term] = counts.get(term, 0) + tf
    means = {term: collection.terms[term].cf / collection.documents for term in counts}
    return {
        term: tf * math.log2((1.0 + means[term]) / means[term]) + math.log2(1.0 + means[term])
        for term, tf in counts.items()
    }


EXPANSIONS = {
    "rm3": Expansion(
        "relevance models (Lavrenko and Croft 2001; Abdul-Jaleel et al. 2004)", 1.0, _relevance_model
    ),
    "kld": Expansion("the relevance model's divergence (Carpineto et al., TOIS 2001)", 1.0, _divergence),
    "bo1": Expansion("Bose-Einstein statistics (Amati 2003), as Terrier", np.inf, _bose_einstein),
    "rocchio": Expansion("Rocchio's centroid, as Anserini", 2.0, _centroid),
    "anserini-rm3": Expansion(
        "relevance models, as Anserini", 1.0, _anserini_relevance_model, needs_positive_scores=True
    ),
}
"""Kinds of feedback by name."""


def feedback_weights(
    expansion: Expansion, documents: Sequence[FeedbackDocument], terms: int, collection: Corpus
) -> Weights:
    """Return a topic's feedback terms with their positive weights, heaviest first; equal ones by the term.

    Parameters
    ----------
    expansion : Expansion
        The kind of feedback.
    documents : sequence of FeedbackDocument
        The first search's best. `KEPT` says which of their terms count.
    terms : int
        How many, at most.
    collection : Collection
        Where they are from.
    """
    kept = [
        own._replace(terms={term: tf for term, tf in own.terms.items() if _is_kept(term, collection)})
        for own in documents
    ]
    held = [own for own in kept if own.terms]
    weights = expansion.weigh(held, terms, collection) if held else {}
    return _heaviest({term: weight for term, weight in weights.items() if weight > 0.0}, terms)


def term_statistics(index: Index, term: str) -> TermStatistics:
    """Count a term; zeros for one that the collection lacks."""
    postings = index.postings(term)
    if postings is None:
        return TermStatistics(0, 0)
    return TermStatistics(int(postings.tfs.sum(dtype=np.int64)), postings.docs.size)


def _is_kept(term: str, collection: Corpus) -> bool:
    is_word = _SHORTEST <= len(term) <= _LONGEST and term.isalnum()
    return is_word and _COMMON * collection.terms[term].df <= collection.documents


def _heaviest(weights: Mapping[str, float], count: int) -> Weights:
    ordered = sorted(weights.items(), key=lambda own: (-own[1], own[0]))
    return dict(ordered[:count])
