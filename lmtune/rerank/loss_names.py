"""Losses by name with options, and their parser."""

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
    format_options,
    make_ranker,
    parse_ranker,
    read_options,
    split_options,
)

FUNCTION = "function of scores and labels"
SONG = "SONG and others that remember earlier scores"
LAMBDAS = "a user's lambdas"
TAUGHT = "a loss on a teacher's scores"
ELSEWHERE = "one's own that is not at hand"

TEACHER = "@teacher"
"""Suffix of a loss's name: use a teacher's scores as labels."""


@dataclass(frozen=True)
class Loss:
    """A loss that training minimises, with its options.

    Create it with `parse_loss` or `make_loss`, or with `of` for a custom function.

    Attributes
    ----------
    name : str
        For example ``"k-song"``.
    options : dict
        For example ``{"theoretical": True}``.
    family : str
        `FUNCTION`, `SONG`, `LAMBDAS` or `TAUGHT`. `ELSEWHERE` is a custom loss named in a saved model,
        without its function.
    label : str
        The text that the user wrote.
    function : callable or None
        A custom loss's function.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    family: str = FUNCTION
    label: str = field(default="", compare=False)
    function: Callable[..., Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, function: Callable[..., Any], /, **options: Any) -> Self:
        """Create a loss from a custom function.

        Parameters
        ----------
        function : callable
            ``(scores, labels, *, mask, ...)``, which returns a scalar tensor. All arguments have shape
            (queries, items); the mask is False on padding.
        **options
            Values of the function's other keyword arguments.

        Raises
        ------
        InputError
            If the function does not have an option, or a value is out of bounds.
        """
        from lmtune.losses.evaluation import declared_options

        if isinstance(function, type):  # a learner, which lmtune 0.3 accepted here
            warnings.warn("use Ranker.of for a learner", DeprecationWarning, stacklevel=2)
            return cast("Self", Ranker.of(function, **options))
        name = function.__name__.lower().replace("_", "-")
        check_options(name, options, declared_options(function))
        return cls(name, options, FUNCTION, format_options(name, options), function)

    def __str__(self) -> str:
        return self.label or self.name


def parse_loss(text: str) -> Loss:
    """Parse a loss with options.

    Parameters
    ----------
    text : str
        ``NAME`` or ``NAME:OPTION=VALUE:OPTION=VALUE``; or ``lambdas:FILE.py:NAME``, a
        lambda-function.

    Raises
    ------
    InputError
        If the loss or an option is unknown, or a value is out of bounds.
    """
    name, _, rest = text.strip().partition(":")
    if name.lower() == LAMBDAS_LOSS:
        return make_loss(LAMBDAS_LOSS, {"function": rest}, text.strip())
    if name.lower() in LEARNERS:  # lmtune 0.3 accepted these as losses
        return cast("Loss", parse_ranker(text))
    name, texts = split_options(text, "loss")
    _, declared = _declaration(name)
    return make_loss(name, read_options(name, texts, declared), text.strip())


def parse_losses(text: str) -> list[Loss]:
    """Parse a loss with a grid of options, ``song:margin=1|5:gamma=0.1|0.3``, into all combinations.

    Raises
    ------
    InputError
        As `parse_loss`.
    """
    parts = (part.partition("=") for part in text.split(":"))
    grid = [[f"{key}{equals}{value}" for value in values.split("|")] for key, equals, values in parts]
    return [parse_loss(":".join(chosen)) for chosen in itertools.product(*grid)]


def make_loss(name: str, options: Mapping[str, Any] | None = None, label: str = "") -> Loss:
    """Create a loss from its name and its options' values, as a settings file stores them.

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
    """Return the names of the losses that can train networks."""
    from lmtune.losses.table import LOSSES, SONGS

    return [*LOSSES, *SONGS, LAMBDAS_LOSS]


@dataclass(frozen=True)
class TeacherOptions:
    """Options of a loss on a teacher's scores: its combination with a loss on labels."""

    weight: float = option(1.0, "weight w of the teacher's loss; the other's is 1 - w", above=0, high=1)
    beside: str = option("lambdarank", "the loss on labels, with its default options")


def _declaration(name: str) -> tuple[str, type[Any]]:
    """Return a loss's family and the dataclass of its options."""
    from lmtune.losses.derived import StochasticOptions
    from lmtune.losses.evaluation import declared_options
    from lmtune.losses.table import LOSSES, SONGS

    if name.removesuffix(TEACHER) in LOSSES:
        taught = name.endswith(TEACHER)
        of_loss = StochasticOptions, declared_options(LOSSES[name.removesuffix(TEACHER)])
        bases = (TeacherOptions, *of_loss) if taught else of_loss
        declared = dataclasses.make_dataclass("Declared", (), bases=bases, frozen=True)
        return TAUGHT if taught else FUNCTION, declared
    if name in SONGS:
        return SONG, declared_options(SONGS[name])
    names = nearest_first(name, [*loss_names(), f"LOSS{TEACHER}"])
    raise InputError("unknown loss", value=name, accepted=", ".join(names))
