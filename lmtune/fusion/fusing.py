"""Fuse runs by several methods; weights are chosen on some topics and judged on others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold, make_folds
from lmtune.errors import InputError
from lmtune.fusion.certificate import MOST_RUNS, certify
from lmtune.fusion.methods import (
    CHOOSE,
    FEW,
    LOGISTIC,
    METHODS,
    SCALES,
    SINGLE,
    Chosen,
    FusionOptions,
    fit_logistic,
    fused_pool,
    note_ties,
    ties_of,
)
from lmtune.fusion.runs import POOL_DEPTH, RunSet
from lmtune.fusion.search import (
    EQUAL,
    Best,
    ExactLineSearch,
    Fitting,
    Line,
    best_steps,
    coordinate_line,
    joined,
)
from lmtune.io.frames import as_qrels
from lmtune.io.rows import Qrels, QrelsLike, RunsLike
from lmtune.io.term_values import weights_of
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measures
from lmtune.measures.significance.comparison import labelled_runs
from lmtune.measures.significance.tests import adjusted, paired_t_test
from lmtune.options import check
from lmtune.progress import Count, Progress, note, part_of, quantity, silent
from lmtune.showing import Shown
from lmtune.tuning.certificate.optimum import check_uncertified

Intervals = dict[str, tuple[float, float]]

BEST_SINGLE = "best single run"
# What a mean may lose and weights still count as equally good.
_FLAT = 0.001
_TOGETHER = 20


# Pools are large, and quickly made again.
_POOLS = 2
# Resamples of topics for differences of means.
_RESAMPLES = 10_000


@dataclass(frozen=True)
class FusedRow:
    """One method and measure.

    Attributes
    ----------
    measure : Measure
        What is maximised and reported.
    chosen : Chosen
        What is chosen on all topics.
    in_sample : float
        The mean over all topics of what is chosen on them.
    values : numpy.ndarray of float64, shape (topics,)
        Each topic's value; of a tuned method with what the other folds chose.
    bound : float or None
        No weights from 0 on have a higher mean over all topics; None where nothing is proven.
    evaluations : int
        Of the choice on all topics.
    flat : dict of str to (float, float)
        By run, the shares of the weight, the others in their proportions, with which the mean is
        within 0.001 of the best.
    interval : dict of str to (float, float)
        By run, the middle 95% of the best shares over resampled topics, others likewise; of many runs and
        other methods what the folds' shares say of 95%, see `jackknife`.
    p_values : dict of str to float
        Paired t-tests against the best single run, reciprocal rank fusion and equal weights, by Holm's
        correction; none where there is no test.
    gains : dict of str to (float, float)
        The middle 95% of the differences from the same, over resampled topics.
    folds : tuple of Chosen
        What each fold's training topics chose.
    """

    measure: Measure
    chosen: Chosen
    in_sample: float
    values: Doubles
    bound: float | None = None
    evaluations: int = 0
    flat: Intervals = field(default_factory=dict)
    interval: Intervals = field(default_factory=dict)
    p_values: dict[str, float] = field(default_factory=dict)
    gains: Intervals = field(default_factory=dict)
    folds: tuple[Chosen, ...] = ()

    @property
    def is_single(self) -> bool:
        """Whether it is a run by itself."""
        return self.chosen.method == SINGLE

    @property
    def name(self) -> str:
        """The method's, or a single run's own."""
        return next(iter(self.chosen.weights)) if self.is_single else self.chosen.method

    @property
    def mean(self) -> float:
        """What is reported: on topics that were held out, where there are any."""
        return float(self.values.mean())


@dataclass(frozen=True, repr=False)
class FusionResult(Shown, by="fusion_tables.fusion"):
    """All rows, and how they came about.

    Attributes
    ----------
    runs, topics : tuple of str
        The runs' names, and the topics that count.
    options : FusionOptions
        As given.
    how : str
        The folds.
    rows : tuple of FusedRow
        Measure by measure: single runs, then the methods.
    depths : dict of str to int
        By run, the most documents that it has for a topic.
    """

    runs: tuple[str, ...]
    topics: tuple[str, ...]
    options: FusionOptions
    how: str
    rows: tuple[FusedRow, ...]
    depths: dict[str, int] = field(default_factory=dict)

    @property
    def selected(self) -> FusedRow:
        """The row that is written as a run, and deployed.

        It is the recommended one; where a single method was asked for, or all is in sample, the first
        method's.
        """
        if self.recommended is not None and len(self.options.method) > 1:
            return self.recommended
        return next(row for row in self.rows if row.chosen.method == self.options.method[0])

    @property
    def output(self) -> Chosen:
        """What was selected, with a weight for each run."""
        chosen = self.selected.chosen
        weights = {name: chosen.weights.get(name, 0.0) for name in self.runs}
        return replace(chosen, weights=weights, depths=self.depths)

    @property
    def recommended(self) -> FusedRow | None:
        """The row to use for the first measure; None where all was chosen in sample."""
        return self.recommended_for(self.rows[0].measure)

    def recommended_for(self, measure: Measure) -> FusedRow | None:
        """Return the row to use for a measure; None where all was chosen in sample.

        It has the best held-out mean; of those equal to four digits, it took the fewest evaluations,
        and of these it is the first: a run by itself, then the methods.
        """
        rows = () if self.options.in_sample else [row for row in self.rows if row.measure == measure]
        return max(rows, key=lambda row: (round(row.mean, 4), -row.evaluations), default=None)

    def baselines(self, measure: Measure) -> dict[str, FusedRow]:
        """Return what methods are held against, by name; see `baselines`."""
        return baselines([row for row in self.rows if row.measure == measure])


def baselines(rows: Sequence[FusedRow]) -> dict[str, FusedRow]:
    """Return one measure's best single run, reciprocal rank fusion, and equal weights where asked for."""
    single = max((row for row in rows if row.is_single), key=lambda row: row.mean)
    fixed = {row.name: row for row in rows if row.chosen.method in ("rrf", "equal")}
    return {BEST_SINGLE: single} | {name: fixed[name] for name in ("rrf", "equal") if name in fixed}


def fuse_runs(
    runs: RunSet | RunsLike,
    qrels: QrelsLike,
    options: FusionOptions | None = None,
    *,
    weights: Mapping[str, float] | None = None,
    progress: Progress = silent,
) -> FusionResult:
    """Fuse runs by all methods asked for.

    Parameters
    ----------
    runs : RunSet, or a sequence or mapping of runs
        Two or more, as `compare_runs` takes them.
    qrels : mapping of str to mapping of str to int, or others
        Judgments, as `lmtune.io.frames` has it. Topics without a relevant document, or in no run,
        are left out.
    options : FusionOptions, optional
        Methods, measures, folds.
    weights : mapping of str to float, optional
        By run, all of them: nothing is chosen, and these are measured as the method linear.
    progress : Progress
        Called while each choice is made.

    Raises
    ------
    InputError
        For fewer than two runs, no usable topic, a measure that cannot be searched exactly.
    """
    options = FusionOptions() if options is None else options
    runs = runs if isinstance(runs, RunSet) else RunSet.of(labelled_runs(runs))
    qrels = as_qrels(qrels)
    if weights is not None:
        options = replace(options, method=("linear",), in_sample=True)
    check(options)
    if len(runs.names) < 2:
        raise InputError("nothing to fuse", value=list(runs.names), accepted="two runs or more")
    if options.topic_weights is not None:
        check_uncertified(options.certify)
    few = len(runs.names) <= FEW
    usual_methods = tuple(n for n, own in METHODS.items() if own.is_usual and (few or not own.of_few))
    options = replace(options, method=options.method or usual_methods)
    if options.certify is not None and "linear" in options.method and len(runs.names) > MOST_RUNS:
        raise InputError("too many runs for a proof", value=len(runs.names), accepted=f"up to {MOST_RUNS}")
    if options.leave_out:
        qrels = _left_out(runs, qrels, options)
    topics = tuple(judged_topics(runs, qrels))
    if options.topic_weights is not None:
        weights_of(topics, options.topic_weights)
    measures = parse_measures(options.measure)
    methods = tuple(dict.fromkeys(("rrf", *options.method)))
    folds: list[Fold] = []
    how = "in sample: weights are chosen on the topics that they are judged on"
    if weights is not None:
        how = "weights as given"
    elif not options.in_sample:
        split = {"train": options.train_topics, "test": options.test_topics}
        given = None if any(split.values()) else options.folds
        folds, how = make_folds(topics, topics, folds=given, seed=options.seed, **split)
    if options.topic_weights is not None:
        how += "; topics are weighted in fits, means count each alike"
    work = _Fusion(runs, qrels, topics, options, weights)
    tuned = set(filter(work.is_tuned, methods))
    each = len(runs.names) + len(methods) + len(tuned) * len(folds)
    total, done = len(measures) * each, itertools.count()
    reported = {topic for fold in folds for topic in fold.test} or set(topics)
    held = np.array([topic in reported for topic in topics])
    rows: list[FusedRow] = []
    for measure in measures:
        own = []
        for name in runs.names:
            progress("fusing", next(done), total, detail=f"{measure}, {name} alone")
            own.append(work.single(name, measure))
        for method in sorted(methods, key=list(METHODS).index):
            told = partial(progress, "fusing", detail=f"{measure}, {method}")
            row = work.row(method, measure, part_of(told, next(done), total))
            choices = [
                work.choose(method, measure, fold.train, part_of(told, next(done), total))[0]
                for fold in (folds if method in tuned else ())
            ]
            own.append(work.judged(row, folds, choices) if method in tuned else row)
        own = [replace(row, values=row.values[held]) for row in own]
        own = _tested(own, len(runs.names), options.seed)
        rows += [*(own[runs.names.index(name)] for name in runs.given), *own[len(runs.names) :]]
    progress("fusing", total, total)
    note_ties(work.tied)
    topics = tuple(topic for topic in topics if topic in reported)
    rows = [_as_given(row, runs.given) for row in rows]
    return FusionResult(runs.given, topics, options, how, tuple(rows), runs.depths)


def judged_topics(runs: RunSet, qrels: Qrels) -> list[str]:
    """Return the topics that count: in a run, and with a relevant document; say which are left out.

    Raises
    ------
    InputError
        Where there are none.
    """
    relevant = [topic for topic, gains in qrels.items() if any(gain > 0 for gain in gains.values())]
    usable = [topic for topic in relevant if topic in runs.docs]
    if not usable:
        raise InputError(
            "no topic of the runs has relevant documents", value=list(runs.docs)[:3], accepted="judged topics"
        )
    if not any(qrels[topic].get(runs.docnos[doc], 0) > 0 for topic in usable for doc in runs.docs[topic]):
        raise InputError(
            "no run retrieves a relevant document of any topic",
            value=list(runs.given),
            accepted="runs and judgments of the same documents",
        )
    for count, what in (
        (len(runs.docs.keys() - qrels.keys()), "of the runs' topics have no judgments"),
        (len(qrels) - len(relevant), "judged topics have no relevant document"),
        (len(relevant) - len(usable), "judged topics are in no run"),
    ):
        if count:
            note(f"{count} {what}: left out")
    return usable


def _as_given(row: FusedRow, names: Sequence[str]) -> FusedRow:
    """Put all that a row says of runs in the order in which these were given."""

    def ordered(chosen: Chosen) -> Chosen:
        weights = {name: chosen.weights[name] for name in names if name in chosen.weights}
        return replace(chosen, weights=weights)

    flat, interval = ({name: own[name] for name in names if name in own} for own in (row.flat, row.interval))
    folds = tuple(map(ordered, row.folds))
    return replace(row, chosen=ordered(row.chosen), flat=flat, interval=interval, folds=folds)


def _left_out(runs: RunSet, qrels: Qrels, options: FusionOptions) -> Qrels:
    """Leave out what runs contribute alone, and say what that means."""
    depth = options.pool_depth or POOL_DEPTH
    kept = runs.without_unique(qrels, options.leave_out, depth)
    gone = sum(map(len, qrels.values())) - sum(map(len, kept.values()))
    relevant = sum(gain > 0 for own in qrels.values() for gain in own.values())
    relevant -= sum(gain > 0 for own in kept.values() for gain in own.values())
    guess = "" if options.pool_depth else ", which is a guess: --pool-depth says how deep runs were judged"
    note(
        f"left out {quantity(gone, 'judgment')}, {relevant} of them relevant: of what "
        f"{', '.join(options.leave_out)} alone of these runs had in the first {depth}{guess}. So it is "
        "judged as a run that no pool was made of"
    )
    return kept


@dataclass
class _Fusion:
    """What all rows share: pools, made once."""

    runs: RunSet
    qrels: Qrels
    topics: tuple[str, ...]
    options: FusionOptions
    weights: Mapping[str, float] | None
    tied: int = 0
    _pools: dict[object, CandidatePool] = field(default_factory=dict)
    _looks: dict[object, Doubles] = field(default_factory=dict)

    def pool(self, chosen: Chosen) -> CandidatePool:
        """Return the pool of a method and constant; the last few are kept."""
        plan = METHODS[chosen.method]
        key = plan.columns, chosen.constant, _scaling(chosen)
        pool = self._pools.pop(key, None)
        if pool is None:
            pool = fused_pool(self.runs, chosen, self.options, self.qrels, self.topics)
            weights = self.options.topic_weights
            pool = pool if weights is None else pool.with_topic_weights(weights)
            self.tied = max(self.tied, ties_of(pool))
        self._pools[key] = pool
        if len(self._pools) > _POOLS:
            del self._pools[next(iter(self._pools))]
        return pool

    def single(self, name: str, measure: Measure) -> FusedRow:
        """Measure a run as it is."""
        chosen = Chosen(SINGLE, {name: 1.0})
        pool = fused_pool(self.runs, chosen, self.options, self.qrels, self.topics)
        values = measure_settings(pool, chosen.setting, [measure], depth=self.options.depth)[:, 0, 0]
        return FusedRow(measure, chosen, float(values.mean()), values)

    def row(self, method: str, measure: Measure, progress: Count) -> FusedRow:
        """Choose on all topics."""
        chosen, evaluations, bound = self.choose(method, measure, self.topics, progress)
        options = self.options
        if method == "linear" and options.certify is not None and bound is None:
            how: Any = {"tolerance": options.certify, "boxes": options.boxes, "depth": options.depth}
            proof = certify(self.pool(chosen), measure, chosen.weights, **how)
            chosen, bound = replace(chosen, weights=proof.weights), proof.bound
            evaluations += proof.boxes
            gap = proof.bound - proof.value
            short = "" if gap <= options.certify else f", not the {options.certify:g} asked for"
            note(
                f"{measure}: no weights do better than linear's by more than {gap:.2g}{short}: "
                f"{quantity(proof.boxes, 'box', 'boxes')} bounded"
            )
        values = self._values(chosen, measure, self.topics)
        return FusedRow(measure, chosen, float(values.mean()), values, bound, evaluations)

    def judged(self, row: FusedRow, folds: Sequence[Fold], choices: Sequence[Chosen]) -> FusedRow:
        """Add to a tuned row what held-out topics say of each fold's choice, and how sure its weights are."""
        values, measure = row.values.copy(), row.measure
        places = {topic: place for place, topic in enumerate(self.topics)}
        for fold, chosen in zip(folds, choices, strict=True):
            values[[places[topic] for topic in fold.test]] = self._values(chosen, measure, fold.test)
        plan = METHODS[row.chosen.method]
        searched = plan.fit is not None and len(self.runs.names) <= FEW
        flat, interval = self._sureness(row.chosen, measure) if searched else ({}, {})
        if plan.fit is not None and not interval and self.options.bootstrap:
            interval = jackknife([own.shares for own in choices], row.chosen.shares)
        return replace(row, values=values, folds=tuple(choices), flat=flat, interval=interval)

    def choose(
        self, method: str, measure: Measure, topics: Sequence[str], progress: Count
    ) -> tuple[Chosen, int, float | None]:
        """Return what is best on topics, the evaluations that it took, and a bound on all weights."""
        plan, evaluations, bound = METHODS[method], 0, -np.inf
        progress(0, 1)
        chosen = Chosen(method, dict.fromkeys(self.runs.names, 1.0))
        if self.weights is not None:
            return replace(chosen, weights=dict(self.weights)), 0, None
        variants = [self._fitted(own, measure, topics) for own in self._variants(chosen)]
        if len(variants) > 1:
            looks = [self._look(own, measure, topics) for own in variants]
            values, counts, bounds = zip(*looks, strict=True)
            chosen, evaluations, bound = variants[int(np.argmax(values))], sum(counts), max(bounds)
        else:
            [chosen] = variants
        if plan.fit is None:
            return chosen, evaluations, None
        how = self.options.restarts, self.options.seed, self.options.depth, progress
        best, taken = plan.fit(Fitting(self.pool(chosen), measure, topics, *how))
        own = best.best_params_
        chosen = replace(chosen, weights={name: own[name] for name in chosen.weights})
        if self.options.topic_weights is None:
            bound = max(bound, getattr(best, "bound_", -np.inf))
        return chosen, evaluations + taken, bound if np.isfinite(bound) else None

    def is_tuned(self, method: str) -> bool:
        """Say whether topics choose anything."""
        variants = self._variants(Chosen(method, {}))
        is_chosen = len(variants) > 1 or variants[0].normalise == LOGISTIC
        return self.weights is None and (METHODS[method].fit is not None or is_chosen)

    def _variants(self, chosen: Chosen) -> list[Chosen]:
        """Return a method with each constant, normalisation and window that it may have."""
        plan, given = METHODS[chosen.method], self.options.normalise
        among = {CHOOSE: SCALES, LOGISTIC: (LOGISTIC,)}.get(given, ("",)) if plan.is_scored else ("",)
        every = itertools.product(plan.constants, among, dict.fromkeys(self.options.window))
        return [replace(chosen, constant=k, normalise=name, window=window) for k, name, window in every]

    def _fitted(self, chosen: Chosen, measure: Measure, topics: Sequence[str]) -> Chosen:
        """Return a choice with the logistic functions that topics' judgments give runs, if it has any."""
        if chosen.normalise != LOGISTIC:
            return chosen
        runs = self.runs.first(chosen.window)
        known = [topic for topic in topics if topic in runs.docs]
        tables = np.concatenate([runs.scores[topic] for topic in known], axis=1)
        gains = [self.qrels[topic].get(runs.docnos[doc], 0) for topic in known for doc in runs.docs[topic]]
        relevant, logistic = np.array(gains) >= measure.rel, {}
        for name, own in zip(runs.names, tables, strict=True):
            held = ~np.isnan(own)
            logistic[name] = fit_logistic(own[held], relevant[held]) if held.any() else (0.0, 0.0)
        return replace(chosen, logistic=logistic)

    def _look(self, chosen: Chosen, measure: Measure, topics: Sequence[str]) -> tuple[float, int, float]:
        """Return what a variant is worth, the evaluations that it took, and a bound on all weights.

        One climb says enough of few runs' weights, equal weights of others.
        """
        if METHODS[chosen.method].of_few:
            climb = ExactLineSearch(str(measure), seed=self.options.seed, depth=self.options.depth)
            climb.fit(self.pool(chosen), topics=topics)
            return climb.best_value_, climb.n_evaluations_, climb.bound_
        key = measure, METHODS[chosen.method].columns, chosen.constant, _scaling(chosen)
        if key not in self._looks:
            self._looks[key] = self._values(chosen, measure, self.topics)
        pool = self.pool(chosen)
        places = pool.positions(topics)
        return float(pool.mean(self._looks[key][places], places)), 1, np.inf

    def _values(self, chosen: Chosen, measure: Measure, topics: Sequence[str]) -> Doubles:
        pool = self.pool(chosen)
        places = pool.positions(topics)
        found = measure_settings(pool, chosen.setting, [measure], topics=places, depth=self.options.depth)
        values: Doubles = found[:, 0, 0]
        return values

    def _sureness(self, chosen: Chosen, measure: Measure) -> tuple[Intervals, Intervals]:
        """Return where the mean is flat, and intervals over resampled topics, along each run's weight."""
        pool, resamples = self.pool(chosen), self.options.bootstrap
        line = Line(pool, measure, pool.positions(), self.options.depth)
        here = np.array([chosen.weights[name] for name in self.runs.names])
        rng = np.random.default_rng(self.options.seed)
        drawn = rng.multinomial(line.topics, np.full(line.topics, 1.0 / line.topics), resamples).T
        shares = drawn * line.shares[:, None]
        flat, interval = {}, {}
        for run, name in enumerate(self.runs.names):
            begin, end = coordinate_line(here / here.sum(), run)
            flat[name] = _flat(line, begin, end, float(here[run] / here.sum()))
            best: list[float] = []
            for first in range(0, resamples, _TOGETHER):
                best += _best_shares(line, begin, end, shares[:, first : first + _TOGETHER])
            if best:
                low, high = np.quantile(best, [0.025, 0.975])
                interval[name] = float(low), float(high)
        return flat, interval


def _scaling(chosen: Chosen) -> object:
    """Return what makes scores comparable, to tell choices apart."""
    return chosen.normalise, chosen.window, tuple(chosen.logistic.items())


def jackknife(folds: Sequence[Mapping[str, float]], whole: Mapping[str, float]) -> Intervals:
    """Return 95% intervals of shares from those that were chosen without one fold's topics each.

    The grouped jackknife (Shao and Tu, The Jackknife and Bootstrap, 1995, section 2.3): with g folds the
    squared standard error is (g - 1) / g times the sum of the squared differences from their mean; around
    the share that was chosen on all topics, by Student's t with g - 1 degrees of freedom, within 0 and 1.

    Parameters
    ----------
    folds : sequence of mapping of str to float
        By run; of fewer than two there are no intervals.
    whole : mapping of str to float
        What was chosen on all topics.
    """
    from scipy.special import stdtrit

    groups = len(folds)
    if groups < 2:
        return {}
    shares = np.array([[own[name] for name in whole] for own in folds])
    half = float(stdtrit(groups - 1, 0.975)) * np.sqrt((groups - 1) * shares.var(axis=0))
    return {
        name: (max(0.0, share - width), min(1.0, share + width))
        for (name, share), width in zip(whole.items(), half.tolist(), strict=True)
    }


def _flat(line: Line, begin: Doubles, end: Doubles, here: float) -> tuple[float, float]:
    """Return the ends of the stretch around a place on which the mean is within `_FLAT` of the best."""
    at, value, _ = joined(line.steps(begin, end))
    edges = np.append(at, 1.0)
    good = value >= value.max() - _FLAT
    place = int(np.searchsorted(at, here, "right")) - 1
    if not good[place]:
        place = int(value.argmax())
    bad = np.flatnonzero(~good)
    before, after = bad[bad < place], bad[bad > place]
    low = edges[before[-1] + 1] if before.size else 0.0
    return float(low), float(edges[after[0]]) if after.size else 1.0


def _best_shares(line: Line, begin: Doubles, end: Doubles, shares: Doubles) -> list[float]:
    """Return the middle of the best step of each column, of equal ones the longest."""
    best = [Best(-1.0, 0.0, 0.0)] * shares.shape[1]
    for steps in line.steps(begin, end, shares):
        for column, known in enumerate(best):
            [own], _ = best_steps(iter([steps._replace(value=steps.value[:, column])]), 1)
            best[column] = max(known, own, key=lambda step: (round(step.value / EQUAL), step.width))
    return [own.at for own in best]


def _tested(rows: Sequence[FusedRow], singles: int, seed: int) -> list[FusedRow]:
    """Add differences from the baselines: their intervals, and p-values corrected together."""
    held = baselines(rows)
    pairs = [
        (place, name, against)
        for place in range(singles, len(rows))
        for name, against in held.items()
        if rows[place] is not against
    ]
    corrected = adjusted([paired_t_test(rows[i].values, other.values) for i, _, other in pairs])
    topics = rows[0].values.size
    drawn = np.random.default_rng(seed).multinomial(topics, np.full(topics, 1.0 / topics), _RESAMPLES)
    found: list[tuple[dict[str, float], Intervals]] = [({}, {}) for _ in rows]
    for (place, name, other), p in zip(pairs, corrected, strict=True):
        low, high = np.quantile(drawn @ (rows[place].values - other.values) / topics, [0.025, 0.975])
        found[place][1][name] = float(low), float(high)
        found[place][0].update({} if math.isnan(p) else {name: p})
    return [
        replace(row, p_values=p_values, gains=gains)
        for row, (p_values, gains) in zip(rows, found, strict=True)
    ]
