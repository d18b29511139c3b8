"""The shape of objectives: how rough a curve is, and whether a point is a top.

The last by random directions, for functions without a gradient. If at least a share p of all directions
ascended from the point at some step, then n directions drawn uniformly would all miss them with probability
at most :math:`(1 - p)^n`. With 459 directions that is less than 1% for p = 1%: where none of 459 ascends,
fewer than 1% of all directions do, with 99% confidence (the one-sided Monte Carlo test of Yue and Burges
2007). Where some ascend, the exact upper bound of Clopper and Pearson (1934) takes the place of the claim.

A function of ranks is a step function: close by, about half of all directions ascend by a jump or
two from any point whatever. So steps are taken on a range, and `line_noise` tells how much the jumps
along a step amount to, that ascents beyond them can be counted apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError

Vector = NDArray[np.float64]


class Roughness(NamedTuple):
    """How far a curve is from a single hill.

    Attributes
    ----------
    total_variation : float
        The sum of the absolute differences of neighbouring values.
    range : float
        The largest value less the smallest.
    ratio : float
        Total variation over range: 1 for a monotone curve, at most 2 for a single hill; 0 for a
        constant one.
    excess : float
        Total variation over that of the smoothest curve with the same ends and the same maximum,
        less 1: 0 where the curve is a single hill (or monotone), 0.1 where it goes up and down a
        tenth more than a hill has to; infinite where it dips between two equal ends that are its maximum.
        Of all such curves one that rises to the maximum and falls from it varies least: by twice the
        maximum less both ends.
    maxima : int
        Local maxima: runs of equal values with nothing higher beside them. Ends count where they are
        higher than what is beside them; a constant curve has one.
    """

    total_variation: float
    range: float
    ratio: float
    excess: float
    maxima: int


def roughness(values: ArrayLike) -> Roughness:
    """Measure a curve's roughness.

    Parameters
    ----------
    values : array_like of float, shape (points,)
        The curve in the order of its argument; finite, one point or more.

    Returns
    -------
    Roughness

    Examples
    --------
    >>> roughness([0.0, 1.0, 2.0]).ratio, roughness([0.0, 2.0, 1.0, 2.0]).ratio
    (1.0, 2.0)
    >>> roughness([0.0, 2.0, 1.0]).excess, roughness([0.0, 2.0, 1.0, 2.0]).excess
    (0.0, 1.0)
    >>> roughness([0, 1, 1, 0, 2]).maxima, roughness([0, 1, 1, 2]).maxima
    (2, 1)
    """
    curve = np.asarray(values, np.float64)
    variation, span = float(np.abs(np.diff(curve)).sum()), float(np.ptp(curve))
    hill = 2.0 * float(curve.max()) - float(curve[0]) - float(curve[-1])
    # Rounding may leave a single hill a little below itself.
    excess = max(0.0, variation / hill - 1.0) if hill > 0.0 else np.inf if variation > 0.0 else 0.0
    moves = np.sign(np.diff(curve))
    turns = np.concatenate(([1.0], moves[moves != 0.0], [-1.0]))
    maxima = int((np.diff(turns) < 0.0).sum())
    return Roughness(variation, span, variation / span if span > 0.0 else 0.0, excess, maxima)


def jump_noise(values: ArrayLike) -> float:
    r"""Estimate what the jumps between neighbouring values of a curve amount to.

    The standard deviation of an increment without the curve's smooth part: independent increments
    of variance v have third differences of variance 6 v, to which a smooth part adds next to
    nothing on a fine grid. Over n increments jumps amount to :math:`\sqrt n` times as much.

    Parameters
    ----------
    values : array_like of float, shape (points,)
        The curve at even distances; 4 points or more.

    Examples
    --------
    >>> jump_noise([0.0, 1.0, 4.0, 9.0, 16.0])
    0.0
    """
    return float(np.sqrt((np.diff(np.asarray(values, np.float64), 3) ** 2).mean() / 6.0))


class Objective(Protocol):
    """What is ascended: higher is better; NaN outside its domain."""

    def __call__(self, point: Vector) -> float:
        """Return a point's value."""

    def along(self, point: Vector, direction: Vector, steps: Vector) -> Vector:
        """Return the values at ``point + step * direction`` for each step."""


CLEARLY = 3.0
"""An ascent by more than so many times the noise is a clear one."""

# What rounding may do to a sum.
_TOLERANCE = 1e-12
_OTHER_SEEDS = 1_000_003


@dataclass(frozen=True)
class StepCounts:
    """Counts of directions at one step size.

    Attributes
    ----------
    step : float
        How far each direction was followed, as a multiple of the scale.
    ascents, descents, unchanged : int
        Directions whose value at the step is higher than, lower than, or equal to the point's.
    outside : int
        Directions that leave the domain at this step; they count nowhere else.
    clear_ascents : int
        Those of the ascents by more than three times the noise: more than jumps would come to by
        chance.
    noise : float
        What the jumps along this step amount to, as given.
    largest : float
        The largest change; negative if every direction descends; NaN if all are outside.
    mean : float
        The mean change; NaN if all are outside.
    bound, clear_bound : float
        With the test's confidence, the shares of all directions that ascend, and that ascend
        clearly, are at most these (exact, one-sided).
    """

    step: float
    ascents: int
    descents: int
    unchanged: int
    outside: int
    clear_ascents: int
    noise: float
    largest: float
    mean: float
    bound: float
    clear_bound: float


@dataclass(frozen=True, eq=False)
class AscentTest:
    """Result of `count_ascents`.

    Attributes
    ----------
    value : float
        The objective at the point.
    directions : int
        How many were drawn.
    steps : tuple of StepCounts
        By step, as given.
    """

    value: float
    directions: int
    steps: tuple[StepCounts, ...]


def directions_needed(confidence: float = 0.99, share: float = 0.01) -> int:
    """Return how many directions must all fail to ascend to bound the share that does.

    Parameters
    ----------
    confidence : float
        In (0, 1).
    share : float
        The bound, in (0, 1).

    Returns
    -------
    int
        The least n with (1 - share)^n at most 1 - confidence.

    Examples
    --------
    >>> directions_needed(0.99, 0.01)
    459
    """
    exact = math.log1p(-confidence) / math.log1p(-share)
    return max(1, math.ceil(exact * (1.0 - 1e-14)))  # else 2 may come out as 2.0000000000000004


def share_at_most(hits: int, trials: int, *, confidence: float = 0.99) -> float:
    """Bound a share from above, exactly and on one side (Clopper and Pearson 1934).

    Parameters
    ----------
    hits, trials : int
        How many of how many independent trials hit.
    confidence : float
        In (0, 1).

    Returns
    -------
    float
        The largest share with which so few hits, or fewer, have a probability of at least
        1 - confidence; 1 without trials.

    Examples
    --------
    >>> round(share_at_most(0, 459), 6), round(share_at_most(3, 459), 4)
    (0.009983, 0.0217)
    """
    from scipy.stats import beta

    if hits == trials:
        return 1.0
    return float(beta.ppf(confidence, hits + 1, trials - hits))


def random_directions(count: int, scale: ArrayLike, *, seed: int) -> NDArray[np.float64]:
    """Draw directions uniformly on the unit sphere, then stretch each coordinate.

    Parameters
    ----------
    count : int
        1 or more.
    scale : array_like of float, shape (d,)
        What a step of 1 is worth in each coordinate; not negative, some positive.
    seed : int
        0 or more. The first directions do not depend on the count.

    Returns
    -------
    numpy.ndarray of float64, shape (count, d)
    """
    units = np.asarray(scale, np.float64)
    drawn = np.random.default_rng([seed, 459]).standard_normal((count, units.size))
    drawn *= units / np.sqrt((drawn**2).sum(axis=1, keepdims=True))
    return drawn


def count_ascents(
    objective: Objective,
    point: ArrayLike,
    scale: ArrayLike,
    steps: Sequence[float],
    directions: int,
    seed: int = 0,
    *,
    confidence: float = 0.99,
    noise: Sequence[float] | None = None,
) -> AscentTest:
    """Count the random directions in which an objective ascends from a point.

    Parameters
    ----------
    objective : Objective
        Higher is better: negate a cost.
    point : array_like of float, shape (d,)
        Where to start; inside the domain.
    scale : array_like of float, shape (d,)
        What a step of 1 is worth in each coordinate, so that directions are uniform on the sphere
        of the scaled coordinates.
    steps : sequence of float
        Step sizes, positive.
    directions : int
        How many to draw, such as `directions_needed`.
    seed : int
        Of the directions.
    confidence : float
        Of the bounds, in (0, 1).
    noise : sequence of float, optional
        What the objective's jumps along each step amount to; by default as `line_noise` measures it.

    Returns
    -------
    AscentTest

    Raises
    ------
    InputError
        For a point outside the domain.
    """
    at, sizes = np.asarray(point, np.float64), np.asarray(steps, np.float64)
    value = float(objective(at))
    if math.isnan(value):
        raise InputError("the point is outside the objective's domain", accepted="a point inside")
    if noise is None:
        noise = line_noise(objective, point, scale, steps, seed=seed).tolist()
    drawn = random_directions(directions, scale, seed=seed)
    changes = np.array([objective.along(at, direction, sizes) - value for direction in drawn])
    counts = [
        _count(changes[:, s], float(size), height, confidence)
        for s, (size, height) in enumerate(zip(sizes, noise, strict=True))
    ]
    return AscentTest(value, directions, tuple(counts))


def line_noise(
    objective: Objective,
    point: ArrayLike,
    scale: ArrayLike,
    steps: Sequence[float],
    *,
    lines: int = 4,
    points: int = 33,
    seed: int = 0,
) -> NDArray[np.float64]:
    r"""Measure what an objective's jumps along a step amount to, at each step size.

    The noise is the standard deviation that the change over a step would have if each jump on the
    way were as likely up as down: the root of the sum of squared jumps. On random lines through
    the point, from one step behind to one step ahead, the objective is taken at even distances,
    n to a step; with :math:`\Delta^3` its third differences, to which a smooth part adds next to
    nothing and independent increments of variance v add 6 v, the sum of squares is
    :math:`n \, \overline{(\Delta^3)^2} / 6`, the mean taken over all lines.

    Parameters
    ----------
    objective, point, scale, steps
        As for `count_ascents`; differences with a value outside the domain are left out.
    lines : int
        How many, 1 or more. They are not the directions that `count_ascents` draws by this seed.
    points : int
        Values a line, 5 or more.
    seed : int
        Of the lines.

    Returns
    -------
    numpy.ndarray of float64, shape (steps,)
        0 where no four neighbouring values are inside the domain.
    """
    at, sizes = np.asarray(point, np.float64), np.asarray(steps, np.float64)
    grid = np.linspace(-1.0, 1.0, points)
    squares, counts = np.zeros(sizes.size), np.zeros(sizes.size)
    for direction in random_directions(lines, scale, seed=seed + _OTHER_SEEDS):
        for s, size in enumerate(sizes):
            thirds = np.diff(objective.along(at, direction, grid * size), 3)
            thirds = thirds[~np.isnan(thirds)]
            squares[s] += (thirds**2).sum()
            counts[s] += thirds.size
    each = (points - 1) / 2
    noise: NDArray[np.float64] = np.sqrt(each * squares / (6.0 * np.maximum(counts, 1.0)))
    return noise


def _count(changes: Vector, step: float, noise: float, confidence: float) -> StepCounts:
    inside = changes[~np.isnan(changes)]
    ascents, descents = int((inside > _TOLERANCE).sum()), int((inside < -_TOLERANCE).sum())
    clear = int((inside > max(_TOLERANCE, CLEARLY * noise)).sum())
    trials = inside.size
    return StepCounts(
        step=step,
        ascents=ascents,
        descents=descents,
        unchanged=trials - ascents - descents,
        outside=changes.size - trials,
        clear_ascents=clear,
        noise=noise,
        largest=float(inside.max()) if trials else math.nan,
        mean=float(inside.sum() / trials) if trials else math.nan,
        bound=share_at_most(ascents, trials, confidence=confidence),
        clear_bound=share_at_most(clear, trials, confidence=confidence),
    )
