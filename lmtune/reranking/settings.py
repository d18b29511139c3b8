"""What a training run is asked to do, checked before it begins."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from lmtune.errors import InputError
from lmtune.reranking.losses.lambda_functions import LAMBDAS, named_options

GRADIENT_FREE = ("spsa", "fdsa")
"""Optimizers that need the loss's values alone."""

OPTIMIZERS = ("adam", "adamw", "sgd", *GRADIENT_FREE)
SCHEDULES = "constant, step (a tenth after two thirds), step:20,25 (after these epochs), cosine"


@dataclass(frozen=True)
class Settings:
    """Everything that a trained network depends on besides the data and the device.

    Attributes
    ----------
    loss : str
        One of `lmtune.reranking.objectives.loss_names`; with SPSA and FDSA also a measure, such as
        ``"ndcg@10"``, whose mean over queries is maximised (of costs: minimised).
    loss_options : dict
        Passed to the loss, such as ``{"alpha": 1.0}``; for the loss ``"lambdas"``
        ``{"function": "FILE.py:NAME"}``, to which the file's digest is added.
    network : str
        As `lmtune.reranking.networks.make_network` takes.
    dropout : float
        In [0, 1).
    optimizer : {"adam", "adamw", "sgd", "spsa", "fdsa"}
        ``"sgd"`` has momentum 0.9; the last two are `lmtune.reranking.perturbation.Perturbing`.
    evaluations_per_step : int
        F of SPSA:F, even; F/2 perturbations are averaged.
    perturbation : float
        SPSA's and FDSA's first distance between weights and the points that are compared.
    learning_rate, weight_decay : float
        The rate is positive.
    schedule : str
        ``"constant"``; ``"step"``, a tenth of the rate after two thirds of the epochs, or
        ``"step:20,25"``, a tenth after each of these epochs; ``"cosine"``, to 0.
    epochs : int
        Passes over the training queries, warm-up included.
    batch_size : int
        Queries a step.
    list_size : int, optional
        Documents a query in training, drawn anew each epoch; all by default.
    list_relevant : int, optional
        How many of these are relevant ones; a uniform sample by default.
    clip : float, optional
        The gradient's largest norm.
    patience : int, optional
        Stop after so many epochs without a better validation value.
    warm_up : int
        Epochs with `warm_up_loss` first; then the last layer is drawn anew.
    warm_up_loss : str
        The loss of these epochs.
    measure : int
        The cutoff k of the validation measure, nDCG@k with gains 2^y - 1 over the queries that
        have a relevant document.
    amp_bf16 : bool
        Whether the network, not the loss, computes in bfloat16.
    seed : int
        Of weights, batches, dropout and whatever a loss draws; 0 or more.
    """

    loss: str = "lambdarank"
    loss_options: dict[str, Any] = field(default_factory=dict)
    network: str = "b256"
    dropout: float = 0.0
    optimizer: str = "adam"
    evaluations_per_step: int = 4
    perturbation: float = 0.01
    learning_rate: float = 0.001
    weight_decay: float = 0.0
    schedule: str = "constant"
    epochs: int = 30
    batch_size: int = 64
    list_size: int | None = None
    list_relevant: int | None = None
    clip: float | None = None
    patience: int | None = None
    warm_up: int = 0
    warm_up_loss: str = "listnet"
    measure: int = 10
    amp_bf16: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "list_size", "list_relevant", "patience", "measure"):
            _check(name, getattr(self, name), lambda value: value >= 1, "1 or more")
        for name in ("learning_rate", "clip", "perturbation"):
            _check(name, getattr(self, name), lambda value: value > 0, "a positive number")
        for name in ("weight_decay", "seed", "warm_up"):
            _check(name, getattr(self, name), lambda value: value >= 0, "0 or more")
        _check("dropout", self.dropout, lambda value: 0 <= value < 1, "0 or more, below 1")
        if self.list_relevant is not None and self.list_size is None:
            raise InputError(
                "relevant documents of a sample, but no sample",
                value=self.list_relevant,
                accepted="a list size, too",
            )
        if self.warm_up >= self.epochs:
            raise InputError(
                "no epoch is left after the warm-up",
                value=self.warm_up,
                accepted=f"fewer than the {self.epochs} epochs in all",
            )
        _check(
            "evaluations_per_step",
            self.evaluations_per_step,
            lambda value: value >= 2 and value % 2 == 0,
            "2, 4, 6 ...",
        )
        if self.optimizer not in OPTIMIZERS:
            raise InputError("unknown optimizer", value=self.optimizer, accepted=", ".join(OPTIMIZERS))
        rate_at(self, 0, 0, 1)
        if self.loss == LAMBDAS:
            object.__setattr__(self, "loss_options", named_options(self.loss_options))

    def as_record(self) -> dict[str, Any]:
        """Return the settings as JSON holds them."""
        return dataclasses.asdict(self)


def rate_at(settings: Settings, epoch: int, step: int, steps: int) -> float:
    """Return the learning rate of one step.

    Parameters
    ----------
    settings : Settings
        With a schedule.
    epoch, step : int
        From 0; the step within the epoch.
    steps : int
        Steps an epoch.

    Raises
    ------
    InputError
        For an unknown schedule.
    """
    kind, _, text = settings.schedule.partition(":")
    rate = settings.learning_rate
    if kind == "constant" and not text:
        return rate
    if kind == "cosine" and not text:
        done = (epoch * steps + step) / (settings.epochs * steps)
        return 0.5 * rate * (1.0 + math.cos(math.pi * done))
    try:
        after = [int(part) for part in text.split(",")] if text else [2 * settings.epochs // 3]
    except ValueError:
        after = []
    if kind != "step" or not after or min(after) < 0:
        raise InputError("unknown schedule", value=settings.schedule, accepted=SCHEDULES)
    return rate * 0.1 ** sum(epoch >= number for number in after)


def _check(name: str, value: Any, fits: Any, accepted: str) -> None:
    # A setting that may be left out is None; a number that is none compares false.
    if value is not None and not (math.isfinite(value) and fits(value)):
        raise InputError(f"bad {name.replace('_', ' ')}", value=value, accepted=accepted)
