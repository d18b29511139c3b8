"""Train a NeuMF scorer on every user's ranking of all items, with SONG: cost by samples, not items.

Sources: Qiu et al. 2022, section 7.2 (the task); He, Liao, Zhang, Nie, Hu and Chua, Neural
Collaborative Filtering, WWW 2017 (the network).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lmtune.errors import InputError
from lmtune.reranking.ratings import Ratings, RatingSplit, held_out_ndcg
from lmtune.reranking.song import (
    KSong,
    ListSampler,
    ListwiseCrossEntropy,
    RelevantPairs,
    Song,
    reinitialise_last_layer,
)

LOSSES = ("song", "k-song", "k-song-theoretical", "cross-entropy")


class NeuMF(nn.Module):
    """Generalised matrix factorisation and a multilayer perceptron, joined by a linear layer.

    Parameters
    ----------
    users, items : int
        How many of each.
    width : int
        Of each of the four embeddings.
    layers : sequence of int
        Widths of the perceptron's layers.
    dropout : float
        Behind each of them.
    """

    def __init__(
        self,
        users: int,
        items: int,
        *,
        width: int = 32,
        layers: Sequence[int] = (32, 16),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.user_factors = nn.Embedding(users, width)
        self.item_factors = nn.Embedding(items, width)
        self.user_inputs = nn.Embedding(users, width)
        self.item_inputs = nn.Embedding(items, width)
        # The first layer on (user, item) is a sum of one on each: users enter once a list.
        self.of_user = nn.Linear(width, layers[0])
        self.of_item = nn.Linear(width, layers[0], bias=False)
        rest: list[nn.Module] = [nn.ReLU(), nn.Dropout(dropout)]
        for before, after in pairwise(layers):
            rest += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)]
        self.perceptron = nn.Sequential(*rest)
        self.last = nn.Linear(width + layers[-1], 1)
        for embedding in self.children():
            if isinstance(embedding, nn.Embedding):
                nn.init.normal_(embedding.weight, std=0.01)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Score items (B, n), -1 on padding, for users (B,); returns (B, n)."""
        items = items.clamp(min=0)
        factors = self.user_factors(users).unsqueeze(1) * self.item_factors(items)
        hidden = self.of_user(self.user_inputs(users)).unsqueeze(1)
        hidden = self.perceptron(hidden + self.of_item(self.item_inputs(items)))
        scores: Tensor = self.last(torch.cat([factors, hidden], dim=-1)).squeeze(-1)
        return scores


@dataclass(frozen=True)
class Settings:
    """How to train on long lists.

    Attributes
    ----------
    loss : str
        One of `LOSSES`.
    relevant, others : int
        Items sampled for each user and step; `others` = 0 takes every item of the list.
    epochs, warm_up : int
        All epochs, and how many of them train with cross-entropy before the last layer is drawn
        anew. An epoch visits each user `visits` times.
    batch : int
        Users a step.
    learning_rate, weight_decay : float
        Adam's.
    graded : bool
        Labels are the ratings; otherwise 1.
    options : dict
        Further arguments of `Song` or `KSong`.
    seed : int
        Everything random follows from it.
    """

    loss: str = "song"
    relevant: int = 10
    others: int = 30
    epochs: int = 30
    warm_up: int = 10
    visits: int = 4
    batch: int = 64
    learning_rate: float = 0.003
    weight_decay: float = 1e-7
    graded: bool = False
    options: dict[str, Any] | None = None
    seed: int = 0


@dataclass(frozen=True)
class Epoch:
    """What an epoch came to: the mean objective estimate, and NDCG on the validation items."""

    number: int
    loss: str
    objective: float
    ndcg: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained network, with the weights of the epoch best in validation NDCG, and its epochs."""

    network: NeuMF
    epochs: tuple[Epoch, ...]


def fit(
    ratings: Ratings,
    split: RatingSplit,
    settings: Settings,
    *,
    cutoffs: Sequence[int] = (10, 20, 50),
    report: Callable[[Epoch], None] | None = None,
    watch: Callable[[NeuMF], None] | None = None,
) -> Fitted:
    """Train on ``split.train``; keep the epoch, after the warm-up, with the best NDCG.

    Parameters
    ----------
    ratings, split
        From `read_ratings` and `leave_out`.
    settings : Settings
    cutoffs : sequence of int
        Of the NDCG on the validation items, ranked among all that are not in training; the first
        one chooses the epoch.
    report : callable, optional
        Called after each epoch.
    watch : callable, optional
        Called after each epoch with the network, to look at it.

    Returns
    -------
    Fitted

    Raises
    ------
    InputError
        For an unknown loss, or numbers out of range.
    """
    if settings.loss not in LOSSES:
        raise InputError("unknown loss", value=settings.loss, accepted=", ".join(LOSSES))
    for name in ("epochs", "batch", "visits"):
        if getattr(settings, name) < 1:
            raise InputError(f"{name} is too small", value=getattr(settings, name))
    if settings.loss != "cross-entropy" and settings.warm_up >= settings.epochs:
        raise InputError(
            "no epoch is left after the warm-up",
            value=settings.warm_up,
            accepted=f"fewer than the {settings.epochs} epochs in all",
        )
    users, items = len(ratings.user_ids), len(ratings.item_ids)
    pairs = training_pairs(ratings, split, graded=settings.graded)
    sampler = ListSampler(
        pairs, items, relevant=settings.relevant, others=max(settings.others, 1), seed=settings.seed
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = NeuMF(users, items)
    warming = settings.loss == "cross-entropy" or settings.warm_up > 0
    loss = _loss("cross-entropy" if warming else settings.loss, pairs, settings)
    optimiser = _optimiser(network, settings)
    kept: tuple[float, dict[str, Tensor]] = (-1.0, {})
    epochs: list[Epoch] = []
    for epoch in range(settings.epochs):
        if epoch == settings.warm_up and epoch > 0 and settings.loss != "cross-entropy":
            reinitialise_last_layer(network, seed=settings.seed, layer=network.last)
            loss, optimiser = _loss(settings.loss, pairs, settings), _optimiser(network, settings)
            warming = False
        objective = _epoch(network, loss, optimiser, sampler, pairs, settings, epoch)
        values = held_out_ndcg(
            score_all(network), ratings, split.validation, split.train, cutoffs, graded=settings.graded
        )
        means = tuple(float(value) for value in values.mean(0))
        named = "cross-entropy" if warming else settings.loss
        epochs.append(Epoch(epoch, named, objective, means))
        if report is not None:
            report(epochs[-1])
        if watch is not None:
            watch(network)
        # Epochs of warm-up are no result of the loss.
        if named == settings.loss and means[0] > kept[0]:
            state = {name: value.clone() for name, value in network.state_dict().items()}
            kept = (means[0], state)
    network.load_state_dict(kept[1])
    return Fitted(network, tuple(epochs))


def training_pairs(ratings: Ratings, split: RatingSplit, *, graded: bool = False) -> RelevantPairs:
    """Take the training ratings as relevant pairs of lists of all items."""
    rows = split.train
    labels = ratings.values[rows] if graded else np.ones(len(rows))
    return RelevantPairs.from_rows(
        ratings.users[rows], ratings.items[rows], labels, lengths=len(ratings.item_ids)
    )


@torch.no_grad()
def score_all(network: NeuMF, *, batch: int = 128) -> NDArray[np.float32]:
    """Score every item for every user, float32 (U, I), in evaluation mode."""
    was = network.training
    network.eval()
    users = network.user_factors.num_embeddings
    items = torch.arange(network.item_factors.num_embeddings)
    every = torch.arange(users)
    parts = [
        network(some, items.expand(len(some), -1))
        for some in (every[at : at + batch] for at in range(0, users, batch))
    ]
    network.train(was)
    scores: NDArray[np.float32] = torch.cat(parts).numpy()
    return scores


def _loss(name: str, pairs: RelevantPairs, settings: Settings) -> nn.Module:
    options = settings.options or {}
    if name == "cross-entropy":
        return ListwiseCrossEntropy(pairs)
    if name == "song":
        return Song(pairs, **options)
    return KSong(pairs, **{"theoretical": name == "k-song-theoretical", **options})


def _optimiser(network: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    return torch.optim.Adam(
        network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )


def _epoch(
    network: NeuMF,
    loss: nn.Module,
    optimiser: torch.optim.Optimizer,
    sampler: ListSampler,
    pairs: RelevantPairs,
    settings: Settings,
    epoch: int,
) -> float:
    random = np.random.default_rng((settings.seed, epoch))
    count = len(pairs.queries)
    order = np.concatenate([random.permutation(count) for _ in range(settings.visits)])
    total = 0.0
    steps = math.ceil(len(order) / settings.batch)
    network.train()
    for step in range(steps):
        positions = order[step * settings.batch : (step + 1) * settings.batch]
        if settings.others > 0:
            sample = sampler.draw(positions, epoch=epoch, step=step)
        else:
            sample = sampler.all_items(positions)
        queries = torch.from_numpy(pairs.queries[positions])
        items = torch.from_numpy(sample.items)
        scores = network(queries, items)
        value = loss(scores, torch.from_numpy(sample.labels), queries=queries, items=items)
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        total += float(value.detach())
    return total / steps
