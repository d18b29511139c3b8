"""Short passages and queries similar to MS MARCO: lengths, vocabulary, few relevant passages.

A passage has words of the whole collection (law of Zipf and Mandelbrot), words of its area, which it shares
with its neighbours and few others, and repetitions (Simon, Biometrika 1955). A query is generated from its
relevant passage (Azzopardi, de Rijke and Balog, SIGIR 2007): some rarer words of the passage, and words of
its area that the passage may lack.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import kernels
from .drawing import Postings
from .model import Shape

VOCABULARY, AREA_WORDS = 1_000_000, 60
MEAN_LENGTH, LENGTH_SIGMA, SHORTEST, LONGEST = 56.0, 0.42, 5, 300
# Consecutive documents of one area, like the passages of a page.
_TOGETHER = 4
_AREA_PASSAGES = 4000
_TOPICAL, _REPEATED, _FLATTENED = 0.6, 0.12, 2.7
_QUERY_SHARES = (0.25, 0.55, 0.8, 0.93)
_SHORTEST_QUERY, _MISSED = 2, 0.35
_SECOND = 0.065
_AT_A_TIME = 65_536


class Query(NamedTuple):
    """A query: numbers of its words, and relevant documents."""

    words: list[int]
    relevant: list[int]


def draw_passages(shape: Shape, part: range) -> tuple[NDArray[np.int32], list[Postings]]:
    """Draw document lengths, and the postings of all words.

    Parameters
    ----------
    shape : Shape
        The collection.
    part : range
        The documents to draw; postings number them from 0.

    Returns
    -------
    lengths : numpy.ndarray of int32, shape (documents,)
    postings : list of (numpy.ndarray of int32, numpy.ndarray of uint16)
        Documents, ascending, and frequencies of each word, by word number.
    """
    streams, lengths = _streams(shape), _lengths(shape, part)
    steps = [*range(0, len(part), _AT_A_TIME), len(part)]
    df = np.zeros(VOCABULARY, np.int64)
    for begin, end in pairwise(steps):
        kernels.count_passages(streams, part.start + begin, lengths[begin:end], df)
    starts = np.concatenate(([0], np.cumsum(df)))
    docs, tfs = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.uint16)
    ends = starts[:-1].copy()
    for begin, end in pairwise(steps):
        kernels.fill_passages(streams, part.start + begin, begin, lengths[begin:end], ends, docs, tfs)
    bounds = starts.tolist()
    return lengths, [(docs[begin:end], tfs[begin:end]) for begin, end in pairwise(bounds)]


def draw_queries(shape: Shape) -> Iterator[Query]:
    """Yield the queries; each is generated from a different document.

    Parameters
    ----------
    shape : Shape
        The collection.
    """
    streams, key = _streams(shape), shape.stream("queries")
    draws = np.array([kernels.uniform(key, place) for place in range(shape.topics * 3)])
    for topic, (place, size, second) in enumerate(draws.reshape(-1, 3).tolist()):
        document = int((topic + place) * shape.documents / shape.topics)
        relevant = [document]
        if second < _SECOND and document ^ 1 < shape.documents:
            relevant.append(document ^ 1)
        words = _words(shape, streams, topic, document, _SHORTEST_QUERY + bisect(_QUERY_SHARES, size))
        yield Query(words, relevant)


def _words(shape: Shape, streams: kernels.PassageStreams, topic: int, document: int, size: int) -> list[int]:
    """Return a query's distinct words, sampled from the document; some are replaced by words of its area."""
    tokens = np.empty(int(_lengths(shape, range(document, document + 1))[0]), np.int32)
    kernels.draw_passage(streams, document, tokens)
    words, tf = np.unique(tokens, return_counts=True)
    key = shape.stream("query", topic)
    u = np.array([kernels.uniform(key, place) for place in range(words.size + 2 * size)])
    # weighted sampling without replacement (Efraimidis and Spirakis, 2006)
    weight = tf**3 * np.log1p(words)
    chosen = words[np.argsort(np.log(u[: words.size]) / np.maximum(weight, 1e-9), kind="stable")[::-1][:size]]
    missed, others = u[words.size :].reshape(2, -1)
    return list(
        dict.fromkeys(
            kernels.area_word(streams, document, other) if miss < _MISSED else int(word)
            for word, miss, other in zip(chosen, missed.tolist(), others.tolist(), strict=False)
        )
    )


def _lengths(shape: Shape, part: range) -> NDArray[np.int32]:
    lengths = np.empty(len(part), np.int32)
    key = kernels.moved(shape.stream("lengths"), 2 * part.start)
    kernels.draw_lengths(key, MEAN_LENGTH, LENGTH_SIGMA, SHORTEST, LONGEST, lengths)
    return lengths


def _streams(shape: Shape) -> kernels.PassageStreams:
    tokens, areas, words = (shape.stream("passages", name) for name in ("tokens", "areas", "words"))
    return kernels.PassageStreams(
        tokens,
        areas,
        words,
        VOCABULARY,
        _FLATTENED,
        max(1, round(shape.documents / _AREA_PASSAGES)),
        AREA_WORDS,
        _TOGETHER,
        LONGEST,
        _TOPICAL,
        _REPEATED,
    )
