"""Direct search: a grid, and coordinate ascents; values are measured once for all searches."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Self

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.candidates.pool import CandidatePool, weighted_mean
from lmtune.candidates.regions import regions_for
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, MeasureLike, parse_measure
from lmtune.models.parameter import Setting
from lmtune.progress import Count, counted, unseen
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import FitProgress, Point, SearchRecord, Tuner

if TYPE_CHECKING:
    import pandas as pd


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
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: FitProgress = None
    ) -> Self:
        """Measure the grid on topics of a pool (all judged ones by default).

        Raises
        ------
        InputError
            For unknown topics.
        """
        what = parse_measure(self.measure)
        record = SearchRecord(pool, what, space=self.space, topics=topics)
        surface = Surface.compute(
            pool,
            [what],
            space=record.space,
            shape=self.shape or shape_for(len(record.space.names)),
            topics=record.places,
            depth=self.depth,
            progress=counted(progress, type(self).__name__),
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


AGREE = 1e-3
"""Climbs whose ends differ by no more in the measure agree."""

_Search = Generator[list[Point], list[float], None]
"""Yields settings, is sent their means."""

# Steps in units of the current step size; measures are step functions with plateaus, which a
# single step would not see across.
_STEPS = (-2, -1, 1, 2)
_HALVINGS = 5
# With no more parameters the steps along each leave no ridge that directions would find cheaply.
_FEW = 2


@dataclass(eq=False, repr=False)
class CoordinateAscent(Tuner):
    """Climb a measure along each parameter in turn.

    From each start, each coordinate tries one and two steps both ways and moves to the best
    strictly better setting. Of more than two free parameters, where no coordinate improves, as many
    random directions are tried alike: ridges across the coordinates stop a search along them. Where
    nothing improves the steps halve, five times. The first steps are
    `lmtune.models.parameter.Parameter.step`. Restarts, as Metzler and Croft (Information Retrieval 2007)
    and RankLib have them, tell a hill from the best one: see `n_agreeing_`.

    Parameters
    ----------
    measure : str, or an object of ir_measures
        What to maximise, in ir_measures' or trec_eval's spelling.
    space : ParameterSpace
        The range of each parameter; the model's own by default.
    starts : sequence of mappings, optional
        Settings to start at; by default the space's `ParameterSpace.start`.
    restarts : int
        Further starts, drawn from the space.
    steps : mapping of str to float, optional
        Other first steps, by parameter.
    seed : int
        For the restarts and the directions.
    depth : int
        Run depth.

    Attributes
    ----------
    ends_ : pandas.DataFrame
        Where each climb ended: ``start``, the parameters by name, the measure, and ``evaluations``, the
        settings that it was the first to ask for.
    n_agreeing_ : int
        How many climbs ended within 0.001 of the best; 1 says that no other found it.
    """

    ends_: pd.DataFrame = field(init=False)
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
            For unknown topics.
        """
        known = KnownValues(pool, [parse_measure(self.measure)], self.depth)
        climb_together([self], known, topics=topics, progress=self._report(progress))
        return self

    def _search(self, record: SearchRecord, report: Count) -> _Search:
        """Ask for the means at settings that are new to the record, until all climbs have ended."""
        space, rng = record.space, np.random.default_rng(self.seed)
        given = [space.start] if self.starts is None else map(space.vector, self.starts)
        begins = [space.clip(setting) for setting in given]
        begins += [space.random(rng) for _ in range(self.restarts)]
        sizes = {parameter.name: parameter.step for parameter in space.parameters} | dict(self.steps or {})
        climbs = [
            _climb(space, begin, sizes, np.random.default_rng([self.seed, start]))
            for start, begin in enumerate(begins)
        ]
        # All climbs ask at once, because measuring many settings in a call is much cheaper.
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

    def _close(self, record: SearchRecord, ends: Sequence[Point]) -> None:
        import pandas as pd

        record.close(self)
        values = np.array([record[end] for end in ends])
        table = pd.DataFrame(ends, columns=record.space.names).assign(**{str(record.what): values})
        table.insert(0, "start", range(len(ends)))
        self.ends_ = table.assign(evaluations=np.bincount(record.starts, minlength=len(ends)))
        self.n_agreeing_ = int((values >= values.max() - AGREE).sum())


def climb_together(
    ascents: Sequence[CoordinateAscent],
    known: KnownValues,
    *,
    topics: Sequence[str] | None = None,
    progress: Count = unseen,
) -> None:
    """Fit an ascent for each of some measures, as its own `CoordinateAscent.fit` would.

    What any of them asks for next is measured in one call.

    Parameters
    ----------
    ascents : sequence of CoordinateAscent
        Of the known values' measures and run depth, in their order.
    known : KnownValues
        Of the collection; what is measured is added.
    topics : sequence of str, optional
        Topics to fit on; all judged ones by default.
    progress : callable, optional
        Called with (climbs ended, climbs in all).
    """
    ended = [(0, 1)] * len(ascents)

    def report(number: int, done: int, total: int) -> None:
        ended[number] = done, total
        progress(*map(sum, zip(*ended, strict=True)))

    places = known.pool.judged_positions(topics)
    searches, asking = [], {}
    for number, (ascent, measure) in enumerate(zip(ascents, known.measures, strict=True)):
        record = SearchRecord(known.pool, measure, space=ascent.space, topics=topics)
        searches.append(ascent._search(record, partial(report, number)))
        asking[number] = next(searches[number])
    while asking:
        column = {point: n for n, point in enumerate(dict.fromkeys(chain(*asking.values())))}
        values = known.at(list(column), places)
        answered = {}
        for number, points in asking.items():
            own = np.ascontiguousarray(values[number][:, [column[point] for point in points]])
            with contextlib.suppress(StopIteration):
                answered[number] = searches[number].send(known.pool.mean(own, places).tolist())
        asking = answered


def _climb(
    space: ParameterSpace, begin: Doubles, sizes: Mapping[str, float], rng: np.random.Generator
) -> Generator[list[Point], list[float], Point]:
    """Ask for lines of settings; be sent their means; return the end."""
    here = _moved(space, tuple(begin.tolist()), np.zeros(begin.size))
    [value] = yield [here]
    for halving in range(_HALVINGS + 1):
        first = np.array([sizes[parameter.name] for parameter in space.parameters]) * 0.5**halving
        improved = True
        while improved:
            improved = False
            for direction in _directions(space, rng):
                if improved and np.count_nonzero(direction) > 1:
                    break  # the coordinates are not through yet
                line = [_moved(space, here, step * (first * direction)) for step in _STEPS]
                values = yield line
                best = int(np.argmax(values))
                if values[best] > value:
                    here, value, improved = line[best], values[best], True
    return here


def _directions(space: ParameterSpace, rng: np.random.Generator) -> Iterator[Doubles]:
    """Yield each coordinate, and of many free ones as many random directions, their longest part 1."""
    yield from np.eye(len(space.parameters))
    free = np.array([not parameter.is_fixed for parameter in space.parameters])
    if free.sum() > _FEW:
        for _ in range(int(free.sum())):
            direction = rng.normal(size=free.size) * free
            yield direction / np.abs(direction).max()


def _moved(space: ParameterSpace, here: Point, distances: Doubles) -> Point:
    ways = zip(space.parameters, here, distances.tolist(), strict=True)
    moved = [parameter.move(x, distance) for parameter, x, distance in ways]
    return tuple(space.settled(np.array(moved)).tolist())
