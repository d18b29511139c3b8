"""A training in progress: epochs and steps, and all of its state."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lmtune.errors import InputError
from lmtune.measures.lists import ndcg
from lmtune.reranking import checkpoints, distributed
from lmtune.reranking.data import Batch, RankingData, batches, number_of_batches
from lmtune.reranking.networks import ItemNorm, make_network
from lmtune.reranking.objectives import Lists, Objective, check_objective, make_objective
from lmtune.reranking.perturbation import Perturbing
from lmtune.reranking.scoring import Feed, predict
from lmtune.reranking.settings import GRADIENT_FREE, Settings, rate_at
from lmtune.reranking.song.iterates import PreviousIterate
from lmtune.reranking.song.warmup import reinitialise_last_layer

Progress = Callable[[int, int, str], None]
_MOMENTUM = 0.9


@dataclass(frozen=True)
class Epoch:
    """What one pass over the training queries came to.

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


class Run:
    """A training in progress."""

    def __init__(
        self, train: RankingData, validation: RankingData | None, settings: Settings, device: str
    ) -> None:
        self.settings, self.device, self.train, self.validation = (settings, device, train, validation)
        for loss in (settings.loss, settings.warm_up_loss):
            check_objective(loss, settings.optimizer)
        features = train.features.shape[1]
        self.network = make_network(
            settings.network, features, dropout=settings.dropout, seed=settings.seed
        ).to(device)
        self.steps = number_of_batches(train, settings.batch_size)
        self.optimizer = _optimizer(settings, self.network, self.steps)
        self.objective = make_objective(settings.loss, settings.loss_options, train, device)
        norms = any(isinstance(module, ItemNorm) for module in self.network.modules())
        if self.objective.needs == "direction" and norms:
            raise InputError(
                "this estimator needs a network without batch norm",
                value=settings.network,
                accepted="mlp:256-128-64, attention; or another estimator",
            )
        self.warm: Objective | None = None
        if settings.warm_up:
            self.warm = make_objective(settings.warm_up_loss, {}, train, device)
        self.previous = PreviousIterate(self.network)
        self.feed = Feed(train, device)
        self.validation_feed = None if validation is None else Feed(validation, device)
        # Rows and labels only: features are gathered from the feed.
        self.lists = replace(train, features=np.empty((train.labels.size, 0), np.float32))
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

    def train_epoch(self, save: Callable[[], None], every: int | None, progress: Progress | None) -> None:
        """Go on to the end of the present epoch."""
        begin, settings = time.perf_counter(), self.settings
        warming = self.epoch < settings.warm_up
        if self.epoch == settings.warm_up > 0 and self.step == 0:
            reinitialise_last_layer(self.network, seed=settings.seed + 1, layer=self.network.last)
            self.optimizer = _optimizer(settings, self.network, self.steps)
            self.previous = PreviousIterate(self.network)
        objective = self.warm if warming and self.warm is not None else self.objective
        self.network.train()
        for batch in batches(
            self.lists,
            size=settings.batch_size,
            seed=settings.seed,
            epoch=self.epoch,
            list_size=settings.list_size,
            list_relevant=settings.list_relevant,
            start=self.step,
        ):
            self._step(batch, objective)
            self.step += 1
            if progress is not None:
                done = self.epoch * self.steps + self.step
                progress(done, settings.epochs * self.steps, self._words())
            if every is not None and self.step % every == 0 and self.step < self.steps:
                save()
        self._end_epoch(warming)
        self.seconds.append(time.perf_counter() - begin)

    def _step(self, batch: Batch, objective: Objective) -> None:
        settings = self.settings
        rate = rate_at(settings, self.epoch, self.step, self.steps)
        # Seeded anew at each step, so that resuming needs no generator's state.
        seeds = np.random.SeedSequence([settings.seed, self.epoch, self.step, distributed.rank()])
        own_seed = int(seeds.generate_state(1, np.uint64)[0] >> np.uint64(1))
        common = np.random.SeedSequence([settings.seed, self.epoch, self.step])
        lists = Lists(
            self.feed.to_device(batch.labels),
            self.feed.to_device(batch.mask),
            self.feed.to_device(batch.queries),
            self.feed.to_device(batch.rows),
            int(common.generate_state(1, np.uint64)[0] >> np.uint64(1)),
        )
        count = batch.queries.size
        inputs = self.feed.inputs(self.network, batch.rows[distributed.part_of(count)])

        def evaluate() -> tuple[Tensor, Tensor]:
            torch.manual_seed(own_seed)
            with torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=settings.amp_bf16):
                own, before = self._scores(inputs, objective.needs)
            scores = distributed.gather_parts(own, count)
            if before is not None:
                before = distributed.gather_parts(before, count)
            return objective(scores, lists, before)

        if isinstance(self.optimizer, Perturbing):
            number = self.epoch * self.steps + self.step
            mean = self.optimizer.descend(
                lambda: self._finite(float(evaluate()[0])), rate, number, lists.seed
            )
            loss = value = self.totals.new_tensor(mean)
        else:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.zero_grad(set_to_none=True)
            loss, value = evaluate()
            loss.backward()  # type: ignore[no-untyped-call]
            distributed.add_gradients(self.network.parameters())
            if settings.clip is not None:
                torch.nn.utils.clip_grad_norm_(self.network.parameters(), settings.clip)
            if objective.needs:
                self.previous.remember()
            self.optimizer.step()
        self.totals += count * torch.stack([loss.detach(), value, torch.ones_like(value)]).double()

    def _scores(self, inputs: tuple[Tensor, Tensor], needs: str) -> tuple[Tensor, Tensor | None]:
        if not needs:
            return self.network(*inputs), None
        both = self.previous.scores if needs == "previous" else self.previous.changes
        return both(*inputs)

    def _finite(self, loss: float) -> float:
        if not math.isfinite(loss):
            raise InputError(
                f"the loss is no longer finite in epoch {self.epoch + 1}",
                value=loss,
                accepted="a smaller learning rate, clipping, or another loss",
            )
        return loss

    def _end_epoch(self, warming: bool) -> None:
        loss, objective, count = self.totals.tolist()
        self._finite(loss / count)
        rate = float(self.optimizer.param_groups[0]["lr"])
        measured = self._validate()
        self.epoch, self.step = self.epoch + 1, 0
        self.totals.zero_()
        self.history.append(Epoch(self.epoch, loss / count, objective / count, rate, measured))
        best = self.history[self.best_epoch - 1].validation if self.best_epoch else -math.inf
        if not warming and (self.validation is None or measured > best):
            self.best_epoch = self.epoch
            state = self.network.state_dict()
            self.best = {name: tensor.detach().cpu().clone() for name, tensor in state.items()}

    def _validate(self) -> float:
        if self.validation is None or self.validation_feed is None:
            return math.nan
        scores = predict(self.network, self.validation, self.validation_feed)
        if not np.isfinite(scores).all():
            raise InputError(
                f"the scores are no longer finite in epoch {self.epoch + 1}",
                accepted="a smaller learning rate, clipping, or another loss",
            )
        return float(np.nanmean(ndcg(scores, self.validation, [self.settings.measure])))

    def _words(self) -> str:
        if not self.history:
            return "epoch 1"
        last = self.history[-1]
        return (
            f"epoch {self.epoch + 1}, loss {last.loss:.4f}, "
            f"nDCG@{self.settings.measure} {last.validation:.4f}"
        )

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return all that `restore` needs: tensors, and what JSON can hold."""
        tensors = {"totals": self.totals}
        tensors |= checkpoints.prefixed("network", self.network.state_dict())
        tensors |= checkpoints.prefixed("best", self.best)
        tensors |= checkpoints.prefixed("optimizer", checkpoints.pack_optimizer(self.optimizer))
        tensors |= checkpoints.prefixed("loss", self.objective.state())
        if self.objective.needs:
            tensors |= checkpoints.prefixed("previous", self.previous.state_dict())
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
        self.network.load_state_dict(checkpoints.without_prefix("network", tensors))
        self.best = checkpoints.without_prefix("best", tensors)
        checkpoints.unpack_optimizer(self.optimizer, checkpoints.without_prefix("optimizer", tensors))
        self.objective.restore(checkpoints.without_prefix("loss", tensors))
        if self.objective.needs:
            self.previous.load_state_dict(checkpoints.without_prefix("previous", tensors))
        if self.warm is not None:
            self.warm.restore(checkpoints.without_prefix("warm-up", tensors))
        self.totals = tensors["totals"].to(self.device)
        self.epoch, self.step = record["epoch"], record["step"]
        self.best_epoch = record["best_epoch"]
        self.history = [Epoch(**row) for row in record["history"]]
        self.seconds = list(record["seconds"])


def _optimizer(settings: Settings, network: torch.nn.Module, steps: int) -> torch.optim.Optimizer:
    if settings.optimizer in GRADIENT_FREE:
        return Perturbing(network, settings, settings.epochs * steps)
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(network.parameters(), lr=rate, momentum=_MOMENTUM, weight_decay=decay)
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return kind(network.parameters(), lr=rate, weight_decay=decay)
