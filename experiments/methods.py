"""Comparison of tuning methods, by direct search and by gradients, on training and test topics."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.columns import Columns
from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure
from lmtune.tuning.direct import CoordinateAscent, GridSearch, Surface
from lmtune.tuning.experiment.result import DIRECT, OPTIMAL, RANKNET
from lmtune.tuning.gradient import RankNetTuner
from lmtune.tuning.pairs import Lists, Pairs
from lmtune.tuning.space import ParameterSpace, space_for
from lmtune.tuning.surrogate import ALPHAS, SurrogateTuner, lists_depth, objective_for, parse_objective
from lmtune.tuning.tuner import Tuner

# The defaults of `lmtune.tuning.experiment.plan.Plan`.
_ASCENTS, _RESTARTS = 3, 2

Fitted = tuple[str, str, tuple[float, ...]]
"""A row's name, a surrogate objective, and its sequence of steepnesses."""


class Choice(NamedTuple):
    """A method's chosen setting and the cost of the search.

    Attributes
    ----------
    tuner : Tuner
        The fitted tuner.
    evaluations, documents : int
        Number of evaluations of the objective, and total number of documents scored.
    seconds : float
        Search time, without the extraction of candidates, lists and pairs.
    """

    tuner: Tuner
    evaluations: int
    documents: int
    seconds: float

    @property
    def work(self) -> dict[str, float]:
        """Evaluations, documents and seconds, by name."""
        return {name: getattr(self, name) for name in self._fields[1:]}


def choose(
    tuner: Any, pool: CandidatePool, columns: Columns, train: Sequence[str], **prepared: Any
) -> Choice:
    """Fit a tuner on training topics; each evaluation scores the documents of `columns`."""
    begin = time.monotonic()
    tuner.fit(pool, topics=train, **prepared)
    seconds = time.monotonic() - begin
    evaluations = tuner.n_evaluations_
    return Choice(tuner, evaluations, evaluations * _scored(pool, columns, train), seconds)


def _scored(pool: CandidatePool, columns: Columns, train: Sequence[str]) -> int:
    """Count the documents that one evaluation scores."""
    return int(np.diff(columns.start)[pool.positions(train)].sum())


class Judged(NamedTuple):
    """A measure's values at the chosen settings.

    Attributes
    ----------
    rows : list of dict
        One per choice: means over training and test topics, and the cost of the search.
    values : numpy.ndarray, shape (topics, choices)
        The measure's value for every topic.
    best : dict
        The oracle: best setting on the test topics, from the grid and the choices, and its mean ``test``.
    """

    rows: list[dict[str, float]]
    values: NDArray[np.float64]
    best: dict[str, float]


class Compared(NamedTuple):
    """Results of all methods for one training set.

    Attributes
    ----------
    rows : list of dict
        One per measure and method.
    differences : dict of (str, str) to numpy.ndarray, shape (topics,)
        By measure and method: every topic's value minus Direct's.
    test : numpy.ndarray of int64
        Indices of the topics outside the training set.
    """

    rows: list[dict[str, Any]]
    differences: dict[tuple[str, str], NDArray[np.float64]]
    test: NDArray[np.int64]


@dataclass(frozen=True)
class Methods:
    """The tuning methods on one collection.

    Attributes
    ----------
    pool : CandidatePool
        The collection's candidates.
    surface : Surface
        The measures of all topics on the grid, from which the oracle is selected.
    pairs : Pairs
        Input of RankNet.
    lists : Lists
        Input of the surrogates.
    space : ParameterSpace
        The search space of all methods.
    shape : tuple of int
        Shape of Direct's grid.
    seed : int
        Seed of random initial points.
    """

    pool: CandidatePool
    surface: Surface
    pairs: Pairs
    lists: Lists
    space: ParameterSpace
    shape: tuple[int, ...]
    seed: int

    @classmethod
    def over(
        cls,
        pool: CandidatePool,
        measures: Sequence[Measure],
        shape: tuple[int, ...],
        seed: int,
        space: ParameterSpace | None = None,
    ) -> Methods:
        """Prepare the inputs that do not depend on the training topics."""
        objectives = [
            objective_for(parse_objective(f"approx-{measure}"), pool, DEPTH) for measure in measures
        ]
        depth = max(lists_depth(objective, pool, DEPTH) for objective in objectives)
        space = space_for(space, pool)
        surface = Surface.compute(pool, measures, space=space, shape=shape)
        lists = Lists.build(pool, space, depth=depth, seed=seed)
        return cls(pool, surface, Pairs.build(pool), lists, space, shape, seed)

    def direct(self, measure: Measure, train: Sequence[str]) -> Choice:
        """Run coordinate ascent from the grid's best points and from random points, like ``lmtune tune``."""
        begin = time.monotonic()
        grid = GridSearch(measure, space=self.space, shape=self.shape).fit(self.pool, topics=train)
        names = list(grid.best_params_)
        best = grid.results_.sort_values(str(measure), ascending=False, kind="stable")[names].head(_ASCENTS)
        starts = [dict(zip(names, row, strict=True)) for row in best.to_numpy().tolist()]
        ascent = CoordinateAscent(
            measure, space=self.space, starts=starts, restarts=_RESTARTS, seed=self.seed
        ).fit(self.pool, topics=train)
        tried = np.concatenate((grid.results_[names].to_numpy(), ascent.results_[names].to_numpy()))
        seconds = time.monotonic() - begin
        evaluations = len(np.unique(tried, axis=0))
        return Choice(
            ascent, evaluations, evaluations * _scored(self.pool, self.pool.candidates, train), seconds
        )

    def search(self, tuner: Tuner, train: Sequence[str]) -> Choice:
        """Search the space with a tuner that evaluates the measure itself."""
        return choose(tuner.set_params(space=self.space), self.pool, self.pool.candidates, train)

    def ranknet(self, train: Sequence[str], optimizer: str = "coordinate-descent") -> Choice:
        """Minimise RankNet's cost of judged pairs."""
        tuner = RankNetTuner(space=self.space, optimizer=optimizer, seed=self.seed)
        return choose(tuner, self.pool, self.pairs.columns, train, pairs=self.pairs)

    def surrogate(self, objective: str, alphas: Sequence[float], train: Sequence[str]) -> Choice:
        """Minimise a surrogate that does not depend on the scale of scores."""
        tuner = SurrogateTuner(objective, alpha=alphas, space=self.space, seed=self.seed)
        return choose(tuner, self.pool, self.lists.columns, train, lists=self.lists)

    def judged(
        self, measure: Measure, choices: Sequence[Choice], train: NDArray[np.int64], test: NDArray[np.int64]
    ) -> Judged:
        """Measure the choices; `train` and `test` are indices of topics."""
        settings = [choice.tuner.best_params_ for choice in choices]
        values = measure_settings(self.pool, settings, [measure])[:, :, 0]
        rows = [
            {"train": float(by_topic[train].mean()), "test": float(by_topic[test].mean()), **choice.work}
            for choice, by_topic in zip(choices, values.T, strict=True)
        ]
        means = values[test].mean(axis=0)
        [point] = self.surface.best(measure, test)
        on_grid = float(self.surface.means(measure, test)[point])
        if on_grid >= means.max():
            return Judged(rows, values, {**self.surface.setting(point), "test": on_grid})
        return Judged(rows, values, {**settings[int(means.argmax())], "test": float(means.max())})


def continuation(alpha: float) -> tuple[float, ...]:
    """Return the sequence of steepnesses up to `alpha`, from the first default one if lower."""
    return (ALPHAS[0], alpha) if alpha > ALPHAS[0] else (alpha,)


def compare_on(
    methods: Methods, fitted: Mapping[Measure, Sequence[Fitted]], train: Sequence[str]
) -> Compared:
    """Tune every method on training topics and measure the chosen settings on all other topics.

    Parameters
    ----------
    methods : Methods
        The methods on the collection.
    fitted : mapping of Measure to sequence of (str, str, tuple of float)
        Each measure's surrogates: name of the row, objective, steepnesses.
    train : sequence of str
        Training topics.

    Returns
    -------
    Compared
    """
    pool = methods.pool
    places = pool.positions(train)
    test = np.setdiff1d(pool.positions(), places)
    ranknet = methods.ranknet(train)
    rows, differences = [], {}
    for measure, surrogates in fitted.items():
        chosen = {DIRECT: methods.direct(measure, train), RANKNET: ranknet}
        for name, objective, alphas in surrogates:
            chosen[name] = methods.surrogate(objective, alphas, train)
        _, values, best = judged = methods.judged(measure, [*chosen.values()], places, test)
        for (name, choice), row, by_topic in zip(chosen.items(), judged.rows, values.T, strict=True):
            named = {"measure": str(measure), "method": name, **choice.tuner.best_params_, **row}
            rows.append(named | {"at_edge": ", ".join(choice.tuner.at_edge_)})
            differences[str(measure), name] = by_topic - values[:, 0]
        rows.append({"measure": str(measure), "method": OPTIMAL, **best})
    return Compared(rows, differences, test)


def disjoint_sets(topics: Sequence[str], size: int, fits: int, *, seed: int) -> Iterator[tuple[str, ...]]:
    """Draw training sets that are disjoint until the topics run out; then start again with all topics.

    Parameters
    ----------
    topics : sequence of str
        All topics; each set keeps their order.
    size : int
        Number of topics per set.
    fits : int
        Number of sets.
    seed : int
        Seed of the draws.
    """
    each = len(topics) // size
    for number in range(fits):
        rng = np.random.default_rng([seed, size, number // each])
        order = rng.permutation(len(topics))
        first = number % each * size
        yield tuple(topics[topic] for topic in sorted(order[first : first + size]))
