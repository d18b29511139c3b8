"""The shape of objectives: how rough a curve is, whether a surface is concave, whether a point is a top.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError

_FEWEST_FOR_NOISE = 4


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

    Raises
    ------
    InputError
        For another shape, no points, or values that are not finite.

    Examples
    --------
    >>> roughness([0.0, 1.0, 2.0]).ratio, roughness([0.0, 2.0, 1.0, 2.0]).ratio
    (1.0, 2.0)
    >>> roughness([0.0, 2.0, 1.0]).excess, roughness([0.0, 2.0, 1.0, 2.0]).excess
    (0.0, 1.0)
    >>> roughness([0, 1, 1, 0, 2]).maxima, roughness([0, 1, 1, 2]).maxima
    (2, 1)
    """
    curve = _curve(values)
    variation, span = float(np.abs(np.diff(curve)).sum()), float(np.ptp(curve))
    hill = 2.0 * float(curve.max()) - float(curve[0]) - float(curve[-1])
    # Rounding may leave a single hill a little below itself.
    excess = max(0.0, variation / hill - 1.0) if hill > 0.0 else np.inf if variation > 0.0 else 0.0
    return Roughness(variation, span, variation / span if span > 0.0 else 0.0, excess, _maxima(curve))


def jump_noise(values: ArrayLike) -> float:
    r"""Estimate what the jumps between neighbouring values of a curve amount to.

    The standard deviation of an increment without the curve's smooth part: independent increments
    of variance v have third differences of variance 6 v, to which a smooth part adds next to
    nothing on a fine grid. Over n increments jumps amount to :math:`\sqrt n` times as much.

    Parameters
    ----------
    values : array_like of float, shape (points,)
        The curve at even distances; 4 points or more.

    Raises
    ------
    InputError
        As `roughness`, and for fewer points.

    Examples
    --------
    >>> jump_noise([0.0, 1.0, 4.0, 9.0, 16.0])
    0.0
    """
    curve = _curve(values)
    if curve.size < _FEWEST_FOR_NOISE:
        raise InputError(
            "too short a curve", value=curve.size, accepted=f"{_FEWEST_FOR_NOISE} values or more"
        )
    return float(np.sqrt((np.diff(curve, 3) ** 2).mean() / 6.0))


def _curve(values: ArrayLike) -> NDArray[np.float64]:
    curve = np.asarray(values, np.float64)
    if curve.ndim != 1 or curve.size == 0 or not np.isfinite(curve).all():
        raise InputError("not a curve", value=curve.shape, accepted="one or more finite values in a row")
    return curve


_ROUNDING = 1e-12


class Concavity(NamedTuple):
    """How a surface fares in the midpoint tests.

    A function is concave if its value midway between any two points is at least the mean of
    theirs, and quasi-concave (all its level sets are convex: one hill, without side valleys) if it
    is at least the lower of the two.

    Attributes
    ----------
    pairs : int
        Pairs of grid points whose midpoint is a grid point.
    concave, quasi_concave : float
        The shares of pairs that pass; NaN without pairs.
    worst, quasi_worst : float
        The largest shortfall of a midpoint, as a share of the surface's range.
    maxima : int
        Local maxima among the whole grid's points: connected points of equal value, diagonals
        included, none of whose neighbours is higher.
    """

    pairs: int
    concave: float
    quasi_concave: float
    worst: float
    quasi_worst: float
    maxima: int


def concavity(values: ArrayLike, *, floor: float = -np.inf, slack: float = 0.0) -> Concavity:
    """Test a surface at all midpoints of its grid.

    Parameters
    ----------
    values : array_like of float, shape (rows, columns)
        The surface over evenly spaced points along each axis; finite.
    floor : float
        Only pairs whose values are both at least this are tested, such as those near the top.
    slack : float
        A shortfall of up to this share of the surface's range is no failure.

    Returns
    -------
    Concavity
        What rounding may do, 1e-12 of the largest absolute value, is no failure.

    Raises
    ------
    InputError
        For another shape or values that are not finite.
    """
    surface = np.asarray(values, np.float64)
    if surface.ndim != 2 or not surface.size or not np.isfinite(surface).all():
        raise InputError("not a surface", value=surface.shape, accepted="finite values (rows, columns)")
    rounding = _ROUNDING * float(np.abs(surface).max())
    span = float(np.ptp(surface)) or 1.0
    allowed = rounding + slack * span
    pairs = concave = quasi = 0
    worst = quasi_worst = 0.0
    for one, middle, other in _midpoints(surface):
        tested = (one >= floor) & (other >= floor)
        mean, lower = 0.5 * (one + other) - middle, np.minimum(one, other) - middle
        mean, lower = mean[tested], lower[tested]
        pairs += mean.size
        concave += int((mean <= allowed).sum())
        quasi += int((lower <= allowed).sum())
        worst = max(worst, float(np.max(mean, initial=0.0)))
        quasi_worst = max(quasi_worst, float(np.max(lower, initial=0.0)))
    return Concavity(
        pairs,
        concave / pairs if pairs else np.nan,
        quasi / pairs if pairs else np.nan,
        worst / span if worst > rounding else 0.0,
        quasi_worst / span if quasi_worst > rounding else 0.0,
        _maxima(surface),
    )


def _midpoints(
    surface: NDArray[np.float64],
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
    """Yield views of equal shape: points, the points a step on, and those two steps on."""
    rows, columns = surface.shape
    for down in range((rows - 1) // 2 + 1):
        for right in range(-((columns - 1) // 2), (columns - 1) // 2 + 1):
            if down == 0 and right <= 0:
                continue
            first, width = max(0, -2 * right), columns - 2 * abs(right)
            yield tuple(  # type: ignore[misc]
                surface[
                    step * down : rows - (2 - step) * down,
                    first + step * right : first + step * right + width,
                ]
                for step in range(3)
            )


def _maxima(values: NDArray[np.float64]) -> int:
    """Count connected points of one value with nothing higher beside them, diagonals included."""
    from scipy.ndimage import label, maximum_filter

    def around(of: NDArray[np.float64]) -> NDArray[np.float64]:
        highest: NDArray[np.float64] = maximum_filter(of, 3, mode="constant", cval=-np.inf)
        return highest

    tops = around(values) <= values
    marks, count = label(tops, np.ones((3,) * values.ndim))
    # One of them has an equal beside it that is itself below another point.
    slopes = tops & (around(np.where(tops, -np.inf, values)) == values)
    return int(count - np.unique(marks[slopes]).size)


Vector = NDArray[np.float64]
Objective = Callable[[Vector], float]
"""A point's value, higher is better; NaN where the point is outside the domain."""
Along = Callable[[Vector, Vector, Vector], Vector]
"""Values at ``point + step * direction`` for each step, of (point, direction, steps)."""

CLEARLY = 3.0
"""An ascent by more than so many times the noise is a clear one."""

_FEWEST_POINTS = 5
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
    """Result of `ascent_test`.

    Attributes
    ----------
    value : float
        The objective at the point.
    directions : int
        How many were drawn.
    confidence : float
        Of the bounds.
    steps : tuple of StepCounts
        By step, as given.
    changes : numpy.ndarray of float64, shape (directions, steps)
        The objective's changes.
    """

    value: float
    directions: int
    confidence: float
    steps: tuple[StepCounts, ...]
    changes: NDArray[np.float64]


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

    Raises
    ------
    InputError
        For a confidence or share outside (0, 1).

    Examples
    --------
    >>> directions_needed(0.99, 0.01)
    459
    """
    for name, value in {"confidence": confidence, "share": share}.items():
        if not 0.0 < value < 1.0:
            raise InputError(f"bad {name}", value=value, accepted="above 0 and below 1")
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

    Raises
    ------
    InputError
        For numbers out of range.

    Examples
    --------
    >>> round(share_at_most(0, 459), 6), round(share_at_most(3, 459), 4)
    (0.009983, 0.0217)
    """
    from scipy.stats import beta

    if not (0 <= hits <= trials and 0.0 < confidence < 1.0):
        raise InputError(
            "no bound", value=(hits, trials, confidence), accepted="0 <= hits <= trials, 0 < confidence < 1"
        )
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

    Raises
    ------
    InputError
        For numbers out of range.
    """
    units = np.asarray(scale, np.float64)
    if count < 1 or seed < 0:
        raise InputError("no directions", value=(count, seed), accepted="count >= 1, seed >= 0")
    if units.ndim != 1 or not np.isfinite(units).all() or (units < 0).any() or not units.any():
        raise InputError(
            "bad scale", value=units.shape, accepted="finite numbers (d,), none below 0, not all 0"
        )
    drawn = np.random.default_rng([seed, 459]).standard_normal((count, units.size))
    drawn *= units / np.sqrt((drawn**2).sum(axis=1, keepdims=True))
    return drawn


def ascent_test(
    objective: Objective,
    point: ArrayLike,
    scale: ArrayLike,
    steps: Sequence[float],
    directions: int | None = None,
    seed: int = 0,
    *,
    confidence: float = 0.99,
    noise: float | Sequence[float] = 0.0,
    tolerance: float = 1e-12,
    along: Along | None = None,
) -> AscentTest:
    """Count the random directions in which an objective ascends from a point.

    Parameters
    ----------
    objective : callable
        A point's value, higher is better (negate a cost); NaN where the point is outside the
        domain.
    point : array_like of float, shape (d,)
        Where to start; inside the domain.
    scale : array_like of float, shape (d,)
        What a step of 1 is worth in each coordinate, so that directions are uniform on the sphere
        of the scaled coordinates.
    steps : sequence of float
        Step sizes, positive.
    directions : int, optional
        How many to draw; those `directions_needed` for this confidence and a share of 1%.
    seed : int
        Of the directions.
    confidence : float
        Of the bounds, in (0, 1).
    noise : float or sequence of float
        What the objective's jumps along a step amount to, one or one a step; see `line_noise`.
    tolerance : float
        Changes no larger count as none: what rounding may do to a sum.
    along : callable, optional
        All of a direction's values at once, where that is cheaper.

    Returns
    -------
    AscentTest

    Raises
    ------
    InputError
        For a point of another shape than the scale or outside the domain, steps that are not
        positive, noise that fits no step, or numbers out of range.

    Examples
    --------
    At the top of a hill nothing ascends; on its slope about half of all directions do:

    >>> def hill(w):
    ...     return -float((w**2).sum())
    >>> [ascent_test(hill, [x, 0.0], [1, 1], [0.01]).steps[0].ascents for x in (0.0, 1.0)]
    [0, 242]
    """
    at, units = np.asarray(point, np.float64), np.asarray(scale, np.float64)
    sizes = _steps(steps)
    heights = np.broadcast_to(np.asarray(noise, np.float64), np.shape(noise) or sizes.shape)
    if heights.shape != sizes.shape or not (heights >= 0).all():
        raise InputError("bad noise", value=noise, accepted="0 or more, one or one a step")
    if at.shape != units.shape:
        raise InputError("point and scale do not fit", value=(at.shape, units.shape), accepted="(d,) both")
    count = directions_needed(confidence) if directions is None else directions
    follow = along or _one_by_one(objective)
    value = float(objective(at))
    if math.isnan(value):
        raise InputError("the point is outside the objective's domain", accepted="a point inside")
    changes = np.empty((count, sizes.size))
    for number, direction in enumerate(random_directions(count, units, seed=seed)):
        changes[number] = follow(at, direction, sizes) - value
    counts = tuple(
        _count(changes[:, s], float(sizes[s]), float(heights[s]), confidence, tolerance)
        for s in range(sizes.size)
    )
    return AscentTest(value, count, confidence, counts, changes)


def line_noise(
    objective: Objective,
    point: ArrayLike,
    scale: ArrayLike,
    steps: Sequence[float],
    *,
    lines: int = 4,
    points: int = 33,
    seed: int = 0,
    along: Along | None = None,
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
    objective, point, scale, steps, along
        As for `ascent_test`; differences with a value outside the domain are left out.
    lines : int
        How many, 1 or more. They are not the directions that `ascent_test` draws by this seed.
    points : int
        Values a line, 5 or more.
    seed : int
        Of the lines.

    Returns
    -------
    numpy.ndarray of float64, shape (steps,)
        0 where no four neighbouring values are inside the domain.

    Raises
    ------
    InputError
        For numbers out of range.
    """
    if points < _FEWEST_POINTS:
        raise InputError("too few points", value=points, accepted=f"{_FEWEST_POINTS} or more")
    at, sizes = np.asarray(point, np.float64), _steps(steps)
    follow = along or _one_by_one(objective)
    grid = np.linspace(-1.0, 1.0, points)
    squares, counts = np.zeros(sizes.size), np.zeros(sizes.size)
    for direction in random_directions(lines, scale, seed=seed + _OTHER_SEEDS):
        for s, size in enumerate(sizes):
            thirds = np.diff(follow(at, direction, grid * size), 3)
            thirds = thirds[~np.isnan(thirds)]
            squares[s] += (thirds**2).sum()
            counts[s] += thirds.size
    each = (points - 1) / 2
    noise: NDArray[np.float64] = np.sqrt(each * squares / (6.0 * np.maximum(counts, 1.0)))
    return noise


def _steps(steps: Sequence[float]) -> NDArray[np.float64]:
    sizes = np.asarray(steps, np.float64)
    if sizes.ndim != 1 or not sizes.size or not (np.isfinite(sizes) & (sizes > 0)).all():
        raise InputError("bad steps", value=tuple(steps), accepted="positive numbers, at least one")
    return sizes


def _one_by_one(objective: Objective) -> Along:
    def along(point: Vector, direction: Vector, steps: Vector) -> Vector:
        return np.array([objective(point + step * direction) for step in steps], np.float64)

    return along


def _count(
    changes: NDArray[np.float64], step: float, noise: float, confidence: float, tolerance: float
) -> StepCounts:
    inside = changes[~np.isnan(changes)]
    ascents, descents = int((inside > tolerance).sum()), int((inside < -tolerance).sum())
    clear = int((inside > max(tolerance, CLEARLY * noise)).sum())
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
