"""Train a network on long lists of the same items: cost by samples, not items.

Source: Qiu et al. 2022, section 7.2.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lmtune.reranking.data import Batch
from lmtune.reranking.long_lists.settings import LONG_LISTS, cutoff_of
from lmtune.reranking.settings import Settings
from lmtune.reranking.song import ListSampler, RelevantPairs, reinitialise_last_layer
from lmtune.reranking.training.devices import check_device, to_device
from lmtune.reranking.training.loop import Training, TrainingOptions, TrainingRun, run_through


def digest_of(facts: object, *arrays: NDArray[Any]) -> str:
    """Return a digest (BLAKE2b, 128 bits) that tells facts and arrays from others."""
    digest = hashlib.blake2b(repr(facts).encode(), digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class LongLists(ABC):
    """Long lists of the same items, to learn from and to choose by; a `Contest` of one fold.

    Attributes
    ----------
    options : RankingOptions or LabelOptions
    """

    options: Any

    @property
    @abstractmethod
    def pairs(self) -> RelevantPairs:
        """The relevant pairs of the training lists."""

    @property
    @abstractmethod
    def items(self) -> int:
        """How many items each list has."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A digest that tells these lists from others."""

    @property
    def visits(self) -> int:
        """How often an epoch visits each list."""
        visits: int = self.options.visits
        return visits

    @abstractmethod
    def network(self, settings: Settings) -> Any:
        """Make a network, with a layer `last` or None in its place, from torch's own generator."""

    @abstractmethod
    def inputs(self, queries: NDArray[np.int64], items: NDArray[np.int64]) -> Sequence[NDArray[Any]]:
        """Return what the network takes for items (B, n), -1 on padding, of some lists (B,)."""

    @abstractmethod
    def validate(self, network: Any, cutoff: int) -> float:
        """Return the mean NDCG of a network on the lists that choose the epoch."""

    @property
    def folds(self) -> int:
        """One: there is one split."""
        return 1

    def train(self, fold: int, settings: Settings, **how: Unpack[TrainingOptions]) -> LongListFit:
        """Train a network: see `fit`."""
        del fold
        return fit(self, settings, **how)


@dataclass(frozen=True)
class LongListFit(Training):
    """A network trained on long lists.

    Attributes
    ----------
    lists : LongLists
        What it was trained on.
    """

    lists: LongLists

    def network(self) -> Any:
        """Make the network with the weights of the best epoch."""
        with torch.device("meta"):
            network = self.lists.network(self.settings)
        network.load_state_dict(self.weights, assign=True)
        return network.eval()


class LongListTask:
    """Rankings of all items, as `lmtune.reranking.training.loop.TrainingRun` learns from them.

    Parameters
    ----------
    As of `fit`.
    """

    def __init__(self, lists: LongLists, settings: Settings, device: str) -> None:
        self.lists, self.settings, self.device = lists, settings, device
        relevant = settings.relevant_of_sample or 1
        self.sampler = ListSampler(
            lists.pairs,
            lists.items,
            relevant=relevant,
            others=(settings.list_size or relevant + 1) - relevant,
            seed=settings.seed,
        )
        torch.manual_seed(settings.seed)
        self.network = lists.network(settings).to(device)
        self.steps = math.ceil(len(lists.pairs.queries) * lists.visits / settings.batch_size)
        self.cutoff = cutoff_of(settings.chosen_by)
        self.teacher: NDArray[np.float32] | None = None
        self.weights: NDArray[np.float64] | None = None

    def pairs(self) -> RelevantPairs:
        """Return the training lists' relevant pairs."""
        return self.lists.pairs

    def batches(self, epoch: int, start: int) -> Iterator[Batch]:
        """Yield an epoch's batches from a step on: each list is visited several times."""
        random = np.random.default_rng((self.settings.seed, epoch))
        known, size = self.lists.pairs.queries, self.settings.batch_size
        order = np.concatenate([random.permutation(len(known)) for _ in range(self.lists.visits)])
        for step in range(start, self.steps):
            positions = order[step * size : (step + 1) * size]
            if self.settings.list_size is None:
                sample = self.sampler.all_items(positions)
            else:
                sample = self.sampler.draw(positions, epoch=epoch, step=step)
            yield Batch(sample.labels, sample.items >= 0, sample.items, known[positions])

    def inputs(self, batch: Batch, part: slice) -> tuple[Tensor, ...]:
        """Return what the lists say."""
        arrays = self.lists.inputs(batch.queries[part], batch.rows[part])
        return tuple(to_device(array, self.device) for array in arrays)

    def weight(self, batch: Batch) -> int:
        """Return 1: epochs' losses are means over steps."""
        del batch
        return 1

    def renew_last_layer(self) -> None:
        """Draw the weights of the network's last layer anew."""
        if self.network.last is not None:
            reinitialise_last_layer(self.network, seed=self.settings.seed, layer=self.network.last)

    def measure(self) -> float:
        """Return the mean NDCG on the validation items."""
        return self.lists.validate(self.network.eval(), self.cutoff)


def fit(
    lists: LongLists,
    settings: Settings = LONG_LISTS,
    *,
    watch: Callable[[TrainingRun], None] | None = None,
    **how: Unpack[TrainingOptions],
) -> LongListFit:
    """Train on long lists; keep the epoch, after the warm-up, with the best NDCG.

    Parameters
    ----------
    lists : RatingLists
        What to learn from and to choose by.
    settings : Settings
        All but the network. `list_size` items are sampled for each user and step,
        `list_relevant` of them relevant; without, a step takes every item of a list.
    watch : callable, optional
        Called after each epoch with the training in progress.
    **how
        As for `lmtune.reranking.learners.feature_networks.fit`.

    Raises
    ------
    InputError
        For an unknown device, a checkpoint of another training, or a loss that is no longer finite.
    """
    device = how.get("device", "cpu")
    check_device(device)
    identity = {"settings": settings.as_record(), "data": lists.digest}
    run = run_through(lambda: LongListTask(lists, settings, device), settings, identity, how, watch)
    return LongListFit.of(run, lists=lists)
