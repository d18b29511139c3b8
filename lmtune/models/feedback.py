"""Pseudo-relevance feedback: terms and weights from the best documents of a first search."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lmtune.index.protocol import Index

# Like Anserini, leave out single letters, long strings, and terms in more than a tenth of the documents.
_SHORTEST, _LONGEST, _COMMON = 2, 20, 10
FEEDBACK_TERMS = (
    f"feedback terms are {_SHORTEST} to {_LONGEST} letters or digits, in at most 1/{_COMMON} of the documents"
)

Weights = dict[str, float]


class FeedbackDocument(NamedTuple):
    """A document of the first search: its term frequencies and its score."""

    terms: Mapping[str, int]
    score: float


class TermStatistics(NamedTuple):
    """Collection frequency (cf) and document frequency (df) of a term."""

    cf: int
    df: int


class Corpus(NamedTuple):
    """Collection statistics for feedback.

    Attributes
    ----------
    terms : mapping of str to TermStatistics
        Frequencies of all terms in the feedback documents.
    documents, tokens : int
        Number of documents, including empty ones, and of tokens.
    """

    terms: Mapping[str, TermStatistics]
    documents: int
    tokens: int


class Expansion(NamedTuple):
    """A kind of feedback.

    Attributes
    ----------
    what : str
        A short description.
    norm : float
        Order of the norm that scales its weights to those of the query: 1, 2 or infinity.
    weigh : callable
        Computes weights from the feedback documents, the number of terms, and the collection.
    needs_positive_scores : bool
        Whether documents are weighted by their scores.
    """

    what: str
    norm: float
    weigh: Callable[[Sequence[FeedbackDocument], int, Corpus], Weights]
    needs_positive_scores: bool = False


def _relevance_model(documents: Sequence[FeedbackDocument], terms: int, collection: Corpus) -> Weights:  # noqa: ARG001
    """Return P(w|F) = sum_D P(w|D) exp(score(D)) / sum_D exp(score(D))."""
    best = max(document.score for document in documents)
    likelihoods = [math.exp(document.score - best) for document in documents]
    weights = _mix([document.terms for document in documents], likelihoods)
    total = sum(likelihoods)
    return {term: weight / total for term, weight in weights.items()}


def _divergence(documents: Sequence[FeedbackDocument], terms: int, collection: Corpus) -> Weights:
    """Return P(w|F) log(P(w|F) / P(w|C)) of the relevance model, for terms where it is positive."""
    shares = _relevance_model(documents, terms, collection)
    ratios = {term: share * collection.tokens / collection.terms[term].cf for term, share in shares.items()}
    return {term: share * math.log(ratios[term]) for term, share in shares.items() if ratios[term] > 1.0}


def _anserini_relevance_model(
    documents: Sequence[FeedbackDocument],
    terms: int,
    collection: Corpus,  # noqa: ARG001
) -> Weights:
    """Return sum_D P(w|D) score(D), where P(w|D) covers the `terms` most frequent terms of a document."""
    kept = [_heaviest(document.terms, terms) for document in documents]
    return _mix(kept, [document.score for document in documents])


def _mix(documents: Sequence[Mapping[str, float]], weights: Sequence[float]) -> Weights:
    """Return the weighted sum of the documents' term distributions."""
    mixed: Weights = {}
    for counts, weight in zip(documents, weights, strict=True):
        total = sum(counts.values())
        for term, tf in counts.items():
            mixed[term] = mixed.get(term, 0.0) + tf / total * weight
    return mixed


def _centroid(documents: Sequence[FeedbackDocument], terms: int, collection: Corpus) -> Weights:  # noqa: ARG001
    """Return the mean of the documents' unit vectors over their `terms` most frequent terms."""
    weights: Weights = {}
    for document in documents:
        kept = _heaviest(document.terms, terms)
        length = math.sqrt(sum(tf * tf for tf in kept.values()))
        for term, tf in kept.items():
            weights[term] = weights.get(term, 0.0) + tf / length / len(documents)
    return weights


def _bose_einstein(documents: Sequence[FeedbackDocument], terms: int, collection: Corpus) -> Weights:  # noqa: ARG001
    """Return tf log2((1 + P) / P) + log2(1 + P), with tf summed over the documents and P = cf / N."""
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
    "kld": Expansion(
        "Kullback-Leibler divergence of the relevance model (Carpineto et al., TOIS 2001)", 1.0, _divergence
    ),
    "bo1": Expansion("Bose-Einstein statistics (Amati 2003), as in Terrier", np.inf, _bose_einstein),
    "rocchio": Expansion("Rocchio's centroid, as in Anserini", 2.0, _centroid),
    "anserini-rm3": Expansion(
        "relevance models, as in Anserini", 1.0, _anserini_relevance_model, needs_positive_scores=True
    ),
}
"""Kinds of feedback by name."""


def feedback_weights(
    expansion: Expansion, documents: Sequence[FeedbackDocument], terms: int, collection: Corpus
) -> Weights:
    """Return a topic's feedback terms with positive weights, by decreasing weight, then by term.

    Parameters
    ----------
    expansion : Expansion
        The kind of feedback.
    documents : sequence of FeedbackDocument
        The best documents of the first search. `FEEDBACK_TERMS` describes which of their terms count.
    terms : int
        Largest number of terms.
    collection : Corpus
        Statistics of the documents' collection.
    """
    filtered = [
        each._replace(terms={term: tf for term, tf in each.terms.items() if _is_kept(term, collection)})
        for each in documents
    ]
    nonempty = [each for each in filtered if each.terms]
    weights = expansion.weigh(nonempty, terms, collection) if nonempty else {}
    return _heaviest({term: weight for term, weight in weights.items() if weight > 0.0}, terms)


def term_statistics(index: Index, term: str) -> TermStatistics:
    """Return the frequencies of a term; zeros if the collection does not have it."""
    postings = index.postings(term)
    if postings is None:
        return TermStatistics(0, 0)
    return TermStatistics(int(postings.tfs.sum(dtype=np.int64)), postings.docs.size)


def _is_kept(term: str, collection: Corpus) -> bool:
    is_word = _SHORTEST <= len(term) <= _LONGEST and term.isalnum()
    return is_word and _COMMON * collection.terms[term].df <= collection.documents


def _heaviest(weights: Mapping[str, float], count: int) -> Weights:
    ordered = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    return dict(ordered[:count])
