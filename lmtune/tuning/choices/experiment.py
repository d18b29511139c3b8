"""Choose analysis and model within each fold; race the cases, prove the best, and decompose the effects."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby, product
from typing import Any, NamedTuple

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.collection import Collection
from lmtune.collections.folds import Fold, cross_validation
from lmtune.errors import InputError
from lmtune.measures.measure import Measure
from lmtune.measures.significance.tests import mean_interval, paired_t_test
from lmtune.models.model import OF_FIELDS, find_model, named_model
from lmtune.models.taylor_kernels import Sides
from lmtune.models.two_stage import TWO_STAGE
from lmtune.progress import Progress, silent, timed
from lmtune.showing import Plotted
from lmtune.threads import over_places
from lmtune.tuning.certificate.branch_and_bound import Box, bound_part, parts_of, whole
from lmtune.tuning.certificate.optimum import CertifiedOptimum, check_uncertified
from lmtune.tuning.certificate.problem import Problem, proof_of
from lmtune.tuning.direct import Surface
from lmtune.tuning.experiment.plan import Plan, Split
from lmtune.tuning.experiment.preparation import Prepared, prepare
from lmtune.tuning.experiment.result import DEFAULT, OPTIMAL, CollectionResult, Row
from lmtune.tuning.experiment.run import default_result, run_experiment
from lmtune.tuning.space import ANALYSIS, EXPAND, MODEL, NONE, Choice, ParameterSpace

_MOST = 256


@dataclass(frozen=True)
class Case:
    """A value of every choice, and what is tuned with it.

    Attributes
    ----------
    values : dict of str to str
        Of each choice by name.
    collection : Collection
        With its analysis and fields.
    plan : Plan
        Of its model.
    """

    values: dict[str, str]
    collection: Collection
    plan: Plan

    def __str__(self) -> str:
        return case_name(self.values)


def case_name(values: Mapping[str, str]) -> str:
    """Name a case by its value of every choice."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def make_cases(
    choices: Sequence[Choice] | ParameterSpace,
    collection: Collection,
    plan: Mapping[str, Any],
    **of_model: Callable[[str], Any],
) -> list[Case]:
    """Combine all values of all choices, the usual ones first.

    Parameters
    ----------
    choices : sequence of Choice, or ParameterSpace
        Each of another name; a space's, whose ranges then are the plan's.
    collection : Collection
        What is not chosen of it holds for all.
    plan : mapping of str to object
        `Plan`'s arguments by name; ``certify`` is of the union of cases, not of one.
    **of_model : callable
        Further arguments, which depend on the model's name.

    Raises
    ------
    InputError
        For a choice that comes twice or that something else contradicts, an unknown stemmer, model or field,
        and more than 256 cases.
    """
    if isinstance(choices, ParameterSpace):
        searched = [own for own in choices.parameters if not own.share and not own.is_counted]
        plan = {**plan, "ranges": {own.name: (own.low, own.high) for own in searched}}
        choices = choices.choices
    names = [choice.name for choice in choices]
    for choice in choices:
        given = plan.get(MODEL) if choice.name == MODEL else _option(collection, choice.name)
        if names.count(choice.name) > 1 or given:
            raise InputError(
                f"{choice.name} is given twice", value=choice.name, accepted="it once, to --choose from"
            )
    combined = list(product(*(choice.values for choice in choices)))
    if len(combined) > _MOST:
        raise InputError("too many combinations of choices", value=len(combined), accepted=f"{_MOST} at most")
    return list(_cases(combined, names, collection, plan, of_model))


def _cases(
    combined: Sequence[Sequence[str]],
    names: Sequence[str],
    collection: Collection,
    plan: Mapping[str, Any],
    of_model: Mapping[str, Callable[[str], Any]],
) -> Iterator[Case]:
    for values in combined:
        case = dict(zip(names, values, strict=True))
        own: dict[str, Any] = {
            name.replace("-", "_"): _parsed(name, value) for name, value in case.items() if name in ANALYSIS
        }
        analysed = replace(collection, **own)
        analysed.analyzer()
        model = case.get(MODEL, plan.get(MODEL, TWO_STAGE.name))
        model = named_model(model, analysed.fields if model in OF_FIELDS or MODEL not in case else ())
        if case.get(EXPAND, NONE) != NONE:
            model += f"+{case[EXPAND]}"
        more = {name: made(model) for name, made in of_model.items()}
        yield Case(case, analysed, Plan(**{"baseline": {}, **plan, **more, MODEL: model, "certify": None}))


def _option(collection: Collection, name: str) -> Any:
    """Return what is said of a choice elsewhere."""
    if name not in ANALYSIS or name == "topic-fields":
        return None
    return getattr(collection, name)


def _parsed(name: str, value: str) -> str | tuple[str, ...] | None:
    if not name.endswith("fields"):
        return value
    return () if value == NONE else tuple(value.split("+"))


_SETTINGS = 16
"""That the first round of halving measures of each case; each round doubles them."""
_LAST = 2
"""Cases that halving leaves to be tuned."""
_BOXES = 512
"""That a case is bounded by at most; tuning it costs about as much."""

_Figures = Mapping[Measure, Doubles]
"""A figure each fold, and one of all topics, by measure."""
_Alive = Mapping[Measure, Sequence[set[int]]]
"""The cases left on each fold, and on all topics, by measure."""


def look(ready: Prepared, case: Case, settings: int = _SETTINGS) -> dict[Measure, Doubles]:
    """Return the best mean of so many settings of a case, on each fold's training topics and on all."""
    plan = case.plan
    surface = Surface.compute(
        ready.pool, plan.measures, space=plan.grid_space, shape=(settings,), depth=plan.depth
    )
    parts = [ready.pool.positions(topics) for topics in _compared_on(ready.folds)]
    return {
        measure: np.array([surface.means(measure, part).max() for part in parts])
        for measure in surface.measures
    }


def _compared_on(folds: Sequence[Fold]) -> list[list[str]]:
    """Return the topics that each choice is made on: each fold's training topics, and all at last."""
    everything = dict.fromkeys(topic for fold in folds for topic in (*fold.train, *fold.test))
    return [*(list(fold.train) for fold in folds), list(everything)]


def halve(cases: int, look_at: Callable[[int, int], _Figures]) -> dict[Measure, list[set[int]]]:
    """Drop the worse half of the cases again and again, which are measured at twice as many settings.

    Rounds cost the same. Each fold has a race of its own, on its training topics (sequential halving of
    Karnin et al. 2013, as Jamieson and Talwalkar 2016 have it for searches: the best of many settings
    nears a case's optimum).

    Parameters
    ----------
    cases : int
        How many.
    look_at : callable
        Takes a case and a number of settings, and returns its figures.

    Returns
    -------
    dict of Measure to list of set of int
        The cases left, `_LAST` at most, on each fold and on all topics.
    """
    settings, left = _SETTINGS, set(range(cases))
    alive: dict[Measure, list[set[int]]] = {}
    while not alive or any(len(own) > _LAST for races in alive.values() for own in races):
        seen = {case: look_at(case, settings) for case in sorted(left)}
        for measure, first in seen[min(left)].items():
            races = alive.setdefault(measure, [set(range(cases)) for _ in first])
            for place, own in enumerate(races):
                kept = max(_LAST, -(-len(own) // 2))
                races[place] = set(sorted(own, key=lambda c: (-seen[c][measure][place], c))[:kept])
        left = set().union(*(own for races in alive.values() for own in races))
        settings *= 2
    return alive


def beaten(
    pool: CandidatePool, folds: Sequence[Fold], case: Case, goals: _Figures
) -> dict[Measure, tuple[float, int]] | None:
    """Prove that no setting of a case reaches any of the goals, all of them by one branch and bound.

    Parameters
    ----------
    pool : CandidatePool
        The case's.
    folds : sequence of Fold
        Whose training topics the goals are of.
    case : Case
        With its model and range.
    goals : mapping
        A mean by measure, of each fold and of all topics.

    Returns
    -------
    dict of Measure to (float, int), or None
        What no setting exceeds on all topics, and the boxes that it took; None where some setting may reach
        a goal or that takes too many boxes to tell, and for a model without a certificate.
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
        found = _below(problem, weights * (1.0 + len(parts[-1]) * 2.0**-51), least)
        if found is None:
            return None
        bounds[measure] = found
    return bounds


def _below(problem: Problem, weights: Doubles, goals: Doubles) -> tuple[float, int] | None:
    """Bound weighted means of topics, a row of weights each, below their goals.

    Returns the last one's bound and the number of boxes; None where they are not below.
    """
    highest, left, boxes = 0.0, [whole(problem)], 0
    while left:
        jobs = [(box, sides) for box in left for sides in parts_of(problem, box, boxes)]
        boxes += len(jobs)
        if boxes > _BOXES or any(box.final for box in left):
            return None
        parts = over_places(partial(_part, problem, jobs), len(jobs))
        left = []
        for box in parts:
            means = weights @ box.bounds
            if (means < goals).all():
                highest = max(highest, float(means[-1]))
            else:
                left.append(box)
    return highest, boxes


def _part(problem: Problem, jobs: Sequence[tuple[Box, Sides]], place: int) -> Box:
    return bound_part(problem, *jobs[place])


_Key = tuple[Measure, str]
"""A measure and a method."""


class CaseProof(NamedTuple):
    """What branch and bound over the union of all cases shows of one of them, on all topics.

    Attributes
    ----------
    value : float
        The best mean measured of it; 0 of one that was not tuned.
    bound : float
        No setting in its range has a higher mean. Of a case that is discarded it is only as low as that
        takes.
    boxes : int
        How many were bounded.
    """

    value: float
    bound: float
    boxes: int


@dataclass(frozen=True)
class ChosenRow:
    """The whole procedure, by one method for one measure: the choice on training topics is part of it.

    Attributes
    ----------
    row : Row
        Its values are those of each fold's choice on test topics, its fits those choices'; p-values are
        against the first case tuned in the same way, ``"Tuned"``, and untuned, ``"Default"``.
    picks : tuple of int
        The case chosen on each fold, by its number.
    final : int
        The case chosen on the topics of all folds.
    score : float
        The mean over folds, weighted by test topics, of what the chosen case had on training topics.
    """

    row: Row
    picks: tuple[int, ...]
    final: int
    score: float


@dataclass(frozen=True, repr=False)
class ChoiceResult(Plotted, by="choice_tables.choice"):
    """What choosing among cases gave on a collection.

    Attributes
    ----------
    name : str
        The collection.
    choices : tuple of Choice
        What was chosen from.
    cases : tuple of Case
        Every combination, the usual one first.
    results : tuple of CollectionResult
        The experiment on each; of a case that a race left untuned, its default alone.
    rows : tuple of ChosenRow
        The procedure, measure by measure and method by method.
    proofs : dict of (Measure, int) to CaseProof
        Of cases by their number, where they were asked for and the model has one.
    inner : int
        Inner folds that cases were compared on; 0 where it was their training value.
    race : bool
        Whether cases were left untuned that a bound excludes or successive halving drops.
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
        """Return a case's row of a measure and method; of an untuned case there is its default's alone."""
        return self.known_rows(key)[case]

    def known_rows(self, key: _Key) -> dict[int, Row]:
        """Return the rows of a measure and method, by the case's number."""
        rows = ((case, row) for case, result in enumerate(self.results) for row in result.rows)
        return {case: row for case, row in rows if (row.measure, row.method) == key}

    @cached_property
    def recommended(self) -> ChosenRow | None:
        """The row of the first defined measure with the best mean held out, the choice made in each fold."""
        return _best(self.rows)

    @cached_property
    def tuned(self) -> ChosenRow | None:
        """The best row of a method that tunes, by the same rule."""
        return _best([one for one in self.rows if one.row.method != DEFAULT])

    def best_value(self, measure: Measure) -> float:
        """Return the best mean on all topics that any case's proof measured."""
        return max(proof.value for (own, _), proof in self.proofs.items() if own == measure)

    def bound(self, measure: Measure) -> float | None:
        """Return what no case and setting exceeds on all topics; None unless all cases have a proof."""
        bounds = [proof.bound for (own, _), proof in self.proofs.items() if own == measure]
        return max(bounds) if len(bounds) == len(self.cases) else None


def _best(rows: Sequence[ChosenRow]) -> ChosenRow | None:
    rows = [one for one in rows if one.row.measure == rows[0].row.measure]
    return max(rows, key=lambda one: (round(one.row.mean, 4), -one.row.evaluations), default=None)


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
    """Tune every case; choose among them on each fold's training topics, and on all at last.

    So held-out means estimate the whole procedure, the choice included. By each method a fold takes the
    case with the best mean on its training topics, or, with inner folds of these, with the best mean held
    out there, which does not favour models of many parameters.

    Parameters
    ----------
    choices : sequence of Choice
        What is chosen from.
    cases : sequence of Case
        As `lmtune.tuning.choices.experiment.make_cases` makes them.
    split : Split
        Training and test topics.
    inner : int
        Inner folds, 0 or 2 and more.
    certify : float, optional
        Prove on all topics, over the union of all cases, that no setting is better than the best by more.
    race : bool
        Tune the first case and those that have a chance. With `certify` only those are left out that are
        proven to be chosen by no method on any fold; else successive halving says, see
        `lmtune.tuning.choices.experiment.halve`.
    progress : Progress or bool
        Called with (stage, done, total).

    Returns
    -------
    ChoiceResult, and Prepared
        The latter of the case that the recommended row chose at last.

    Raises
    ------
    InputError
        For one inner fold, a race beside inner folds, a certificate of a measure without one, and what the
        experiment refuses.
    """
    if inner == 1 or inner < 0:
        raise InputError("bad --inner-folds", value=inner, accepted="0, or 2 and more")
    if inner and race:
        raise InputError("--race beside --inner-folds", value=inner, accepted="one of them")
    if split.topic_weights is not None:
        check_uncertified(certify)
    if certify is not None:
        for measure in cases[0].plan.measures:
            Problem.check(measure)
    search = _Search(cases, split, inner, progress if callable(progress) else silent)
    proofs: dict[tuple[Measure, int], CaseProof] = {}
    alive: _Alive = {}
    if race and certify is None:
        alive = halve(len(cases), search.look)
        search.tune_all({0}.union(*(own for races in alive.values() for own in races)))
    elif race:
        proofs = dict(search.tune_unbeaten())
    else:
        search.tune_all(range(len(cases)))
    numbers = range(len(cases))
    rows = tuple(_rows(search.results, search.scores, alive))
    best = _best(rows)
    used = 0 if best is None else best.final
    with search.ready(used) as (case, ready):
        if all(row.method == DEFAULT for row in search.results[used].rows):
            search.tune(used, case, ready)  # its default is best, but its folder holds all
    results = tuple(search.results[number] for number in numbers)
    if certify is not None:
        proofs |= dict(_prove(cases, results, split, certify, search.progress))
    chosen = tuple(choices), tuple(cases)
    return ChoiceResult(results[0].name, *chosen, results, rows, proofs, inner, race), ready


@dataclass
class _Search:
    """Cases as they are tuned, or not; results, and what they are chosen by, by their numbers."""

    cases: Sequence[Case]
    split: Split
    inner: int
    progress: Progress
    results: dict[int, CollectionResult] = field(default_factory=dict)
    scores: dict[int, dict[_Key, Doubles]] = field(default_factory=dict)

    @contextmanager
    def ready(self, number: int) -> Iterator[tuple[Case, Prepared]]:
        """Prepare a case."""
        case = self.cases[number]
        how: Any = {"beside": [case.collection.analyzer() for case in self.cases], "progress": self.progress}
        yield case, prepare(case.collection, self.split, case.plan, **how)

    def look(self, number: int, settings: int = _SETTINGS) -> _Figures:
        """Return a case's figures for `halve`."""
        with self.ready(number) as (case, ready):
            return look(ready, case, settings)

    def tune_all(self, numbers: Container[int]) -> None:
        """Tune these cases, and leave the others."""
        for number in range(len(self.cases)):
            with self.ready(number) as (case, ready):
                self.tune(number, case, ready) if number in numbers else self.leave(number, case, ready)

    def tune_unbeaten(self) -> Iterator[tuple[tuple[Measure, int], CaseProof]]:
        """Tune the cases, the promising first, but those that are proven to lose to one; yield the proofs.

        Whatever the method, on no fold and not on all topics would such a case be chosen: the choices
        are those of a full search.
        """
        with self.ready(0) as (case, ready):
            self.tune(0, case, ready)
        seen = {number: self.look(number) for number in range(1, len(self.cases))}
        first = next(iter(next(iter(seen.values()))))
        for number in sorted(seen, key=lambda number: -seen[number][first][-1]):
            with self.ready(number) as (case, ready):
                goals = self._goals()
                bounds = None
                if all((seen[number][measure] < least).all() for measure, least in goals.items()):
                    bounds = beaten(ready.pool, ready.folds, case, goals)
                if bounds is None:
                    self.tune(number, case, ready)
                    continue
                self.leave(number, case, ready)
            for measure, (bound, boxes) in bounds.items():
                yield (measure, number), CaseProof(0.0, bound, boxes)

    def _goals(self) -> _Figures:
        """Return what every method has reached at the least, by its best case."""
        best: dict[_Key, Doubles] = {}
        for scores in self.scores.values():
            for key, own in scores.items():
                best[key] = np.maximum(best.get(key, own), own)
        reached: dict[Measure, Doubles] = {}
        for (measure, method), own in best.items():
            if method != DEFAULT:
                reached[measure] = np.minimum(reached.get(measure, own), own)
        return {measure: np.nan_to_num(own, nan=np.inf) for measure, own in reached.items()}  # no final fit

    def tune(self, number: int, case: Case, ready: Prepared) -> None:
        """Tune a case by all methods."""
        told = _told(self.progress, f"case {number + 1} of {len(self.cases)}")
        with timed(f"{case}: tuned"):
            result = run_experiment(
                ready.pool, ready.folds, case.plan, notes=ready.notes, progress=told, traced=False
            )
        self.results[number], self.scores[number] = result, _scores(result, ready, case, self.inner)

    def leave(self, number: int, case: Case, ready: Prepared) -> None:
        """Measure a case at its default alone."""
        result = default_result(ready.pool, ready.folds, case.plan, notes=ready.notes)
        self.results[number], self.scores[number] = result, _scores(result, ready, case, self.inner)


def _told(progress: Progress, case: str) -> Progress:
    """Put a case's number before what its experiment tells."""
    return lambda stage, done, total, detail="": progress(f"{case}, {stage}", done, total, detail)


def _scores(result: CollectionResult, ready: Prepared, case: Case, inner: int) -> dict[_Key, Doubles]:
    """Return what a case is chosen by: a figure a fold, and one of all topics."""
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
    found: dict[_Key, list[float]] = {(row.measure, row.method): [] for row in rows}
    for fold in (*result.folds, everything):
        parts = cross_validation(fold.train, inner, seed=plan.seed)
        for row in run_experiment(ready.pool, parts, plan, traced=False).rows:
            if row.method != OPTIMAL:
                found[row.measure, row.method].append(row.mean)
    return {key: np.array(means) for key, means in found.items()}


def _all_topics(row: Row) -> float:
    """Return a method's mean on all topics: of its final fit, or of the default, whose setting is one."""
    if row.method == DEFAULT:
        return row.mean
    return math.nan if row.final is None else row.final.train_value


def _rows(
    results: Mapping[int, CollectionResult], scores: Mapping[int, dict[_Key, Doubles]], alive: _Alive
) -> Iterator[ChosenRow]:
    """Choose, for each measure and method, among the tuned cases, or those that a fold's race left."""
    sizes = [len(fold.test) for fold in results[0].folds]
    parts = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    for key in scores[0]:
        rows = ((case, row) for case, result in results.items() for row in result.rows)
        own = {case: row for case, row in rows if (row.measure, row.method) == key}
        untold = np.full(len(sizes) + 1, np.nan)
        table = np.stack([scores[case].get(key, untold) for case in range(len(scores))])
        for place, left in enumerate(alive.get(key[0], ()) if key[1] != DEFAULT else ()):
            table[[case not in left for case in range(len(results))], place] = np.nan
        *picks, final = np.argmax(np.nan_to_num(table, nan=-1.0), axis=0).tolist()
        values = np.concatenate([own[pick].values[part] for pick, part in zip(picks, parts, strict=True)])
        default = next(row for row in results[0].rows if row.measure == key[0])
        others, fit = {"Tuned": own[0], DEFAULT: default}, own[final].final
        tested = {name: paired_t_test(values, other.values) for name, other in others.items()}
        row = replace(
            own[0],
            values=values,
            fits=tuple(own[pick].fits[number] for number, pick in enumerate(picks)),
            p_values={name: p for name, p in tested.items() if not math.isnan(p)},
            final=fit and replace(fit, test_value=float(values.mean())),
            cautions=tuple(sorted({caution for pick in picks for caution in own[pick].cautions})),
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
    """Bound every case's best on all topics; the best first, which lets others be discarded early."""
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
            ready = prepare(case.collection, split, case.plan)
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
                ).fit(ready.pool)
                best[measure] = max(beat, optimum.best_value_)
                yield (measure, number), CaseProof(optimum.best_value_, optimum.bound_, optimum.n_boxes_)
                if optimum.stopped_ is not None:
                    return
    progress("proving cases", len(order), len(order))


PARAMETERS, INTERACTIONS = "parameters", "interactions"
"""The factor of every case: tuned, or at its default; and what no factor explains alone."""

_CONFIDENCE = 0.95


class Effect(NamedTuple):
    """What a factor moves.

    Attributes
    ----------
    factor : str
        A choice, ``"parameters"``, or ``"interactions"``, which has a share alone.
    share : float
        Of the variance of the cells' means over topics.
    best, worst : str
        The levels with the best and the worst mean over all their cells.
    difference : float
        Between these means.
    interval : (float, float)
        Its 95% interval over topics, by Student's t, for these two levels.
    """

    factor: str
    share: float
    best: str = ""
    worst: str = ""
    difference: float = 0.0
    interval: tuple[float, float] = (0.0, 0.0)


def effects(result: ChoiceResult, key: _Key) -> list[Effect]:
    """Decompose the held-out means of all cases, tuned by a method and at their defaults; none untuned."""
    if len(result.known_rows(key)) < len(result.cases):
        return []
    methods = {"tuned": key, "default": (key[0], DEFAULT)}
    levels = {choice.name: choice.values for choice in result.choices} | {PARAMETERS: tuple(methods)}
    values = np.array(
        [[result.case_row(own, case).values for own in methods.values()] for case in range(len(result.cases))]
    )
    return list(decompose(values.reshape(*map(len, levels.values()), -1), levels))


def decompose(values: Doubles, levels: Mapping[str, Sequence[str]]) -> Iterator[Effect]:
    """Yield each factor's effect, and that of all interactions together.

    In a full factorial design the sums of squares of the factors, each the cells of a level times the
    squared distance of the level's mean from the grand mean, and that of the interactions add up to the
    sum of squares of the cells' means (Montgomery, Design and Analysis of Experiments, chapter 5).

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (levels of each factor ..., topics)
        A cell's value on each topic.
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
