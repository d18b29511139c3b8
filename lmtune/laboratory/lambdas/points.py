"""Where lambda-functions are examined: labels and scores, drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.laboratory.lambdas.differences import gaps

Array = NDArray[np.float64]

GRADES = 5
_KINDS = ("generic", "small", "large", "close")
_SPREAD = {"generic": 1.0, "small": 0.1, "large": 5.0, "close": 1.0}


@dataclass(frozen=True)
class Points:
    """One label vector with the score vectors to examine it at.

    Attributes
    ----------
    labels : numpy.ndarray, shape (documents,)
        Grades.
    scores : tuple of numpy.ndarray, shape (documents,)
        No two scores of a vector are equal. By turns standard normal, of a tenth of that scale, of
        five times that, and with two documents within 0.0001 to 0.01.
    """

    labels: Array
    scores: tuple[Array, ...]


def draw_points(
    labels: Sequence[ArrayLike] | None, documents: Sequence[int], label_vectors: int, points: int, seed: int
) -> list[Points]:
    """Draw labels, unless they are given, and scores.

    Parameters
    ----------
    labels : sequence of array_like, or None
        Label vectors. Drawn where None: one relevant document, then different grades 0 to 4, then
        half relevant, then any grades that are not all the same.
    documents : sequence of int
        Lengths of the drawn label vectors, 2 or more.
    label_vectors : int
        How many of each length.
    points : int
        Score vectors for each, 3 or more.
    seed : int
        The same one, the same points.

    Raises
    ------
    InputError
        For fewer than two documents, no points, or labels that are no finite grades of 0 or more.
    """
    asked = [("points", 3, points), ("label vectors", 1, label_vectors)]
    for name, low, value in (*asked, *(("documents", 2, size) for size in documents)):
        if value < low:
            raise InputError(f"bad number of {name}", value=value, accepted=f"{low} or more")
    rng = np.random.default_rng(seed)
    if labels is None:
        given = [_labels(rng, size, n) for size in documents for n in range(label_vectors)]
    else:
        given = [_checked_labels(one) for one in labels]
    return [
        Points(own, tuple(_scores(rng, own.size, _KINDS[p % len(_KINDS)]) for p in range(points)))
        for own in given
    ]


def tie_of(rng: np.random.Generator, scores: Array, count: int) -> tuple[Array, list[int], float]:
    """Make a few documents of a score vector tie.

    Returns
    -------
    numpy.ndarray
        The scores, where `count` of them are equal.
    list of int
        Which ones.
    float
        How far the nearest other score is, and at most 1.
    """
    chosen = [int(one) for one in rng.permutation(scores.size)[:count]]
    others = np.delete(scores, chosen)
    for _ in range(1000):
        place = float(scores[chosen].mean() + rng.normal() * max(float(scores.std()), 1e-3))
        clear = min(1.0, float(np.abs(others - place).min())) if others.size else 1.0
        if clear > 1e-3:
            break
    tied = scores.copy()
    tied[chosen] = place
    return tied, chosen, clear


def _labels(rng: np.random.Generator, size: int, number: int) -> Array:
    # First one relevant document, then grades that all differ, then two kinds half and half.
    if number == 0:
        own = np.zeros(size)
        own[0] = 1.0
    elif number == 1:
        own = (np.arange(size) % GRADES).astype(np.float64)
    elif number == 2:
        own = (np.arange(size) < (size + 1) // 2).astype(np.float64)
    else:
        while True:
            own = rng.integers(0, GRADES, size).astype(np.float64)
            if np.unique(own).size > 1:
                return own
    return rng.permutation(own)


def _scores(rng: np.random.Generator, size: int, kind: str) -> Array:
    while True:
        drawn = _SPREAD[kind] * rng.normal(size=size)
        if kind == "close":
            i, j = rng.permutation(size)[:2]
            drawn[j] = drawn[i] + rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-4, -2)
        if float(gaps(drawn).min()) > 1e-5:
            return drawn


def _checked_labels(labels: ArrayLike) -> Array:
    values = np.asarray(labels, np.float64)
    if values.ndim != 1 or values.size < 2 or not (np.isfinite(values) & (values >= 0)).all():
        raise InputError("bad labels", value=labels, accepted="two finite grades or more, each 0 or more")
    return values
