"""The smooth forms of an experiment's measures, and the documents that they are taken over."""

from __future__ import annotations

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.measure import Measure
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.lists import Lists
from lmtune.tuning.objectives import Objective, parse_objective
from lmtune.tuning.surrogate import lists_depth, objective_for


def smooth_form(measure: Measure) -> Objective:
    """Return what stands in for a measure: its own smooth form, or that of AP where it has none."""
    try:
        return parse_objective(f"approx-{measure}")
    except InputError:
        return Objective("approx", Measure("AP", rel=measure.rel))


def smooth_lists(known: dict[int, Lists], pool: CandidatePool, plan: Plan, measure: Measure) -> Lists:
    """Return the lists for a measure's smooth form, built once a depth.

    Parameters
    ----------
    known : dict of int to Lists
        Those built before, by their depth; what is built is added.
    pool, plan, measure
        The experiment's.
    """
    depth = lists_depth(objective_for(smooth_form(measure), pool, plan.depth), plan.depth)
    if depth not in known:
        known[depth] = Lists.build(pool, plan.space, depth=depth, seed=plan.seed)
    return known[depth]
