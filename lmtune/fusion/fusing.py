"""Fuse runs by several methods, with weights tuned and evaluated by cross-validation."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold, make_folds
from lmtune.errors import InputError
from lmtune.fusion.certificate import MOST_RUNS, certify
from lmtune.fusion.methods import (
    CHOOSE,
    ENGINE_DEFAULT,
    FEW_RUNS,
    LOGISTIC,
    METHODS,
    SCALES,
    SINGLE,
    TUNED,
    Chosen,
    FusionOptions,
    count_ties,
    fit_logistic,
    fused_pool,
    note_ties,
)
from lmtune.fusion.runs import POOL_DEPTH, RunSet
from lmtune.fusion.search import ExactLineSearch, Fitting, Line, coordinate_line, join_steps
from lmtune.fusion.space_search import Searched, search_space
from lmtune.fusion.spaces import MOST_MIXED, SPACES, Variant
from lmtune.io.frames import as_qrels
from lmtune.io.rows import Qrels, QrelsLike, RunsLike
from lmtune.io.term_values import weights_of
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measures
from lmtune.measures.significance.comparison import Gain, gains_over, labelled_runs
from lmtune.options import check
from lmtune.progress import Count, Progress, note, part_of, quantity, silent
from lmtune.showing import Shown
from lmtune.tuning.certificate.optimum import check_uncertified

Intervals = dict[str, tuple[float, float]]

BEST_SINGLE = "best single run"
BASELINES = (BEST_SINGLE, "rrf", "equal", ENGINE_DEFAULT)
# Weights are equally good if their mean is at most this far below that of the chosen ones.
_FLAT = 0.001


# Number of cached pools: they are large and quick to rebuild.
_POOLS = 2


@dataclass(frozen=True)
class FusedRow:
    """Results of one method and measure.

    Attributes
    ----------
    measure : Measure
        The measure that is maximised and reported.
    chosen : Chosen
        The fusion tuned on all topics.
    in_sample : float
        Its mean over all topics.
    values : numpy.ndarray of float64, shape (topics,)
        Value of each topic; for a tuned method with cross-validation, that of the fusion tuned on the other
        folds.
    bound : float or None
        No weights >= 0 have a higher mean over all topics; None without a certificate.
    evaluations : int
        Number of evaluations of tuning on all topics.
    flat : dict of str to (float, float)
        By run, the range of its share of the weight around the chosen one in which the mean is at most 0.001
        below that of the chosen weights. The weights of the other runs keep their proportions.
    interval : dict of str to (float, float)
        By run, a 95% confidence interval of its share, from the fits of the folds (`jackknife`).
    gains : dict of str to Gain
        By baseline (`baselines`), the difference of a fused row; see `gains_over`.
    folds : tuple of Chosen
        The fusion tuned on the training topics of each fold.
    """

    measure: Measure
    chosen: Chosen
    in_sample: float
    values: Doubles
    bound: float | None = None
    evaluations: int = 0
    flat: Intervals = field(default_factory=dict)
    interval: Intervals = field(default_factory=dict)
    gains: dict[str, Gain] = field(default_factory=dict)
    folds: tuple[Chosen, ...] = ()

    @property
    def is_single(self) -> bool:
        """Whether the row is a single run."""
        return self.chosen.method == SINGLE

    @property
    def name(self) -> str:
        """The name of the method, or of the single run."""
        return next(iter(self.chosen.weights)) if self.is_single else self.chosen.method

    @property
    def significance(self) -> int:
        """1 if the row is significantly better than the best single run, -1 if it is worse, and else 0."""
        return self.gains[BEST_SINGLE].significance if BEST_SINGLE in self.gains else 0

    @property
    def mean(self) -> float:
        """The reported mean; on held-out topics if there are any."""
        return float(self.values.mean())


@dataclass(frozen=True, repr=False)
class FusionResult(Shown, by="fusion_tables.fusion"):
    """Results of fusing runs: a row for each measure and method.

    Attributes
    ----------
    runs, topics : tuple of str
        Names of the runs, and the topics that are reported.
    options : FusionOptions
        The options, with the methods that were used.
    how : str
        How topics were split for tuning and evaluation, such as "5-fold cross-validation ...".
    rows : tuple of FusedRow
        By measure: single runs, then the methods.
    depths : dict of str to int
        By run, the largest number of documents for a topic.
    variants : int
        With an engine, the number of its variants that were searched, over all windows.
    """

    runs: tuple[str, ...]
    topics: tuple[str, ...]
    options: FusionOptions
    how: str
    rows: tuple[FusedRow, ...]
    depths: dict[str, int] = field(default_factory=dict)
    variants: int = 0

    @property
    def selected(self) -> FusedRow:
        """The row that is written as a run and deployed.

        It is the recommended row. If a single method was requested, or all means are in-sample, it is the row
        of the first method.
        """
        if self.recommended is not None and len(self.options.method) > 1:
            return self.recommended
        return next(row for row in self.rows if row.chosen.method == self.options.method[0])

    @property
    def output(self) -> Chosen:
        """The fusion of the selected row, with a weight for each run."""
        chosen = self.selected.chosen
        weights = {name: chosen.weights.get(name, 0.0) for name in self.runs}
        return replace(chosen, weights=weights, depths=self.depths)

    @property
    def recommended(self) -> FusedRow | None:
        """The recommended row for the first measure; None if all means are in-sample."""
        return self.recommended_for(self.rows[0].measure)

    def recommended_for(self, measure: Measure) -> FusedRow | None:
        """Return the recommended row for a measure; None if all means are in-sample.

        It is the fixed method's row if this is significantly better than the best single run, and else that
        run.
        """
        if self.options.in_sample:
            return None
        fused = self.fixed(measure)
        return fused if fused.significance > 0 else self.baselines(measure)[BEST_SINGLE]

    def fixed(self, measure: Measure) -> FusedRow:
        """Return the row of the method that was fixed before any result is known.

        This is `shrunk` if it was requested, and else the first requested method: `shrunk` needs the fewest
        topics to be better than reciprocal rank fusion.
        """
        method = fixed_method(self.options.method)
        return next(row for row in self.rows if (row.measure, row.chosen.method) == (measure, method))

    def baselines(self, measure: Measure) -> dict[str, FusedRow]:
        """Return the baselines of a measure by name; see `baselines`."""
        return baselines([row for row in self.rows if row.measure == measure])


def baselines(rows: Sequence[FusedRow]) -> dict[str, FusedRow]:
    """Return a measure's best single run by name, and RRF, equal weights and the engine's default if any."""
    single = max((row for row in rows if row.is_single), key=lambda row: row.mean)
    fixed = {row.name: row for row in rows if row.chosen.method in BASELINES}
    return {BEST_SINGLE: single} | {name: fixed[name] for name in BASELINES if name in fixed}


def fuse_runs(
    runs: RunSet | RunsLike,
    qrels: QrelsLike,
    options: FusionOptions | None = None,
    *,
    weights: Mapping[str, float] | None = None,
    progress: Progress = silent,
) -> FusionResult:
    """Fuse runs by several methods, and evaluate each by cross-validation.

    Parameters
    ----------
    runs : RunSet, or a sequence or mapping of runs
        Two runs or more, in the forms that `compare_runs` accepts.
    qrels : mapping of str to mapping of str to int, or others
        Judgments, in a form that `lmtune.io.frames` accepts. Topics without a relevant document, or in no
        run, are left out.
    options : FusionOptions, optional
        Methods, measures and folds.
    weights : mapping of str to float, optional
        A weight for each run. These weights are evaluated as the method ``linear``; nothing is tuned.
    progress : Progress
        Called during tuning.

    Returns
    -------
    FusionResult
        A row for each measure and method, and for each single run.

    Raises
    ------
    InputError
        For fewer than two runs, no usable topic, or a measure without an exact line search.
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
    options = replace(options, method=_methods(runs, options))
    if options.leave_out:
        qrels = _without_unique_judgments(runs, qrels, options)
    topics = tuple(judged_topics(runs, qrels))
    if options.topic_weights is not None:
        weights_of(topics, options.topic_weights)
    measures = parse_measures(options.measure)
    methods = options.method if options.engine else tuple(dict.fromkeys(("rrf", *options.method)))
    folds: list[Fold] = []
    how = "in sample: weights are tuned and evaluated on the same topics"
    if weights is not None:
        how = "weights as given"
    elif not options.in_sample:
        split = {"train": options.train_topics, "test": options.test_topics}
        number = None if any(split.values()) else options.folds
        folds, how = make_folds(topics, topics, folds=number, seed=options.seed, **split)
    if options.topic_weights is not None:
        how += "; topic weights are used in tuning, reported means are unweighted"
    sets = [topics, *(tuple(fold.train) for fold in folds)]
    work = _Fusion(runs, qrels, topics, options, weights, sets)
    tuned = set(filter(work.is_tuned, methods))
    each = len(runs.names) + len(methods) + len(tuned) * len(folds)
    total, done = len(measures) * each, itertools.count()
    reported = {topic for fold in folds for topic in fold.test} or set(topics)
    is_reported = np.array([topic in reported for topic in topics])
    rows: list[FusedRow] = []
    for measure in measures:
        of_measure = []
        for name in runs.names:
            progress("fusing", next(done), total, detail=f"{measure}, {name} alone")
            of_measure.append(work.single(name, measure))
        for method in sorted(methods, key=[*METHODS, ENGINE_DEFAULT, TUNED].index):
            report = partial(progress, "fusing", detail=f"{measure}, {method}")
            row = work.row(method, measure, part_of(report, next(done), total))
            choices = [
                work.choose(method, measure, fold.train, part_of(report, next(done), total))[0]
                for fold in (folds if method in tuned else ())
            ]
            of_measure.append(work.add_held_out(row, folds, choices) if method in tuned else row)
        of_measure = [replace(row, values=row.values[is_reported]) for row in of_measure]
        of_measure = add_gains(of_measure, fixed_method(options.method))
        rows += [of_measure[runs.names.index(name)] for name in runs.input_order]
        rows += of_measure[len(runs.names) :]
    progress("fusing", total, total)
    note_ties(work.tied)
    topics = tuple(topic for topic in topics if topic in reported)
    rows = [_in_input_order(row, runs.input_order) for row in rows]
    return FusionResult(runs.input_order, topics, options, how, tuple(rows), runs.depths, work.variants)


def _methods(runs: RunSet, options: FusionOptions) -> tuple[str, ...]:
    """Return the methods to use; raise `InputError` for options that do not go together."""
    number = len(runs.names)
    most = MOST_RUNS
    if options.engine is not None:
        space, kept = SPACES[options.engine], FusionOptions()
        for name in ("method", "normalise", "missing", "rrf_k", "restarts"):
            if getattr(options, name) != getattr(kept, name):
                raise InputError(
                    f"--{name.replace('_', '-')} conflicts with --engine",
                    value=getattr(options, name),
                    accepted=f"what {space.title} can express is searched",
                )
        if space.queries not in (0, number):
            accepted = f"{space.queries} runs: of the text query, then of the vector query"
            raise InputError(f"{space.title} fuses two queries", value=[*runs.input_order], accepted=accepted)
        most = MOST_MIXED
    few = number <= FEW_RUNS
    usual = [
        name for name, method in METHODS.items() if method.is_default and (few or not method.is_for_few_runs)
    ]
    methods = (TUNED, ENGINE_DEFAULT) if options.engine else options.method or tuple(usual)
    if options.certify is not None and {TUNED, "linear"} & {*methods} and number > most:
        raise InputError("too many runs for a certificate", value=number, accepted=f"up to {most}")
    return methods


def judged_topics(runs: RunSet, qrels: Qrels) -> list[str]:
    """Return the topics that are in a run and have a relevant document; print a note on topics left out.

    Raises
    ------
    InputError
        If there is no such topic, or no run retrieves a relevant document.
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
            value=list(runs.input_order),
            accepted="runs and judgments of the same documents",
        )
    for count, noun, reason in (
        (len(runs.docs.keys() - qrels.keys()), "topic", "of the runs without judgments"),
        (len(qrels) - len(relevant), "judged topic", "without a relevant document"),
        (len(relevant) - len(usable), "judged topic", "in no run"),
    ):
        if count:
            note(f"left out {quantity(count, noun)} {reason}")
    return usable


def _in_input_order(row: FusedRow, names: Sequence[str]) -> FusedRow:
    """Order the runs in a row as in the input."""

    def ordered(chosen: Chosen) -> Chosen:
        weights = {name: chosen.weights[name] for name in names if name in chosen.weights}
        return replace(chosen, weights=weights)

    flat, interval = (
        {name: ranges[name] for name in names if name in ranges} for ranges in (row.flat, row.interval)
    )
    folds = tuple(map(ordered, row.folds))
    return replace(row, chosen=ordered(row.chosen), flat=flat, interval=interval, folds=folds)


def _without_unique_judgments(runs: RunSet, qrels: Qrels, options: FusionOptions) -> Qrels:
    """Leave out the judgments that only the runs of ``--leave-out`` contribute, with a note."""
    depth = options.pool_depth or POOL_DEPTH
    reduced = runs.without_unique(qrels, options.leave_out, depth)
    removed = sum(map(len, qrels.values())) - sum(map(len, reduced.values()))
    relevant = sum(gain > 0 for gains in qrels.values() for gain in gains.values())
    relevant -= sum(gain > 0 for gains in reduced.values() for gain in gains.values())
    guess = "" if options.pool_depth else " (a guess; set --pool-depth to the depth of the judging pool)"
    note(
        f"left out {quantity(removed, 'judgment')}, {relevant} of them relevant, of documents that only "
        f"{', '.join(options.leave_out)} retrieved in the first {depth}{guess}; it is evaluated like a run "
        "that did not contribute to the judging pool"
    )
    return reduced


@dataclass
class _Fusion:
    """Computes the rows; caches pools and values."""

    runs: RunSet
    qrels: Qrels
    topics: tuple[str, ...]
    options: FusionOptions
    weights: Mapping[str, float] | None
    sets: Sequence[Sequence[str]]
    tied: int = 0
    variants: int = 0
    _pools: dict[object, CandidatePool] = field(default_factory=dict)
    _variant_values: dict[object, Doubles] = field(default_factory=dict)
    _searched: dict[Measure, Searched] = field(default_factory=dict)

    def pool(self, chosen: Chosen) -> CandidatePool:
        """Return the pool of a fusion; the last few pools are cached."""
        if chosen.engine:
            key: object = str(chosen)
        else:
            key = chosen.plan.columns, chosen.constant, _scaling_key(chosen)
        pool = self._pools.pop(key, None)
        if pool is None:
            pool = fused_pool(self.runs, chosen, self.options, self.qrels, self.topics)
            weights = self.options.topic_weights
            pool = pool if weights is None else pool.with_topic_weights(weights)
            self.tied = max(self.tied, count_ties(pool))
        self._pools[key] = pool
        if len(self._pools) > _POOLS:
            del self._pools[next(iter(self._pools))]
        return pool

    def single(self, name: str, measure: Measure) -> FusedRow:
        """Evaluate a single run."""
        chosen = Chosen(SINGLE, {name: 1.0})
        pool = fused_pool(self.runs, chosen, self.options, self.qrels, self.topics)
        values = measure_settings(pool, chosen.setting, [measure], depth=self.options.depth)[:, 0, 0]
        return FusedRow(measure, chosen, float(values.mean()), values)

    def row(self, method: str, measure: Measure, progress: Count) -> FusedRow:
        """Tune a method on all topics, and evaluate it in sample."""
        chosen, evaluations, bound = self.choose(method, measure, self.topics, progress)
        options = self.options
        if method == "linear" and options.certify is not None and bound is None:
            certificate = certify(
                self.pool(chosen),
                measure,
                chosen.weights,
                tolerance=options.certify,
                boxes=options.boxes,
                depth=options.depth,
            )
            chosen, bound = replace(chosen, weights=certificate.weights), certificate.bound
            evaluations += certificate.boxes
            gap = certificate.bound - certificate.value
            missed = "" if gap <= options.certify else f" (tolerance {options.certify:g} not reached)"
            note(
                f"{measure}: no weights exceed linear's in-sample mean by more than {gap:.2g}{missed}; "
                f"{quantity(certificate.boxes, 'box', 'boxes')} bounded"
            )
        values = self._values(chosen, measure, self.topics)
        return FusedRow(measure, chosen, float(values.mean()), values, bound, evaluations)

    def add_held_out(self, row: FusedRow, folds: Sequence[Fold], choices: Sequence[Chosen]) -> FusedRow:
        """Add the held-out values of each fold's fusion and the intervals of the weights to a tuned row."""
        values, measure = row.values.copy(), row.measure
        positions = {topic: position for position, topic in enumerate(self.topics)}
        for fold, chosen in zip(folds, choices, strict=True):
            values[[positions[topic] for topic in fold.test]] = self._values(chosen, measure, fold.test)
        plan = row.chosen.plan
        searched = plan.fit is not None and len(self.runs.names) <= FEW_RUNS
        flat = self._flat_ranges(row.chosen, measure) if searched else {}
        shares = [choice.shares for choice in choices]
        interval = jackknife(shares, row.chosen.shares) if plan.fit is not None else {}
        return replace(row, values=values, folds=tuple(choices), flat=flat, interval=interval)

    def choose(
        self, method: str, measure: Measure, topics: Sequence[str], progress: Count
    ) -> tuple[Chosen, int, float | None]:
        """Return the best fusion on topics, the evaluations, and a bound over all weights if known."""
        progress(0, 1)
        if self.options.engine is not None:
            return self._of_engine(method, measure, topics, progress)
        plan, evaluations, bound = METHODS[method], 0, -np.inf
        chosen = Chosen(method, dict.fromkeys(self.runs.names, 1.0))
        if self.weights is not None:
            return replace(chosen, weights=dict(self.weights)), 0, None
        variants = [self._with_logistic(variant, measure, topics) for variant in self._variants(chosen)]
        if len(variants) > 1:
            evaluated = [self._evaluate_variant(variant, measure, topics) for variant in variants]
            values, counts, bounds = zip(*evaluated, strict=True)
            chosen, evaluations, bound = variants[int(np.argmax(values))], sum(counts), max(bounds)
        else:
            [chosen] = variants
        if plan.fit is None:
            return chosen, evaluations, None
        options = self.options
        task = Fitting(
            self.pool(chosen), measure, topics, options.restarts, options.seed, options.depth, progress
        )
        tuner, fit_evaluations = plan.fit(task)
        weights = tuner.best_params_
        chosen = replace(chosen, weights={name: weights[name] for name in chosen.weights})
        if self.options.topic_weights is None:
            bound = max(bound, getattr(tuner, "bound_", -np.inf))
        return chosen, evaluations + fit_evaluations, bound if np.isfinite(bound) else None

    def _of_engine(
        self, method: str, measure: Measure, topics: Sequence[str], progress: Count
    ) -> tuple[Chosen, int, float | None]:
        """Return the engine's default or tuned variant as `choose` does."""
        options = self.options
        space = SPACES[str(options.engine)]
        if method == ENGINE_DEFAULT:
            weights = space.default_for(len(self.runs.names))
            return self._variant(ENGINE_DEFAULT, space.default, weights, options.window[0]), 1, None
        if measure not in self._searched:
            of_topic = options.topic_weights
            self._searched[measure] = search_space(
                space,
                self.runs,
                self.qrels,
                measure,
                self.sets,
                windows=tuple(dict.fromkeys(options.window)),
                depth=options.depth,
                tolerance=options.certify,
                boxes=options.boxes,
                topic_weights=None if of_topic is None else np.array(weights_of(self.topics, of_topic)),
                progress=progress,
            )
            if options.certify is not None and not np.isfinite(self._searched[measure].bound):
                note(f"{measure}: no certificate, for {space.refused}")
        searched = self._searched[measure]
        self.variants = searched.variants
        best = searched.best[[*map(tuple, self.sets)].index(tuple(topics))]
        bound = searched.bound if np.isfinite(searched.bound) and options.topic_weights is None else None
        chosen = self._variant(TUNED, best.variant, best.weights, best.window)
        return chosen, searched.evaluations, bound

    def _variant(self, method: str, variant: Variant, weights: Sequence[float], window: int = 0) -> Chosen:
        """Return an engine's variant with weights in the order of the input."""
        by_run = dict(zip(self.runs.input_order, weights, strict=True))
        return Chosen(
            method,
            by_run,
            variant.constant,
            variant.normalise,
            window,
            engine=str(self.options.engine),
            combine=variant.combine,
        )

    def is_tuned(self, method: str) -> bool:
        """Whether the method has weights, constants or a normalisation that depend on the topics."""
        if self.options.engine is not None:
            return method == TUNED
        variants = self._variants(Chosen(method, {}))
        is_chosen = len(variants) > 1 or variants[0].normalise == LOGISTIC
        return self.weights is None and (METHODS[method].fit is not None or is_chosen)

    def _variants(self, chosen: Chosen) -> list[Chosen]:
        """Return the combinations of the method's constants, normalisations and windows."""
        plan, normalise = METHODS[chosen.method], self.options.normalise
        scales = {CHOOSE: SCALES, LOGISTIC: (LOGISTIC,)}.get(normalise, ("",)) if plan.is_scored else ("",)
        every = itertools.product(plan.constants, scales, dict.fromkeys(self.options.window))
        return [replace(chosen, constant=k, normalise=name, window=window) for k, name, window in every]

    def _with_logistic(self, chosen: Chosen, measure: Measure, topics: Sequence[str]) -> Chosen:
        """Fit the logistic functions of the runs on topics, if the fusion uses them."""
        if chosen.normalise != LOGISTIC:
            return chosen
        runs = self.runs.first(chosen.window)
        retrieved = [topic for topic in topics if topic in runs.docs]
        table = np.concatenate([runs.scores[topic] for topic in retrieved], axis=1)
        gains = [
            self.qrels[topic].get(runs.docnos[doc], 0) for topic in retrieved for doc in runs.docs[topic]
        ]
        relevant, logistic = np.array(gains) >= measure.rel, {}
        for name, scores in zip(runs.names, table, strict=True):
            known = ~np.isnan(scores)
            logistic[name] = fit_logistic(scores[known], relevant[known]) if known.any() else (0.0, 0.0)
        return replace(chosen, logistic=logistic)

    def _evaluate_variant(
        self, chosen: Chosen, measure: Measure, topics: Sequence[str]
    ) -> tuple[float, int, float]:
        """Return a variant's mean, the number of evaluations, and a bound over all weights.

        Methods for few runs are evaluated after one climb, others with equal weights.
        """
        if METHODS[chosen.method].is_for_few_runs:
            climb = ExactLineSearch(str(measure), seed=self.options.seed, depth=self.options.depth)
            climb.fit(self.pool(chosen), topics=topics)
            return climb.best_value_, climb.n_evaluations_, climb.bound_
        key = measure, METHODS[chosen.method].columns, chosen.constant, _scaling_key(chosen)
        if key not in self._variant_values:
            self._variant_values[key] = self._values(chosen, measure, self.topics)
        pool = self.pool(chosen)
        positions = pool.positions(topics)
        return float(pool.mean(self._variant_values[key][positions], positions)), 1, np.inf

    def _values(self, chosen: Chosen, measure: Measure, topics: Sequence[str]) -> Doubles:
        pool = self.pool(chosen)
        positions = pool.positions(topics)
        table = measure_settings(pool, chosen.setting, [measure], topics=positions, depth=self.options.depth)
        values: Doubles = table[:, 0, 0]
        return values

    def _flat_ranges(self, chosen: Chosen, measure: Measure) -> Intervals:
        """Return the flat range of each run's share (see `FusedRow`)."""
        pool, flat = self.pool(chosen), {}
        line = Line(pool, measure, pool.positions(), self.options.depth)
        here = np.array([chosen.weights[name] for name in self.runs.names])
        for run, name in enumerate(self.runs.names):
            begin, end = coordinate_line(here / here.sum(), run)
            flat[name] = _flat_range(line, begin, end, float(here[run] / here.sum()))
        return flat


def _scaling_key(chosen: Chosen) -> object:
    return chosen.normalise, chosen.window, tuple(chosen.logistic.items())


def jackknife(folds: Sequence[Mapping[str, float]], whole: Mapping[str, float]) -> Intervals:
    """Return 95% confidence intervals of shares by the grouped jackknife over folds.

    Each fold's shares are tuned without the topics of this fold. With g folds, the squared standard error is
    (g - 1) / g times the sum of squared deviations from the mean over folds (Shao and Tu, The Jackknife and
    Bootstrap, 1995, section 2.3). The interval is centred at the share tuned on all topics, uses Student's t
    with g - 1 degrees of freedom, and is clipped to [0, 1].

    Parameters
    ----------
    folds : sequence of mapping of str to float
        Shares by run, for each fold; without two folds there are no intervals.
    whole : mapping of str to float
        Shares by run, tuned on all topics.
    """
    from scipy.special import stdtrit

    groups = len(folds)
    if groups < 2:
        return {}
    shares = np.array([[of_fold[name] for name in whole] for of_fold in folds])
    half = float(stdtrit(groups - 1, 0.975)) * np.sqrt((groups - 1) * shares.var(axis=0))
    return {
        name: (max(0.0, share - width), min(1.0, share + width))
        for (name, share), width in zip(whole.items(), half.tolist(), strict=True)
    }


def _flat_range(line: Line, begin: Doubles, end: Doubles, here: float) -> tuple[float, float]:
    """Return the range around t = here in which the mean is at most `_FLAT` below that at t = here."""
    at, value, _ = join_steps(line.steps(begin, end))
    edges = np.append(at, 1.0)
    step = int(np.searchsorted(at, here, "right")) - 1
    bad = np.flatnonzero(value < value[step] - _FLAT)
    before, after = bad[bad < step], bad[bad > step]
    low = edges[before[-1] + 1] if before.size else 0.0
    return float(low), float(edges[after[0]]) if after.size else 1.0


def add_gains(rows: Sequence[FusedRow], fixed: str) -> list[FusedRow]:
    """Add the differences of a measure's fused rows from the baselines."""
    gains: dict[str, dict[str, Gain]] = {}
    for name, baseline in baselines(rows).items():
        # Equal weights are compared with rrf, but not rrf with equal weights: one difference has one p-value.
        left_out = (name, "rrf") if name == "equal" else (name,)
        values = {row.name: row.values for row in rows if not row.is_single and row.name not in left_out}
        for method, gain in gains_over(baseline.values, values, fixed).items():
            gains.setdefault(method, {})[name] = gain
    return [row if row.is_single else replace(row, gains=gains.get(row.name, {})) for row in rows]


def fixed_method(methods: Sequence[str]) -> str:
    """Return the method that is fixed before any result is known; see `FusionResult.fixed`."""
    return "shrunk" if "shrunk" in methods else methods[0]
