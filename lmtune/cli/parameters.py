"""Options that name a model's parameters: values, ranges, baseline, tuned results."""

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


def read_value(flag: str, text: str) -> tuple[str, float]:
    """Parse ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"bad {flag}", value=text, accepted="NAME=VALUE, such as mu=1000")
    return name.strip(), read(float, value, f"{flag} {name}")


def read_range(text: str) -> tuple[str, tuple[float, float]]:
    """Parse ``NAME=LOW,HIGH``."""
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
    """Tuned setting."""

    results: Path | None = usual(
        None,
        "Use the model, analysis and setting of this folder, written by lmtune tune --output.",
        flag="--from",
        metavar="RESULTS",
    )
    measure: str | None = option(
        None, "The measure it was tuned for; default: the first one of the results.", flag="--measure -m"
    )
    method: str | None = option(None, "The method that tuned it; default: the recommended one.")

    def __post_init__(self) -> None:
        for name in ("measure", "method"):
            if self.results is None and getattr(self, name) is not None:
                raise InputError(f"--{name} without --from", accepted="--from RESULTS")

    def take(self, collection: Collection) -> FinalSetting:
        """Return the tuned setting, with the collection under the analysis of the results."""
        from lmtune.tuning.experiment.stored import take_final

        assert self.results is not None
        return take_final(self.results, collection, measure=self.measure, method=self.method)


@dataclass(frozen=True)
class SettingOptions:
    """Model."""

    model: str | None = usual(
        None, f"{NAMES}. Without :title,body the fields are those of --fields. Default: {TWO_STAGE.name}."
    )
    named: tuple[tuple[str, float], ...] = usual(
        (),
        "Set a parameter; repeat for several. Default: the model's default values.",
        flag="--set",
        read=partial(read_value, "--set"),
        separator=None,
        metavar="NAME=VALUE",
    )

    def values(self, model: str) -> dict[str, float]:
        """Return the values of all parameters of a model by name: those of --set, otherwise the defaults."""
        return {**find_model(model).default, **_by_name(model, "--set", self.named)}

    def of(self, tuned: Tuned, collection: Collection) -> FinalSetting:
        """Return the setting of the options, or the tuned one of --from."""
        from lmtune.tuning.experiment.stored import FinalSetting

        if tuned.results is None:
            model = named_model(self.model or TWO_STAGE.name, collection.fields)
            return FinalSetting(model, self.values(model), collection)
        if self.named:
            raise InputError(f"--set {self.named[0][0]} conflicts with --from", accepted="one of the two")
        taken = tuned.take(collection)
        if self.model not in (None, taken.model):
            raise InputError(
                "--model differs from the model of --from", value=self.model, accepted=taken.model
            )
        return taken


@dataclass(frozen=True)
class Ranges:
    """Parameter ranges."""

    named: tuple[tuple[str, tuple[float, float]], ...] = option(
        (),
        "Range of a parameter, for all methods; repeat for several. Default: the model's.",
        flag="--range",
        read=read_range,
        separator=None,
        metavar="NAME=LOW,HIGH",
    )

    def of(self, model: str) -> dict[str, tuple[float, float]]:
        """Return the ranges of the options by name."""
        return _by_name(model, "--range", self.named)


@dataclass(frozen=True)
class Baseline:
    """Baseline."""

    baseline: tuple[tuple[str, float], ...] = usual(
        (),
        "Compare with this setting, such as k1=0.9,b=0.4 (the row Default); default: the model's.",
        read=lambda text: tuple(read_value("--baseline", part) for part in text.split(",")),
        metavar="NAME=VALUE,...",
    )

    def of(self, model: str) -> dict[str, float]:
        """Return the values of the option by name."""
        return _by_name(model, "--baseline", self.baseline)


def _by_name(model: str, flag: str, named: Iterable[tuple[str, _T]]) -> dict[str, _T]:
    """Return values by name; raise `InputError` for a parameter that the model fixes or does not have."""
    names, fixed = list(find_model(model).default), find_model(model).fixed
    values: dict[str, _T] = {}
    for name, value in named:
        if name not in names:
            others = ", ".join(own.name for own in MODELS.values() if name in own.default)
            accepted = ", ".join(names) + (f"; --model {others} has it" if others else "")
            raise InputError(f"{flag} {name}: {model} has no such parameter", value=name, accepted=accepted)
        if name in fixed:
            raise InputError(
                f"{flag} {name}: --model {model} fixes it",
                value=value,
                accepted=f"{name} = {fixed[name]:g}, without this option",
            )
        if name in values:
            raise InputError(f"{name} is given twice", value=value, accepted="once")
        values[name] = value
    return values
