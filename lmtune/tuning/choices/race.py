"""Which cases need no tuning: those that a bound excludes, or that successive halving drops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.collections.folds import Fold
from lmtune.errors import InputError
from lmtune.measures.measure import Measure
from lmtune.models.model import find_model
from lmtune.models.taylor_kernels import Sides
from lmtune.threads import over_places
from lmtune.tuning.certificate.branch_and_bound import Box, bound_part, parts_of, whole
from lmtune.tuning.certificate.problem import Problem, proof_of
from lmtune.tuning.choices.cases import Case
from lmtune.tuning.experiment.preparation import Prepared
from lmtune.tuning.grid import Surface

SETTINGS = 16
"""That the first round of halving measures of each case; each round doubles them."""
LAST = 2
"""Cases that halving leaves to be tuned."""
_BOXES = 512
"""That a case is bounded by at most; tuning it costs about as much."""

Figures = Mapping[Measure, Doubles]
"""A figure each fold, and one of all topics, by measure."""
Alive = Mapping[Measure, Sequence[set[int]]]
"""The cases left on each fold, and on all topics, by measure."""


def look(ready: Prepared, case: Case, settings: int = SETTINGS) -> dict[Measure, Doubles]:
    """Return the best mean of so many settings of a case, on each fold's training topics and on all."""
    plan = case.plan
    surface = Surface.compute(
        ready.pool, plan.measures, space=plan.grid_space, shape=(settings,), depth=plan.depth
    )
    parts = [ready.pool.positions(topics) for topics in compared_on(ready.folds)]
    return {
        measure: np.array([surface.means(measure, part).max() for part in parts])
        for measure in surface.measures
    }


def compared_on(folds: Sequence[Fold]) -> list[list[str]]:
    """Return the topics that each choice is made on: each fold's training topics, and all at last."""
    everything = dict.fromkeys(topic for fold in folds for topic in (*fold.train, *fold.test))
    return [*(list(fold.train) for fold in folds), list(everything)]


def halve(cases: int, look_at: Callable[[int, int], Figures]) -> dict[Measure, list[set[int]]]:
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
        The cases left, `LAST` at most, on each fold and on all topics.
    """
    settings, left = SETTINGS, set(range(cases))
    alive: dict[Measure, list[set[int]]] = {}
    while not alive or any(len(own) > LAST for races in alive.values() for own in races):
        seen = {case: look_at(case, settings) for case in sorted(left)}
        for measure, first in seen[min(left)].items():
            races = alive.setdefault(measure, [set(range(cases)) for _ in first])
            for place, own in enumerate(races):
                kept = max(LAST, -(-len(own) // 2))
                races[place] = set(sorted(own, key=lambda c: (-seen[c][measure][place], c))[:kept])
        left = set().union(*(own for races in alive.values() for own in races))
        settings *= 2
    return alive


def beaten(
    pool: CandidatePool, folds: Sequence[Fold], case: Case, goals: Figures
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
    parts = compared_on(folds)
    topics, plan = pool.positions(parts[-1]), case.plan
    bounds: dict[Measure, tuple[float, int]] = {}
    for measure, least in goals.items():
        problem = Problem.build(pool, measure, space=plan.space, topics=topics, depth=plan.depth)
        weights = np.array([np.isin(problem.places, pool.positions(part)) / len(part) for part in parts])
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
