"""Unbiased learning from clicks: position propensities and inverse propensity weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError


def estimate_propensities(
    clicks: ArrayLike, positions: ArrayLike, swapped: ArrayLike | None = None
) -> NDArray[np.float64]:
    r"""Estimate the examination propensity of each position, relative to the first.

    .. math:: \hat p_k = \frac{C_k / N_k}{C_1 / N_1}

    for :math:`C_k` clicks and :math:`N_k` impressions at position k: the ratio of click-through rates. The
    estimate is consistent if results were shuffled. From an ordinary log it is too low at deep positions,
    where fewer documents are relevant. If the first result was swapped with that at position k at random, the
    ratio is computed within the impressions of this swap.

    Parameters
    ----------
    clicks : array_like, shape (impressions,)
        1 or True if the shown document was clicked, else 0.
    positions : array_like of int, shape (impressions,)
        The document's position; 1 is the first.
    swapped : array_like of int, shape (impressions,), optional
        The position k, 2 or more, whose result was swapped with the first with probability 1/2, in this
        impression or not. Only impressions at positions 1 and k count.

    Returns
    -------
    numpy.ndarray of float64, shape (deepest position,)
        1 at the first position, 0 at positions without clicks. Estimates can exceed 1 by chance.

    Raises
    ------
    InputError
        If shapes differ, a value is out of range, a position has no impressions, or the first position has
        no clicks (with `swapped`: of a swap).

    Notes
    -----
    Swaps: Joachims, Swaminathan and Schnabel, Unbiased Learning-to-Rank with Biased Feedback, WSDM 2017.
    Shuffled results: Wang et al., Learning to Rank with Selection Bias in Personal Search, SIGIR 2016.

    Examples
    --------
    >>> estimate_propensities([1, 1, 1, 0], [1, 1, 2, 2]).tolist()
    [1.0, 0.5]
    """
    clicked, position = np.asarray(clicks), _checked_positions(positions)
    if clicked.shape != position.shape or position.ndim != 1 or not position.size:
        raise InputError(
            "clicks and positions differ in shape",
            value=(clicked.shape, position.shape),
            accepted="the same shape, (impressions,)",
        )
    wrong = (clicked != 0) & (clicked != 1)
    if wrong.any():
        raise InputError("bad click", value=clicked[wrong][0].item(), accepted="0, 1")
    if swapped is not None:
        partner = _checked_positions(swapped)
        if partner.shape != position.shape or (partner < 2).any():
            raise InputError("bad swapped positions", accepted="one for each impression, 2 or more")
        both = (position == 1) | (position == partner)
        ratios = [1.0]
        for k in range(2, int(partner.max()) + 1):
            part = both & (partner == k)
            if not (part & (position == k)).any():
                raise InputError("a position without impressions of its swap", value=k)
            ratios.append(estimate_propensities(clicked[part], np.where(position[part] == 1, 1, 2))[1])
        return np.array(ratios)
    shown = np.bincount(position - 1)
    if not shown.all():
        raise InputError("a position without impressions", value=int(np.argmin(shown != 0)) + 1)
    rates = np.bincount(position - 1, weights=clicked) / shown
    if rates[0] == 0:
        raise InputError(
            f"no click at the first position, of {int(shown[0])} impressions", accepted="one at least"
        )
    relative: NDArray[np.float64] = rates / rates[0]
    return relative


def propensity_weights(
    positions: ArrayLike, propensities: ArrayLike, *, clip: float = 0.0
) -> NDArray[np.float64]:
    r"""Return the inverse propensity weight of a click at each position, :math:`1 / \max(p, \tau)`.

    Use clicks times weights as labels. The loss is then an unbiased estimate of the loss on relevance if

    - it is a sum over items of the label times a cost that depends only on the scores,
    - it is 0 for a list without clicks, and
    - a document is clicked exactly if it is examined, with probability p, and relevant.

    ``listnet(..., target="labels")`` and ``ranknet(..., pairs="all")`` are such losses with ``reduce="sum"``.
    ``reduce="mean"`` divides by the random number of lists with a click.

    Parameters
    ----------
    positions : array_like of int
        Positions of the documents; 1 is the first.
    propensities : array_like, shape (deepest position,)
        p of each position, for example from `estimate_propensities`.
    clip : float
        :math:`\tau`, at least 0. Clipping bounds the weights and so their variance, but adds a bias at
        positions with lower propensities.

    Returns
    -------
    numpy.ndarray of float64, of the positions' shape

    Raises
    ------
    InputError
        If a value is out of range, a position has no propensity, or a propensity is 0 and not clipped.

    Notes
    -----
    Joachims, Swaminathan and Schnabel, Unbiased Learning-to-Rank with Biased Feedback, WSDM 2017. Rax's and
    TF-Ranking's softmax losses multiply labels by weights in the same way. Their pairwise losses compare
    clicked with unclicked documents, and are not unbiased in this sense.

    Examples
    --------
    >>> propensity_weights([1, 2, 3], [1.0, 0.5, 0.01], clip=0.1).tolist()
    [1.0, 2.0, 10.0]
    """
    position, propensity = _checked_positions(positions), np.asarray(propensities, np.float64)
    if not 0 <= clip < np.inf:
        raise InputError("bad clip", value=clip, accepted="0 or more")
    if propensity.ndim != 1 or (position > propensity.size).any():
        value = int(position.max(initial=0))
        raise InputError("a position without a propensity", value=value, accepted=f"1 to {propensity.size}")
    clipped = np.maximum(propensity, clip)[position - 1]
    wrong = ~((clipped > 0) & np.isfinite(clipped))
    if wrong.any():
        raise InputError(
            "bad propensity", value=clipped[wrong][0].item(), accepted="above 0, or clip above 0"
        )
    weights: NDArray[np.float64] = 1 / clipped
    return weights


def _checked_positions(positions: ArrayLike) -> NDArray[np.integer]:
    position = np.asarray(positions)
    if position.dtype.kind not in "iu":
        raise InputError("bad positions", value=str(position.dtype), accepted="integers from 1")
    if (position < 1).any():
        raise InputError("bad position", value=int(position.min()), accepted="1 or more; 1 is the first")
    return position
