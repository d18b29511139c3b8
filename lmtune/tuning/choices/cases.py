"""Choices of analysis, model and expansion, and every combination of them: the cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from lmtune.datasets.collection import Collection
from lmtune.errors import InputError, check_choice
from lmtune.models.feedback import EXPANSIONS
from lmtune.models.model import OF_FIELDS, named_model
from lmtune.models.two_stage import TWO_STAGE
from lmtune.tuning.experiment.plan import Plan

MODEL, EXPAND, NONE = "model", "expand", "none"
ANALYSIS = ("stemmer", "stopwords", "lengths", "fields", "topic-fields")
"""Choices that are options of `Collection`; those of several fields have ``+`` between them."""
CHOICES = (*ANALYSIS, MODEL, EXPAND)

_MOST = 256


@dataclass(frozen=True)
class Choice:
    """A setting that is no number, and the values that it may have.

    Attributes
    ----------
    name : str
        Of `CHOICES`.
    values : tuple of str
        The first is the usual one, which the others are compared with.

    Raises
    ------
    InputError
        For another name, fewer than two values, and one that comes twice.

    Examples
    --------
    >>> Choice.parse("stemmer=porter,krovetz")
    Choice(name='stemmer', values=('porter', 'krovetz'))
    """

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        check_choice("no such choice", self.name, CHOICES)
        object.__setattr__(self, "values", tuple(self.values))
        if len(set(self.values)) < max(2, len(self.values)) or not all(self.values):
            raise InputError(
                f"bad choice of {self.name}",
                value=",".join(self.values),
                accepted="two values or more, each once, with commas between",
            )
        if self.name == EXPAND:
            for value in self.values:
                check_choice("no such expansion", value, (NONE, *EXPANSIONS))

    @classmethod
    def parse(cls, text: str) -> Choice:
        """Read what the command line says: a name, ``=``, and values with commas between."""
        name, _, values = text.partition("=")
        return cls(name.strip(), tuple(value.strip() for value in values.split(",")))


@dataclass(frozen=True)
class Case:
    """A value of every choice, and what is tuned with it.

    Attributes
    ----------
    values : dict of str to str
        Of each choice by name.
    collection : Collection
        With its analysis and fields.
    plan : Plan
        Of its model.
    """

    values: dict[str, str]
    collection: Collection
    plan: Plan

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.values.items())


def make_cases(
    choices: Sequence[Choice],
    collection: Collection,
    plan: Mapping[str, Any],
    **of_model: Callable[[str], Any],
) -> list[Case]:
    """Combine all values of all choices, the usual ones first.

    Parameters
    ----------
    choices : sequence of Choice
        Each of another name.
    collection : Collection
        What is not chosen of it holds for all.
    plan : mapping of str to object
        `Plan`'s arguments by name; ``certify`` is of the union of cases, not of one.
    **of_model : callable
        Further arguments, which depend on the model's name.

    Raises
    ------
    InputError
        For a choice that comes twice or that something else contradicts, an unknown stemmer, model or field,
        and more than 256 cases.
    """
    names = [choice.name for choice in choices]
    for choice in choices:
        given = plan.get(MODEL) if choice.name == MODEL else _option(collection, choice.name)
        if names.count(choice.name) > 1 or given:
            raise InputError(
                f"{choice.name} is given twice", value=choice.name, accepted="it once, to --choose from"
            )
    combined = list(product(*(choice.values for choice in choices)))
    if len(combined) > _MOST:
        raise InputError("too many combinations of choices", value=len(combined), accepted=f"{_MOST} at most")
    return list(_cases(combined, names, collection, plan, of_model))


def _cases(
    combined: Sequence[Sequence[str]],
    names: Sequence[str],
    collection: Collection,
    plan: Mapping[str, Any],
    of_model: Mapping[str, Callable[[str], Any]],
) -> Iterator[Case]:
    for values in combined:
        case = dict(zip(names, values, strict=True))
        own: dict[str, Any] = {
            name.replace("-", "_"): _parsed(name, value) for name, value in case.items() if name in ANALYSIS
        }
        analysed = replace(collection, **own)
        analysed.analyzer()
        model = case.get(MODEL, plan.get(MODEL, TWO_STAGE.name))
        model = named_model(model, analysed.fields if model in OF_FIELDS or MODEL not in case else ())
        if case.get(EXPAND, NONE) != NONE:
            model += f"+{case[EXPAND]}"
        more = {name: made(model) for name, made in of_model.items()}
        yield Case(case, analysed, Plan(**{**plan, **more, MODEL: model, "certify": None}))


def _option(collection: Collection, name: str) -> Any:
    """Return what is said of a choice elsewhere."""
    if name not in ANALYSIS or name == "topic-fields":
        return None
    return getattr(collection, name)


def _parsed(name: str, value: str) -> str | tuple[str, ...] | None:
    if not name.endswith("fields"):
        return value
    return () if value == NONE else tuple(value.split("+"))
