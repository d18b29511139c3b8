"""The training loop: epochs, steps and state; bitwise reproducible and resumable at any step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lmtune.devices import autocast, prefetch, repeatable, set_seed, threads_of_torch
from lmtune.errors import InputError
from lmtune.io.csv_files import csv_text
from lmtune.losses.songs import RelevantPairs, reinitialise_last_layer
from lmtune.measures.lists import Measurer
from lmtune.progress import count_callback
from lmtune.rerank.data import Batch, RankingData, batches, hard_negatives, number_of_batches
from lmtune.rerank.settings import Settings, rate_at
from lmtune.rerank.training import checkpoints, distributed
from lmtune.rerank.training.objectives import BatchLabels, Objective, make_objective


def _check_finite(is_finite: bool, message: str, value: float | None = None) -> None:
    if not is_finite:
        accepted = "a smaller learning rate, clipping, or another loss"
        raise InputError(message, value=value, accepted=accepted)


StepProgress = Callable[[int, int, str], None]
HISTORY, SECONDS = "history.csv", "seconds.csv"
"""Files of a model: one row per epoch; the epochs' times, which differ between repeated trainings."""

_MOMENTUM = 0.9
_MANY_WEIGHTS = 1 << 21


@dataclass(frozen=True)
class Epoch:
    """One pass over the training queries.

    Attributes
    ----------
    epoch : int
        From 1.
    loss, objective : float
        Means over queries during the epoch. For SONG, whose loss value only serves to compute gradients,
        `objective` is the estimated objective; for other losses it equals the loss.
    rate : float
        Learning rate of the last step.
    validation : float
        Mean of the validation measure; NaN without validation data.
    """

    epoch: int
    loss: float
    objective: float
    rate: float
    validation: float


class ListFeed(Protocol):
    """Network inputs for the lists of a data set."""

    def inputs(self, network: Any, rows: NDArray[np.int64]) -> tuple[Any, ...]:
        """Return the network's input for padded rows, shape (batch, items); -1 marks padding."""

    def scores(self, network: Any) -> Tensor:
        """Score every row without dropout, shape (rows,)."""


class ListTask:
    """Training batches, the network to train, and its validation.

    Parameters
    ----------
    train : RankingData
    validation : RankingData, optional
        Queries on which the validation measure is computed after each epoch.
    settings : Settings
    network : torch.nn.Module
        On the device of training, with an attribute ``last``, the layer that computes the score.
    feed : callable
        Creates the `ListFeed` of the training or the validation data.
    """

    def __init__(
        self,
        train: RankingData,
        validation: RankingData | None,
        settings: Settings,
        network: Any,
        feed: Callable[[Any], ListFeed],
    ) -> None:
        train = hard_negatives(train, settings.negatives)
        self.train, self.settings, self.network = train, settings, network
        self.teacher, self.weights = train.teacher, train.weights
        self.steps = number_of_batches(train, settings.batch_size)
        self.feed = feed(train)
        self.validation_feed = None if validation is None else feed(validation)
        self.measurer = None if validation is None else Measurer(settings.validation_measure, validation)

    def pairs(self) -> RelevantPairs:
        """Return all (query, relevant item) pairs; items are numbered by their rows."""
        return RelevantPairs.from_lists(self.train.starts, np.asarray(self.train.labels))

    def batches(self, epoch: int, start: int) -> Iterator[Batch]:
        """Yield an epoch's batches from step `start` on.

        With a GPU, this and `inputs` run in a thread, so they must not use torch's random generators.
        """
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
        """Return the network's input for a slice of a batch's queries."""
        return self.feed.inputs(self.network, batch.rows[part])

    def reinitialise_last_layer(self) -> None:
        """Draw new weights for the network's last layer."""
        reinitialise_last_layer(self.network, seed=self.settings.seed + 1, layer=self.network.last)

    def measure(self) -> float:
        """Return the mean of the validation measure; NaN without validation data."""
        if self.validation_feed is None or self.measurer is None:
            return math.nan
        scores = self.validation_feed.scores(self.network)
        _check_finite(bool(scores.isfinite().all()), "the scores are no longer finite")
        return self.measurer.mean(scores.cpu().numpy())


class _Staged(NamedTuple):
    """A batch with this process's part of it on the device."""

    batch: Batch
    part: slice
    labels: BatchLabels
    inputs: tuple[Any, ...]


class TrainingRun:
    """The state of a training in progress, and its steps."""

    def __init__(self, task: ListTask, settings: Settings, device: str) -> None:
        self.task, self.settings, self.device = task, settings, device
        self.network: nn.Module = task.network
        self.optimizer = self._new_optimizer()
        arguments = task.pairs, device, task.teacher, task.weights
        self.objective = make_objective(settings.loss, *arguments)
        self.warm_up_objective: Objective | None = None
        if settings.warm_up:
            self.warm_up_objective = make_objective(settings.warm_up_loss, *arguments)
        self.epoch, self.step = 0, 0
        self.totals = torch.zeros(3, dtype=torch.float64, device=device)
        self.history: list[Epoch] = []
        self.seconds: list[float] = []
        self.best: dict[str, Tensor] = {}
        self.best_epoch = 0

    @property
    def is_finished(self) -> bool:
        """Whether all epochs are done, or patience is exhausted."""
        patience = self.settings.patience
        can_stop = patience is not None and self.best_epoch > 0
        return self.epoch >= self.settings.epochs or (
            can_stop and self.epoch - self.best_epoch >= (patience or 0)
        )

    def train_epoch(self, save: Callable[[], None], every: int | None, progress: StepProgress | None) -> None:
        """Train until the end of the current epoch."""
        begin, settings, steps = time.perf_counter(), self.settings, self.task.steps
        if self.epoch == settings.warm_up > 0 and self.step == 0:
            self.task.reinitialise_last_layer()
            self.optimizer = self._new_optimizer()
        is_warm_up = self.epoch < settings.warm_up
        warm_up = self.warm_up_objective if is_warm_up else None
        objective = self.objective if warm_up is None else warm_up
        self.network.train()
        documents = 0
        staged = self.staged_batches(self.epoch, self.step, objective)
        for batch in prefetch(staged, self.device):
            self.train_step(batch, objective)
            self.step += 1
            documents += int(np.count_nonzero(batch.batch.mask))
            if progress is not None:
                status = f"{self._status()}, {documents / (time.perf_counter() - begin):.3g} documents/s"
                progress(self.epoch * steps + self.step, settings.epochs * steps, status)
            if every is not None and self.step % every == 0 and self.step < steps:
                save()
        objective.check()
        self._end_epoch(is_warm_up)
        self.seconds.append(time.perf_counter() - begin)

    def staged_batches(self, epoch: int, start: int, objective: Objective) -> Iterator[_Staged]:
        """Yield an epoch's batches from step `start` on, with their arrays on the device."""
        for step, batch in enumerate(self.task.batches(epoch, start), start):
            part, seed = distributed.process_part(batch.queries.size), _seed(self.settings.seed, epoch, step)
            share = 1.0
            if distributed.world_size() > 1:
                counted = objective.counted(batch.labels, batch.mask)
                share = float(counted[part].sum() / max(counted.sum(), 1))
            labels = BatchLabels.of(batch, seed, self.device, part, share)
            yield _Staged(batch, part, labels, self.task.inputs(batch, part))

    def train_step(self, staged: _Staged, objective: Objective) -> None:
        """Update the weights with one batch."""
        settings, (batch, part, labels, inputs) = self.settings, staged
        rate = rate_at(settings, self.epoch, self.step, self.task.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        # Seed each step, so that checkpoints need no generator state.
        set_seed(_seed(settings.seed, self.epoch, self.step, distributed.process_number()), self.device)
        with autocast(self.device, bf16=settings.amp_bf16):
            scores = self.network(*inputs)
        if labels.queries.numel():
            loss, value = objective(labels, scores)
        else:  # more processes than queries
            loss, value = scores.sum(), torch.zeros((), device=self.device)
        (loss if labels.share == 1.0 else labels.share * loss).backward()  # type: ignore[no-untyped-call]
        means = distributed.sum_over_processes(labels.share * torch.stack([loss.detach(), value]).double())
        distributed.add_gradients(self.network.parameters())
        if distributed.world_size() > 1:
            objective.exchange(batch.queries, part)
        if settings.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), settings.clip)
        self.optimizer.step()
        self.totals += batch.queries.size * torch.cat([means, torch.ones_like(means[:1])])

    def _new_optimizer(self) -> torch.optim.Optimizer:
        settings, weights = self.settings, self.network.parameters()
        rate, decay = settings.learning_rate, settings.weight_decay
        if settings.optimizer == "sgd":
            return torch.optim.SGD(weights, lr=rate, momentum=_MOMENTUM, weight_decay=decay)
        kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
        # The fused implementation reads the memory of large networks once, and needs one kernel on a GPU.
        many = sum(weight.numel() for weight in self.network.parameters()) > _MANY_WEIGHTS
        fused = many or torch.device(self.device).type == "cuda"
        return kind(weights, lr=rate, weight_decay=decay, fused=fused)

    def _end_epoch(self, is_warm_up: bool) -> None:
        loss, objective, count = self.totals.tolist()
        mean = loss / count
        _check_finite(math.isfinite(mean), f"the loss is no longer finite in epoch {self.epoch + 1}", mean)
        rate = float(self.optimizer.param_groups[0]["lr"])
        validation = self.task.measure()
        self.epoch, self.step = self.epoch + 1, 0
        self.totals.zero_()
        self.history.append(Epoch(self.epoch, loss / count, objective / count, rate, validation))
        best = self.history[self.best_epoch - 1].validation if self.best_epoch else -math.inf
        if not is_warm_up and (math.isnan(validation) or validation > best):
            self.best_epoch = self.epoch
            state = self.network.state_dict()
            self.best = {name: tensor.detach().cpu().clone() for name, tensor in state.items()}

    def _status(self) -> str:
        if not self.history:
            return "epoch 1"
        last, measure = self.history[-1], self.settings.validation_measure.label
        return f"epoch {self.epoch + 1}, loss {last.loss:.4f}, {measure} {last.validation:.4f}"

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the arguments of `restore`: tensors, and JSON values. Finished runs omit most tensors."""
        tensors = checkpoints.prefixed("best", self.best)
        if not self.is_finished:
            tensors |= {"totals": self.totals}
            tensors |= checkpoints.prefixed("network", self.network.state_dict())
            tensors |= checkpoints.prefixed("optimizer", checkpoints.pack_optimizer(self.optimizer))
            tensors |= checkpoints.prefixed("loss", self.objective.state())
            if self.warm_up_objective is not None:
                tensors |= checkpoints.prefixed("warm-up", self.warm_up_objective.state())
        record = {
            "epoch": self.epoch,
            "step": self.step,
            "best_epoch": self.best_epoch,
            "history": [asdict(row) for row in self.history],
            "seconds": self.seconds,
        }
        return tensors, record

    def restore(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned."""
        self.best = checkpoints.without_prefix("best", tensors)
        self.epoch, self.step = record["epoch"], record["step"]
        self.best_epoch = record["best_epoch"]
        self.history = [Epoch(**row) for row in record["history"]]
        self.seconds = list(record["seconds"])
        if self.is_finished:
            return
        self.network.load_state_dict(checkpoints.without_prefix("network", tensors))
        checkpoints.unpack_optimizer(self.optimizer, checkpoints.without_prefix("optimizer", tensors))
        self.objective.restore(checkpoints.without_prefix("loss", tensors))
        if self.warm_up_objective is not None:
            self.warm_up_objective.restore(checkpoints.without_prefix("warm-up", tensors))
        self.totals = tensors["totals"].to(self.device)


def _seed(*numbers: int) -> int:
    drawn = np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0]
    return int(drawn >> np.uint64(1))


def csv_rows(content: bytes) -> list[list[str]]:
    """Return a CSV file's rows, without its header."""
    return [line.split(",") for line in content.decode().splitlines()[1:]]


class TrainingOptions(TypedDict, total=False):
    """Options of `fit` that do not change its result: device, checkpoints and progress."""

    device: str
    checkpoint: Path | None
    checkpoint_every: int | None
    progress: StepProgress | bool | None


@dataclass(frozen=True)
class Training:
    """The result of a finished training.

    Attributes
    ----------
    settings : Settings
    weights : dict of str to Tensor
        Weights of the best epoch, on the CPU.
    history : tuple of Epoch
        One item per epoch.
    seconds : tuple of float
        Time of each epoch; not in `history`, because it differs between repeated trainings.
    best_epoch : int
        The first epoch after the warm-up with the highest validation value; without validation data, the
        last epoch.
    """

    settings: Settings
    weights: dict[str, Tensor]
    history: tuple[Epoch, ...]
    seconds: tuple[float, ...]
    best_epoch: int
    has_rate: ClassVar = True

    @classmethod
    def of(cls, run: TrainingRun, **more: Any) -> Self:
        """Create the result of a finished run; `more` are attributes of a subclass."""
        history, seconds = tuple(run.history), tuple(run.seconds)
        return cls(run.settings, run.best, history, seconds, run.best_epoch, **more)

    def save_history(self, folder: Path) -> dict[str, Any]:
        """Write history and times as CSV files; return settings and best epoch as JSON values."""
        rows = [asdict(row) for row in self.history]
        seconds = ((epoch, f"{spent:.3f}") for epoch, spent in enumerate(self.seconds, 1))
        folder.joinpath(HISTORY).write_text(csv_text(rows[0], ([*row.values()] for row in rows)))
        folder.joinpath(SECONDS).write_text(csv_text(["epoch", "seconds"], seconds))
        return {"settings": self.settings.as_record(), "best_epoch": self.best_epoch}

    @staticmethod
    def load_history(files: Mapping[str, bytes], model: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes that `save_history` wrote: all but the weights."""
        rows = csv_rows(files[HISTORY])
        return {
            "settings": Settings.from_record(model["settings"]),
            "history": tuple(Epoch(int(epoch), *map(float, rest)) for epoch, *rest in rows),
            "seconds": tuple(float(spent) for _, spent in csv_rows(files[SECONDS])),
            "best_epoch": model["best_epoch"],
        }

    @property
    def validation(self) -> float:
        """Validation value of the best epoch."""
        return self.history[self.best_epoch - 1].validation

    @property
    def label(self) -> str:
        """The default tag of runs: `Settings.label`; of a model trained elsewhere, the network's name."""
        return self.settings.label if self.history else self.settings.short_network

    @property
    def summary(self) -> str:
        """One line with the best epoch and its validation value, and whether more epochs may be better."""
        more = "; more --epochs may be better" if self.best_epoch == self.settings.epochs else ""
        return (
            f"best epoch {self.best_epoch} of {len(self.history)}, "
            f"validation {self.settings.validation_measure.label} {self.validation:.4f}{more}"
        )


def run_training(
    make: Callable[[], ListTask],
    settings: Settings,
    identity: Mapping[str, Any],
    how: TrainingOptions,
    watch: Callable[[TrainingRun], None] | None = None,
) -> TrainingRun:
    """Train all epochs, resuming from a checkpoint with the same identity if there is one.

    Parameters
    ----------
    make : callable
        Creates the task. Its random draws do not change the caller's generators.
    settings : Settings
    identity : mapping
        Settings and digests of the data, as JSON values.
    how, watch
        See `lmtune.rerank.learners.feature_networks.fit`.

    Raises
    ------
    InputError
        As `lmtune.rerank.learners.feature_networks.fit`.
    """
    device, checkpoint = how.get("device", "cpu"), how.get("checkpoint")
    with repeatable(device), threads_of_torch(settings.threads):
        run = TrainingRun(make(), settings, device)
        state = checkpoints.load_checkpoint(checkpoint, identity) if checkpoint else None
        if state is not None:
            run.restore(*state)

        def save() -> None:
            if checkpoint is not None and distributed.process_number() == 0:
                checkpoints.save_checkpoint(checkpoint, identity, *run.state())

        progress = count_callback(how.get("progress"), "training")
        while not run.is_finished:
            run.train_epoch(save, how.get("checkpoint_every"), progress)
            save()
            if watch is not None:
                watch(run)
        return run
