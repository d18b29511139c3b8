"""The search space of the tuners: ranges of numeric parameters, and categorical parameters."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_choice
from lmtune.models.feedback import EXPANSIONS
from lmtune.models.formula import Formula
from lmtune.models.model import Model, find_model
from lmtune.models.parameter import Parameter, Setting, as_settings, shares

MODEL, EXPAND, NONE = "model", "expand", "none"
ANALYSIS = ("stemmer", "stopwords", "lengths", "fields", "topic-fields")
"""Categorical parameters that are arguments of `Collection`; several fields are joined by ``+``."""
CHOICES = (*ANALYSIS, MODEL, EXPAND)


@dataclass(frozen=True)
class Choice:
    """A categorical parameter and its options.

    Attributes
    ----------
    name : str
        One of `CHOICES`.
    values : tuple of str
        The options. The first is the baseline of the others.

    Raises
    ------
    InputError
        If the name is unknown, there are fewer than two options, or one is repeated.

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
                accepted="two or more different values, separated by commas",
            )
        if self.name == EXPAND:
            for value in self.values:
                check_choice("no such expansion", value, (NONE, *EXPANSIONS))

    @classmethod
    def parse(cls, text: str) -> Choice:
        """Parse the command line's form: a name, ``=``, and comma-separated options."""
        name, _, values = text.partition("=")
        return cls(name.strip(), tuple(value.strip() for value in values.split(",")))


_ROUNDING = 1e-12


@dataclass(frozen=True)
class ParameterSpace:
    """The box of settings that a tuner searches.

    A vector contains a value for each parameter, in the order of `parameters`.

    Attributes
    ----------
    parameters : tuple of Parameter
        The parameters of a formula with the ranges to search; equal bounds fix a parameter.
    choices : tuple of Choice
        Categorical parameters of the text analysis, for `lmtune.make_cases`. Tuners do not accept them.
    """

    parameters: tuple[Parameter, ...]
    choices: tuple[Choice, ...] = ()

    @classmethod
    def of(
        cls,
        model: str | Model | Formula = "two-stage",
        ranges: Mapping[str, tuple[float, float]] | None = None,
        choices: Sequence[Choice] = (),
    ) -> ParameterSpace:
        """Return a model's space.

        Parameters
        ----------
        model : str, Model or Formula
            A name in `lmtune.models.model.MODELS`, or a custom model or formula.
        ranges : mapping of str to (low, high), optional
            Ranges that replace the model's own, by parameter: ``{"lambda": (0, 0.5)}``.
        choices : sequence of Choice, optional
            Categorical parameters of the text analysis.

        Raises
        ------
        InputError
            If the model or a parameter is unknown, a range is outside the model's domain, a range
            contradicts a parameter that the model fixes, or a categorical parameter is not one of `ANALYSIS`.
        """
        model = find_model(model)
        ranges = ranges or {}
        for choice in choices:
            check_choice("parameters depend on this choice, so no space has it", choice.name, ANALYSIS)
        names = [parameter.name for parameter in model.parameters]
        for name in ranges:
            check_choice(f"{model.name} has no such parameter", name, names)
        for name, value in model.fixed.items():
            if ranges.get(name, (value, value)) != (value, value):
                raise InputError(
                    f"{model.name} fixes {name}", value=ranges[name], accepted=f"{name} = {value:g}"
                )
        for parameter in model.parameters:
            if (parameter.share or parameter.is_counted) and parameter.name in ranges:
                why = "it is a share of 1" if parameter.share else "it is counted from the training topics"
                raise InputError(
                    f"{parameter.name} cannot have a range: {why}",
                    value=ranges[parameter.name],
                    accepted=", ".join(p.name for p in model.parameters if not p.share and not p.is_counted),
                )
        bounds = [
            ranges.get(parameter.name, (parameter.low, parameter.high)) for parameter in model.parameters
        ]
        space = cls(
            tuple(
                replace(parameter, low=low, high=high)
                for parameter, (low, high) in zip(model.parameters, bounds, strict=True)
            ),
            tuple(choices),
        )
        model.formula.check(space.normalise_shares(np.array([space.low, space.high])))
        return space

    def fixing(self, values: Mapping[str, float]) -> ParameterSpace:
        """Return a copy of the space with some parameters fixed at values."""
        fixed = (
            replace(
                parameter,
                low=values.get(parameter.name, parameter.low),
                high=values.get(parameter.name, parameter.high),
            )
            for parameter in self.parameters
        )
        return replace(self, parameters=tuple(fixed))

    def starting(self, values: Mapping[str, float]) -> ParameterSpace:
        """Return a copy of the space with new initial values for the named parameters."""
        starts = (
            replace(parameter, start=values.get(parameter.name, parameter.start))
            for parameter in self.parameters
        )
        return replace(self, parameters=tuple(starts))

    def normalise_shares(self, settings: Doubles) -> Doubles:
        """Normalise shares: divide parameters that must add up to 1 by their sum.

        Settings have shape (..., parameters). Shares that already add up to 1, up to rounding, are unchanged.
        """
        settings = np.array(settings, np.float64)
        for axes in shares(self.parameters).values():
            sums = settings[..., axes].sum(axis=-1, keepdims=True)
            settings[..., axes] /= np.where(np.abs(sums - 1.0) < _ROUNDING, 1.0, sums)
        return settings

    def with_value(self, vector: Doubles, axis: int, value: float) -> Doubles:
        """Return a copy of a setting with a new value of one parameter.

        If the parameter is a share, the other shares are rescaled to the remainder, in their proportions; if
        they are all 0, they get equal parts of it.
        """
        setting = vector.copy()
        for axes in shares(self.parameters).values():
            if axis in axes:
                others = [other for other in axes if other != axis]
                total = setting[others].sum()
                setting[others] = (setting[others] / total if total > 0.0 else 1.0 / len(others)) * (
                    1.0 - value
                )
        setting[axis] = value
        return setting

    def require(self, model: Model | Formula) -> None:
        """Raise `InputError` unless the space has exactly a model's parameters, with its fixed values."""
        if self.choices:
            raise InputError(
                "a tuner searches numeric parameters only",
                value=", ".join(choice.name for choice in self.choices),
                accepted="lmtune.tune_choices, with cases from lmtune.make_cases",
            )
        names = [parameter.name for parameter in model.parameters]
        if self.names != names:
            raise InputError(
                f"the space lacks the parameters of {model.name}", value=self.names, accepted=", ".join(names)
            )
        for parameter, fixed in zip(self.parameters, model.parameters, strict=True):
            if (
                fixed.is_fixed
                and not fixed.is_counted
                and (parameter.low, parameter.high) != (fixed.low, fixed.high)
            ):
                raise InputError(
                    f"{model.name} fixes {parameter.name}",
                    value=(parameter.low, parameter.high),
                    accepted=f"{parameter.name} = {fixed.low:g}, as in ParameterSpace.of({model.name!r})",
                )

    @property
    def names(self) -> list[str]:
        """The parameters' names."""
        return [parameter.name for parameter in self.parameters]

    @property
    def free(self) -> list[Parameter]:
        """The parameters that the space does not fix."""
        return [parameter for parameter in self.parameters if not parameter.is_fixed]

    @property
    def low(self) -> Doubles:
        """The lower bounds."""
        return np.array([parameter.low for parameter in self.parameters])

    @property
    def high(self) -> Doubles:
        """The upper bounds."""
        return np.array([parameter.high for parameter in self.parameters])

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The bounds (low, high) by name."""
        return {parameter.name: (parameter.low, parameter.high) for parameter in self.parameters}

    @property
    def start(self) -> Doubles:
        """The initial point of searches: each parameter's start, or its default, inside the ranges."""
        return self.clip([p.default if p.start is None else p.start for p in self.parameters])

    def vector(self, setting: Setting) -> Doubles:
        """Return a setting as a vector, with defaults for the parameters that it does not name."""
        vector: Doubles = as_settings(self.parameters, setting)[0]
        return vector

    def named(self, vector: Sequence[float] | Doubles) -> dict[str, float]:
        """Return a vector as a setting by parameter name."""
        return {name: float(value) for name, value in zip(self.names, vector, strict=True)}

    def grid(self, shape: Sequence[int]) -> Doubles:
        """Return the settings of a full grid, the last parameter varying fastest, or of a Sobol sequence.

        Parameters
        ----------
        shape : sequence of int
            Points along each parameter, ends included; at least 1 each. With several parameters, a single
            number is the length of a Sobol sequence. Its points are evenly spread over every pair of
            parameters, while a full grid of the same size has few values of each.

        Returns
        -------
        numpy.ndarray of float64, shape (settings, parameters)
            Distinct settings: fewer than the product of `shape` if a range is a single point.
        """
        self.check_grid(shape)
        if len(shape) < len(self.parameters):
            return self.normalise_shares(self._spread(shape[0]))
        axes = [parameter.grid(points) for parameter, points in zip(self.parameters, shape, strict=True)]
        settings = self.normalise_shares(np.array(list(itertools.product(*axes))))
        if not shares(self.parameters):
            return settings
        # Shares in the same ratio are one setting, up to rounding.
        return settings[np.sort(np.unique(settings.round(12), axis=0, return_index=True)[1])]

    def check_grid(self, shape: Sequence[int]) -> None:
        """Raise `InputError` unless a shape is valid for `grid`."""
        if len(shape) not in (1, len(self.parameters)) or min(shape) < 1:
            raise InputError(
                "a grid needs points",
                value="x".join(map(str, shape)),
                accepted=f"{'x'.join('1' * len(self.parameters))} and up, or the number of settings",
            )

    def _spread(self, count: int) -> Doubles:
        from scipy.stats.qmc import Sobol

        if not self.free:
            return self.low[None]
        power = max(count - 1, 1).bit_length()
        drawn = Sobol(len(self.free), scramble=False).random_base2(power)[:count]
        settings = np.tile(self.low, (count, 1))
        for parameter, column in zip(self.free, drawn.T, strict=True):
            axis = self.parameters.index(parameter)
            settings[:, axis] = [
                parameter.move(parameter.between(parameter.low, parameter.high, position), 0.0)
                for position in (column + 0.5 / 2**power).tolist()
            ]
        return settings

    def clip(self, vector: Sequence[float] | Doubles) -> Doubles:
        """Return the nearest setting inside the box."""
        return self.normalise_shares(np.clip(vector, self.low, self.high))

    def contains(self, setting: Setting) -> bool:
        """Return whether a setting lies in the ranges; counted parameters are not checked."""
        return all(p.is_counted or p.low <= setting[p.name] <= p.high for p in self.parameters)

    def random(self, rng: np.random.Generator) -> Doubles:
        """Draw a setting, each parameter uniformly on its scale."""
        return self.normalise_shares(np.array([parameter.random(rng) for parameter in self.parameters]))

    @property
    def unbounded_box(self) -> tuple[tuple[float, float], ...]:
        """The box in unbounded coordinates: see `lmtune.models.parameter.Parameter`."""
        return tuple(parameter.unbounded for parameter in self.parameters)

    def to_unbounded(self, vector: Sequence[float] | Doubles) -> Doubles:
        """Return the point of `unbounded_box` nearest to a setting.

        Shares are rescaled so that the largest one is at its upper bound.
        """
        vector = np.array(vector, np.float64)
        for axes in shares(self.parameters).values():
            vector[axes] *= self.high[axes].max() / vector[axes].max()
        return np.array([p.to_unbounded(x) for p, x in zip(self.parameters, map(float, vector), strict=True)])

    def from_unbounded(self, point: Doubles) -> Doubles:
        """Return the setting of a point of `unbounded_box`."""
        values = [p.from_unbounded(x) for p, x in zip(self.parameters, point.tolist(), strict=True)]
        return self.normalise_shares(np.array(values))

    def chain(self, gradient: Doubles, vector: Doubles) -> Doubles:
        """Convert a gradient in the parameters to the unbounded coordinates, by the chain rule."""
        gradient = gradient.copy()
        for axes in shares(self.parameters).values():
            # The derivative of the normalisation: a larger share makes all the others smaller.
            gradient[axes] -= gradient[axes] @ vector[axes]
        entries = zip(self.parameters, gradient.tolist(), vector.tolist(), strict=True)
        return np.array([parameter.chain(derivative, value) for parameter, derivative, value in entries])

    def at_edge(self, vector: Sequence[float] | Doubles) -> list[str]:
        """Return the bounds that a setting lies on, such as ``"mu = 100000"``; fixed parameters have none."""
        values = zip(self.parameters, map(float, vector), strict=True)
        return [f"{p.name} = {value:g}" for p, value in values if p.is_at_edge(value)]


def space_for(
    space: ParameterSpace | None, pool: CandidatePool, topics: Integers | None = None
) -> ParameterSpace:
    """Return the space to search for a pool's formula.

    Parameters
    ----------
    space : ParameterSpace, optional
        The space; by default the formula's own ranges.
    pool : CandidatePool
        The collection.
    topics : numpy.ndarray of int64, optional
        Positions of the training topics. Parameters that are counted, not searched, are fixed at their values
        on these topics.

    Raises
    ------
    InputError
        If the space does not have the formula's parameters.
    """
    if space is None:
        space = ParameterSpace.of(pool.formula)
    space.require(pool.formula)
    return space if topics is None else space.fixing(pool.formula.counted_parameters(pool.counts(topics)))
