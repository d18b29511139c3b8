"""Choices of analysis, model and expansion, and every combination of them: the cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from lmtune.collections.collection import Collection
from lmtune.errors import InputError
from lmtune.models.model import OF_FIELDS, named_model
from lmtune.models.two_stage import TWO_STAGE
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.space import ANALYSIS, EXPAND, MODEL, NONE, Choice, ParameterSpace

_MOST = 256


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
        return case_name(self.values)


def case_name(values: Mapping[str, str]) -> str:
    """Name a case by its value of every choice."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def make_cases(
    choices: Sequence[Choice] | ParameterSpace,
    collection: Collection,
    plan: Mapping[str, Any],
    **of_model: Callable[[str], Any],
) -> list[Case]:
    """Combine all values of all choices, the usual ones first.

    Parameters
    ----------
    choices : sequence of Choice, or ParameterSpace
        Each of another name; a space's, whose ranges then are the plan's.
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
    if isinstance(choices, ParameterSpace):
        searched = [own for own in choices.parameters if not own.share and not own.is_counted]
        plan = {**plan, "ranges": {own.name: (own.low, own.high) for own in searched}}
        choices = choices.choices
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
        yield Case(case, analysed, Plan(**{"baseline": {}, **plan, **more, MODEL: model, "certify": None}))


def _option(collection: Collection, name: str) -> Any:
    """Return what is said of a choice elsewhere."""
    if name not in ANALYSIS or name == "topic-fields":
        return None
    return getattr(collection, name)


def _parsed(name: str, value: str) -> str | tuple[str, ...] | None:
    if not name.endswith("fields"):
        return value
    return () if value == NONE else tuple(value.split("+"))
