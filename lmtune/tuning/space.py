"""What is tuned: the range of parameters that every tuner searches, and choices that are no numbers."""

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
"""Choices that are options of `Collection`; those of several fields have ``+`` between them."""
CHOICES = (*ANALYSIS, MODEL, EXPAND)


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


_ROUNDING = 1e-12


@dataclass(frozen=True)
class ParameterSpace:
    """A box of settings. Vectors have a value for each parameter, in their order.

    Attributes
    ----------
    parameters : tuple of Parameter
        Those of a formula, each with the range to search; equal bounds fix one.
    choices : tuple of Choice
        Settings of the analysis, which `lmtune.make_cases` combines; tuners take none.
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
            A name in `lmtune.models.model.MODELS`, or one's own.
        ranges : mapping of str to (low, high), optional
            Other ranges than the model's own, by parameter: ``{"lambda": (0, 0.5)}``.
        choices : sequence of Choice, optional
            Of the analysis.

        Raises
        ------
        InputError
            For an unknown model or parameter, a range outside the model's domain, another
            range of a parameter that the model fixes, or a choice that changes the parameters.
        """
        model = find_model(model)
        ranges = ranges or {}
        for choice in choices:
            check_choice("a space has no such choice, for parameters depend on it", choice.name, ANALYSIS)
        names = [parameter.name for parameter in model.parameters]
        for name in ranges:
            check_choice(f"{model.name} has no such parameter", name, names)
        for name, value in model.fixed.items():
            if ranges.get(name, (value, value)) != (value, value):
                raise InputError(
                    f"{model.name} has no {name} to look for",
                    value=ranges[name],
                    accepted=f"{name} = {value:g}",
                )
        for parameter in model.parameters:
            if (parameter.share or parameter.is_counted) and parameter.name in ranges:
                why = "it is a share of 1" if parameter.share else "the topics of a fit say what it is"
                raise InputError(
                    f"{parameter.name} has no range of its own: {why}",
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
        model.formula.check(space.settled(np.array([space.low, space.high])))
        return space

    def fixing(self, values: Mapping[str, float]) -> ParameterSpace:
        """Return the space with some parameters fixed at values."""
        fixed = (
            replace(own, low=values.get(own.name, own.low), high=values.get(own.name, own.high))
            for own in self.parameters
        )
        return replace(self, parameters=tuple(fixed))

    def starting(self, values: Mapping[str, float]) -> ParameterSpace:
        """Return the space with other starts of descents, where values name them."""
        starts = (replace(own, start=values.get(own.name, own.start)) for own in self.parameters)
        return replace(self, parameters=tuple(starts))

    def settled(self, settings: Doubles) -> Doubles:
        """Return settings, shape (..., parameters), with parameters that share 1 divided by their sum.

        Those that add up to 1 but for rounding stay as they are.
        """
        settings = np.array(settings, np.float64)
        for axes in shares(self.parameters).values():
            sums = settings[..., axes].sum(axis=-1, keepdims=True)
            settings[..., axes] /= np.where(np.abs(sums - 1.0) < _ROUNDING, 1.0, sums)
        return settings

    def replaced(self, vector: Doubles, axis: int, value: float) -> Doubles:
        """Return a setting with another value of one parameter; other shares keep their proportions.

        Where they are all 0, they get equal parts of what is left.
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
        """Raise `InputError` unless this space is of a model's parameters alone, fixed where they are."""
        if self.choices:
            raise InputError(
                "a tuner searches numbers",
                value=", ".join(choice.name for choice in self.choices),
                accepted="lmtune.tune_choices, with the cases that lmtune.make_cases makes of the space",
            )
        names = [parameter.name for parameter in model.parameters]
        if self.names != names:
            raise InputError(
                f"the space is not of {model.name}'s parameters", value=self.names, accepted=", ".join(names)
            )
        for own, fixed in zip(self.parameters, model.parameters, strict=True):
            if fixed.is_fixed and not fixed.is_counted and (own.low, own.high) != (fixed.low, fixed.high):
                raise InputError(
                    f"{model.name} has no {own.name} to look for",
                    value=(own.low, own.high),
                    accepted=f"{own.name} = {fixed.low:g}, as in ParameterSpace.of({model.name!r})",
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
        """Where descents begin."""
        return self.clip([p.default if p.start is None else p.start for p in self.parameters])

    def vector(self, setting: Setting) -> Doubles:
        """Return a setting as a vector; defaults for parameters that it does not name."""
        vector: Doubles = as_settings(self.parameters, setting)[0]
        return vector

    def named(self, vector: Sequence[float] | Doubles) -> dict[str, float]:
        """Return a vector as a setting."""
        return {name: float(value) for name, value in zip(self.names, vector, strict=True)}

    def grid(self, shape: Sequence[int]) -> Doubles:
        """Return every setting of a full grid, the last parameter varying fastest.

        Parameters
        ----------
        shape : sequence of int
            Points along each parameter, ends included; at least 1 each. Of several parameters a
            single number is how many settings to spread instead: Sobol's sequence, whose points lie
            evenly in every pair of parameters, where a full grid has few values of each.

        Returns
        -------
        numpy.ndarray of float64, shape (settings, parameters)
            Distinct settings: fewer than the product of `shape` where a range is a single point.
        """
        self.check_grid(shape)
        if len(shape) < len(self.parameters):
            return self.settled(self._spread(shape[0]))
        axes = [parameter.grid(points) for parameter, points in zip(self.parameters, shape, strict=True)]
        settings = self.settled(np.array(list(itertools.product(*axes))))
        if not shares(self.parameters):
            return settings
        # Those of one ratio differ by their rounding.
        return settings[np.sort(np.unique(settings.round(12), axis=0, return_index=True)[1])]

    def check_grid(self, shape: Sequence[int]) -> None:
        """Raise `InputError` unless `grid` takes a shape."""
        if len(shape) not in (1, len(self.parameters)) or min(shape) < 1:
            raise InputError(
                "a grid needs points",
                value="x".join(map(str, shape)),
                accepted=f"{'x'.join('1' * len(self.parameters))} and up, or how many settings",
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
                parameter.move(parameter.between(parameter.low, parameter.high, place), 0.0)
                for place in (column + 0.5 / 2**power).tolist()
            ]
        return settings

    def clip(self, vector: Sequence[float] | Doubles) -> Doubles:
        """Return the nearest setting inside the box."""
        return self.settled(np.clip(vector, self.low, self.high))

    def holds(self, setting: Setting) -> bool:
        """Say whether a setting lies in the ranges."""
        return all(p.is_counted or p.low <= setting[p.name] <= p.high for p in self.parameters)

    def random(self, rng: np.random.Generator) -> Doubles:
        """Draw a setting, each parameter evenly on its scale."""
        return self.settled(np.array([parameter.random(rng) for parameter in self.parameters]))

    @property
    def unbounded_box(self) -> tuple[tuple[float, float], ...]:
        """The box in unbounded coordinates: see `lmtune.models.parameter.Parameter`."""
        return tuple(parameter.unbounded for parameter in self.parameters)

    def to_unbounded(self, vector: Sequence[float] | Doubles) -> Doubles:
        """Return the point of `unbounded_box` next to a setting; the largest of shares is its bound there."""
        vector = np.array(vector, np.float64)
        for axes in shares(self.parameters).values():
            vector[axes] *= self.high[axes].max() / vector[axes].max()
        return np.array([p.to_unbounded(x) for p, x in zip(self.parameters, map(float, vector), strict=True)])

    def from_unbounded(self, point: Doubles) -> Doubles:
        """Return the setting of a point of `unbounded_box`."""
        values = [p.from_unbounded(x) for p, x in zip(self.parameters, point.tolist(), strict=True)]
        return self.settled(np.array(values))

    def chain(self, gradient: Doubles, vector: Doubles) -> Doubles:
        """Turn a gradient in the parameters into one in the unbounded coordinates."""
        gradient = gradient.copy()
        for axes in shares(self.parameters).values():
            # A share that grows takes from all of them.
            gradient[axes] -= gradient[axes] @ vector[axes]
        at = zip(self.parameters, gradient.tolist(), vector.tolist(), strict=True)
        return np.array([parameter.chain(derivative, value) for parameter, derivative, value in at])

    def at_edge(self, vector: Sequence[float] | Doubles) -> list[str]:
        """Name the bounds that a setting lies on, such as ``"mu = 100000"``.

        A parameter that the space fixes is on no edge.
        """
        values = zip(self.parameters, map(float, vector), strict=True)
        return [f"{p.name} = {value:g}" for p, value in values if p.is_at_edge(value)]


def space_for(
    space: ParameterSpace | None, pool: CandidatePool, topics: Integers | None = None
) -> ParameterSpace:
    """Return the space to search: one of a pool's formula, by default with its own ranges.

    Parameters
    ----------
    space : ParameterSpace, optional
        Which.
    pool : CandidatePool
        Where it is searched.
    topics : numpy.ndarray of int64, optional
        Places of the topics of a fit, on which parameters are counted that nothing searches.

    Raises
    ------
    InputError
        Where the space is not of that formula's parameters.
    """
    if space is None:
        space = ParameterSpace.of(pool.formula)
    space.require(pool.formula)
    return space if topics is None else space.fixing(pool.formula.counted(pool.counts(topics)))
