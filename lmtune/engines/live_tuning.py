"""Tuning of a running engine's query: direct search on its rankings, evaluated on held-out topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from lmtune.arrays import Doubles
from lmtune.collections.folds import Fold
from lmtune.collections.provenance import record
from lmtune.engines.live import LiveRankings, as_ranking
from lmtune.errors import InputError
from lmtune.io.result_folders import file_name, write_folder
from lmtune.io.rows import Qrels
from lmtune.io.runs import write_run
from lmtune.measures.from_files import topic_values
from lmtune.measures.measure import Measure
from lmtune.models.parameter import Parameter, Setting
from lmtune.progress import Progress, quantity, silent
from lmtune.report.tuning_results import RUNS, result_files
from lmtune.tuning.direct import CoordinateAscent
from lmtune.tuning.experiment.result import DEFAULT, DIRECT, CollectionResult, Fit, Row
from lmtune.tuning.experiment.stored import KIND
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import Point

QUERY_FILE = "query.json"
"""The file of a results folder with the recommended query."""

_BOOST = 1.0  # what engines multiply by without a boost
_MANY = 10.0


def query_space(
    names: Sequence[str],
    ranges: Mapping[str, tuple[float, float]],
    *,
    whole: Sequence[str] = (),
    baseline: Setting | None = None,
) -> ParameterSpace:
    """Return the space of a query's parameters.

    A range of positive numbers whose ends differ by a factor of 10 or more is searched in the logarithm.

    Parameters
    ----------
    names : sequence of str
        The parameters.
    ranges : mapping of str to (low, high)
        The range of each.
    whole : sequence of str
        Parameters of whole numbers.
    baseline : mapping of str to float, optional
        Default values; otherwise 1, or the nearest end of the range.

    Raises
    ------
    InputError
        If a parameter has no range, an unknown one is named, a default is outside its range, or a whole
        parameter has other ends.
    """
    baseline = baseline or {}
    for flag, named in (("--range", ranges), ("--whole", whole), ("--baseline", baseline)):
        if unknown := [name for name in named if name not in names]:
            raise InputError(
                f"{flag}: the query has no such parameter", value=unknown[0], accepted=", ".join(names)
            )
    parameters = []
    for name in names:
        if name not in ranges:
            raise InputError("a parameter of the query has no range", value=name, accepted="--range for each")
        low, high = ranges[name]
        default = baseline.get(name, min(max(_BOOST, low), high))
        if low <= high and not low <= default <= high:  # `Parameter` refuses an empty range.
            raise InputError(
                f"--baseline {name} is outside its range", value=default, accepted=f"{low:g} to {high:g}"
            )
        if name in whole and not all(number == round(number) for number in (low, high, default)):
            raise InputError(f"{name} is not whole", value=(low, default, high), accepted="whole numbers")
        wide = low > 0.0 and high >= _MANY * low and name not in whole
        parameters.append(Parameter(name, low, high, "log" if wide else "linear", default))
    if not parameters:
        raise InputError("the query has no parameter", accepted="{{NAME}} in the template")
    return ParameterSpace(tuple(parameters))


@dataclass
class LiveValues:
    """Measures of an engine's rankings by topic and setting; each setting is asked for once.

    Attributes
    ----------
    rankings : LiveRankings
        The engine's rankings.
    qrels : mapping of str to mapping of str to int
        The judgments.
    measures : sequence of Measure
        The measures.
    space : ParameterSpace
        The parameters.
    whole : sequence of str
        Parameters that are rounded to whole numbers.
    progress : Progress
        Called with the number of settings.
    """

    rankings: LiveRankings
    qrels: Qrels
    measures: Sequence[Measure]
    space: ParameterSpace
    whole: Sequence[str] = ()
    progress: Progress = silent
    _values: dict[Point, Doubles] = field(default_factory=dict)

    @property
    def topics(self) -> list[str]:
        """The topics."""
        return list(self.rankings.topics)

    def setting(self, point: Sequence[float] | Doubles) -> dict[str, float]:
        """Return a point as a setting, with whole numbers where the parameter is whole."""
        named = self.space.named(point)
        return named | {name: float(round(named[name])) for name in self.whole}

    def at(self, point: Sequence[float] | Doubles) -> Doubles:
        """Return the measures at a point, shape (topics, measures)."""
        setting = self.setting(point)
        key = tuple(setting.values())
        if key not in self._values:
            self._values[key] = self._measure(self.rankings.at(setting))
            self.progress("settings", len(self._values), 0)
        return self._values[key]

    def _measure(self, rankings: Mapping[str, list[str]]) -> Doubles:
        run = {
            t: dict(zip(*as_ranking(t, docnos)[1:], strict=True)) for t, docnos in rankings.items() if docnos
        }
        if not run:
            return np.zeros((len(self.topics), len(self.measures)))
        qrels = {topic: self.qrels[topic] for topic in self.topics}
        values: Doubles = topic_values(qrels, run, [*map(str, self.measures)]).loc[self.topics].to_numpy()
        return values

    def of(self, measure: Measure, topics: Sequence[str], point: Sequence[float] | Doubles) -> Doubles:
        """Return a measure at a point, shape (topics,)."""
        place = {topic: row for row, topic in enumerate(self.topics)}
        column = self.measures.index(measure)
        return self.at(point)[[place[topic] for topic in topics], column]

    def means(self, measure: Measure, topics: Sequence[str], points: Sequence[Point]) -> list[float]:
        """Return the mean of a measure over topics at each point."""
        return [float(self.of(measure, topics, point).mean()) for point in points]

    def fit(
        self, measure: Measure, fold: Fold, point: Sequence[float] | Doubles, evaluations: int = 0
    ) -> Fit:
        """Return a point as a fold's fit; without evaluations it was not searched for."""
        setting = self.setting(point)
        [train] = self.means(measure, fold.train, [(*setting.values(),)])
        test = self.of(measure, fold.test, point).mean() if fold.test else np.nan
        edges = self.space.at_edge([*setting.values()]) if evaluations else ()
        return Fit(setting, train, float(test), evaluations, tuple(edges))

    def check(self) -> str:
        """Search with the defaults; return a note on topics without documents, or an empty text.

        Raises
        ------
        InputError
            If no topic has a document, or none of the documents is judged.
        """
        found = self.rankings.at(self.setting(self.space.start))
        if not any(docnos for docnos in found.values()):
            raise InputError("the engine returns no document for any topic", file=self.rankings.template.file)
        if all(self.qrels[topic].keys().isdisjoint(docnos) for topic, docnos in found.items()):
            example = next(docnos[0] for docnos in found.values() if docnos)
            judged = next(iter(self.qrels[self.topics[0]]))
            raise InputError(
                "no document that the engine returns is judged",
                value=example,
                accepted=f"docnos as in the judgments, such as {judged}; see --docno-field",
            )
        without = sum(not docnos for docnos in found.values())
        return f"{quantity(without, 'topic')} without a document at the default setting" if without else ""


def tune_live(
    values: LiveValues, folds: Sequence[Fold], *, restarts: int = 1, seed: int = 0, notes: Sequence[str] = ()
) -> CollectionResult:
    """Tune a query's parameters by coordinate ascent on each fold's training topics, and on all topics.

    Parameters
    ----------
    values : LiveValues
        The engine's measures.
    folds : sequence of Fold
        Training and test topics.
    restarts : int
        Number of climbs from random settings, besides the one from the defaults.
    seed : int
        Seed of these settings.
    notes : sequence of str
        Notes for readers.

    Returns
    -------
    CollectionResult
        The rows Default and Direct of each measure. The model is the template's file name.
    """
    used = {topic for fold in folds for topic in (*fold.train, *fold.test)}
    everything = Fold(tuple(topic for topic in values.topics if topic in used), ())
    topics = tuple(topic for fold in folds for topic in fold.test)
    rows: list[Row] = []
    traces, cautions = {}, list(notes)
    for measure in values.measures:
        default = [values.fit(measure, fold, values.space.start) for fold in folds]
        tuned = []
        for number, fold in enumerate([*folds, everything], 1):
            ascent = CoordinateAscent(
                measure, restarts=restarts, steps=dict.fromkeys(values.whole, 1.0), seed=seed
            )
            ascent.maximise(partial(values.means, measure, fold.train), values.space)
            best = values.fit(measure, fold, [*ascent.best_params_.values()], ascent.n_evaluations_)
            tuned.append(best)
            traces[f"direct-{measure}-{f'fold{number}' if fold.test else 'final'}"] = ascent.columns_
        final = tuned.pop()
        for method, fits in ((DEFAULT, default), (DIRECT, tuned)):
            measured = np.concatenate(
                [
                    values.of(measure, fold.test, [*fit.params.values()])
                    for fold, fit in zip(folds, fits, strict=True)
                ]
            )
            row = Row(measure, method, topics, measured, tuple(fits))
            rows.append(row if method == DEFAULT else replace(row, final=replace(final, test_value=row.mean)))
        if edges := sorted({edge for fit in (*tuned, final) for edge in fit.at_edge}):
            cautions.append(f"{measure.title}: {DIRECT} ended on the edge of the range: {', '.join(edges)}")
    name, model = values.rankings.engine.index, values.rankings.template.file.name
    return CollectionResult(name, tuple(folds), tuple(rows), traces, tuple(cautions), model)


def recommended_query(values: LiveValues, result: CollectionResult) -> str:
    """Return the template with the recommended setting; ``{{query}}`` is kept."""
    assert result.recommended is not None
    assert result.recommended.setting is not None
    return values.rankings.template.fill("{{query}}", result.recommended.setting.params)


def write_live_results(path: Path, values: LiveValues, result: CollectionResult) -> None:
    """Write a results folder atomically: tables, settings, traces, runs and the recommended query.

    Parameters
    ----------
    path : pathlib.Path
        The folder; earlier results are replaced.
    values : LiveValues
        The engine's rankings; those of the chosen settings are asked for again unless they are cached.
    result : CollectionResult
        The result.
    """
    engine = values.rankings.engine
    facts = {"name": result.name, "url": engine.url, "indexes": engine.indexes, "template": result.model}
    made = record(
        plan={
            "measures": [*map(str, result.measures)],
            "model": result.model,
            "space": values.space.ranges,
            "depth": engine.options.depth,
        },
        collections=[facts | {"topics": len(values.topics)}],
        notes={result.name: result.notes},
        fixed_methods={result.name: result.fixed_method},
    )

    def write_runs(folder: Path) -> None:
        for row in result.rows:
            chosen = {
                t: one.params for fold, one in zip(result.folds, row.fits, strict=True) for t in fold.test
            }
            found = {tuple(params.values()): values.rankings.at(params) for params in chosen.values()}
            ranked = [(t, found[tuple(chosen[t].values())][t]) for t in values.topics if t in chosen]
            name = row.method.lower() + ("" if row.method == DEFAULT else f"-{row.measure}")
            target = folder / RUNS / file_name(result.name) / f"{file_name(name)}.run.gz"
            write_run(target, (as_ranking(*one) for one in ranked if one[1]), tag=name)

    files = result_files([result]) | {QUERY_FILE: recommended_query(values, result)}
    write_folder(path, KIND, files, made, write_runs)
