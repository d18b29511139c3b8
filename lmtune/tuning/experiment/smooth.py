"""The smooth forms of an experiment's measures, and the documents that they are taken over."""

from __future__ import annotations

from lmtune.candidates.pool import CandidatePool
from lmtune.measures.measure import Measure
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.objectives import Objective, SurrogateCost
from lmtune.tuning.pairs import Lists
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.surrogate import ALPHAS, lists_depth, objective_for


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
