"""NDCG of scores, exactly, in the conventions that learning to rank uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.reranking.data import RankingData

Gains = Literal["exponential", "linear"]
Empty = Literal["skip", "zero", "one"]
Ties = Literal["mean", "rows", "docnos"]

_EMPTY = {"skip": np.nan, "zero": 0.0, "one": 1.0}


def ndcg(
    scores: ArrayLike,
    data: RankingData,
    cutoffs: Sequence[int | None] = (1, 3, 5, 10),
    gains: Gains = "exponential",
    empty: Empty = "skip",
    *,
    ties: Ties = "mean",
) -> NDArray[np.float64]:
    r"""Compute every query's NDCG at each cutoff.

    .. math:: \mathrm{DCG@}k = \sum_{r=1}^{k} \frac{G_r}{\log_2(1 + r)}, \qquad
        \mathrm{NDCG@}k = \mathrm{DCG@}k \,/\, \max \mathrm{DCG@}k

    with the gain :math:`G = 2^y - 1` of label y (Burges et al. 2005), or :math:`G = y` (Järvelin
    and Kekäläinen 2002, as trec_eval has it). The maximum is over the orders of the query's own
    rows: relevant documents that are not among them do not count.

    Parameters
    ----------
    scores : array_like of float, shape (rows,)
        One score a row of `data`, higher is better; not NaN.
    data : RankingData
        Labels and lists.
    cutoffs : sequence of int or None
        Ranks down to which documents count, 1 or more; None for all.
    gains : {"exponential", "linear"}
        2^y - 1, or y.
    empty : {"skip", "zero", "one"}
        What a query without relevant documents gets: NaN, to be left out of means; 0, as the
        authors of SONG count it; or 1, as LightGBM does.
    ties : {"mean", "rows", "docnos"}
        Documents of equal score: the mean over all their orders, computed exactly (McSherry and
        Najork 2008); the earlier row first; or the higher docno first, as trec_eval does.

    Returns
    -------
    numpy.ndarray of float64, shape (queries, cutoffs)

    Raises
    ------
    InputError
        For scores of another shape or NaN, cutoffs below 1, unknown options, or docnos that the
        data lacks.

    Examples
    --------
    >>> data = RankingData.from_lengths([[0.0]] * 3, [0, 2, 1], [3])
    >>> ndcg([0.3, 0.2, 0.1], data, cutoffs=[1, 3]).round(4)
    array([[0.    , 0.659]])
    """
    values = np.asarray(scores, np.float64)
    _check(values, data, cutoffs, gains, empty, ties)
    gain = np.exp2(data.labels.astype(np.float64)) - 1.0
    if gains == "linear":
        gain = data.labels.astype(np.float64)
    query = data.query_of_row
    ideal = gain[np.lexsort((-gain, query))]
    if ties == "mean":
        found = _mean_over_ties(gain, values, query)
    elif ties == "docnos":
        found = gain[np.lexsort((-_docno_ranks(data), -values, query))]
    else:
        found = gain[np.lexsort((-values, query))]
    place = np.arange(gain.size) - data.starts[:-1][query]
    discount = 1.0 / np.log2(place + 2.0)
    out = np.empty((len(data.queries), len(cutoffs)))
    for c, cutoff in enumerate(cutoffs):
        counts = discount if cutoff is None else np.where(place < cutoff, discount, 0.0)
        best = np.add.reduceat(ideal * counts, data.starts[:-1])
        reached = np.add.reduceat(found * counts, data.starts[:-1])
        out[:, c] = np.where(best > 0.0, reached / np.where(best > 0.0, best, 1.0), _EMPTY[empty])
    return out


def mean_ndcg(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average what `ndcg` returns over the queries that count.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (queries, cutoffs)
        NaN where a query is left out.

    Returns
    -------
    numpy.ndarray of float64, shape (cutoffs,)
        NaN where no query counts.
    """
    counted = ~np.isnan(values)
    number = counted.sum(axis=0)
    total = np.where(counted, values, 0.0).sum(axis=0)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _mean_over_ties(
    gain: NDArray[np.float64], scores: NDArray[np.float64], query: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return gains in rank order, each the mean of those whose scores are equal to its own."""
    order = np.lexsort((-scores, query))
    ranked, tied_scores, tied_queries = gain[order], scores[order], query[order]
    first = np.ones(gain.size, np.bool_)
    first[1:] = (tied_scores[1:] != tied_scores[:-1]) | (tied_queries[1:] != tied_queries[:-1])
    begin = np.flatnonzero(first)
    size = np.diff(np.append(begin, gain.size))
    return np.repeat(np.add.reduceat(ranked, begin) / size, size)


def _docno_ranks(data: RankingData) -> NDArray[np.int64]:
    docnos = np.array(data.docnos, np.str_)
    return np.unique(docnos, return_inverse=True)[1].astype(np.int64)


def _check(
    scores: NDArray[np.float64],
    data: RankingData,
    cutoffs: Sequence[int | None],
    gains: str,
    empty: str,
    ties: str,
) -> None:
    if scores.shape != data.labels.shape:
        accepted = f"one score a row, {data.labels.shape}"
        raise InputError("scores do not fit", value=scores.shape, accepted=accepted)
    if np.isnan(scores).any():
        row = int(np.argmax(np.isnan(scores)))
        raise InputError(f"the score of row {row} is not a number", accepted="no NaN")
    for cutoff in cutoffs:
        if cutoff is not None and cutoff < 1:
            raise InputError("bad cutoff", value=cutoff, accepted="1 or more, or None for all")
    options = {
        "gains": (gains, ("exponential", "linear")),
        "empty": (empty, tuple(_EMPTY)),
        "ties": (ties, ("mean", "rows", "docnos")),
    }
    for name, (value, known) in options.items():
        if value not in known:
            raise InputError(f"unknown {name}", value=value, accepted=", ".join(known))
    if ties == "docnos" and data.docnos is None:
        raise InputError("ties by docno need docnos", accepted="data with docnos, or other ties")
