"""Model parameters, their ranges, and the scales on which they are searched."""

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
"""The source of most models' default values."""

# The logit of 0 is infinite. Below this share the cost hardly changes.
_SMALLEST = 1e-4
_EDGE = 1e-6


class _Scale(NamedTuple):
    """A transformation of a parameter for searches, with its domain.

    Attributes
    ----------
    coordinate, value : callable
        Convert the parameter to an unbounded coordinate, and back.
    chain : callable
        Chain rule: converts a derivative in the parameter, at a value, to one in the coordinate.
    is_geometric : bool
        Whether grids, random draws and ascent steps are uniform in the logarithm.
    accepted : str
        The domain, for messages.
    contains : callable
        Returns whether a value is in the domain.
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
        accepted="{name} > 0{unit}; or 0 for both bounds",
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
    """A parameter with its search range.

    Attributes
    ----------
    name : str
        The name in settings, tables and options.
    low, high : float
        The range, bounds included; equal bounds fix the parameter.
    scale : {"linear", "log", "logit"}
        ``"log"`` is for positive numbers of any magnitude: grids are geometric, and gradient methods use
        the logarithm. ``"logit"`` is for shares in [0, 1): grids are uniform in the share, and gradient
        methods use its logit, from that of 1e-4 or less if `low` is 0.
    default : float
        The value without tuning.
    what : str
        A short description.
    start : float, optional
        Initial point of gradient methods; `default` if None.
    unit : str
        The unit, such as ``"tokens"``.
    share : str
        Name of a group of parameters that add up to 1 in every setting. A search varies their relative
        sizes, and spaces divide by the sum.
    source : str
        Source of the default, such as ``"Anserini's"``; empty if there is none.
    is_counted : bool
        Whether the value is computed from the topics of a fit instead of searched.

    Raises
    ------
    InputError
        If the scale is unknown, or the range is empty or outside the scale's domain.
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
        """Raise `InputError` unless a value is in the domain of the scale."""
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
        """Whether the range is a single value."""
        return self.low == self.high

    def clip(self, value: float) -> float:
        """Return the nearest value in the range."""
        return min(max(value, self.low), self.high)

    def grid(self, points: int) -> Doubles:
        """Return at most `points` distinct values from `low` to `high`, evenly or geometrically spaced.

        They are rounded to four significant digits if they stay distinct.
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
        """The first step of a search: 0.1 for shares, 0.5 in the logarithm, a tenth of a linear range."""
        return {"logit": 0.1, "log": 0.5, "linear": (self.high - self.low) / 10.0}[self.scale]

    def move(self, value: float, distance: float) -> float:
        """Return the value at a distance, measured in the logarithm on the scale ``"log"``.

        The value is rounded, so that different sequences of steps to one value give the same digits.
        """
        if self.scale == "logit":
            return self.clip(round(value + distance, 9))
        moved = value * math.exp(distance) if self._scale.is_geometric else value + distance
        return self.clip(float(f"{moved:.9g}"))

    def between(self, begin: float, end: float, position: float) -> float:
        """Interpolate between two values on the scale; position 0 is `begin` and 1 is `end`."""
        if begin == end:
            return begin
        if self._scale.is_geometric:
            return math.exp(math.log(begin) + position * math.log(end / begin))
        return begin + position * (end - begin)

    def mean(self, values: Doubles, weights: Doubles) -> float:
        """Return the weighted mean of values, geometric on the scale ``"log"``."""
        if self.is_fixed or not self._scale.is_geometric:
            return self.clip(float(np.average(values, weights=weights)))
        return self.clip(math.exp(float(np.average(np.log(values), weights=weights))))

    @property
    def unbounded(self) -> tuple[float, float]:
        """The range in the unbounded coordinate."""
        if self.scale != "logit":
            return self._scale.coordinate(self.low), self._scale.coordinate(self.high)
        smallest = min(_SMALLEST, self.high / 2.0) or _SMALLEST
        low = logit(max(self.low, smallest))
        return low, low if self.is_fixed else logit(self.high)

    def to_unbounded(self, value: float) -> float:
        """Return the coordinate of a value, clipped to the range `unbounded`."""
        low, high = self.unbounded
        return min(max(self._scale.coordinate(value), low), high)

    def from_unbounded(self, x: float) -> float:
        """Return the value at a coordinate."""
        return self.low if self.is_fixed else self.clip(self._scale.value(x))

    def chain(self, derivative: float, value: float) -> float:
        """Convert a derivative in the parameter to one in the unbounded coordinate, at a value."""
        return self._scale.chain(derivative, value)

    def is_at_edge(self, value: float) -> bool:
        """Return whether a value is on a bound of the range, if the parameter is not fixed."""
        if self.is_fixed:
            return False
        low, high = self.unbounded
        at = -math.inf if self.scale == "logit" and value <= 0.0 else self._scale.coordinate(value)
        return not low + _EDGE < at < high - _EDGE


def shares(parameters: Sequence[Parameter]) -> dict[str, list[int]]:
    """Return the indices of parameters that add up to 1, by their joined names."""
    groups: dict[str, list[int]] = {}
    for axis, parameter in enumerate(parameters):
        if parameter.share:
            groups.setdefault(parameter.share, []).append(axis)
    return {", ".join(parameters[axis].name for axis in axes): axes for axes in groups.values()}


def as_settings(parameters: Sequence[Parameter], settings: Setting | Sequence[Setting] | Doubles) -> Doubles:
    """Convert settings to a matrix, shape (settings, parameters).

    Parameters
    ----------
    parameters : sequence of Parameter
        The columns.
    settings : mapping, sequence of mappings, or numpy.ndarray
        Values by name, with defaults for missing names; or values in the order of the parameters, shape
        (parameters,) or (settings, parameters).

    Raises
    ------
    InputError
        If a name is unknown or rows have another length.
    """
    if not isinstance(settings, np.ndarray):
        named = [settings] if isinstance(settings, Mapping) else settings
        settings = np.array([_as_row(parameters, setting) for setting in named], np.float64)
    matrix = np.ascontiguousarray(np.atleast_2d(settings), np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != len(parameters):
        raise InputError(
            "settings do not fit the model's parameters",
            value=matrix.shape,
            accepted=f"one value for each of {', '.join(p.name for p in parameters)}",
        )
    return matrix


def _as_row(parameters: Sequence[Parameter], setting: Setting) -> list[float]:
    names = [parameter.name for parameter in parameters]
    for name in setting:
        check_choice("the model has no such parameter", name, names)
    return [float(setting.get(parameter.name, parameter.default)) for parameter in parameters]
