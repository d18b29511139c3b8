"""The experiment's row Optimal: what no honest method may use, the best on the test topics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure
from lmtune.progress import Progress
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.folds import Fold
from lmtune.tuning.grid import Surface
from lmtune.tuning.plan import Plan
from lmtune.tuning.result import Fit


class Choice(NamedTuple):
    """A setting and how many evaluations it took to choose it."""

    params: dict[str, float]
    evaluations: int


def best_known(
    pool: CandidatePool, surface: Surface, measure: Measure, fold: Fold, chosen: Sequence[Choice], depth: int
) -> Choice:
    """Return the best grid point on the fold's test topics, or a method's choice if better."""
    places = pool.positions(fold.test)
    best = surface.best(measure, places)[0]
    settings = [surface.setting(best), *(choice.params for choice in chosen)]
    means = measure_settings(pool, settings, [measure], topics=places, depth=depth)
    winner = settings[int(np.argmax(means[:, :, 0].mean(axis=0)))]
    return Choice(winner, len(surface.settings) + len(chosen))


def certify(
    pool: CandidatePool,
    measure: Measure,
    fold: Fold,
    chosen: Sequence[Choice],
    plan: Plan,
    tolerance: float,
    progress: Progress,
    stage: str,
) -> CertifiedOptimum:
    """Search for the best on the fold's test topics, with a proof; show how the gap closes."""
    optimum = CertifiedOptimum(
        str(measure),
        tolerance=tolerance,
        space=plan.space,
        starts=[choice.params for choice in chosen],
        depth=plan.depth,
    )

    def show(done: int, total: int) -> None:
        reached = f"{optimum.best_value_:.4f} to {optimum.bound_:.4f}, {optimum.n_boxes_} boxes"
        progress(stage, done, total, reached)

    progress(stage, 0, 100)
    return optimum.fit(pool, topics=fold.test, progress=show)


def proof(measure: Measure, fits: Sequence[Fit], sizes: Sequence[int], tolerance: float) -> str:
    """Say what the certificates of a measure, one a fold, prove of the table's mean.

    Parameters
    ----------
    measure : Measure
        What was certified.
    fits : sequence of Fit
        Optimal's.
    sizes : sequence of int
        Test topics of each fold.
    tolerance : float
        What was asked for.
    """
    bounds = [fit.bound for fit in fits if fit.bound is not None]
    if len(bounds) < len(fits):
        return f"{measure.title}: Optimal is not certified: interrupted"
    bound = float(np.average(bounds, weights=sizes))
    gap = bound - float(np.average([fit.test_value for fit in fits], weights=sizes))
    shown = f"{math.ceil(bound * 1e4 - 1e-6) / 1e4:.4f}".removeprefix("0")
    each = "" if len(fits) == 1 else ", chosen for each fold,"
    short = "" if gap <= tolerance else f", not the {tolerance:g} asked for"
    return (
        f"{measure.title}: no (lambda, mu) in the range{each} gives more than {shown} (gap {gap:.4f}{short})"
    )
