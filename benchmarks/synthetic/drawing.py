"""Draw documents, and judge them as in TREC: the top documents of several runs are pooled and assessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.threads import over_slices

from . import kernels, model
from .model import Shape, TermModel, TopicModel, topic_model

Postings = tuple[NDArray[np.int32], NDArray[np.uint16]]

_QUANTILES = 257


@dataclass(frozen=True)
class TopicDraw:
    """Documents and postings drawn for one topic.

    Attributes
    ----------
    model : TopicModel
        Model of the topic.
    area : numpy.ndarray of int32
        The documents of the topical area, ascending.
    affinity : numpy.ndarray of float64
        Affinity of each of these documents to the topic; above 0.
    postings : list of (numpy.ndarray of int32, numpy.ndarray of uint16)
        Documents, ascending, and frequencies of each query term.
    """

    model: TopicModel
    area: NDArray[np.int32]
    affinity: NDArray[np.float64]
    postings: list[Postings]


@dataclass(frozen=True)
class Drawn:
    """Lengths of all documents, and postings of all topics.

    Attributes
    ----------
    lengths : numpy.ndarray of int32, shape (documents,)
        Document lengths in tokens.
    free : numpy.ndarray of int32, shape (documents,)
        Number of tokens of each document that are not query terms.
    topics : list of TopicDraw
        The topics.
    """

    lengths: NDArray[np.int32]
    free: NDArray[np.int32]
    topics: list[TopicDraw]


def draw(shape: Shape, part: range | None = None) -> Drawn:
    """Draw lengths and the postings of all query terms.

    If a document has more query terms than its drawn length, its length is the number of query terms.

    Parameters
    ----------
    shape : Shape
        The collection.
    part : range, optional
        Documents to draw, numbered from 0 in the result; all by default.
    """
    lengths = np.empty(shape.documents, np.int32)
    kernels.draw_lengths(
        shape.stream("lengths"), model.MEAN_LENGTH, model.LENGTH_SIGMA, model.SHORTEST, model.LONGEST, lengths
    )
    weight = (lengths / model.MEAN_LENGTH) ** model.AREA_GROWTH
    quantiles = np.quantile(lengths, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    part = range(shape.documents) if part is None else part
    here = slice(part.start, part.stop)
    lengths, weight = lengths[here].copy(), weight[here] / weight.mean()
    ground = _Ground(part.start, lengths, quantiles, weight)
    topics: dict[int, TopicDraw] = {}

    def work(part: slice) -> None:
        for topic in range(part.start, part.stop):
            topics[topic] = _draw_topic(shape, topic, ground)

    over_slices(work, shape.topics)
    ordered = [topics[topic] for topic in range(shape.topics)]
    taken = np.zeros(lengths.size, np.int32)
    for drawn in ordered:
        for docs, tfs in drawn.postings:
            kernels.add_frequencies(docs, tfs, taken)
    final = np.maximum(lengths, taken)
    return Drawn(final, final - taken, ordered)


class _Ground(NamedTuple):
    """Input of topics: first document, lengths, quantiles of all lengths, weights in an area."""

    first: int
    lengths: NDArray[np.int32]
    quantiles: NDArray[np.float64]
    weight: NDArray[np.float64]


def _draw_topic(shape: Shape, topic: int, ground: _Ground) -> TopicDraw:
    made = topic_model(shape, topic)
    lengths = ground.lengths
    area, affinity = np.empty(lengths.size, np.int32), np.empty(lengths.size)
    count = kernels.draw_area(
        kernels.moved(shape.stream("area", topic), ground.first),
        made.area * ground.weight,
        model.AFFINITY_POWER,
        model.AFFINITY_SCALE,
        area,
        affinity,
    )
    area, affinity = area[:count].copy(), affinity[:count].copy()
    sizes = lengths[area]
    topical = affinity * model.MEAN_LENGTH * (sizes / model.MEAN_LENGTH) ** model.TOPICAL_GROWTH
    tf = np.empty(lengths.size, np.int32)
    postings = []
    for number, term in enumerate(made.terms):
        rate, form = _background(shape, term, ground.quantiles)
        key = kernels.moved(shape.stream("background", topic, number), ground.first)
        kernels.draw_background(key, lengths, rate, form, tf)
        key = kernels.moved(shape.stream("topical", topic, number), ground.first)
        mean = term.strength * topical
        kernels.add_topical(key, area, mean, model.TOPICAL_SHAPE, sizes, tf)
        postings.append(_postings(tf))
    return TopicDraw(made, area, affinity, postings)


def _background(shape: Shape, term: TermModel, quantiles: NDArray[np.float64]) -> tuple[float, float]:
    """Return the rate for each token and the shape of the negative binomial that give a term its df."""
    share = term.df / shape.documents
    rate = term.burstiness * share / float(quantiles.mean())
    return rate, float(kernels.solve_shape(quantiles, rate, share, 1e-3, 50.0))


def _postings(tf: NDArray[np.int32]) -> Postings:
    docs, tfs = np.empty(tf.size, np.int32), np.empty(tf.size, np.uint16)
    count = kernels.compress(tf, docs, tfs)
    return docs[:count].copy(), tfs[:count].copy()


def draw_common_words(shape: Shape, free: NDArray[np.int32], first: int = 0) -> list[Postings]:
    """Assign the tokens that are not query terms to common words, by Zipf's law.

    Parameters
    ----------
    shape : Shape
        The collection.
    free : numpy.ndarray of int32, shape (documents,)
        Number of tokens to assign.
    first : int
        Number of the first document.

    Returns
    -------
    list of (numpy.ndarray of int32, numpy.ndarray of uint16)
        The postings of each word, the most common first; they cover every free token.
    """
    weights = 1.0 / np.arange(1, model.COMMON_WORDS + 1)
    shares = weights / weights.sum()
    left = free.copy()
    tf = np.empty_like(free)
    postings = []
    for rank in range(model.COMMON_WORDS - 1, 0, -1):
        key = kernels.moved(shape.stream("common", rank), first)
        kernels.draw_common(key, float(shares[rank]), free, left, tf)
        postings.append(_postings(tf))
    postings.append(_postings(left))
    return postings[::-1]


# Parameters (lambda, mu) of the runs without and with errors.
_RUNS = ((0.0, 1000.0), (0.6, 300.0), (0.1, 3000.0))
_DISTURBED, _DISTURBED_RUNS, _DISTURBED_SPREAD = (0.2, 1000.0), 3, 0.88
_ASSESSOR_SPREAD = 0.25
# Share of relevant documents that are judged even if no run retrieves them.
_FOUND_OTHERWISE = 0.12
_HIGHLY_RELEVANT = 0.2


class JudgedTopic(NamedTuple):
    """One topic's judgments.

    Attributes
    ----------
    docs : numpy.ndarray of int32
        The judged documents, ascending.
    gains : numpy.ndarray of int32
        2 for highly relevant, 1 for relevant, 0 for non-relevant.
    """

    docs: NDArray[np.int32]
    gains: NDArray[np.int32]


def judge(shape: Shape, drawn: Drawn) -> list[JudgedTopic]:
    """Pool and assess every topic.

    The pool has the top documents of six runs: three of two-stage smoothing at different parameters, and
    three with added errors. It also has some documents of the topical area that runs may have missed.
    Relevant are the pooled documents of the area with the highest affinity, after the assessor's errors.

    Parameters
    ----------
    shape : Shape
        The collection.
    drawn : Drawn
        The documents.

    Returns
    -------
    list of JudgedTopic
        Judgments of each topic.
    """
    total = int(drawn.lengths.sum(dtype=np.int64))
    judged: dict[int, JudgedTopic] = {}

    def work(part: slice) -> None:
        for topic in range(part.start, part.stop):
            judged[topic] = _judge_topic(shape, topic, drawn.topics[topic], drawn.lengths, total)

    over_slices(work, shape.topics)
    return [judged[topic] for topic in range(shape.topics)]


def _judge_topic(
    shape: Shape, topic: int, drawn: TopicDraw, lengths: NDArray[np.int32], total: int
) -> JudgedTopic:
    view = np.empty(drawn.area.size)
    key = shape.stream("assessor", topic)
    kernels.assess(key, drawn.area, drawn.affinity, _ASSESSOR_SPREAD, view)
    best = np.argsort(-view, kind="stable")
    pooled = _pool(shape, topic, drawn, lengths, total)
    pooled[drawn.area[best[: int(_FOUND_OTHERWISE * drawn.model.relevant) + 1]]] = True
    best = best[pooled[drawn.area[best]]][: round(drawn.model.relevant)]
    gains = np.zeros(lengths.size, np.int32)
    gains[drawn.area[best]] = 1
    gains[drawn.area[best[: round(_HIGHLY_RELEVANT * best.size)]]] = 2
    docs = np.flatnonzero(pooled).astype(np.int32)
    return JudgedTopic(docs, gains[docs])


def _pool(
    shape: Shape, topic: int, drawn: TopicDraw, lengths: NDArray[np.int32], total: int
) -> NDArray[np.bool_]:
    """Return a mask of the top documents of all runs."""
    pooled = np.zeros(lengths.size, np.bool_)
    for docs, _ in drawn.postings:
        pooled[docs] = True
    matching = np.flatnonzero(pooled)
    pooled[matching] = False
    place = np.empty(lengths.size, np.int32)
    place[matching] = np.arange(matching.size, dtype=np.int32)
    tf = np.zeros((len(drawn.postings), matching.size), np.uint16)
    for row, (docs, tfs) in zip(tf, drawn.postings, strict=True):
        row[place[docs]] = tfs
    p = np.array([tfs.sum(dtype=np.int64) / total for _, tfs in drawn.postings])
    sizes = lengths[matching]
    score, disturbed = np.empty(matching.size), np.empty(matching.size)
    for lambda_, mu in _RUNS:
        kernels.retrieval_scores(tf, sizes, p, lambda_, mu, score)
        pooled[matching[_best(score, shape.pool_depth)]] = True
    kernels.retrieval_scores(tf, sizes, p, *_DISTURBED, score)
    for run in range(_DISTURBED_RUNS):
        key = shape.stream("run", topic, run)
        kernels.disturb(key, matching, score, _DISTURBED_SPREAD, disturbed)
        pooled[matching[_best(disturbed, shape.pool_depth)]] = True
    return pooled


def _best(score: NDArray[np.float64], depth: int) -> NDArray[np.int64]:
    """Return the indices of the highest scores; of equal scores the first."""
    if score.size <= depth:
        return np.arange(score.size)
    least = np.partition(score, score.size - depth)[score.size - depth]
    above = np.flatnonzero(score > least)
    return np.concatenate((above, np.flatnonzero(score == least)[: depth - above.size]))
