"""Sums of values under all, or many random, patterns of signs."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Alternative = Literal["two-sided", "greater", "less"]
"""What a small p-value speaks for: a != b, a > b or a < b."""

# Signs drawn at a time: bounds the memory to some ten megabytes.
_AT_A_TIME = 1 << 20
_WORD = 64
# Values whose sums are made at once; those of the others are added one by one.
_TOGETHER = 16


def enumerated(values: NDArray[np.float64], room: float, alternative: Alternative) -> int:
    """Count the sign patterns whose sum is at least as extreme as that of the values themselves.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (n,)
        Differences or signed ranks; 2^n patterns are tried.
    room : float
        Sums this much less extreme count as well: what rounding may make of equal ones.
    alternative : {"two-sided", "greater", "less"}
        Which sums are extreme.

    Returns
    -------
    int
        From 1 to 2^n.
    """
    many, few = _sums(values[:_TOGETHER]), _sums(values[_TOGETHER:])
    observed, rooms = values.sum(keepdims=True), np.array([room])
    return sum(
        int(_extreme((many + shift)[:, np.newaxis], observed, rooms, alternative)[0])
        for shift in few.tolist()
    )


def drawn(
    columns: NDArray[np.float64],
    rooms: NDArray[np.float64],
    alternative: Alternative,
    patterns: int,
    seed: int,
) -> NDArray[np.int64]:
    """Count as `enumerated` does, for several columns over the same random sign patterns.

    Parameters
    ----------
    columns : numpy.ndarray of float64, shape (n, columns)
        Values.
    rooms : numpy.ndarray of float64, shape (columns,)
        As for `enumerated`.
    alternative : {"two-sided", "greater", "less"}
        Which sums are extreme.
    patterns, seed : int
        How many patterns, and which: they depend on the seed and n alone.

    Returns
    -------
    numpy.ndarray of int64, shape (columns,)
        Each from 0 to `patterns`.
    """
    size = columns.shape[0]
    words = -(-size // _WORD)
    # Raw words, whose stream numpy promises to keep. A pattern takes whole words, so that the
    # patterns do not depend on how many are drawn at a time.
    generator = np.random.PCG64(seed)
    observed = columns.sum(axis=0)
    counts = np.zeros(columns.shape[1], np.int64)
    step = max(1, _AT_A_TIME // (max(words * _WORD, columns.shape[1])))
    for first in range(0, patterns, step):
        shape = (min(step, patterns - first), words)
        raw = np.asarray(generator.random_raw(shape)).astype("<u8", copy=False)
        flips = np.unpackbits(raw.view(np.uint8), axis=1, count=size)
        sums = observed - 2.0 * (flips.astype(np.float64) @ columns)
        counts += _extreme(sums, observed, rooms, alternative)
    return counts


def _extreme(
    sums: NDArray[np.float64],
    observed: NDArray[np.float64],
    rooms: NDArray[np.float64],
    alternative: Alternative,
) -> NDArray[np.int64]:
    if alternative == "two-sided":
        extreme = np.abs(sums) >= np.abs(observed) - rooms
    elif alternative == "less":
        extreme = sums <= observed + rooms
    else:
        extreme = sums >= observed - rooms
    return np.asarray(np.count_nonzero(extreme, axis=0), np.int64)


def _sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(1)
    for value in values.tolist():
        sums = np.concatenate([sums - value, sums + value])
    return sums
