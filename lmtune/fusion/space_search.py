"""Search of everything that an engine can express: variants and weights, on several sets of topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lmtune.arrays import Doubles
from lmtune.fusion.runs import RunSet, Scores, order_of, prune_for_measure
from lmtune.fusion.search import EQUAL, ExactLineSearch, Line
from lmtune.fusion.spaces import Combination, Space, Variant
from lmtune.io.rows import Qrels
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure
from lmtune.progress import Count, no_count

# Settings whose rankings are measured together.
_TOGETHER = 32
# A step of the line that is shorter than this has no weight that single precision tells from its ends.
_SHORT = 1e-5


@dataclass(frozen=True)
class Found:
    """The best variant, window and weights on a set of topics, and their mean."""

    variant: Variant
    window: int
    weights: tuple[float, ...]
    value: float


@dataclass(frozen=True)
class Searched:
    """Results of `search_space`.

    Attributes
    ----------
    best : list of Found
        For each set of topics.
    bound : float
        No variant and weights have a higher mean on the first set; infinite if this is not known.
    variants : int
        Number of different variants, over all windows.
    evaluations : int
        Number of lines and of single weights that were evaluated.
    """

    best: list[Found]
    bound: float
    variants: int
    evaluations: int


def search_space(
    space: Space,
    runs: RunSet,
    qrels: Qrels,
    measure: Measure,
    sets: Sequence[Sequence[str]],
    *,
    windows: Sequence[int] = (0,),
    depth: int,
    topic_weights: Doubles | None = None,
    progress: Count = no_count,
) -> Searched:
    """Find the best variant and weights of an engine on each of several sets of topics.

    With two runs, each variant whose ranking is that of a weighted sum is searched exactly: one line contains
    all weights, and its steps have the means of all sets. With more runs, and for other variants, weights on
    a grid are measured; the best are then the start of exact line searches where there is a weighted sum.

    Parameters
    ----------
    space : Space
        The engine.
    runs : RunSet
        The runs, in the order of the queries as in its ``input_order``.
    qrels : mapping of str to mapping of str to int
        Judgments.
    measure : Measure
        AP, nDCG@k, P@k, RR, R@k, Bpref or Success@k.
    sets : sequence of sequence of str
        Sets of topics; the first contains all others.
    windows : sequence of int
        Numbers of first documents of each run that are fused; 0 for all.
    depth : int
        Run depth.
    topic_weights : numpy.ndarray of float64, shape (topics,), optional
        Weights of the first set's topics in the means.
    progress : callable
        Called with the number of variants done and their total.
    """
    whole = sets[0]
    weights = np.ones(len(whole)) if topic_weights is None else topic_weights
    members = [frozenset(one) for one in sets]
    shares = np.array([[topic in one for one in members] for topic in whole]) * weights[:, None]
    shares /= shares.sum(axis=0)
    every = [
        _Case(space, variant, window, part, qrels, measure, whole, depth)
        for window in windows
        for part in [in_query_order(runs.first(window))]
        for variant in space.variants(_limits(part))
    ]
    best: list[tuple[float, _Case, Doubles] | None] = [None] * len(sets)
    bound, evaluations, seen = -np.inf, 0, set[int]()
    for done, case in enumerate(every):
        progress(done, len(every))
        key = case.key()
        if key in seen:
            continue
        seen.add(key)
        values, settings, most = case.measure_all(shares)
        evaluations += 1 if np.isfinite(most) else len(settings)
        bound = max(bound, most)
        for number, (value, setting) in enumerate(zip(values, settings, strict=True)):
            known = best[number]
            if known is None or value > known[0] + EQUAL:
                best[number] = value, case, setting
    found = []
    for one, chosen in zip(sets, best, strict=True):
        assert chosen is not None
        value, case, setting = chosen
        refined = case.refine(setting, one)
        found.append(Found(case.variant, case.window, tuple(refined.tolist()), value))
    progress(len(every), len(every))
    return Searched(found, bound, len(seen), evaluations)


def in_query_order(runs: RunSet) -> RunSet:
    """Return runs whose scores are in the order of the input, which is that of the queries."""
    order = [runs.names.index(name) for name in runs.input_order]
    scores = {topic: table[order] for topic, table in runs.scores.items()}
    return replace(runs, names=runs.input_order, scores=scores)


def _limits(runs: RunSet) -> list[tuple[float, float]]:
    """Return the smallest and largest score of each run."""
    tables = np.concatenate([*runs.scores.values()], axis=1)
    return [(float(np.nanmin(row)), float(np.nanmax(row))) for row in tables]


@dataclass(frozen=True, eq=False)
class _Case:
    """A variant and a window: its rankings as a function of the weights."""

    space: Space
    variant: Variant
    window: int
    runs: RunSet
    qrels: Qrels
    measure: Measure
    topics: Sequence[str]
    depth: int

    @property
    def row(self) -> Combination:
        """The variant's combination."""
        return self.space.combination(self.variant)

    def key(self) -> int:
        """Return a number that is the same for variants with the same normalised scores and combination."""
        values = (self.space.values(self.runs.scores[topic], self.variant) for topic in self.runs.scores)
        return hash((self.window, self.variant.combine, *(table.tobytes() for table in values)))

    def columns(self, scores: Scores) -> Doubles | None:
        """Return the columns of a topic whose weighted sum ranks as the engine does, or None."""
        return self.row.columns(self.space.values(scores, self.variant))

    def measure_all(self, shares: Doubles) -> tuple[Doubles, Doubles, float]:
        """Return the best mean and its weights for each set of topics, and a bound for the first set.

        ``shares`` has shape (topics, sets): the weight of each topic in the mean over each set.
        """
        runs, tables = len(self.runs.names), self.runs.scores
        equal = np.full((1, runs), 1.0 / runs)
        if not self.row.is_weighted:
            means = shares.T @ self._measured(equal)
            return means[:, 0], np.repeat(equal, len(means), axis=0), float(means[0, 0])
        is_linear = all(self.columns(tables[topic]) is not None for topic in self.topics if topic in tables)
        if runs == 2 and is_linear:
            return self._along_line(shares)
        settings = self.row.grid(runs)
        means = shares.T @ self._measured(settings)
        best = means.argmax(axis=1)
        return means.max(axis=1), settings[best], np.inf

    def _along_line(self, shares: Doubles) -> tuple[Doubles, Doubles, float]:
        """Search the line of all weights of two runs, with the weights inside their best step."""
        line = self._line()
        sets = shares.shape[1]
        best, settings, most = np.full(sets, -np.inf), np.empty((sets, 2)), -np.inf
        for steps in line.steps(np.array([1.0, 0.0]), np.array([0.0, 1.0]), shares):
            most = max(most, float(steps.value[:, 0].max()))
            long = np.flatnonzero(steps.width > _SHORT)
            if not long.size:
                continue
            values, width = steps.value[long], steps.width[long]
            for number, own in enumerate(values.T):
                top = own.max()
                if top <= best[number] + EQUAL:
                    continue
                widest = np.flatnonzero(own >= top - EQUAL)
                step = long[widest[np.argmax(width[widest])]]
                share = _short_number(float(steps.at[step]), float(steps.width[step]))
                best[number], settings[number] = top, (round(1.0 - share, 9), share)
        if self.row.is_mean_of_present:
            # At a weight of 0, documents that only this run has score 0, and the columns do not hold.
            most = max(most, float((shares[:, 0] @ self._measured(np.eye(2))).max()))
        return best, settings, most

    def _line(self) -> Line:
        pool = self.runs.pool(self._known_columns, self.qrels, self.topics)
        pool, depth = prune_for_measure(pool, self.measure, self.depth)
        return Line(pool, self.measure, pool.positions(), depth)

    def _known_columns(self, scores: Scores) -> Doubles:
        columns = self.columns(scores)
        assert columns is not None
        return columns

    def _measured(self, settings: Doubles) -> Doubles:
        """Return the measure of the engine's rankings, shape (topics, settings)."""
        parts = [self._measured_together(part) for part in _parts(settings)]
        return np.concatenate(parts, axis=1)

    def _measured_together(self, settings: Doubles) -> Doubles:
        names = tuple(map(str, range(len(settings))))
        every = replace(self.runs, names=names, input_order=names)
        pool = every.pool(lambda scores: self._positions(scores, settings), self.qrels, self.topics)
        values = measure_settings(pool, np.eye(len(settings)), [self.measure], depth=self.depth)
        measured: Doubles = values[:, :, 0]
        return measured

    def _positions(self, scores: Scores, settings: Doubles) -> Doubles:
        return np.array([order_of(own) for own in self.space.scores(scores, self.variant, settings)])

    def refine(self, setting: Doubles, topics: Sequence[str]) -> Doubles:
        """Improve weights of three runs or more by exact line searches, if the ranking is a weighted sum."""
        tables = self.runs.scores
        if setting.size < 3 or not self.row.is_weighted or self.row.columns(np.ones((3, 1))) is None:
            return setting
        if any(self.columns(tables[topic]) is None for topic in topics if topic in tables):
            return setting
        pool = self.runs.pool(self._known_columns, self.qrels, topics)
        start = dict(zip(self.runs.names, setting.tolist(), strict=True))
        search = ExactLineSearch(str(self.measure), starts=[start], directions=2, depth=self.depth)
        search.fit(pool, topics=topics)
        return np.array([search.best_params_[name] for name in self.runs.names])


def _parts(settings: Doubles) -> list[Doubles]:
    return [settings[start : start + _TOGETHER] for start in range(0, len(settings), _TOGETHER)]


def _short_number(low: float, width: float) -> float:
    """Return a number with few decimals inside the middle half of an interval."""
    middle = low + 0.5 * width
    return next(n for digits in range(1, 20) if abs((n := round(middle, digits)) - middle) <= 0.25 * width)
