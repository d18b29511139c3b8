"""Options of a model's parameters: values and ranges by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lmtune.collections.collection import Collection
from lmtune.errors import InputError
from lmtune.models.model import MODELS, NAMES, find_model, named_model
from lmtune.models.two_stage import TWO_STAGE
from lmtune.options import option, read, usual

if TYPE_CHECKING:
    from lmtune.tuning.experiment.stored import FinalSetting

_T = TypeVar("_T")


def _value(flag: str, text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"bad {flag}", value=text, accepted="NAME=VALUE, such as mu=1000")
    return name.strip(), read(float, value, f"{flag} {name}")


def _range(text: str) -> tuple[str, tuple[float, float]]:
    name, equals, bounds = text.partition("=")
    if not equals:
        raise InputError("bad --range", value=text, accepted="NAME=LOW,HIGH, such as mu=1,100000")
    try:
        low, high = (float(part) for part in bounds.split(","))
    except ValueError:
        accepted = "LOW,HIGH, such as 1,100000"
        raise InputError(f"bad --range {name}", value=bounds, accepted=accepted) from None
    return name.strip(), (low, high)


@dataclass(frozen=True)
class Tuned:
    """A setting that was tuned."""

    results: Path | None = usual(
        None,
        "Take model, analysis and setting from this folder, which lmtune tune --output wrote.",
        flag="--from",
        metavar="RESULTS",
    )
    measure: str | None = option(None, "Tuned for this; default: the results' first.", flag="--measure -m")
    method: str | None = option(None, "Tuned by this method; default: the recommended one.")

    def __post_init__(self) -> None:
        for name in ("measure", "method"):
            if self.results is None and getattr(self, name) is not None:
                raise InputError(f"--{name} without --from", accepted="--from RESULTS")

    def take(self, collection: Collection) -> FinalSetting:
        """Take it from the results, and the analysis for a collection."""
        from lmtune.tuning.experiment.stored import take_final

        assert self.results is not None
        return take_final(self.results, collection, measure=self.measure, method=self.method)


@dataclass(frozen=True)
class SettingOptions:
    """The model and its parameters."""

    model: str | None = usual(None, f"{NAMES} or fields with --fields; default: {TWO_STAGE.name}.")
    named: tuple[tuple[str, float], ...] = usual(
        (),
        "A parameter's value; repeat it for several. Default: the model's own.",
        flag="--set",
        read=partial(_value, "--set"),
        separator=None,
        metavar="NAME=VALUE",
    )

    def values(self, model: str) -> dict[str, float]:
        """Return the values of all parameters of a model by name, its own where none is given."""
        return {**find_model(model).default, **_by_name(model, "--set", self.named)}

    def of(self, tuned: Tuned, collection: Collection) -> FinalSetting:
        """Return the setting that is given, or the tuned one, which nothing may contradict."""
        from lmtune.tuning.experiment.stored import FinalSetting

        if tuned.results is None:
            model = named_model(self.model or TWO_STAGE.name, collection.fields)
            return FinalSetting(model, self.values(model), collection)
        if self.named:
            raise InputError(f"--set {self.named[0][0]} beside --from", accepted="one of the two")
        taken = tuned.take(collection)
        if self.model not in (None, taken.model):
            raise InputError(
                "--model beside --from, whose results are another's", value=self.model, accepted=taken.model
            )
        return taken


@dataclass(frozen=True)
class Ranges:
    """Where to look for parameters."""

    named: tuple[tuple[str, tuple[float, float]], ...] = option(
        (),
        "A parameter's range, for every method; repeat it for several. Default: the model's own.",
        flag="--range",
        read=_range,
        separator=None,
        metavar="NAME=LOW,HIGH",
    )

    def of(self, model: str) -> dict[str, tuple[float, float]]:
        """Return the ranges that are given, by name."""
        return _by_name(model, "--range", self.named)


@dataclass(frozen=True)
class Baseline:
    """What the methods are compared with."""

    baseline: tuple[tuple[str, float], ...] = usual(
        (),
        "The row Default, such as k1=0.9,b=0.4; default: the model's usual setting.",
        read=lambda text: tuple(_value("--baseline", part) for part in text.split(",")),
        metavar="NAME=VALUE,...",
    )

    def of(self, model: str) -> dict[str, float]:
        """Return the values that are given, by name."""
        return _by_name(model, "--baseline", self.baseline)


def _by_name(model: str, flag: str, named: Iterable[tuple[str, _T]]) -> dict[str, _T]:
    """Return the given values by name; refuse a parameter that the model fixes or does not have."""
    names, fixed = list(find_model(model).default), find_model(model).fixed
    values: dict[str, _T] = {}
    for name, value in named:
        if name not in names:
            others = ", ".join(own.name for own in MODELS.values() if name in own.default)
            accepted = ", ".join(names) + (f"; of --model {others} it is one" if others else "")
            raise InputError(f"{flag} {name}: no parameter of {model}", value=name, accepted=accepted)
        if name in fixed:
            raise InputError(
                f"{flag} {name} beside --model {model}, which fixes {name}",
                value=value,
                accepted=f"{name} = {fixed[name]:g}, which needs no option",
            )
        if name in values:
            raise InputError(f"{name} is given twice", value=value, accepted="once")
        values[name] = value
    return values
