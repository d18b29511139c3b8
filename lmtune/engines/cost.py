"""The nearest setting that an engine can, beside the tuned one: what it costs in the measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lmtune.candidates.search import search
from lmtune.engines.checking import Run, cut
from lmtune.engines.deployment import Engine, nearest
from lmtune.measures.measure import Measure, parse_measure
from lmtune.measures.significance.contrasts import Comparison
from lmtune.measures.significance.run_files import compare_runs
from lmtune.models.model import find_model
from lmtune.progress import Progress, silent
from lmtune.reporting.tuning_results import FinalSetting
from lmtune.tuning.coordinate_ascent import CoordinateAscent
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.preparation import Split, prepare
from lmtune.tuning.space import ParameterSpace

TUNED, NEAREST = "tuned", "nearest"
"""How the two settings are called in tables."""


def compare_settings(
    tuned: FinalSetting, runs: Mapping[str, Run], measures: Iterable[Measure | str]
) -> Comparison:
    """Compare runs, the first with the others, by the judgements of the collection that was tuned on."""
    qrels = tuned.collection.load(("topics", "qrels")).qrels
    return compare_runs(qrels, runs, dict.fromkeys(map(str, measures)))


def fit_nearest(
    engine: Engine, tuned: FinalSetting, measure: str, *, progress: Progress = silent
) -> FinalSetting:
    """Return the best of an engine's nearest model that one climb finds, from the tuned values.

    Parameters
    ----------
    engine : Engine
        It computes the model, and fixes what it fixes.
    tuned : FinalSetting
        With the collection, whose topics are all used, as they were for the tuned setting.
    measure : str
        What was tuned for.
    progress : Progress
        Called while the collection is prepared.
    """
    model, values = nearest(engine, tuned.model, tuned.values)
    ready = prepare(
        tuned.collection, Split(), Plan(model=model, measures=(parse_measure(measure),)), progress=progress
    )
    space = ParameterSpace.of(model).fixing(engine.fixed)
    climb = CoordinateAscent(measure, space=space, starts=[values]).fit(ready.pool)
    return FinalSetting(model, {**climb.best_params_, **find_model(model).fixed}, tuned.collection)


def deployment_cost(
    engine: Engine, tuned: FinalSetting, measures: Iterable[Measure | str], **options: Any
) -> tuple[FinalSetting, Comparison]:
    """Return the nearest that an engine can, and what it costs in the measures, the first one climbed."""
    names = [*map(str, measures)]
    found = fit_nearest(engine, tuned, names[0], **options)
    runs = {
        label: cut(search(own.collection, own.model, own.values, **options).rankings, 1000)
        for label, own in ((TUNED, tuned), (NEAREST, found))
    }
    return found, compare_settings(tuned, runs, names)
