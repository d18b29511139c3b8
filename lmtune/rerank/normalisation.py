"""Feature normalisation, fitted on training data."""

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
"""Methods of `Normaliser`. Its arrays store the index in this tuple, so the order must not change."""

_BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class Normalisation:
    """Feature scaling: options; see `Normaliser`."""

    method: Method = option(
        "z-score",
        "Scale features: z-score (of the training data), query-z-score, query-min-max or none.",
        choices=METHODS,
        flag="--normalise",
    )
    log1p: bool = option(True, "Transform features x to sign(x) log(1 + |x|) first.")

    def fit(self, data: RankingData) -> Normaliser:
        """Fit a normaliser on training data."""
        return Normaliser.fit(data, method=self.method, log1p=self.log1p)


@dataclass(frozen=True, eq=False)
class Normaliser:
    r"""Scales features with statistics of the training data or of each query.

    With ``log1p``, each value x first becomes :math:`\mathrm{sign}(x) \log(1 + |x|)`. Then

    - ``"z-score"`` subtracts each feature's mean over the training rows and divides by its
      standard deviation over them;
    - ``"query-z-score"`` uses the mean and the standard deviation over the query's rows instead;
    - ``"query-min-max"`` maps each feature of a query's rows linearly to [0, 1];
    - ``"none"`` leaves values unchanged.

    A feature that is constant (over the training rows, or in the query) becomes 0, for ``"z-score"``
    also in other data where it varies.

    Attributes
    ----------
    method : str
        One of `METHODS`.
    log1p : bool
        Whether values are transformed logarithmically first.
    centre, scale : numpy.ndarray of float64, shape (F,)
        ``"z-score"`` computes ``(values - centre) * scale``; 0 and 1 for the other methods.
    """

    method: Method
    log1p: bool
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def fit(cls, data: RankingData, *, method: Method = "z-score", log1p: bool = True) -> Normaliser:
        """Fit a normaliser on training data.

        Parameters
        ----------
        data : RankingData
            The training queries only.
        method : str
            One of `METHODS`.
        log1p : bool
            Whether values are transformed logarithmically first.

        Returns
        -------
        Normaliser

        Raises
        ------
        InputError
            If the method is unknown, or the data has no rows.
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
            If the number of features differs from the training data's.
        """
        if data.features.shape[1] != self.centre.size:
            raise InputError(
                "wrong number of features",
                value=data.features.shape[1],
                accepted=f"{self.centre.size}, as in the training data",
            )
        out = np.empty(data.features.shape, np.float32)
        for first, last in _query_blocks(data):
            rows = slice(int(data.starts[first]), int(data.starts[last]))
            values = _transformed(data.features[rows], self.log1p)
            if self.method == "z-score":
                values = (values - self.centre) * self.scale
            elif self.method != "none":
                starts = data.starts[first:last] - data.starts[first]
                values = _scaled_by_query(values, starts, data.lengths[first:last], self.method)
            out[rows] = values
        return replace(data, features=out)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the normaliser as numeric arrays, for storage; see `from_arrays`."""
        return {
            "method": np.array([METHODS.index(self.method)], np.uint8),
            "log1p": np.array([self.log1p], np.uint8),
            "centre": self.centre,
            "scale": self.scale,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Normaliser:
        """Create a normaliser from the arrays of `to_arrays`.

        Raises
        ------
        InputError
            If an array is missing or invalid.
        """
        try:
            centre = np.asarray(arrays["centre"], np.float64)
            scale = np.asarray(arrays["scale"], np.float64)
            method = METHODS[int(arrays["method"][0])]
            log1p = bool(arrays["log1p"][0])
        except (LookupError, ValueError, TypeError) as error:
            raise InputError(f"bad normaliser: {error}", accepted="the arrays of to_arrays") from error
        if centre.ndim != 1 or centre.shape != scale.shape:
            raise InputError("bad shapes in a normaliser", value=(centre.shape, scale.shape), accepted="(F,)")
        return cls(method, log1p, centre, scale)


def _transformed(features: NDArray[np.float32], log1p: bool) -> NDArray[np.float64]:
    values = np.asarray(features, np.float64)
    return np.copysign(np.log1p(np.abs(values)), values) if log1p else values


def _moments(data: RankingData, log1p: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each feature's mean and inverse standard deviation (0 if constant), in two passes."""
    rows, width = data.features.shape
    blocks = [slice(first, first + _BLOCK_ROWS) for first in range(0, rows, _BLOCK_ROWS)]
    total = np.zeros(width)
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    for block in blocks:
        values = _transformed(data.features[block], log1p)
        total += values.sum(axis=0)
        low = np.minimum(low, values.min(axis=0))
        high = np.maximum(high, values.max(axis=0))
    # Avoid a tiny deviation of constant features due to rounding of the mean.
    mean = np.where(low == high, low, total / rows)
    squares = np.zeros(width)
    for block in blocks:
        squares += ((_transformed(data.features[block], log1p) - mean) ** 2).sum(axis=0)
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


def _scaled_by_query(
    values: NDArray[np.float64], starts: NDArray[np.int64], lengths: NDArray[np.int64], method: Method
) -> NDArray[np.float64]:
    low = np.minimum.reduceat(values, starts, axis=0)
    spread = np.maximum.reduceat(values, starts, axis=0) - low
    if method == "query-min-max":
        centre, unit = low, spread
    else:
        # Subtract the minimum first, so that constant features have a deviation of exactly 0.
        centre = low + np.add.reduceat(values - np.repeat(low, lengths, 0), starts) / lengths[:, None]
        squares = np.add.reduceat((values - np.repeat(centre, lengths, 0)) ** 2, starts)
        unit = np.sqrt(squares / lengths[:, None])
    scale = np.divide(1.0, unit, out=np.zeros(unit.shape), where=(spread > 0.0) & (unit > 0.0))
    out: NDArray[np.float64] = values - np.repeat(centre, lengths, 0)
    out *= np.repeat(scale, lengths, 0)
    return out
