"""The comparison of Metzler (SIGIR 2007), Table 1: Direct, RankNet, Approx and Optimal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lmtune.arrays import Columns, Doubles, Integers, stack
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold
from lmtune.errors import InputError
from lmtune.measures.evaluate import lacks_nonrelevant, measure_settings
from lmtune.measures.measure import Measure
from lmtune.measures.significance.near_best import MARGIN, loss_bounds
from lmtune.models.model import describe_model, find_model
from lmtune.models.parameter import Setting
from lmtune.parallel import Task, in_task_order, run_all, width
from lmtune.progress import Count, Progress, no_count, note, silent, stage_callback
from lmtune.tuning.direct import Surface
from lmtune.tuning.experiment.methods import FoldChoice, FoldMethods, Shared
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import (
    APPROX,
    DEFAULT,
    DIRECT,
    EDGE,
    OPTIMAL,
    RANKNET,
    SAMPLED_NEGATIVES,
    STOPPED,
    CollectionResult,
    Fit,
    NearOptimal,
    Row,
    at_most,
)
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import smooth_form

if TYPE_CHECKING:
    pass


def run_experiment(
    pool: CandidatePool,
    folds: Sequence[Fold],
    plan: Plan,
    *,
    notes: Sequence[str] = (),
    progress: Progress | bool = silent,
    traced: bool = True,
) -> CollectionResult:
    """Tune parameters on training topics by every method; evaluate them on test topics.

    - Default is the plan's baseline, if it has one; it is not fitted.
    - Direct is a full grid, then coordinate ascents from its best points and from random settings.
    - RankNet minimises the cost of preference pairs, see `RankNetTuner`.
    - Approx minimises a smooth approximation of each measure, see `SurrogateTuner`.
    - Bagged, where `Plan.bags` says so, is the mean of the best grid settings of resampled training topics,
      see `lmtune.tuning.bagging.bagged_setting`.
    - `Plan.also` adds gradient-free searches with a budget of evaluations.
    - Optimal is an oracle, tuned on the test topics: the best of the grid points and the other rows' settings
      inside the ranges. With `Plan.certify`, it is searched for, and an upper bound is proven. Ctrl-C ends
      this proof and all later ones, but not the experiment.

    With `Plan.final`, every method except Optimal is finally fitted to the topics of all folds. These are the
    settings to use; the rows estimate their quality.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    folds : sequence of Fold
        Folds with disjoint test topics.
    plan : Plan
        Measures, model and searches.
    notes : sequence of str
        Notes to put before those of this function.
    progress : Progress or bool
        Called with (stage, done, total), and with the state of certificates as ``detail``.
    traced : bool
        Whether to store the searches' traces. Without them, rows are equal and faster, because iterates are
        not measured.

    Returns
    -------
    CollectionResult

    Raises
    ------
    InputError
        If the pool was extracted for another model, or no measure is defined by its judgments.
    """
    if find_model(plan.model).formula.name != pool.formula.name:
        raise InputError(
            f"the candidates were extracted for {pool.formula.name}",
            value=plan.model,
            accepted="the same model for candidates and plan",
        )
    measures = [measure for measure in plan.measures if not lacks_nonrelevant(pool, measure)]
    left_out = [measure.title for measure in plan.measures if measure not in measures]
    if not measures:
        raise InputError(
            f"{pool.name} has no judged non-relevant document",
            value=", ".join(left_out),
            accepted="measures without judged non-relevant documents, such as AP and nDCG@10",
        )
    if left_out:
        notes = [*notes, f"{', '.join(left_out)} skipped: there are no judged non-relevant documents"]
        note(f"{pool.name}: {notes[-1]}")
    plan = replace(plan, measures=tuple(measures), bag=plan.bags(folds))
    progress = stage_callback(progress)
    shared = Shared.of(pool, plan, len(folds), progress, traced=traced)
    parts = list(_run_folds(shared, folds))
    progress("tuning", 1, 1)
    traces = {name: table for part in parts for name, table in part.traces.items()}
    remarks: dict[str, list[str]] = {}
    for text, fold in (pair for part in parts for pair in part.remarks.items()):
        remarks.setdefault(text, []).append(fold)
    finals = {key: fit for key, (fit, _) in parts.pop().fits.items()} if plan.final else {}
    fits_of = {key: [part.fits[key] for part in parts] for key in parts[0].fits}
    topics = tuple(topic for fold in folds for topic in fold.test)
    values = {key: np.concatenate([part for _, part in pairs]) for key, pairs in fits_of.items()}
    rows = []
    for (measure, name), measured in values.items():
        fits = tuple(fit for fit, _ in fits_of[measure, name])
        cautions = _cautions(shared, name, fits)
        final = finals.get((measure, name))
        final = final and replace(final, test_value=float(measured.mean()))
        rows.append(Row(measure, name, topics, measured, fits, final, cautions))
    result = CollectionResult(
        pool.name,
        tuple(folds),
        tuple(rows),
        traces,
        (),
        plan.model,
        shared.surface,
        fixed_method=plan.fixed_method(folds),
    )
    return replace(result, near=_near(shared, result), notes=(*notes, *_notes(shared, result, remarks)))


def default_result(
    pool: CandidatePool, folds: Sequence[Fold], plan: Plan, *, notes: Sequence[str] = ()
) -> CollectionResult:
    """Return an experiment with the rows ``Default`` only, without any search.

    Parameters
    ----------
    pool, folds, plan, notes
        See `run_experiment`.
    """
    defaults, topics = _default_of(plan), tuple(topic for fold in folds for topic in fold.test)
    rows = []
    for measure in plan.measures if defaults else ():
        if not lacks_nonrelevant(pool, measure):
            pairs = [
                _report(pool, partial(_values, pool, plan), plan, fold, measure, choice)
                for choice in defaults.values()
                for fold in folds
            ]
            fits = tuple(replace(fit, at_edge=()) for fit, _ in pairs)
            rows.append(
                Row(measure, DEFAULT, topics, np.concatenate([measured for _, measured in pairs]), fits)
            )
    return CollectionResult(pool.name, tuple(folds), tuple(rows), {}, tuple(notes), plan.model)


def _near(shared: Shared, result: CollectionResult) -> NearOptimal | None:
    """Return the near-optimal region for the first measure on the topics of all folds."""
    topics = list(dict.fromkeys(topic for fold in result.folds for topic in (*fold.train, *fold.test)))
    positions = shared.pool.positions(topics)
    return near_optimal(shared.surface, result.measures[0], positions, shared.plan.margin)


class _FoldResult(NamedTuple):
    """The fits of a fold by measure and row, each with the values of the test topics; traces and remarks."""

    fits: dict[tuple[Measure, str], tuple[Fit, Doubles]]
    traces: dict[str, Columns]
    remarks: dict[str, str]


def _run_folds(shared: Shared, folds: Sequence[Fold]) -> Iterator[_FoldResult]:
    """Run the methods on each fold, and then on the topics of all folds if the plan has a final fit."""
    used = {topic for fold in folds for topic in (*fold.train, *fold.test)}
    everything = Fold(tuple(topic for topic in shared.pool.topics if topic in used), ())
    every = [*folds, everything] if shared.plan.final else folds
    tasks: list[Task] = [(_run_fold, {"number": n, "fold": fold}) for n, fold in enumerate(every)]
    spread, progress = width() > 0, shared.progress
    if spread:
        shared = replace(shared, progress=silent, steps=replace(shared.steps, progress=silent))
    for done, part in enumerate(in_task_order(run_all(tasks, shared=shared)), 1):
        if spread:
            progress("tuning", done, len(every))
        yield part


def _run_fold(shared: Shared, number: int, fold: Fold) -> _FoldResult:
    methods, fits = FoldMethods(shared, number, fold), {}
    chosen = {measure: methods.choose(measure) for measure in shared.plan.measures}
    if fold.test:
        chosen = {measure: _default_of(shared.plan) | choices for measure, choices in chosen.items()}
    shared.measure(fold.train, chosen)
    shared.measure(fold.test, chosen)
    for measure, choices in chosen.items():
        if fold.test:
            inside = [c for c in choices.values() if shared.plan.space.contains(c.params)]
            choices[OPTIMAL] = methods.optimal(measure, inside)
        for row, choice in choices.items():
            fit, values = _report(shared.pool, shared.values, shared.plan, fold, measure, choice)
            fits[measure, row] = replace(fit, at_edge=() if row == DEFAULT else fit.at_edge), values
    return _FoldResult(fits, methods.traces, methods.remarks)


def _default_of(plan: Plan) -> dict[str, FoldChoice]:
    """Return the baseline as a choice by row name; empty if the plan has no baseline."""
    return {} if plan.baseline is None else {DEFAULT: FoldChoice(dict(plan.baseline), 0)}


def _report(
    pool: CandidatePool,
    values: Callable[..., Doubles],
    plan: Plan,
    fold: Fold,
    measure: Measure,
    choice: FoldChoice,
) -> tuple[Fit, Doubles]:
    """Measure a choice on training and test topics; return its fit and the values of the test topics."""
    train = pool.mean(values(fold.train, measure, choice.params), pool.positions(fold.train))
    test = values(fold.test, measure, choice.params) if fold.test else np.array([math.nan])
    edges = tuple(plan.space.at_edge(list(choice.params.values())))
    means = float(train), float(test.mean())
    return Fit(choice.params, *means, choice.evaluations, edges, choice.bound, choice.step), test


def _values(
    pool: CandidatePool, plan: Plan, topics: Sequence[str], measure: Measure, params: Setting
) -> Doubles:
    positions, drawn = pool.positions(topics), pool.drawn_at(params)
    return measure_settings(drawn, params, [measure], topics=positions, depth=plan.depth)[:, 0, 0]


def _cautions(shared: Shared, method: str, fits: Sequence[Fit]) -> tuple[str, ...]:
    cautions = {
        SAMPLED_NEGATIVES: method in (RANKNET, STOPPED) and shared.pairs.has_sampled_negatives,
        EDGE: method == RANKNET and any(fit.at_edge for fit in fits),
    }
    return tuple(caution for caution, applies in cautions.items() if applies)


def _notes(shared: Shared, result: CollectionResult, remarks: Mapping[str, Sequence[str]]) -> Iterator[str]:
    plan, rows = shared.plan, result.rows
    yield from describe_model(plan.model)
    yield f"RankNet pairs: {shared.pairs.rule}"
    if plan.approx and (rough := [m.title for m in plan.measures if smooth_form(m).measure.kind != m.kind]):
        yield f"Approx uses a smooth MAP for {', '.join(rough)}, which has no smooth approximation"
    if plan.certify is not None:
        for row in (row for row in rows if row.method == OPTIMAL):
            near = [o for o in rows if o.measure == row.measure and o.method in (DIRECT, APPROX)]
            yield _proof(row, near, result.bound(row), plan.certify)
    for method in dict.fromkeys(row.method for row in rows if row.method not in (OPTIMAL, DEFAULT)):
        fits = [fit for row in rows if row.method == method for fit in row.fits]
        if edges := sorted({edge for fit in fits for edge in fit.at_edge}):
            yield f"{method} ended on the edge of the range: {', '.join(edges)}"
    for text, numbers in remarks.items():
        yield f"{text} in {', '.join(numbers)}"


def _proof(row: Row, near: Sequence[Row], bound: float | None, tolerance: float) -> str:
    """Describe what the certificates of Optimal, one per fold, prove for the means."""
    fits, title = row.fits, row.measure.title
    if bound is None:
        return f"{title}: Optimal is not certified: interrupted"
    gap = bound - row.mean
    each = "" if len(fits) == 1 else ", chosen for each fold,"
    short = "" if gap <= tolerance else f", above the tolerance {tolerance:g}"
    names = ", ".join(fits[0].params)
    within = ", ".join(f"{other.method} is within {at_most(bound - other.mean)}" for other in near)
    return (
        f"{title}: no ({names}) in the range{each} gives more than {at_most(bound)} (gap {gap:.4f}{short}): "
        f"{within} of the best possible"
    )


_MOST_AXES, _MOST_SETTINGS = 2, 2000


def near_optimal(
    surface: Surface, measure: Measure, topics: Integers, margin: float = MARGIN
) -> NearOptimal | None:
    """Return the near-optimal region: grid settings proven to be within a margin of the best one.

    Parameters
    ----------
    surface : Surface
        A full grid of one or two free parameters, of 2,000 settings at most. Other surfaces have no region,
        because they are no close picture of the space, or too large.
    measure : Measure
        One of the surface's measures.
    topics : numpy.ndarray of int64, shape (topics,)
        Positions in the pool; there is no region for a single one.
    margin : float
        The margin, in the unit of the measure.

    Returns
    -------
    NearOptimal or None
    """
    sizes = [np.unique(column).size for column in surface.settings.T]
    free, settings = sum(size > 1 for size in sizes), len(surface.settings)
    is_full = 0 < free <= _MOST_AXES and math.prod(sizes) == settings <= _MOST_SETTINGS
    if not is_full or topics.size < 2:
        return None
    values = surface.values[topics, :, surface.measures.index(measure)]
    return NearOptimal(surface.names, surface.settings, loss_bounds(values), margin)


BEST = "best "
"""Prefix of a parameter's name in the column ``line``: a profile along it, through Direct's setting."""

_PLANE = 2  # With this number of free parameters or fewer, the grid's surface replaces profiles.
_POINTS = 31


def measure_profiles(
    pool: CandidatePool, result: CollectionResult, plan: Plan, *, progress: Count = no_count
) -> dict[str, Columns]:
    """Measure profiles: settings along each free parameter through Direct's setting.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    result : CollectionResult
        The result of the experiment.
    plan : Plan
        The plan of the experiment.
    progress : callable, optional
        Called with (folds done, folds in all).

    Returns
    -------
    dict of str to dict of str to numpy.ndarray
        Tables by ``MEASURE-foldN``, with one row per setting: ``line`` (`BEST` and the parameter's name),
        ``position`` (the parameter's value), the parameters, and ``train`` and ``test`` (the measure's means
        on the fold's topics). Empty for models with one or two free parameters.
    """
    if len(plan.space.free) <= _PLANE:
        return {}
    fits = {row.measure: row.fits for row in result.rows if row.method == DIRECT}
    lines: dict[str, Columns] = {}
    for number, fold in enumerate(result.folds, 1):
        for measure in result.measures:
            table = _along(plan.space, fits[measure][number - 1])
            settings = stack(table, plan.space.names)
            for name, topics in (("train", fold.train), ("test", fold.test)):
                how: Any = {"topics": pool.positions(topics), "depth": plan.depth}
                table[name] = measure_settings(pool, settings, [measure], **how)[:, :, 0].mean(axis=0)
            lines[f"{measure}-fold{number}"] = table
        progress(number, len(result.folds))
    return lines


def _along(space: ParameterSpace, fit: Fit) -> Columns:
    """Return the settings of the profiles through a fit's setting, which is included."""
    through = space.vector(fit.params)
    rows = [
        (f"{BEST}{parameter.name}", value, *space.with_value(through, axis, value).tolist())
        for parameter in space.free
        for axis in [space.parameters.index(parameter)]
        for value in np.union1d(parameter.grid(_POINTS), through[axis]).tolist()
    ]
    line, *numbers = zip(*rows, strict=True)
    named = zip(("position", *space.names), map(np.array, numbers), strict=True)
    return {"line": np.array(line, object), **dict(named)}
