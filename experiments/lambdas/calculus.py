"""Numerical derivatives, jumps and integrals of lambda-functions, and the points to evaluate them at."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.losses.lambda_functions import CheckedFunction

Array = NDArray[np.float64]

_LEVELS = 4
_FIRST_STEP, _JUMP_STEP = 0.1, 1e-6
_SHRINK = 8.0
_TRIES = 4
_ORDER = 5


@dataclass(frozen=True)
class Estimate:
    """Numbers with error estimates.

    Attributes
    ----------
    value : numpy.ndarray
        The numbers.
    doubt, blurred : numpy.ndarray, of the same shape
        Error estimates of the method and of rounding; 0 or more.
    """

    value: Array
    doubt: Array
    blurred: Array

    @property
    def error(self) -> Array:
        """Sum of both errors."""
        return self.doubt + self.blurred


def gaps(scores: Array) -> Array:
    """Return each document's distance to the nearest other score, shape (documents,)."""
    distance = np.abs(scores[:, None] - scores[None, :])
    np.fill_diagonal(distance, np.inf)
    nearest: Array = distance.min(axis=1)
    return nearest


def noise(function: CheckedFunction, scores: Array, labels: Array, precision: float) -> Array:
    """Estimate the rounding error of each lambda.

    Uses fifth differences of nine nearby values, which vanish for a smooth function (Moré and Wild,
    Estimating Computational Noise, 2011). The estimate is at least the effect of one unit in the last place
    of the largest lambda and of the largest score.

    Parameters
    ----------
    function : CheckedFunction
        The lambda-function.
    scores, labels : numpy.ndarray, shape (documents,)
        The point; no two scores are equal.
    precision : float
        Spacing of the function's numbers, from `CheckedFunction.precision`.

    Returns
    -------
    numpy.ndarray of float64, shape (documents,)
    """
    reach = min(1.0, float(gaps(scores).min()))
    # different steps for each document, so that differences of scores change too
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
    r"""Estimate :math:`J_{ij} = \partial \lambda_i / \partial s_j` within the current ranking.

    Uses central differences with steps h, h/2, h/4, h/8, extrapolated to 0 (Richardson). h is less than half
    the distance to the nearest tie. The error is the distance to the two estimates of the next lower order,
    plus the rounding error. If it is large, for example near a kink, smaller steps are tried, and the best
    result is used. Central differences do not show a kink at the point itself: if the left and right slopes
    differ significantly, half their difference is added to the error.

    Parameters
    ----------
    function, scores, labels
        As for `noise`.
        blur : numpy.ndarray, shape (documents,)
            Result of `noise`.

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
    """Estimate the change of the lambdas when s_i - s_j goes from just below 0 to just above.

    Uses differences across the tie at shrinking distances, extrapolated to distance 0. There is no division
    by the distances, so they can be tiny, and nearby kinks are not counted as part of the jump.

    Parameters
    ----------
    function, labels, blur
        As for `jacobian`.
    precision : float
        As for `noise`.
    scores : numpy.ndarray, shape (documents,)
        Scores with s_i = s_j and no other tie.
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

    # the two sides must differ in single precision too
    first = min(0.1 * clear, max(_JUMP_STEP, 1000.0 * precision * float(np.abs(scores).max())))
    orders = [2.0**order for order in range(1, _LEVELS)]
    return _refined(across, first, orders, lambda _: 2.0 * blur)[0]


def _refined(
    sample: Callable[[float], Array],
    first: float,
    factors: Sequence[float],
    rounding: Callable[[float], Array],
) -> tuple[Estimate, float]:
    """Extrapolate to step 0, with smaller first steps as long as the error falls."""
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

    Halving the step divides the first error term by the first factor, the next term by the next factor.
    `rounding` bounds the rounding error of a sample.
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
    """A label vector, and the score vectors to examine it at.

    Attributes
    ----------
    labels : numpy.ndarray, shape (documents,)
        Grades.
    scores : tuple of numpy.ndarray, shape (documents,)
        No two scores of a vector are equal. In turn: standard normal, a tenth of that scale, five times that
        scale, and two documents at a distance of 0.0001 to 0.01.
    """

    labels: Array
    scores: tuple[Array, ...]


def draw_points(
    labels: Sequence[ArrayLike] | None, documents: Sequence[int], label_vectors: int, points: int, seed: int
) -> list[Points]:
    """Draw scores, and labels if there are none.

    Parameters
    ----------
    labels : sequence of array_like, or None
        Label vectors. If None, they are drawn: one relevant document, then different grades 0 to 4, then half
        relevant, then any grades that are not all equal.
    documents : sequence of int
        Lengths of the drawn label vectors, 2 or more.
    label_vectors : int
        Number of label vectors of each length.
    points : int
        Score vectors for each label vector, 3 or more.
    seed : int
        Seed; equal seeds give equal points.

    Raises
    ------
    InputError
        If there are fewer than two documents, no points, or labels that are not finite grades of 0 or more.
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
    """Set a few scores of a vector equal.

    Returns
    -------
    numpy.ndarray
        The scores; `count` of them are equal.
    list of int
        Indices of the equal scores.
    float
        Distance to the nearest other score, at most 1.
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
    # first one relevant document, then all grades different, then two grades, half each
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


_NODES = 15
_PIECES = 200
_INSET = 1e-9
_PATIENCE, _JUMP = 2, 1e-3
_BISECTIONS = 46


class _Rule(NamedTuple):
    """On [0, 1]: nodes, weights of three rules, and weights that extrapolate to both ends."""

    nodes: Array
    fine: Array
    coarse: Array
    ends: Array


class _Piece(NamedTuple):
    """A heap entry: minus the error, a number that breaks ties, the piece."""

    order: float
    number: int
    left: float
    right: float
    value: float
    error: float
    depth: int


def integrate(
    function: Callable[[float], float], breaks: Sequence[float], allowed: Callable[[], float]
) -> tuple[float, float]:
    """Integrate a piecewise smooth function of one variable, with jumps at unknown points.

    Gauss-Legendre rules of 15 nodes are compared with the polynomials through the even and through the odd
    nodes. The piece with the largest difference is halved until the sum of differences is small enough.
    Values just inside the ends of a piece are compared with the extrapolation from its nodes, to detect jumps
    there. Pieces that were halved twice are split at a jump or kink, found by bisection. (QUADPACK's
    extrapolated error estimates are far too small at unknown jumps.)

    Parameters
    ----------
    function : callable
        It is never called at a break.
    breaks : sequence of float
        The ends of the interval, and known jumps between them; increasing.
    allowed : callable
        Returns the target error. It is called repeatedly, and the target may grow.

    Returns
    -------
    value, error : float
        The integral, and an estimate of its error.
    """
    numbers = iter(range(10**9))

    def piece(left: float, right: float, depth: int) -> _Piece:
        value, error = _on_piece(function, left, right)
        return _Piece(-error, next(numbers), left, right, value, error, depth)

    heap = [piece(left, right, 0) for left, right in pairwise(breaks) if right > left]
    heapq.heapify(heap)
    total = sum(one.error for one in heap)
    while total > allowed() and len(heap) < _PIECES:
        worst = heapq.heappop(heap)
        left, right, depth = worst.left, worst.right, worst.depth + 1
        cut = 0.5 * (left + right)
        if depth > _PATIENCE:
            cut, depth = _close_in(function, left, right), 0
        halves = [piece(left, cut, depth), piece(cut, right, depth)]
        for half in halves:
            heapq.heappush(heap, half)
        total = sum(one.error for one in heap)
    # from left to right, so that the sum does not depend on the order of the heap
    heap.sort(key=lambda one: one.left)
    return float(sum(one.value for one in heap)), float(sum(one.error for one in heap))


def _on_piece(function: Callable[[float], float], left: float, right: float) -> tuple[float, float]:
    rule, width = _rule(), right - left
    values = np.array([function(left + width * node) for node in rule.nodes])
    ends = np.array([function(left + width * _INSET), function(right - width * _INSET)])
    fine = float(rule.fine @ values) * width
    error = float(np.abs(fine - rule.coarse @ values * width).max())
    hidden = float(np.abs(rule.ends @ values - ends).max()) * float(rule.nodes[0]) * width
    return fine, error + hidden


def _close_in(function: Callable[[float], float], left: float, right: float) -> float:
    """Bisect towards a jump; without a jump, towards a kink."""
    inset = _INSET * (right - left)
    ends = left + inset, right - inset
    low, high = ends
    before, after = function(low), function(high)
    whole = abs(after - before)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        between = function(middle)
        if abs(between - before) > abs(after - between):
            high, after = middle, between
        else:
            low, before = middle, between
    if abs(after - before) > _JUMP * whole:
        return 0.5 * (low + high)
    low, high = ends
    values = [function(low), function(0.5 * (low + high)), function(high)]
    for _ in range(_BISECTIONS // 2):
        quarter = 0.25 * (high - low)
        first, second = function(low + quarter), function(high - quarter)
        before, between, after = values
        # a kink shows in the second differences around one quarter or around the middle
        at_quarter = abs(before - 2.0 * first + between), abs(between - 2.0 * second + after)
        if abs(first - 2.0 * between + second) > max(at_quarter):
            low, high, values = low + quarter, high - quarter, [first, between, second]
        elif at_quarter[0] > at_quarter[1]:
            high, values = low + 2.0 * quarter, [before, first, between]
        else:
            low, values = low + 2.0 * quarter, [between, second, after]
    return 0.5 * (low + high)


@lru_cache(maxsize=1)
def _rule() -> _Rule:
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    nodes, fine = (points + 1.0) / 2.0, weights / 2.0
    coarse = np.zeros((2, _NODES))
    for first in (0, 1):
        through = np.polynomial.legendre.legvander(points[first::2], points[first::2].size - 1)
        # only the first Legendre polynomial has a non-zero integral
        coarse[first, first::2] = np.linalg.solve(through.T, np.eye(len(through))[0])
    all_ = np.polynomial.legendre.legvander(points, _NODES - 1)
    at_ends = np.polynomial.legendre.legvander(np.array([-1.0, 1.0]), _NODES - 1)
    ends: Array = np.asarray(np.linalg.solve(all_.T, at_ends.T).T, np.float64)
    return _Rule(nodes, fine, coarse, ends)


WANTED = 1e-9
"""Target error of integrals, relative to their largest possible value."""


@dataclass(frozen=True)
class Work:
    """The work of lambdas along a path.

    Attributes
    ----------
    value : float
        The integral of lambda . ds.
    error : float
        An estimate of its error.
        scale : float
            The largest lambda on the path times its length, an approximate upper bound of the work.
    """

    value: float
    error: float
    scale: float

    def __add__(self, other: Work) -> Work:
        return Work(self.value + other.value, self.error + other.error, self.scale + other.scale)

    def __sub__(self, other: Work) -> Work:
        return Work(self.value - other.value, self.error + other.error, self.scale + other.scale)


def ties_between(start: Array, end: Array) -> Array:
    """Return the positions between start (0) and end (1) at which two scores cross, increasing."""
    upper = np.triu_indices(start.size, 1)
    before = (start[:, None] - start[None, :])[upper]
    after = (end[:, None] - end[None, :])[upper]
    crossing = before * after < 0.0
    at: Array = np.unique(before[crossing] / (before[crossing] - after[crossing]))
    return at[(at > 0.0) & (at < 1.0)]


def work(function: CheckedFunction, labels: Array, start: Array, end: Array, wanted: float = WANTED) -> Work:
    """Integrate lambda . ds along a straight line, piece by piece between ties.

    Uses `experiments.lambdas.calculus.integrate`, which also handles jumps and kinks elsewhere.

    Parameters
    ----------
    function : CheckedFunction
        The lambda-function.
    labels : numpy.ndarray, shape (documents,)
        Labels.
    start, end : numpy.ndarray, shape (documents,)
        Ends of the line.
        wanted : float
            Target error, relative to the largest lambda times the length; larger than the rounding error of
            the lambdas.
    """
    way = end - start
    length = float(np.sqrt(way @ way))
    if length == 0.0:
        return Work(0.0, 0.0, 0.0)
    largest = 0.0

    def along(t: float) -> float:
        nonlocal largest
        lambdas = function(start + t * way, labels)
        largest = max(largest, float(np.sqrt(lambdas @ lambdas)))
        return float(lambdas @ way)

    value, error = integrate(along, [0.0, *ties_between(start, end), 1.0], lambda: wanted * largest * length)
    rounding = 10.0 * np.finfo(np.float64).eps * largest * length
    return Work(value, error + rounding, largest * length)


def circulation(
    function: CheckedFunction, labels: Array, corners: Sequence[Array], wanted: float = WANTED
) -> Work:
    """Integrate lambda . ds around a closed polygon; 0 if the lambdas have a cost.

    Parameters
    ----------
    function, labels, wanted
        As for `work`.
    corners : sequence of numpy.ndarray, shape (documents,)
        In order; the last corner is connected to the first.
    """
    total = Work(0.0, 0.0, 0.0)
    for start, end in zip(corners, [*corners[1:], corners[0]], strict=True):
        total = total + work(function, labels, start, end, wanted)
    return total


def loop_across(scores: Array, i: int, j: int, side: Array, radius: float) -> list[Array]:
    """Return a square that crosses the tie s_i = s_j twice.

    Parameters
    ----------
    scores : numpy.ndarray, shape (documents,)
        The centre, with s_i = s_j.
    i, j : int
        The tied documents.
    side : numpy.ndarray, shape (documents,)
        A unit vector orthogonal to e_i - e_j: the direction along the tie.
    radius : float
        Half the square's side.
    """
    across = np.zeros(scores.size)
    across[i], across[j] = np.sqrt(0.5), -np.sqrt(0.5)
    return [scores + radius * (a * across + b * side) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]


def loop_around(scores: Array, trio: Sequence[int], radii: Sequence[float], turn: float) -> list[Array]:
    """Return a hexagon around s_i = s_j = s_k that passes through all six orders of the three.

    Parameters
    ----------
    scores : numpy.ndarray, shape (documents,)
        The centre, with three equal scores.
    trio : sequence of int
        The three documents.
    radii : sequence of float
        Distances of the six corners from the centre. In a regular hexagon errors could cancel.
    turn : float
        Angle of the first corner, in radians.
    """
    first, second = trio_plane(scores.size, trio)
    angles = turn + np.arange(6) * np.pi / 3.0
    return [
        scores + radius * (np.cos(angle) * first + np.sin(angle) * second)
        for radius, angle in zip(radii, angles, strict=True)
    ]


def trio_plane(size: int, trio: Sequence[int]) -> tuple[Array, Array]:
    """Return two unit vectors that span the plane of three scores with a fixed sum."""
    i, j, k = trio
    first, second = np.zeros((2, size))
    first[i], first[j] = np.sqrt(0.5), -np.sqrt(0.5)
    second[[i, j, k]] = np.array([1.0, 1.0, -2.0]) / np.sqrt(6.0)
    return first, second
