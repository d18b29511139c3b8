"""Losses by name, with options, as users write them: read once, carried down whole."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, cast

from lmtune.errors import InputError, nearest_first
from lmtune.losses.lambda_functions import LAMBDAS_LOSS, complete_options
from lmtune.options import option
from lmtune.rerank.rankers import (
    LEARNERS,
    Ranker,
    check_options,
    make_ranker,
    parse_ranker,
    read_options,
    split_options,
    written_with_options,
)

FUNCTION = "function of scores and labels"
SONG = "SONG and others that remember earlier scores"
LAMBDAS = "a user's lambdas"
TAUGHT = "a loss on a teacher's scores"
ELSEWHERE = "one's own that is not at hand"

TEACHER = "@teacher"
"""After a loss's name: it takes a teacher's scores for labels."""


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
        `FUNCTION`, `SONG`, `LAMBDAS`, `TAUGHT`; or, of a model that was read from disk, `ELSEWHERE`.
    label : str
        As the user wrote it.
    own : callable or None
        The function that is one's own.
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
            False on padding, that returns a scalar.
        **options
            Values of the function's other keyword arguments.

        Raises
        ------
        InputError
            For an option that it does not have, or a value that the option cannot have.
        """
        from lmtune.losses.evaluation import declared_options

        if isinstance(called, type):  # a learner, which lmtune 0.3 took here
            warnings.warn("use Ranker.of for a learner", DeprecationWarning, stacklevel=2)
            return cast("Self", Ranker.of(called, **options))
        name = called.__name__.lower().replace("_", "-")
        check_options(name, options, declared_options(called))
        return cls(name, options, FUNCTION, written_with_options(name, options), called)

    def __str__(self) -> str:
        return self.label or self.name


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
    name, _, rest = text.strip().partition(":")
    if name.lower() == LAMBDAS_LOSS:
        return make_loss(LAMBDAS_LOSS, {"function": rest}, text.strip())
    if name.lower() in LEARNERS:  # which lmtune 0.3 took for losses
        return cast("Loss", parse_ranker(text))
    name, texts = split_options(text, "loss")
    _, declared = _declaration(name)
    return make_loss(name, read_options(name, texts, declared), text.strip())


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
    if name == LAMBDAS_LOSS:
        return Loss(LAMBDAS_LOSS, complete_options(options or {}), LAMBDAS, label)
    if name in LEARNERS:
        return cast("Loss", make_ranker(name, options, label))
    family, declared = _declaration(name)
    check_options(name, options or {}, declared)
    return Loss(name, dict(options or {}), family, label)


def loss_names() -> list[str]:
    """Return the losses that networks can be trained with."""
    from lmtune.losses.table import LOSSES, SONGS

    return [*LOSSES, *SONGS, LAMBDAS_LOSS]


@dataclass(frozen=True)
class TeacherOptions:
    """What a loss on a teacher's scores stands beside."""

    weight: float = option(1.0, "of the teacher's loss; the rest is the other's", above=0, high=1)
    beside: str = option("lambdarank", "the loss on labels, with its usual options")


def _declaration(name: str) -> tuple[str, type[Any]]:
    """Return what kind of loss has a name, and the dataclass of its options."""
    from lmtune.losses.derived import StochasticOptions
    from lmtune.losses.evaluation import declared_options
    from lmtune.losses.table import LOSSES, SONGS

    if name.removesuffix(TEACHER) in LOSSES:
        taught = name.endswith(TEACHER)
        own = StochasticOptions, declared_options(LOSSES[name.removesuffix(TEACHER)])
        bases = (TeacherOptions, *own) if taught else own
        declared = dataclasses.make_dataclass("Declared", (), bases=bases, frozen=True)
        return TAUGHT if taught else FUNCTION, declared
    if name in SONGS:
        return SONG, declared_options(SONGS[name])
    names = nearest_first(name, [*loss_names(), f"LOSS{TEACHER}"])
    raise InputError("unknown loss", value=name, accepted=", ".join(names))
