"""Learning-to-rank data as arrays, and batches of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError, PathLike
from lmtune.io.letor import read_letor
from lmtune.io.letor_rows import Letor


@dataclass(frozen=True, eq=False)
class RankingData(Letor):
    """Queries, each with a list of documents that have features and a label.

    The rows of query q are ``starts[q]`` to ``starts[q + 1]``, at least one.

    Attributes
    ----------
    features : numpy.ndarray of float32, shape (rows, F)
        One row per document; finite. May be a memory map.
    labels : numpy.ndarray of float32, shape (rows,)
        Relevance grades, finite and at least 0; 0 is non-relevant.
    starts : numpy.ndarray of int64, shape (queries + 1,)
        The first row of each query.
    queries : tuple of str
        Distinct identifiers.
    docnos : tuple of str, optional
        One per row, distinct within a query. None if the source has no document identifiers.
    teacher : numpy.ndarray of float32, shape (rows,), optional
        Another ranker's scores as a target of training, at least 0. Only their differences within a list
        matter.
    weights : numpy.ndarray of float64, shape (queries,), optional
        Weights of queries in training, finite and above 0. Means of measures ignore them.

    Raises
    ------
    InputError
        If shapes differ, a query has no rows or occurs twice, or a label or a weight is out of range.
    """

    teacher: NDArray[np.float32] | None = None
    weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        rows, count = self.labels.size, len(self.queries)
        actual_and_expected: dict[str, tuple[Any, Any]] = {
            "features": (self.features.shape, (rows, *self.features.shape[1:2])),
            "labels": (self.labels.shape, (rows,)),
            "starts": (self.starts.shape, (count + 1,)),
            "queries": (count, count),
            "docnos": (None, None) if self.docnos is None else (len(self.docnos), rows),
            "weights": (None, None) if self.weights is None else (self.weights.shape, (count,)),
        }
        shapes = {name: shape for name, (shape, _) in actual_and_expected.items()}
        if (
            any(shape != expected for shape, expected in actual_and_expected.values())
            or self.features.ndim != 2
            or self.starts[[0, -1]].tolist() != [0, rows]
        ):
            raise InputError(
                "shapes do not fit",
                value=shapes,
                accepted="features (rows, F), labels (rows,), starts (queries + 1,) from 0 to rows",
            )
        if (self.lengths < 1).any():
            query = self.queries[int(np.argmax(self.lengths < 1))]
            raise InputError("a query has no documents", value=query, accepted="at least one")
        wrong = ~((self.labels >= 0) & np.isfinite(self.labels))
        if wrong.any():
            value = float(self.labels[int(np.argmax(wrong))])
            raise InputError("a label is out of range", value=value, accepted="finite, 0 or more")
        if self.weights is not None and not ((self.weights > 0) & np.isfinite(self.weights)).all():
            raise InputError("a query's weight is out of range", accepted="finite, above 0")
        if len(self._numbers) != len(self.queries):
            twice = next(q for n, q in enumerate(self.queries) if self._numbers[q] != n)
            raise InputError("a query comes twice", value=twice, accepted="each query once")

    @classmethod
    def read(
        cls,
        path: PathLike,
        *,
        cache: bool | PathLike = True,
        width: int | None = None,
        repeated: Literal["error", "last"] = "error",
        zero_based: bool | None = None,
    ) -> RankingData:
        """Read a LETOR file; the parameters are those of `lmtune.io.letor.read_letor`."""
        rows = read_letor(path, cache=cache, width=width, repeated=repeated, zero_based=zero_based)
        return cls(rows.features, rows.labels, rows.starts, rows.queries, rows.docnos)

    @classmethod
    def from_lengths(
        cls,
        features: ArrayLike,
        labels: ArrayLike,
        lengths: ArrayLike,
        *,
        queries: Sequence[str] | None = None,
        docnos: Sequence[str] | None = None,
    ) -> RankingData:
        """Create data from arrays in which each query's rows are contiguous.

        Parameters
        ----------
        features : array_like, shape (rows, F)
            Converted to float32.
        labels : array_like, shape (rows,)
            Grades, 0 or more.
        lengths : array_like of int, shape (queries,)
            Number of rows of each query, LightGBM's ``group``.
        queries : sequence of str, optional
            Identifiers; default "0", "1", ...
        docnos : sequence of str, optional
            Document identifiers, one per row.

        Returns
        -------
        RankingData

        Raises
        ------
        InputError
            If the arrays are invalid, as for `RankingData`.
        """
        sizes = np.asarray(lengths, np.int64)
        names = [str(q) for q in range(sizes.size)] if queries is None else queries
        return cls(
            np.asarray(features, np.float32),
            np.asarray(labels, np.float32),
            np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))),
            tuple(names),
            None if docnos is None else tuple(docnos),
        )

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of rows of each query, shape (queries,)."""
        return np.diff(self.starts)

    @cached_property
    def query_of_row(self) -> NDArray[np.int64]:
        """Query number of each row, shape (rows,)."""
        return np.repeat(np.arange(len(self.queries), dtype=np.int64), self.lengths)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {query: number for number, query in enumerate(self.queries)}

    def rows(self, q: int) -> slice:
        """Return the slice of query q's rows."""
        return slice(int(self.starts[q]), int(self.starts[q + 1]))

    def select(self, queries: Sequence[str]) -> Self:
        """Return the data of some queries, in the order of the argument.

        Parameters
        ----------
        queries : sequence of str
            Identifiers, distinct.

        Returns
        -------
        RankingData
            Its arrays are views if the queries are adjacent here, else copies.

        Raises
        ------
        InputError
            If a query is unknown or listed twice.
        """
        for query in queries:
            if query not in self._numbers:
                raise InputError("no such query", value=query, accepted=f"one of {len(self.queries)} queries")
        return self.take([self._numbers[query] for query in queries])

    def take(self, numbers: ArrayLike) -> Self:
        """Return the data of some queries by number; like `select`, which uses identifiers."""
        chosen = np.asarray(numbers, np.int64)
        names = tuple(self.queries[q] for q in chosen.tolist())
        lengths = self.lengths[chosen]
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        rows: Any
        if chosen.size and (np.diff(chosen) == 1).all():
            rows = slice(int(self.starts[chosen[0]]), int(self.starts[chosen[-1] + 1]))
        else:
            rows = np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], lengths)
        weights = None if self.weights is None else self.weights[chosen]
        return replace(self, starts=starts, queries=names, weights=weights, **self._of_rows(rows))

    def without(self, rows: NDArray[np.bool_]) -> Self:
        """Return the data without the rows where a mask of shape (rows,) is True, not all of any query."""
        kept = np.flatnonzero(~rows)
        starts = np.searchsorted(kept, self.starts)
        return replace(self, starts=starts, **self._of_rows(kept))

    def _of_rows(self, rows: Any) -> dict[str, Any]:
        names, arrays = (
            self.docnos,
            {"features": self.features, "labels": self.labels, "teacher": self.teacher},
        )
        if names is not None:
            names = names[rows] if isinstance(rows, slice) else tuple(names[row] for row in rows.tolist())
        of_rows = {name: None if array is None else array[rows] for name, array in arrays.items()}
        return {**of_rows, "docnos": names}


def parse_rank_range(text: str) -> tuple[int, int]:
    """Parse a range of ranks, such as ``10-100``, into its first and last rank.

    Raises
    ------
    InputError
        If the text is not ``FIRST-LAST`` with 1 <= FIRST <= LAST.
    """
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise InputError("bad range of ranks", value=text, accepted="FIRST-LAST, from 1, such as 10-100")
    return int(first), int(last)


def hard_negatives(data: RankingData, ranks: str | None) -> RankingData:
    """Remove non-relevant documents outside a range of ranks.

    The first document of a list stays if all would be removed.

    Parameters
    ----------
    data : RankingData
        Lists in rank order.
    ranks : str or None
        For example ``10-100``, see `parse_rank_range`; None removes nothing.
    """
    if ranks is None:
        return data
    first, last = parse_rank_range(ranks)
    rank = np.arange(1, data.labels.size + 1) - data.starts[data.query_of_row]
    dropped = (np.asarray(data.labels) <= 0) & ((rank < first) | (rank > last))
    is_emptied = np.logical_and.reduceat(dropped, data.starts[:-1])
    dropped[data.starts[:-1][is_emptied]] = False
    return data.without(dropped)


@dataclass(frozen=True, eq=False)
class RankingSplit:
    """Training, validation and test data with the same number of features.

    Attributes
    ----------
    name : str
        Name of the data set or of the fold.
    train, validation, test : RankingData
    """

    name: str
    train: RankingData
    validation: RankingData
    test: RankingData

    def map(self, change: Callable[[RankingData], RankingData]) -> RankingSplit:
        """Apply a function to each part."""
        return RankingSplit(self.name, change(self.train), change(self.validation), change(self.test))


def check_training_data(train: RankingData, validation: RankingData | None) -> dict[str, RankingData]:
    """Return the data by name, "training" and "validation".

    Raises
    ------
    InputError
        If either has no relevant document, or the numbers of features differ.
    """
    named = {"training": train} if validation is None else {"training": train, "validation": validation}
    for name, data in named.items():
        if not (data.labels > 0).any():
            raise InputError(f"no {name} query has a relevant document", accepted="one at least")
        if data.features.shape[1] != train.features.shape[1]:
            raise InputError(
                "training and validation data have different features",
                value=(train.features.shape[1], data.features.shape[1]),
            )
    return named


@dataclass(frozen=True, eq=False)
class Batch:
    """Lists of B queries, padded at the end to the longest length n.

    Attributes
    ----------
    labels : numpy.ndarray of float, shape (B, n)
        0 on padding.
    mask : numpy.ndarray of bool, shape (B, n)
        False on padding.
    rows : numpy.ndarray of int64, shape (B, n)
        Each document's row in the data; -1 on padding.
    queries : numpy.ndarray of int64, shape (B,)
        Query numbers in the data.
    """

    labels: NDArray[np.floating]
    mask: NDArray[np.bool_]
    rows: NDArray[np.int64]
    queries: NDArray[np.int64]


# The queries of this many batches are sorted by length together.
_SORTED_BATCHES = 8


def batches(
    data: RankingData,
    *,
    size: int,
    seed: int,
    epoch: int,
    list_size: int | None = None,
    list_relevant: int | None = None,
    shuffle: bool = True,
    start: int = 0,
) -> Iterator[Batch]:
    """Yield the batches of one epoch; lists in a batch have similar lengths.

    Batch k depends only on the arguments and k, so training resumed at step k continues with the same
    batches.

    Parameters
    ----------
    data : RankingData
    size : int
        Queries per batch; one batch may be smaller.
    seed, epoch : int
        Seeds of the order and of the samples; 0 or more.
    list_size : int, optional
        Longer lists are cut to this many documents. With `shuffle`, these are a random sample, new in
        each epoch, that includes a relevant document if the query has one. Without, they are the first
        documents. Default: no cut.
    list_relevant : int, optional
        With `list_size` and `shuffle`: the number of relevant documents in a sample. If a list has too
        few relevant (or too few other) documents, all of them are used, with more of the other kind.
        Default: a uniform sample.
    shuffle : bool
        Whether the order of queries is random, apart from sorting those of a few batches by length, which
        saves padding. Without, queries are in order of descending length, then as in the data.
    start : int
        Number of batches to skip.

    Yields
    ------
    Batch
    """
    plan = _plan(data, size, seed, epoch, list_size, shuffle)
    for step in range(start, len(plan)):
        random = np.random.default_rng([seed, epoch, 1, step]) if shuffle else None
        yield batch_of(data, plan[step], list_size, list_relevant, random)


def number_of_batches(data: RankingData, size: int) -> int:
    """Return how many batches `batches` yields per epoch."""
    return -(-len(data.queries) // size)


def _plan(
    data: RankingData, size: int, seed: int, epoch: int, list_size: int | None, shuffle: bool
) -> list[NDArray[np.int64]]:
    """Return the query numbers of each batch."""
    count = len(data.queries)
    lengths = data.lengths if list_size is None else np.minimum(data.lengths, list_size)
    if not shuffle:
        order = np.argsort(-lengths, kind="stable")
        return [order[first : first + size] for first in range(0, count, size)]
    random = np.random.default_rng([seed, epoch, 0])
    order = random.permutation(count)
    plan: list[NDArray[np.int64]] = []
    for first in range(0, count, size * _SORTED_BATCHES):
        drawn = order[first : first + size * _SORTED_BATCHES]
        drawn = drawn[np.argsort(-lengths[drawn], kind="stable")]
        plan += [drawn[begin : begin + size] for begin in range(0, drawn.size, size)]
    return [plan[number] for number in random.permutation(len(plan)).tolist()]


def batch_of(
    data: RankingData,
    queries: NDArray[np.int64],
    list_size: int | None,
    list_relevant: int | None,
    random: np.random.Generator | None,
) -> Batch:
    """Create a batch of queries, given by number; see `batches` for `list_size` and `list_relevant`.

    Longer lists are cut to a random sample if `random` is a generator, else to the first documents.
    """
    lengths = data.lengths[queries]
    rows = np.arange(int(lengths.max())) + data.starts[queries][:, None]
    rows[rows >= data.starts[queries + 1][:, None]] = -1
    if list_size is not None and rows.shape[1] > list_size:
        if random is not None:
            rows = _sampled(data, rows, list_size, list_relevant, random)
        rows = rows[:, :list_size]
    mask = rows >= 0
    labels = np.take(data.labels, rows, mode="clip")
    labels[~mask] = 0.0
    return Batch(labels, mask, rows, queries)


def _sampled(
    data: RankingData,
    rows: NDArray[np.int64],
    list_size: int,
    list_relevant: int | None,
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """Move a random sample of `list_size` rows of each list to its front; shorter lists stay unchanged."""
    keys = random.random(rows.shape)
    is_relevant = (rows >= 0) & (np.take(data.labels, rows, mode="clip") > 0)
    relevant = np.where(is_relevant, keys, np.inf)
    if list_relevant is None:
        # Put the relevant row with the lowest key first. Samples that include a relevant row do not change.
        first = relevant.argmin(axis=1)
        some = np.flatnonzero(np.isfinite(relevant.min(axis=1)))
        keys[some, first[some]] = -1.0
    else:
        # Sort `list_relevant` relevant rows before the other rows, and the remaining relevant ones after.
        wanted = np.argsort(np.argsort(relevant, axis=1), axis=1) < list_relevant
        keys[is_relevant] += np.where(wanted, -1.0, 1.0)[is_relevant]
    keys[rows < 0] = np.inf
    chosen = np.sort(np.argsort(keys, axis=1)[:, :list_size], axis=1)
    return np.take_along_axis(rows, chosen, axis=1)
