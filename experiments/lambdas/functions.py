"""Lambda-functions and their costs, and the examined functions by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

from experiments.lambdas import examples
from lmtune.losses.lambda_functions import LambdaFunction

Array = NDArray[np.float64]


def margin(delta: float = 1.0) -> LambdaFunction:
    r"""Return the margin example, over all pairs.

    With :math:`x = s_i - s_j`, a pair with y_i > y_j pushes i up and j down with

    .. math:: f(x) = 1\ (x < 0), \quad \delta - x\ (0 \le x \le \delta), \quad 0\ (x > \delta)

    which for two documents is equations 4 to 6 of Burges (2005). `margin_cost` is its cost.

    Parameters
    ----------
    delta : float
        The margin, 0 or more; below 0 the equations are inconsistent.
    """

    def force(x: Array) -> Array:
        return np.where(x < 0.0, 1.0, np.where(x <= delta, delta - x, 0.0))

    return lambda scores, labels: pair_forces(force, scores, labels)


def margin_cost(scores: Array, labels: Array, delta: float = 1.0) -> float:
    """Return the margin example's cost, equations 7 to 9 of Burges (2005), over all pairs."""
    x, better = _pairs(scores, labels)
    cost = np.where(x < 0, -x, np.where(x <= delta, x * x / 2 - delta * x, -delta * delta / 2))
    return float(cost[better].sum())


def ranknet(sigma: float = 1.0) -> LambdaFunction:
    """Return RankNet's lambdas: the negative gradient of `ranknet_cost`.

    Parameters
    ----------
    sigma : float
        Steepness; above 0.
    """
    return lambda scores, labels: pair_forces(lambda x: sigma * expit(-sigma * x), scores, labels)


def ranknet_cost(scores: Array, labels: Array, sigma: float = 1.0) -> float:
    """Return the sum over pairs y_i > y_j of ln(1 + exp(-sigma (s_i - s_j)))."""
    x, better = _pairs(scores, labels)
    return float(np.logaddexp(0.0, -sigma * x)[better].sum())


def lambdarank(k: int | None = None, sigma: float = 1.0) -> LambdaFunction:
    """Return LambdaRank's lambdas, as in `lmtune.losses.lambdarank`.

    RankNet's force of each pair is multiplied by the change in nDCG@k when the two swap ranks.

    Parameters
    ----------
    k : int, optional
        Truncation; none by default.
    sigma : float
        Steepness; above 0.
    """

    def lambdas(scores: Array, labels: Array) -> Array:
        x, better = _pairs(scores, labels)
        force = better * swap_values(scores, labels, k) * sigma * expit(-sigma * x)
        total: Array = force.sum(axis=1) - force.sum(axis=0)
        return total

    return lambdas


def listnet() -> LambdaFunction:
    """Return ListNet's lambdas: softmax of the labels minus softmax of the scores."""
    return lambda scores, labels: softmax(labels) - softmax(scores)


def listnet_cost(scores: Array, labels: Array) -> float:
    """Return ListNet's top-one cross-entropy."""
    return float(-(softmax(labels) * log_softmax(scores)).sum())


def constant_pairs() -> LambdaFunction:
    """Return a force of 1 between the documents of each wrongly ordered pair.

    Piecewise constant; the cost is the sum of max(0, s_j - s_i) over y_i > y_j.
    """
    return lambda scores, labels: pair_forces(lambda x: (x < 0.0).astype(np.float64), scores, labels)


def by_rank(direction: float = 1.0) -> LambdaFunction:
    """Return forces that depend only on a document's rank, not on its label.

    lambda_i = direction (r_i - (n + 1) / 2). Direction 1 pushes low documents up and high ones down;
    direction -1 pushes them apart. Piecewise constant; the cost is -direction times the sum over ranks r of
    (r - (n + 1) / 2) s_(r).
    """

    def lambdas(scores: Array, labels: Array) -> Array:
        return direction * (ranks(scores, labels) - (scores.size + 1) / 2)

    return lambdas


def gain_by_rank() -> LambdaFunction:
    """Return forces that depend on a document's label and rank: G_i (1 - D(r_i)), centred.

    Relevant documents are pushed up, more strongly at lower ranks. Piecewise constant, without a cost: when
    two documents with different labels swap, the forces on them do not change by opposite amounts.
    """

    def lambdas(scores: Array, labels: Array) -> Array:
        force = gains(labels) * (1.0 - discount(ranks(scores, labels)))
        centred: Array = force - force.mean()
        return centred

    return lambdas


def pair_forces(force: Callable[[Array], Array], scores: Array, labels: Array) -> Array:
    """Sum forces over pairs with y_i > y_j: up on i, down on j.

    Parameters
    ----------
    force : callable
        Maps an array of s_i - s_j to forces of the same shape.
    scores, labels : numpy.ndarray, shape (documents,)
    """
    x, better = _pairs(scores, labels)
    forces = better * force(x)
    total: Array = forces.sum(axis=1) - forces.sum(axis=0)
    return total


def ranks(scores: Array, labels: Array) -> Array:
    """Rank documents by score, 1 the best.

    Of equal scores the less relevant come first. Documents equal in both have their mean rank, as in
    `lmtune.losses`.
    """
    equal = scores[None, :] == scores[:, None]
    before = (scores[None, :] > scores[:, None]) | (equal & (labels[None, :] < labels[:, None]))
    tied = equal & (labels[None, :] == labels[:, None])
    rank: Array = 0.5 + before.sum(axis=1) + 0.5 * tied.sum(axis=1)
    return rank


def swap_values(scores: Array, labels: Array, k: int | None = None) -> Array:
    """Return the absolute change in nDCG@k when documents i and j swap, shape (n, n)."""
    gain, discounts = gains(labels), discount(ranks(scores, labels), k)
    ideal = float((np.sort(gain)[::-1] * discount(np.arange(1.0, gain.size + 1), k)).sum())
    weights: Array = np.abs((gain[:, None] - gain[None, :]) * (discounts[:, None] - discounts[None, :]))
    return weights / ideal if ideal > 0.0 else weights


def gains(labels: Array) -> Array:
    """Return 2^y - 1."""
    gain: Array = np.exp2(labels) - 1.0
    return gain


def discount(rank: Array, k: int | None = None) -> Array:
    """Return 1 / log2(1 + rank), 0 beyond rank k."""
    return np.where(rank <= (np.inf if k is None else k), 1.0 / np.log2(1.0 + rank), 0.0)


def _pairs(scores: Array, labels: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return s_i - s_j, and a mask of y_i > y_j."""
    return scores[:, None] - scores[None, :], labels[:, None] > labels[None, :]


Cost = Callable[[Array, Array], float]


@dataclass(frozen=True)
class Known:
    """A lambda-function, and its known cost.

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
    return Known(margin(delta), lambda scores, labels: margin_cost(scores, labels, delta))


def _by_rank(direction: float) -> Known:
    def cost(scores: Array, labels: Array) -> float:
        del labels
        rank = np.arange(1, scores.size + 1) - (scores.size + 1) / 2
        return float(-direction * (np.sort(scores)[::-1] @ rank))

    return Known(by_rank(direction), cost)


BUILTIN: dict[str, Known] = {
    "margin 0.5": _margin(0.5),
    "margin 1": _margin(1.0),
    "margin 2": _margin(2.0),
    "ranknet": Known(ranknet(), ranknet_cost),
    "listnet": Known(listnet(), listnet_cost),
    "lambdarank": Known(lambdarank()),
    "lambdarank@1": Known(lambdarank(1)),
    "lambdarank@3": Known(lambdarank(3)),
    "constant pairs": Known(constant_pairs()),
    "by rank": _by_rank(1.0),
    "by rank, reversed": _by_rank(-1.0),
    "gain by rank": Known(gain_by_rank()),
    "winner": Known(examples.winner),
    "soft_errors": Known(examples.soft_errors),
    "squared_hinge": Known(examples.squared_hinge),
    "soft_swaps": Known(examples.soft_swaps),
    "swap_pull": Known(examples.swap_pull),
}
"""The last five are those of `experiments.lambdas.examples`."""
