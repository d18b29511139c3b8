"""The smooth forms of an experiment's measures, and the documents that they are taken over."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.measures.measure import Measure
from lmtune.progress import Count
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.result import CollectionResult
from lmtune.tuning.objectives import Objective, SurrogateCost
from lmtune.tuning.pairs import Lists
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import ALPHAS, lists_depth, objective_for

if TYPE_CHECKING:
    import pandas as pd


def smooth_form(measure: Measure) -> Objective:
    """Return what stands in for a measure: its own smooth form, or that of AP where it has none."""
    own = measure.declared.smooth is not None
    return Objective("approx", measure if own else Measure("AP", rel=measure.rel))


KnownLists = dict[tuple[int, ParameterSpace], Lists]


def smooth_lists(
    known: KnownLists, pool: CandidatePool, plan: Plan, measure: Measure, space: ParameterSpace | None = None
) -> Lists:
    """Return the lists for a measure's smooth form, built once a depth and space.

    Parameters
    ----------
    known : dict of (int, ParameterSpace) to Lists
        Those built before; what is built is added.
    pool, plan, measure
        The experiment's.
    space : ParameterSpace, optional
        Another than the plan's.
    """
    depth = lists_depth(objective_for(smooth_form(measure), pool, plan.depth), pool, plan.depth)
    key = depth, space or plan.space
    if key not in known:
        known[key] = Lists.build(pool, key[1], depth=depth, seed=plan.seed)
    return known[key]


def compile_smooth(known: KnownLists, pool: CandidatePool, plan: Plan) -> None:
    """Compute a smooth form of one topic; the lists are kept as `smooth_lists` says."""
    measure = plan.measures[0]
    lists = smooth_lists(known, pool, plan, measure)
    first = lists.with_relevant(pool.positions(), measure.rel)[:1]
    if first.size:
        SurrogateCost(lists, objective_for(smooth_form(measure), pool, plan.depth), first)(
            plan.space.start, ALPHAS[0]
        )


def smooth_surfaces(
    pool: CandidatePool, result: CollectionResult, plan: Plan, *, progress: Count | None = None
) -> dict[str, pd.DataFrame]:
    """Compute the measures and their smooth forms over the grid.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    result : CollectionResult
        Its experiment.
    plan : Plan
        The experiment's.
    progress : callable, optional
        Called with (measures done, measures in all).

    Returns
    -------
    dict of str to pandas.DataFrame
        By the measure's name; none where the plan leaves Approx out. One row a setting, every other
        one along each parameter: the parameters, ``measure`` and ``smooth`` (its form of the sharpest
        steepness), means over all folds' training topics.
    """
    import pandas as pd

    surface, tables = result.surface, dict[str, pd.DataFrame]()
    if surface is None or not plan.approx:
        return tables
    known: KnownLists = {}
    shown = _every_other(surface.settings)
    training = {topic for fold in result.folds for topic in fold.train}
    places = pool.positions([topic for topic in pool.topics if topic in training])
    for done, measure in enumerate(result.measures, 1):
        lists = smooth_lists(known, pool, plan, measure)
        if lists.with_relevant(places, measure.rel).size:
            cost = SurrogateCost(lists, objective_for(smooth_form(measure), pool, plan.depth), places)
            table = pd.DataFrame(surface.settings[shown], columns=list(surface.names))
            smooth = np.array([-cost(setting, ALPHAS[-1]).value for setting in surface.settings[shown]])
            tables[str(measure)] = table.assign(measure=surface.means(measure, places)[shown], smooth=smooth)
        if progress is not None:
            progress(done, len(result.measures))
    return tables


def _every_other(settings: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark every other point along each parameter of a full grid, first and last included.

    Where settings are spread instead, as of two parameters every fourth is marked.
    """
    axes = [np.unique(values) for values in settings.T]
    if math.prod(axis.size for axis in axes) != len(settings):
        every_fourth: NDArray[np.bool_] = np.arange(len(settings)) % 4 == 0
        return every_fourth
    marked = np.ones(len(settings), np.bool_)
    for values, axis in zip(settings.T, axes, strict=True):
        places = np.linspace(0, axis.size - 1, axis.size // 2 + 1).round().astype(np.int64)
        marked &= np.isin(values, axis[places])
    return marked
