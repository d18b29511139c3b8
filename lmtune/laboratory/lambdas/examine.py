r"""Tell whether lambdas come from a cost, and whether that cost is convex.

Burges, Ranking as Learning Structured Outputs (2005): given lambdas for the documents of a query,
is there a cost C with :math:`\lambda_i = -\partial C / \partial s_i` (his equations 2 and 3), and
is it convex? With this sign the Hessian of C is -J, where :math:`J_{ij} = \partial \lambda_i /
\partial s_j`. (From his equation 10 on the paper drops the minus, and J itself is the Hessian.) J
must be symmetric for a cost, -J positive semidefinite for a convex one.

Lambdas that depend on ranks jump where documents tie, and there J does not exist. On a tie
s_i = s_j a cost needs more: the jump must be a multiple of e_i - e_j, for otherwise the cost of the
two sides would drift apart along the tie; and a convex one needs that the jump does not push the
two apart. Both follow from the derivative in the sense of distributions. Hence:

==========  =====================================================================================
symmetry    J against its transpose, within rankings
jumps       the part of the jump at a tie that is not along e_i - e_j
loops       work done around small squares that cross a tie twice
trios       work done around s_i = s_j = s_k, through all six orders
paths       work done around large triangles: two ways between two places
curvature   the smallest eigenvalue of -(J + J') / 2, within rankings
kinks       the part of the jump at a tie along e_i - e_j: below 0 for i, the one that rises
midpoints   the cost half way between two places against the mean of theirs
sum         the sum of the lambdas: 0 if adding a constant to all scores changes nothing
==========  =====================================================================================

A test is violated if the violation exceeds `SAFETY` times its own estimated error. Tests can refute
a cost; "yes" means that none of them did, and that more than half of each kind could have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.laboratory.lambdas.differences import jacobian, jump, noise
from lmtune.laboratory.lambdas.evidence import SAFETY, Evidence, Place, place
from lmtune.laboratory.lambdas.examination import TESTS, Examination
from lmtune.laboratory.lambdas.paths import WANTED, circulation, loop_across, loop_around, work
from lmtune.laboratory.lambdas.points import draw_points, tie_of
from lmtune.reranking.losses.lambda_functions import Checked, LambdaFunction, checked

Array = NDArray[np.float64]
_TRIO = 3
_TIES = 3


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
    """Examine a lambda-function at seeded places.

    Parameters
    ----------
    function : callable
        (scores, labels) -> lambdas, numpy arrays of shape (documents,), lambda_i > 0 pushing
        document i up; see `lmtune.reranking.losses.lambda_functions`.
    labels : sequence of array_like, optional
        Label vectors to examine it with; drawn by default, grades 0 to 4.
    documents : sequence of int
        Lengths of the drawn ones.
    label_vectors : int
        How many of each length.
    points : int
        Score vectors for each label vector, 3 or more.
    seed : int
        Of all draws: the same one gives the same examination.
    name : str, optional
        What to call it.

    Returns
    -------
    Examination

    Raises
    ------
    InputError
        For settings out of range, or a function that raises, returns what is no array of finite
        lambdas, or gives other lambdas for the same scores and labels when called again.

    Examples
    --------
    >>> from lmtune.laboratory.lambdas.functions import lambdarank, ranknet
    >>> found = examine(ranknet(), documents=(3,), points=4)
    >>> found.has_cost, found.convex
    ('yes', 'yes')
    >>> found = examine(lambdarank(), documents=(3,), points=4)
    >>> found.has_cost, found.evidence["symmetry"].outcome, found.evidence["jumps"].outcome
    ('no', 'holds', 'violated')
    """
    called = checked(function, name)
    evidence = {test: Evidence(test) for test in TESTS}
    slope, lowest = 0.0, None
    for number, own in enumerate(draw_points(labels, documents, label_vectors, points, seed)):
        rng = np.random.default_rng([seed, number])
        first = own.scores[0]
        if not np.array_equal(called(first, own.labels), called(first, own.labels)):
            raise InputError(
                f"{called.name} gives other lambdas for the same scores and labels",
                file=called.file,
                line=called.line,
                accepted="a function of the two alone",
            )
        precision = called.precision(first, own.labels)
        spread = float(np.median([np.ptp(one) for one in own.scores]))
        for at, scores in enumerate(own.scores):
            blur = noise(called, scores, own.labels, precision)
            size = float(np.abs(called(scores, own.labels)).max())
            # Integrals cannot come closer than the lambdas' own rounding lets them.
            wanted = max(WANTED, 100.0 * float(blur.max()) / size if size > 0.0 else 0.0)
            own_slope, own_lowest = _within(called, evidence, scores, own.labels, blur, spread)
            slope = max(slope, own_slope)
            if lowest is None or own_lowest.violation > lowest.violation:
                lowest = own_lowest
            _at_tie(called, evidence, scores, own.labels, precision, rng, wanted)
            if scores.size >= _TRIO:
                _around_trio(called, evidence, scores, own.labels, rng, wanted)
            other, third = (own.scores[(at + step) % points] for step in (1, 2))
            _far(called, evidence, own.labels, scores, other, third, wanted)
    return Examination(name or called.name, evidence, slope, lowest)


def _within(
    function: Checked, evidence: dict[str, Evidence], scores: Array, labels: Array, blur: Array, spread: float
) -> tuple[float, Place]:
    """Test symmetry, curvature and the sum within a ranking.

    Return the largest slope, and the place with its smallest eigenvalue.
    """
    lambdas = function(scores, labels)
    found = jacobian(function, scores, labels, blur)
    slope = float(np.abs(found.value).max())
    # Forces over distances: something to hold errors against where the lambdas are constant.
    scale = max(slope, float(np.abs(lambdas).max()) / spread)
    skew, doubt = np.abs(found.value - found.value.T), found.error + found.error.T
    beyond = np.where(np.eye(scores.size) > 0, -np.inf, skew - SAFETY * doubt)
    i, j = np.unravel_index(np.argmax(beyond), skew.shape)
    one, two = found.value[i, j], found.value[j, i]
    note = f"dl{i + 1}/ds{j + 1} = {one:.6g}, dl{j + 1}/ds{i + 1} = {two:.6g}"
    evidence["symmetry"].add(place(skew[i, j], doubt[i, j], scale, labels, scores, (int(i), int(j)), note))
    lowest = float(np.linalg.eigvalsh(-(found.value + found.value.T) / 2.0)[0])
    # Weyl: eigenvalues move by no more than the norm of what is added.
    shift = float(np.linalg.norm(doubt / 2.0)) + scores.size * np.finfo(np.float64).eps * slope
    curved = place(-lowest, shift, scale, labels, scores, note=f"eigenvalue {lowest:.6g}")
    evidence["curvature"].add(curved)
    total, size = abs(float(lambdas.sum())), float(np.abs(lambdas).sum())
    evidence["sum"].add(
        place(total, float(blur.sum()), size, labels, scores, note=f"sum {lambdas.sum():.6g}")
    )
    return (slope if slope > SAFETY * float(found.error.max()) else 0.0), curved


def _at_tie(
    function: Checked,
    evidence: dict[str, Evidence],
    scores: Array,
    labels: Array,
    precision: float,
    rng: np.random.Generator,
    wanted: float,
) -> None:
    """Test the jumps at a few ties of two documents, and a small loop across the last."""
    for _ in range(_TIES if scores.size >= _TRIO else 1):
        tied, (i, j), clear = tie_of(rng, scores, 2)
        _jumps(function, evidence, tied, labels, (i, j, clear), precision)
    side = rng.normal(size=scores.size)
    side[i] = side[j] = (side[i] + side[j]) / 2.0
    side /= np.linalg.norm(side)
    corners = loop_across(tied, i, j, side, 0.2 * clear)
    loop = circulation(function, labels, corners, wanted)
    evidence["loops"].add(place(abs(loop.value), loop.error, loop.scale, labels, tied, (i, j)))


def _jumps(
    function: Checked,
    evidence: dict[str, Evidence],
    tied: Array,
    labels: Array,
    at: tuple[int, int, float],
    precision: float,
) -> None:
    i, j, clear = at
    beside = tied.copy()
    beside[[i, j]] += np.array([0.1, -0.1]) * clear
    blur = noise(function, beside, labels, precision)
    found = jump(function, tied, labels, (i, j), blur, precision)
    size = max(float(np.linalg.norm(function(beside, labels))), float(np.linalg.norm(found.value)))
    apart = found.value[i] - found.value[j]
    rest = found.value.copy()
    rest[i] -= apart / 2.0
    rest[j] += apart / 2.0
    error = float(np.linalg.norm(found.error))
    note = "jump (" + ", ".join(f"{value:.6g}" for value in found.value) + ")"
    where = (labels, tied, (i, j), note)
    evidence["jumps"].add(place(float(np.linalg.norm(rest)), error, size, *where))
    evidence["kinks"].add(place(float(apart / np.sqrt(2.0)), error, size, *where))


def _around_trio(
    function: Checked,
    evidence: dict[str, Evidence],
    scores: Array,
    labels: Array,
    rng: np.random.Generator,
    wanted: float,
) -> None:
    tied, trio, clear = tie_of(rng, scores, _TRIO)
    radii = 0.5 * clear * rng.uniform(0.2, 1.0, 6)
    corners = loop_around(tied, trio, radii.tolist(), rng.uniform(0.1, 0.9))
    loop = circulation(function, labels, corners, wanted)
    evidence["trios"].add(
        place(abs(loop.value), loop.error, loop.scale, labels, tied, (trio[0], trio[1], trio[2]))
    )


def _far(
    function: Checked,
    evidence: dict[str, Evidence],
    labels: Array,
    first: Array,
    second: Array,
    third: Array,
    wanted: float,
) -> None:
    """Test a large triangle, and the cost half way along its first side."""
    middle = (first + second) / 2.0
    ways = ((first, middle), (middle, second), (second, third), (third, first))
    parts = [work(function, labels, *ends, wanted) for ends in ways]
    loop = parts[0] + parts[1] + parts[2] + parts[3]

    def to(end: Array) -> str:
        return "(" + ", ".join(f"{value:.6g}" for value in end) + ")"

    note = f"to {to(second)}, {to(third)} and back: work {loop.value:.6g}"
    evidence["paths"].add(place(abs(loop.value), loop.error, loop.scale, labels, first, (), note))
    # The cost falls by the work done: C(m) - (C(a) + C(b)) / 2 = (second half's - first's) / 2.
    above = parts[1] - parts[0]
    evidence["midpoints"].add(
        place(
            above.value / 2.0,
            above.error / 2.0,
            above.scale / 2.0,
            labels,
            first,
            (),
            f"half way to {to(second)} the cost is {above.value / 2.0:.6g} above the mean",
        )
    )
