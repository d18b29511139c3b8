"""Direct search over a full grid, and values measured once for all searches of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Self

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.candidates.pool import CandidatePool, weighted_mean
from lmtune.candidates.regions import regions_for
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, MeasureLike, parse_measure
from lmtune.progress import Count, counted
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import Point, Progress, SearchRecord, Tuner


def shape_for(parameters: int) -> tuple[int, ...]:
    """Return the default shape of a grid: of other numbers of parameters than 2, as many settings."""
    return (20, 26) if parameters == 2 else (520,)


@dataclass(frozen=True)
class Surface:
    """Measures of every topic at every setting of a grid.

    Computed once, it answers for any fold: no setting is scored again.

    Attributes
    ----------
    names : tuple of str
        The parameters.
    settings : numpy.ndarray of float64, shape (settings, parameters)
        The grid.
    measures : tuple of Measure
        What was measured.
    values : numpy.ndarray of float64, shape (pool's topics, settings, measures)
        NaN for topics that were left out.
    weights : numpy.ndarray of float64, shape (pool's topics,), optional
        What topics count in a fit.
    """

    names: tuple[str, ...]
    settings: Doubles
    measures: tuple[Measure, ...]
    values: Doubles
    weights: Doubles | None = None

    @classmethod
    def compute(
        cls,
        pool: CandidatePool,
        measures: Sequence[Measure],
        *,
        space: ParameterSpace,
        shape: Sequence[int],
        topics: Integers | None = None,
        depth: int = DEPTH,
        progress: Count | None = None,
    ) -> Surface:
        """Measure the grid of `shape` points over `space`.

        A dense grid over large candidate lists is measured cell by cell, with the same values.
        """
        topics = pool.positions() if topics is None else topics
        settings = space.grid(shape)
        values = np.full((len(pool.topics), len(settings), len(measures)), np.nan)
        regions = regions_for(pool, settings, depth)
        values[topics] = measure_settings(
            pool, settings, measures, topics=topics, depth=depth, regions=regions, progress=progress
        )
        return cls(tuple(space.names), settings, tuple(measures), values, pool.topic_weights)

    def setting(self, place: int) -> dict[str, float]:
        """Return the setting of a row of `settings`."""
        return dict(zip(self.names, self.settings[place].tolist(), strict=True))

    def means(self, measure: Measure, topics: Integers) -> Doubles:
        """Return the measure's mean over topics at each setting, shape (settings,)."""
        weights = None if self.weights is None else self.weights[topics]
        return weighted_mean(self.values[topics, :, self.measures.index(measure)], weights)

    @property
    def unweighted(self) -> Surface:
        """The same, on which topics count alike."""
        return replace(self, weights=None)

    def best(self, measure: Measure, topics: Integers, count: int = 1) -> list[int]:
        """Return the settings with the highest means, best first; the first of equals."""
        order = np.argsort(-self.means(measure, topics), kind="stable")
        return [int(place) for place in order[:count]]


@dataclass(eq=False, repr=False)
class GridSearch(Tuner):
    """Find the grid point with the best mean of a measure; the first of equals.

    Parameters
    ----------
    measure : str, or an object of ir_measures
        What to maximise, in ir_measures' or trec_eval's spelling.
    space : ParameterSpace
        The range of each parameter; the model's own by default.
    shape : sequence of int, optional
        Points along each parameter, evenly spaced on its scale, or how many settings: see
        `ParameterSpace.grid`. By default `shape_for`.
    depth : int
        Run depth.

    Examples
    --------
    >>> grid = GridSearch(measure="AP").fit(pool, topics=train)  # doctest: +SKIP
    >>> grid.best_params_  # doctest: +SKIP
    {'lambda': 0.5, 'mu': 100.0}
    """

    measure: MeasureLike = "AP"
    _: KW_ONLY
    space: ParameterSpace | None = None
    shape: Sequence[int] | None = None
    depth: int = DEPTH

    def fit(
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: Progress | None = None
    ) -> Self:
        """Measure the grid on topics of a pool (all judged ones by default).

        Raises
        ------
        InputError
            For unknown topics.
        """
        what = parse_measure(self.measure)
        report = counted(progress, type(self).__name__)
        record = SearchRecord(pool, what, space=self.space, topics=topics)
        surface = Surface.compute(
            pool,
            [what],
            space=record.space,
            shape=self.shape or shape_for(len(record.space.names)),
            topics=record.places,
            depth=self.depth,
            progress=report,
        )
        record.add(surface.settings, surface.means(what, record.places).tolist())
        record.close(self)
        return self


@dataclass
class KnownValues:
    """Measures of topics at settings, each measured when it is first asked for.

    A topic's values depend neither on the fold nor on the search that asks, and scoring takes far longer
    than a further measure of the scores: whoever asks for one gets all.

    Attributes
    ----------
    pool : CandidatePool
        The collection.
    measures : sequence of Measure
        What is measured.
    depth : int
        Run depth.
    """

    pool: CandidatePool
    measures: Sequence[Measure]
    depth: int = DEPTH
    _found: dict[Point, Doubles] = field(default_factory=dict)

    @classmethod
    def on(cls, surface: Surface, pool: CandidatePool, measures: Sequence[Measure], depth: int) -> Self:
        """Begin with what a grid's surface has of some of its measures."""
        columns = [surface.measures.index(measure) for measure in measures]
        own = surface.values[:, :, columns].transpose(1, 0, 2)
        return cls(pool, measures, depth, dict(zip(map(tuple, surface.settings.tolist()), own, strict=True)))

    def at(self, settings: Sequence[Point], topics: Integers) -> Doubles:
        """Return the values at settings of topics, places in the pool: shape (measures, topics, settings)."""
        nothing = np.full((len(self.pool.topics), len(self.measures)), np.nan)
        own = [self._found.setdefault(point, nothing) for point in settings]
        new = [n for n, values in enumerate(own) if np.isnan(values[topics]).any()]
        if new:
            given = np.array([settings[n] for n in new])
            found = measure_settings(self.pool, given, self.measures, topics=topics, depth=self.depth)
            for n, values in zip(new, found.transpose(1, 0, 2), strict=True):
                own[n] = own[n].copy() if own[n] is nothing else own[n]
                own[n][topics] = values
                self._found[settings[n]] = own[n]
        return np.stack([values[topics].T for values in own], axis=2)


def together(measures: Sequence[Measure]) -> list[list[Measure]]:
    """Part measures into those that cost little beside scoring, and each of the others alone."""
    fast = [measure for measure in measures if not measure.is_slow]
    return [[*fast]] * bool(fast) + [[measure] for measure in measures if measure.is_slow]
