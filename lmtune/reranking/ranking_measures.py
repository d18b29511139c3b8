r"""Measures of a ranking in the forms of the learning-to-rank papers, of many rankings at once.

With the labels y of a query's own documents, ranked by falling score, and a document relevant if
its label is at least a threshold, 1 by default:

- ``ndcg@k``, ``ndcg``: :math:`\sum_{r \le k} (2^{y_r} - 1) / \log_2(1 + r)` over its maximum
  (Yue and Burges 2007, equation 1), by default over all ranks. The logarithm's base cancels.
- ``pairwise-error``: pairs of different labels in the wrong order, as a fraction of all pairs of
  different labels (Burges 2005, section 2). A cost.
- ``mrr``, ``mrr@k``: 1 over the rank of the first relevant document; 0 if it is beyond k.
- ``wta``: winner takes all, 0 if the first document is relevant, else 1. A cost.
- ``ap``: the mean, over the relevant documents, of the share of relevant ones down to each.

A query that no order could better or worsen for want of relevant documents (for pairwise error, of
different labels) gets NaN and is left out of means. Documents of equal score stand in every order
equally often: each value is the exact mean over these orders (McSherry and Najork 2008), so that a
pair of equal scores is half an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.reranking import measure_kernels
from lmtune.reranking.data import RankingData
from lmtune.reranking.ndcg import Ties

ACCEPTED = "ndcg, ndcg@10, pairwise-error, mrr, mrr@10, wta, ap"
"""What `parse_measure` takes, for messages."""

_COSTS = ("pairwise-error", "wta")
_WITH_CUTOFF = ("ndcg", "mrr")
_KINDS = ("ndcg", "pairwise-error", "mrr", "wta", "ap")
_TITLES = {"ndcg": "NDCG", "pairwise-error": "pairwise error", "mrr": "MRR", "wta": "WTA cost", "ap": "MAP"}


@dataclass(frozen=True)
class RankingMeasure:
    """A measure of a ranking; see the module's text.

    Attributes
    ----------
    kind : str
        ``"ndcg"``, ``"pairwise-error"``, ``"mrr"``, ``"wta"`` or ``"ap"``.
    cutoff : int or None
        The last rank that counts; None for all.
    """

    kind: str
    cutoff: int | None = None

    def __str__(self) -> str:
        return self.kind + self._end

    @property
    def title(self) -> str:
        """What pictures and tables call its mean."""
        return _TITLES[self.kind] + self._end

    @property
    def higher_is_better(self) -> bool:
        """Whether a perfect ranking has 1 and not 0."""
        return self.kind not in _COSTS

    @property
    def _end(self) -> str:
        return "" if self.cutoff is None else f"@{self.cutoff}"


def parse_measure(name: str) -> RankingMeasure:
    """Read a measure's name; case does not matter.

    Raises
    ------
    InputError
        For a name that is none of `ACCEPTED`, or a cutoff where there can be none.

    Examples
    --------
    >>> parse_measure("NDCG@10")
    RankingMeasure(kind='ndcg', cutoff=10)
    >>> parse_measure("wta").higher_is_better
    False
    """
    found = re.fullmatch(r"([a-z-]+)(?:@([1-9][0-9]{0,8}))?", name.strip().lower(), re.ASCII)
    if found is None or found[1] not in _KINDS or (found[2] and found[1] not in _WITH_CUTOFF):
        raise InputError("unknown measure", value=name, accepted=ACCEPTED)
    return RankingMeasure(found[1], int(found[2]) if found[2] else None)


class Measurer:
    """A measure made ready for the lists of some data, to be taken of many score vectors.

    What depends on the labels alone is computed once. NDCG down to rank 64 or less, MRR and WTA
    sort nothing: 10,000 queries of 50 documents take NDCG@10 about 7 ms.

    Parameters
    ----------
    measure : str or RankingMeasure
        As `parse_measure` takes.
    data : RankingData
        Labels and lists.
    threshold : float
        The lowest label that is relevant, above 0, for ``mrr``, ``wta`` and ``ap``.

    Raises
    ------
    InputError
        For an unknown measure, or a threshold that is no positive number.
    """

    def __init__(self, measure: str | RankingMeasure, data: RankingData, *, threshold: float = 1.0) -> None:
        if not (np.isfinite(threshold) and threshold > 0):
            raise InputError("bad threshold", value=threshold, accepted="a label above 0")
        self.measure = parse_measure(measure) if isinstance(measure, str) else measure
        self._starts = np.ascontiguousarray(data.starts, np.int64)
        labels = np.asarray(data.labels, np.float64)
        if self.measure.kind == "ndcg":
            self._gains = np.exp2(labels) - 1.0
            depth = min(self.measure.cutoff or labels.size, int(data.lengths.max(initial=0)))
            self._discount = 1.0 / np.log2(np.arange(depth) + 2.0)
            self._best = _best(self._gains, data, self._discount)
            self._counts = self._best > 0
        elif self.measure.kind == "pairwise-error":
            self._grades, self._pairs = _grades(labels, data)
            self._counts = self._pairs > 0
        else:
            self._relevant = labels >= threshold
            self._counts = np.logical_or.reduceat(self._relevant, data.starts[:-1])

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which queries count, shape (queries,)."""
        return self._counts

    def values(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Measure score vectors, query by query.

        Parameters
        ----------
        scores : array_like of float, shape (rows,) or (vectors, rows)
            Higher is better; not NaN.

        Returns
        -------
        numpy.ndarray of float64, shape (queries,) or (vectors, queries)
            NaN where a query does not count.

        Raises
        ------
        InputError
            For scores of another shape or NaN.
        """
        given = np.ascontiguousarray(scores, np.float64)
        self._check(given)
        table = given.reshape(-1, given.shape[-1])
        values = np.empty((table.shape[0], self._counts.size))
        kind, starts = self.measure.kind, self._starts
        if kind == "ndcg":
            measure_kernels.ndcg_queries(table, self._gains, starts, self._best, self._discount, values)
        elif kind == "pairwise-error":
            measure_kernels.pairwise_error_queries(table, self._grades, starts, self._pairs, values)
        elif kind == "mrr":
            cutoff = self.measure.cutoff or given.shape[-1]
            measure_kernels.first_relevant_queries(
                table, self._relevant, starts, self._counts, cutoff, values
            )
        elif kind == "wta":
            measure_kernels.winner_queries(table, self._relevant, starts, self._counts, values)
        else:
            measure_kernels.average_precision_queries(table, self._relevant, starts, self._counts, values)
        return values.reshape((*given.shape[:-1], -1))

    def means(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Measure score vectors: the mean over the queries that count.

        Parameters
        ----------
        scores : array_like of float, shape (vectors, rows)
            As of `values`.

        Returns
        -------
        numpy.ndarray of float64, shape (vectors,)
            NaN where no query counts.

        Raises
        ------
        InputError
            As `values`.
        """
        table = np.atleast_2d(np.asarray(scores, np.float64))
        return np.array([mean_over_queries(self.values(row)) for row in table])

    def mean(self, scores: ArrayLike) -> float:
        """Measure one score vector: the mean over the queries that count; NaN without one."""
        return mean_over_queries(self.values(np.asarray(scores, np.float64)))

    def _check(self, scores: NDArray[np.float64]) -> None:
        rows = int(self._starts[-1])
        if scores.ndim not in (1, 2) or scores.shape[-1] != rows:
            accepted = f"one score a row, ({rows},) or (vectors, {rows})"
            raise InputError("scores do not fit", value=scores.shape, accepted=accepted)
        if np.isnan(scores).any():
            row = int(np.argmax(np.isnan(scores).ravel())) % rows
            raise InputError(f"the score of row {row} is not a number", accepted="no NaN")


def measure_scores(
    name: str | RankingMeasure,
    scores: ArrayLike,
    data: RankingData,
    *,
    threshold: float = 1.0,
    ties: Ties = "mean",
) -> NDArray[np.float64]:
    """Measure one score vector, query by query.

    Parameters
    ----------
    name : str or RankingMeasure
        As `parse_measure` takes.
    scores : array_like of float, shape (rows,)
        One score a row of `data`, higher is better; not NaN.
    data : RankingData
        Labels and lists.
    threshold : float
        The lowest label that is relevant, above 0, for ``mrr``, ``wta`` and ``ap``.
    ties : {"mean", "rows", "docnos"}
        Documents of equal score: the mean over all their orders; the earlier row first; or the
        higher docno first, as trec_eval does. As for `lmtune.reranking.ndcg.ndcg`.

    Returns
    -------
    numpy.ndarray of float64, shape (queries,)
        NaN where a query does not count.

    Raises
    ------
    InputError
        For an unknown measure or way of ties, docnos that the data lacks, scores of another shape
        or NaN, a bad threshold.

    Examples
    --------
    Of 1,000 documents two are relevant, at ranks 1 and 1,000. Moving the one down to rank 2 and
    the other up to rank 3 mends 996 of 998 errors, and the winner is lost (Burges 2005, section 3):

    >>> import numpy as np
    >>> before, after = np.zeros(1000), np.zeros(1000)
    >>> before[[0, 999]] = after[[1, 2]] = 1
    >>> scores = -np.arange(1000.0)
    >>> for labels in (before, after):
    ...     data = RankingData.from_lengths(np.zeros((1000, 1)), labels, [1000])
    ...     errors = measure_scores("pairwise-error", scores, data)[0] * 2 * 998
    ...     print(round(errors), measure_scores("wta", scores, data)[0])
    998 0.0
    2 1.0
    """
    values = np.asarray(scores, np.float64)
    if values.shape != data.labels.shape:
        accepted = f"one score a row, {data.labels.shape}"
        raise InputError("scores do not fit", value=values.shape, accepted=accepted)
    if ties not in ("mean", "rows", "docnos"):
        raise InputError("unknown ties", value=ties, accepted="mean, rows, docnos")
    measurer = Measurer(name, data, threshold=threshold)
    measurer._check(values)
    return measurer.values(values if ties == "mean" else _untied(values, data, ties))


def mean_over_queries(values: NDArray[np.float64]) -> float:
    """Average a measure over the queries that count; NaN where none does."""
    counted = values[~np.isnan(values)]
    return float(counted.sum() / counted.size) if counted.size else float("nan")


def _untied(scores: NDArray[np.float64], data: RankingData, ties: Ties) -> NDArray[np.float64]:
    """Return scores in the same order without equal ones."""
    first = np.arange(scores.size)
    if ties == "docnos":
        if data.docnos is None:
            accepted = "data with docnos, or other ties"
            raise InputError("ties by docno need docnos", accepted=accepted)
        first = -np.unique(np.array(data.docnos, np.str_), return_inverse=True)[1]
    untied = np.empty(scores.size)
    untied[np.lexsort((first, -scores))] = -np.arange(scores.size)
    return untied


def _best(
    gains: NDArray[np.float64], data: RankingData, discount: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return each query's highest DCG, summed as the kernel sums."""
    best = np.zeros(len(data.queries))
    for q in range(best.size):
        ideal = np.sort(gains[data.rows(q)])[::-1][: discount.size]
        for place, gain in enumerate(ideal[ideal > 0]):
            best[q] += gain * discount[place]
    return best


def _grades(labels: NDArray[np.float64], data: RankingData) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return labels as places among their query's own, and the pairs of different ones."""
    grades, pairs = np.empty(labels.size, np.int64), np.empty(len(data.queries), np.int64)
    for q in range(pairs.size):
        rows = data.rows(q)
        _, grades[rows], counts = np.unique(labels[rows], return_inverse=True, return_counts=True)
        pairs[q] = (int(counts.sum()) ** 2 - int((counts.astype(np.int64) ** 2).sum())) // 2
    return grades, pairs
