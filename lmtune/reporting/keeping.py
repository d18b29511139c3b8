"""Keep what was tuned: results, and how they were made."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from lmtune.progress import Progress, silent, timed
from lmtune.reporting.provenance import command, describe, versions
from lmtune.reporting.results_writer import write_results
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.preparation import Prepared
from lmtune.tuning.experiment.profiles import measure_profiles
from lmtune.tuning.experiment.result import CollectionResult
from lmtune.tuning.experiment.smooth import smooth_surfaces


def keep_results(
    path: Path,
    collections: Sequence[Prepared],
    results: Sequence[CollectionResult],
    plan: Plan,
    *,
    progress: Progress = silent,
) -> None:
    """Write a results folder, whole or not at all; see `write_results`.

    Parameters
    ----------
    path : path
        The folder.
    collections : sequence of Prepared
        What was tuned on.
    results : sequence of CollectionResult
        An experiment on each.
    plan : Plan
        How they searched.
    progress : Progress
        Called while cost and measures are computed, and while runs are written.

    Raises
    ------
    InputError
        For a folder that holds something else.
    """
    record = {
        "command": command(),
        "versions": versions(),
        "plan": plan.as_record(),
        "collections": [describe(own.dataset, own.index) for own in collections],
        "notes": {result.name: result.notes for result in results},
    }
    pools = [own.pool for own in collections]
    with timed(f"kept in {path}"):
        lines = [
            measure_profiles(pool, result, plan, progress=partial(progress, f"{pool.name}: lines"))
            for pool, result in zip(pools, results, strict=True)
        ]
        smooth = [
            smooth_surfaces(pool, result, plan, progress=partial(progress, f"{pool.name}: smooth measures"))
            for pool, result in zip(pools, results, strict=True)
        ]
        write_results(
            path,
            results,
            pools,
            record,
            lines=lines,
            smooth=smooth,
            hits=plan.depth,
            progress=lambda done, total: progress("writing runs", done, total),
        )
