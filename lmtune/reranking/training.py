"""Training a network to rank: repeatable to the bit, and resumable at any step."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lmtune.errors import InputError
from lmtune.measures.measure import parse_list_measure
from lmtune.reranking import checkpoints, distributed
from lmtune.reranking.batches import Batch, batches, number_of_batches
from lmtune.reranking.data import RankingData, check_training_data
from lmtune.reranking.devices import check_device, repeatable
from lmtune.reranking.loop import Epoch, Progress, Task, TrainingRun
from lmtune.reranking.networks import Attention, Pointwise, make_network
from lmtune.reranking.resident_ndcg import ScoreMeasurer
from lmtune.reranking.scoring import Feed
from lmtune.reranking.settings import Settings
from lmtune.reranking.song import RelevantPairs, reinitialise_last_layer


class TrainingOptions(TypedDict, total=False):
    """Where and how a training goes on, as `fit` takes it."""

    device: str
    checkpoint: Path | None
    checkpoint_every: int | None
    progress: Progress | None


@dataclass(frozen=True)
class Training:
    """A training that has come to its end.

    Attributes
    ----------
    settings : Settings
        What was asked for.
    weights : dict of str to Tensor
        Those of the best epoch, on the CPU.
    history : tuple of Epoch
        One row an epoch.
    seconds : tuple of float
        Each epoch's time; apart, for it alone differs between equal runs.
    best_epoch : int
        The first with the highest validation value, warm-up left out; the last without validation.
    """

    settings: Settings
    weights: dict[str, Tensor]
    history: tuple[Epoch, ...]
    seconds: tuple[float, ...]
    best_epoch: int

    @classmethod
    def of(cls, run: TrainingRun, **more: Any) -> Self:
        """Take what a run has come to, and a subclass's own attributes."""
        history, seconds = tuple(run.history), tuple(run.seconds)
        return cls(run.settings, run.best, history, seconds, run.best_epoch, **more)

    @property
    def validation(self) -> float:
        """The best epoch's validation value."""
        return self.history[self.best_epoch - 1].validation

    @property
    def label(self) -> str:
        """What to call it in a run."""
        return self.settings.label

    @property
    def summary(self) -> str:
        """What came of it, in a line."""
        return (
            f"best epoch {self.best_epoch} of {len(self.history)}, "
            f"validation {parse_list_measure(self.settings.measure)} {self.validation:.4f}"
        )


@dataclass(frozen=True)
class Trained(Training):
    """A network trained on features.

    Attributes
    ----------
    features : int
        Features that the network takes.
    """

    features: int

    def network(self) -> Pointwise | Attention:
        """Make the network with its weights, ready to score.

        Raises
        ------
        InputError
            Where the weights are of another network; one that is far larger takes no memory.
        """
        with torch.device("meta"):
            network = make_network(self.settings.network, self.features, dropout=self.settings.dropout)
        weights = {name: tensor.clone() for name, tensor in self.weights.items()}
        try:
            network.load_state_dict(weights, assign=True)
        except RuntimeError:
            raise InputError(
                "the weights are of another network",
                value=self.settings.network,
                accepted="the network that was trained",
            ) from None
        return network.eval()

    def score(self, data: RankingData, *, device: str = "cpu") -> NDArray[np.float32]:
        """Score every row of data, shape (rows,)."""
        scores: NDArray[np.float32] = Feed(data, device).scores(self.network().to(device)).cpu().numpy()
        return scores


class ListFeed(Protocol):
    """What networks take of lists."""

    def inputs(self, network: Any, rows: NDArray[np.int64]) -> tuple[Any, ...]:
        """Give what a network takes for a padded table of rows, (batch, items), -1 on padding."""

    def scores(self, network: Any) -> Tensor:
        """Score every row, nothing dropped out, shape (rows,)."""


class ListTask:
    """Lists of documents, as `lmtune.reranking.loop.TrainingRun` learns from them.

    Parameters
    ----------
    train : RankingData
        What to learn from.
    validation : RankingData, optional
        What to measure on.
    settings : Settings
        Of the training.
    network : torch.nn.Module
        With a layer ``last``, on the device that it is trained on.
    feed : callable
        Gives what `ListFeed` says of either data.
    """

    def __init__(
        self,
        train: RankingData,
        validation: RankingData | None,
        settings: Settings,
        network: Any,
        feed: Callable[[Any], ListFeed],
    ) -> None:
        self.train, self.settings, self.network = train, settings, network
        self.steps = number_of_batches(train, settings.batch_size)
        self.feed = feed(train)
        self.validation_feed = None if validation is None else feed(validation)
        self.measurer = None if validation is None else ScoreMeasurer(settings.measure, validation)

    def pairs(self) -> RelevantPairs:
        """Return the relevant pairs of all lists; items are numbered by their rows."""
        return RelevantPairs.from_lists(self.train.starts, np.asarray(self.train.labels))

    def batches(self, epoch: int, start: int) -> Iterator[Batch]:
        """Yield an epoch's batches from a step on."""
        settings = self.settings
        return batches(
            self.train,
            size=settings.batch_size,
            seed=settings.seed,
            epoch=epoch,
            list_size=settings.list_size,
            list_relevant=settings.relevant_of_sample,
            start=start,
        )

    def inputs(self, batch: Batch, part: slice) -> tuple[Any, ...]:
        """Return what the network takes for some of a batch's queries."""
        return self.feed.inputs(self.network, batch.rows[part])

    def weight(self, batch: Batch) -> int:
        """Return the number of queries: epochs' losses are means over these."""
        return batch.queries.size

    def renew_last_layer(self) -> None:
        """Draw the weights of the network's last layer anew."""
        reinitialise_last_layer(self.network, seed=self.settings.seed + 1, layer=self.network.last)

    def measure(self) -> float:
        """Return the mean of the settings' measure on the validation data; NaN without."""
        if self.validation_feed is None or self.measurer is None:
            return math.nan
        scores = self.validation_feed.scores(self.network)
        if not bool(scores.isfinite().all()):
            raise InputError(
                "the scores are no longer finite",
                accepted="a smaller learning rate, clipping, or another loss",
            )
        return self.measurer.mean(scores)


def fit(
    train: RankingData,
    validation: RankingData | None,
    settings: Settings,
    *,
    device: str = "cpu",
    checkpoint: Path | None = None,
    checkpoint_every: int | None = None,
    progress: Progress | None = None,
    watch: Callable[[TrainingRun], None] | None = None,
) -> Trained:
    """Train a network.

    The same data, settings, device and number of torch threads give the same weights, bit for bit,
    whether the training is interrupted or not. Where ``torchrun`` started several processes (see
    `lmtune.reranking.distributed`) all get the same result, that of one process up to rounding;
    with dropout, up to what is dropped.

    Parameters
    ----------
    train : RankingData
        What to learn from, normalised.
    validation : RankingData, optional
        What chooses the epoch; without, the last one is kept.
    settings : Settings
        Everything else.
    device : str
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. On a GPU, too, float32 is float32, not TF32; labels and
        features live there as far as they fit.
    checkpoint : path, optional
        A folder to keep the training's state in after each epoch, and to resume from.
    checkpoint_every : int, optional
        Keep it after so many steps as well.
    progress : callable, optional
        Called with (steps done, steps in all, a few words).
    watch : callable, optional
        Called after each epoch with the training in progress, to look at its network.

    Returns
    -------
    Trained

    Raises
    ------
    InputError
        For unknown names, data that do not fit, a checkpoint of another training, or a loss that
        is no longer finite.
    """
    check_device(device)
    _check(train, validation)
    digest = digest_of(train, validation) if checkpoint else ""  # which takes a while
    identity = {"settings": settings.as_record(), "data": digest}
    how = TrainingOptions(
        device=device, checkpoint=checkpoint, checkpoint_every=checkpoint_every, progress=progress
    )

    def make() -> ListTask:
        network = make_network(
            settings.network,
            train.features.shape[1],
            dropout=settings.dropout,
            norm_momentum=settings.norm_momentum,
            seed=settings.seed,
        )
        return ListTask(train, validation, settings, network.to(device), partial(Feed, device=device))

    run = run_through(make, settings, identity, how, watch)
    return Trained.of(run, features=train.features.shape[1])


def run_through(
    make: Callable[[], Task],
    settings: Settings,
    identity: Mapping[str, Any],
    how: TrainingOptions,
    watch: Callable[[TrainingRun], None] | None = None,
) -> TrainingRun:
    """Train to the end, from where an interrupted training of the same identity has stopped.

    Parameters
    ----------
    make : callable
        Makes the task; what it draws for it is the training's own.
    settings : Settings
        Of the training.
    identity : mapping
        What it is of, as JSON holds it.
    how, watch
        As for `fit`.

    Raises
    ------
    InputError
        As `fit`.
    """
    device, checkpoint = how.get("device", "cpu"), how.get("checkpoint")
    with repeatable(device):
        run = TrainingRun(make(), settings, device)
        kept = checkpoints.load_checkpoint(checkpoint, identity) if checkpoint else None
        if kept is not None:
            run.restore(*kept)

        def save() -> None:
            if checkpoint is not None and distributed.rank() == 0:
                checkpoints.save_checkpoint(checkpoint, identity, *run.state())

        while not run.finished:
            run.train_epoch(save, how.get("checkpoint_every"), how.get("progress"))
            save()
            if watch is not None:
                watch(run)
        return run


def _check(train: RankingData, validation: RankingData | None) -> None:
    for name, data in check_training_data(train, validation).items():
        if not np.isfinite(data.features).all():
            raise InputError(f"the {name} features are not all finite", accepted="finite numbers")


def digest_of(train: RankingData, validation: RankingData | None) -> str:
    """Return what tells features and labels to learn from, and to choose by, from others."""
    digest = hashlib.blake2b(digest_size=16)
    for data in (train, validation):
        if data is not None:
            for array in (data.features, data.labels, data.starts):
                digest.update(f"{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
