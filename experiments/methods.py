"""Parameters chosen on some topics, by direct search and along gradients."""

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

# As many as `lmtune.tuning.experiment.plan.Plan` has.
_ASCENTS, _RESTARTS = 3, 2

Fitted = tuple[str, str, tuple[float, ...]]
"""A row's name, a surrogate objective, and the steepnesses that it is followed through."""


class Choice(NamedTuple):
    """The choice of a method, and its work.

    Attributes
    ----------
    tuner : Tuner
        After its fit.
    evaluations, documents : int
        How often the objective was computed, and documents scored in all of it.
    seconds : float
        Without extracting candidates, lists and pairs.
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
    """Let a tuner choose on training topics, of which an evaluation scores the documents of some columns."""
    begin = time.monotonic()
    tuner.fit(pool, topics=train, **prepared)
    seconds = time.monotonic() - begin
    evaluations = tuner.n_evaluations_
    return Choice(tuner, evaluations, evaluations * _scored(pool, columns, train), seconds)


def _scored(pool: CandidatePool, columns: Columns, train: Sequence[str]) -> int:
    """Count the documents that an evaluation scores."""
    return int(np.diff(columns.start)[pool.positions(train)].sum())


class Judged(NamedTuple):
    """How choices fare by a measure.

    Attributes
    ----------
    rows : list of dict
        By choice: means over training and over test topics, and the work.
    values : numpy.ndarray, shape (topics, choices)
        The measure of every topic.
    best : dict
        The best setting known on the test topics, of the grid or of the choices, and its mean, ``test``.
    """

    rows: list[dict[str, float]]
    values: NDArray[np.float64]
    best: dict[str, float]


class Compared(NamedTuple):
    """Results of the methods with one training set.

    Attributes
    ----------
    rows : list of dict
        A row a measure and method.
    differences : dict of (str, str) to numpy.ndarray, shape (topics,)
        By measure and method: every topic's value minus Direct's.
    test : numpy.ndarray of int64
        The places of the topics outside the training set.
    """

    rows: list[dict[str, Any]]
    differences: dict[tuple[str, str], NDArray[np.float64]]
    test: NDArray[np.int64]


@dataclass(frozen=True)
class Methods:
    """The methods over one collection's topics.

    Attributes
    ----------
    pool : CandidatePool
        The collection.
    surface : Surface
        The measures over the grid, of all topics: what Optimal is looked for in.
    pairs : Pairs
        RankNet's.
    lists : Lists
        The surrogates'.
    space : ParameterSpace
        Where all of them look.
    shape : tuple of int
        Direct's grid.
    seed : int
        Of starts.
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
        """Prepare what does not depend on the training topics."""
        objectives = [
            objective_for(parse_objective(f"approx-{measure}"), pool, DEPTH) for measure in measures
        ]
        depth = max(lists_depth(objective, pool, DEPTH) for objective in objectives)
        space = space_for(space, pool)
        surface = Surface.compute(pool, measures, space=space, shape=shape)
        lists = Lists.build(pool, space, depth=depth, seed=seed)
        return cls(pool, surface, Pairs.build(pool), lists, space, shape, seed)

    def direct(self, measure: Measure, train: Sequence[str]) -> Choice:
        """Climb from the grid's best points and from random ones, as ``lmtune tune`` does."""
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
        """Search the space by a tuner that measures settings."""
        return choose(tuner.set_params(space=self.space), self.pool, self.pool.candidates, train)

    def ranknet(self, train: Sequence[str], optimizer: str = "coordinate-descent") -> Choice:
        """Minimise RankNet's cost of judged pairs."""
        tuner = RankNetTuner(space=self.space, optimizer=optimizer, seed=self.seed)
        return choose(tuner, self.pool, self.pairs.columns, train, pairs=self.pairs)

    def surrogate(self, objective: str, alphas: Sequence[float], train: Sequence[str]) -> Choice:
        """Minimise a cost that is free of the scores' scale."""
        tuner = SurrogateTuner(objective, alpha=alphas, space=self.space, seed=self.seed)
        return choose(tuner, self.pool, self.lists.columns, train, lists=self.lists)

    def judged(
        self, measure: Measure, choices: Sequence[Choice], train: NDArray[np.int64], test: NDArray[np.int64]
    ) -> Judged:
        """Measure choices, of which training and test topics are told apart by their places."""
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
    """Return the steepnesses that lead to a last one, which come from the default's first."""
    return (ALPHAS[0], alpha) if alpha > ALPHAS[0] else (alpha,)


def compare_on(
    methods: Methods, fitted: Mapping[Measure, Sequence[Fitted]], train: Sequence[str]
) -> Compared:
    """Let every method choose on training topics, and measure the choices on all others.

    Parameters
    ----------
    methods : Methods
        Over the collection.
    fitted : mapping of Measure to sequence of (str, str, tuple of float)
        Each measure's surrogates: a row's name, an objective, its steepnesses.
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
    """Draw training sets: disjoint as long as there are topics, then from all of them anew.

    Parameters
    ----------
    topics : sequence of str
        In the order that each set keeps.
    size : int
        Topics in each set.
    fits : int
        How many sets.
    seed : int
        Of the draws.
    """
    each = len(topics) // size
    for number in range(fits):
        rng = np.random.default_rng([seed, size, number // each])
        order = rng.permutation(len(topics))
        first = number % each * size
        yield tuple(topics[topic] for topic in sorted(order[first : first + size]))
