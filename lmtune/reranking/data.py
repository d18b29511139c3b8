"""Learning-to-rank data as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError, PathLike
from lmtune.formats.letor import read_letor
from lmtune.formats.letor_rows import Letor


@dataclass(frozen=True, eq=False)
class RankingData(Letor):
    """Queries, each with a list of documents that have features and a label.

    Query q's rows are ``starts[q]`` to ``starts[q + 1]``; each query has at least one.

    Attributes
    ----------
    features : numpy.ndarray of float32, shape (rows, F)
        One row a document; finite. May be a memory map.
    labels : numpy.ndarray of float32, shape (rows,)
        Grades of relevance, finite, 0 or more; 0 is not relevant.
    starts : numpy.ndarray of int64, shape (queries + 1,)
        Where each query's rows begin.
    queries : tuple of str
        The queries' identifiers, distinct.
    docnos : tuple of str, optional
        One a row, distinct within a query; None where the source names no documents.

    Raises
    ------
    InputError
        Where shapes do not fit, a query has no rows or comes twice, or a label is out of range.
    """

    def __post_init__(self) -> None:
        rows, count = self.labels.size, len(self.queries)
        given = {
            "features": self.features.shape,
            "labels": self.labels.shape,
            "starts": self.starts.shape,
            "queries": count,
            "docnos": None if self.docnos is None else len(self.docnos),
        }
        fitting = {
            "features": (rows, *self.features.shape[1:2]),
            "labels": (rows,),
            "starts": (count + 1,),
            "queries": count,
            "docnos": None if self.docnos is None else rows,
        }
        if given != fitting or self.features.ndim != 2 or self.starts[[0, -1]].tolist() != [0, rows]:
            raise InputError(
                "shapes do not fit",
                value=given,
                accepted="features (rows, F), labels (rows,), starts (queries + 1,) from 0 to rows",
            )
        if (self.lengths < 1).any():
            query = self.queries[int(np.argmax(self.lengths < 1))]
            raise InputError("a query has no documents", value=query, accepted="at least one")
        wrong = ~((self.labels >= 0) & np.isfinite(self.labels))
        if wrong.any():
            value = float(self.labels[int(np.argmax(wrong))])
            raise InputError("a label is out of range", value=value, accepted="finite, 0 or more")
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
    ) -> RankingData:
        """Read a LETOR file; see `lmtune.formats.letor.read_letor`."""
        found = read_letor(path, cache=cache, width=width, repeated=repeated)
        return cls(found.features, found.labels, found.starts, found.queries, found.docnos)

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
        """Make data from arrays whose rows stand query by query.

        Parameters
        ----------
        features : array_like, shape (rows, F)
            Converted to float32.
        labels : array_like, shape (rows,)
            Grades, 0 or more.
        lengths : array_like of int, shape (queries,)
            Rows of each query, which LightGBM calls ``group``.
        queries : sequence of str, optional
            Identifiers; "0", "1", ... by default.
        docnos : sequence of str, optional
            Documents' names, one a row.

        Returns
        -------
        RankingData

        Raises
        ------
        InputError
            As the class.
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
        """Rows of each query, shape (queries,)."""
        return np.diff(self.starts)

    @cached_property
    def query_of_row(self) -> NDArray[np.int64]:
        """The number of each row's query, shape (rows,)."""
        return np.repeat(np.arange(len(self.queries), dtype=np.int64), self.lengths)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {query: number for number, query in enumerate(self.queries)}

    def rows(self, q: int) -> slice:
        """Return query number q's rows."""
        return slice(int(self.starts[q]), int(self.starts[q + 1]))

    def select(self, queries: Sequence[str]) -> Self:
        """Return the data of some queries, in the order given.

        Parameters
        ----------
        queries : sequence of str
            Identifiers, distinct.

        Returns
        -------
        RankingData
            Its arrays are views where the queries stand side by side here, else copies.

        Raises
        ------
        InputError
            For a query that is not here, or that is named twice.
        """
        for query in queries:
            if query not in self._numbers:
                raise InputError("no such query", value=query, accepted=f"one of {len(self.queries)} queries")
        return self.take([self._numbers[query] for query in queries])

    def take(self, numbers: ArrayLike) -> Self:
        """Return the data of queries by number, as `select` does by name."""
        chosen = np.asarray(numbers, np.int64)
        names = tuple(self.queries[q] for q in chosen.tolist())
        lengths = self.lengths[chosen]
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        rows: Any
        if chosen.size and (np.diff(chosen) == 1).all():
            rows = slice(int(self.starts[chosen[0]]), int(self.starts[chosen[-1] + 1]))
            docnos = None if self.docnos is None else self.docnos[rows]
        else:
            rows = np.arange(starts[-1]) + np.repeat(self.starts[chosen] - starts[:-1], lengths)
            docnos = None if self.docnos is None else tuple(self.docnos[r] for r in rows.tolist())
        features, labels = self.features[rows], self.labels[rows]
        return replace(self, features=features, labels=labels, starts=starts, queries=names, docnos=docnos)


@dataclass(frozen=True, eq=False)
class RankingSplit:
    """A data set's three parts, of equally many features.

    Attributes
    ----------
    name : str
        The data set's, or the fold's.
    train, validation, test : RankingData
        What to learn from, to choose by, and to report on.
    """

    name: str
    train: RankingData
    validation: RankingData
    test: RankingData

    def map(self, change: Callable[[RankingData], RankingData]) -> RankingSplit:
        """Return the parts changed, each by itself."""
        return RankingSplit(self.name, change(self.train), change(self.validation), change(self.test))


def check_training_data(train: RankingData, validation: RankingData | None) -> dict[str, RankingData]:
    """Return data by name; all must have the same features, and each a relevant document.

    Raises
    ------
    InputError
        Where they do not.
    """
    given = {"training": train} if validation is None else {"training": train, "validation": validation}
    for name, data in given.items():
        if not (data.labels > 0).any():
            raise InputError(f"no {name} query has a relevant document", accepted="one at least")
        if data.features.shape[1] != train.features.shape[1]:
            raise InputError(
                "training and validation data have different features",
                value=(train.features.shape[1], data.features.shape[1]),
            )
    return given
