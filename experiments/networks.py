"""Networks trained to convergence, as points in weight space, and measures as functions of the weights."""

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
"""The networks that `FlatNetwork` supports, those of Yue and Burges (2007)."""


@dataclass(frozen=True, eq=False)
class FlatNetwork:
    """The weights of a linear or two-layer network as one vector.

    A linear network has one weight per feature. The vector of a two-layer network has the weights of the
    hidden units, unit by unit; then the units' biases; then the weights of the output.

    Attributes
    ----------
    features : int
        Number of input features.
    hidden : int
        Number of hidden tanh units; 0 for a linear network.
    point : numpy.ndarray of float64, shape (weights,)
        The weights.
    """

    features: int
    hidden: int
    point: Vector

    @classmethod
    def from_weights(cls, weights: Mapping[str, Any]) -> FlatNetwork:
        """Flatten the state dict of a network.

        Raises
        ------
        InputError
            If the network is neither linear nor two-layer.
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
        raise InputError("unsupported network", accepted=", ".join(NETWORKS))

    @property
    def first(self) -> slice:
        """Indices of the weights of the features."""
        return slice(0, self.features * max(self.hidden, 1))

    @property
    def biases(self) -> slice:
        """Indices of the hidden units' biases; empty for a linear network."""
        return slice(self.first.stop, self.first.stop + self.hidden)

    @property
    def last(self) -> slice:
        """Indices of the last layer's weights; all weights of a linear network."""
        return slice(self.biases.stop, self.point.size) if self.hidden else self.first

    def scale(self) -> Vector:
        r"""Return the unit of each weight for relative steps, equal within a layer.

        The unit of a layer with n of all d weights (biases belong to the hidden layer) is the norm of its
        weights times :math:`\sqrt{d/n}`. A step of size 1 in a random direction then changes each layer
        by its own norm, in root mean square, so layers of different magnitude are treated alike. The unit of
        a linear network is the norm of its weights; its rankings depend only on their direction.
        """
        scale = np.empty(self.point.size)
        layers = [self.last] if not self.hidden else [slice(0, self.biases.stop), self.last]
        for layer in layers:
            part = self.point[layer]
            scale[layer] = np.sqrt((part**2).sum() * self.point.size / part.size)
        return scale

    def name(self, weight: int) -> str:
        """Return a weight's name, such as ``unit 2 feature 3``, ``bias 2`` or ``output 2``; from 1."""
        if not self.hidden:
            return f"feature {weight + 1}"
        if weight < self.biases.start:
            return f"unit {weight // self.features + 1} feature {weight % self.features + 1}"
        if weight < self.last.start:
            return f"bias {weight - self.biases.start + 1}"
        return f"output {weight - self.last.start + 1}"


class NetworkMeasure:
    """The mean of a measure over queries as a function of a network's weights; higher is better.

    For costs, such as pairwise error, the value is minus the mean.

    Parameters
    ----------
    network : FlatNetwork
        The layout of the weights; its point is not used.
    data : RankingData
        Normalised features, and labels; features are converted to float64.
    measure : str or Measure
        As in `lmtune.measures.measure.parse_list_measure`.

    Raises
    ------
    InputError
        If the number of features differs from the network's, or the measure is not defined for any query.
    """

    def __init__(self, network: FlatNetwork, data: RankingData, measure: str | Measure) -> None:
        if data.features.shape[1] != network.features:
            raise InputError(
                "data and network differ in their number of features",
                value=data.features.shape[1],
                accepted=str(network.features),
            )
        self.network = network
        self.features = np.asarray(data.features, np.float64)
        self.measurer = Measurer(measure, data)
        if not self.measurer.counted.any():
            raise InputError(
                f"{self.measurer.measure} is not defined for any query",
                accepted="at least one query with a relevant document",
            )
        self._sign = 1.0 if self.measurer.measure.higher_is_better else -1.0

    def __call__(self, point: Vector) -> float:
        """Return the value at a point."""
        return self.of_scores(self.scores(point))

    def of_scores(self, scores: Vector) -> float:
        """Return the value for scores of shape (rows,)."""
        return self._sign * self.measurer.mean(scores)

    def scores(self, point: Vector) -> Vector:
        """Return the scores of all rows at a point, shape (rows,)."""
        scores: Vector = self.inputs(point) @ point[self.network.last]
        return scores

    def inputs(self, point: Vector) -> Vector:
        """Return the last layer's inputs: the features, or the hidden units' activations.

        Returns
        -------
        numpy.ndarray of float64, shape (rows, weights of the last layer)
        """
        if not self.network.hidden:
            return self.features
        return np.tanh(self._sums(point))

    def along(self, point: Vector, direction: Vector, steps: Vector) -> Vector:
        """Return the values at ``point + step * direction`` for each step.

        Scores of a linear network, or pre-activations of a two-layer one, are linear in the step, so only
        two products with the features are needed.
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
        """Return the objective at several values of one weight, with all others constant.

        Parameters
        ----------
        point : numpy.ndarray of float64, shape (weights,)
            All weights.
        weight : int
            Index of the weight to vary.
        values : numpy.ndarray of float64, shape (n,)
            Its values.

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
        The trained weights.
    gradient, first_gradient : float
        The norm of the loss's gradient over all queries, after training and before the first step. Weights
        are in units of the trained network's `FlatNetwork.scale`, so it is the change of the loss per
        relative change of the weights. For LambdaRank it is the norm of the lambdas,
        propagated to the weights.
    """

    network: FlatNetwork
    gradient: float
    first_gradient: float


def train_to_convergence(data: RankingData, settings: Settings) -> Converged:
    """Train a network on all data without validation, and use the last epoch's weights.

    Parameters
    ----------
    data : RankingData
        The training queries.
    settings : Settings
        Settings of a linear or two-layer network. The schedule is always "cosine", down to rate 0, and the
        batch size is limited to the number of queries.

    Raises
    ------
    InputError
        If a name is unknown, or as in `lmtune.rerank.learners.feature_networks.fit`.
    """
    from lmtune.rerank.learners.feature_networks import fit
    from lmtune.rerank.learners.networks import make_network

    settings = replace(settings, schedule="cosine", batch_size=min(settings.batch_size, len(data.queries)))
    start = make_network(settings.network, data.features.shape[1], seed=settings.seed)
    trained = fit(data, None, settings)
    network = FlatNetwork.from_weights(trained.weights)
    scale = network.scale()
    # Both gradients are in units of the trained weights, so that they are comparable.
    first, last = (
        float(np.sqrt(((full_gradient(model, data, settings) * scale) ** 2).sum()))
        for model in (start, trained.network())
    )
    return Converged(network, last, first)


def loss_for(loss: str, measure: Measure) -> Loss:
    """Make a loss by name; LambdaRank is truncated at the cutoff of an nDCG measure."""
    follows = loss == "lambdarank" and measure.kind == "nDCG" and measure.cutoff is not None
    return make_loss(loss, {"k": measure.cutoff} if follows else {})


def without_idle_features(*parts: RankingData) -> list[RankingData]:
    """Drop the features that are always 0 in the first data set; their weights have no effect there.

    Returns
    -------
    list of RankingData
        All parts with the same remaining features.
    """
    busy = np.flatnonzero(parts[0].features.any(axis=0))
    return [
        part
        if busy.size == part.features.shape[1]
        else replace(part, features=np.ascontiguousarray(part.features[:, busy]))
        for part in parts
    ]


def full_gradient(model: Any, data: RankingData, settings: Settings) -> Any:
    """Return the gradient of a loss over all queries in a network's weights.

    Parameters
    ----------
    model : Pointwise
        A linear or two-layer network.
    data : RankingData
        The queries.
    settings : Settings
        Settings with the loss. Losses with running estimates start with an empty state and use whole lists.

    Returns
    -------
    numpy.ndarray of float64, shape (weights,)
        In the order of `FlatNetwork.point`; the mean over queries with a relevant document.
    """
    import torch

    from lmtune.losses.songs import RelevantPairs
    from lmtune.rerank.learners.feature_networks import FeatureFeed
    from lmtune.rerank.training.objectives import BatchLabels, make_objective

    pairs = RelevantPairs.from_lists(data.starts, np.asarray(data.labels))
    objective = make_objective(settings.loss, lambda: pairs, "cpu")
    feed = FeatureFeed(data, "cpu")
    parameters = dict(model.named_parameters())
    total = {name: np.zeros(tuple(one.shape)) for name, one in parameters.items()}
    counted = 0
    for batch in batches(data, size=_QUERIES, seed=0, epoch=0, shuffle=False):
        model.zero_grad(set_to_none=True)
        scores = model(*feed.inputs(model, batch.rows))
        loss, _ = objective(BatchLabels.of(batch, 0, feed.device), scores)
        loss.backward()  # type: ignore[no-untyped-call]
        # A loss is the mean over the batch's queries with a relevant document.
        weight = int(((batch.labels > 0) & batch.mask).any(axis=1).sum())
        counted += weight
        for name, one in parameters.items():
            if one.grad is not None:
                total[name] += weight * one.grad.double().numpy()
    weights = {name: torch.from_numpy(value / max(counted, 1)) for name, value in total.items()}
    return FlatNetwork.from_weights(weights).point


@dataclass(frozen=True)
class Training:
    """Options for training networks on all training queries.

    Attributes
    ----------
    data : str
        artificial:QUERIES[xDOCUMENTS] or a folder of LETOR files
    measure : str
        ndcg[@k], pairwise-error, mrr[@k], wta or ap
    epochs : int
        passes over the training queries
    learning_rate : float
        Adam's initial learning rate, which decreases to 0
    batch_size : int
        queries per step
    seed : int
        seed of artificial data, initial weights, batches and samples
    """

    data: str = "artificial:2000"
    measure: str = "ndcg@10"
    epochs: int = 100
    learning_rate: float = 0.03
    batch_size: int = 100
    seed: int = 0

    @property
    def sign(self) -> float:
        """1 if higher is better for the measure, else -1."""
        return 1.0 if parse_list_measure(self.measure).higher_is_better else -1.0

    def train(self, network: str, loss: str) -> tuple[Converged, list[RankingData]]:
        """Train a network with a loss; return it, and the training and test queries."""
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
