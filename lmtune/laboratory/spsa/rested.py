"""Networks trained until a loss pulls at them no more, for asking where they came to rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from lmtune.laboratory.spsa.flat_networks import FlatNetwork
from lmtune.reranking.batches import batches
from lmtune.reranking.data import RankingData
from lmtune.reranking.loss_names import make_loss
from lmtune.reranking.networks import make_network
from lmtune.reranking.objectives import BatchLabels, make_objective
from lmtune.reranking.scoring import Feed
from lmtune.reranking.settings import Settings
from lmtune.reranking.song import RelevantPairs
from lmtune.reranking.training import fit

_QUERIES = 500


@dataclass(frozen=True)
class Training:
    """How a network is trained to rest: by Adam, with a rate that falls to 0 as a cosine.

    Attributes
    ----------
    loss : str
        As `lmtune.reranking.loss_names.loss_names` has.
    options : mapping
        The loss's own.
    network : str
        ``"linear"`` or ``"two-layer"``.
    epochs, batch_size : int
        Passes over the queries, and queries a step.
    learning_rate : float
        Of the first step.
    seed : int
        Of the weights and batches.
    """

    loss: str = "lambdarank"
    options: Mapping[str, Any] = field(default_factory=dict)
    network: str = "linear"
    epochs: int = 60
    batch_size: int = 100
    learning_rate: float = 0.01
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Rested:
    """A network trained to rest.

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


def train_to_rest(data: RankingData, training: Training) -> Rested:
    """Train a network on all of the data, without validation, and take the last weights.

    Raises
    ------
    InputError
        For unknown names, or as `lmtune.reranking.training.fit`.
    """
    settings = Settings(
        loss=make_loss(training.loss, training.options),
        network=training.network,
        epochs=training.epochs,
        batch_size=min(training.batch_size, len(data.queries)),
        learning_rate=training.learning_rate,
        schedule="cosine",
        seed=training.seed,
    )
    start = make_network(settings.network, data.features.shape[1], seed=settings.seed)
    trained = fit(data, None, settings)
    network = FlatNetwork.from_weights(trained.weights)
    scale = network.scale()
    # Units by the trained weights at both ends, that the two can be compared.
    first, last = (
        float(np.sqrt(((full_gradient(model, data, training) * scale) ** 2).sum()))
        for model in (start, trained.network())
    )
    return Rested(network, last, first)


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


def full_gradient(model: Any, data: RankingData, training: Training) -> Any:
    """Return the gradient of a loss over all queries at a network's weights.

    Parameters
    ----------
    model : Pointwise
        A linear or two-layer network.
    data : RankingData
        The queries.
    training : Training
        Its loss and options; losses that keep running estimates start afresh, and see whole lists.

    Returns
    -------
    numpy.ndarray of float64, shape (weights,)
        In the order of `FlatNetwork.point`; the mean over queries that count.
    """
    pairs = RelevantPairs.from_lists(data.starts, np.asarray(data.labels))
    objective = make_objective(make_loss(training.loss, training.options), lambda: pairs, "cpu")
    feed = Feed(data, "cpu")
    parameters = dict(model.named_parameters())
    total = {name: np.zeros(tuple(one.shape)) for name, one in parameters.items()}
    counted = 0
    for batch in batches(data, size=_QUERIES, seed=0, epoch=0, shuffle=False):
        model.zero_grad(set_to_none=True)
        arrays = (batch.labels, batch.mask, batch.queries, batch.rows)
        labels, mask, queries, rows = (feed.to_device(array) for array in arrays)
        scores = model(*feed.inputs(model, batch.rows))
        loss, _ = objective(BatchLabels(0, labels, mask, queries, rows), scores)
        loss.backward()  # type: ignore[no-untyped-call]
        # Losses are means over the queries that have something relevant.
        weight = int(((batch.labels > 0) & batch.mask).any(axis=1).sum())
        counted += weight
        for name, one in parameters.items():
            if one.grad is not None:
                total[name] += weight * one.grad.double().numpy()
    weights = {name: torch.from_numpy(value / max(counted, 1)) for name, value in total.items()}
    return FlatNetwork.from_weights(weights).point
