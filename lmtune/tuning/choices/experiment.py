"""Tuning of categorical parameters: cases, successive halving, certificates and factor effects."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, groupby, product
from typing import Any, NamedTuple

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.collection import Collection
from lmtune.collections.folds import Fold, cross_validation
from lmtune.errors import InputError
from lmtune.measures.measure import Measure
from lmtune.measures.significance.comparison import Gain, gains_over
from lmtune.measures.significance.tests import mean_interval
from lmtune.models.model import OF_FIELDS, find_model, named_model
from lmtune.models.taylor_kernels import Sides
from lmtune.models.two_stage import TWO_STAGE
from lmtune.progress import Progress, silent, timed
from lmtune.showing import Plotted
from lmtune.threads import map_range
from lmtune.tuning.certificate.branch_and_bound import Box, bound_part, parts_of, whole
from lmtune.tuning.certificate.optimum import CertifiedOptimum, check_uncertified
from lmtune.tuning.certificate.problem import Problem, proof_of
from lmtune.tuning.direct import Surface
from lmtune.tuning.experiment.plan import Plan, Split
from lmtune.tuning.experiment.preparation import Prepared, prepare
from lmtune.tuning.experiment.result import DEFAULT, OPTIMAL, CollectionResult, Row
from lmtune.tuning.experiment.run import default_result, run_experiment
from lmtune.tuning.space import ANALYSIS, EXPAND, MODEL, NONE, Choice, ParameterSpace

_MAX_CASES = 256


@dataclass(frozen=True)
class Case:
    """A combination of options, one per categorical parameter, with its collection and plan.

    Attributes
    ----------
    values : dict of str to str
        The option of each categorical parameter, by name.
    collection : Collection
        The collection with the case's analysis and fields.
    plan : Plan
        The plan with the case's model.
    """

    values: dict[str, str]
    collection: Collection
    plan: Plan

    def __str__(self) -> str:
        return case_name(self.values)


def case_name(values: Mapping[str, str]) -> str:
    """Return a case's name, such as ``"stemmer = porter, model = bm25"``."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def make_cases(
    choices: Sequence[Choice] | ParameterSpace,
    collection: Collection,
    plan: Mapping[str, Any],
    **of_model: Callable[[str], Any],
) -> list[Case]:
    """Combine the options of all categorical parameters; the baseline is the first case.

    Parameters
    ----------
    choices : sequence of Choice, or ParameterSpace
        The categorical parameters, with different names. A space also sets the plan's ranges.
    collection : Collection
        The collection. Its other arguments are the same in all cases.
    plan : mapping of str to object
        Arguments of `Plan` by name. ``certify`` is ignored here; `tune_choices` certifies all cases together.
    **of_model : callable
        Further arguments of `Plan`, as functions of the model's name.

    Raises
    ------
    InputError
        If a categorical parameter is repeated or also set by the collection or plan; if a stemmer, model or
        field is unknown; or if there are more than 256 cases.
    """
    if isinstance(choices, ParameterSpace):
        searched = [
            parameter for parameter in choices.parameters if not parameter.share and not parameter.is_counted
        ]
        plan = {**plan, "ranges": {parameter.name: (parameter.low, parameter.high) for parameter in searched}}
        choices = choices.choices
    names = [choice.name for choice in choices]
    for choice in choices:
        fixed = plan.get(MODEL) if choice.name == MODEL else _option(collection, choice.name)
        if names.count(choice.name) > 1 or fixed:
            raise InputError(
                f"{choice.name} is given twice", value=choice.name, accepted="once, by --choose alone"
            )
    combined = list(product(*(choice.values for choice in choices)))
    if len(combined) > _MAX_CASES:
        raise InputError(
            "too many combinations of choices", value=len(combined), accepted=f"{_MAX_CASES} at most"
        )
    return list(_cases(combined, names, collection, plan, of_model))


def _cases(
    combined: Sequence[Sequence[str]],
    names: Sequence[str],
    collection: Collection,
    plan: Mapping[str, Any],
    of_model: Mapping[str, Callable[[str], Any]],
) -> Iterator[Case]:
    """Yield a case for each combination of options; other arguments as for `make_cases`."""
    for values in combined:
        case = dict(zip(names, values, strict=True))
        analysis: dict[str, Any] = {
            name.replace("-", "_"): _parsed(name, value) for name, value in case.items() if name in ANALYSIS
        }
        analysed = replace(collection, **analysis)
        analysed.analyzer()
        model = case.get(MODEL, plan.get(MODEL, TWO_STAGE.name))
        model = named_model(model, analysed.fields if model in OF_FIELDS or MODEL not in case else ())
        if case.get(EXPAND, NONE) != NONE:
            model += f"+{case[EXPAND]}"
        more = {name: made(model) for name, made in of_model.items()}
        yield Case(
            case,
            analysed,
            Plan(**{"baseline": {}, **plan, **more, MODEL: model, "certify": None, "bag": False}),
        )


def _option(collection: Collection, name: str) -> Any:
    """Return the value that the collection sets for a categorical parameter, if any."""
    if name not in ANALYSIS or name == "topic-fields":
        return None
    return getattr(collection, name)


def _parsed(name: str, value: str) -> str | tuple[str, ...] | None:
    """Return the collection's argument for an option: a tuple of names for fields, else the option."""
    if not name.endswith("fields"):
        return value
    return () if value == NONE else tuple(value.split("+"))


_FIRST_SETTINGS = 16
"""Number of settings per case in the first round of successive halving; the number doubles in each round."""
_FINALISTS = 2
"""Number of cases that successive halving leaves for tuning."""
_MAX_BOXES = 512
"""Largest number of boxes for a case's bound; more would cost about as much as tuning the case."""

_MeansByMeasure = Mapping[Measure, Doubles]
"""By measure, shape (folds + 1,): a mean over each fold's training topics, then one over all topics."""
_RemainingCases = Mapping[Measure, Sequence[set[int]]]
"""By measure: the numbers of the cases that remain on each fold, then of those on all topics."""


def look(prepared: Prepared, case: Case, settings: int = _FIRST_SETTINGS) -> dict[Measure, Doubles]:
    """Measure a case at some settings, without tuning it; return its best means.

    Parameters
    ----------
    prepared : Prepared
        The case's prepared collection.
    case : Case
        The case, with its measures and search space.
    settings : int
        Number of settings, spread over the space as in `lmtune.GridSearch`.

    Returns
    -------
    dict of Measure to numpy.ndarray of float64, shape (folds + 1,)
        The largest mean over the settings, on each fold's training topics, then on all topics.
    """
    plan = case.plan
    surface = Surface.compute(
        prepared.pool, plan.measures, space=plan.grid_space, shape=(settings,), depth=plan.depth
    )
    parts = [prepared.pool.positions(topics) for topics in _compared_on(prepared.folds)]
    return {
        measure: np.array([surface.means(measure, part).max() for part in parts])
        for measure in surface.measures
    }


def _compared_on(folds: Sequence[Fold]) -> list[list[str]]:
    """Return the topic sets that cases are compared on: each fold's training topics, then all topics."""
    everything = dict.fromkeys(topic for fold in folds for topic in (*fold.train, *fold.test))
    return [*(list(fold.train) for fold in folds), list(everything)]


def halve(cases: int, look_at: Callable[[int, int], _MeansByMeasure]) -> dict[Measure, list[set[int]]]:
    """Select promising cases by successive halving.

    Each round measures the remaining cases at twice as many settings and drops the worse half, so rounds cost
    about the same. Each fold has a race of its own on its training topics. (Sequential halving: Karnin et al.
    2013. For searches: Jamieson and Talwalkar 2016. The best of many settings approaches a case's optimum.)

    Parameters
    ----------
    cases : int
        The number of cases.
    look_at : callable
        Takes a case and a number of settings; returns the case's best means, as `look` does.

    Returns
    -------
    dict of Measure to list of set of int
        The remaining cases, at most two, on each fold and on all topics.
    """
    settings, left = _FIRST_SETTINGS, set(range(cases))
    remaining: dict[Measure, list[set[int]]] = {}
    while not remaining or any(len(race) > _FINALISTS for race in chain(*remaining.values())):
        seen = {case: look_at(case, settings) for case in sorted(left)}
        for measure, first in seen[min(left)].items():
            races = remaining.setdefault(measure, [set(range(cases)) for _ in first])
            for position, race in enumerate(races):
                size = max(_FINALISTS, -(-len(race) // 2))
                races[position] = set(sorted(race, key=lambda c: (-seen[c][measure][position], c))[:size])
        left = set().union(*chain(*remaining.values()))
        settings *= 2
    return remaining


def beaten(
    pool: CandidatePool, folds: Sequence[Fold], case: Case, goals: _MeansByMeasure
) -> dict[Measure, tuple[float, int]] | None:
    """Try to prove that a case is beaten: that none of its settings reaches any of the goals.

    Each measure has a branch and bound of its own, over the case's range of parameters.

    Parameters
    ----------
    pool : CandidatePool
        The case's candidates.
    folds : sequence of Fold
        The folds; goals are means over their training topics.
    case : Case
        The case, with its model and ranges.
    goals : mapping
        By measure: a mean for each fold, then one for all topics.

    Returns
    -------
    dict of Measure to (float, int), or None
        By measure, the proof: an upper bound of the case's mean over all topics, and the number of boxes.
        None without a proof: a setting may reach a goal, the proof needs too many boxes, or the model cannot
        be certified.
    """
    try:
        proof_of(find_model(case.plan.model).formula)
    except InputError:
        return None
    parts = _compared_on(folds)
    topics, plan = pool.positions(parts[-1]), case.plan
    bounds: dict[Measure, tuple[float, int]] = {}
    for measure, least in goals.items():
        problem = Problem.build(pool, measure, space=plan.space, topics=topics, depth=plan.depth)
        weights = np.array([np.isin(problem.positions, pool.positions(part)) / len(part) for part in parts])
        bound = _below(problem, weights * (1.0 + len(parts[-1]) * 2.0**-51), least)
        if bound is None:
            return None
        bounds[measure] = bound
    return bounds


def _below(problem: Problem, weights: Doubles, goals: Doubles) -> tuple[float, int] | None:
    """Prove that weighted means of topics, one per row of weights, stay below their goals.

    Return the upper bound of the last mean and the number of boxes, or None without a proof.
    """
    highest, left, boxes = 0.0, [whole(problem)], 0
    while left:
        jobs = [(box, sides) for box in left for sides in parts_of(problem, box, boxes)]
        boxes += len(jobs)
        if boxes > _MAX_BOXES or any(box.final for box in left):
            return None
        parts = map_range(partial(_bound_job, problem, jobs), len(jobs))
        left = []
        for box in parts:
            means = weights @ box.bounds
            if (means < goals).all():
                highest = max(highest, float(means[-1]))
            else:
                left.append(box)
    return highest, boxes


def _bound_job(problem: Problem, jobs: Sequence[tuple[Box, Sides]], number: int) -> Box:
    """Bound the box of a job, given by its number for `map_range`."""
    return bound_part(problem, *jobs[number])


_Key = tuple[Measure, str]
"""A measure and a method."""


class CaseProof(NamedTuple):
    """The certificate of one case on all topics.

    Attributes
    ----------
    value : float
        The best measured mean of the case; 0 if it was not tuned.
    bound : float
        The upper bound of the mean over the case's range. For a discarded case, it is only as low as needed.
    boxes : int
        Number of boxes that were bounded.
    """

    value: float
    bound: float
    boxes: int


@dataclass(frozen=True)
class ChosenRow:
    """The procedure by one method for one measure: on each fold, a case is chosen on the training topics.

    Attributes
    ----------
    row : Row
        Values on test topics and fits of each fold's chosen case.
    picks : tuple of int
        The number of the case chosen on each fold.
    final : int
        The case chosen on the topics of all folds.
    score : float
        The mean of the chosen cases on training topics, over folds weighted by test topics.
    """

    row: Row
    picks: tuple[int, ...]
    final: int
    score: float


@dataclass(frozen=True, repr=False)
class ChoiceResult(Plotted, by="choice_tables.choice"):
    """The result of tuning categorical parameters on a collection.

    Attributes
    ----------
    name : str
        The collection.
    choices : tuple of Choice
        The categorical parameters.
    cases : tuple of Case
        All combinations of options, the baseline first.
    results : tuple of CollectionResult
        The experiment on each case; for a case that the race dropped, only its default.
    rows : tuple of ChosenRow
        The procedure, measure by measure and method by method.
    proofs : dict of (Measure, int) to CaseProof
        Certificates by measure and case number, if requested and available for the model.
    inner : int
        Number of inner folds that cases were compared on; 0 if they were compared on training topics.
    race : bool
        Whether cases were dropped without tuning, by a bound or by successive halving.
    """

    name: str
    choices: tuple[Choice, ...]
    cases: tuple[Case, ...]
    results: tuple[CollectionResult, ...]
    rows: tuple[ChosenRow, ...]
    proofs: dict[tuple[Measure, int], CaseProof]
    inner: int = 0
    race: bool = False

    def case_row(self, key: _Key, case: int) -> Row:
        """Return a case's row of a measure and method; a dropped case has only its default."""
        return self.known_rows(key)[case]

    def known_rows(self, key: _Key) -> dict[int, Row]:
        """Return the rows of a measure and method, by case number."""
        rows = ((case, row) for case, result in enumerate(self.results) for row in result.rows)
        return {case: row for case, row in rows if (row.measure, row.method) == key}

    @property
    def fixed_method(self) -> str:
        """The method that may be recommended: that of the case with the most free parameters."""
        plan = max((case.plan for case in self.cases), key=lambda plan: len(plan.space.free))
        return plan.fixed_method(self.results[0].folds)

    @cached_property
    def recommended(self) -> ChosenRow | None:
        """`tuned` if it is significantly better than `default`, and else `default`; None without rows."""
        tuned = self.tuned
        if tuned is None:
            return self.default if self.rows else None
        gain = self.gains.get((tuned.row.measure, tuned.row.method))
        return tuned if gain is None or gain.significance > 0 else self.default

    @cached_property
    def tuned(self) -> ChosenRow | None:
        """The first measure's row of `fixed_method`; None if no case was tuned."""
        named = (one for one in self.rows if one.row.method == self.fixed_method)
        return next((one for one in named if one.row.measure == self.rows[0].row.measure), None)

    @cached_property
    def default(self) -> ChosenRow:
        """The first case with its model's default parameters, for the first measure."""
        row = self.case_row((self.rows[0].row.measure, DEFAULT), 0)
        return ChosenRow(row, (0,) * len(row.fits), 0, row.mean)

    @cached_property
    def gains(self) -> dict[_Key, Gain]:
        """The difference of each row from the first case with default parameters."""
        gains: dict[_Key, Gain] = {}
        for measure in dict.fromkeys(one.row.measure for one in self.rows):
            values = {one.row.method: one.row.values for one in self.rows if one.row.measure == measure}
            own = gains_over(self.case_row((measure, DEFAULT), 0).values, values, self.fixed_method)
            gains |= {(measure, method): gain for method, gain in own.items()}
        return gains

    def best_value(self, measure: Measure) -> float:
        """Return the best mean on all topics over all certified cases."""
        return max(proof.value for (certified, _), proof in self.proofs.items() if certified == measure)

    def bound(self, measure: Measure) -> float | None:
        """Return the upper bound on all topics over all cases; None unless all cases have a certificate."""
        bounds = [proof.bound for (certified, _), proof in self.proofs.items() if certified == measure]
        return max(bounds) if len(bounds) == len(self.cases) else None


def tune_choices(
    choices: Sequence[Choice],
    cases: Sequence[Case],
    split: Split,
    *,
    inner: int = 0,
    certify: float | None = None,
    race: bool = False,
    progress: Progress | bool = silent,
) -> tuple[ChoiceResult, Prepared]:
    """Tune every case; choose a case on each fold's training topics, and finally on all topics.

    Held-out means estimate the whole procedure, including the choice. On each fold, every method chooses the
    case with the best mean on the training topics, or with inner folds, the best held-out mean within the
    training topics. Inner folds do not favour models with many parameters.

    Parameters
    ----------
    choices : sequence of Choice
        The categorical parameters.
    cases : sequence of Case
        Their combinations, from `lmtune.tuning.choices.experiment.make_cases`.
    split : Split
        Training and test topics.
    inner : int
        Number of inner folds: 0, or 2 or more.
    certify : float, optional
        Tolerance of a certificate: prove on all topics that no setting of any case is better by more.
    race : bool
        Tune only the first case and promising ones. With `certify`, a case is dropped only if a proof shows
        that no method would choose it on any fold. Otherwise, successive halving drops cases, see
        `lmtune.tuning.choices.experiment.halve`.
    progress : Progress or bool
        Called with (stage, done, total).

    Returns
    -------
    ChoiceResult, and Prepared
        The result, and the prepared collection of the finally chosen case of the recommended row.

    Raises
    ------
    InputError
        If there is one inner fold, `race` is combined with inner folds, or a measure cannot be certified;
        also for all errors of the experiment.
    """
    if inner == 1 or inner < 0:
        raise InputError("bad --inner-folds", value=inner, accepted="0, or 2 or more")
    if inner and race:
        raise InputError("--race with --inner-folds", value=inner, accepted="one of them")
    if split.topic_weights is not None:
        check_uncertified(certify)
    if certify is not None:
        for measure in cases[0].plan.measures:
            Problem.check(measure)
    search = _CaseSearch(cases, split, inner, progress if callable(progress) else silent)
    proofs: dict[tuple[Measure, int], CaseProof] = {}
    remaining: _RemainingCases = {}
    if race and certify is None:
        remaining = halve(len(cases), search.look)
        search.tune_all({0}.union(*chain(*remaining.values())))
    elif race:
        proofs = dict(search.tune_unbeaten())
    else:
        search.tune_all(range(len(cases)))
    numbers = range(len(cases))
    rows = tuple(_rows(search.results, search.scores, remaining))
    chosen = tuple(choices), tuple(cases)
    results = tuple(search.results[number] for number in numbers)
    result = ChoiceResult(results[0].name, *chosen, results, rows, proofs, inner, race)
    used = 0 if result.recommended is None else result.recommended.final
    _, prepared = search.prepare_case(used)
    if certify is not None:
        proofs |= dict(_prove(cases, results, split, certify, search.progress))
    return replace(result, proofs=proofs), prepared


@dataclass
class _CaseSearch:
    """The search over cases: results, and the scores that cases are chosen by, by case number."""

    cases: Sequence[Case]
    split: Split
    inner: int
    progress: Progress
    results: dict[int, CollectionResult] = field(default_factory=dict)
    scores: dict[int, dict[_Key, Doubles]] = field(default_factory=dict)

    def prepare_case(self, number: int) -> tuple[Case, Prepared]:
        """Prepare a case's collection."""
        case = self.cases[number]
        analyzers = [case.collection.analyzer() for case in self.cases]
        prepared = prepare(case.collection, self.split, case.plan, beside=analyzers, progress=self.progress)
        return case, prepared

    def look(self, number: int, settings: int = _FIRST_SETTINGS) -> _MeansByMeasure:
        """Return a case's best means for `halve`."""
        case, prepared = self.prepare_case(number)
        return look(prepared, case, settings)

    def tune_all(self, numbers: Container[int]) -> None:
        """Tune these cases, and measure the defaults of the others."""
        for number in range(len(self.cases)):
            case, prepared = self.prepare_case(number)
            if number in numbers:
                self.tune(number, case, prepared)
            else:
                self.measure_default(number, case, prepared)

    def tune_unbeaten(self) -> Iterator[tuple[tuple[Measure, int], CaseProof]]:
        """Tune cases, promising ones first, and drop those that are proven to lose; yield these proofs.

        No method would choose a dropped case, on any fold or on all topics. Therefore the choices are the
        same as without dropping.
        """
        case, prepared = self.prepare_case(0)
        self.tune(0, case, prepared)
        seen = {number: self.look(number) for number in range(1, len(self.cases))}
        first = next(iter(next(iter(seen.values()))))
        for number in sorted(seen, key=lambda number: -seen[number][first][-1]):
            case, prepared = self.prepare_case(number)
            goals = self._goals()
            bounds = None
            if all((seen[number][measure] < least).all() for measure, least in goals.items()):
                bounds = beaten(prepared.pool, prepared.folds, case, goals)
            if bounds is None:
                self.tune(number, case, prepared)
                continue
            self.measure_default(number, case, prepared)
            for measure, (bound, boxes) in bounds.items():
                yield (measure, number), CaseProof(0.0, bound, boxes)

    def _goals(self) -> _MeansByMeasure:
        """Return the goals of proofs: the lowest of the methods' best means over the cases tuned so far."""
        best: dict[_Key, Doubles] = {}
        for scores in self.scores.values():
            for key, means in scores.items():
                best[key] = np.maximum(best.get(key, means), means)
        reached: dict[Measure, Doubles] = {}
        for (measure, method), means in best.items():
            if method != DEFAULT:
                reached[measure] = np.minimum(reached.get(measure, means), means)
        # Without final fits, means on all topics are NaN; then every case may be dropped there.
        return {measure: np.nan_to_num(means, nan=np.inf) for measure, means in reached.items()}

    def tune(self, number: int, case: Case, prepared: Prepared) -> None:
        """Tune a case by all methods."""
        progress = _case_progress(self.progress, f"case {number + 1} of {len(self.cases)}")
        with timed(f"{case}: tuned"):
            result = run_experiment(
                prepared.pool,
                prepared.folds,
                case.plan,
                notes=prepared.notes,
                progress=progress,
                traced=False,
            )
        self.results[number], self.scores[number] = result, _scores(result, prepared, case, self.inner)

    def measure_default(self, number: int, case: Case, prepared: Prepared) -> None:
        """Measure a case with default parameters only."""
        result = default_result(prepared.pool, prepared.folds, case.plan, notes=prepared.notes)
        self.results[number], self.scores[number] = result, _scores(result, prepared, case, self.inner)


def _case_progress(progress: Progress, case: str) -> Progress:
    """Prefix the stages of an experiment's progress with the case."""
    return lambda stage, done, total, detail="": progress(f"{case}, {stage}", done, total, detail)


def _scores(result: CollectionResult, prepared: Prepared, case: Case, inner: int) -> dict[_Key, Doubles]:
    """Return a case's scores by measure and method: one for each fold, and one for all topics."""
    rows = [row for row in result.rows if row.method != OPTIMAL]
    if not inner:
        return {
            (row.measure, row.method): np.array(
                [*(fit.train_value for fit in row.fits), _all_topics(row)], np.float64
            )
            for row in rows
        }
    everything = Fold(tuple(topic for fold in result.folds for topic in fold.test), ())
    plan = replace(case.plan, final=False)
    means_of: dict[_Key, list[float]] = {(row.measure, row.method): [] for row in rows}
    for fold in (*result.folds, everything):
        parts = cross_validation(fold.train, inner, seed=plan.seed)
        for row in run_experiment(prepared.pool, parts, plan, traced=False).rows:
            if row.method != OPTIMAL:
                means_of[row.measure, row.method].append(row.mean)
    return {key: np.array(means) for key, means in means_of.items()}


def _all_topics(row: Row) -> float:
    """Return a method's mean on all topics: that of its final fit, or of the default."""
    if row.method == DEFAULT:
        return row.mean
    return math.nan if row.final is None else row.final.train_value


def _rows(
    results: Mapping[int, CollectionResult],
    scores: Mapping[int, dict[_Key, Doubles]],
    remaining: _RemainingCases,
) -> Iterator[ChosenRow]:
    """Choose a case for each measure, method and fold, among those that the fold's race did not drop."""
    sizes = [len(fold.test) for fold in results[0].folds]
    parts = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    for key in scores[0]:
        rows = ((case, row) for case, result in results.items() for row in result.rows)
        rows_by_case = {case: row for case, row in rows if (row.measure, row.method) == key}
        missing = np.full(len(sizes) + 1, np.nan)
        table = np.stack([scores[case].get(key, missing) for case in range(len(scores))])
        for fold, left in enumerate(remaining.get(key[0], ()) if key[1] != DEFAULT else ()):
            table[[case not in left for case in range(len(results))], fold] = np.nan
        *picks, final = np.argmax(np.nan_to_num(table, nan=-1.0), axis=0).tolist()
        values = np.concatenate(
            [rows_by_case[pick].values[part] for pick, part in zip(picks, parts, strict=True)]
        )
        fit = rows_by_case[final].final
        row = replace(
            rows_by_case[0],
            values=values,
            fits=tuple(rows_by_case[pick].fits[number] for number, pick in enumerate(picks)),
            final=fit and replace(fit, test_value=float(values.mean())),
            cautions=tuple(sorted({caution for pick in picks for caution in rows_by_case[pick].cautions})),
        )
        trained = [table[pick, number] for number, pick in enumerate(picks)]
        yield ChosenRow(row, tuple(picks), final, float(np.average(trained, weights=sizes)))


def _prove(
    cases: Sequence[Case],
    results: Sequence[CollectionResult],
    split: Split,
    tolerance: float,
    progress: Progress,
) -> Iterator[tuple[tuple[Measure, int], CaseProof]]:
    """Certify every case on all topics. The best case comes first, so that worse ones are discarded early."""
    known: dict[tuple[Measure, int], list[dict[str, float]]] = {}
    values: dict[tuple[Measure, int], float] = {}
    for number, result in enumerate(results):
        rows = [row for row in result.rows if row.final is not None]
        for measure, group in groupby(rows, key=lambda row: row.measure):
            finals = [row.final for row in group if row.final is not None]
            known[measure, number] = [fit.params for fit in finals]
            values[measure, number] = max(fit.train_value for fit in finals)
    best: dict[Measure, float] = {}
    order = sorted(
        {number for _, number in values},
        key=lambda number: -max(values.get((m, number), 0.0) for m, _ in values),
    )
    for done, number in enumerate(order):
        case = cases[number]
        progress("proving cases", done, len(order))
        with timed(f"{case}: bounded"):
            try:
                proof_of(find_model(case.plan.model).formula)
            except InputError:
                continue
            prepared = prepare(case.collection, split, case.plan)
            for measure in case.plan.measures:
                if (measure, number) not in values:
                    continue
                beat = max(best.get(measure, 0.0), max(v for (m, _), v in values.items() if m == measure))
                optimum = CertifiedOptimum(
                    measure,
                    tolerance=tolerance,
                    space=case.plan.space,
                    starts=known[measure, number],
                    depth=case.plan.depth,
                    beat=beat,
                ).fit(prepared.pool)
                best[measure] = max(beat, optimum.best_value_)
                yield (measure, number), CaseProof(optimum.best_value_, optimum.bound_, optimum.n_boxes_)
                if optimum.stopped_ is not None:
                    return
    progress("proving cases", len(order), len(order))


PARAMETERS, INTERACTIONS = "parameters", "interactions"
"""Factors besides the categorical parameters: tuned or default parameters, and all interactions."""

_CONFIDENCE = 0.95


class Effect(NamedTuple):
    """The effect of a factor on held-out means.

    Attributes
    ----------
    factor : str
        A categorical parameter, ``"parameters"``, or ``"interactions"``, which has only a share.
    share : float
        The share of the variance of the cells' means that the factor explains.
    best, worst : str
        The levels with the highest and the lowest mean over their cells.
    difference : float
        The difference of these means.
    interval : (float, float)
        The 95% confidence interval of the difference over topics, by Student's t.
    """

    factor: str
    share: float
    best: str = ""
    worst: str = ""
    difference: float = 0.0
    interval: tuple[float, float] = (0.0, 0.0)


def effects(result: ChoiceResult, key: _Key) -> list[Effect]:
    """Decompose the held-out means of all cases, tuned and default; empty if a case was not tuned."""
    if len(result.known_rows(key)) < len(result.cases):
        return []
    methods = {"tuned": key, "default": (key[0], DEFAULT)}
    levels = {choice.name: choice.values for choice in result.choices} | {PARAMETERS: tuple(methods)}
    values = np.array(
        [
            [result.case_row(row_key, case).values for row_key in methods.values()]
            for case in range(len(result.cases))
        ]
    )
    return list(decompose(values.reshape(*map(len, levels.values()), -1), levels))


def decompose(values: Doubles, levels: Mapping[str, Sequence[str]]) -> Iterator[Effect]:
    """Yield each factor's effect, then that of all interactions together.

    In a full factorial design, the sum of squares of the cells' means is the total of the factors' sums of
    squares and that of the interactions (Montgomery, Design and Analysis of Experiments, chapter 5). A
    factor's sum of squares is the sum over levels of the number of cells times the squared difference of the
    level's mean from the grand mean.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (levels of each factor ..., topics)
        The value of each cell on each topic.
    levels : mapping of str to sequence of str
        The factors' levels, in the order of the axes.
    """
    cells = values.mean(axis=-1)
    grand = float(cells.mean())
    whole = float(((cells - grand) ** 2).sum())
    rest = 1.0 if whole > 0.0 else 0.0
    for axis, (factor, names) in enumerate(levels.items()):
        by_level = np.moveaxis(values, axis, 0).reshape(len(names), -1, values.shape[-1]).mean(axis=1)
        means = by_level.mean(axis=1)
        squares = cells.size / len(names) * float(((means - grand) ** 2).sum())
        share = squares / whole if whole > 0.0 else 0.0
        rest -= share
        best, worst = int(means.argmax()), int(means.argmin())
        yield Effect(
            factor,
            share,
            names[best],
            names[worst],
            float(means[best] - means[worst]),
            mean_interval(by_level[best], by_level[worst], _CONFIDENCE),
        )
    yield Effect(INTERACTIONS, max(0.0, rest))
