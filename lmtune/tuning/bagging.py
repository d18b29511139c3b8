"""Bagging: the mean of the best grid settings of resampled topics."""

from __future__ import annotations

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.measures.measure import Measure
from lmtune.tuning.direct import Surface
from lmtune.tuning.space import ParameterSpace

RESAMPLES = 200
_ROUNDING = 1e-12


def bagged_setting(
    surface: Surface, measure: Measure, topics: Integers, space: ParameterSpace, *, seed: int = 0
) -> Doubles:
    """Return the mean of the best settings of `RESAMPLES` bootstrap samples of topics.

    The values of the grid suffice; no setting is measured. With few topics the best setting of a sample
    varies much, and the mean varies less (L. Breiman, Bagging predictors, Machine Learning 24, 1996).

    Parameters
    ----------
    surface : Surface
        The grid, with weights of topics if they count differently.
    measure : Measure
        One of the surface's measures.
    topics : numpy.ndarray of int64, shape (topics,)
        Positions of the training topics in the pool.
    space : ParameterSpace
        The space of the setting. Parameters on the scale ``"log"`` are averaged in the logarithm.
    seed : int
        Seed of the resamples.

    Returns
    -------
    numpy.ndarray of float64, shape (parameters,)
        The setting. Where several settings are best in a sample, each counts with an equal part.
    """
    values = surface.values[topics, :, surface.measures.index(measure)]
    size = len(topics)
    counts = np.random.default_rng(seed).multinomial(size, np.full(size, 1.0 / size), RESAMPLES)
    weights = counts if surface.weights is None else counts * surface.weights[topics]
    sums = weights @ values
    best = sums >= sums.max(axis=1, keepdims=True) * (1.0 - _ROUNDING)
    parts = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    columns = zip(space.parameters, surface.settings.T, strict=True)
    return space.clip([parameter.mean(column, parts) for parameter, column in columns])
