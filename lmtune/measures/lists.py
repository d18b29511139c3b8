r"""Measures of ranked lists of labels in the forms of the learning-to-rank papers.

With the labels y of a list's own documents, ranked by falling score, and a document relevant if
its label is at least a threshold, 1 by default (names: see `parse_list_measure`):

- ``ndcg@k``, ``ndcg``: NDCG, :math:`\sum_{r \le k} G_r / \log_2(1 + r)` over its maximum, by
  default over all ranks, with the gain :math:`G = 2^y - 1` of label y (Burges et al. 2005), or
  :math:`G = y` (Järvelin and Kekäläinen 2002, as trec_eval has it) where the name says
  ``dcg='log2'``. The logarithm's base cancels. The maximum is over the orders of the list's own
  documents: relevant documents that are not among them do not count.
- ``pairwise-error``: pairs of different labels in the wrong order, as a fraction of all pairs of
  different labels (Burges 2005, section 2). A cost.
- ``mrr``, ``mrr@k``: 1 over the rank of the first relevant document; 0 if it is beyond k.
- ``wta``: winner takes all, 0 if the first document is relevant, else 1. A cost.
- ``ap``: the mean, over the relevant documents, of the share of relevant ones down to each.

A list that no order could better or worsen for want of relevant documents (for pairwise error, of
different labels) gets NaN and is left out of means. Documents of equal score stand in every order
equally often: each value is the exact mean over these orders (McSherry and Najork 2008), so that a
pair of equal scores is half an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.arrays import Booleans, Doubles, Integers
from lmtune.errors import InputError, check_choice
from lmtune.measures import list_kernels as kernels
from lmtune.measures.judged_ranking import trec_eval_order
from lmtune.measures.kinds import EXPONENTIAL, LINEAR, LISTS, Code
from lmtune.measures.measure import ACCEPTED_OF_LISTS, Measure, parse_list_measure
from lmtune.measures.trec_measures import LARGEST_POWER

Empty = Literal["skip", "zero", "one"]
Ties = Literal["mean", "rows", "docnos"]

_EMPTY = {"skip": np.nan, "zero": 0.0, "one": 1.0}
_TIES = ("mean", "rows", "docnos")


class LabelledLists(Protocol):
    """Lists whose documents have labels; `lmtune.rerank.data.RankingData` is such."""

    @property
    def labels(self) -> NDArray[Any]:
        """Grades of documents, 0 or more, list by list, shape (rows,)."""

    @property
    def starts(self) -> Integers:
        """List q has the rows from starts[q] to starts[q + 1], one at least, shape (lists + 1,)."""

    @property
    def docnos(self) -> Sequence[str] | None:
        """Documents' names, one a row."""


def ndcg(
    scores: ArrayLike,
    lists: LabelledLists,
    cutoffs: Sequence[int | None] = (1, 3, 5, 10),
    empty: Empty = "skip",
    *,
    dcg: str = EXPONENTIAL,
    ties: Ties = "mean",
) -> Doubles:
    """Compute every list's NDCG at each cutoff; see the module's text.

    Parameters
    ----------
    scores : array_like of float, shape (rows,)
        One score a row, higher is better; not NaN.
    lists : LabelledLists
        Labels and lists.
    cutoffs : sequence of int or None
        Ranks down to which documents count, 1 or more; None for all.
    empty : {"skip", "zero", "one"}
        What a list without relevant documents gets: NaN, to be left out of means; 0, as the
        authors of SONG count it; or 1, as LightGBM does.
    dcg : {"exp-log2", "log2"}
        Gains: 2^y - 1, or y.
    ties : {"mean", "rows", "docnos"}
        Documents of equal score: the mean over all their orders; the earlier row first; or the
        order of trec_eval, the higher docno first among scores that are equal in 32 bits.

    Returns
    -------
    numpy.ndarray of float64, shape (lists, cutoffs)

    Raises
    ------
    InputError
        For scores of another shape or NaN, cutoffs below 1, unknown options, or docnos that the
        lists lack.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> lists = SimpleNamespace(labels=np.array([0, 2, 1]), starts=np.array([0, 3]), docnos=None)
    >>> ndcg([0.3, 0.2, 0.1], lists, cutoffs=[1, 3]).round(4)
    array([[0.    , 0.659]])
    """
    for name, value, known in (("empty", empty, tuple(_EMPTY)), ("dcg", dcg, (EXPONENTIAL, LINEAR))):
        check_choice(f"unknown {name}", value, known)
    for cutoff in cutoffs:
        if cutoff is not None and cutoff < 1:
            raise InputError("bad cutoff", value=cutoff, accepted="1 or more, or None for all")
    values = _checked(scores, lists, 1, ties)[0]
    found = [Measurer(Measure("nDCG", cutoff, dcg=dcg), lists).values(values) for cutoff in cutoffs]
    out = np.stack(found, axis=1) if found else np.empty((lists.starts.size - 1, 0))
    return np.where(np.isnan(out), _EMPTY[empty], out)


class Measurer:
    """A measure made ready for some lists, to be taken of many score vectors.

    What depends on the labels alone is computed once. NDCG down to rank 64 or less, MRR and WTA
    sort nothing: 10,000 lists of 50 documents take NDCG@10 about 7 ms.

    Parameters
    ----------
    measure : str or Measure
        As `parse_list_measure` takes.
    lists : LabelledLists
        Labels and lists.
    threshold : float, optional
        The lowest label that is relevant, above 0, for ``mrr``, ``wta`` and ``ap``; the measure's
        `rel` by default.

    Raises
    ------
    InputError
        For an unknown measure, or a threshold that is no positive number.
    """

    def __init__(
        self, measure: str | Measure, lists: LabelledLists, *, threshold: float | None = None
    ) -> None:
        self.measure = parse_list_measure(measure)
        code = self.measure.declared.kernel
        if code not in LISTS:
            accepted = ACCEPTED_OF_LISTS
            raise InputError("no measure of lists with labels", value=str(self.measure), accepted=accepted)
        threshold = self.measure.rel if threshold is None else threshold
        if not (np.isfinite(threshold) and threshold > 0):
            raise InputError("bad threshold", value=threshold, accepted="a label above 0")
        self._lists = lists
        self._starts = np.ascontiguousarray(lists.starts, np.int64)
        labels, lengths = np.asarray(lists.labels, np.float64), np.diff(self._starts)
        self._kernel = int(code)
        if self._kernel == Code.DCG:
            self._gains = _gains(labels, self._starts, self.measure.dcg)
            depth = min(self.measure.cutoff or labels.size, int(lengths.max(initial=0)))
            self._discount = _discount(np.arange(depth))
            best = np.empty((1, lengths.size))
            kernels.dcg_lists(self._gains[np.newaxis], self._gains, self._starts, self._discount, best)
            self._counts: Booleans = best[0] > 0.0
            self._best = np.where(self._counts, best[0], np.nan)
        elif self._kernel == Code.PAIRWISE_ERROR:
            self._grades, self._pairs = _grades(labels, self._starts)
            self._counts = self._pairs > 0
        else:
            self._relevant = labels >= threshold
            self._counts = np.logical_or.reduceat(self._relevant, self._starts[:-1])

    @property
    def counted(self) -> Booleans:
        """Which lists count, shape (lists,)."""
        return self._counts

    def values(self, scores: ArrayLike, *, ties: Ties = "mean") -> Doubles:
        """Measure score vectors, list by list.

        Parameters
        ----------
        scores : array_like of float, shape (rows,) or (vectors, rows)
            Higher is better; not NaN.
        ties : {"mean", "rows", "docnos"}
            As for `ndcg`.

        Returns
        -------
        numpy.ndarray of float64, shape (lists,) or (vectors, lists)
            NaN where a list does not count.

        Raises
        ------
        InputError
            For scores of another shape or NaN, unknown ties, or docnos that the lists lack.
        """
        table = _checked(scores, self._lists, 2, ties)
        values = np.empty((table.shape[0], self._counts.size))
        kernel, starts = self._kernel, self._starts
        if kernel == Code.DCG:
            kernels.dcg_lists(table, self._gains, starts, self._discount, values)
            values /= self._best
        elif kernel == Code.PAIRWISE_ERROR:
            kernels.pairwise_error_lists(table, self._grades, starts, self._pairs, values)
        else:
            cutoff = self.measure.cutoff or table.shape[1]
            kernels.relevance_lists(kernel, table, self._relevant, starts, self._counts, cutoff, values)
        return values.reshape((*np.shape(scores)[:-1], -1))

    def means(self, scores: ArrayLike) -> Doubles:
        """Measure score vectors: the mean over the lists that count.

        Parameters
        ----------
        scores : array_like of float, shape (vectors, rows)
            As of `values`.

        Returns
        -------
        numpy.ndarray of float64, shape (vectors,)
            NaN where no list counts.

        Raises
        ------
        InputError
            As `values`.
        """
        return np.array([self.mean(row) for row in np.atleast_2d(np.asarray(scores, np.float64))])

    def mean(self, scores: ArrayLike) -> float:
        """Measure one score vector: the mean over the lists that count; NaN without one."""
        counted = self.values(np.asarray(scores, np.float64))[self._counts]
        return float(counted.sum() / counted.size) if counted.size else float("nan")


def mean_over_lists(values: Doubles) -> Doubles:
    """Average values over the lists that count.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (lists, ...)
        NaN where a list is left out.

    Returns
    -------
    numpy.ndarray of float64, shape (...)
        NaN where no list counts.
    """
    counted = ~np.isnan(values)
    number = counted.sum(axis=0)
    total = np.where(counted, values, 0.0).sum(axis=0)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _gains(labels: NDArray[Any], starts: Integers, dcg: str) -> Doubles:
    gains = labels.astype(np.float64)
    if dcg == EXPONENTIAL and gains.max(initial=0.0) <= LARGEST_POWER:
        gains = np.exp2(gains) - 1.0
    elif dcg == EXPONENTIAL:
        # Of gains beyond a double's range all of a list take the same factor, which the ratio does without.
        above = np.maximum.reduceat(gains, starts[:-1]) - LARGEST_POWER
        over = np.repeat(np.maximum(above, 0.0), np.diff(starts))
        gains = np.exp2(gains - over) - np.exp2(-over)
    return gains


def _discount(places: Integers) -> Doubles:
    """Return the discount of places from 0: 1 / log2(1 + rank)."""
    discount: Doubles = 1.0 / np.log2(places + 2.0)
    return discount


def _checked(scores: ArrayLike, lists: LabelledLists, dimensions: int, ties: Ties) -> Doubles:
    """Return scores in shape (vectors, rows), equal ones told apart if ties are to have an order."""
    values, rows = np.ascontiguousarray(scores, np.float64), int(lists.starts[-1])
    if not 1 <= values.ndim <= dimensions or values.shape[-1] != rows:
        accepted = f"one score a row, ({rows},)" + (f" or (vectors, {rows})" if dimensions > 1 else "")
        raise InputError("scores do not fit", value=values.shape, accepted=accepted)
    if np.isnan(values).any():
        row = int(np.argmax(np.isnan(values).ravel())) % rows
        raise InputError(f"the score of row {row} is not a number", accepted="no NaN")
    check_choice("unknown ties", ties, _TIES)
    table = values.reshape(-1, rows)
    if ties == "mean":
        return table
    if ties == "docnos" and lists.docnos is None:
        raise InputError("ties by docno need docnos", accepted="data with docnos, or other ties")
    untied, named = np.empty(table.shape), list(zip(lists.docnos or (), range(rows), strict=False))
    for ranked, own in zip(untied, table, strict=True):
        if ties == "rows":
            ranked[np.argsort(-own, kind="stable")] = -np.arange(rows)
        else:
            ranked[[row for _, row in trec_eval_order(named, own.tolist())]] = -np.arange(rows)
    return untied


def _grades(labels: Doubles, starts: Integers) -> tuple[Integers, Integers]:
    """Return labels as places among their list's own, and the pairs of different ones."""
    grades, pairs = np.empty(labels.size, np.int64), np.empty(starts.size - 1, np.int64)
    for q in range(pairs.size):
        rows = slice(starts[q], starts[q + 1])
        _, grades[rows], counts = np.unique(labels[rows], return_inverse=True, return_counts=True)
        pairs[q] = (int(counts.sum()) ** 2 - int((counts.astype(np.int64) ** 2).sum())) // 2
    return grades, pairs
