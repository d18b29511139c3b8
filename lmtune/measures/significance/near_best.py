"""Multiple comparisons with the best: settings that are proven to be nearly as good as the best one."""

from __future__ import annotations

import math

import numpy as np

from lmtune.arrays import Doubles
from lmtune.measures.significance.tests import LEVEL

MARGIN = 0.01
"""The default margin of near-optimal settings, in the unit of the measure."""

_RESAMPLES = 1000
# Below this share of the largest standard error, a standard error of a difference counts as 0: single
# precision cannot resolve it.
_RESOLUTION, _ROUNDING = 1e-5, 1e-12
# A setting that is worse than another by this multiple of the first quantile needs no quantile of its own.
_FAR = 2.0


def loss_bounds(values: Doubles, *, level: float = LEVEL, seed: int = 0) -> Doubles:
    """Bound the loss of each setting against the best one, for all settings at once.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (topics, settings)
        The measure of each topic at each setting.
    level : float
        All bounds hold together with probability 1 - level; in (0, 0.5).
    seed : int
        Seed of the resamples of topics.

    Returns
    -------
    numpy.ndarray of float64, shape (settings,)
        Upper bounds of the best setting's expected value minus the setting's own, 0 or more; infinite with
        fewer than two topics.

    Notes
    -----
    Multiple comparisons with the best (J. Hsu, Simultaneous confidence intervals for all distances from the
    "best", The Annals of Statistics 9, 1981). Let e_ij be the error of the mean difference of settings i and
    j, and s_ij its standard error. For each j, d_j is the quantile 1 - level of max_i e_ij / s_ij. If j is
    best, mean_j - mean_i + d_j s_ij bounds the losses of all i. A bound is the largest over all j that may
    be best: those with mean_i - mean_j <= d_j s_ij for all i. The quantiles come from bootstrap samples
    of topics, and are converted from the normal to Student's t distribution.
    """
    from scipy.special import ndtr, stdtrit

    topics, settings = values.shape
    if topics < 2:
        return np.full(settings, math.inf)
    means = values.mean(axis=0)
    centred = values - means
    covariance = centred.T @ centred / (topics * (topics - 1.0))
    variances = covariance.diagonal()
    least = max(_RESOLUTION * math.sqrt(variances.max()), _ROUNDING)
    draws = np.random.default_rng(seed).multinomial(topics, np.full(topics, 1.0 / topics), _RESAMPLES)
    # The variance of resampled means is too small by (topics - 1) / topics.
    errors = (centred.T @ draws.T / math.sqrt(topics * (topics - 1.0))).astype(np.float32)
    apart, rank = np.empty_like(errors), math.ceil((1.0 - level) * _RESAMPLES)
    bounds, most = np.zeros(settings), 0.0
    for best in np.argsort(-means, kind="stable").tolist():
        deviation = np.sqrt(np.maximum(variances + variances[best] - 2.0 * covariance[best], 0.0))
        deviation[deviation <= least] = 0.0
        lead = means[best] - means
        if (lead + most * deviation < -least).any():
            continue
        inverse = np.divide(1.0, deviation, out=np.zeros(settings), where=deviation > 0.0)
        np.subtract(errors, errors[best], out=apart)
        np.multiply(apart, inverse.astype(np.float32)[:, None], out=apart)
        quantile = -stdtrit(topics - 1, ndtr(-np.partition(apart.max(axis=0), rank)[rank]))
        most = most or _FAR * quantile
        if (lead + quantile * deviation >= -least).all():
            np.maximum(bounds, lead + quantile * deviation, out=bounds)
    return bounds
