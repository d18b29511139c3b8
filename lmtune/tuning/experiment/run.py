"""The comparison of Metzler (SIGIR 2007), Table 1: Direct, RankNet, Approx and Optimal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold
from lmtune.errors import InputError
from lmtune.measures.evaluate import lacks_nonrelevant, measure_settings
from lmtune.measures.measure import Measure
from lmtune.measures.significance.tests import FEWEST, paired_t_test
from lmtune.models.model import described, find_model
from lmtune.models.parameter import Setting
from lmtune.parallel import Task, in_task_order, run_all, width
from lmtune.progress import Count, Progress, note, silent, staged, unseen
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
    SIGNIFICANCE,
    STAND_INS,
    STOPPED,
    CollectionResult,
    Fit,
    Row,
    at_most,
)
from lmtune.tuning.space import ParameterSpace
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
        its judgments.
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
    shared = Shared.of(pool, plan, len(folds), progress, traced=traced)
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
    for done, part in enumerate(in_task_order(run_all(tasks, shared=shared)), 1):
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
            inside = [c for c in own.values() if shared.plan.space.contains(c.params)]
            own[OPTIMAL] = methods.optimal(measure, inside)
        for row, choice in own.items():
            fit, values = _report(shared.pool, shared.values, shared.plan, fold, measure, choice)
            fits[measure, row] = replace(fit, at_edge=() if row == DEFAULT else fit.at_edge), values
    return _FoldResult(fits, methods.traces, methods.remarks)


def _default_of(plan: Plan) -> dict[str, FoldChoice]:
    """Return the row that nothing chose, if the plan has it."""
    return {} if plan.baseline is None else {DEFAULT: FoldChoice(dict(plan.baseline), 0)}


def _report(
    pool: CandidatePool,
    values: Callable[..., Doubles],
    plan: Plan,
    fold: Fold,
    measure: Measure,
    choice: FoldChoice,
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
        STAND_INS: method in (RANKNET, STOPPED) and shared.pairs.has_sampled_negatives,
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


_MOST_AXES = 2
_Box = dict[str, tuple[float, float]]


def near_optimal(
    surface: Surface, measure: Measure, topics: Integers, setting: Setting, values: Doubles
) -> _Box:
    """Return the box of grid points around a setting of which none is significantly worse.

    Of all such boxes with the setting inside or on their edge, it holds the most grid points; of equals,
    the first.

    Parameters
    ----------
    surface : Surface
        A full grid of one or two free parameters; others have no box.
    measure : Measure
        One of the surface's.
    topics : numpy.ndarray of int64, shape (topics,)
        Places in the pool.
    setting : mapping of str to float
        What to compare with.
    values : numpy.ndarray of float64, shape (topics,)
        The measure with it on these topics.

    Returns
    -------
    dict of str to (low, high)
        By free parameter; empty where no two grid points are such a box. A paired t-test over topics,
        two-sided, says which points are worse.
    """
    axes = [np.unique(column) for column in surface.settings.T]
    free = [number for number, axis in enumerate(axes) if axis.size > 1]
    shape = [axes[number].size for number in free]
    if not 0 < len(free) <= _MOST_AXES or np.prod(shape) != len(surface.settings):
        return {}
    at = surface.values[topics, :, surface.measures.index(measure)].T
    worse = significantly_worse(at, values)
    places = tuple(np.searchsorted(axes[n], surface.settings[:, n]) for n in free)
    bad = np.zeros(shape, np.int64)
    bad[places] = worse
    # How many are worse before each corner: a box's count is a sum over its corners.
    before = np.pad(bad, [(1, 0)] * len(free))
    for dimension in range(len(free)):
        before = before.cumsum(axis=dimension)
    sides = []
    for number in free:
        axis, value = axes[number], setting[surface.names[number]]
        # The grid points from low to high, those next to the setting among them; the setting may be an end.
        above, below = (int(np.searchsorted(axis, value, side)) for side in ("left", "right"))
        sides.append(list(product(range(above + 1), range(below - 1, axis.size))))
    best, most = None, 1
    for box in product(*sides):
        size = int(np.prod([high - low + 1 for low, high in box]))
        if size > most and _inside(before, box) == 0:
            best, most = box, size
    if best is None:
        return {}
    return {
        name: (min(value, *ends), max(value, *ends))
        for n, (low, high) in zip(free, best, strict=True)
        for name in [surface.names[n]]
        for value, ends in [(setting[name], axes[n][low : high + 1].tolist())]
    }


def significantly_worse(at: Doubles, values: Doubles) -> list[bool]:
    """Say of each of values, shape (settings, topics), whether it is worse by a two-sided paired t-test."""
    mean = values.mean()
    return [bool(own.mean() < mean and paired_t_test(own, values) < SIGNIFICANCE) for own in at]


def _inside(before: Integers, box: tuple[tuple[int, int], ...]) -> int:
    """Sum over a box's corners, with signs."""
    total = 0
    for corner in product((0, 1), repeat=len(box)):
        place = tuple(high + 1 if end else low for end, (low, high) in zip(corner, box, strict=True))
        total += (-1) ** (len(box) - sum(corner)) * int(before[place])
    return total


BEST = "best "
"""Before a parameter's name: the line along it through Direct's choice for the measure."""

_PLANE = 2  # parameters, over which a surface shows what such lines would
_POINTS = 31


def measure_profiles(
    pool: CandidatePool, result: CollectionResult, plan: Plan, *, progress: Count = unseen
) -> dict[str, pd.DataFrame]:
    """Measure along each free parameter through Direct's choice, where more than two are free.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    result : CollectionResult
        Its experiment.
    plan : Plan
        The experiment's.
    progress : callable, optional
        Called with (folds done, folds in all).

    Returns
    -------
    dict of str to pandas.DataFrame
        By ``MEASURE-foldN``. One row a setting: ``line`` (`BEST` and the parameter's name),
        ``position`` (the parameter's value), the parameters, and ``train`` and ``test``, the measure's
        means on the fold's topics. Empty for models of one or two free parameters.
    """
    if len(plan.space.free) <= _PLANE:
        return {}
    fits = {row.measure: row.fits for row in result.rows if row.method == DIRECT}
    lines: dict[str, pd.DataFrame] = {}
    for number, fold in enumerate(result.folds, 1):
        for measure in result.measures:
            table = _along(plan.space, fits[measure][number - 1])
            settings = table[list(plan.space.names)].to_numpy(np.float64)
            for name, topics in (("train", fold.train), ("test", fold.test)):
                how: Any = {"topics": pool.positions(topics), "depth": plan.depth}
                table[name] = measure_settings(pool, settings, [measure], **how)[:, :, 0].mean(axis=0)
            lines[f"{measure}-fold{number}"] = table
        progress(number, len(result.folds))
    return lines


def _along(space: ParameterSpace, fit: Fit) -> pd.DataFrame:
    """Return settings along each free parameter through a setting, itself included."""
    import pandas as pd

    through = space.vector(fit.params)
    rows = [
        (f"{BEST}{parameter.name}", value, *space.with_value(through, axis, value).tolist())
        for parameter in space.free
        for axis in [space.parameters.index(parameter)]
        for value in np.union1d(parameter.grid(_POINTS), through[axis]).tolist()
    ]
    return pd.DataFrame(rows, columns=["line", "position", *space.names])
