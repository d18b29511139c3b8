r"""The diagonal regulariser, and how much of it makes a cost convex.

Burges (2005) adds :math:`\alpha s_i` to lambda_i, "a positive constant along the diagonal of the
Hessian". With lambda = -dC that takes the other sign: :math:`\lambda_i - \alpha s_i`, the force of
the cost :math:`C + \alpha |s|^2 / 2`. It keeps J symmetric, and makes no cost where there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.laboratory.lambdas.evidence import SAFETY
from lmtune.laboratory.lambdas.examination import Examination
from lmtune.reranking.losses.lambda_functions import CheckedFunction, LambdaFunction, checked

Array = NDArray[np.float64]


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


def needed_alpha(found: Examination) -> Regulariser:
    """Tell how much regularisation makes an examined cost convex.

    The smallest eigenvalue says it for smooth lambdas. Where lambdas jump the wrong way, so that
    the cost has a ridge, its slope falls by a finite amount over no distance, and no finite alpha
    makes up for that. More places may ask for more.

    Parameters
    ----------
    found : Examination
        What `examine` returned.
    """
    if found.has_cost == "no":
        return Regulariser(math.nan, "There is no cost.")
    kinks, curvature = found.evidence["kinks"], found.evidence["curvature"]
    if kinks.outcome == "violated":
        assert kinks.worst is not None
        return Regulariser(
            math.inf,
            "No finite alpha will do: across a tie the cost's slope falls by "
            f"{kinks.worst.violation:.3g} at once ({kinks.worst.where()}).",
        )
    worst = found.lowest
    if worst is None or curvature.outcome != "violated":
        return Regulariser(0.0, "No eigenvalue is below 0 at the examined places.")
    rounded_up = worst.violation + SAFETY * worst.error
    return Regulariser(rounded_up, f"The smallest eigenvalue is {-worst.violation:.6g}.")
