"""Options of a model's parameters: values and ranges by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from lmtune.errors import InputError
from lmtune.models.model import MODELS, find_model
from lmtune.options import option, read

T = TypeVar("T")


def _value(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError("bad --set", value=text, accepted="NAME=VALUE, such as mu=1000")
    return name.strip(), read(float, value, f"--set {name}")


def _range(flag: str, example: str, text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"bad {flag}", value=text, accepted=f"LOW,HIGH, such as {example}") from None
    return low, high


def _named_range(text: str) -> tuple[str, tuple[float, float]]:
    name, equals, bounds = text.partition("=")
    if not equals:
        raise InputError("bad --range", value=text, accepted="NAME=LOW,HIGH, such as mu=1,100000")
    return name.strip(), _range(f"--range {name}", "1,100000", bounds)


@dataclass(frozen=True)
class Setting:
    """The model and its parameters."""

    model: str = option(
        "two-stage", "two-stage, dirichlet, jelinek-mercer or lucene-dirichlet.", choices=MODELS
    )
    given: tuple[tuple[str, float], ...] = option(
        (),
        "A parameter's value; repeat it for several. Default: the model's own.",
        flag="--set",
        read=_value,
        separator=None,
        metavar="NAME=VALUE",
    )
    lambda_: float | None = option(
        None,
        "Short for --set lambda=...; 0 <= lambda < 1; default: 0, for jelinek-mercer 0.1, for titles.",
        flag="--lambda",
    )
    mu: float | None = option(
        None, "Short for --set mu=...; in tokens, mu > 0, or 0 with lambda > 0; default: 1000."
    )

    @property
    def values(self) -> dict[str, float]:
        """The values of all parameters by name, the model's own where none is given."""
        short = {"--lambda": self.lambda_, "--mu": self.mu}
        return {**find_model(self.model).default, **_by_name(self.model, "--set", self.given, short)}


@dataclass(frozen=True)
class Ranges:
    """Where to look for parameters."""

    given: tuple[tuple[str, tuple[float, float]], ...] = option(
        (),
        "A parameter's range, for every method; repeat it for several. Default: the model's own.",
        flag="--range",
        read=_named_range,
        separator=None,
        metavar="NAME=LOW,HIGH",
    )
    lambda_range: tuple[float, float] | None = option(
        None,
        "Short for --range lambda=LOW,HIGH; default: 0,0.95, for jelinek-mercer 0.01,0.99.",
        read=partial(_range, "--lambda-range", "0,0.95"),
        metavar="LOW,HIGH",
    )
    mu_range: tuple[float, float] | None = option(
        None,
        "Short for --range mu=LOW,HIGH; default: 1,100000.",
        read=partial(_range, "--mu-range", "1,100000"),
        metavar="LOW,HIGH",
    )

    def of(self, model: str) -> dict[str, tuple[float, float]]:
        """Return the ranges that are given, by name."""
        short = {"--lambda-range": self.lambda_range, "--mu-range": self.mu_range}
        return _by_name(model, "--range", self.given, short)


def _by_name(
    model: str, flag: str, given: Iterable[tuple[str, T]], short: Mapping[str, T | None]
) -> dict[str, T]:
    """Join what was given by name and by short options; refuse what the model fixes or lacks."""
    named = [(f"{flag} {name}", name, value) for name, value in given]
    named += [(own, own.split("-")[2], value) for own, value in short.items() if value is not None]
    names, fixed = list(find_model(model).default), find_model(model).fixed
    found: dict[str, T] = {}
    for option_, name, value in named:
        if name not in names:
            raise InputError(f"{option_}: no parameter of {model}", value=name, accepted=", ".join(names))
        if name in fixed:
            raise InputError(
                f"{option_} beside --model {model}, which fixes {name}",
                value=value,
                accepted=f"{name} = {fixed[name]:g}, which needs no option",
            )
        if name in found:
            raise InputError(f"{name} is given twice", value=value, accepted="once")
        found[name] = value
    return found
