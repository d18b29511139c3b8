"""Search of everything that an engine can express: variants and weights, on several sets of topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.fusion.certificate import BOXES, Certificate, certify, gain_levels
from lmtune.fusion.runs import RunSet, Scores, order_of, ranks
from lmtune.fusion.search import EQUAL, ExactLineSearch, Line, Steps
from lmtune.fusion.spaces import Combination, Space, Values, Variant
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
    tolerance: float | None = None,
    boxes: int = BOXES,
    topic_weights: Doubles | None = None,
    progress: Count = no_count,
) -> Searched:
    """Find the best variant and weights of an engine on each of several sets of topics.

    With two runs, each variant whose ranking is that of a weighted sum is searched exactly: one line contains
    all weights, and its steps have the means of all sets. Another line bounds them whatever the engine's
    rounding does (`_Case.lifted`); variants whose bound is below the best mean are not searched. With more
    runs, and for other variants, weights on a grid are measured; the best are then the start of exact line
    searches where there is a weighted sum.

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
    tolerance : float, optional
        Bound the first set's means with three runs, too, until the bound is at most this above the best mean.
    boxes : int
        Limit on the number of boxes of weights that are bounded for each variant.
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
        _Case(part, variant)
        for window in windows
        for part in [_Window(space, in_query_order(runs.first(window)), window, qrels, measure, whole, depth)]
        for variant in space.variants(_limits(part.runs))
    ]
    distinct = [*{case.key(): case for case in reversed(every)}.values()][::-1]
    limits = []
    for done, case in enumerate(distinct):
        progress(done, len(distinct))
        limits.append(case.most(shares))
    evaluations, measured = len(distinct), dict[int, tuple[Doubles, Doubles]]()
    value = np.full(len(sets), -np.inf)
    for number in np.argsort([-most[0] for most in limits], kind="stable").tolist():
        if (limits[number] > value - EQUAL).any():
            means, settings, count = distinct[number].measure_all(shares)
            measured[number] = means, settings
            value, evaluations = np.maximum(value, means), evaluations + count
    found = []
    for number, one in enumerate(sets):
        # Of equal variants the first one.
        best = min(n for n, (means, _) in measured.items() if means[number] > value[number] - EQUAL)
        case, setting, mean = distinct[best], measured[best][1][number], float(value[number])
        if len(setting) > 2:
            setting, mean = case.refined(setting, mean, one, shares[:, number])
        found.append(Found(case.variant, case.part.window, tuple(setting.tolist()), mean))
    bounds = [float(most[0]) for most in limits]
    if tolerance is not None:
        for number in np.flatnonzero(np.isinf(bounds)).tolist():
            case, setting = distinct[number], measured[number][1][0]
            certificate = case.certified(setting, found[0].value, tolerance, boxes)
            bounds[number] = certificate.bound
            if certificate.value > found[0].value + EQUAL:
                better = tuple(certificate.weights.values())
                found[0] = Found(case.variant, case.part.window, better, certificate.value)
    progress(len(distinct), len(distinct))
    return Searched(found, max(bounds), len(distinct), evaluations)


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
class _Window:
    """The first documents of each run: their normalised scores and judgments, each computed once."""

    space: Space
    runs: RunSet
    window: int
    qrels: Qrels
    measure: Measure
    topics: Sequence[str]
    depth: int
    _scaled: dict[tuple[str, int], list[Values]] = field(default_factory=dict)

    @cached_property
    def tables(self) -> list[Scores]:
        """The scores of each topic; a topic that is in no run has no documents."""
        none = np.empty((len(self.runs.names), 0))
        return [self.runs.scores.get(topic, none) for topic in self.topics]

    @cached_property
    def ranks(self) -> list[Doubles]:
        """The ranks of each topic's documents."""
        return [ranks(table) for table in self.tables]

    @cached_property
    def judged(self) -> CandidatePool:
        """A pool with the judgments."""
        return self.runs.pool_of([*map(np.zeros_like, self.tables)], self.topics, self.qrels)

    def values(self, variant: Variant) -> list[Values]:
        """Return each topic's normalised scores."""
        row = self.space.combination(variant)
        if row.ranked is not None:
            return [row.ranked(own, variant.constant) for own in self.ranks]
        by_query = [self._of_query(n, name) for n, name in enumerate(variant.by_query(len(self.runs.names)))]
        return [np.array(rows) for rows in zip(*by_query, strict=True)]

    def _of_query(self, query: int, name: str) -> list[Values]:
        if (name, query) not in self._scaled:
            pairs = zip(self.tables, self.ranks, strict=True)
            self._scaled[name, query] = [
                self.space.normalised(name, query, table[query], by_rank[query]) for table, by_rank in pairs
            ]
        return self._scaled[name, query]

    def line(self, columns: Sequence[Doubles]) -> Line:
        """Return the lines of weights of columns."""
        return Line(self.judged, self.measure, self.judged.positions(), self.depth, columns)

    def steps(self, columns: Sequence[Doubles], shares: Doubles) -> Iterator[Steps]:
        """Yield the steps of the line from the first of two runs to the second."""
        return self.line(columns).steps(np.array([1.0, 0.0]), np.array([0.0, 1.0]), shares)

    @cached_property
    def lifts(self) -> list[Doubles]:
        """For each topic's documents, the number of errors of the engine that `_Case.lifted` adds."""
        line, lifts = self.line([*map(np.zeros_like, self.tables)]), [np.zeros(0)] * len(self.tables)
        for row, topic in zip(line.rows, line.topic_lines, strict=True):
            level = np.unique(gain_levels(topic).level, return_inverse=True)[1]
            lifts[row] = 2.0 * level - level.max()
        return lifts

    def pool(self, tables: Sequence[Doubles], names: tuple[str, ...] | None = None) -> CandidatePool:
        """Return a pool of columns, by default one for each run."""
        runs = self.runs if names is None else replace(self.runs, names=names, input_order=names)
        return runs.pool_of(tables, self.topics, like=self.judged)


@dataclass(frozen=True, eq=False)
class _Case:
    """A variant and a window: its rankings as a function of the weights."""

    part: _Window
    variant: Variant

    @property
    def row(self) -> Combination:
        """The variant's combination."""
        return self.part.space.combination(self.variant)

    @cached_property
    def values(self) -> list[Values]:
        """Each topic's normalised scores."""
        return self.part.values(self.variant)

    @cached_property
    def columns(self) -> list[Doubles] | None:
        """Each topic's columns, whose weighted sum ranks as the engine does; None if there are none.

        They are divided by `units`, so that weights of raw scores are searched evenly.
        """
        every = [self.row.linear(values) for values in self.values]
        found = [columns / self.units[:, None] for columns in every if columns is not None]
        return found if len(found) == len(every) else None

    @cached_property
    def units(self) -> Doubles:
        """The largest absolute value of each run; 1 if scores are means over some of the runs."""
        runs = len(self.part.runs.names)
        if self.row.transform is not None:
            return np.ones(runs)
        largest = np.max([np.abs(np.nan_to_num(own)).max(axis=1, initial=0.0) for own in self.values], axis=0)
        return np.where(largest > 0.0, largest, 1.0)

    def weights(self, scaled: Doubles) -> Doubles:
        """Return the engine's weights for weights of `columns`; their sum is 1."""
        weights = scaled / self.units
        shares: Doubles = np.round(weights / weights.sum(axis=-1, keepdims=True), 12)
        return shares

    def key(self) -> int:
        """Return a number that is the same for variants with the same normalised scores and combination."""
        return hash((self.part.window, self.variant.combine, *(table.tobytes() for table in self.values)))

    def lifted(self, columns: Sequence[Doubles]) -> list[Doubles]:
        """Return columns whose rankings bound the measure of the engine's, in its own arithmetic.

        Documents whose scores differ by less than the engine's errors (`Combination.errors`) can have any
        order. Each level of gain adds two errors to a document's score, so that of two such documents the
        one with the higher gain is above.
        """
        lifts = zip(columns, self.part.lifts, strict=True)
        return [own + lift * self.row.errors(own) if lift.size else own for own, lift in lifts]

    def most(self, shares: Doubles) -> Doubles:
        """Return upper bounds of each set's mean; infinite if none is known.

        ``shares`` has shape (topics, sets): the weight of each topic in the mean over each set.
        """
        runs, columns = len(self.part.runs.names), self.columns
        if not self.row.is_weighted:
            most: Doubles = shares.T @ self._measured(np.ones((1, runs)))[:, 0]
        elif runs > 2 or columns is None:
            most = np.full(shares.shape[1], np.inf)
        else:
            most = np.full(shares.shape[1], -np.inf)
            for steps in self.part.steps(self.lifted(columns), shares):
                most = np.maximum(most, steps.value.max(axis=0))
            if self.row.transform is not None:
                # At a weight of 0, documents that only this run has score 0, and the columns do not hold.
                most = np.maximum(most, (shares.T @ self._measured(np.eye(2))).max(axis=1))
        return most

    def measure_all(self, shares: Doubles) -> tuple[Doubles, Doubles, int]:
        """Return each set's best mean and its weights, and the evaluations; ``shares`` as in `most`."""
        runs = len(self.part.runs.names)
        columns = self.columns
        if runs == 2 and columns is not None:
            return *self._along_line(columns, shares), 1
        settings = self.row.grid(runs) if self.row.is_weighted else np.ones((1, runs))
        if columns is None or self.row.transform is not None:
            measured = self._measured(settings)
        else:
            pool = self.part.pool(columns)
            measured = measure_settings(pool, settings, [self.part.measure], depth=self.part.depth)[:, :, 0]
            settings = self.weights(settings)
        means = shares.T @ measured
        return means.max(axis=1), settings[means.argmax(axis=1)], len(settings)

    def _along_line(self, columns: Sequence[Doubles], shares: Doubles) -> tuple[Doubles, Doubles]:
        """Search the line of all weights of two runs; the best weights are inside their step."""
        sets = shares.shape[1]
        best, settings = np.full(sets, -np.inf), np.empty((sets, 2))
        for steps in self.part.steps(columns, shares):
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
                ends = steps.at[step] + np.array([0.0, steps.width[step]])
                low, high = self.weights(np.stack((1.0 - ends, ends), axis=1))[:, 1].tolist()
                share = _short_number(low, high - low)
                best[number], settings[number] = top, (round(1.0 - share, 9), share)
        return best, settings

    def _measured(self, settings: Doubles) -> Doubles:
        """Return the measure of the engine's rankings, shape (topics, settings)."""
        return np.concatenate([self._measured_together(part) for part in _parts(settings)], axis=1)

    def _measured_together(self, settings: Doubles) -> Doubles:
        tables = [
            np.array([*map(order_of, self.row.combine(values, settings, self.variant.constant))])
            for values in self.values
        ]
        pool = self.part.pool(tables, tuple(map(str, range(len(settings)))))
        values = measure_settings(pool, np.eye(len(settings)), [self.part.measure], depth=self.part.depth)
        measured: Doubles = values[:, :, 0]
        return measured

    def refined(
        self, setting: Doubles, value: float, topics: Sequence[str], shares: Doubles
    ) -> tuple[Doubles, float]:
        """Improve weights by exact line searches, if the ranking is a weighted sum; return their mean too."""
        columns = self.columns
        if columns is None:
            return setting, value
        names, depth = self.part.runs.names, self.part.depth
        start = dict(zip(names, (setting * self.units).tolist(), strict=True))
        search = ExactLineSearch(str(self.part.measure), starts=[start], directions=2, depth=depth)
        search.fit(self.part.pool(columns), topics=topics)
        best = self.weights(np.array([search.best_params_[name] for name in names]))
        better = float(shares @ self._measured(best[None])[:, 0])
        return (best, better) if better > value else (setting, value)

    def certified(self, setting: Doubles, at_least: float, tolerance: float, boxes: int) -> Certificate:
        """Bound the mean over the topics and all weights."""
        part, present = self.part, None
        columns: Sequence[Doubles] | None = self.columns
        if not self.row.is_weighted:
            value = float(self._measured(setting[None]).mean())
            return Certificate(value, value, dict(zip(part.runs.names, setting.tolist(), strict=True)), 1)
        if self.row.transform is not None:
            pairs = [self.row.present(values) for values in self.values]
            columns, present = [own for own, _ in pairs], [mask for _, mask in pairs]
        if columns is None:
            return Certificate(np.inf, at_least, {}, 0)
        lifted = self.lifted(columns)
        if present is not None:
            lifted = [np.where(mask, own, 0.0) for own, mask in zip(lifted, present, strict=True)]
        found = certify(
            part.judged,
            part.measure,
            dict(zip(part.runs.names, (setting * self.units).tolist(), strict=True)),
            tolerance=tolerance,
            boxes=boxes,
            depth=part.depth,
            columns=lifted,
            present=present,
            evaluate=lambda weights: self._measured(self.weights(weights)).mean(axis=0),
            at_least=at_least,
        )
        weights = self.weights(np.array([*found.weights.values()]))
        return found._replace(weights=dict(zip(part.runs.names, weights.tolist(), strict=True)))


def _parts(settings: Doubles) -> list[Doubles]:
    return [settings[start : start + _TOGETHER] for start in range(0, len(settings), _TOGETHER)]


def _short_number(low: float, width: float) -> float:
    """Return a number with few decimals inside the middle half of an interval."""
    middle = low + 0.5 * width
    return next(n for digits in range(1, 20) if abs((n := round(middle, digits)) - middle) <= 0.25 * width)
