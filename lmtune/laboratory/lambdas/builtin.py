"""The lambda-functions that the laboratory examines by itself, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtune.laboratory.lambdas import examples, functions
from lmtune.reranking.losses.lambda_functions import LambdaFunction

Array = NDArray[np.float64]
Cost = Callable[[Array, Array], float]


@dataclass(frozen=True)
class Known:
    """A lambda-function with what is known of it beforehand.

    Attributes
    ----------
    function : callable
        (scores, labels) -> lambdas.
    cost : callable, optional
        (scores, labels) -> its cost, in closed form.
    """

    function: LambdaFunction
    cost: Cost | None = None


def _margin(delta: float) -> Known:
    return Known(functions.margin(delta), lambda scores, labels: functions.margin_cost(scores, labels, delta))


def _by_rank(direction: float) -> Known:
    def cost(scores: Array, labels: Array) -> float:
        del labels
        place = np.arange(1, scores.size + 1) - (scores.size + 1) / 2
        return float(-direction * (np.sort(scores)[::-1] @ place))

    return Known(functions.by_rank(direction), cost)


BUILTIN: dict[str, Known] = {
    "margin 0.5": _margin(0.5),
    "margin 1": _margin(1.0),
    "margin 2": _margin(2.0),
    "ranknet": Known(functions.ranknet(), functions.ranknet_cost),
    "listnet": Known(functions.listnet(), functions.listnet_cost),
    "lambdarank": Known(functions.lambdarank()),
    "lambdarank@1": Known(functions.lambdarank(1)),
    "lambdarank@3": Known(functions.lambdarank(3)),
    "constant pairs": Known(functions.constant_pairs()),
    "by rank": _by_rank(1.0),
    "by rank, reversed": _by_rank(-1.0),
    "gain by rank": Known(functions.gain_by_rank()),
    "winner": Known(examples.winner),
    "soft_errors": Known(examples.soft_errors),
    "squared_hinge": Known(examples.squared_hinge),
    "soft_swaps": Known(examples.soft_swaps),
    "swap_pull": Known(examples.swap_pull),
}
"""The last five are those of `lmtune.laboratory.lambdas.examples`."""
