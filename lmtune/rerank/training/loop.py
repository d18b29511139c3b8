"""A training: epochs and steps, all of its state, repeatable to the bit and resumable at any step."""

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

from lmtune.devices import autocast, prefetch, repeatable
from lmtune.errors import InputError
from lmtune.io.csv_files import csv_text
from lmtune.losses.songs import RelevantPairs, reinitialise_last_layer
from lmtune.measures.lists import Measurer
from lmtune.progress import counted
from lmtune.rerank.data import Batch, RankingData, batches, hard_negatives, number_of_batches
from lmtune.rerank.settings import Settings, rate_at
from lmtune.rerank.training import checkpoints, distributed
from lmtune.rerank.training.objectives import BatchLabels, Objective, make_objective


def _check_finite(is_finite: bool, message: str, value: float | None = None) -> None:
    """Raise InputError where a training has come to numbers that are none."""
    if not is_finite:
        accepted = "a smaller learning rate, clipping, or another loss"
        raise InputError(message, value=value, accepted=accepted)


StepProgress = Callable[[int, int, str], None]
HISTORY, SECONDS = "history.csv", "seconds.csv"
"""Of a model: a row an epoch; the epochs' times, which alone differ between equal trainings."""

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
        Means over queries, as training went; `objective` is what the loss estimates where its
        value is only a way to a gradient (SONG), else the loss.
    rate : float
        The last step's learning rate.
    validation : float
        Mean nDCG at the settings' cutoff on the validation data; NaN without.
    """

    epoch: int
    loss: float
    objective: float
    rate: float
    validation: float


class ListFeed(Protocol):
    """Lists as networks take them."""

    def inputs(self, network: Any, rows: NDArray[np.int64]) -> tuple[Any, ...]:
        """Give what a network takes for a padded table of rows, (batch, items), -1 on padding."""

    def scores(self, network: Any) -> Tensor:
        """Score every row, nothing dropped out, shape (rows,)."""


class ListTask:
    """Lists in batches, a network that scores them, and how it is measured.

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
        train = hard_negatives(train, settings.negatives)
        self.train, self.settings, self.network = train, settings, network
        self.teacher, self.weights = train.teacher, train.weights
        self.steps = number_of_batches(train, settings.batch_size)
        self.feed = feed(train)
        self.validation_feed = None if validation is None else feed(validation)
        self.measurer = None if validation is None else Measurer(settings.validation_measure, validation)

    def pairs(self) -> RelevantPairs:
        """Return the relevant pairs of all lists; items are numbered by their rows."""
        return RelevantPairs.from_lists(self.train.starts, np.asarray(self.train.labels))

    def batches(self, epoch: int, start: int) -> Iterator[Batch]:
        """Yield an epoch's batches from a step on, whatever was yielded before.

        For a GPU this and `inputs` run in a thread of their own, and draw nothing of torch's generators.
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
        """Return what the network takes for some of a batch's queries."""
        return self.feed.inputs(self.network, batch.rows[part])

    def renew_last_layer(self) -> None:
        """Draw the weights of the network's last layer anew."""
        reinitialise_last_layer(self.network, seed=self.settings.seed + 1, layer=self.network.last)

    def measure(self) -> float:
        """Return the mean of the settings' measure on the validation data; NaN without."""
        if self.validation_feed is None or self.measurer is None:
            return math.nan
        scores = self.validation_feed.scores(self.network)
        _check_finite(bool(scores.isfinite().all()), "the scores are no longer finite")
        return self.measurer.mean(scores.cpu().numpy())


class _Staged(NamedTuple):
    """A batch as this process sees it, on the device."""

    batch: Batch
    part: slice
    labels: BatchLabels
    inputs: tuple[Any, ...]


class TrainingRun:
    """A training in progress."""

    def __init__(self, task: ListTask, settings: Settings, device: str) -> None:
        self.task, self.settings, self.device = task, settings, device
        self.network: nn.Module = task.network
        self.optimizer = self._new_optimizer()
        of_lists = task.pairs, device, task.teacher, task.weights
        self.objective = make_objective(settings.loss, *of_lists)
        self.warm: Objective | None = None
        if settings.warm_up:
            self.warm = make_objective(settings.warm_up_loss, *of_lists)
        self.epoch, self.step = 0, 0
        self.totals = torch.zeros(3, dtype=torch.float64, device=device)
        self.history: list[Epoch] = []
        self.seconds: list[float] = []
        self.best: dict[str, Tensor] = {}
        self.best_epoch = 0

    @property
    def finished(self) -> bool:
        """Whether no epoch is left, or patience is at its end."""
        patience = self.settings.patience
        late = patience is not None and self.best_epoch > 0
        return self.epoch >= self.settings.epochs or (
            late and self.epoch - self.best_epoch >= (patience or 0)
        )

    def train_epoch(self, save: Callable[[], None], every: int | None, progress: StepProgress | None) -> None:
        """Go on to the end of the present epoch."""
        begin, settings, steps = time.perf_counter(), self.settings, self.task.steps
        if self.epoch == settings.warm_up > 0 and self.step == 0:
            self.task.renew_last_layer()
            self.optimizer = self._new_optimizer()
        warming = self.epoch < settings.warm_up
        objective = self.warm if warming and self.warm is not None else self.objective
        self.network.train()
        seen = 0
        staged = self.staged(self.epoch, self.step, objective)
        for batch in prefetch(staged, self.device):
            self.make_step(batch, objective)
            self.step += 1
            seen += int(np.count_nonzero(batch.batch.mask))
            if progress is not None:
                words = f"{self._words()}, {seen / (time.perf_counter() - begin):.3g} documents a second"
                progress(self.epoch * steps + self.step, settings.epochs * steps, words)
            if every is not None and self.step % every == 0 and self.step < steps:
                save()
        objective.check()
        self._end_epoch(warming)
        self.seconds.append(time.perf_counter() - begin)

    def staged(self, epoch: int, start: int, objective: Objective) -> Iterator[_Staged]:
        """Yield an epoch's batches from a step on, on the device."""
        for step, batch in enumerate(self.task.batches(epoch, start), start):
            part, seed = distributed.process_part(batch.queries.size), _seed(self.settings.seed, epoch, step)
            share = 1.0
            if distributed.world_size() > 1:
                counted = objective.counted(batch.labels, batch.mask)
                share = float(counted[part].sum() / max(counted.sum(), 1))
            labels = BatchLabels.of(batch, seed, self.device, part, share)
            yield _Staged(batch, part, labels, self.task.inputs(batch, part))

    def make_step(self, staged: _Staged, objective: Objective) -> None:
        """Learn from a batch."""
        settings, (batch, part, labels, inputs) = self.settings, staged
        rate = rate_at(settings, self.epoch, self.step, self.task.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        # Seeded anew at each step, so that resuming needs no generator's state.
        torch.manual_seed(_seed(settings.seed, self.epoch, self.step, distributed.process_number()))
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
        # One pass over the memory of many weights, which is what such a step takes its time with, and
        # on a GPU one kernel for all of them.
        many = sum(weight.numel() for weight in self.network.parameters()) > _MANY_WEIGHTS
        fused = many or torch.device(self.device).type == "cuda"
        return kind(weights, lr=rate, weight_decay=decay, fused=fused)

    def _end_epoch(self, warming: bool) -> None:
        loss, objective, count = self.totals.tolist()
        mean = loss / count
        _check_finite(math.isfinite(mean), f"the loss is no longer finite in epoch {self.epoch + 1}", mean)
        rate = float(self.optimizer.param_groups[0]["lr"])
        measured = self.task.measure()
        self.epoch, self.step = self.epoch + 1, 0
        self.totals.zero_()
        self.history.append(Epoch(self.epoch, loss / count, objective / count, rate, measured))
        best = self.history[self.best_epoch - 1].validation if self.best_epoch else -math.inf
        if not warming and (math.isnan(measured) or measured > best):
            self.best_epoch = self.epoch
            state = self.network.state_dict()
            self.best = {name: tensor.detach().cpu().clone() for name, tensor in state.items()}

    def _words(self) -> str:
        if not self.history:
            return "epoch 1"
        last, measure = self.history[-1], self.settings.validation_measure.label
        return f"epoch {self.epoch + 1}, loss {last.loss:.4f}, {measure} {last.validation:.4f}"

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return all that `restore` needs: tensors, and what JSON can hold; once finished little."""
        tensors = checkpoints.prefixed("best", self.best)
        if not self.finished:
            tensors |= {"totals": self.totals}
            tensors |= checkpoints.prefixed("network", self.network.state_dict())
            tensors |= checkpoints.prefixed("optimizer", checkpoints.pack_optimizer(self.optimizer))
            tensors |= checkpoints.prefixed("loss", self.objective.state())
            if self.warm is not None:
                tensors |= checkpoints.prefixed("warm-up", self.warm.state())
        record = {
            "epoch": self.epoch,
            "step": self.step,
            "best_epoch": self.best_epoch,
            "history": [asdict(row) for row in self.history],
            "seconds": self.seconds,
        }
        return tensors, record

    def restore(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Go back to a state."""
        self.best = checkpoints.without_prefix("best", tensors)
        self.epoch, self.step = record["epoch"], record["step"]
        self.best_epoch = record["best_epoch"]
        self.history = [Epoch(**row) for row in record["history"]]
        self.seconds = list(record["seconds"])
        if self.finished:
            return
        self.network.load_state_dict(checkpoints.without_prefix("network", tensors))
        checkpoints.unpack_optimizer(self.optimizer, checkpoints.without_prefix("optimizer", tensors))
        self.objective.restore(checkpoints.without_prefix("loss", tensors))
        if self.warm is not None:
            self.warm.restore(checkpoints.without_prefix("warm-up", tensors))
        self.totals = tensors["totals"].to(self.device)


def _seed(*numbers: int) -> int:
    drawn = np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0]
    return int(drawn >> np.uint64(1))


def csv_rows(content: bytes) -> list[list[str]]:
    """Return a CSV file's rows, without its header."""
    return [line.split(",") for line in content.decode().splitlines()[1:]]


class TrainingOptions(TypedDict, total=False):
    """Where and how a training goes on, as `fit` takes it."""

    device: str
    checkpoint: Path | None
    checkpoint_every: int | None
    progress: StepProgress | bool | None


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
    has_rate: ClassVar = True

    @classmethod
    def of(cls, run: TrainingRun, **more: Any) -> Self:
        """Take what a run has come to, and a subclass's own attributes."""
        history, seconds = tuple(run.history), tuple(run.seconds)
        return cls(run.settings, run.best, history, seconds, run.best_epoch, **more)

    def save_course(self, folder: Path) -> dict[str, Any]:
        """Write how the training went; return what else there is to keep."""
        rows = [asdict(row) for row in self.history]
        seconds = ((epoch, f"{spent:.3f}") for epoch, spent in enumerate(self.seconds, 1))
        folder.joinpath(HISTORY).write_text(csv_text(rows[0], ([*row.values()] for row in rows)))
        folder.joinpath(SECONDS).write_text(csv_text(["epoch", "seconds"], seconds))
        return {"settings": self.settings.as_record(), "best_epoch": self.best_epoch}

    @staticmethod
    def read_course(files: Mapping[str, bytes], kept: Mapping[str, Any]) -> dict[str, Any]:
        """Return all but the weights of what `save_course` has kept."""
        rows = csv_rows(files[HISTORY])
        return {
            "settings": Settings.from_record(kept["settings"]),
            "history": tuple(Epoch(int(epoch), *map(float, rest)) for epoch, *rest in rows),
            "seconds": tuple(float(spent) for _, spent in csv_rows(files[SECONDS])),
            "best_epoch": kept["best_epoch"],
        }

    @property
    def validation(self) -> float:
        """The best epoch's validation value."""
        return self.history[self.best_epoch - 1].validation

    @property
    def label(self) -> str:
        """Its name in a run."""
        return self.settings.label

    @property
    def summary(self) -> str:
        """The best epoch, in a line."""
        return (
            f"best epoch {self.best_epoch} of {len(self.history)}, "
            f"validation {self.settings.validation_measure.label} {self.validation:.4f}"
        )


def run_through(
    make: Callable[[], ListTask],
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
            if checkpoint is not None and distributed.process_number() == 0:
                checkpoints.save_checkpoint(checkpoint, identity, *run.state())

        progress = counted(how.get("progress"), "training")
        while not run.finished:
            run.train_epoch(save, how.get("checkpoint_every"), progress)
            save()
            if watch is not None:
                watch(run)
        return run
