"""Clicks as labels: how likely users examine each position, and what a click there is to weigh."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError


def estimate_propensities(clicks: ArrayLike, positions: ArrayLike) -> NDArray[np.float64]:
    r"""Estimate how likely users examine each position, relative to the first.

    .. math:: \hat p_k = \frac{C_k / N_k}{C_1 / N_1}

    for N clicks and impressions at each position: the ratio of click-through rates. It is right where what
    stands at a position was drawn at random, of results shuffled or swapped for the purpose; of an ordinary
    log it is too low further down, where less is relevant.

    Parameters
    ----------
    clicks : array_like, shape (impressions,)
        1 or True where a shown document was clicked, else 0.
    positions : array_like of int, shape (impressions,)
        Where it was shown; 1 is the first.

    Returns
    -------
    numpy.ndarray of float64, shape (deepest position,)
        1 at the first position; 0 where nothing was clicked, and by chance it may be above 1.

    Raises
    ------
    InputError
        For shapes that differ, values out of range, a position at which nothing was shown, and no click at
        the first.

    Notes
    -----
    Joachims, Swaminathan and Schnabel, Unbiased Learning-to-Rank with Biased Feedback, WSDM 2017, of swaps;
    Wang et al., Learning to Rank with Selection Bias in Personal Search, SIGIR 2016, of results shuffled.

    Examples
    --------
    >>> estimate_propensities([1, 1, 1, 0], [1, 1, 2, 2]).tolist()
    [1.0, 0.5]
    """
    clicked, place = np.asarray(clicks), _whole(positions)
    if clicked.shape != place.shape or place.ndim != 1 or not place.size:
        raise InputError(
            "clicks and positions differ in shape",
            value=(clicked.shape, place.shape),
            accepted="as many of both, of shape (impressions,)",
        )
    wrong = (clicked != 0) & (clicked != 1)
    if wrong.any():
        raise InputError("bad click", value=clicked[wrong][0].item(), accepted="0, 1")
    shown = np.bincount(place - 1)
    if not shown.all():
        raise InputError("nothing was shown at a position", value=int(np.argmin(shown != 0)) + 1)
    rates = np.bincount(place - 1, weights=clicked) / shown
    if rates[0] == 0:
        raise InputError("no click at the first position", value=int(shown[0]), accepted="a log with one")
    relative: NDArray[np.float64] = rates / rates[0]
    return relative


def propensity_weights(
    positions: ArrayLike, propensities: ArrayLike, *, clip: float = 0.0
) -> NDArray[np.float64]:
    r"""Return what a click at each position weighs, :math:`1 / \max(p, \tau)`.

    Clicks times these are labels. A loss that is a sum over items of label times a cost which depends on
    the scores alone, and is 0 of a list without a click, has in expectation over clicks the value that it has
    of relevance, if a document is clicked exactly where it is examined, with probability p, and relevant.
    Such are ``listnet(..., target="labels")`` and ``ranknet(..., pairs="all")``, with ``reduce="sum"`` (the
    mean is over lists with a click, whose number is random).

    Parameters
    ----------
    positions : array_like of int
        Where documents were shown; 1 is the first.
    propensities : array_like, shape (deepest position,)
        p of each position, as of `estimate_propensities`.
    clip : float
        :math:`\tau`, at least 0: above 0 it bounds the weights and so their variance, at the price of a bias
        where propensities are lower.

    Returns
    -------
    numpy.ndarray of float64, of the positions' shape

    Raises
    ------
    InputError
        For values out of range, a position without a propensity, or one of 0 that nothing clips.

    Notes
    -----
    Joachims, Swaminathan and Schnabel, Unbiased Learning-to-Rank with Biased Feedback, WSDM 2017. Weights as
    those of Rax's and TF-Ranking's softmax losses, which multiply labels too; their pairwise losses are over
    pairs of a click and none, of which this does not hold.

    Examples
    --------
    >>> propensity_weights([1, 2, 3], [1.0, 0.5, 0.01], clip=0.1).tolist()
    [1.0, 2.0, 10.0]
    """
    place, propensity = _whole(positions), np.asarray(propensities, np.float64)
    if not 0 <= clip < np.inf:
        raise InputError("bad clip", value=clip, accepted="0 or more")
    if propensity.ndim != 1 or (place > propensity.size).any():
        value = int(place.max(initial=0))
        raise InputError("a position without a propensity", value=value, accepted=f"1 to {propensity.size}")
    clipped = np.maximum(propensity, clip)[place - 1]
    wrong = ~((clipped > 0) & np.isfinite(clipped))
    if wrong.any():
        raise InputError("bad propensity", value=clipped[wrong][0].item(), accepted="above 0, or a clip")
    weights: NDArray[np.float64] = 1 / clipped
    return weights


def _whole(positions: ArrayLike) -> NDArray[np.integer]:
    place = np.asarray(positions)
    if place.dtype.kind not in "iu":
        raise InputError("bad positions", value=str(place.dtype), accepted="whole numbers, 1 the first")
    if (place < 1).any():
        raise InputError("bad position", value=int(place.min()), accepted="1, the first, and up")
    return place
