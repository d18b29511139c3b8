"""Losses by name, with options (LambdaMART's too), as users write them: read once, carried down whole."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from lmtune.errors import InputError, nearest_first
from lmtune.measures.measure import Measure, check_higher_is_better, parse_list_measure
from lmtune.options import check, kinds, option, read
from lmtune.reranking.losses.lambda_functions import NAME, named_options


@dataclass(frozen=True)
class TreeSettings:
    """All that a LambdaMART model depends on besides the data; see the help of each field.

    The defaults are those of LightGBM's own lambdarank example, for data of the size of LETOR's
    MQ2008; for some hundred thousand rows take `leaves` 63 and `learning_rate` .05. The model is
    the same for any number of threads. The validation measure is as in
    `lmtune.reranking.settings.Settings`.

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


FUNCTION = "function of scores and labels"
SONG = "SONG and others that remember earlier scores"
LAMBDAS = "a user's lambdas"
TAUGHT = "a loss on a teacher's scores"
LEARNER = "another learner than of networks, such as boosted trees"
ELSEWHERE = "one's own that is not at hand"

TEACHER = "@teacher"
"""After a loss's name: it takes a teacher's scores for labels."""

LAMBDAMART = "lambdamart"
"""The name of boosted trees, where losses are compared."""


@dataclass(frozen=True)
class Loss:
    """A loss that a training minimises. `parse_loss`, `make_loss` and, of one's own, `of` make it.

    Attributes
    ----------
    name : str
        Such as ``"k-song"``.
    options : dict
        The loss's own, such as ``{"theoretical": True}``.
    family : str
        `FUNCTION`, `SONG`, `LAMBDAS`, `TAUGHT`; `LEARNER`, which no network is trained by; or, of
        a model that was read from disk, `ELSEWHERE`.
    label : str
        As the user wrote it.
    own : callable or None
        The function or the learner that is one's own.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    family: str = FUNCTION
    label: str = field(default="", compare=False)
    own: Callable[..., Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, called: Callable[..., Any], /, **options: Any) -> Self:
        """Make a loss of one's own, which stands wherever a loss of lmtune does.

        Parameters
        ----------
        called : callable
            A function ``(scores, labels, *, mask, ...)`` of tensors (queries, items), of which the mask is
            False on padding, that returns a scalar; or a subclass of
            `lmtune.reranking.learners.learner.Learner`, which learns in its own way.
        **options
            Values of the function's other keyword arguments, or of the learner's ``options``.

        Raises
        ------
        InputError
            For an option that it does not have, or a value that the option cannot have.
        """
        from lmtune.reranking.losses.evaluation import declared_options

        is_learner = isinstance(called, type)
        learnt: Any = called
        name = learnt.scorer.kind if is_learner else called.__name__.lower().replace("_", "-")
        label = ":".join([name, *(f"{key}={value}" for key, value in options.items())])
        declared = learnt.options if is_learner else declared_options(called)
        loss = cls(name, options, LEARNER if is_learner else FUNCTION, label, called)
        loss.check_options(declared)
        return loss

    def __str__(self) -> str:
        return self.label or self.name

    def check_options(self, declared: type[Any]) -> None:
        """Raise InputError unless the options are those that a dataclass declares, and within its bounds."""
        _check_names(self.name, self.options, declared)
        with _named(self.name):
            check(declared(**self.options))


def parse_loss(text: str) -> Loss:
    """Read a loss with options.

    Parameters
    ----------
    text : str
        ``NAME`` or ``NAME:OPTION=VALUE:OPTION=VALUE``; or ``lambdas:FILE.py:NAME``, a
        lambda-function.

    Raises
    ------
    InputError
        For an unknown loss, an option that it does not have, or a value that the option cannot
        have.
    """
    label = text.strip()
    name, *parts = label.split(":")
    name = name.lower()
    if name == NAME:
        return make_loss(NAME, {"function": ":".join(parts)}, label)
    texts = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise InputError("bad loss", value=text, accepted="NAME or NAME:OPTION=VALUE:...")
        texts[key.replace("-", "_")] = value
    _, declared = _declaration(name)
    _check_names(name, texts, declared)
    return make_loss(name, {key: _read(name, declared, key, value) for key, value in texts.items()}, label)


def parse_losses(text: str) -> list[Loss]:
    """Read a loss with a grid of options, ``song:margin=1|5:gamma=0.1|0.3``: every combination.

    Raises
    ------
    InputError
        As `parse_loss`.
    """
    parts = (part.partition("=") for part in text.split(":"))
    grid = [[f"{key}{equals}{value}" for value in values.split("|")] for key, equals, values in parts]
    return [parse_loss(":".join(chosen)) for chosen in itertools.product(*grid)]


def make_loss(name: str, options: Mapping[str, Any] | None = None, label: str = "") -> Loss:
    """Make a loss of its name and the values of its options, as records hold them.

    Raises
    ------
    InputError
        As `parse_loss`.
    """
    if name == NAME:
        return Loss(NAME, named_options(options or {}), LAMBDAS, label)
    family, declared = _declaration(name)
    loss = Loss(name, dict(options or {}), family, label)
    loss.check_options(declared)
    return loss


def loss_names() -> list[str]:
    """Return the losses that networks can be trained with."""
    from lmtune.reranking.losses.table import LOSSES, SONGS

    return [*LOSSES, *SONGS, NAME]


@dataclass(frozen=True)
class TeacherOptions:
    """What a loss on a teacher's scores stands beside."""

    weight: float = option(1.0, "of the teacher's loss; the rest is the other's", above=0, high=1)
    beside: str = option("lambdarank", "the loss on labels, with its usual options")


def _declaration(name: str) -> tuple[str, type[Any]]:
    """Return what kind of loss has a name, and the dataclass of its options."""
    from lmtune.reranking.losses.evaluation import declared_options
    from lmtune.reranking.losses.gumbel_noise import StochasticOptions
    from lmtune.reranking.losses.table import LOSSES, SONGS

    if name.removesuffix(TEACHER) in LOSSES:
        taught = name.endswith(TEACHER)
        own = StochasticOptions, declared_options(LOSSES[name.removesuffix(TEACHER)])
        bases = (TeacherOptions, *own) if taught else own
        declared = dataclasses.make_dataclass("Declared", (), bases=bases, frozen=True)
        return TAUGHT if taught else FUNCTION, declared
    if name in SONGS:
        return SONG, declared_options(SONGS[name])
    if name == LAMBDAMART:
        return LEARNER, TreeSettings
    names = nearest_first(name, [*loss_names(), LAMBDAMART, f"LOSS{TEACHER}"])
    raise InputError("unknown loss", value=name, accepted=", ".join(names))


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
