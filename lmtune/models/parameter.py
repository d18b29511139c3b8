"""The parameters of a model: their ranges, and the scales on which they are searched."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lmtune.arrays import Doubles
from lmtune.errors import InputError, check_choice

Setting = Mapping[str, float]
"""Values of a model's parameters by name."""

ANSERINI = "Anserini's"
"""Whose defaults most models here have."""

# A logit has no 0. Below this the cost is as good as flat.
_SMALLEST = 1e-4
_EDGE = 1e-6


class _Scale(NamedTuple):
    """How a parameter of this scale is searched.

    Attributes
    ----------
    coordinate, value : callable
        From the parameter to an unbounded coordinate, and back.
    chain : callable
        Takes a derivative in the parameter, and its value, to the derivative in the coordinate.
    is_geometric : bool
        Whether grids, random draws and steps of an ascent are even in the logarithm.
    accepted : str
        The domain, for messages.
    contains : callable
        Whether a value is in the domain.
    """

    coordinate: Callable[[float], float]
    value: Callable[[float], float]
    chain: Callable[[float, float], float]
    is_geometric: bool
    accepted: str
    contains: Callable[[float], bool]


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else 0.0


def logit(x: float) -> float:
    """Return log(x / (1 - x))."""
    return math.log(x) - math.log1p(-x)


def expit(x: float) -> float:
    """Return 1 / (1 + exp(-x)), the inverse of `logit`."""
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


_SCALES = {
    "linear": _Scale(
        coordinate=float,
        value=float,
        chain=lambda derivative, _: derivative,
        is_geometric=False,
        accepted="a finite {name}",
        contains=lambda _: True,
    ),
    "log": _Scale(
        coordinate=_log,
        value=math.exp,
        chain=lambda derivative, value: derivative * value,
        is_geometric=True,
        accepted="{name} > 0{unit}; or 0 for both its bounds",
        contains=lambda x: x >= 0.0,
    ),
    "logit": _Scale(
        coordinate=lambda x: logit(max(x, 1e-9)),
        value=expit,
        chain=lambda derivative, value: derivative * value * (1.0 - value),
        is_geometric=False,
        accepted="0 <= {name} < 1",
        contains=lambda x: 0.0 <= x < 1.0,
    ),
}


@dataclass(frozen=True)
class Parameter:
    """A parameter and the range in which to search it.

    Attributes
    ----------
    name : str
        As settings, tables and options have it.
    low, high : float
        The range, ends included; equal where the parameter is fixed.
    scale : {"linear", "log", "logit"}
        ``"log"`` is for positive numbers of any magnitude: grids are geometric and descents go
        along the logarithm. ``"logit"`` is for shares from 0 to below 1: grids are even in the
        share and descents go along its logit, which starts at 1e-4 or less where `low` is 0.
    default : float
        The value to rank with where none is given.
    what : str
        What it is, for a reader who does not know the name.
    start : float, optional
        Where descents begin; `default` if None.
    unit : str
        What it is counted in, such as ``"tokens"``.
    share : str
        Parameters of one such name add up to 1 in every setting. What is searched of each is its size
        beside the others: spaces divide by the sum.
    source : str
        Whose usual value the default is, such as ``"Anserini's"``; empty where nobody's.
    is_counted : bool
        Whether nothing searches it, because the topics of a fit say what it is.

    Raises
    ------
    InputError
        For an unknown scale, an empty range or one outside the scale's domain.
    """

    name: str
    low: float
    high: float
    scale: str
    default: float
    what: str = ""
    start: float | None = None
    unit: str = ""
    share: str = ""
    source: str = ""
    is_counted: bool = False

    def __post_init__(self) -> None:
        check_choice("unknown scale of a parameter", self.scale, _SCALES)
        self.require(self.low)
        self.require(self.high)
        if self.low > self.high:
            raise InputError(
                f"the {self.name} range is empty", value=(self.low, self.high), accepted="LOW,HIGH"
            )
        if self.scale == "log" and self.low == 0.0 < self.high:
            self._refuse(self.low)

    def require(self, value: float) -> None:
        """Raise `InputError` unless a value is in the scale's domain."""
        if not (math.isfinite(value) and self._scale.contains(value)):
            self._refuse(value)

    def _refuse(self, value: float) -> None:
        unit = f", in {self.unit}" if self.unit else ""
        raise InputError(
            f"{self.name} is outside its domain",
            value=value,
            accepted=self._scale.accepted.format(name=self.name, unit=unit),
        )

    @property
    def _scale(self) -> _Scale:
        return _SCALES[self.scale]

    @property
    def is_fixed(self) -> bool:
        """Whether its range is a single value."""
        return self.low == self.high

    def clip(self, value: float) -> float:
        """Return the nearest value in the range."""
        return min(max(value, self.low), self.high)

    def grid(self, points: int) -> Doubles:
        """Return distinct values from `low` to `high`, evenly spaced or geometric: `points` or fewer.

        They are rounded to what a person would type where that keeps them apart.
        """
        if self.scale == "logit":
            return np.unique(np.linspace(self.low, self.high, points).round(12))
        spaced = np.geomspace if self._scale.is_geometric and self.high > 0.0 else np.linspace
        axis = np.unique(spaced(self.low, self.high, points))
        typed = np.unique([float(f"{value:.4g}") for value in axis])
        return np.clip(typed, self.low, self.high) if typed.size == axis.size else axis

    def random(self, rng: np.random.Generator) -> float:
        """Draw a value: uniform, or log-uniform on the scale ``"log"``."""
        if not self._scale.is_geometric:
            return self.clip(rng.uniform(self.low, self.high))
        return self.clip(math.exp(rng.uniform(_log(self.low), _log(self.high))))

    @property
    def step(self) -> float:
        """The first step of a search: 0.1, 0.5 in a logarithm, or a tenth of a linear range."""
        return {"logit": 0.1, "log": 0.5, "linear": (self.high - self.low) / 10.0}[self.scale]

    def move(self, value: float, distance: float) -> float:
        """Return the value that far away, in the logarithm on the scale ``"log"``.

        It is rounded, so that ways that lead to one value do not differ in its last digits.
        """
        if self.scale == "logit":
            return self.clip(round(value + distance, 9))
        moved = value * math.exp(distance) if self._scale.is_geometric else value + distance
        return self.clip(float(f"{moved:.9g}"))

    def between(self, begin: float, end: float, position: float) -> float:
        """Return the value at a position from 0, the one, to 1, the other, evenly on the scale."""
        if begin == end:
            return begin
        if self._scale.is_geometric:
            return math.exp(math.log(begin) + position * math.log(end / begin))
        return begin + position * (end - begin)

    @property
    def unbounded(self) -> tuple[float, float]:
        """The range in the unbounded coordinate."""
        if self.scale != "logit":
            return self._scale.coordinate(self.low), self._scale.coordinate(self.high)
        smallest = min(_SMALLEST, self.high / 2.0) or _SMALLEST
        low = logit(max(self.low, smallest))
        return low, low if self.is_fixed else logit(self.high)

    def to_unbounded(self, value: float) -> float:
        """Return the coordinate, inside `unbounded`, next to a value."""
        low, high = self.unbounded
        return min(max(self._scale.coordinate(value), low), high)

    def from_unbounded(self, x: float) -> float:
        """Return the value at a coordinate."""
        return self.low if self.is_fixed else self.clip(self._scale.value(x))

    def chain(self, derivative: float, value: float) -> float:
        """Turn a derivative in the parameter into one in its unbounded coordinate."""
        return self._scale.chain(derivative, value)

    def is_at_edge(self, value: float) -> bool:
        """Say whether a value lies on a bound of the range, which it is free to leave."""
        if self.is_fixed:
            return False
        low, high = self.unbounded
        at = -math.inf if self.scale == "logit" and value <= 0.0 else self._scale.coordinate(value)
        return not low + _EDGE < at < high - _EDGE


def shares(parameters: Sequence[Parameter]) -> dict[str, list[int]]:
    """Return the places of parameters that add up to 1, by their names as a text."""
    axes: dict[str, list[int]] = {}
    for axis, parameter in enumerate(parameters):
        if parameter.share:
            axes.setdefault(parameter.share, []).append(axis)
    return {", ".join(parameters[axis].name for axis in own): own for own in axes.values()}


def as_settings(parameters: Sequence[Parameter], settings: Setting | Sequence[Setting] | Doubles) -> Doubles:
    """Turn settings into rows of a matrix, shape (settings, parameters).

    Parameters
    ----------
    parameters : sequence of Parameter
        A column each.
    settings : mapping, sequence of mappings, or numpy.ndarray
        Values by name, a parameter's default where its name is missing; or values in the order of
        the parameters, of shape (parameters,) or (settings, parameters).

    Raises
    ------
    InputError
        For a name that no parameter has, or rows of another length.
    """
    if not isinstance(settings, np.ndarray):
        named = [settings] if isinstance(settings, Mapping) else settings
        settings = np.array([_as_row(parameters, setting) for setting in named], np.float64)
    found = np.ascontiguousarray(np.atleast_2d(settings), np.float64)
    if found.ndim != 2 or found.shape[1] != len(parameters):
        raise InputError(
            "settings do not fit the model's parameters",
            value=found.shape,
            accepted=f"a value each of {', '.join(p.name for p in parameters)}",
        )
    return found


def _as_row(parameters: Sequence[Parameter], setting: Setting) -> list[float]:
    names = [parameter.name for parameter in parameters]
    for name in setting:
        check_choice("the model has no such parameter", name, names)
    return [float(setting.get(parameter.name, parameter.default)) for parameter in parameters]
