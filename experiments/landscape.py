"""The shape of objectives: roughness of a curve, and a test of local optimality by random directions.

The test works for functions without a gradient. If a share p of all directions ascends from the point at
some step size, then n uniformly drawn directions all miss them with probability at most
:math:`(1 - p)^n`. For p = 1% and n = 459 this is below 1%: if none of 459 directions ascends, then with 99%
confidence fewer than 1% of all directions do (the one-sided Monte Carlo test of Yue and Burges, 2007). If
some ascend, the share is bounded by the exact upper bound of Clopper and Pearson (1934).

A function of ranks is a step function. Near any point, about half of all directions ascend by a jump or
two. Therefore several step sizes are tested, and `line_noise` measures the size of the jumps along a step, so
that clear ascents can be counted separately.
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
    """Deviation of a curve from unimodality.

    Attributes
    ----------
    total_variation : float
        Sum of the absolute differences of neighbouring values.
    range : float
        Maximum minus minimum.
    ratio : float
        Total variation divided by range: 1 for a monotone curve, at most 2 for a unimodal curve, 0 for a
        constant curve.
    excess : float
        Total variation divided by the smallest possible total variation with the same ends and maximum,
        minus 1. The smallest total variation is that of a unimodal curve: twice the maximum minus both ends.
        The excess is 0 for a unimodal or monotone curve, and infinite for a curve that dips between two equal
        ends that are its maximum.
    maxima : int
        Number of local maxima: runs of equal values without a higher neighbour. Ends count if they are
        higher than their neighbour; a constant curve has one.
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
        The curve's values in the order of its argument; one or more finite values.

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
    # Rounding can make the ratio of a unimodal curve slightly smaller than 1.
    excess = max(0.0, variation / hill - 1.0) if hill > 0.0 else np.inf if variation > 0.0 else 0.0
    moves = np.sign(np.diff(curve))
    turns = np.concatenate(([1.0], moves[moves != 0.0], [-1.0]))
    maxima = int((np.diff(turns) < 0.0).sum())
    return Roughness(variation, span, variation / span if span > 0.0 else 0.0, excess, maxima)


def jump_noise(values: ArrayLike) -> float:
    r"""Estimate the standard deviation of the jumps between neighbouring values of a curve.

    Third differences remove the smooth part of the curve: on a fine grid it contributes almost nothing, while
    independent increments of variance v have third differences of variance 6 v. The sum of n increments
    has a standard deviation :math:`\sqrt n` times as large.

    Parameters
    ----------
    values : array_like of float, shape (points,)
        The curve's values at equal distances; 4 points or more.

    Examples
    --------
    >>> jump_noise([0.0, 1.0, 4.0, 9.0, 16.0])
    0.0
    """
    return float(np.sqrt((np.diff(np.asarray(values, np.float64), 3) ** 2).mean() / 6.0))


class Objective(Protocol):
    """A function to maximise; NaN outside its domain."""

    def __call__(self, point: Vector) -> float:
        """Return the value at a point."""

    def along(self, point: Vector, direction: Vector, steps: Vector) -> Vector:
        """Return the values at ``point + step * direction`` for each step."""


CLEARLY = 3.0
"""An ascent is clear if it exceeds the noise by this factor."""

# Changes up to this size are attributed to rounding.
_TOLERANCE = 1e-12
_OTHER_SEEDS = 1_000_003


@dataclass(frozen=True)
class StepCounts:
    """Counts of directions at one step size.

    Attributes
    ----------
    step : float
        Step size, as a multiple of the scale.
    ascents, descents, unchanged : int
        Numbers of directions with a higher, lower or equal value at the step.
    outside : int
        Number of directions that leave the domain; they are not in the other counts.
    clear_ascents : int
        Number of ascents by more than three times the noise, too large for random jumps.
    noise : float
        The size of the jumps along this step.
    largest : float
        The largest change; negative if every direction descends; NaN if all are outside.
    mean : float
        The mean change; NaN if all are outside.
    bound, clear_bound : float
        Exact one-sided upper confidence bounds of the shares of all directions that ascend, and that ascend
        clearly.
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
        The objective's value at the point.
    directions : int
        Number of directions drawn.
    steps : tuple of StepCounts
        One per step size, in the order of the argument.
    """

    value: float
    directions: int
    steps: tuple[StepCounts, ...]


def directions_needed(confidence: float = 0.99, share: float = 0.01) -> int:
    """Return the number of directions that must be tested, without an ascent, to bound the ascending share.

    Parameters
    ----------
    confidence : float
        In (0, 1).
    share : float
        The bound of the ascending share, in (0, 1).

    Returns
    -------
    int
        The smallest n with (1 - share)^n at most 1 - confidence.

    Examples
    --------
    >>> directions_needed(0.99, 0.01)
    459
    """
    exact = math.log1p(-confidence) / math.log1p(-share)
    return max(1, math.ceil(exact * (1.0 - 1e-14)))  # rounding may turn 2 into 2.0000000000000004


def share_at_most(hits: int, trials: int, *, confidence: float = 0.99) -> float:
    """Return the exact one-sided upper confidence bound of a share (Clopper and Pearson, 1934).

    Parameters
    ----------
    hits, trials : int
        Numbers of hits and of independent trials.
    confidence : float
        In (0, 1).

    Returns
    -------
    float
        The largest share for which `hits` or fewer hits have a probability of at least 1 - confidence;
        1 without trials.

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
    """Draw directions uniformly on the unit sphere, and multiply each coordinate by its scale.

    Parameters
    ----------
    count : int
        Number of directions, 1 or more.
    scale : array_like of float, shape (d,)
        The unit of each coordinate; not negative, at least one positive.
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
        The point to test; inside the domain.
    scale : array_like of float, shape (d,)
        The unit of each coordinate; directions are uniform on the sphere in these units.
    steps : sequence of float
        Positive step sizes.
    directions : int
        Number of directions to draw, for example `directions_needed()`.
    seed : int
        Seed of the directions.
    confidence : float
        Confidence of the bounds, in (0, 1).
    noise : sequence of float, optional
        The size of the objective's jumps along each step; by default measured by `line_noise`.

    Returns
    -------
    AscentTest

    Raises
    ------
    InputError
        If the point is outside the domain.
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
    r"""Measure the size of an objective's jumps along a step, for each step size.

    The noise is the root of the sum of squared jumps along a step: the standard deviation of the change if
    each jump were equally likely up or down. The objective is evaluated on random lines through the
    point, from -1 to +1 steps, at n equal intervals per step. The sum of squared jumps is estimated from
    third differences :math:`\Delta^3` as :math:`n \, \overline{(\Delta^3)^2} / 6`, with the mean over all
    lines; see `jump_noise`.

    Parameters
    ----------
    objective, point, scale, steps
        As in `count_ascents`; differences with a value outside the domain are left out.
    lines : int
        Number of lines, 1 or more. They differ from the directions that `count_ascents` draws with this seed.
    points : int
        Number of values per line, 5 or more.
    seed : int
        Seed of the lines.

    Returns
    -------
    numpy.ndarray of float64, shape (steps,)
        0 if no four neighbouring values are inside the domain.
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
