"""Settings of a training and of text rerankers, checked before anything is computed."""

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
from lmtune.rerank.data import parse_places
from lmtune.rerank.loss_names import ELSEWHERE, SONG, Loss, make_loss, parse_loss
from lmtune.rerank.rankers import LEARNERS, NETWORK, Ranker, make_ranker, parse_ranker

_GONE = ("evaluations_per_step", "perturbation")
"""Of records of lmtune 0.3."""

_OPTIMIZERS = ("adam", "adamw", "sgd")
_SCHEDULES = "constant, step (a tenth after two thirds), step:20,25 (after these epochs), cosine"


TEXT, DECODER = "text:", "decoder:"
"""Beginnings of the names of networks that read text."""

_DEFAULTS: dict[str, tuple[float | None, float | None]] = {
    "dropout": (0.0, None),
    "learning_rate": (1e-3, 5e-5),
    "epochs": (30, 3),
    "batch_size": (64, 16),
}
"""Defaults of a network on features, and of one that reads text."""


@dataclass(frozen=True)
class Settings:
    """How a network is trained: all that it depends on besides the data and the device.

    The help of each field says what it is; see `lmtune.rerank.loss_names.parse_loss` for losses
    and `lmtune.rerank.learners.networks.make_network` for networks. What is None takes its
    default of `_DEFAULTS`. The validation measure is one of lists,
    `lmtune.measures.measure.parse_list_measure`: NDCG has gains 2^y - 1, over the
    queries that have a relevant document.

    Raises
    ------
    InputError
        For a value out of bounds, or an unknown schedule or measure.
    """

    loss: Loss = usual(
        Loss("lambdarank"),
        "lambdarank, song, k-song:theoretical=true ...; margin-mse@teacher (--teacher); lambdas:FILE.py:NAME,"
        " a function of yours.",
        read=parse_loss,
    )
    ranker: Ranker = usual(
        NETWORK, "network (--net, by --loss), or lambdamart[:rounds=500:leaves=63]: trees.", read=parse_ranker
    )
    network: str = usual(
        "b256",
        "linear, two-layer, b64 ... b1024, b:256-64, mlp:256-64, attention[:128-2-2]; text:MODEL reads text:"
        " a folder, a package or a name on the Hub; decoder:MODEL asks a causal model.",
        flag="--net",
    )
    dropout: float = option(
        None, "After each hidden layer; default 0, of text:MODEL the model's own.", low=0, below=1
    )
    norm_momentum: float = option(
        0.9, "What a step leaves of the statistics that batch norm keeps for scoring.", low=0, below=1
    )
    optimizer: str = option("adam", "adam, adamw, sgd (with momentum 0.9).", choices=_OPTIMIZERS)
    learning_rate: float = option(
        None, "The optimizer's, at first; default 0.001, of text:MODEL 0.00005.", above=0
    )
    weight_decay: float = option(0.0, "The optimizer's.", low=0)
    schedule: str = option(
        "constant", "constant, step, step:20,25 (a tenth after these epochs) or cosine (to 0)."
    )
    epochs: int = usual(
        None, "Passes over the training queries, warm-up included; default 30, of text:MODEL 3.", low=1
    )
    batch_size: int = option(None, "Queries a step; default 64, of text:MODEL 16.", low=1)
    list_size: int | None = option(
        None, "Documents of a query in a step, drawn anew each epoch; all by default.", low=1
    )
    list_relevant: int | None = option(
        None,
        "How many of these are relevant ones; by default a uniform sample, or with SONG's losses a quarter,"
        " 2 to 10.",
        low=1,
    )
    negatives: str | None = option(
        None, "Learn of documents that are not relevant from these places of a list alone: 10-100."
    )
    clip: float | None = option(None, "The gradient's largest norm.", above=0)
    patience: int | None = option(None, "Stop after so many epochs without a better validation value.", low=1)
    warm_up: int = option(0, "First so many epochs with --warm-up-loss, then a new last layer.", low=0)
    warm_up_loss: Loss = option(
        Loss("listnet"), "listnet, cross-entropy (SONG's) or another loss.", read=parse_loss
    )
    measure: str = option("ndcg@10", "What validation chooses by, and tests report: ndcg@5, mrr, ap ...")
    amp_bf16: bool = option(False, "Let the network, not the loss, compute in bfloat16.", flag="--bf16")
    seed: int = option(0, "Of weights, batches, dropout and draws.", low=0)

    def __post_init__(self) -> None:
        given: Loss | Ranker = self.loss
        if isinstance(given, Ranker):  # a loss in lmtune 0.3
            note(f"the loss {given} is a ranker now: --ranker {given}, Settings(ranker=...)")
            object.__setattr__(self, "ranker", given)
            object.__setattr__(self, "loss", Settings.loss)
        large = self.network.startswith((TEXT, DECODER))
        for name, (of_features, of_text) in _DEFAULTS.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, of_text if large else of_features)
        check(self)
        if self.list_relevant is not None and self.list_size is None:
            raise InputError(
                "relevant documents of a sample, but no sample",
                value=self.list_relevant,
                accepted="a list size, too",
            )
        relevant = self.relevant_of_sample
        if self._samples_for_song and not 2 <= (relevant or 0) < (self.list_size or 0):
            raise InputError(
                "a sample too small for SONG's estimates",
                value=f"{self.list_size} documents, {relevant} of them relevant",
                accepted="2 relevant ones and 1 other at least",
            )
        if self.warm_up >= self.epochs:
            raise InputError(
                "no epoch is left after the warm-up",
                value=self.warm_up,
                accepted=f"fewer than the {self.epochs} epochs in all",
            )
        check_higher_is_better(self.measure)
        if self.negatives is not None:
            parse_places(self.negatives)
        rate_at(self, 0, 0, 1)

    @cached_property
    def chosen_by(self) -> Measure:
        """The measure by which validation chooses."""
        return parse_list_measure(self.measure)

    @property
    def label(self) -> str:
        """Its name in a run; what learns in its own way needs no network's."""
        if self.ranker.name != NETWORK.name:
            return self.ranker.name
        return f"{self.loss.name}-{self.network.rstrip('/').rpartition('/')[2]}"

    @property
    def method(self) -> Loss | Ranker:
        """What trains: the loss of a network, or another ranker."""
        return self.loss if self.ranker.name == NETWORK.name else self.ranker

    def by(self, method: Loss | Ranker) -> Self:
        """Return the same settings with a network's loss, or with another ranker."""
        if isinstance(method, Ranker):
            return replace(self, ranker=method)
        return replace(self, loss=method, ranker=NETWORK)

    @property
    def relevant_of_sample(self) -> int | None:
        """How many documents of a sample are relevant ones: `list_relevant`, or SONG's share; else None."""
        if self.list_relevant is not None or not self._samples_for_song:
            return self.list_relevant
        return min(max((self.list_size or 0) // 4, 2), 10)

    @property
    def _samples_for_song(self) -> bool:
        losses = [self.loss, self.warm_up_loss] if self.warm_up else [self.loss]
        return self.list_size is not None and any(loss.family == SONG for loss in losses)

    def as_record(self) -> dict[str, Any]:
        """Return the settings as JSON holds them: of the loss, its name and its options."""
        loss = {"loss": self.loss.name, "loss_options": dict(self.loss.options)}
        if self.ranker.name != NETWORK.name:
            loss |= {"ranker": self.ranker.name, "ranker_options": dict(self.ranker.options)}
        names = [field.name for field in fields(self) if field.name not in ("loss", "ranker")]
        rest = {name: getattr(self, name) for name in names}
        own = [str(one) for one in (self.loss, self.warm_up_loss) if one.own]
        marked = {"own_losses": own} if own else {}
        return loss | rest | {"warm_up_loss": str(self.warm_up_loss)} | marked

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Settings:
        """Take settings, or some of them, from what `as_record` returns.

        Losses of one's own are there by their names: the model scores, but no other is trained by them.
        """
        values = {name: value for name, value in record.items() if name not in _GONE}
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
        raise InputError("unknown schedule", value=settings.schedule, accepted=_SCHEDULES)
    return rate * 0.1 ** sum(epoch >= number for number in after)


@dataclass(frozen=True)
class TextOptions:
    """Texts, for --net text:MODEL and its like.

    Attributes
    ----------
    template : str
        As `lmtune.collections.texts.Template` has it.
    max_length : int
        Tokens of query and document together, the model's own marks included; fewer where the model
        takes fewer.
    passages : {"first", "max", "sum"}
        A longer document is cut, or scored passage by passage: by its best one, or by their sum.
    overlap : int
        Tokens that a passage has in common with the one before.
    batch_tokens : int, optional
        Tokens, padding included, that go through the model at a time; see `CrossEncoder.batch_tokens`.
    prompt, answers, lora
        Of ``decoder:MODEL``, as `lmtune.rerank.text.decoder.of_causal` takes them.
    """

    template: str = option(
        "{contents}", "A document's text, of its fields: '{title}. {contents}'.", flag="--text"
    )
    max_length: int = option(256, "Tokens of query and document that the model sees.", low=8)
    passages: str = option(
        "first",
        "Of longer documents: their first passage alone, or the max or the sum of all passages' scores.",
        choices=("first", "max", "sum"),
    )
    overlap: int = option(32, "Tokens that a passage has in common with the one before.", low=0)
    batch_tokens: int | None = option(
        None,
        "Tokens that go through the model at a time: the memory that training takes; default 2048, on a GPU "
        "32768.",
        low=8,
    )
    prompt: str = option(
        "Query: {query}\nDocument: {document}\nDoes the document answer the query? Answer yes or no:",
        "Of decoder:MODEL, what it is asked; only texts are cut.",
    )
    answers: str = option("yes,no", "Of decoder:MODEL, its two answers, a token each.")
    lora: int = option(
        0, "Of decoder:MODEL, learn adapters of this rank (LoRA) and leave its weights; 0 learns all.", low=0
    )

    def __post_init__(self) -> None:
        check(self)
        if self.passages != "first" and self.overlap >= self.max_length // 2:
            raise InputError(
                "passages overlap too much",
                value=self.overlap,
                accepted=f"less than half of the {self.max_length} tokens",
            )


def reads_text(network: str) -> bool:
    """Tell whether a network of that name reads text; it does not look at features then.

    Raises
    ------
    MissingExtraError
        Where it does, and the extra is not installed.
    """
    if not network.startswith((TEXT, DECODER)):
        return False
    if any(find_spec(name) is None for name in ("torch", "safetensors", "transformers")):
        raise MissingExtraError(network, "text")
    return True
