"""Derivatives and jumps of lambda-functions by differences, and the points where they are taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import factorial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.reranking.losses.lambda_functions import CheckedFunction

Array = NDArray[np.float64]

_LEVELS = 4
_FIRST_STEP, _JUMP_STEP = 0.1, 1e-6
_SHRINK = 8.0
_TRIES = 4
_ORDER = 5


@dataclass(frozen=True)
class Estimate:
    """Numbers with an estimate of how wrong each may be.

    Attributes
    ----------
    value : numpy.ndarray
        The numbers.
    doubt, blurred : numpy.ndarray, of the same shape
        What the method leaves open, and what rounding does; 0 or more.
    """

    value: Array
    doubt: Array
    blurred: Array

    @property
    def error(self) -> Array:
        """Both together."""
        return self.doubt + self.blurred


def gaps(scores: Array) -> Array:
    """Return each document's distance to the nearest other score, shape (documents,)."""
    distance = np.abs(scores[:, None] - scores[None, :])
    np.fill_diagonal(distance, np.inf)
    nearest: Array = distance.min(axis=1)
    return nearest


def noise(function: CheckedFunction, scores: Array, labels: Array, precision: float) -> Array:
    """Estimate how much rounding blurs each lambda.

    From fifth differences of nine values close by, which leave nothing of a smooth function
    (Moré and Wild, Estimating Computational Noise, 2011); at least what one unit in the last place
    of the largest lambda and of the largest score come to.

    Parameters
    ----------
    function : CheckedFunction
        The lambda-function.
    scores, labels : numpy.ndarray, shape (documents,)
        The place; no two scores equal.
    precision : float
        Of the function's numbers, as `CheckedFunction.precision` tells.

    Returns
    -------
    numpy.ndarray of float64, shape (documents,)
    """
    reach = min(1.0, float(gaps(scores).min()))
    # Directions that differ, so that differences of scores move too.
    direction = np.cos(1.0 + np.arange(scores.size))

    def at(step: float) -> Array:
        return function(scores + step * reach * direction, labels)

    table = np.array([at(1e-5 * k) for k in range(-_ORDER + 1, _ORDER)])
    share = factorial(_ORDER) ** 2 / factorial(2 * _ORDER)
    spread = np.sqrt(share * np.mean(np.diff(table, _ORDER, axis=0) ** 2, axis=0))
    slope = float(np.abs(at(0.1) - at(-0.1)).max()) / (0.2 * reach)
    floor = precision * (np.abs(table).max() + slope * np.abs(scores).max())
    blurred: Array = np.maximum(spread, floor)
    return blurred


def jacobian(function: CheckedFunction, scores: Array, labels: Array, blur: Array) -> Estimate:
    r"""Estimate :math:`J_{ij} = \partial \lambda_i / \partial s_j` within the present ranking.

    Central differences with steps h, h/2, h/4, h/8, extrapolated to 0 (Richardson); h is less than
    half the way to the nearest tie. The error is the distance to the two estimates of the order
    below, plus what rounding can do. Where it is large, as with a kink within reach, smaller steps
    are tried, and the best are kept. A kink at the very place does not show in central differences:
    where the slopes to the left and right differ beyond doubt, half the difference is added.

    Parameters
    ----------
    function, scores, labels
        As for `noise`.
    blur : numpy.ndarray, shape (documents,)
        What `noise` returned.

    Returns
    -------
    Estimate
        Of shape (documents, documents).
    """
    reach = np.minimum(0.4 * gaps(scores), _FIRST_STEP)
    here = function(scores, labels)
    value, doubt, blurred = np.empty((3, scores.size, scores.size))
    for j in range(scores.size):
        bends: dict[float, Array] = {}

        def difference(step: float, j: int = j, bends: dict[float, Array] = bends) -> Array:
            moved = scores.copy()
            moved[j] = scores[j] + step
            after, above = function(moved, labels), moved[j]
            moved[j] = scores[j] - step
            before = function(moved, labels)
            bends[step] = (after - here - (here - before)) / step
            slope: Array = (after - before) / (above - moved[j])
            return slope

        orders = [2.0 ** (2 * order) for order in range(1, _LEVELS)]
        best, first = _refined(difference, float(reach[j]), orders, lambda step: blur / step)
        odd = [2.0 ** (2 * order - 1) for order in range(1, _LEVELS)]
        bend = _extrapolated(bends.__getitem__, first, odd, lambda step: 4.0 * blur / step)
        kink = np.where(np.abs(bend.value) > 10.0 * bend.error, np.abs(bend.value) / 2.0, 0.0)
        value[:, j], doubt[:, j], blurred[:, j] = best.value, best.doubt + kink, best.blurred
    return Estimate(value, doubt, blurred)


def jump(
    function: CheckedFunction,
    scores: Array,
    labels: Array,
    pair: tuple[int, int],
    blur: Array,
    precision: float,
) -> Estimate:
    """Estimate by how much the lambdas change as s_i - s_j goes from just below 0 to just above.

    From differences across the tie at shrinking distances, extrapolated to distance 0. As nothing
    is divided by them the distances can be tiny from the beginning, so that no kink nearby is taken
    for a part of the jump.

    Parameters
    ----------
    function, labels, blur
        As for `jacobian`.
    precision : float
        As for `noise`.
    scores : numpy.ndarray, shape (documents,)
        With s_i = s_j and no other tie.
    pair : tuple of int
        The tied documents i and j.

    Returns
    -------
    Estimate
        Of shape (documents,).
    """
    i, j = pair
    others = np.delete(scores, [i, j])
    clear = float(np.abs(others - scores[i]).min()) if others.size else np.inf

    def across(step: float) -> Array:
        above, below = scores.copy(), scores.copy()
        above[i], above[j] = scores[i] + step, scores[j] - step
        below[i], below[j] = scores[i] - step, scores[j] + step
        return function(above, labels) - function(below, labels)

    # Scores in single precision must still tell the two sides apart.
    first = min(0.1 * clear, max(_JUMP_STEP, 1000.0 * precision * float(np.abs(scores).max())))
    orders = [2.0**order for order in range(1, _LEVELS)]
    return _refined(across, first, orders, lambda _: 2.0 * blur)[0]


def _refined(
    sample: Callable[[float], Array],
    first: float,
    factors: Sequence[float],
    rounding: Callable[[float], Array],
) -> tuple[Estimate, float]:
    """Extrapolate to step 0, with smaller first steps as long as they bring something."""
    best: tuple[Estimate, float] | None = None
    for attempt in range(_TRIES):
        step = first / _SHRINK**attempt
        estimate = _extrapolated(sample, step, factors, rounding)
        if best is None or estimate.error.max() < best[0].error.max():
            best = estimate, step
        if (estimate.doubt <= np.maximum(estimate.blurred, 1e-9 * np.abs(estimate.value).max())).all():
            break
    assert best is not None
    return best


def _extrapolated(
    sample: Callable[[float], Array],
    first: float,
    factors: Sequence[float],
    rounding: Callable[[float], Array],
) -> Estimate:
    """Extrapolate to step 0 from the first step, half of it, and so on.

    Halving the step divides the error's first term by the first factor, the next by the next;
    `rounding` bounds what rounding does to a sample.
    """
    steps = [first / 2.0**level for level in range(len(factors) + 1)]
    column = [sample(step) for step in steps]
    blown = 1.0
    for factor in factors:
        blown *= (factor + 1.0) / (factor - 1.0)
        lower = column
        column = [(factor * fine - coarse) / (factor - 1.0) for coarse, fine in pairwise(lower)]
    value = column[-1]
    doubt = np.maximum(np.abs(value - lower[-1]), np.abs(value - lower[-2]))
    return Estimate(value, doubt, blown * rounding(steps[-1]))


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
        vectors = [_labels(rng, size, n) for size in documents for n in range(label_vectors)]
    else:
        vectors = [_checked_labels(one) for one in labels]
    return [
        Points(vector, tuple(_scores(rng, vector.size, _KINDS[p % len(_KINDS)]) for p in range(points)))
        for vector in vectors
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
        score = float(scores[chosen].mean() + rng.normal() * max(float(scores.std()), 1e-3))
        clear = min(1.0, float(np.abs(others - score).min())) if others.size else 1.0
        if clear > 1e-3:
            break
    tied = scores.copy()
    tied[chosen] = score
    return tied, chosen, clear


def _labels(rng: np.random.Generator, size: int, number: int) -> Array:
    # First one relevant document, then grades that all differ, then two kinds half and half.
    if number == 0:
        grades = np.zeros(size)
        grades[0] = 1.0
    elif number == 1:
        grades = (np.arange(size) % GRADES).astype(np.float64)
    elif number == 2:
        grades = (np.arange(size) < (size + 1) // 2).astype(np.float64)
    else:
        while True:
            grades = rng.integers(0, GRADES, size).astype(np.float64)
            if np.unique(grades).size > 1:
                return grades
    return rng.permutation(grades)


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
