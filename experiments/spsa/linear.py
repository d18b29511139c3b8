"""Costs and measures of a linear net, as functions of its weights."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.spsa.kernels import pair_costs, pair_slopes
from lmtune.errors import InputError
from lmtune.measures import Measurer
from lmtune.rerank import RankingData
from lmtune.tuning.gradient_free import Gains

Vector = NDArray[np.float64]

_STABILITY, _ALPHA = 0.1, 0.602


class LinearRankNet:
    r"""RankNet's cost of a linear net, :math:`s_i = w \cdot x_i`, as a function of its weights.

    .. math:: C(w) = \frac{1}{|P|} \sum_{(i, j) \in P} \ln\left(1 + e^{-(s_i - s_j)}\right)

    in nats, over the pairs P of one query's documents of which i has the higher label (Burges et
    al. 2005; Yue and Burges 2007, section 5.1). The mean is over all pairs, so long lists have more weight.

    Parameters
    ----------
    data : RankingData
        Queries; queries with only one label have no pair.

    Attributes
    ----------
    features : int
        Weights of the net.
    pairs : int
        Pairs in the cost.

    Raises
    ------
    InputError
        If there is no pair.
    """

    def __init__(self, data: RankingData) -> None:
        order = np.lexsort((-data.labels, data.query_of_row))
        self._x = np.ascontiguousarray(data.features[order], np.float32)
        labels = data.labels[order]
        self._starts = data.starts
        self._below = np.empty(order.size, np.int64)
        for q in range(len(data.queries)):
            rows = data.rows(q)
            rising = -labels[rows]
            self._below[rows] = rows.start + np.searchsorted(rising, rising, side="right")
        ends = np.repeat(data.starts[1:], data.lengths)
        self.features = self._x.shape[1]
        self.pairs = int((ends - self._below).sum())
        if not self.pairs:
            raise InputError(
                "no pair of documents with different labels", accepted="a query with different labels"
            )

    def costs(self, points: ArrayLike) -> Vector:
        """Return the cost at points.

        Scores are computed in single precision, as in nets, and summed in double precision.

        Parameters
        ----------
        points : array_like of float, shape (points, features)

        Returns
        -------
        numpy.ndarray of float64, shape (points,)
        """
        return self._costs(np.asarray(points, np.float32) @ self._x.T)

    def exact_costs(self, points: ArrayLike) -> Vector:
        """Return the cost with scores in double precision, for differences over small steps."""
        return self._costs(np.asarray(points, np.float64) @ self._x.T.astype(np.float64))

    def _costs(self, scores: NDArray[np.floating]) -> Vector:
        out = np.empty(scores.shape[0])
        pair_costs(scores.astype(np.float64), self._starts, self._below, out)
        return out / self.pairs

    def gradient(self, w: ArrayLike) -> Vector:
        r"""Return the gradient of the cost, in closed form.

        .. math:: \nabla C = \frac{1}{|P|} \sum_{(i, j) \in P} \frac{x_j - x_i}{1 + e^{s_i - s_j}}
        """
        x = self._x.astype(np.float64)
        slopes = np.empty(x.shape[0])
        pair_slopes(x @ np.asarray(w, np.float64), self._starts, self._below, slopes)
        gradient: Vector = slopes @ x / self.pairs
        return gradient


class LinearMeasure:
    """A measure of a linear net's rankings, as a function of its weights.

    Parameters
    ----------
    data : RankingData
        Queries.
    measure : str
        A name for `lmtune.measures.measure.parse_list_measure`.

    Attributes
    ----------
    features : int
        Weights of the net.
    """

    def __init__(self, data: RankingData, measure: str) -> None:
        self._x = np.ascontiguousarray(data.features, np.float32)
        self._measurer = Measurer(measure, data)
        self.features = self._x.shape[1]

    def means(self, points: ArrayLike) -> Vector:
        """Return the mean over queries at points, (points, features) to (points,)."""
        return self._measurer.means(np.asarray(points, np.float32) @ self._x.T)

    def values(self, point: ArrayLike) -> Vector:
        """Return each query's value at a point; NaN for queries that do not count."""
        return self._measurer.values(self._x @ np.asarray(point, np.float32))


def first_weights(features: int, seed: int, run: int) -> NDArray[np.float64]:
    """Draw initial weights as for linear layers: uniform in +-1 / sqrt(features)."""
    edge = 1.0 / math.sqrt(features)
    return np.random.default_rng([seed, run]).uniform(-edge, edge, (features,))


def gains_of(rate: float, width: float, steps: int) -> Gains:
    """Return gains with this initial rate and width, and a stability constant of a tenth of the steps."""
    stability = _STABILITY * steps
    return Gains(rate * (stability + 1.0) ** _ALPHA, width, stability)
