"""Compare the tuned setting with the nearest setting that an engine supports, by the measures."""

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
"""Labels of the two settings in tables."""


def fit_nearest(
    engine: Engine, tuned: FinalSetting, measure: str, *, progress: Progress = silent
) -> FinalSetting:
    """Tune an engine's nearest model by one coordinate ascent from the tuned values.

    Parameters
    ----------
    engine : Engine
        Its `fixed` parameters are not tuned.
    tuned : FinalSetting
        The tuned setting. All topics of its collection are used.
    measure : str
        The measure that was tuned.
    progress : Progress
        Called while the collection is prepared.
    """
    model, values = nearest_model(engine, tuned.model, tuned.values)
    prepared = prepare(
        tuned.collection, Split(), Plan(model=model, measures=(parse_measure(measure),)), progress=progress
    )
    space = ParameterSpace.of(model).fixing(engine.fixed)
    climb = CoordinateAscent(measure, space=space, starts=[values]).fit(prepared.pool)
    return FinalSetting(model, {**climb.best_params_, **find_model(model).fixed}, tuned.collection)


def stemming_cost(
    engine: Engine, result: CollectionResult, row: Row, collection: Collection, *, progress: Progress = silent
) -> tuple[list[str], Comparison]:
    """Compare the tuned stemmer with the best one that an engine supports, on held-out topics.

    Both stemmers are evaluated with the same parameter values: those tuned for each fold.

    Parameters
    ----------
    engine : Engine
        The stemmers `porter` and `none` are tried if the engine has them; they need no other package.
    result : CollectionResult
        The tuning result.
    row : Row
        A row of `result`; the setting of each fold ranks that fold's test topics.
    collection : Collection
        The collection, with the analysis that was tuned with.
    progress : Progress
        Called while documents and topics are indexed.

    Returns
    -------
    stemmers : list of str
        The stemmer with the best mean on the training topics, for each fold.
    comparison : Comparison
        The comparison on all test topics.
    """
    assert collection.analysis is not None
    tuned = collection.analysis["stemmer"]
    supported = [name for name in ("porter", "none") if name in engine.stemmers]
    plan = Plan(model=result.model, measures=(row.measure,))
    pools = {}
    for name in (tuned, *supported):
        analysis = {**collection.analysis, "stemmer": name}
        reanalysed = replace(collection, stemmer=None, stopwords=None, analysis=analysis)
        pools[name] = prepare(reanalysed, Split(), plan, progress=progress).pool
    runs: dict[str, dict[str, Any]] = {TUNED: {}, _NEAREST: {}}
    chosen = []
    for fold, fit in zip(result.folds, row.fits, strict=True):
        fold_pools = {name: pool.drawn_at(fit.params) for name, pool in pools.items()}
        means = {
            name: measure_settings(pool, fit.params, [row.measure], topics=pool.positions(fold.train)).mean()
            for name, pool in fold_pools.items()
        }
        chosen.append(max(supported, key=means.__getitem__))
        for label, name in ((TUNED, tuned), (_NEAREST, chosen[-1])):
            runs[label] |= cut(rank(fold_pools[name], fit.params, hits=1000, topics=fold.test), 1000)
    qrels = collection.load(("topics", "qrels")).qrels
    return chosen, compare_runs(qrels, runs, [str(row.measure)])


def deployment_cost(
    engine: Engine, tuned: FinalSetting, measures: Iterable[Measure | str], **options: Any
) -> tuple[FinalSetting, Comparison]:
    """Return the nearest setting that an engine supports, tuned for the first measure, and its comparison.

    The comparison is with the tuned setting, by all `measures`.
    """
    names = [*map(str, measures)]
    nearest = fit_nearest(engine, tuned, names[0], **options)
    runs = {
        label: cut(search(setting.collection, setting.model, setting.values, **options).rankings, 1000)
        for label, setting in ((TUNED, tuned), (_NEAREST, nearest))
    }
    qrels = tuned.collection.load(("topics", "qrels")).qrels
    return nearest, compare_runs(qrels, runs, dict.fromkeys(names))
