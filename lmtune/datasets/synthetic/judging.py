"""Judgements as TREC makes them: several systems' best documents are pooled and assessed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.datasets.synthetic import kernels
from lmtune.datasets.synthetic.drawing import Drawn, TopicDraw
from lmtune.datasets.synthetic.model import Shape
from lmtune.progress import Count
from lmtune.threads import over_slices

# The parameters (lambda, mu) of runs that are pooled as they are, and of those with errors.
_RUNS = ((0.0, 1000.0), (0.6, 300.0), (0.1, 3000.0))
_DISTURBED, _DISTURBED_RUNS, _DISTURBED_SPREAD = (0.2, 1000.0), 3, 0.88
_ASSESSOR_SPREAD = 0.25
# The share of relevant documents that is found whatever the runs retrieve.
_FOUND_OTHERWISE = 0.12
_HIGHLY_RELEVANT = 0.2


class JudgedTopic(NamedTuple):
    """One topic's judgements.

    Attributes
    ----------
    docs : numpy.ndarray of int32
        The judged documents, ascending.
    gains : numpy.ndarray of int32
        2 for highly relevant, 1 for relevant, 0 for nonrelevant.
    """

    docs: NDArray[np.int32]
    gains: NDArray[np.int32]


def judge(
    shape: Shape, drawn: Drawn, *, threads: int | None = None, progress: Count | None = None
) -> list[JudgedTopic]:
    """Pool and assess every topic.

    Six runs give their best documents: three are two-stage-smoothed query likelihood at different
    parameters, three have errors besides. Some documents are found otherwise, matching or not.
    The pooled documents of the topical area that are most about the topic, with the assessor's
    errors, are relevant.

    Parameters
    ----------
    shape : Shape
        The collection.
    drawn : Drawn
        Its documents.
    threads : int, optional
        Threads over topics; the result does not depend on their number.
    progress : callable, optional
        Called with (topics done, topics in all).

    Returns
    -------
    list of JudgedTopic
        One a topic.
    """
    total = int(drawn.lengths.sum(dtype=np.int64))
    judged: dict[int, JudgedTopic] = {}

    def work(part: slice) -> None:
        for topic in range(part.start, part.stop):
            judged[topic] = _judge_topic(shape, topic, drawn.topics[topic], drawn.lengths, total)

    over_slices(work, shape.topics, threads=threads, progress=progress)
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
    """Mark the best documents of every run."""
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
    """Return the places of the highest scores; of equal ones the first."""
    if score.size <= depth:
        return np.arange(score.size)
    least = np.partition(score, score.size - depth)[score.size - depth]
    above = np.flatnonzero(score > least)
    return np.concatenate((above, np.flatnonzero(score == least)[: depth - above.size]))
