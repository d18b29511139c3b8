"""Five lambda-functions to start from: copy this file, change one, and have it examined.

    python -m experiments.lambdas --function my_lambdas.py:my_function --output results
    lmtune rerank train LETOR_DIR --loss lambdas:my_lambdas.py:my_function --output model

A lambda-function gets the scores and the labels (grades, 0 for not relevant) of one query's
documents, NumPy arrays of shape (documents,), and returns an array of the same shape: lambda_i is
the force on document i, above 0 to push its score up. It must give the same answer each time, and
finite numbers. If there is a cost C, then lambda_i = -dC/ds_i.

What the laboratory finds:

================  ==================  ======================================================
winner            a cost, not convex  piecewise constant; a ridge where two winners tie
soft_errors       a cost, not convex  smooth; flat for pairs that are far from right
squared_hinge     a cost, convex      smooth up to kinks that do no harm
soft_swaps        no cost             smooth, but i feels j otherwise than j feels i
swap_pull         no cost             constant in each ranking; the rankings do not fit together
================  ==================  ======================================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def winner(scores: Array, labels: Array) -> Array:
    """Swap the winner: push the best relevant document up and an irrelevant winner down.

    For the cost max(0, highest irrelevant score - highest relevant score), in the sense of "winner
    takes all". The maximum over relevant documents makes it concave where two of them tie.
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
    """Count wrongly ordered pairs, smoothly: the cost is the sum of sigmoid(s_j - s_i), y_i > y_j.

    Pairs that are far from the right order are hardly felt, which makes the cost robust and not
    convex.
    """
    wrong = 1.0 / (1.0 + np.exp(scores[:, None] - scores[None, :]))
    return _up_and_down(wrong * (1.0 - wrong), labels)


def squared_hinge(scores: Array, labels: Array) -> Array:
    """Ask for a margin of 1: the cost is the sum of max(0, 1 - (s_i - s_j))^2 / 2, y_i > y_j."""
    return _up_and_down(np.maximum(0.0, 1.0 - (scores[:, None] - scores[None, :])), labels)


def soft_swaps(scores: Array, labels: Array) -> Array:
    """Weigh RankNet's pairs as LambdaRank does, at smooth ranks instead of true ones.

    The weights no longer jump; but a third document's score changes the ranks of a pair and so the
    force within it, and nothing pushes back on that document.
    """
    wrong = 1.0 / (1.0 + np.exp(scores[:, None] - scores[None, :]))
    rank = 0.5 + wrong.sum(axis=1)
    gain, discount = 2.0**labels - 1.0, 1.0 / np.log2(1.0 + rank)
    worth = (gain[:, None] - gain[None, :]) * np.abs(discount[:, None] - discount[None, :])
    return _up_and_down(worth * wrong, labels)


def swap_pull(scores: Array, labels: Array) -> Array:
    """Pull each wrongly ordered pair together as hard as swapping it would raise DCG.

    Constant within a ranking, so that the Jacobian is 0 there; but at a tie the forces on third
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
