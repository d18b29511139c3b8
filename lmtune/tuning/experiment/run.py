"""The comparison of Metzler (SIGIR 2007), Table 1: Direct, RankNet, Approx and Optimal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.datasets.folds import Fold
from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure
from lmtune.measures.significance.tests import paired_t_test
from lmtune.models.model import described, find_model
from lmtune.progress import Progress, silent, staged
from lmtune.tuning.experiment.methods import Choice, FoldMethods, Shared, Steps
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import APPROX, DIRECT, OPTIMAL, RANKNET, CollectionResult, Fit, Row
from lmtune.tuning.experiment.smooth import compile_smooth, smooth_form
from lmtune.tuning.grid import Surface
from lmtune.tuning.lists import Lists
from lmtune.tuning.pairs import Pairs


def run_experiment(
    pool: CandidatePool,
    folds: Sequence[Fold],
    plan: Plan,
    *,
    notes: Sequence[str] = (),
    progress: Progress | bool = silent,
) -> CollectionResult:
    """Choose parameters on training topics by every method; report them on test topics.

    Direct is a full grid, then coordinate ascents from its best points and from random ones; Approx
    follows the gradient of each measure's smooth form, see `SurrogateTuner`; `Plan.also` adds
    gradient-free descents, each from the same start with a budget of evaluations. Optimal is the
    best grid point on the test topics themselves, or another row's setting where that is better
    still: the upper bound that no honest method may use. With `Plan.certify` it is searched for and
    proven to be that near the best possible. Ctrl-C ends such a proof and those to come, not the
    experiment.

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

    Returns
    -------
    CollectionResult

    Raises
    ------
    InputError
        Where the pool was extracted for another model than the plan's.
    """
    if find_model(plan.model).formula.name != pool.formula.name:
        raise InputError(
            f"the candidates were extracted for {pool.formula.name}",
            value=plan.model,
            accepted="one model for candidates and plan",
        )
    progress = staged(progress)
    shared = _prepare(pool, plan, len(folds), progress)
    found: dict[tuple[Measure, str], list[tuple[Fit, NDArray[np.float64]]]] = {}
    for number, fold in enumerate(folds):
        methods = FoldMethods(shared, number, fold)
        for measure in plan.measures:
            chosen = methods.choose(measure)
            chosen[OPTIMAL] = methods.optimal(measure, chosen.values())
            for row, choice in chosen.items():
                found.setdefault((measure, row), []).append(_report(shared, fold, measure, choice))
    progress("tuning", 1, 1)
    topics = tuple(topic for fold in folds for topic in fold.test)
    values = {key: np.concatenate([own for _, own in parts]) for key, parts in found.items()}
    rows = []
    for (measure, name), own in values.items():
        others = [other for other in (DIRECT, RANKNET) if other != name]
        p_values = {other: paired_t_test(own, values[measure, other]) for other in others}
        fits = tuple(fit for fit, _ in found[measure, name])
        rows.append(Row(measure, name, topics, own, fits, p_values))
    return CollectionResult(
        pool.name,
        tuple(folds),
        tuple(rows),
        shared.traces,
        (*notes, *_notes(shared, rows, folds)),
        plan.model,
        shared.surface,
    )


def _prepare(pool: CandidatePool, plan: Plan, folds: int, progress: Progress) -> Shared:
    pairs = Pairs.build(pool, rel=plan.rel, depth=plan.negatives_depth)
    # The first call compiles; a topic shows how long that takes before the bars move.
    progress("compiling kernels, once", 0, 1)
    first = pool.positions()[:1]
    pairs.cost(plan.space.start, topics=first)
    measure_settings(pool, plan.space.start, plan.measures, topics=first, depth=plan.depth)
    lists: dict[int, Lists] = {}
    if plan.approx:
        compile_smooth(lists, pool, plan)
    progress("compiling kernels, once", 1, 1)
    surface = Surface.compute(
        pool,
        plan.measures,
        space=plan.space,
        shape=plan.grid,
        depth=plan.depth,
        progress=lambda done, total: progress("grid", done, total),
    )
    steps = Steps.of(plan, folds, progress)
    return Shared(pool, plan, progress, pairs, surface, steps, plan.certify, lists=lists)


def _report(shared: Shared, fold: Fold, measure: Measure, choice: Choice) -> tuple[Fit, NDArray[np.float64]]:
    """Measure a choice on the training and test topics; the latter's values come with it."""
    train, test = (
        measure_settings(
            shared.pool,
            choice.params,
            [measure],
            topics=shared.pool.positions(topics),
            depth=shared.plan.depth,
        )[:, 0, 0]
        for topics in (fold.train, fold.test)
    )
    edges = tuple(shared.plan.space.at_edge(list(choice.params.values())))
    means = float(train.mean()), float(test.mean())
    return Fit(choice.params, *means, choice.evaluations, edges, choice.bound), test


def _notes(shared: Shared, rows: Sequence[Row], folds: Sequence[Fold]) -> Iterator[str]:
    plan = shared.plan
    yield from described(plan.model)
    yield f"RankNet pairs: {shared.pairs.rule}"
    if not shared.pool.judged_counts()[1].any() and any(m.kind == "Bpref" for m in plan.measures):
        yield "no document is judged nonrelevant: Bpref is the recall at the run depth"
    if plan.approx and (rough := [m.title for m in plan.measures if smooth_form(m).measure.kind != m.kind]):
        yield f"Approx follows a smooth MAP for {', '.join(rough)}: no smooth form of its own"
    if plan.certify is not None:
        sizes = [len(fold.test) for fold in folds]
        for row in (row for row in rows if row.method == OPTIMAL):
            near = [o for o in rows if o.measure == row.measure and o.method in (DIRECT, APPROX)]
            yield _proof(row, near, sizes, plan.certify)
    for method in dict.fromkeys(row.method for row in rows if row.method != OPTIMAL):
        fits = [fit for row in rows if row.method == method for fit in row.fits]
        if edges := sorted({edge for fit in fits for edge in fit.at_edge}):
            yield f"{method} ended on the edge of the range: {', '.join(edges)}"
    for text, numbers in shared.remarks.items():
        yield f"{text} in fold {', '.join(map(str, numbers))}"


def _proof(row: Row, near: Sequence[Row], sizes: Sequence[int], tolerance: float) -> str:
    """Say what the certificates of Optimal, one a fold of so many test topics, prove of the table's means."""
    fits, title = row.fits, row.measure.title
    bounds = [fit.bound for fit in fits if fit.bound is not None]
    if len(bounds) < len(fits):
        return f"{title}: Optimal is not certified: interrupted"
    bound = float(np.average(bounds, weights=sizes))
    gap = bound - float(np.average([fit.test_value for fit in fits], weights=sizes))
    each = "" if len(fits) == 1 else ", chosen for each fold,"
    short = "" if gap <= tolerance else f", not the {tolerance:g} asked for"
    names = ", ".join(fits[0].params)
    within = ", ".join(f"{own.method} is within {_at_most(bound - own.mean)}" for own in near)
    return (
        f"{title}: no ({names}) in the range{each} gives more than {_at_most(bound)} (gap {gap:.4f}{short}): "
        f"{within} of the best possible"
    )


def _at_most(number: float) -> str:
    return f"{math.ceil(number * 1e4 - 1e-6) / 1e4:.4f}".removeprefix("0")
