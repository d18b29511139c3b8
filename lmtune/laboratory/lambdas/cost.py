r"""The cost behind lambdas, rebuilt by a line integral, and the regulariser that makes it convex.

Burges (2005) adds :math:`\alpha s_i` to lambda_i, "a positive constant along the diagonal of the
Hessian". With lambda = -dC that takes the other sign: :math:`\lambda_i - \alpha s_i`, the force of
the cost :math:`C + \alpha |s|^2 / 2`. It keeps J symmetric, and makes no cost where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.laboratory.lambdas.calculus import work
from lmtune.laboratory.lambdas.examine import SAFETY, Examination
from lmtune.reranking.losses.lambda_functions import CheckedFunction, LambdaFunction, checked

Array = NDArray[np.float64]

_STEP = 1e-3
_FINE = 1e-11


@dataclass(frozen=True)
class RebuiltCost:
    """A cost as a function of scores, 0 at its origin.

    Attributes
    ----------
    function : CheckedFunction
        The lambda-function.
    labels, origin : numpy.ndarray, shape (documents,)
        The query's labels, and where integration begins.
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
        done = work(self.function, self.labels, self.origin, end, _FINE)
        return -done.value, done.error


def rebuild_cost(
    function: LambdaFunction, labels: ArrayLike, *, origin: ArrayLike | None = None
) -> RebuiltCost:
    r"""Rebuild the cost of a query from its lambdas.

    .. math:: C(s) = -\int_0^1 \lambda(o + t (s - o)) \cdot (s - o)\, dt

    which is the construction in the proof of Poincaré's lemma, with the minus of lambda = -dC.

    It is a cost only where there is one: `check_cost` and `lmtune.laboratory.lambdas.examine` tell.
    From the origin 0 the straight line to s meets no tie on its way, so that each ranking gets the
    cost that would hold if there were no other; its gradient is right within rankings even where,
    as with LambdaRank, the values of two rankings do not meet at the tie between them.

    Parameters
    ----------
    function : callable
        (scores, labels) -> lambdas.
    labels : array_like, shape (documents,)
        The query's.
    origin : array_like, shape (documents,), optional
        Where the cost is 0; scores of 0 by default.

    Returns
    -------
    RebuiltCost

    Raises
    ------
    InputError
        For labels or an origin that are no vectors of finite numbers, of one length.

    Examples
    --------
    Two documents, margin 1, at x = s_1 - s_2 = 0.5: x^2 / 2 - x by the paper's equation 8.

    >>> from lmtune.laboratory.lambdas.functions import margin
    >>> cost = rebuild_cost(margin(1.0), [1, 0])
    >>> round(cost([0.7, 0.2]), 12)
    -0.375
    """
    grades = _vector("labels", labels, None)
    start = np.zeros(grades.size) if origin is None else _vector("origin", origin, grades.size)
    return RebuiltCost(checked(function), grades, start)


@dataclass(frozen=True)
class CostCheck:
    """Whether a rebuilt cost gives the lambdas back.

    Attributes
    ----------
    places : int
        Scores looked at.
    largest : float
        Distance between the cost's negative gradient and the lambdas, divided by the largest
        lambda of all places, where it is largest beyond errors.
    error : float
        The same of what the error estimates explain.
    scores : numpy.ndarray, shape (documents,)
        Where it is largest.
    """

    places: int
    largest: float
    error: float
    scores: Array

    @property
    def excess(self) -> float:
        """By how much the distance is larger than errors explain; below 0 where it is not."""
        return self.largest - SAFETY * self.error

    @property
    def holds(self) -> bool:
        """Whether errors explain the distance."""
        return self.excess <= 0.0


def check_cost(cost: RebuiltCost, points: Sequence[ArrayLike]) -> CostCheck:
    """Compare a rebuilt cost's gradient, by differences, with the lambdas.

    The origin should be no tie, such as a random place: see `rebuild_cost` for what the origin 0
    does not show.

    Parameters
    ----------
    cost : RebuiltCost
        What to check.
    points : sequence of array_like, shape (documents,)
        Scores, no two equal in any; one at least.

    Raises
    ------
    InputError
        Without points, or for points that do not fit.
    """
    if not points:
        raise InputError("no points to check a cost at", accepted="one at least")
    places = [_vector("scores", point, cost.labels.size) for point in points]
    lambdas = [cost.function(scores, cost.labels) for scores in places]
    size = max((float(np.abs(forces).max()) for forces in lambdas), default=0.0) or 1.0
    worst = CostCheck(len(points), -np.inf, 0.0, cost.origin)
    for scores, forces in zip(places, lambdas, strict=True):
        for i in range(scores.size):
            slope, error = _slope(cost, scores, i)
            check = CostCheck(len(points), abs(slope + forces[i]) / size, error / size, scores)
            if check.excess > worst.excess:
                worst = check
    return worst


def _slope(cost: RebuiltCost, scores: Array, i: int) -> tuple[float, float]:
    """Differentiate the cost by score i, from differences at two steps."""
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


def regularise(function: LambdaFunction, alpha: float) -> CheckedFunction:
    """Return the lambda-function (scores, labels) -> lambdas - alpha scores.

    Parameters
    ----------
    function : callable
        (scores, labels) -> lambdas.
    alpha : float
        0 or more. The lambdas no longer add up to 0.

    Raises
    ------
    InputError
        For another alpha.
    """
    if not 0.0 <= alpha < math.inf:
        raise InputError("bad alpha", value=alpha, accepted="a finite number, 0 or more")
    called = checked(function)

    def lambdas(scores: Array, labels: Array) -> Array:
        return called(scores, labels) - alpha * scores

    return CheckedFunction(lambdas, f"{called.name} regularised by {alpha:g}", called.file, called.line)


@dataclass(frozen=True)
class Regulariser:
    """How much regularisation a cost needs.

    Attributes
    ----------
    alpha : float
        The least that leaves no eigenvalue below 0 at the examined places, rounded up by what the
        error estimate there leaves open; 0 for what is convex there already; infinite where no
        alpha will do; NaN where there is no cost.
    reason : str
        Why, in a sentence.
    """

    alpha: float
    reason: str


def needed_alpha(examination: Examination) -> Regulariser:
    """Tell how much regularisation makes an examined cost convex.

    The smallest eigenvalue says it for smooth lambdas. Where lambdas jump the wrong way, so that
    the cost has a ridge, its slope falls by a finite amount over no distance, and no finite alpha
    makes up for that. More places may ask for more.

    Parameters
    ----------
    examination : Examination
        What `examine` returned.
    """
    if examination.has_cost == "no":
        return Regulariser(math.nan, "There is no cost.")
    kinks, curvature = examination.evidence["kinks"], examination.evidence["curvature"]
    if kinks.outcome == "violated":
        assert kinks.worst is not None
        return Regulariser(
            math.inf,
            "No finite alpha will do: across a tie the cost's slope falls by "
            f"{kinks.worst.violation:.3g} at once ({kinks.worst.where()}).",
        )
    worst = examination.lowest
    if worst is None or curvature.outcome != "violated":
        return Regulariser(0.0, "No eigenvalue is below 0 at the examined places.")
    rounded_up = worst.violation + SAFETY * worst.error
    return Regulariser(rounded_up, f"The smallest eigenvalue is {-worst.violation:.6g}.")
