"""Features of a run's documents: functions of statistics from the index.

Statistics over terms use the query's distinct terms that occur in the collection. A document without
query terms has frequencies of 0 and its own length. Logarithms are natural.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.index.protocol import CollectionSize, Index, Postings, field_index
from lmtune.index.windows import WINDOW_KINDS, count_windows, windows_of
from lmtune.models.bm25 import idf
from lmtune.models.kernels import TopicDocuments
from lmtune.models.model import MODELS
from lmtune.models.two_stage import score


@dataclass(frozen=True, eq=False)
class RankedDocuments:
    """Statistics of one topic's ranked documents, with the names of `CandidatePool`.

    Attributes
    ----------
    tf : numpy.ndarray of int32, shape (terms, documents)
        Frequency of each distinct query term in each document.
    length : numpy.ndarray of int32, shape (documents,)
        Document lengths in tokens; 0 for documents that are not in the index.
    p : numpy.ndarray of float64, shape (terms,)
        P(w|C), each term's share of the collection's tokens.
    df : numpy.ndarray of int64, shape (terms,)
        Document frequency of each term.
    count : numpy.ndarray of int64, shape (terms,)
        Frequency of each term in the query.
    score : numpy.ndarray of float64, shape (documents,)
        The run's scores, best first.
    num_docs : int
        Number of documents in the collection.
    size : CollectionSize
        Number of tokens, and of documents that have any.
    lambda_, mu : float
        The tuned parameters of two-stage smoothing.
    fields : dict of str to RankedDocuments
        The statistics in each field, and of windows of neighbouring query terms, by
        `lmtune.index.windows.WINDOW_KINDS`. For windows, the terms are windows and the lengths are the
        documents'.
    """

    tf: NDArray[np.int32]
    length: NDArray[np.int32]
    p: NDArray[np.float64]
    df: NDArray[np.int64]
    count: NDArray[np.int64]
    score: NDArray[np.float64]
    num_docs: int
    size: CollectionSize
    lambda_: float
    mu: float
    fields: dict[str, RankedDocuments]

    @cached_property
    def is_matched(self) -> NDArray[np.bool_]:
        """Whether each document has each term, shape (terms, documents)."""
        return self.tf > 0

    @cached_property
    def idf(self) -> NDArray[np.float64]:
        """Inverse document frequencies, ln(N / df), shape (terms, 1)."""
        return np.log(self.num_docs / self.df)[:, None]

    @cached_property
    def weight(self) -> NDArray[np.float64]:
        """Term frequencies in the query, shape (terms, 1)."""
        return self.count.astype(np.float64)[:, None]

    @cached_property
    def tf_idf(self) -> NDArray[np.float64]:
        """Term frequency times inverse document frequency, shape (terms, documents)."""
        return self.tf * self.idf

    @cached_property
    def relative_tf(self) -> NDArray[np.float64]:
        """Term frequency divided by document length, shape (terms, documents)."""
        return self.tf / np.maximum(self.length, 1)


def look_up_documents(
    index: Index,
    query: str,
    docs: NDArray[np.int32],
    scores: NDArray[np.float64],
    *,
    lambda_: float,
    mu: float,
    fields: Sequence[str] = (),
) -> RankedDocuments:
    """Return the statistics of one topic's ranked documents from an index.

    Parameters
    ----------
    index : Index
        The collection's index, whose analyzer also analyses the query.
    query : str
        The topic's text.
    docs : numpy.ndarray of int32, shape (documents,)
        Distinct document numbers, best first; -1 for a document that is not in the index.
    scores : numpy.ndarray of float64, shape (documents,)
        The run's scores.
    lambda_, mu : float
        The tuned parameters of two-stage smoothing.
    fields : sequence of str
        Indexed fields and kinds of windows to look up as well.
    """

    def statistics(
        index: Index, counts: Counter[Any], postings: Sequence[Postings | None]
    ) -> RankedDocuments:
        known = [(one, count) for one, count in zip(postings, counts.values(), strict=True) if one]
        tf = np.zeros((len(known), docs.size), np.int32)
        for row, (one, _) in zip(tf, known, strict=True):
            at = np.searchsorted(one.docs, docs)
            at[at == one.docs.size] = 0
            row[:] = np.where(one.docs[at] == docs, one.tfs[at], 0)
        cf = [int(one.tfs.sum(dtype=np.int64)) for one, _ in known]
        return RankedDocuments(
            tf=tf,
            length=np.where(docs >= 0, np.asarray(index.lengths)[docs], 0).astype(np.int32),
            p=np.array(cf, np.float64) / index.total_terms,
            df=np.array([one.docs.size for one, _ in known], np.int64),
            count=np.array([count for _, count in known], np.int64),
            score=scores,
            num_docs=index.num_docs,
            size=CollectionSize.of(index),
            lambda_=lambda_,
            mu=mu,
            fields={},
        )

    def of_terms(index: Index) -> RankedDocuments:
        counts = Counter(index.analyze(query))
        return statistics(index, counts, [index.postings(term) for term in counts])

    def of_windows(kind: str) -> RankedDocuments:
        counts = windows_of(index.analyze(query), ordered=WINDOW_KINDS[kind])
        return statistics(index, counts, count_windows(index, list(counts)))

    of_fields = {
        name: of_windows(name) if name in WINDOW_KINDS else of_terms(field_index(index, name))
        for name in fields
    }
    return replace(of_terms(index), fields=of_fields)


_Column = NDArray[np.float64]


class _Feature(NamedTuple):
    """A column of the data.

    Attributes
    ----------
    name : str
        The column's name.
    description : str
        One line for listings.
    compute : callable
        Maps `RankedDocuments` to one value per document, or one value for all.
    """

    name: str
    description: str
    compute: Callable[[RankedDocuments], _Column | float]


def _query_likelihood(d: RankedDocuments, lambda_: float, mu: float) -> _Column:
    """Two-stage-smoothed log likelihood; see `lmtune.models.two_stage.score`."""
    # With mu = 0, an empty document scores like other documents without query terms.
    length = np.maximum(d.length, 1) if mu == 0.0 else d.length
    return score(d.tf, length, d.p, lambda_=lambda_, mu=mu, count=d.count)


def _bm25(d: RankedDocuments, k1: float, b: float) -> _Column:
    """BM25 with exact document lengths; see `lmtune.models.bm25`."""
    idfs = np.array([idf(df, d.size.documents) for df in d.df.tolist()])
    tf, length = d.tf.astype(np.int64), d.length.astype(np.int64)
    topic = TopicDocuments(tf, length, idfs, d.count, np.zeros(idfs.size, np.int8), d.size.mean_length)
    return MODELS["bm25"].formula.differentiate(topic, np.array([k1, b]))[0]


def _log_tf_idf(d: RankedDocuments) -> _Column:
    """Sum of (1 + ln tf) idf over the terms in the document."""
    logs = np.log(np.maximum(d.tf, 1)) + 1.0
    return _summed(d.weight * d.idf * np.where(d.is_matched, logs, 0.0))


def _log_tf(d: RankedDocuments) -> _Column:
    return _summed(d.weight * np.log1p(d.tf))


def _matched_terms(d: RankedDocuments) -> _Column:
    return _summed(d.is_matched)


def _matched_ratio(d: RankedDocuments) -> _Column:
    return _matched_terms(d) / max(1, d.count.size)


def _matched_idf_ratio(d: RankedDocuments) -> _Column:
    total = float(d.idf.sum())
    return _summed(d.idf * d.is_matched) / (total if total > 0.0 else 1.0)


def _idf_of_matched(d: RankedDocuments, how: str) -> _Column:
    """Sum, min, max or mean of the idf of the matched terms; 0 without matched terms."""
    if how == "sum":
        return _summed(d.idf * d.is_matched)
    if how == "mean":
        return _idf_of_matched(d, "sum") / np.maximum(_matched_terms(d), 1.0)
    if how == "max":
        highest: _Column = np.max(np.where(d.is_matched, d.idf, 0.0), axis=0, initial=0.0)
        return highest
    lowest: _Column = np.min(np.where(d.is_matched, d.idf, np.inf), axis=0, initial=np.inf)
    return np.where(np.isfinite(lowest), lowest, 0.0)


def _over_terms(values: _Column | NDArray[np.int32], how: str) -> _Column:
    """Sum, min, max or mean over the terms of values (terms, documents); 0 without terms."""
    if not len(values):
        return np.zeros(values.shape[1])
    reduce: Callable[..., _Column] = getattr(np, how)
    return reduce(values, axis=0)


def _reciprocal_rank(d: RankedDocuments) -> _Column:
    return 1.0 / np.arange(1, d.score.size + 1)


def _summed(values: NDArray[Any]) -> _Column:
    total: _Column = np.sum(values, axis=0, dtype=np.float64)
    return total


def _statistics() -> list[_Feature]:
    hows = {"sum": "the sum", "min": "the smallest", "max": "the largest", "mean": "the mean"}
    tables: list[tuple[str, str, Callable[[RankedDocuments], _Column | NDArray[np.int32]]]] = [
        ("tf", "term frequency", lambda d: d.tf),
        ("ntf", "term frequency over document length", lambda d: d.relative_tf),
        ("tf_idf", "term frequency times idf, ln(N / df)", lambda d: d.tf_idf),
    ]
    over_tables = [
        _Feature(
            f"{name}_{how}",
            f"{description} over query terms: {how_text}",
            lambda d, table=table, how=how: _over_terms(table(d), how),  # type: ignore[misc]
        )
        for name, description, table in tables
        for how, how_text in hows.items()
    ]
    return over_tables + [
        _Feature(
            f"idf_{how}",
            f"idf of the query terms in the document: {how_text}",
            lambda d, how=how: _idf_of_matched(d, how),  # type: ignore[misc]
        )
        for how, how_text in hows.items()
    ]


def _likelihood(name: str, smoothing: str, lambda_: float, mu: float) -> _Feature:
    return _Feature(
        name, f"log query likelihood, {smoothing}", lambda d: _query_likelihood(d, lambda_, float(mu))
    )


FEATURES: tuple[_Feature, ...] = (
    _Feature(
        "ql_tuned",
        "log query likelihood, two-stage smoothing at the tuned lambda and mu",
        lambda d: _query_likelihood(d, d.lambda_, d.mu),
    ),
    *(_likelihood(f"ql_dirichlet_{mu}", f"Dirichlet smoothing, mu = {mu}", 0.0, mu) for mu in (1000, 2500)),
    *(_likelihood(f"ql_jm_0.{x}", f"Jelinek-Mercer smoothing, lambda = 0.{x}", x / 10, 0.0) for x in (1, 7)),
    _Feature("bm25", "BM25, k1 = 0.9, b = 0.4 (Anserini's)", lambda d: _bm25(d, 0.9, 0.4)),
    _Feature("bm25_classic", "BM25, k1 = 1.2, b = 0.75", lambda d: _bm25(d, 1.2, 0.75)),
    _Feature("log_bm25", "ln(1 + BM25), k1 = 0.9, b = 0.4", lambda d: np.log1p(_bm25(d, 0.9, 0.4))),
    _Feature("log_tf_idf", "sum of (1 + ln tf) idf, weighted by the query's term frequency", _log_tf_idf),
    _Feature("log_tf", "sum of ln(1 + tf), weighted by the query's term frequency", _log_tf),
    _Feature("matched_terms", "number of distinct query terms in the document", _matched_terms),
    _Feature("matched_ratio", "share of the query's distinct terms in the document", _matched_ratio),
    _Feature("matched_idf_ratio", "share of the query's summed idf in the document", _matched_idf_ratio),
    *_statistics(),
    _Feature("length", "document length in tokens", lambda d: d.length.astype(np.float64)),
    _Feature("log_length", "ln(1 + document length)", lambda d: np.log1p(d.length)),
    _Feature("query_length", "number of query terms, with repetitions", lambda d: float(d.count.sum())),
    _Feature("query_idf", "summed idf of the query's distinct terms", lambda d: float(d.idf.sum())),
    _Feature("run_score", "the run's score", lambda d: d.score),
    _Feature("run_reciprocal_rank", "1 / rank in the run", _reciprocal_rank),
    _Feature("run_log_rank", "ln(rank in the run)", lambda d: -np.log(_reciprocal_rank(d))),
)
"""The features in the order of their columns; in LETOR files, the first has id 1."""


# Features that do not depend on the field, by prefix; and features that do not depend on windows.
_OF_RUN = ("query_length", "run_")
_OF_TEXT = ("length", "log_length")


def features_of(fields: Sequence[str] = ()) -> tuple[_Feature, ...]:
    """Return `FEATURES`, followed by the text features of each field: ``title_bm25`` ...

    `fields` can include kinds of windows, ``#1`` and ``#uw8``: their features use windows of neighbouring
    query terms instead of terms.
    """

    def of_field(field: str, feature: _Feature) -> _Feature:
        where = f"of {field} windows instead of terms" if field in WINDOW_KINDS else f"in {field}"
        name, description = f"{field}_{feature.name}", f"{feature.description}; {where}"
        return _Feature(name, description, lambda d: feature.compute(d.fields[field]))

    of_text = [feature for feature in FEATURES if not feature.name.startswith(_OF_RUN)]
    return FEATURES + tuple(
        of_field(field, feature)
        for field in fields
        for feature in of_text
        if not (field in WINDOW_KINDS and feature.name in _OF_TEXT)
    )


def compute_features(d: RankedDocuments) -> NDArray[np.float32]:
    """Compute the features of one topic's documents and fields, shape (documents, features)."""
    features = features_of(tuple(d.fields))
    out = np.empty((d.score.size, len(features)), np.float32)
    for f, feature in enumerate(features):
        out[:, f] = feature.compute(d)
    return out
