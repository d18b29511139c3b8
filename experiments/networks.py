"""Networks trained to convergence, as points in the space of their weights, and measures of such points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.datasets import load_split
from lmtune.errors import InputError
from lmtune.measures.lists import Measurer
from lmtune.measures.measure import Measure, parse_list_measure
from lmtune.rerank.data import RankingData, batches
from lmtune.rerank.loss_names import Loss, make_loss
from lmtune.rerank.settings import Settings

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
        scores: Vector = self.inputs(point) @ point[self.network.last]
        return scores

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
        incoming = slice(unit * network.features, (unit + 1) * network.features)
        sums = self.features @ point[incoming] + point[network.biases][unit]
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
        sums: Vector = self.features @ first.T
        sums += point[network.biases]
        return sums


_QUERIES = 500


@dataclass(frozen=True, eq=False)
class Converged:
    """A network trained to convergence.

    Attributes
    ----------
    network : FlatNetwork
        Its weights.
    gradient, first_gradient : float
        The norm of the loss's gradient over all queries at the end, and before the first step,
        with each weight in units of `FlatNetwork.scale` at the end: what moving the weights by a
        small share of themselves changes the loss by, per share. For LambdaRank it is the norm of
        what it follows instead of a gradient.
    """

    network: FlatNetwork
    gradient: float
    first_gradient: float


def train_to_convergence(data: RankingData, settings: Settings) -> Converged:
    """Train a network on all of the data, without validation, and take the last weights.

    Parameters
    ----------
    data : RankingData
        The queries.
    settings : Settings
        Of a linear or two-layer network; the rate falls to 0 as a cosine whatever they say, and a
        step sees no more queries than there are.

    Raises
    ------
    InputError
        For unknown names, or as `lmtune.rerank.learners.feature_networks.fit`.
    """
    from lmtune.rerank.learners.feature_networks import fit
    from lmtune.rerank.learners.networks import make_network

    settings = replace(settings, schedule="cosine", batch_size=min(settings.batch_size, len(data.queries)))
    start = make_network(settings.network, data.features.shape[1], seed=settings.seed)
    trained = fit(data, None, settings)
    network = FlatNetwork.from_weights(trained.weights)
    scale = network.scale()
    # Units by the trained weights at both ends, that the two can be compared.
    first, last = (
        float(np.sqrt(((full_gradient(model, data, settings) * scale) ** 2).sum()))
        for model in (start, trained.network())
    )
    return Converged(network, last, first)


def loss_for(loss: str, measure: Measure) -> Loss:
    """Make a loss; LambdaRank follows a measure, with NDCG's cutoff as its truncation."""
    follows = loss == "lambdarank" and measure.kind == "nDCG" and measure.cutoff is not None
    return make_loss(loss, {"k": measure.cutoff} if follows else {})


def without_idle_features(*parts: RankingData) -> list[RankingData]:
    """Drop the features that are 0 throughout the first of some data: no weight of theirs matters.

    Returns
    -------
    list of RankingData
        Each part with the same features left.
    """
    busy = np.flatnonzero(parts[0].features.any(axis=0))
    return [
        part
        if busy.size == part.features.shape[1]
        else replace(part, features=np.ascontiguousarray(part.features[:, busy]))
        for part in parts
    ]


def full_gradient(model: Any, data: RankingData, settings: Settings) -> Any:
    """Return the gradient of a loss over all queries at a network's weights.

    Parameters
    ----------
    model : Pointwise
        A linear or two-layer network.
    data : RankingData
        The queries.
    settings : Settings
        Of the loss; losses that keep running estimates start afresh, and see whole lists.

    Returns
    -------
    numpy.ndarray of float64, shape (weights,)
        In the order of `FlatNetwork.point`; the mean over queries that count.
    """
    import torch

    from lmtune.losses.songs import RelevantPairs
    from lmtune.rerank.learners.feature_networks import Feed
    from lmtune.rerank.training.objectives import BatchLabels, make_objective

    pairs = RelevantPairs.from_lists(data.starts, np.asarray(data.labels))
    objective = make_objective(settings.loss, lambda: pairs, "cpu")
    feed = Feed(data, "cpu")
    parameters = dict(model.named_parameters())
    total = {name: np.zeros(tuple(one.shape)) for name, one in parameters.items()}
    counted = 0
    for batch in batches(data, size=_QUERIES, seed=0, epoch=0, shuffle=False):
        model.zero_grad(set_to_none=True)
        scores = model(*feed.inputs(model, batch.rows))
        loss, _ = objective(BatchLabels.of(batch, 0, feed.device), scores)
        loss.backward()  # type: ignore[no-untyped-call]
        # Losses are means over the queries that have something relevant.
        weight = int(((batch.labels > 0) & batch.mask).any(axis=1).sum())
        counted += weight
        for name, one in parameters.items():
            if one.grad is not None:
                total[name] += weight * one.grad.double().numpy()
    weights = {name: torch.from_numpy(value / max(counted, 1)) for name, value in total.items()}
    return FlatNetwork.from_weights(weights).point


@dataclass(frozen=True)
class Training:
    """A training of networks on all training queries.

    Attributes
    ----------
    data : str
        artificial:QUERIES[xDOCUMENTS] or a folder of LETOR files
    measure : str
        ndcg[@k], pairwise-error, mrr[@k], wta or ap
    epochs : int
        passes over the training queries
    learning_rate : float
        Adam's first rate, which falls to 0
    batch_size : int
        queries a step
    seed : int
        seed of artificial data, first weights, batches and samples
    """

    data: str = "artificial:2000"
    measure: str = "ndcg@10"
    epochs: int = 100
    learning_rate: float = 0.03
    batch_size: int = 100
    seed: int = 0

    @property
    def sign(self) -> float:
        """1 for measures of which higher is better, -1 for the others."""
        return 1.0 if parse_list_measure(self.measure).higher_is_better else -1.0

    def train(self, network: str, loss: str) -> tuple[Converged, list[RankingData]]:
        """Train a network by a loss; return it, the training and the test queries."""
        fold = load_split(self.data, self.seed)
        parts = without_idle_features(fold.train, fold.test)
        settings = Settings(
            loss=loss_for(loss, parse_list_measure(self.measure)),
            network=network,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            seed=self.seed,
        )
        return train_to_convergence(parts[0], settings), parts
