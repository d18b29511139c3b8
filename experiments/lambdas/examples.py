"""Five lambda-functions to start from: copy this file, change one, and examine it.

    python -m experiments.lambdas --function my_lambdas.py:my_function --output results
    lmtune rerank train LETOR_DIR --loss lambdas:my_lambdas.py:my_function --output model

A lambda-function takes the scores and the labels (grades, 0 for not relevant) of one query's documents, NumPy
arrays of shape (documents,), and returns an array of the same shape. lambda_i is the force on document i; a
positive force pushes its score up. Results must be finite and deterministic. If there is a cost C, then
lambda_i = -dC/ds_i.

Results of the examination:

- winner: a cost, not convex; piecewise constant; a ridge where two winners tie
- soft_errors: a cost, not convex; smooth; flat for pairs far from the right order
- squared_hinge: a cost, convex; smooth except for harmless kinks
- soft_swaps: no cost; smooth, but the effects of i on j and j on i differ
- swap_pull: no cost; constant in each ranking; rankings disagree at ties
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def winner(scores: Array, labels: Array) -> Array:
    """Push the best relevant document up and a non-relevant winner down.

    The cost is max(0, highest non-relevant score - highest relevant score), for "winner takes all". The
    maximum over relevant documents makes it concave where two of them tie.
    """
    relevant = labels > 0
    lambdas = np.zeros(scores.size)
    if relevant.any() and not relevant.all():
        first = np.argmax(np.where(relevant, scores, -np.inf))
        rival = np.argmax(np.where(relevant, -np.inf, scores))
        if scores[rival] > scores[first]:
            lambdas[first], lambdas[rival] = 1.0, -1.0
    return lambdas


def soft_errors(scores: Array, labels: Array) -> Array:
    """Count wrongly ordered pairs smoothly: the cost is the sum of sigmoid(s_j - s_i), y_i > y_j.

    Pairs far from the right order have little effect, so the cost is robust, but not convex.
    """
    wrong = 1.0 / (1.0 + np.exp(scores[:, None] - scores[None, :]))
    return _up_and_down(wrong * (1.0 - wrong), labels)


def squared_hinge(scores: Array, labels: Array) -> Array:
    """Require a margin of 1: the cost is the sum of max(0, 1 - (s_i - s_j))^2 / 2, y_i > y_j."""
    return _up_and_down(np.maximum(0.0, 1.0 - (scores[:, None] - scores[None, :])), labels)


def soft_swaps(scores: Array, labels: Array) -> Array:
    """Weight RankNet's pairs as LambdaRank, with smooth ranks instead of true ones.

    The weights do not jump. But the score of a third document changes the ranks of a pair and therefore its
    forces, without a reaction on that document.
    """
    wrong = 1.0 / (1.0 + np.exp(scores[:, None] - scores[None, :]))
    rank = 0.5 + wrong.sum(axis=1)
    gain, discount = 2.0**labels - 1.0, 1.0 / np.log2(1.0 + rank)
    worth = (gain[:, None] - gain[None, :]) * np.abs(discount[:, None] - discount[None, :])
    return _up_and_down(worth * wrong, labels)


def swap_pull(scores: Array, labels: Array) -> Array:
    """Pull each wrongly ordered pair together by the gain in DCG of swapping it.

    The forces are constant within a ranking, so the Jacobian is 0 there. At a tie the forces on third
    documents jump.
    """
    order = np.argsort(-scores, kind="stable")
    rank = np.empty(scores.size)
    rank[order] = np.arange(1, scores.size + 1)
    gain, discount = 2.0**labels - 1.0, 1.0 / np.log2(1.0 + rank)
    worth = (gain[:, None] - gain[None, :]) * (discount[None, :] - discount[:, None])
    return _up_and_down(np.maximum(worth, 0.0), labels)


def _up_and_down(forces: Array, labels: Array) -> Array:
    """Sum forces[i, j] over pairs with y_i > y_j: up on i, down on j."""
    forces = np.where(labels[:, None] > labels[None, :], forces, 0.0)
    total: Array = forces.sum(axis=1) - forces.sum(axis=0)
    return total
