"""Options of a model's parameters: values and ranges by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lmtune.datasets.collection import Collection
from lmtune.errors import InputError
from lmtune.models.model import MODELS, NAMES, find_model, named_model
from lmtune.models.parameter import Parameter
from lmtune.models.two_stage import TWO_STAGE
from lmtune.options import option, read, usual
from lmtune.reporting.tuning_results import FinalSetting, take_final
from lmtune.tuning.experiment.result import DIRECT

T = TypeVar("T")


def _value(flag: str, text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"bad {flag}", value=text, accepted="NAME=VALUE, such as mu=1000")
    return name.strip(), read(float, value, f"{flag} {name}")


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


# Names of several words have no short form.
_PARAMETERS = {
    parameter.name: parameter
    for model in MODELS.values()
    for parameter in model.parameters
    if "_" not in parameter.name
}
PARAMETER_NAMES = frozenset(_PARAMETERS)
"""Parameters that have options of their own."""
_KEYWORDS = {"lambda": "lambda_"}


def _short_forms(
    make: Callable[[Parameter], Any], kind: Any, suffix: str = ""
) -> Callable[[type[T]], type[T]]:
    """Give a class an option for every model's every parameter."""

    def add(form: type[T]) -> type[T]:
        for name, parameter in _PARAMETERS.items():
            field = f"{name}{suffix}"
            field = _KEYWORDS.get(field, field)
            form.__annotations__[field] = kind
            setattr(form, field, make(parameter))
        return form

    return add


def _shorts(form: Any, suffix: str = "") -> dict[str, Any]:
    names = [f"{name}{suffix}" for name in _PARAMETERS]
    return {f"--{name.replace('_', '-')}": getattr(form, _KEYWORDS.get(name, name)) for name in names}


def _of_models(parameter: Parameter, show: Callable[[Parameter], str]) -> str:
    """Show what models say of a parameter that they do not fix, each thing once."""
    shown: dict[str, str] = {}
    for model in MODELS.values():
        for one in model.parameters:
            if one.name == parameter.name and not one.is_fixed and show(one) not in shown.values():
                shown[model.name] = show(one)
    first, *others = shown.items()
    return ", ".join([first[1], *(f"for {model} {text}" for model, text in others)])


def _value_option(parameter: Parameter) -> Any:
    default = _of_models(parameter, lambda one: f"{one.default:g}")
    text = f"Short for --set {parameter.name}=...: {parameter.what}; default: {default}."
    return option(None, text, flag=f"--{parameter.name}")


def _range_option(parameter: Parameter) -> Any:
    default = _of_models(parameter, lambda one: f"{one.low:.6g},{one.high:.6g}")
    flag = f"--{parameter.name}-range"
    text = f"Short for --range {parameter.name}=LOW,HIGH; default: {default}."
    example = f"{parameter.low:.6g},{parameter.high:.6g}"
    return option(None, text, read=partial(_range, flag, example), metavar="LOW,HIGH")


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
    method: str | None = option(None, f"Tuned by this; default: {DIRECT}.")

    def __post_init__(self) -> None:
        for name in ("measure", "method"):
            if self.results is None and getattr(self, name) is not None:
                raise InputError(f"--{name} without --from", accepted="--from RESULTS")

    def take(self, collection: Collection) -> FinalSetting:
        """Take it from the results, and the analysis for a collection."""
        assert self.results is not None
        return take_final(self.results, collection, measure=self.measure, method=self.method or DIRECT)


@dataclass(frozen=True)
@_short_forms(_value_option, float | None)
class Setting:
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
        return {**find_model(model).default, **_by_name(model, "--set", self.named, _shorts(self))}

    def of(self, tuned: Tuned, collection: Collection) -> FinalSetting:
        """Return the setting that is given, or the tuned one, which nothing may contradict."""
        if tuned.results is None:
            model = named_model(self.model or TWO_STAGE.name, collection.fields)
            return FinalSetting(model, self.values(model), collection)
        flags = [f"--set {name}" for name, _ in self.named]
        flags += [flag for flag, value in _shorts(self).items() if value is not None]
        if flags:
            raise InputError(f"{flags[0]} beside --from", accepted="one of the two")
        taken = tuned.take(collection)
        if self.model not in (None, taken.model):
            raise InputError(
                "--model beside --from, whose results are another's", value=self.model, accepted=taken.model
            )
        return taken


@dataclass(frozen=True)
@_short_forms(_range_option, tuple[float, float] | None, "_range")
class Ranges:
    """Where to look for parameters."""

    named: tuple[tuple[str, tuple[float, float]], ...] = option(
        (),
        "A parameter's range, for every method; repeat it for several. Default: the model's own.",
        flag="--range",
        read=_named_range,
        separator=None,
        metavar="NAME=LOW,HIGH",
    )

    def of(self, model: str) -> dict[str, tuple[float, float]]:
        """Return the ranges that are given, by name."""
        return _by_name(model, "--range", self.named, _shorts(self, "_range"))


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
        return _by_name(model, "--baseline", self.baseline, {})


def _by_name(
    model: str, flag: str, named: Iterable[tuple[str, T]], short: Mapping[str, T | None]
) -> dict[str, T]:
    """Join what was given by name and by short options; refuse what the model fixes or lacks."""
    pairs = [(f"{flag} {name}", name, value) for name, value in named]
    pairs += [(name, name.split("-")[2], value) for name, value in short.items() if value is not None]
    names, fixed = list(find_model(model).default), find_model(model).fixed
    values: dict[str, T] = {}
    for option_, name, value in pairs:
        if name not in names:
            others = ", ".join(own.name for own in MODELS.values() if name in own.default)
            accepted = ", ".join(names) + (f"; of --model {others} it is one" if others else "")
            raise InputError(f"{option_}: no parameter of {model}", value=name, accepted=accepted)
        if name in fixed:
            raise InputError(
                f"{option_} beside --model {model}, which fixes {name}",
                value=value,
                accepted=f"{name} = {fixed[name]:g}, which needs no option",
            )
        if name in values:
            raise InputError(f"{name} is given twice", value=value, accepted="once")
        values[name] = value
    return values
