"""The comparison of Metzler (SIGIR 2007), Table 1: Direct, RankNet, Approx and Optimal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold
from lmtune.errors import InputError
from lmtune.measures.evaluate import lacks_nonrelevant, measure_settings
from lmtune.measures.measure import Measure
from lmtune.measures.significance.tests import FEWEST, paired_t_test
from lmtune.models.model import described, find_model
from lmtune.models.parameter import Setting
from lmtune.parallel import Task, in_order, run_all, width
from lmtune.progress import Progress, note, silent, staged
from lmtune.tuning.experiment.methods import Choice, FoldMethods, KnownLists, Shared, Steps, compile_smooth
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.profiles import near_optimal
from lmtune.tuning.experiment.result import (
    APPROX,
    DEFAULT,
    DIRECT,
    EDGE,
    OPTIMAL,
    RANKNET,
    STAND_INS,
    STOPPED,
    CollectionResult,
    Fit,
    Row,
    at_most,
)
from lmtune.tuning.grid import KnownValues, Surface, together
from lmtune.tuning.pairs import Pairs
from lmtune.tuning.surrogate import smooth_form

if TYPE_CHECKING:
    import pandas as pd


def run_experiment(
    pool: CandidatePool,
    folds: Sequence[Fold],
    plan: Plan,
    *,
    notes: Sequence[str] = (),
    progress: Progress | bool = silent,
    traced: bool = True,
) -> CollectionResult:
    """Choose parameters on training topics by every method; report them on test topics.

    Direct is a full grid, then coordinate ascents from its best points and from random ones; Approx
    follows the gradient of each measure's smooth form, see `SurrogateTuner`; `Plan.also` adds
    gradient-free descents, each from the same start with a budget of evaluations. Optimal is the
    best grid point on the test topics themselves, or another row's setting, in the range, where that is
    better still: the upper bound that no honest method may use. With `Plan.certify` it is searched for and
    proven to be that near the best possible; Ctrl-C ends such a proof and those to come, not the
    experiment. With `Plan.final` every method but Optimal is at last fitted to the topics of all folds:
    settings to use, whose quality the rows estimate. Default is the plan's baseline, if it has one: it is
    measured on the same test topics, and nothing is fitted.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    folds : sequence of Fold
        Their test topics are disjoint.
    plan : Plan
        How to search.
    notes : sequence of str
        Put before this function's own.
    progress : Progress or bool
        Called with (stage, done, total), and where a certificate stands as ``detail``.
    traced : bool
        Keep the searches' traces. The rows are the same without, and sooner there: no iterate of a
        descent is measured.

    Returns
    -------
    CollectionResult

    Raises
    ------
    InputError
        Where the pool was extracted for another model than the plan's; where no measure can be told from
        its judgements.
    """
    if find_model(plan.model).formula.name != pool.formula.name:
        raise InputError(
            f"the candidates were extracted for {pool.formula.name}",
            value=plan.model,
            accepted="one model for candidates and plan",
        )
    measures = [measure for measure in plan.measures if not lacks_nonrelevant(pool, measure)]
    left_out = [measure.title for measure in plan.measures if measure not in measures]
    if not measures:
        raise InputError(
            f"no document of {pool.name} is judged nonrelevant",
            value=", ".join(left_out),
            accepted="measures without judged nonrelevant documents, such as AP and nDCG@10",
        )
    if left_out:
        notes = [*notes, f"{', '.join(left_out)} left out: no document is judged nonrelevant"]
        note(f"{pool.name}: {notes[-1]}")
    plan, progress = replace(plan, measures=tuple(measures)), staged(progress)
    shared = replace(_prepare(pool, plan, len(folds), progress), traced=traced)
    parts = list(_run_folds(shared, folds))
    progress("tuning", 1, 1)
    traces = {name: table for part in parts for name, table in part.traces.items()}
    remarks: dict[str, list[str]] = {}
    for text, fold in (pair for part in parts for pair in part.remarks.items()):
        remarks.setdefault(text, []).append(fold)
    finals = {key: fit for key, (fit, _) in parts.pop().fits.items()} if plan.final else {}
    found = {key: [part.fits[key] for part in parts] for key in parts[0].fits}
    topics = tuple(topic for fold in folds for topic in fold.test)
    values = {key: np.concatenate([own for _, own in pairs]) for key, pairs in found.items()}
    rows = []
    for (measure, name), own in values.items():
        fits = tuple(fit for fit, _ in found[measure, name])
        cautions = _cautions(shared, name, fits)
        others = [other for other in (DIRECT, RANKNET) if other != name]
        tested = ((other, paired_t_test(own, values[measure, other])) for other in others)
        p_values = {other: p for other, p in tested if not math.isnan(p)}
        final = finals.get((measure, name))
        final = final and replace(final, test_value=float(own.mean()))
        rows.append(Row(measure, name, topics, own, fits, p_values, final, cautions))
    result = CollectionResult(pool.name, tuple(folds), tuple(rows), traces, (), plan.model, shared.surface)
    return replace(result, near=_near(shared, result), notes=(*notes, *_notes(shared, result, remarks)))


def default_result(
    pool: CandidatePool, folds: Sequence[Fold], plan: Plan, *, notes: Sequence[str] = ()
) -> CollectionResult:
    """Return an experiment's rows ``Default`` alone; nothing is searched.

    Parameters
    ----------
    pool, folds, plan, notes
        As for `run_experiment`.
    """
    given, topics = _default_of(plan), tuple(topic for fold in folds for topic in fold.test)
    rows = []
    for measure in plan.measures if given else ():
        if not lacks_nonrelevant(pool, measure):
            pairs = [
                _report(pool, partial(_values, pool, plan), plan, fold, measure, choice)
                for choice in given.values()
                for fold in folds
            ]
            fits = tuple(replace(fit, at_edge=()) for fit, _ in pairs)
            rows.append(Row(measure, DEFAULT, topics, np.concatenate([own for _, own in pairs]), fits))
    return CollectionResult(pool.name, tuple(folds), tuple(rows), {}, tuple(notes), plan.model)


def _near(shared: Shared, result: CollectionResult) -> dict[str, tuple[float, float]]:
    """Return the box of settings that are not significantly worse than what is recommended."""
    row = result.recommended
    if row is None or row.setting is None:
        return {}
    topics = list(dict.fromkeys(topic for fold in result.folds for topic in (*fold.train, *fold.test)))
    values = shared.values(topics, row.measure, row.setting.params)
    places = shared.pool.positions(topics)
    return near_optimal(shared.surface, row.measure, places, row.setting.params, values)


def _prepare(pool: CandidatePool, plan: Plan, folds: int, progress: Progress) -> Shared:
    pairs = Pairs.build(pool, rel=plan.rel, stand_ins=plan.stand_ins)
    # The first call compiles; a topic shows how long that takes before the bars move.
    progress("compiling kernels, once", 0, 1)
    first = pool.positions()[:1]
    pairs.cost(plan.space.start, topics=first)
    measure_settings(pool, plan.space.start, plan.measures, topics=first, depth=plan.depth)
    lists: KnownLists = {}
    if plan.approx:
        compile_smooth(lists, pool, plan)
    progress("compiling kernels, once", 1, 1)
    surface = Surface.compute(
        pool,
        plan.measures,
        space=plan.grid_space,
        shape=plan.grid,
        depth=plan.depth,
        progress=lambda done, total: progress("grid", done, total),
    )
    steps = Steps.of(plan, folds, progress)
    known = [KnownValues.on(surface, pool, own, plan.depth) for own in together(plan.measures)]
    return Shared(pool, plan, progress, pairs, surface, steps, plan.certify, known, lists=lists)


class _FoldResult(NamedTuple):
    """What the methods chose on a fold, and each test topic's values with that."""

    fits: dict[tuple[Measure, str], tuple[Fit, Doubles]]
    traces: dict[str, pd.DataFrame]
    remarks: dict[str, str]


def _run_folds(shared: Shared, folds: Sequence[Fold]) -> Iterator[_FoldResult]:
    """Run the methods on each fold, and at last, where the plan says so, on the topics of all."""
    used = {topic for fold in folds for topic in (*fold.train, *fold.test)}
    everything = Fold(tuple(topic for topic in shared.pool.topics if topic in used), ())
    every = [*folds, everything] if shared.plan.final else folds
    tasks: list[Task] = [(_run_fold, {"number": n, "fold": fold}) for n, fold in enumerate(every)]
    spread, progress = width() > 0, shared.progress
    if spread:
        shared = replace(shared, progress=silent, steps=replace(shared.steps, progress=silent))
    for done, part in enumerate(in_order(run_all(tasks, shared=shared)), 1):
        if spread:
            progress("tuning", done, len(every))
        yield part


def _run_fold(shared: Shared, number: int, fold: Fold) -> _FoldResult:
    methods, fits = FoldMethods(shared, number, fold), {}
    chosen = {measure: methods.choose(measure) for measure in shared.plan.measures}
    if fold.test:
        chosen = {measure: _default_of(shared.plan) | own for measure, own in chosen.items()}
    shared.measure(fold.train, chosen)
    shared.measure(fold.test, chosen)
    for measure, own in chosen.items():
        if fold.test:
            inside = [c for c in own.values() if shared.plan.space.holds(c.params)]
            own[OPTIMAL] = methods.optimal(measure, inside)
        for row, choice in own.items():
            fit, values = _report(shared.pool, shared.values, shared.plan, fold, measure, choice)
            fits[measure, row] = replace(fit, at_edge=() if row == DEFAULT else fit.at_edge), values
    return _FoldResult(fits, methods.traces, methods.remarks)


def _default_of(plan: Plan) -> dict[str, Choice]:
    """Return the row that nothing chose, if the plan has it."""
    return {} if plan.baseline is None else {DEFAULT: Choice(dict(plan.baseline), 0)}


def _report(
    pool: CandidatePool,
    values: Callable[..., Doubles],
    plan: Plan,
    fold: Fold,
    measure: Measure,
    choice: Choice,
) -> tuple[Fit, Doubles]:
    """Measure a choice on the training and test topics; the latter's values, if any, come with it."""
    train = pool.mean(values(fold.train, measure, choice.params), pool.positions(fold.train))
    test = values(fold.test, measure, choice.params) if fold.test else np.array([math.nan])
    edges = tuple(plan.space.at_edge(list(choice.params.values())))
    means = float(train), float(test.mean())
    return Fit(choice.params, *means, choice.evaluations, edges, choice.bound, choice.step), test


def _values(
    pool: CandidatePool, plan: Plan, topics: Sequence[str], measure: Measure, params: Setting
) -> Doubles:
    places, drawn = pool.positions(topics), pool.drawn_at(params)
    return measure_settings(drawn, params, [measure], topics=places, depth=plan.depth)[:, 0, 0]


def _cautions(shared: Shared, method: str, fits: Sequence[Fit]) -> tuple[str, ...]:
    found = {
        STAND_INS: method in (RANKNET, STOPPED) and shared.pairs.are_stand_ins,
        EDGE: method == RANKNET and any(fit.at_edge for fit in fits),
    }
    return tuple(caution for caution, holds in found.items() if holds)


def _notes(shared: Shared, result: CollectionResult, remarks: Mapping[str, Sequence[str]]) -> Iterator[str]:
    plan, rows = shared.plan, result.rows
    yield from described(plan.model)
    yield f"RankNet pairs: {shared.pairs.rule}"
    if plan.approx and (rough := [m.title for m in plan.measures if smooth_form(m).measure.kind != m.kind]):
        yield f"Approx follows a smooth MAP for {', '.join(rough)}: no smooth form of its own"
    if plan.certify is not None:
        for row in (row for row in rows if row.method == OPTIMAL):
            near = [o for o in rows if o.measure == row.measure and o.method in (DIRECT, APPROX)]
            yield _proof(row, near, result.bound(row), plan.certify)
    untested = [row.method for row in rows if row.method != DIRECT and DIRECT not in row.p_values]
    if names := ", ".join(dict.fromkeys(untested)):
        yield (
            f"{names} against {DIRECT}: no test of fewer than {FEWEST} topics, or of one difference on all"
        )
    for method in dict.fromkeys(row.method for row in rows if row.method not in (OPTIMAL, DEFAULT)):
        fits = [fit for row in rows if row.method == method for fit in row.fits]
        if edges := sorted({edge for fit in fits for edge in fit.at_edge}):
            yield f"{method} ended on the edge of the range: {', '.join(edges)}"
    for text, numbers in remarks.items():
        yield f"{text} in {', '.join(numbers)}"


def _proof(row: Row, near: Sequence[Row], bound: float | None, tolerance: float) -> str:
    """Say what the certificates of Optimal, one a fold, prove of the table's means."""
    fits, title = row.fits, row.measure.title
    if bound is None:
        return f"{title}: Optimal is not certified: interrupted"
    gap = bound - row.mean
    each = "" if len(fits) == 1 else ", chosen for each fold,"
    short = "" if gap <= tolerance else f", not the {tolerance:g} asked for"
    names = ", ".join(fits[0].params)
    within = ", ".join(f"{own.method} is within {at_most(bound - own.mean)}" for own in near)
    return (
        f"{title}: no ({names}) in the range{each} gives more than {at_most(bound)} (gap {gap:.4f}{short}): "
        f"{within} of the best possible"
    )
