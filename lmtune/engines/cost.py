"""The nearest setting that an engine can, beside the tuned one: what it costs in the measures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lmtune.candidates.ranking import rank, search
from lmtune.collections.collection import Collection
from lmtune.engines.checking import cut
from lmtune.engines.deployment import Engine, nearest_model
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import Measure, parse_measure
from lmtune.measures.significance.comparison import Comparison, compare_runs
from lmtune.models.model import find_model
from lmtune.progress import Progress, silent
from lmtune.tuning.direct import CoordinateAscent
from lmtune.tuning.experiment.plan import Plan, Split
from lmtune.tuning.experiment.preparation import prepare
from lmtune.tuning.experiment.result import CollectionResult, Row
from lmtune.tuning.experiment.stored import FinalSetting
from lmtune.tuning.space import ParameterSpace

TUNED, _NEAREST = "tuned", "nearest"
"""How the two settings are called in tables."""


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
    model, values = nearest_model(engine, tuned.model, tuned.values)
    ready = prepare(
        tuned.collection, Split(), Plan(model=model, measures=(parse_measure(measure),)), progress=progress
    )
    space = ParameterSpace.of(model).fixing(engine.fixed)
    climb = CoordinateAscent(measure, space=space, starts=[values]).fit(ready.pool)
    return FinalSetting(model, {**climb.best_params_, **find_model(model).fixed}, tuned.collection)


def stemming_cost(
    engine: Engine, result: CollectionResult, row: Row, collection: Collection, *, progress: Progress = silent
) -> tuple[list[str], Comparison]:
    """Compare the tuned stemmer, held out, with the nearest that an engine has, at the same settings.

    Parameters
    ----------
    engine : Engine
        Its stemmers that need no other package are tried: Porter's, and none.
    result : CollectionResult
        What was tuned.
    row : Row
        A row of it, whose fold's setting ranks the fold's test topics.
    collection : Collection
        Where the documents are, with the analysis that was tuned with.
    progress : Progress
        Called while documents are indexed, and while topics are.

    Returns
    -------
    stemmers : list of str
        That of the best mean on the training topics, of each fold.
    comparison : Comparison
        On all test topics.
    """
    assert collection.analysis is not None
    tuned = collection.analysis["stemmer"]
    others = [name for name in ("porter", "none") if name in engine.stemmers]
    plan = Plan(model=result.model, measures=(row.measure,))
    pools = {}
    for name in (tuned, *others):
        analysis = {**collection.analysis, "stemmer": name}
        own = replace(collection, stemmer=None, stopwords=None, analysis=analysis)
        pools[name] = prepare(own, Split(), plan, progress=progress).pool
    runs: dict[str, dict[str, Any]] = {TUNED: {}, _NEAREST: {}}
    chosen = []
    for fold, fit in zip(result.folds, row.fits, strict=True):
        drawn = {name: pool.drawn_at(fit.params) for name, pool in pools.items()}
        means = {
            name: measure_settings(pool, fit.params, [row.measure], topics=pool.positions(fold.train)).mean()
            for name, pool in drawn.items()
        }
        chosen.append(max(others, key=means.__getitem__))
        for label, name in ((TUNED, tuned), (_NEAREST, chosen[-1])):
            runs[label] |= cut(rank(drawn[name], fit.params, hits=1000, topics=fold.test), 1000)
    qrels = collection.load(("topics", "qrels")).qrels
    return chosen, compare_runs(qrels, runs, [str(row.measure)])


def deployment_cost(
    engine: Engine, tuned: FinalSetting, measures: Iterable[Measure | str], **options: Any
) -> tuple[FinalSetting, Comparison]:
    """Return the nearest that an engine can, and what it costs in the measures, the first one climbed."""
    names = [*map(str, measures)]
    found = fit_nearest(engine, tuned, names[0], **options)
    runs = {
        label: cut(search(own.collection, own.model, own.values, **options).rankings, 1000)
        for label, own in ((TUNED, tuned), (_NEAREST, found))
    }
    qrels = tuned.collection.load(("topics", "qrels")).qrels
    return found, compare_runs(qrels, runs, dict.fromkeys(names))
