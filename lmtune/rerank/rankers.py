"""Rankers by name with options (networks, trees, custom learners), and the parser of such options."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from lmtune.errors import InputError
from lmtune.measures.measure import Measure, check_higher_is_better, parse_list_measure
from lmtune.options import check, kinds, option, read


@dataclass(frozen=True)
class NoOptions:
    """Options of a learner without options."""


@dataclass(frozen=True)
class TreeSettings:
    """Hyperparameters of LambdaMART; see the help of each field.

    The defaults are those of LightGBM's lambdarank example and suit data of the size of LETOR's
    MQ2008. For some hundred thousand rows use ``leaves=63`` and ``learning_rate=0.05``. The model
    is the same for any number of threads. The validation measure is parsed as in
    `lmtune.rerank.settings.Settings`.

    Raises
    ------
    InputError
        If a value is out of bounds.
    """

    leaves: int = option(31, "maximum number of leaves of a tree", low=2)
    learning_rate: float = option(0.1, "shrinkage of each tree", above=0, high=1)
    rounds: int = option(1000, "maximum number of trees", low=1)
    patience: int = option(50, "stop after this many trees without a better validation value", low=1)
    min_rows: int = option(50, "minimum number of rows in a leaf", low=1)
    min_hessian: float = option(5.0, "minimum sum of second derivatives in a leaf", low=0)
    row_share: float = option(0.9, "share of the rows sampled for each tree", above=0, high=1)
    feature_share: float = option(1.0, "share of the features sampled for each tree", above=0, high=1)
    truncation: int = option(30, "use only pairs with a document ranked this high or higher", low=1)
    measure: str = option("ndcg@10", "the validation measure", flag="")
    seed: int = option(0, "random seed", low=0, flag="")
    threads: int = option(1, "threads that grow the trees; more are faster only for many rows", low=1)

    def __post_init__(self) -> None:
        check(self)
        check_higher_is_better(self.measure)

    @cached_property
    def validation_measure(self) -> Measure:
        """The measure that selects the number of trees on the validation queries."""
        return parse_list_measure(self.measure)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters under LightGBM's names."""
        return {
            "objective": "lambdarank",
            "metric": "None",
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": self.min_rows,
            "min_sum_hessian_in_leaf": self.min_hessian,
            "feature_pre_filter": False,
            "bagging_fraction": self.row_share,
            "bagging_freq": 1 if self.row_share < 1.0 else 0,
            "feature_fraction": self.feature_share,
            "lambdarank_truncation_level": self.truncation,
            "seed": self.seed,
            "num_threads": self.threads,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }


@dataclass(frozen=True)
class YetiSettings:
    """Hyperparameters of YetiRank; see the help of each field.

    The defaults are CatBoost's. The model is the same for any number of threads. The validation measure is
    parsed as in `lmtune.rerank.settings.Settings`.

    Raises
    ------
    InputError
        If a value is out of bounds.
    """

    mode: str = option(
        "ndcg",
        "the measure whose differences weigh pairs; classic is YetiRank of 2011",
        choices=("classic", "dcg", "ndcg", "mrr", "err", "map"),
    )
    depth: int = option(6, "depth of a tree", low=1, high=16)
    learning_rate: float | None = option(
        None, "shrinkage of each tree; by default CatBoost chooses it from the data", above=0, high=1
    )
    rounds: int = option(1000, "number of trees", low=1)
    measure: str = option("ndcg@10", "the validation measure", flag="")
    seed: int = option(0, "random seed", low=0, flag="")
    threads: int = option(1, "threads that grow the trees; more are faster only for many rows", low=1)

    def __post_init__(self) -> None:
        check(self)
        check_higher_is_better(self.measure)

    @cached_property
    def validation_measure(self) -> Measure:
        """The measure that selects the number of trees on the validation queries."""
        return parse_list_measure(self.measure)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters under CatBoost's names."""
        mode = self.mode.title() if self.mode == "classic" else self.mode.upper()
        return {
            "loss_function": f"YetiRank:mode={mode}",
            "depth": self.depth,
            "learning_rate": self.learning_rate,
            "iterations": self.rounds,
            "random_seed": self.seed,
            "thread_count": self.threads,
            "allow_writing_files": False,
            "logging_level": "Silent",
        }


LEARNERS: dict[str, tuple[type[Any], str]] = {
    "lambdamart": (TreeSettings, "lmtune.rerank.learners.trees.TreeLearner"),
    "yetirank": (YetiSettings, "lmtune.rerank.learners.yeti.YetiLearner"),
}
"""Learners other than networks, by name: the dataclass of their options, and the learner's import path."""


@dataclass(frozen=True)
class Ranker:
    """A method that learns to rank, with its options.

    Create it with `parse_ranker` or `make_ranker`, or with `of` for a custom learner.

    Attributes
    ----------
    name : str
        ``"network"``, ``"lambdamart"``, ``"yetirank"``, or the name of a custom learner.
    options : dict
        For example ``{"rounds": 500}``.
    label : str
        The text that the user wrote.
    learner : type or None
        The class of a custom learner.
    """

    name: str = "network"
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = field(default="", compare=False)
    learner: type[Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, learner: type[Any], /, **options: Any) -> Self:
        """Create a ranker from a custom learner.

        Parameters
        ----------
        learner : type
            A subclass of `lmtune.rerank.learners.learner.Learner`.
        **options
            Values of the learner's ``options``.

        Raises
        ------
        InputError
            If the learner does not have an option, or a value is out of bounds.
        """
        name: str = learner.scorer.kind
        check_options(name, options, learner.options)
        return cls(name, options, format_options(name, options), learner)

    def __str__(self) -> str:
        return self.label or self.name


NETWORK = Ranker()
"""The default ranker: trains `Settings.network` with `Settings.loss`."""


def parse_ranker(text: str) -> Ranker:
    """Parse ``network``, or ``lambdamart`` with options: ``lambdamart:rounds=500:leaves=63``.

    Raises
    ------
    InputError
        If the ranker or an option is unknown, or a value is out of bounds.
    """
    name, texts = split_options(text, "ranker")
    return make_ranker(name, read_options(name, texts, _options_class(name)), text.strip())


def make_ranker(name: str, options: Mapping[str, Any] | None = None, label: str = "") -> Ranker:
    """Create a ranker from its name and its options' values, as a settings file stores them.

    Raises
    ------
    InputError
        As `parse_ranker`.
    """
    check_options(name, options or {}, _options_class(name))
    return Ranker(name, dict(options or {}), label)


def _options_class(name: str) -> type[Any]:
    if name == NETWORK.name:
        return NoOptions
    if name not in LEARNERS:
        raise InputError("unknown ranker", value=name, accepted=", ".join([NETWORK.name, *LEARNERS]))
    return LEARNERS[name][0]


def split_options(text: str, kind: str) -> tuple[str, dict[str, str]]:
    """Split ``NAME:OPTION=VALUE:...`` into the name, in lower case, and the options' texts.

    Parameters
    ----------
    text : str
    kind : str
        What the text names, for error messages: "loss" or "ranker".

    Raises
    ------
    InputError
        If a part is not ``OPTION=VALUE``.
    """
    name, *parts = text.strip().split(":")
    texts = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise InputError(f"bad {kind}", value=text, accepted="NAME or NAME:OPTION=VALUE:...")
        texts[key.replace("-", "_")] = value
    return name.lower(), texts


def format_options(name: str, options: Mapping[str, Any]) -> str:
    """Return ``NAME:OPTION=VALUE:...``, the inverse of `split_options`."""
    return ":".join([name, *(f"{key}={value}" for key, value in options.items())])


def read_options(name: str, texts: Mapping[str, str], declared: type[Any]) -> dict[str, Any]:
    """Parse the texts of options with the types that a dataclass declares.

    Raises
    ------
    InputError
        If an option is unknown, or its text does not parse.
    """
    _check_names(name, texts, declared)
    return {key: _parse_option(name, declared, key, text) for key, text in texts.items()}


def check_options(name: str, options: Mapping[str, Any], declared: type[Any]) -> None:
    """Raise InputError if a dataclass does not declare an option, or a value is outside its bounds."""
    _check_names(name, options, declared)
    with _prefix_errors(name):
        check(declared(**options))


def _check_names(name: str, options: Mapping[str, Any], declared: type[Any]) -> None:
    known = [key.name for key in dataclasses.fields(declared) if key.metadata.get("flag") != ""]
    for key in options:
        if key not in known:
            raise InputError(f"{name} has no such option", value=key, accepted=", ".join(known) or "none")


def _parse_option(name: str, declared: type[Any], key: str, text: str) -> Any:
    [field] = [one for one in dataclasses.fields(declared) if one.name == key]
    if text.lower() == "none" and field.default is None:
        return None
    kind = kinds(declared)[key]
    with _prefix_errors(name):
        reader: Any = field.metadata.get("read")
        return read(kind, text.lower() if kind is bool else text, key) if reader is None else reader(text)


@contextlib.contextmanager
def _prefix_errors(name: str) -> Iterator[None]:
    """Prefix the messages of errors with the loss's or ranker's name."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error.message}", value=error.value, accepted=error.accepted) from None
