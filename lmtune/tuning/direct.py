"""Direct search: grid search and coordinate ascent, with a shared cache of measured values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Self

import numpy as np

from lmtune.arrays import Columns, Doubles, Integers
from lmtune.candidates.pool import CandidatePool, weighted_mean
from lmtune.candidates.regions import regions_for
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, MeasureLike, parse_measure
from lmtune.models.parameter import Setting
from lmtune.progress import Count, count_callback, no_count
from lmtune.showing import Framed
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import FitProgress, Point, SearchRecord, SettingRecord, Tuner


def default_grid_shape(parameters: int) -> tuple[int, ...]:
    """Return the default shape of a grid: 20 x 26 for two parameters, else 520 settings in all."""
    return (20, 26) if parameters == 2 else (520,)


@dataclass(frozen=True)
class Surface:
    """Measures of every topic at every setting of a grid, computed once and used for all folds.

    Attributes
    ----------
    names : tuple of str
        The parameters' names.
    settings : numpy.ndarray of float64, shape (settings, parameters)
        The grid.
    measures : tuple of Measure
        The measures.
    values : numpy.ndarray of float64, shape (pool's topics, settings, measures)
        The value of each measure; NaN for topics that were not measured.
    weights : numpy.ndarray of float64, shape (pool's topics,), optional
        The weights of the topics in a fit.
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

        A dense grid over large candidate lists is measured region by region, which is faster and gives the
        same values.
        """
        topics = pool.positions() if topics is None else topics
        settings = space.grid(shape)
        values = np.full((len(pool.topics), len(settings), len(measures)), np.nan)
        regions = regions_for(pool, settings, depth)
        values[topics] = measure_settings(
            pool, settings, measures, topics=topics, depth=depth, regions=regions, progress=progress
        )
        return cls(tuple(space.names), settings, tuple(measures), values, pool.topic_weights)

    def setting(self, row: int) -> dict[str, float]:
        """Return a row of `settings` as a setting."""
        return dict(zip(self.names, self.settings[row].tolist(), strict=True))

    def means(self, measure: Measure, topics: Integers) -> Doubles:
        """Return the measure's mean over topics at each setting, shape (settings,)."""
        weights = None if self.weights is None else self.weights[topics]
        return weighted_mean(self.values[topics, :, self.measures.index(measure)], weights)

    @property
    def unweighted(self) -> Surface:
        """The same surface with equal topic weights."""
        return replace(self, weights=None)

    def best(self, measure: Measure, topics: Integers, count: int = 1) -> list[int]:
        """Return the rows of the `count` settings with the highest means, best first."""
        order = np.argsort(-self.means(measure, topics), kind="stable")
        return [int(row) for row in order[:count]]


@dataclass(eq=False, repr=False)
class GridSearch(Tuner):
    """Find the grid point with the highest mean of a measure; the first of equally good ones.

    Parameters
    ----------
    measure : str, or an object of ir_measures
        The measure to maximise, in ir_measures' or trec_eval's spelling.
    space : ParameterSpace
        The range of each parameter; the model's own ranges by default.
    shape : sequence of int, optional
        Points along each parameter, evenly spaced on its scale, or the number of settings: see
        `ParameterSpace.grid`. The default is 20 x 26 for two parameters, else 520 settings.
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
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: FitProgress = None
    ) -> Self:
        """Measure the grid on topics of a pool (all judged ones by default).

        Raises
        ------
        InputError
            If a topic is unknown.
        """
        what = parse_measure(self.measure)
        record = SearchRecord(pool, what, space=self.space, topics=topics)
        surface = Surface.compute(
            pool,
            [what],
            space=record.space,
            shape=self.shape or default_grid_shape(len(record.space.names)),
            topics=record.positions,
            depth=self.depth,
            progress=count_callback(progress, type(self).__name__),
        )
        record.add(surface.settings, surface.means(what, record.positions).tolist())
        record.close(self)
        return self


@dataclass
class KnownValues:
    """Cache of the topics' measures at settings, shared by folds and searches.

    Scoring takes far longer than computing another measure from the scores. Therefore all measures are
    computed when a setting is first requested.

    Attributes
    ----------
    pool : CandidatePool
        The collection.
    measures : sequence of Measure
        The measures.
    depth : int
        Run depth.
    """

    pool: CandidatePool
    measures: Sequence[Measure]
    depth: int = DEPTH
    _values: dict[Point, Doubles] = field(default_factory=dict)

    @classmethod
    def from_surface(
        cls, surface: Surface, pool: CandidatePool, measures: Sequence[Measure], depth: int
    ) -> Self:
        """Create a cache that contains a surface's values of some of its measures."""
        columns = [surface.measures.index(measure) for measure in measures]
        values = surface.values[:, :, columns].transpose(1, 0, 2)
        return cls(
            pool, measures, depth, dict(zip(map(tuple, surface.settings.tolist()), values, strict=True))
        )

    def values_at(self, settings: Sequence[Point], topics: Integers) -> Doubles:
        """Return the values at settings, shape (measures, topics, settings); measure the missing ones.

        ``topics`` are positions in the pool.
        """
        nothing = np.full((len(self.pool.topics), len(self.measures)), np.nan)
        known = [self._values.setdefault(point, nothing) for point in settings]
        new = [n for n, values in enumerate(known) if np.isnan(values[topics]).any()]
        if new:
            missing = np.array([settings[n] for n in new])
            measured = measure_settings(self.pool, missing, self.measures, topics=topics, depth=self.depth)
            for n, values in zip(new, measured.transpose(1, 0, 2), strict=True):
                known[n] = known[n].copy() if known[n] is nothing else known[n]
                known[n][topics] = values
                self._values[settings[n]] = known[n]
        return np.stack([values[topics].T for values in known], axis=2)


def group_by_speed(measures: Sequence[Measure]) -> list[list[Measure]]:
    """Group measures: all fast ones together, each slow one alone."""
    fast = [measure for measure in measures if not measure.is_slow]
    return [[*fast]] * bool(fast) + [[measure] for measure in measures if measure.is_slow]


AGREEMENT = 1e-3
"""Two climbs agree if the measure at their ends differs by at most this."""

_Search = Generator[list[Point], list[float], None]
"""A generator that yields settings and receives their means."""

# Steps in units of the current step size. Measures have plateaus; two step lengths help to cross them.
_STEPS = (-2, -1, 1, 2)
_HALVINGS = 5
# Up to this number of free parameters, steps along each are enough; random directions are not worth their
# cost.
_FEW = 2


@dataclass(eq=False, repr=False)
class CoordinateAscent(Tuner):
    """Maximise a measure along one parameter at a time.

    From each start, the search tries one and two steps in both directions along each parameter, and moves
    to the best setting if it is strictly better. If there are more than two free parameters and none
    improves, the search tries as many random directions: it would otherwise stop at ridges that run across
    the axes. If nothing improves, the step sizes are halved, five times in all. The initial step sizes
    are `lmtune.models.parameter.Parameter.step`. Restarts, as in Metzler and Croft (Information Retrieval
    2007) and RankLib, show whether the search found only a local maximum: see `n_agreeing_`.

    Parameters
    ----------
    measure : str, or an object of ir_measures
        The measure to maximise, in ir_measures' or trec_eval's spelling.
    space : ParameterSpace
        The range of each parameter; the model's own ranges by default.
    starts : sequence of mappings, optional
        Initial points; by default the space's `ParameterSpace.start`.
    restarts : int
        Number of additional starts, drawn at random from the space.
    steps : mapping of str to float, optional
        Initial step sizes by parameter, where they differ from the default.
    seed : int
        Seed of the restarts and the random directions.
    depth : int
        Run depth.

    Attributes
    ----------
    end_columns_ : dict of str to numpy.ndarray
        The end of each climb: ``start``, the parameters by name, the measure, and ``evaluations``, the
        number of settings that no other climb had requested before.
    ends_ : pandas.DataFrame
        The same as a data frame.
    n_agreeing_ : int
        Number of climbs that ended within 0.001 of the best value; 1 if no other climb came as close.
    """

    end_columns_: Columns = field(init=False)
    ends_ = Framed("end_columns_")
    n_agreeing_: int = field(init=False)

    measure: MeasureLike = "AP"
    _: KW_ONLY
    space: ParameterSpace | None = None
    starts: Sequence[Setting] | None = None
    restarts: int = 4
    steps: Mapping[str, float] | None = None
    seed: int = 0
    depth: int = DEPTH

    def fit(
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: FitProgress = None
    ) -> Self:
        """Search on topics of a pool (all judged ones by default).

        Raises
        ------
        InputError
            If a topic is unknown.
        """
        known = KnownValues(pool, [parse_measure(self.measure)], self.depth)
        climb_together([self], known, topics=topics, progress=self._report(progress))
        return self

    def maximise(self, objective: Callable[[list[Point]], list[float]], space: ParameterSpace) -> Self:
        """Search on a function of settings, such as a measure of another system's rankings.

        Parameters
        ----------
        objective : callable
            Takes a list of settings, each in the order of the space, and returns their means.
        space : ParameterSpace
            The range of each parameter; the constructor's is not used.
        """
        search = self._search(SettingRecord(space, parse_measure(self.measure)), no_count)
        points = next(search)
        with contextlib.suppress(StopIteration):
            while True:
                points = search.send(objective(points))
        return self

    def _search(self, record: SettingRecord, report: Count) -> _Search:
        """Yield settings that are not in the record and receive their means, until all climbs have ended."""
        space, rng = record.space, np.random.default_rng(self.seed)
        starts = [space.start] if self.starts is None else map(space.vector, self.starts)
        begins = [space.clip(setting) for setting in starts]
        begins += [space.random(rng) for _ in range(self.restarts)]
        sizes = {parameter.name: parameter.step for parameter in space.parameters} | dict(self.steps or {})
        climbs = [
            _climb(space, begin, sizes, np.random.default_rng([self.seed, start]))
            for start, begin in enumerate(begins)
        ]
        # The requests of all climbs are measured together: one call for many settings is much cheaper.
        asking = {start: next(climb) for start, climb in enumerate(climbs)}
        ends: dict[int, Point] = {}
        step = 0
        while asking:
            new: dict[Point, int] = {}
            for start, line in asking.items():
                for point in line:
                    if point not in record:
                        new.setdefault(point, start)
            if new:
                means = yield list(new)
                record.add(np.array(list(new)), means, starts=list(new.values()), step=step)
            answered = {}
            for start, line in asking.items():
                try:
                    answered[start] = climbs[start].send([record[point] for point in line])
                except StopIteration as end:
                    ends[start] = end.value
            asking = answered
            step += 1
            report(len(begins) - len(asking), len(begins))
        self._close(record, [ends[start] for start in range(len(begins))])

    def _close(self, record: SettingRecord, ends: Sequence[Point]) -> None:
        record.close(self)
        values = np.array([record[end] for end in ends])
        self.end_columns_ = {
            "start": np.arange(len(ends)),
            **dict(zip(record.space.names, np.array(ends).T, strict=True)),
            str(record.measure): values,
            "evaluations": np.bincount(record.starts, minlength=len(ends)),
        }
        self.n_agreeing_ = int((values >= values.max() - AGREEMENT).sum())


def climb_together(
    ascents: Sequence[CoordinateAscent],
    known: KnownValues,
    *,
    topics: Sequence[str] | None = None,
    progress: Count = no_count,
) -> None:
    """Fit one ascent per measure, with the same results as `CoordinateAscent.fit`.

    The requests of all ascents are measured in one call.

    Parameters
    ----------
    ascents : sequence of CoordinateAscent
        One per measure of `known`, in the same order and with the same run depth.
    known : KnownValues
        The cache of measured values; new values are added.
    topics : sequence of str, optional
        Topics to fit on; all judged ones by default.
    progress : callable, optional
        Called with (climbs ended, climbs in all).
    """
    ended = [(0, 1)] * len(ascents)

    def report(number: int, done: int, total: int) -> None:
        ended[number] = done, total
        progress(*map(sum, zip(*ended, strict=True)))

    positions = known.pool.judged_positions(topics)
    searches, asking = [], {}
    for number, (ascent, measure) in enumerate(zip(ascents, known.measures, strict=True)):
        record = SearchRecord(known.pool, measure, space=ascent.space, topics=topics)
        searches.append(ascent._search(record, partial(report, number)))
        asking[number] = next(searches[number])
    while asking:
        column = {point: n for n, point in enumerate(dict.fromkeys(chain(*asking.values())))}
        values = known.values_at(list(column), positions)
        answered = {}
        for number, points in asking.items():
            topic_values = np.ascontiguousarray(values[number][:, [column[point] for point in points]])
            with contextlib.suppress(StopIteration):
                answered[number] = searches[number].send(known.pool.mean(topic_values, positions).tolist())
        asking = answered


def _climb(
    space: ParameterSpace, begin: Doubles, sizes: Mapping[str, float], rng: np.random.Generator
) -> Generator[list[Point], list[float], Point]:
    """Yield settings along a line and receive their means, until nothing improves; return the end."""
    here = _move(space, tuple(begin.tolist()), np.zeros(begin.size))
    [value] = yield [here]
    for halving in range(_HALVINGS + 1):
        first = np.array([sizes[parameter.name] for parameter in space.parameters]) * 0.5**halving
        improved = True
        while improved:
            improved = False
            for direction in _directions(space, rng):
                if improved and np.count_nonzero(direction) > 1:
                    break  # Random directions are tried only when no coordinate improves.
                line = [_move(space, here, step * (first * direction)) for step in _STEPS]
                values = yield line
                best = int(np.argmax(values))
                if values[best] > value:
                    here, value, improved = line[best], values[best], True
    return here


def _directions(space: ParameterSpace, rng: np.random.Generator) -> Iterator[Doubles]:
    """Yield the coordinate axes; for more than two free parameters also as many random directions.

    The largest component of a direction is 1.
    """
    yield from np.eye(len(space.parameters))
    free = np.array([not parameter.is_fixed for parameter in space.parameters])
    if free.sum() > _FEW:
        for _ in range(int(free.sum())):
            direction = rng.normal(size=free.size) * free
            yield direction / np.abs(direction).max()


def _move(space: ParameterSpace, here: Point, distances: Doubles) -> Point:
    moves = zip(space.parameters, here, distances.tolist(), strict=True)
    moved = [parameter.move(x, distance) for parameter, x, distance in moves]
    return tuple(space.normalise_shares(np.array(moved)).tolist())
