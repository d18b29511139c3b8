"""Drawing the documents: lengths, and the postings of query terms and common words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.datasets.synthetic import kernels, model
from lmtune.datasets.synthetic.model import Shape, TermModel, TopicModel, topic_model
from lmtune.progress import Count
from lmtune.threads import over_slices

Postings = tuple[NDArray[np.int32], NDArray[np.uint16]]

_QUANTILES = 257


@dataclass(frozen=True)
class TopicDraw:
    """What was drawn for one topic.

    Attributes
    ----------
    model : TopicModel
        What it was drawn from.
    area : numpy.ndarray of int32
        The documents of the topical area, ascending.
    affinity : numpy.ndarray of float64
        How much each of them is about the topic; above 0.
    postings : list of (numpy.ndarray of int32, numpy.ndarray of uint16)
        Of each query term: documents, ascending, and frequencies.
    """

    model: TopicModel
    area: NDArray[np.int32]
    affinity: NDArray[np.float64]
    postings: list[Postings]


@dataclass(frozen=True)
class Drawn:
    """All documents, as far as topics are concerned.

    Attributes
    ----------
    lengths : numpy.ndarray of int32, shape (documents,)
        Document lengths in tokens.
    free : numpy.ndarray of int32, shape (documents,)
        The tokens of each document that are no query term.
    topics : list of TopicDraw
        The topics.
    """

    lengths: NDArray[np.int32]
    free: NDArray[np.int32]
    topics: list[TopicDraw]


def draw(
    shape: Shape, part: range | None = None, *, threads: int | None = None, progress: Count | None = None
) -> Drawn:
    """Draw lengths and the postings of all query terms.

    A document whose query terms alone come to more than the length that was drawn for it gets
    their number as its length.

    Parameters
    ----------
    shape : Shape
        The collection.
    part : range, optional
        Draw these documents alone, numbered from 0 on; all by default.
    threads : int, optional
        Threads over topics; the result does not depend on their number.
    progress : callable, optional
        Called with (topics done, topics in all).
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

    over_slices(work, shape.topics, threads=threads, progress=progress)
    ordered = [topics[topic] for topic in range(shape.topics)]
    taken = np.zeros(lengths.size, np.int32)
    for drawn in ordered:
        for docs, tfs in drawn.postings:
            kernels.add_frequencies(docs, tfs, taken)
    final = np.maximum(lengths, taken)
    return Drawn(final, final - taken, ordered)


class _Ground(NamedTuple):
    """What topics are drawn on: the first document, lengths, all lengths' quantiles, weights in an area."""

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
    """Return occurrences a token, and the negative binomial's shape, that give a term its df."""
    share = term.df / shape.documents
    rate = term.burstiness * share / float(quantiles.mean())
    return rate, float(kernels.solve_shape(quantiles, rate, share, 1e-3, 50.0))


def _postings(tf: NDArray[np.int32]) -> Postings:
    docs, tfs = np.empty(tf.size, np.int32), np.empty(tf.size, np.uint16)
    count = kernels.compress(tf, docs, tfs)
    return docs[:count].copy(), tfs[:count].copy()


def draw_common_words(shape: Shape, free: NDArray[np.int32], first: int = 0) -> list[Postings]:
    """Share out the tokens that are no query term among common words, by Zipf's law.

    Parameters
    ----------
    shape : Shape
        The collection.
    free : numpy.ndarray of int32, shape (documents,)
        The tokens to share out.
    first : int
        The number of the first of these documents.

    Returns
    -------
    list of (numpy.ndarray of int32, numpy.ndarray of uint16)
        The postings of each word, the most common first; together they hold every free token.
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
