"""Rankers by name with options (networks, LambdaMART, own learners); how such options are read."""

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
    """The options of a learner that has none."""


@dataclass(frozen=True)
class TreeSettings:
    """All that a LambdaMART model depends on besides the data; see the help of each field.

    The defaults are those of LightGBM's own lambdarank example, for data of the size of LETOR's
    MQ2008; for some hundred thousand rows take `leaves` 63 and `learning_rate` 0.05. The model is
    the same for any number of threads. The validation measure is as in
    `lmtune.rerank.settings.Settings`.

    Raises
    ------
    InputError
        For a value out of bounds.
    """

    leaves: int = option(31, "leaves a tree at most", low=2)
    learning_rate: float = option(0.1, "shrinkage of each tree", above=0, high=1)
    rounds: int = option(1000, "trees at most", low=1)
    patience: int = option(50, "trees without a better validation value before the end", low=1)
    min_rows: int = option(50, "rows that a leaf holds at least", low=1)
    min_hessian: float = option(5.0, "summed second derivatives that a leaf holds at least", low=0)
    row_share: float = option(0.9, "share of the rows that each tree sees", above=0, high=1)
    feature_share: float = option(1.0, "share of the features that each tree sees", above=0, high=1)
    truncation: int = option(30, "rank within which a pair's better document stands", low=1)
    measure: str = option("ndcg@10", "the validation measure", flag="")
    seed: int = option(0, "of all that is drawn", low=0, flag="")
    threads: int = option(2, "threads that grow the trees", low=1)

    def __post_init__(self) -> None:
        check(self)
        check_higher_is_better(self.measure)

    @cached_property
    def chosen_by(self) -> Measure:
        """The measure by which validation chooses."""
        return parse_list_measure(self.measure)

    def parameters(self) -> dict[str, Any]:
        """Return them as LightGBM names them."""
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


LEARNERS: dict[str, tuple[type[Any], str]] = {
    "lambdamart": (TreeSettings, "lmtune.rerank.learners.trees.TreeLearner")
}
"""Learners that train no network, by name: the dataclass of their options, and where the learner is."""


@dataclass(frozen=True)
class Ranker:
    """What learns to rank. `parse_ranker`, `make_ranker` and, of one's own, `of` make it.

    Attributes
    ----------
    name : str
        ``"network"``, ``"lambdamart"``, or one's own.
    options : dict
        Such as ``{"rounds": 500}``.
    label : str
        As the user wrote it.
    own : type or None
        The learner that is one's own.
    """

    name: str = "network"
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = field(default="", compare=False)
    own: type[Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, learner: type[Any], /, **options: Any) -> Self:
        """Make a ranker of one's own learner.

        Parameters
        ----------
        learner : type
            A subclass of `lmtune.rerank.learners.learner.Learner`.
        **options
            Values of its ``options``.

        Raises
        ------
        InputError
            For an option that it does not have, or a value that the option cannot have.
        """
        name: str = learner.scorer.kind
        check_options(name, options, learner.options)
        return cls(name, options, written_with_options(name, options), learner)

    def __str__(self) -> str:
        return self.label or self.name


NETWORK = Ranker()
"""Trains the settings' network by their loss."""


def parse_ranker(text: str) -> Ranker:
    """Read ``network``, or ``lambdamart`` with options: ``lambdamart:rounds=500:leaves=63``.

    Raises
    ------
    InputError
        For an unknown ranker or option, or a value that the option cannot have.
    """
    name, texts = split_options(text, "ranker")
    return make_ranker(name, read_options(name, texts, _declared(name)), text.strip())


def make_ranker(name: str, options: Mapping[str, Any] | None = None, label: str = "") -> Ranker:
    """Make a ranker of its name and the values of its options, as records hold them.

    Raises
    ------
    InputError
        As `parse_ranker`.
    """
    check_options(name, options or {}, _declared(name))
    return Ranker(name, dict(options or {}), label)


def _declared(name: str) -> type[Any]:
    if name == NETWORK.name:
        return NoOptions
    if name not in LEARNERS:
        raise InputError("unknown ranker", value=name, accepted=", ".join([NETWORK.name, *LEARNERS]))
    return LEARNERS[name][0]


def split_options(text: str, kind: str) -> tuple[str, dict[str, str]]:
    """Split ``NAME:OPTION=VALUE:...`` into the name, in lower case, and the options' texts.

    Raises
    ------
    InputError
        For a part that is no option; `kind` says of what it is.
    """
    name, *parts = text.strip().split(":")
    texts = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise InputError(f"bad {kind}", value=text, accepted="NAME or NAME:OPTION=VALUE:...")
        texts[key.replace("-", "_")] = value
    return name.lower(), texts


def written_with_options(name: str, options: Mapping[str, Any]) -> str:
    """Write a name with its options."""
    return ":".join([name, *(f"{key}={value}" for key, value in options.items())])


def read_options(name: str, texts: Mapping[str, str], declared: type[Any]) -> dict[str, Any]:
    """Read options as a dataclass declares them.

    Raises
    ------
    InputError
        For an unknown option, or a value that it cannot have.
    """
    _check_names(name, texts, declared)
    return {key: _read(name, declared, key, text) for key, text in texts.items()}


def check_options(name: str, options: Mapping[str, Any], declared: type[Any]) -> None:
    """Raise InputError unless the options are those that a dataclass declares, and within its bounds."""
    _check_names(name, options, declared)
    with _named(name):
        check(declared(**options))


def _check_names(name: str, options: Mapping[str, Any], declared: type[Any]) -> None:
    known = [key.name for key in dataclasses.fields(declared) if key.metadata.get("flag") != ""]
    for key in options:
        if key not in known:
            raise InputError(f"{name} has no such option", value=key, accepted=", ".join(known) or "none")


def _read(name: str, declared: type[Any], key: str, text: str) -> Any:
    [field] = [one for one in dataclasses.fields(declared) if one.name == key]
    if text.lower() == "none" and field.default is None:
        return None
    kind = kinds(declared)[key]
    with _named(name):
        reader: Any = field.metadata.get("read")
        return read(kind, text.lower() if kind is bool else text, key) if reader is None else reader(text)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Say in errors of which loss they are."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error.message}", value=error.value, accepted=error.accepted) from None
