"""Networks trained until a loss's gradient has all but gone, for asking where they have arrived."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from lmtune.laboratory.spsa.flat_networks import FlatNetwork
from lmtune.measures.measure import Measure
from lmtune.reranking.data import RankingData, batches
from lmtune.reranking.learners.feature_networks import Feed, fit
from lmtune.reranking.learners.networks import make_network
from lmtune.reranking.losses.names import Loss, make_loss
from lmtune.reranking.settings import Settings
from lmtune.reranking.song import RelevantPairs
from lmtune.reranking.training.objectives import BatchLabels, make_objective

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
        For unknown names, or as `lmtune.reranking.learners.feature_networks.fit`.
    """
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
