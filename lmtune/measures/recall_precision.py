"""Interpolated precision at eleven recall levels, as trec_eval computes it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.judged_ranking import trec_eval_order
from lmtune.models.parameter import Setting, as_settings

LEVELS: NDArray[np.float64] = np.arange(11) / 10.0
"""The recall levels 0, 0.1, ..., 1."""


def interpolated_precision(relevant: ArrayLike, count: int) -> NDArray[np.float64]:
    """Return one topic's precision at eleven recall levels (trec_eval's ``iprec_at_recall``).

    At a level it is the highest precision at any rank from the one on at which that share of the
    relevant documents is found; 0 where it never is.

    Parameters
    ----------
    relevant : array_like of bool, shape (documents,)
        Whether each document is relevant, in rank order.
    count : int
        Relevant documents of the topic, retrieved or not.

    Returns
    -------
    numpy.ndarray of float64, shape (11,)

    Examples
    --------
    >>> interpolated_precision([True, False, False, True], 2)[[0, 5, 6]].tolist()
    [1.0, 1.0, 0.5]
    """
    found = np.asarray(relevant, np.bool_)
    precision = np.cumsum(found) / np.arange(1, found.size + 1)
    highest = np.maximum.accumulate(precision[::-1])[::-1]
    ranks = np.concatenate(([0], np.flatnonzero(found)))
    # How trec_eval rounds the number of documents.
    needed = (LEVELS * count + 0.9).astype(np.int64)
    out = np.zeros(LEVELS.size)
    reached = needed < ranks.size if found.any() else np.zeros(LEVELS.size, np.bool_)
    out[reached] = highest[ranks[needed[reached]]]
    return out


def recall_precision(
    run: Mapping[str, Mapping[str, float]], qrels: Mapping[str, Mapping[str, int]], *, rel: int = 1
) -> NDArray[np.float64]:
    """Return a run's mean interpolated precision over the topics that it and the qrels have.

    Parameters
    ----------
    run : mapping of str to mapping of str to float
        Scores of documents by topic, as `lmtune.read_run` gives them; documents rank as trec_eval
        has it.
    qrels : mapping of str to mapping of str to int
        Gains of documents by topic.
    rel : int
        The smallest gain that is relevant.

    Returns
    -------
    numpy.ndarray of float64, shape (11,)

    Raises
    ------
    InputError
        Where they share no topic.
    """
    topics = [topic for topic in run if topic in qrels]
    if not topics:
        raise InputError("the run and the judgements share no topic", accepted="one or more")
    curves = []
    for topic in topics:
        gains = qrels[topic]
        ranked = trec_eval_order(list(run[topic]), list(run[topic].values()))
        relevant = [gains.get(docno, 0) >= rel for docno in ranked]
        curves.append(interpolated_precision(relevant, sum(g >= rel for g in gains.values())))
    mean: NDArray[np.float64] = np.mean(curves, axis=0)
    return mean


def setting_recall_precision(
    pool: CandidatePool, setting: Setting, *, topics: NDArray[np.int64], rel: int = 1, depth: int = DEPTH
) -> NDArray[np.float64]:
    """Return each topic's interpolated precision at a setting of two-stage smoothing.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    setting : mapping of str to float
        Parameters by name.
    topics : numpy.ndarray of int64
        Places of topics in the pool.
    rel : int
        The smallest gain that is relevant.
    depth : int
        Run depth.

    Returns
    -------
    numpy.ndarray of float64, shape (topics, 11)
        0 for a topic without relevant documents.
    """
    counts, _ = pool.judged_counts(rel)
    [vector] = as_settings(pool.formula.parameters, setting)
    curves = []
    for t in topics.tolist():
        top = pool.top(t, vector, depth)
        gains = pool.candidates.gain[pool.candidates.rows(t)][top]
        curves.append(interpolated_precision(gains >= rel, int(counts[t])))
    return np.array(curves)
