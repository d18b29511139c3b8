"""A trained network as a point in the space of its weights, and a ranking measure of that point.

Networks are trained in single precision; here their weights are the point's coordinates in double
precision, and all scores are computed so. A ranking then depends on the weights alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.measures.lists import Measurer
from lmtune.measures.measure import Measure
from lmtune.reranking.data import RankingData

Vector = NDArray[np.float64]

NETWORKS = ("linear", "two-layer")
"""The networks that can be laid out flat: Yue and Burges's (2007)."""


@dataclass(frozen=True, eq=False)
class FlatNetwork:
    """The weights of a linear or two-layer network in one vector.

    A linear network's are one a feature. A two-layer network's are those of its hidden units one
    unit after the other, the units' biases, and those from the hidden units to the score.

    Attributes
    ----------
    features : int
        What the network takes.
    hidden : int
        Hidden tanh units; 0 for a linear network.
    point : numpy.ndarray of float64, shape (weights,)
        The weights.
    """

    features: int
    hidden: int
    point: Vector

    @classmethod
    def from_weights(cls, weights: Mapping[str, Any]) -> FlatNetwork:
        """Lay out the weights of a network that was trained on features.

        Raises
        ------
        InputError
            For a network of another kind.
        """
        arrays = {name: np.asarray(value, np.float64) for name, value in weights.items()}
        if set(arrays) == {"body.0.weight"}:
            flat = arrays["body.0.weight"].ravel()
            return cls(flat.size, 0, flat)
        if set(arrays) == {"body.0.weight", "body.0.bias", "body.2.weight"}:
            first, bias, last = (arrays["body.0.weight"], arrays["body.0.bias"], arrays["body.2.weight"])
            if last.shape == (1, first.shape[0]):
                flat = np.concatenate((first.ravel(), bias, last.ravel()))
                return cls(first.shape[1], first.shape[0], flat)
        raise InputError("the network cannot be laid out flat", accepted=", ".join(NETWORKS))

    @property
    def first(self) -> slice:
        """Where the weights from the features stand."""
        return slice(0, self.features * max(self.hidden, 1))

    @property
    def biases(self) -> slice:
        """Where the hidden units' biases stand; empty for a linear network."""
        return slice(self.first.stop, self.first.stop + self.hidden)

    @property
    def last(self) -> slice:
        """Where the weights that the score is linear in stand: a linear network's are all."""
        return slice(self.biases.stop, self.point.size) if self.hidden else self.first

    def scale(self) -> Vector:
        r"""Return what a step of 1 is worth in each weight, by layers.

        The weights of a layer (a hidden layer's with its biases) share one scale, their norm times
        :math:`\sqrt{d/n}`, where n of all d weights are the layer's. A direction that is uniform
        on the sphere thus moves each layer by its own norm, in the mean of squares, at step 1: a
        step is relative, and no layer's unit of measure matters. A linear network's scale is its
        norm; only the direction of its weights matters to rankings.
        """
        scale = np.empty(self.point.size)
        layers = [self.last] if not self.hidden else [slice(0, self.biases.stop), self.last]
        for layer in layers:
            part = self.point[layer]
            scale[layer] = np.sqrt((part**2).sum() * self.point.size / part.size)
        return scale

    def name(self, weight: int) -> str:
        """Name a weight: ``feature 3``, ``unit 2 feature 3``, ``bias 2``, ``output 2``; from 1."""
        if not self.hidden:
            return f"feature {weight + 1}"
        if weight < self.biases.start:
            return f"unit {weight // self.features + 1} feature {weight % self.features + 1}"
        if weight < self.last.start:
            return f"bias {weight - self.biases.start + 1}"
        return f"output {weight - self.last.start + 1}"


class NetworkMeasure:
    """The mean of a measure over queries as a function of a network's weights.

    Called with a point it gives the measure's mean, for a cost minus it, so that higher is better.

    Parameters
    ----------
    network : FlatNetwork
        Its layout; its point is not used.
    data : RankingData
        Features as the network takes them, and labels. They are kept in double precision.
    measure : str or Measure
        As `lmtune.measures.measure.parse_list_measure` takes.

    Raises
    ------
    InputError
        For data with another number of features, or none that counts for the measure.
    """

    def __init__(self, network: FlatNetwork, data: RankingData, measure: str | Measure) -> None:
        if data.features.shape[1] != network.features:
            raise InputError(
                "another number of features than the network's",
                value=data.features.shape[1],
                accepted=str(network.features),
            )
        self.network = network
        self.features = np.asarray(data.features, np.float64)
        self.measurer = Measurer(measure, data)
        if not self.measurer.counted.any():
            raise InputError(f"no query counts for {self.measurer.measure}", accepted="one at least")
        self._sign = 1.0 if self.measurer.measure.higher_is_better else -1.0

    def __call__(self, point: Vector) -> float:
        """Return a point's value."""
        return self.of_scores(self.scores(point))

    def of_scores(self, scores: Vector) -> float:
        """Return the value of scores, shape (rows,)."""
        return self._sign * self.measurer.mean(scores)

    def scores(self, point: Vector) -> Vector:
        """Score all rows at a point, shape (rows,)."""
        found: Vector = self.inputs(point) @ point[self.network.last]
        return found

    def inputs(self, point: Vector) -> Vector:
        """Return what the last layer's weights multiply: features, or hidden units' values.

        Returns
        -------
        numpy.ndarray of float64, shape (rows, weights of the last layer)
        """
        if not self.network.hidden:
            return self.features
        return np.tanh(self._sums(point))

    def along(self, point: Vector, direction: Vector, steps: Vector) -> Vector:
        """Return the values at ``point + step * direction`` for each step.

        Scores, or the hidden units' sums, are linear in the step and so computed once.
        """
        network = self.network
        if not network.hidden:
            start, slope = self.features @ point, self.features @ direction
            return np.array([self.of_scores(start + step * slope) for step in steps])
        start, slope = self._sums(point), self._sums(direction)
        values = np.empty(len(steps))
        for s, step in enumerate(steps):
            sums = slope * step
            sums += start
            np.tanh(sums, out=sums)
            values[s] = self.of_scores(sums @ (point + step * direction)[network.last])
        return values

    def at_weight(self, point: Vector, weight: int, values: Vector) -> Vector:
        """Return the objective as one weight takes different values and the others stay.

        Parameters
        ----------
        point : numpy.ndarray of float64, shape (weights,)
            The other weights.
        weight : int
            Which is varied.
        values : numpy.ndarray of float64, shape (n,)
            What it takes.

        Returns
        -------
        numpy.ndarray of float64, shape (n,)
        """
        network, out = self.network, np.empty(len(values))
        if weight >= network.last.start:
            inputs = self.inputs(point)
            start = inputs @ point[network.last]
            slope = inputs[:, weight - network.last.start].copy()
            for v, value in enumerate(values):
                out[v] = self.of_scores(start + (value - point[weight]) * slope)
            return out
        is_bias = weight >= network.biases.start
        unit = weight - network.biases.start if is_bias else weight // network.features
        own = slice(unit * network.features, (unit + 1) * network.features)
        sums = self.features @ point[own] + point[network.biases][unit]
        output = point[network.last][unit]
        others = self.scores(point) - output * np.tanh(sums)
        slope = np.ones(len(sums)) if is_bias else self.features[:, weight % network.features].copy()
        for v, value in enumerate(values):
            moved = sums + (value - point[weight]) * slope
            out[v] = self.of_scores(others + output * np.tanh(moved))
        return out

    def _sums(self, point: Vector) -> Vector:
        network = self.network
        first = point[network.first].reshape(network.hidden, network.features)
        found: Vector = self.features @ first.T
        found += point[network.biases]
        return found
