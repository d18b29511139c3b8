"""Train a network on long lists with samples of their items (Qiu et al. 2022, section 7.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.long_lists.data import LongLists
from lmtune.losses import LOSSES
from lmtune.losses.songs import (
    KSong,
    ListSampler,
    ListwiseCrossEntropy,
    RelevantPairs,
    Song,
    reinitialise_last_layer,
)
from lmtune.rerank import parse_loss

SONGS: dict[str, Callable[..., Song | ListwiseCrossEntropy]] = {
    "song": Song,
    "k-song": KSong,
    "cross-entropy": ListwiseCrossEntropy,
}


@dataclass(frozen=True)
class TrainingOptions:
    """Options of one training.

    Attributes
    ----------
    warm_up_loss : str
        loss of the first epochs
    warm_up : int
        number of first epochs with that loss; then the last layer is reinitialised
    epochs : int
        passes over the lists, warm-up included
    visits : int
        visits of each list in an epoch
    batch_size : int
        lists in a step
    list_size : int
        items of a list in a step, sampled in each step; 0: all items
    list_relevant : int
        number of relevant items among them
    learning_rate : float
        Adam's rate
    weight_decay : float
        Adam's weight decay
    measure : str
        validation measure that chooses the epoch
    seed : int
        seed of the first trial
    """

    warm_up_loss: str = "cross-entropy"
    warm_up: int = 10
    epochs: int = 30
    visits: int = 4
    batch_size: int = 64
    list_size: int = 40
    list_relevant: int = 10
    learning_rate: float = 0.003
    weight_decay: float = 1e-7
    measure: str = "ndcg@10"
    seed: int = 0


@dataclass(frozen=True)
class Trained:
    """A trained network with the weights of its best epoch, and the validation value of each epoch."""

    network: nn.Module
    validation: list[float]
    best_epoch: int


def train(
    lists: LongLists, loss: str, options: TrainingOptions, watch: Callable[[nn.Module], None] | None = None
) -> Trained:
    """Train on long lists; use the epoch after the warm-up with the best validation value.

    Parameters
    ----------
    lists : LongLists
    loss : str
        A loss with options, for `lmtune.rerank.parse_loss`.
    options : TrainingOptions
    watch : callable, optional
        Called with the network after each epoch.
    """
    torch.manual_seed(options.seed)
    network: Any = lists.network()
    losses = [_loss_of(text, lists.pairs) for text in (loss, options.warm_up_loss)]
    validation: list[float] = []
    best: tuple[float, int, Mapping[str, Tensor]] = -np.inf, 0, {}
    for epoch in range(options.epochs):
        if epoch == options.warm_up > 0 and isinstance(network.last, nn.Linear):
            reinitialise_last_layer(network, seed=options.seed, layer=network.last)
        if epoch in (0, options.warm_up):
            rate, decay = options.learning_rate, options.weight_decay
            optimizer = torch.optim.Adam(network.parameters(), lr=rate, weight_decay=decay)
        _train_epoch(lists, options, network, losses[epoch < options.warm_up], optimizer, epoch)
        network.eval()
        validation.append(float(lists.measure(network, "validation", [options.measure]).mean()))
        if watch is not None:
            watch(network)
        if epoch >= options.warm_up and validation[-1] > best[0]:
            state = {name: value.clone() for name, value in network.state_dict().items()}
            best = validation[-1], epoch + 1, state
    network.load_state_dict(best[2])
    return Trained(network, validation, best[1])


def _loss_of(text: str, pairs: RelevantPairs) -> Callable[..., Tensor]:
    """Return the loss as a function of scores and labels, `mask`, `queries` and `items`."""
    loss = parse_loss(text)
    if loss.name in SONGS:
        return SONGS[loss.name](pairs, **loss.options)
    function = LOSSES[loss.name]
    return lambda scores, labels, mask, **_: function(scores, labels, mask=mask, **loss.options)


def _train_epoch(
    lists: LongLists,
    options: TrainingOptions,
    network: Any,
    loss: Callable[..., Tensor],
    optimizer: torch.optim.Optimizer,
    epoch: int,
) -> None:
    relevant, size = options.list_relevant, options.list_size
    sampler = ListSampler(
        lists.pairs,
        lists.items,
        relevant=relevant,
        others=(size or relevant + 1) - relevant,
        seed=options.seed,
    )
    random = np.random.default_rng((options.seed, epoch))
    known = lists.pairs.queries
    order = np.concatenate([random.permutation(len(known)) for _ in range(options.visits)])
    network.train()
    for step, first in enumerate(range(0, len(order), options.batch_size)):
        positions = order[first : first + options.batch_size]
        draw = partial(sampler.draw, epoch=epoch, step=step) if size else sampler.all_items
        sample = draw(positions)
        queries = known[positions]
        items, labels = torch.from_numpy(sample.items), torch.from_numpy(sample.labels)
        scores = network(*lists.inputs(queries), items)
        value = loss(scores, labels, mask=items >= 0, queries=torch.from_numpy(queries), items=items)
        optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
