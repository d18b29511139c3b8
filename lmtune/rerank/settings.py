"""Settings of training and of text rerankers, validated on construction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Self

from lmtune.errors import InputError, MissingExtraError
from lmtune.measures.measure import Measure, check_higher_is_better, parse_list_measure
from lmtune.options import check, option, usual
from lmtune.progress import note
from lmtune.rerank.data import parse_rank_range
from lmtune.rerank.loss_names import ELSEWHERE, SONG, Loss, make_loss, parse_loss
from lmtune.rerank.rankers import LEARNERS, NETWORK, Ranker, make_ranker, parse_ranker

_REMOVED = ("evaluations_per_step", "perturbation")
"""Keys in settings files of lmtune 0.3 that are ignored."""

_OPTIMIZERS = ("adam", "adamw", "sgd")
_SCHEDULES = "constant, step (a tenth after two thirds), step:20,25 (after these epochs), cosine"


TEXT, DECODER, ENCODER = "text:", "decoder:", "encoder:"
"""Prefixes of the names of networks that read text."""

_DEFAULTS: dict[str, tuple[float | None, float | None]] = {
    "dropout": (0.0, None),
    "learning_rate": (1e-3, 5e-5),
    "epochs": (30, 3),
    "threads": (1, None),
}
"""Defaults of networks on features (docs/protocols/reranker-defaults.md), and of networks that read text."""


@dataclass(frozen=True)
class Settings:
    """Training: settings of a reranker, without data and device.

    Each field has a help text. `lmtune.rerank.loss_names.parse_loss` describes losses,
    `lmtune.rerank.learners.networks.make_network` networks. The defaults of `dropout`,
    `learning_rate`, `epochs` and `threads` depend on whether the network reads text. The
    validation measure is parsed by `lmtune.measures.measure.parse_list_measure`: NDCG has gains
    2^y - 1, and its mean is over queries with a relevant document.

    Raises
    ------
    InputError
        If a value is out of bounds, or the schedule or the measure is unknown.
    """

    loss: Loss = usual(
        Loss("lambdarank"),
        "lambdarank, song, k-song:theoretical=true ...; margin-mse@teacher (needs --teacher); a function of"
        " yours, lambdas:FILE.py:NAME.",
        read=parse_loss,
    )
    ranker: Ranker = usual(
        NETWORK,
        "network (see --net, --loss), or trees: lambdamart[:rounds=500:leaves=63], yetirank[:depth=4].",
        read=parse_ranker,
    )
    network: str = usual(
        "mlp:64-32",
        "linear, two-layer, b64 ... b1024, b:256-64, mlp:256-64, attention[:128-2-2]; text:MODEL, a"
        " cross-encoder (folder, package or name on the Hub); decoder:MODEL, a prompted language model.",
        flag="--net",
    )
    dropout: float = option(
        None, "Dropout after each hidden layer; default 0, for text:MODEL the model's.", low=0, below=1
    )
    norm_momentum: float = option(
        0.9, "Momentum of batch norm's running mean and variance, as in Keras.", low=0, below=1
    )
    optimizer: str = option("adam", "adam, adamw or sgd (momentum 0.9).", choices=_OPTIMIZERS)
    learning_rate: float = option(
        None, "Initial learning rate; default 0.001, for text:MODEL 0.00005.", above=0
    )
    weight_decay: float = option(0.0, "Weight decay of the optimizer.", low=0)
    schedule: str = option(
        "constant", "Learning rate: constant, step, step:20,25 (a tenth after these epochs), cosine (to 0)."
    )
    epochs: int = usual(
        None, "Passes over the training queries, warm-up included; default 30, for text:MODEL 3.", low=1
    )
    batch_size: int = option(16, "Queries per step.", low=1)
    list_size: int | None = option(
        None, "Documents sampled per query and step, new ones each epoch; default all.", low=1
    )
    list_relevant: int | None = option(
        None,
        "Relevant documents among --list-size; default a uniform sample, with SONG's losses a quarter of it"
        " (2 to 10).",
        low=1,
    )
    negatives: str | None = option(
        None, "Ranks from which non-relevant documents are used in training: 10-100; default all."
    )
    clip: float | None = option(None, "Largest norm of the gradient.", above=0)
    patience: int | None = option(
        None, "Stop after this many epochs without a better validation value.", low=1
    )
    warm_up: int = option(0, "Epochs with --warm-up-loss, before the last layer is reinitialised.", low=0)
    warm_up_loss: Loss = option(
        Loss("listnet"), "Loss of the warm-up: listnet, cross-entropy (SONG's) or another.", read=parse_loss
    )
    measure: str = option("ndcg@10", "Measure for validation, also reported for tests: ndcg@5, mrr, ap ...")
    amp_bf16: bool = option(False, "Compute the network, not the loss, in bfloat16.", flag="--bf16")
    seed: int = option(0, "Random seed of weights, batches, dropout and samples.", low=0)
    threads: int | None = option(
        None,
        "Threads of torch on the CPU; default 1, for text:MODEL all cores. The number can change rounding.",
        low=1,
    )

    def __post_init__(self) -> None:
        loss: Loss | Ranker = self.loss
        if isinstance(loss, Ranker):  # lmtune 0.3 accepted a ranker as loss
            note(f"the loss {loss} is a ranker now: --ranker {loss}, Settings(ranker=...)")
            object.__setattr__(self, "ranker", loss)
            object.__setattr__(self, "loss", Settings.loss)
        is_text = self.network.startswith((TEXT, DECODER, ENCODER))
        for name, (for_features, for_text) in _DEFAULTS.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, for_text if is_text else for_features)
        check(self)
        if self.list_relevant is not None and self.list_size is None:
            raise InputError(
                "list_relevant needs list_size", value=self.list_relevant, accepted="both, or list_size alone"
            )
        relevant = self.relevant_of_sample
        if self._samples_for_song and not 2 <= (relevant or 0) < (self.list_size or 0):
            raise InputError(
                "the sample is too small for SONG's estimates",
                value=f"{self.list_size} documents, {relevant} of them relevant",
                accepted="at least 2 relevant documents and 1 other",
            )
        if self.warm_up >= self.epochs:
            raise InputError(
                "no epoch is left after the warm-up",
                value=self.warm_up,
                accepted=f"fewer than the {self.epochs} epochs in all",
            )
        check_higher_is_better(self.measure)
        if self.negatives is not None:
            parse_rank_range(self.negatives)
        rate_at(self, 0, 0, 1)

    @cached_property
    def validation_measure(self) -> Measure:
        """The measure that selects the best epoch on the validation queries."""
        return parse_list_measure(self.measure)

    @property
    def label(self) -> str:
        """The ranker's name, or ``LOSS-NETWORK``; used as the tag of runs."""
        if self.ranker.name != NETWORK.name:
            return self.ranker.name
        return f"{self.loss.name}-{self.short_network}"

    @property
    def short_network(self) -> str:
        """The network's name; of a folder, the last part."""
        return self.network.rstrip("/").rpartition("/")[2]

    @property
    def method(self) -> Loss | Ranker:
        """The loss that trains a network, or the ranker if it is not a network."""
        return self.loss if self.ranker.name == NETWORK.name else self.ranker

    def with_method(self, method: Loss | Ranker) -> Self:
        """Return the same settings with another loss, which trains a network, or another ranker."""
        if isinstance(method, Ranker):
            return replace(self, ranker=method)
        return replace(self, loss=method, ranker=NETWORK)

    @property
    def relevant_of_sample(self) -> int | None:
        """Relevant documents in a sample: `list_relevant`, or SONG's default; None for a uniform sample."""
        if self.list_relevant is not None or not self._samples_for_song:
            return self.list_relevant
        return min(max((self.list_size or 0) // 4, 2), 10)

    @property
    def _samples_for_song(self) -> bool:
        losses = [self.loss, self.warm_up_loss] if self.warm_up else [self.loss]
        return self.list_size is not None and any(loss.family == SONG for loss in losses)

    def as_record(self) -> dict[str, Any]:
        """Return the settings as JSON values; losses and rankers become a name and options."""
        loss = {"loss": self.loss.name, "loss_options": dict(self.loss.options)}
        if self.ranker.name != NETWORK.name:
            loss |= {"ranker": self.ranker.name, "ranker_options": dict(self.ranker.options)}
        names = [field.name for field in fields(self) if field.name not in ("loss", "ranker")]
        rest = {name: getattr(self, name) for name in names}
        custom = [str(one) for one in (self.loss, self.warm_up_loss) if one.function]
        marked = {"own_losses": custom} if custom else {}
        return loss | rest | {"warm_up_loss": str(self.warm_up_loss)} | marked

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Settings:
        """Create settings from all or some of the items of `as_record`.

        Custom losses are restored without their functions: such settings can score, but not train.
        """
        values = {name: value for name, value in record.items() if name not in _REMOVED}
        elsewhere = [str(text) for text in values.pop("own_losses", ())]
        if "loss" in values:
            name, options = values["loss"], values.pop("loss_options", None)
            here = name not in [text.partition(":")[0] for text in elsewhere]
            values["loss"] = make_loss(name, options) if here else Loss(name, options or {}, ELSEWHERE)
        if (ranker := values.get("ranker")) is not None:
            options = values.pop("ranker_options", None)
            known = ranker in LEARNERS
            values["ranker"] = make_ranker(ranker, options) if known else Ranker(ranker, options or {})
        if (text := values.get("warm_up_loss")) is not None:
            values["warm_up_loss"] = Loss(text, family=ELSEWHERE) if text in elsewhere else parse_loss(text)
        return cls(**values)


def rate_at(settings: Settings, epoch: int, step: int, steps: int) -> float:
    """Return the learning rate of one step.

    Parameters
    ----------
    settings : Settings
    epoch, step : int
        Number of the epoch, and of the step within the epoch; both from 0.
    steps : int
        Steps per epoch.

    Raises
    ------
    InputError
        If the schedule is unknown.
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
        raise InputError("unknown schedule", value=settings.schedule, accepted=_SCHEDULES)
    return rate * 0.1 ** sum(epoch >= number for number in after)


@dataclass(frozen=True)
class TextOptions:
    """Text models: how ``text:MODEL``, ``decoder:MODEL`` and ``encoder:MODEL`` read queries and documents.

    Attributes
    ----------
    template : str
        Makes a document's text of its fields; see `lmtune.collections.texts.Template`.
    max_length : int
        Maximum number of tokens of query and document together, special tokens included. The model's
        own limit applies if it is lower.
    passages : {"first", "max", "sum"}
        How longer documents are scored: truncated, or by the best or the sum of their passages' scores.
    overlap : int
        Tokens shared by consecutive passages.
    batch_tokens : int, optional
        Tokens per forward pass, padding included; see `CrossEncoder.batch_tokens`.
    prompt, answers, lora
        For ``decoder:MODEL``; see `lmtune.rerank.text.decoder.wrap_decoder`.
    """

    template: str = option(
        "{contents}", "Template of a document's text, from its fields: '{title}. {contents}'.", flag="--text"
    )
    max_length: int = option(256, "Maximum number of tokens of query and document together.", low=8)
    passages: str = option(
        "first",
        "Score longer documents by their first passage, or by the max or the sum of their passages' scores.",
        choices=("first", "max", "sum"),
    )
    overlap: int = option(32, "Tokens shared by consecutive passages.", low=0)
    batch_tokens: int | None = option(
        None,
        "Tokens per forward pass, which bounds the memory of training; default 2048, on a GPU 32768.",
        low=8,
    )
    prompt: str = option(
        "Query: {query}\nDocument: {document}\nDoes the document answer the query? Answer yes or no:",
        "Prompt of decoder:MODEL; only query and document are truncated.",
    )
    answers: str = option("yes,no", "The two answers of decoder:MODEL, one token each.")
    lora: int = option(0, "Train LoRA adapters of this rank for decoder:MODEL; 0 trains all weights.", low=0)

    def __post_init__(self) -> None:
        check(self)
        if self.passages != "first" and self.overlap >= self.max_length // 2:
            raise InputError(
                "passages overlap too much",
                value=self.overlap,
                accepted=f"less than half of max_length, {self.max_length} tokens",
            )


def reads_text(network: str) -> bool:
    """Return whether a network reads text instead of features, by its name.

    Raises
    ------
    MissingExtraError
        If it does, but the extra ``text`` is not installed.
    """
    if not network.startswith((TEXT, DECODER, ENCODER)):
        return False
    if any(
        find_spec(name) is None for name in ("torch", "safetensors", "transformers", "sentence_transformers")
    ):
        raise MissingExtraError(network, "text")
    return True
