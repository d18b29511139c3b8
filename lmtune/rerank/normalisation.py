"""Features brought to a common scale, with statistics from training data only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.options import check, option
from lmtune.rerank.data import RankingData

Method = Literal["none", "z-score", "query-z-score", "query-min-max"]
METHODS: tuple[Method, ...] = get_args(Method)
"""How `Normaliser` scales, in the order of their numbers in its arrays."""

_BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class Normalisation:
    """How features are scaled; see `Normaliser`."""

    method: Method = option(
        "z-score",
        "z-score, query-z-score, query-min-max or none; of training features.",
        choices=METHODS,
        flag="--normalise",
    )
    log1p: bool = option(True, "Take sign(x) log(1 + |x|) of features first.")

    def fit(self, data: RankingData) -> Normaliser:
        """Fit to training data."""
        return Normaliser.fit(data, method=self.method, log1p=self.log1p)


@dataclass(frozen=True, eq=False)
class Normaliser:
    r"""How features are scaled: fitted on training data, applied to any.

    With ``log1p``, each value x first becomes :math:`\mathrm{sign}(x) \log(1 + |x|)`. Then

    - ``"z-score"`` subtracts each feature's mean over the training rows and divides by its
      standard deviation there;
    - ``"query-z-score"`` does so with the mean and deviation over the rows of the same query;
    - ``"query-min-max"`` maps the rows of a query to 0 to 1;
    - ``"none"`` leaves values as they are.

    A feature without spread (over the training rows, or in the query) becomes 0, also where other
    data has other values.

    Attributes
    ----------
    method : str
        One of `METHODS`.
    log1p : bool
        Whether logarithms are taken first.
    centre, scale : numpy.ndarray of float64, shape (F,)
        What ``"z-score"`` subtracts and then multiplies by; 0 and 1 for the other methods.
    """

    method: Method
    log1p: bool
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def fit(cls, data: RankingData, *, method: Method = "z-score", log1p: bool = True) -> Normaliser:
        """Fit to training data.

        Parameters
        ----------
        data : RankingData
            The training queries, and no others.
        method : str
            One of `METHODS`.
        log1p : bool
            Whether logarithms are taken first.

        Returns
        -------
        Normaliser

        Raises
        ------
        InputError
            For an unknown method, or no rows.
        """
        check(Normalisation(method, log1p))
        if not data.labels.size:
            raise InputError("no rows to normalise by", accepted="at least one")
        width = data.features.shape[1]
        centre, scale = np.zeros(width), np.ones(width)
        if method == "z-score":
            centre, scale = _moments(data, log1p)
        return cls(method, log1p, centre, scale)

    def transform(self, data: RankingData) -> RankingData:
        """Return the data with scaled features.

        Raises
        ------
        InputError
            For another number of features than at fitting.
        """
        if data.features.shape[1] != self.centre.size:
            raise InputError(
                "another number of features",
                value=data.features.shape[1],
                accepted=f"{self.centre.size}, as in the training data",
            )
        out = np.empty(data.features.shape, np.float32)
        for first, last in _query_blocks(data):
            rows = slice(int(data.starts[first]), int(data.starts[last]))
            values = _values(data.features[rows], self.log1p)
            if self.method == "z-score":
                values = (values - self.centre) * self.scale
            elif self.method != "none":
                starts = data.starts[first:last] - data.starts[first]
                values = _by_query(values, starts, data.lengths[first:last], self.method)
            out[rows] = values
        return replace(data, features=out)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all there is to keep, as arrays of numbers; see `from_arrays`."""
        return {
            "method": np.array([METHODS.index(self.method)], np.uint8),
            "log1p": np.array([self.log1p], np.uint8),
            "centre": self.centre,
            "scale": self.scale,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Normaliser:
        """Make a normaliser of what `to_arrays` gave.

        Raises
        ------
        InputError
            Where the arrays are not such.
        """
        try:
            centre = np.asarray(arrays["centre"], np.float64)
            scale = np.asarray(arrays["scale"], np.float64)
            method = METHODS[int(arrays["method"][0])]
            log1p = bool(arrays["log1p"][0])
        except (LookupError, ValueError, TypeError) as error:
            raise InputError(f"no normaliser: {error}", accepted="what to_arrays gave") from error
        if centre.ndim != 1 or centre.shape != scale.shape:
            raise InputError("no normaliser", value=(centre.shape, scale.shape), accepted="(F,)")
        return cls(method, log1p, centre, scale)


def _values(features: NDArray[np.float32], log1p: bool) -> NDArray[np.float64]:
    values = np.asarray(features, np.float64)
    return np.copysign(np.log1p(np.abs(values)), values) if log1p else values


def _moments(data: RankingData, log1p: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each feature's mean, and one over its standard deviation or 0; in two passes."""
    rows, width = data.features.shape
    blocks = [slice(first, first + _BLOCK_ROWS) for first in range(0, rows, _BLOCK_ROWS)]
    total = np.zeros(width)
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    for block in blocks:
        values = _values(data.features[block], log1p)
        total += values.sum(axis=0)
        low = np.minimum(low, values.min(axis=0))
        high = np.maximum(high, values.max(axis=0))
    # Rounding would leave equal values a tiny deviation from their mean.
    mean = np.where(low == high, low, total / rows)
    squares = np.zeros(width)
    for block in blocks:
        squares += ((_values(data.features[block], log1p) - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(squares / rows)
    return mean, np.divide(1.0, deviation, out=np.zeros(width), where=deviation > 0.0)


def _query_blocks(data: RankingData) -> Iterator[tuple[int, int]]:
    """Yield ranges of queries of about `_BLOCK_ROWS` rows."""
    first, count = 0, len(data.queries)
    while first < count:
        last = int(np.searchsorted(data.starts, data.starts[first] + _BLOCK_ROWS, "right")) - 1
        last = max(first + 1, last)
        yield first, last
        first = last


def _by_query(
    values: NDArray[np.float64], starts: NDArray[np.int64], lengths: NDArray[np.int64], method: Method
) -> NDArray[np.float64]:
    low = np.minimum.reduceat(values, starts, axis=0)
    spread = np.maximum.reduceat(values, starts, axis=0) - low
    if method == "query-min-max":
        centre, unit = low, spread
    else:
        # From the lowest value on, so that equal values have no deviation at all.
        centre = low + np.add.reduceat(values - np.repeat(low, lengths, 0), starts) / lengths[:, None]
        squares = np.add.reduceat((values - np.repeat(centre, lengths, 0)) ** 2, starts)
        unit = np.sqrt(squares / lengths[:, None])
    scale = np.divide(1.0, unit, out=np.zeros(unit.shape), where=(spread > 0.0) & (unit > 0.0))
    out: NDArray[np.float64] = values - np.repeat(centre, lengths, 0)
    out *= np.repeat(scale, lengths, 0)
    return out
