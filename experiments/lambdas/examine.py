r"""Test whether lambdas have a cost, and whether that cost is convex.

Question of Burges, Ranking as Learning Structured Outputs (2005): for lambdas of the documents of a query, is
there a cost C with :math:`\lambda_i = -\partial C / \partial s_i` (his equations 2 and 3), and
is it convex? With this sign the Hessian of C is -J, where :math:`J_{ij} = \partial \lambda_i /
\partial s_j`. (From equation 10 on, the paper drops the minus, and J itself is the Hessian.) J
must be symmetric for a cost, -J positive semidefinite for a convex one.

Lambdas that depend on ranks jump at ties, and J does not exist there. At a tie s_i = s_j there are two more
conditions. For a cost, the jump must be a multiple of e_i - e_j; otherwise the costs of the two sides would
diverge along the tie. For a convex cost, the jump must not push the two documents apart. Both follow from the
derivative in the sense of distributions. The tests are:

- symmetry: difference between J and its transpose, within rankings
- jumps: the part of the jump at a tie that is not along e_i - e_j
- loops: work done around small squares that cross a tie twice
- trios: work done around s_i = s_j = s_k, through all six orders
- paths: work done around large triangles: two paths between two points
- curvature: the smallest eigenvalue of -(J + J') / 2, within rankings
- kinks: the part of the jump at a tie along e_i - e_j: below 0 for i, the one that rises
- midpoints: the cost half way between two points, minus the mean of theirs
- sum: the sum of the lambdas: 0 if adding a constant to all scores changes nothing

A test is violated if the violation exceeds `SAFETY` times its estimated error. Tests can refute a cost. "yes"
means that no test did, and that more than half of the tests of each kind were precise enough to do so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.lambdas import calculus
from lmtune.errors import InputError
from lmtune.losses.lambda_functions import CheckedFunction, LambdaFunction, checked_function

Array = NDArray[np.float64]
_TRIO, _TIES = 3, 3
# for differences of a rebuilt cost, and for its integral
_STEP, _FINE = 1e-3, 1e-11

Outcome = Literal["holds", "violated", "unclear"]

SAFETY = 10.0
"""A violation counts if it is more than this multiple of its estimated error."""

RESOLUTION = 1e-3
"""A test without a violation counts if its error is less than this share of the scale of the numbers."""


@dataclass(frozen=True)
class Place:
    """The result of one test, and its point.

    Attributes
    ----------
    violation : float
        0 if the property holds exactly; signed if the sign has a meaning.
    error : float
        An estimate of the violation's error.
    scale : float
        Magnitude of the numbers that it is computed from.
        labels, scores : tuple of float
            The point.
        documents : tuple of int
            Documents in the test, from 1.
        note : str
            Description of the numbers.
    """

    violation: float
    error: float
    scale: float
    labels: tuple[float, ...]
    scores: tuple[float, ...]
    documents: tuple[int, ...] = ()
    note: str = ""

    @property
    def relative(self) -> float:
        """The violation in units of the scale; 0 if all numbers are 0."""
        return self.violation / self.scale if self.scale > 0.0 else 0.0

    @property
    def tolerance(self) -> float:
        """The relative violation that the error estimate explains."""
        return SAFETY * self.error / self.scale if self.scale > 0.0 else 0.0

    @property
    def outcome(self) -> Outcome:
        """The verdict of this one test."""
        if self.violation > SAFETY * self.error:
            return "violated"
        # nothing is violated if all numbers are 0
        return "holds" if SAFETY * self.error <= RESOLUTION * self.scale or self.scale == 0.0 else ("unclear")

    def where(self) -> str:
        """Return the point as text."""
        parts = [f"labels {in_brackets(self.labels)}", f"scores {in_brackets(self.scores)}"]
        if self.documents:
            parts.append("documents " + ", ".join(map(str, self.documents)))
        return "; ".join([*parts, *([self.note] if self.note else [])])


@dataclass
class Evidence:
    """All results of one kind of test.

    Attributes
    ----------
    name : str
        Name of the test.
        tests, violated, unclear : int
            Numbers of tests by outcome.
        worst : Place, optional
            The significant violation that is largest relative to its scale; if there is none, the largest of
            the clear tests, or of all.
    """

    name: str
    tests: int = 0
    violated: int = 0
    unclear: int = 0
    worst: Place | None = None
    _key: tuple[int, float] = field(default=(-1, 0.0), repr=False)

    def add(self, result: Place) -> None:
        """Count one test."""
        outcome = result.outcome
        self.tests += 1
        self.violated += outcome == "violated"
        self.unclear += outcome == "unclear"
        key = ({"unclear": 0, "holds": 1, "violated": 2}[outcome], result.relative)
        if self.worst is None or key > self._key:
            self.worst, self._key = result, key

    @property
    def outcome(self) -> Outcome:
        """``"violated"`` if any test is; else ``"unclear"`` if more than half are."""
        if self.violated:
            return "violated"
        return "unclear" if 2 * self.unclear > self.tests else "holds"


def in_brackets(values: Iterable[float]) -> str:
    """Return numbers as text."""
    return "(" + ", ".join(f"{value:.6g}" for value in values) + ")"


Verdict = Literal["yes", "no", "undecided", "no cost"]

COST_TESTS = ("symmetry", "jumps", "loops", "trios", "paths")
CONVEXITY_TESTS = ("curvature", "kinks", "midpoints")
TESTS = (*COST_TESTS, *CONVEXITY_TESTS, "sum")
"""Names of all tests; the module's docstring describes them."""


@dataclass(frozen=True)
class Examination:
    """Results of the examination of a lambda-function.

    Attributes
    ----------
    name : str
        The function's.
    evidence : dict of str to Evidence
        By name of the test, from `TESTS`. "trios" has no tests if no query has three documents.
    largest_slope : float
        The largest absolute entry of J; 0 for piecewise constant lambdas.
    lowest : Place
        The point with the smallest eigenvalue of -(J + J') / 2; its violation is minus the eigenvalue.
    """

    name: str
    evidence: dict[str, Evidence]
    largest_slope: float
    lowest: Place | None

    @property
    def has_cost(self) -> Verdict:
        """``"no"`` if a test refutes it, ``"undecided"`` if tests are unclear, or ``"yes"``."""
        return self._verdict(COST_TESTS)

    @property
    def convex(self) -> Verdict:
        """The same for convexity; ``"no cost"`` if there is no cost."""
        if self.has_cost == "no":
            return "no cost"
        verdict = self._verdict(CONVEXITY_TESTS)
        return "undecided" if verdict == "yes" and self.has_cost == "undecided" else verdict

    @property
    def sums_to_zero(self) -> Verdict:
        """Whether the lambdas of a query sum to 0."""
        return self._verdict(("sum",))

    @property
    def smallest_eigenvalue(self) -> float:
        """The smallest eigenvalue of -(J + J') / 2 over all points."""
        return float("nan") if self.lowest is None else -self.lowest.violation

    def refuting(self) -> list[str]:
        """Return the names of the tests that are violated."""
        return [name for name, evidence in self.evidence.items() if evidence.outcome == "violated"]

    def _verdict(self, names: Sequence[str]) -> Verdict:
        outcomes = {self.evidence[name].outcome for name in names if self.evidence[name].tests}
        if "violated" in outcomes:
            return "no"
        return "undecided" if "unclear" in outcomes else "yes"


def _precision(called: CheckedFunction, scores: Array, labels: Array) -> float:
    """Return the spacing of numbers at 1 in the type that a function returns."""
    kind = np.asarray(called.function(scores.copy(), labels.copy())).dtype
    return float(np.finfo(kind if kind.kind == "f" else np.float64).eps)


def examine(
    function: LambdaFunction,
    *,
    labels: Sequence[ArrayLike] | None = None,
    documents: Sequence[int] = (2, 3, 5),
    label_vectors: int = 4,
    points: int = 12,
    seed: int = 0,
    name: str | None = None,
) -> Examination:
    """Examine a lambda-function at random points.

    Parameters
    ----------
    function : callable
        (scores, labels) -> lambdas, numpy arrays of shape (documents,), lambda_i > 0 pushing
        document i up; see `lmtune.losses.lambda_functions`.
    labels : sequence of array_like, optional
        Label vectors; by default they are drawn, with grades 0 to 4.
        documents : sequence of int
            Lengths of drawn label vectors.
        label_vectors : int
            Number of label vectors of each length.
    points : int
        Score vectors for each label vector, 3 or more.
    seed : int
        Seed of all draws; equal seeds give equal results.
    name : str, optional
        Name in the results.

    Returns
    -------
    Examination

    Raises
    ------
    InputError
        If a setting is out of range, or the function raises, does not return an array of finite lambdas, or
        gives other lambdas for the same scores and labels when called again.

    Examples
    --------
    >>> from experiments.lambdas.functions import lambdarank, ranknet
    >>> found = examine(ranknet(), documents=(3,), points=4)
    >>> found.has_cost, found.convex
    ('yes', 'yes')
    >>> found = examine(lambdarank(), documents=(3,), points=4)
    >>> found.has_cost, found.evidence["symmetry"].outcome, found.evidence["jumps"].outcome
    ('no', 'holds', 'violated')
    """
    called = checked_function(function, name)
    evidence = {test: Evidence(test) for test in TESTS}
    slope, lowest = 0.0, None
    for number, drawn in enumerate(calculus.draw_points(labels, documents, label_vectors, points, seed)):
        first = drawn.scores[0]
        if not np.array_equal(called(first, drawn.labels), called(first, drawn.labels)):
            raise InputError(
                f"{called.name} gives other lambdas for the same scores and labels",
                file=called.file,
                line=called.line,
                accepted="a function of the two alone",
            )
        spread = float(np.median([np.ptp(one) for one in drawn.scores]))
        rng = np.random.default_rng([seed, number])
        examiner = _Examiner(called, drawn.labels, evidence, _precision(called, first, drawn.labels), rng)
        for at, scores in enumerate(drawn.scores):
            blur = calculus.noise(called, scores, drawn.labels, examiner.precision)
            size = float(np.abs(called(scores, drawn.labels)).max())
            # integrals cannot be more precise than the rounding of the lambdas
            wanted = max(calculus.WANTED, 100.0 * float(blur.max()) / size if size > 0.0 else 0.0)
            own_slope, own_lowest = examiner.within(scores, blur, spread)
            slope = max(slope, own_slope)
            if lowest is None or own_lowest.violation > lowest.violation:
                lowest = own_lowest
            examiner.at_tie(scores, wanted)
            if scores.size >= _TRIO:
                examiner.around_trio(scores, wanted)
            examiner.far([drawn.scores[(at + step) % points] for step in range(3)], wanted)
    return Examination(name or called.name, evidence, slope, lowest)


@dataclass(frozen=True)
class _Examiner:
    """Tests one function with one label vector, and adds the results to the evidence."""

    function: CheckedFunction
    labels: Array
    evidence: dict[str, Evidence]
    precision: float
    rng: np.random.Generator

    def add(
        self,
        test: str,
        measured: tuple[float, float, float],
        scores: Array,
        documents: Sequence[int] = (),
        note: str = "",
    ) -> Place:
        """Add a violation, its error and its scale; documents count from 0 here."""
        violation, error, scale = map(float, measured)
        where = (tuple(self.labels.tolist()), tuple(scores.tolist()), tuple(one + 1 for one in documents))
        result = Place(violation, error, scale, *where, note)
        self.evidence[test].add(result)
        return result

    def within(self, scores: Array, blur: Array, spread: float) -> tuple[float, Place]:
        """Test symmetry, curvature and the sum within a ranking.

        Return the largest slope, and the point with the smallest eigenvalue.
        """
        lambdas = self.function(scores, self.labels)
        slopes = calculus.jacobian(self.function, scores, self.labels, blur)
        slope = float(np.abs(slopes.value).max())
        # forces divided by distances: a scale for errors if the lambdas are constant
        scale = max(slope, float(np.abs(lambdas).max()) / spread)
        skew, doubt = np.abs(slopes.value - slopes.value.T), slopes.error + slopes.error.T
        beyond = np.where(np.eye(scores.size) > 0, -np.inf, skew - SAFETY * doubt)
        i, j = (int(index) for index in np.unravel_index(np.argmax(beyond), skew.shape))
        one, two = slopes.value[i, j], slopes.value[j, i]
        note = f"dl{i + 1}/ds{j + 1} = {one:.6g}, dl{j + 1}/ds{i + 1} = {two:.6g}"
        self.add("symmetry", (skew[i, j], doubt[i, j], scale), scores, (i, j), note)
        lowest = float(np.linalg.eigvalsh(-(slopes.value + slopes.value.T) / 2.0)[0])
        # Weyl: eigenvalues change by at most the norm of the perturbation
        shift = float(np.linalg.norm(doubt / 2.0)) + scores.size * np.finfo(np.float64).eps * slope
        curved = self.add("curvature", (-lowest, shift, scale), scores, note=f"eigenvalue {lowest:.6g}")
        total, size = abs(float(lambdas.sum())), float(np.abs(lambdas).sum())
        self.add("sum", (total, float(blur.sum()), size), scores, note=f"sum {lambdas.sum():.6g}")
        return (slope if slope > SAFETY * float(slopes.error.max()) else 0.0), curved

    def at_tie(self, scores: Array, wanted: float) -> None:
        """Test the jumps at a few ties of two documents, and a small loop across the last."""
        for _ in range(_TIES if scores.size >= _TRIO else 1):
            tied, (i, j), clear = calculus.tie_of(self.rng, scores, 2)
            self.jumps(tied, i, j, clear)
        side = self.rng.normal(size=scores.size)
        side[i] = side[j] = (side[i] + side[j]) / 2.0
        side /= np.linalg.norm(side)
        corners = calculus.loop_across(tied, i, j, side, 0.2 * clear)
        self.around("loops", corners, tied, (i, j), wanted)

    def jumps(self, tied: Array, i: int, j: int, clear: float) -> None:
        """Test the jump at a tie, along the tie and across it."""
        beside = tied.copy()
        beside[[i, j]] += np.array([0.1, -0.1]) * clear
        blur = calculus.noise(self.function, beside, self.labels, self.precision)
        step = calculus.jump(self.function, tied, self.labels, (i, j), blur, self.precision)
        size = max(
            float(np.linalg.norm(self.function(beside, self.labels))), float(np.linalg.norm(step.value))
        )
        apart = step.value[i] - step.value[j]
        rest = step.value.copy()
        rest[i] -= apart / 2.0
        rest[j] += apart / 2.0
        error = float(np.linalg.norm(step.error))
        where = (tied, (i, j), f"jump {in_brackets(step.value)}")
        self.add("jumps", (float(np.linalg.norm(rest)), error, size), *where)
        self.add("kinks", (apart / np.sqrt(2.0), error, size), *where)

    def around_trio(self, scores: Array, wanted: float) -> None:
        """Test a small loop around a tie of three."""
        tied, trio, clear = calculus.tie_of(self.rng, scores, _TRIO)
        radii = 0.5 * clear * self.rng.uniform(0.2, 1.0, 6)
        corners = calculus.loop_around(tied, trio, radii.tolist(), self.rng.uniform(0.1, 0.9))
        self.around("trios", corners, tied, trio, wanted)

    def around(
        self, test: str, corners: list[Array], tied: Array, documents: Sequence[int], wanted: float
    ) -> None:
        """Test the work around a loop."""
        loop = calculus.circulation(self.function, self.labels, corners, wanted)
        self.add(test, (abs(loop.value), loop.error, loop.scale), tied, documents)

    def far(self, corners: Sequence[Array], wanted: float) -> None:
        """Test a large triangle, and the cost at the middle of its first side."""
        first, second, third = corners
        middle = (first + second) / 2.0
        sides = ((first, middle), (middle, second), (second, third), (third, first))
        parts = [calculus.work(self.function, self.labels, *ends, wanted) for ends in sides]
        loop = parts[0] + parts[1] + parts[2] + parts[3]
        note = f"to {in_brackets(second)}, {in_brackets(third)} and back: work {loop.value:.6g}"
        self.add("paths", (abs(loop.value), loop.error, loop.scale), first, note=note)
        # The cost falls by the work done: C(m) - (C(a) + C(b)) / 2 = (second half's - first's) / 2.
        above = parts[1] - parts[0]
        half = (above.value / 2.0, above.error / 2.0, above.scale / 2.0)
        note = f"half way to {in_brackets(second)} the cost is {half[0]:.6g} above the mean"
        self.add("midpoints", half, first, note=note)


@dataclass(frozen=True)
class RebuiltCost:
    """A cost as a function of scores, 0 at its origin.

    Attributes
    ----------
    function : CheckedFunction
        The lambda-function.
    labels, origin : numpy.ndarray, shape (documents,)
        Labels of the query, and start of the integration.
    """

    function: CheckedFunction
    labels: Array
    origin: Array

    def __call__(self, scores: ArrayLike) -> float:
        """Return the cost at some scores."""
        return self.with_error(scores)[0]

    def with_error(self, scores: ArrayLike) -> tuple[float, float]:
        """Return the cost, and an estimate of the integral's error."""
        end = _vector("scores", scores, self.labels.size)
        done = calculus.work(self.function, self.labels, self.origin, end, _FINE)
        return -done.value, done.error


def rebuild_cost(
    function: LambdaFunction, labels: ArrayLike, *, origin: ArrayLike | None = None
) -> RebuiltCost:
    r"""Rebuild the cost of a query from its lambdas.

    .. math:: C(s) = -\int_0^1 \lambda(o + t (s - o)) \cdot (s - o)\, dt

    This is the construction in the proof of Poincaré's lemma, with the minus of lambda = -dC. The result is a
    cost only if the lambdas have one: use `check_cost` or `examine`.

    The straight line from origin 0 to s crosses no tie. Each ranking then has its own cost, with the right
    gradient within rankings. The values of two rankings may differ at the tie between them, as with
    LambdaRank.

    Parameters
    ----------
    function : callable
        (scores, labels) -> lambdas.
    labels : array_like, shape (documents,)
        Labels of the query.
        origin : array_like, shape (documents,), optional
        The point with cost 0; scores of 0 by default.

    Returns
    -------
    RebuiltCost

    Raises
    ------
    InputError
        If labels or origin are not vectors of finite numbers of one length.

    Examples
    --------
    Two documents, margin 1, at x = s_1 - s_2 = 0.5: x^2 / 2 - x by the paper's equation 8.

    >>> from experiments.lambdas.functions import margin
    >>> cost = rebuild_cost(margin(1.0), [1, 0])
    >>> round(cost([0.7, 0.2]), 12)
    -0.375
    """
    grades = _vector("labels", labels, None)
    start = np.zeros(grades.size) if origin is None else _vector("origin", origin, grades.size)
    return RebuiltCost(checked_function(function), grades, start)


class CostCheck(NamedTuple):
    """Comparison of a rebuilt cost's negative gradient with the lambdas.

    Attributes
    ----------
    largest : float
        Distance between the cost's negative gradient and the lambdas, divided by the largest lambda of all
        points, at the point where it exceeds the errors most.
        error : float
            The part that the error estimates explain, in the same units.
    """

    largest: float
    error: float

    @property
    def excess(self) -> float:
        """Distance minus estimated errors; below 0 if errors explain the distance."""
        return self.largest - SAFETY * self.error

    @property
    def holds(self) -> bool:
        """Whether errors explain the distance."""
        return self.excess <= 0.0


def check_cost(cost: RebuiltCost, points: Sequence[ArrayLike]) -> CostCheck:
    """Compare a rebuilt cost's gradient, by differences, with the lambdas.

    Use an origin without ties, such as a random point: with origin 0 gaps at ties do not show (see
    `rebuild_cost`).

    Parameters
    ----------
    cost : RebuiltCost
        What to check.
    points : sequence of array_like, shape (documents,)
        One or more score vectors without equal scores.

    Raises
    ------
    InputError
        If there are no points, or their shape differs.
    """
    if not points:
        raise InputError("no points to check a cost at", accepted="one at least")
    places = [_vector("scores", point, cost.labels.size) for point in points]
    lambdas = [cost.function(scores, cost.labels) for scores in places]
    size = max((float(np.abs(forces).max()) for forces in lambdas), default=0.0) or 1.0
    worst = CostCheck(-np.inf, 0.0)
    for scores, forces in zip(places, lambdas, strict=True):
        for i in range(scores.size):
            slope, error = _slope(cost, scores, i)
            check = CostCheck(abs(slope + forces[i]) / size, error / size)
            if check.excess > worst.excess:
                worst = check
    return worst


def _slope(cost: RebuiltCost, scores: Array, i: int) -> tuple[float, float]:
    """Differentiate the cost by score i, with differences at two steps."""
    distance = np.abs(np.delete(scores, i) - scores[i])
    step = min(_STEP, 0.4 * float(distance.min()))
    slopes, errors = [], []
    for one in (step, step / 2.0):
        ends = np.array([scores, scores])
        ends[:, i] += one, -one
        (high, above), (low, below) = (cost.with_error(end) for end in ends)
        slopes.append((high - low) / (2.0 * one))
        errors.append((above + below) / (2.0 * one))
    value = (4.0 * slopes[1] - slopes[0]) / 3.0
    return value, abs(value - slopes[1]) + (4.0 * errors[1] + errors[0]) / 3.0


def _vector(name: str, values: ArrayLike, size: int | None) -> Array:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or (size is not None and array.size != size) or not np.isfinite(array).all():
        accepted = "finite numbers, one a document" + ("" if size is None else f" ({size})")
        raise InputError(f"bad {name}", value=values, accepted=accepted)
    return array


def needed_alpha(examination: Examination) -> tuple[float, str]:
    r"""Return the regularisation strength that makes an examined cost convex, and the reason.

    Burges (2005) adds :math:`\alpha s_i` to lambda_i, "a positive constant along the diagonal of the
    Hessian". With lambda = -dC the sign is the opposite: :math:`\lambda_i - \alpha s_i`, the force of
    the cost :math:`C + \alpha |s|^2 / 2`. J stays symmetric. Lambdas without a cost still have none.

    For smooth lambdas, alpha is the smallest value that leaves no eigenvalue below 0 at the examined points,
    increased by the error estimate. If lambdas jump the wrong way, the slope of the cost falls by a finite
    amount at a point, and no finite alpha is enough. More points may need a larger alpha.

    Alpha is 0 if the cost is already convex at the points, infinite if no alpha is enough, and NaN if there
    is no cost.

    Parameters
    ----------
    examination : Examination
        Result of `examine`.
    """
    if examination.has_cost == "no":
        return math.nan, "There is no cost."
    kinks, curvature = examination.evidence["kinks"], examination.evidence["curvature"]
    if kinks.outcome == "violated":
        assert kinks.worst is not None
        fall = f"{kinks.worst.violation:.3g} at once ({kinks.worst.where()})"
        return math.inf, f"No finite alpha is enough: across a tie the cost's slope falls by {fall}."
    worst = examination.lowest
    if worst is None or curvature.outcome != "violated":
        return 0.0, "No eigenvalue is below 0 at the examined points."
    rounded_up = worst.violation + SAFETY * worst.error
    return rounded_up, f"The smallest eigenvalue is {-worst.violation:.6g}."
