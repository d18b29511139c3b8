"""Write the results folder of an experiment: tables, traces, runs and provenance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lmtune.arrays import Columns, Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.collections.provenance import describe, record
from lmtune.errors import PathLike
from lmtune.io.csv_files import columns_text, csv_text
from lmtune.io.result_folders import file_name, write_folder
from lmtune.io.runs import Ranking, write_run
from lmtune.measures.evaluate import LEVELS, setting_recall_precision
from lmtune.models.model import label_setting
from lmtune.progress import Count, Progress, no_count, silent
from lmtune.report.table import in_all_formats, one_line
from lmtune.report.tuning_tables import parameter_table, parameters, tuning_table
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.preparation import Prepared
from lmtune.tuning.experiment.result import DEFAULT, RANKNET, CollectionResult, Fit, Row
from lmtune.tuning.experiment.run import measure_profiles
from lmtune.tuning.experiment.stored import CHOSEN, FINAL, FOLDS, KIND, NAMED, NEAR, TEXTS, TOPICS
from lmtune.tuning.experiment.stored import StoredResults as StoredResults
from lmtune.tuning.experiment.stored import read_results as read_results

PARAMETER_TABLE, RUNS = "parameters.txt", "runs"
RECALL = "recall.csv"
SURFACE, PROFILES, TRACE = (f"{folder}/{{}}/{{}}.csv" for folder in ("surfaces", "lines", "traces"))
"""Paths of tables, by the `file_name` of collection and name."""

_MEANS = ("train", "test")
_COUNTED = ("evaluations", "at_edge")


def write_results_folder(
    path: Path,
    collections: Sequence[Prepared],
    results: Sequence[CollectionResult],
    plan: Plan,
    *,
    progress: Progress = silent,
) -> None:
    """Write a results folder atomically, with profiles; see `write_results`.

    Parameters
    ----------
    path : path
        The folder.
    collections : sequence of Prepared
        The collections.
    results : sequence of CollectionResult
        The result on each collection.
    plan : Plan
        The plan of the experiment.
    progress : Progress
        Called while profiles are computed and while runs are written.

    Raises
    ------
    InputError
        If the folder has other content.
    """
    made = record(
        plan=plan.as_record(),
        collections=[
            describe(one.dataset, one.index) | {"opened": one.collection.as_record()} for one in collections
        ],
        notes={result.name: result.notes for result in results},
    )
    pools = [one.pool for one in collections]
    tasks = [*zip(pools, results, strict=True)]
    lines = [
        measure_profiles(pool, result, plan, progress=partial(progress, f"{pool.name}: lines"))
        for pool, result in tasks
    ]
    count = partial(progress, "writing runs")
    texts = [one.dataset.topics for one in collections]
    write = partial(write_results, path, results, pools, made, lines=lines, texts=texts)
    write(hits=plan.depth, progress=count)


def write_results(
    path: PathLike,
    results: Sequence[CollectionResult],
    pools: Sequence[CandidatePool],
    record: Mapping[str, Any],
    *,
    lines: Sequence[Mapping[str, Columns]] = (),
    texts: Sequence[Mapping[str, str]] = (),
    hits: int = 1000,
    progress: Count = no_count,
) -> None:
    """Write a results folder atomically; equal results give equal bytes.

    The folder contains

    ``table.{txt,md,tex,csv,json}``
        The table, in all formats.
    ``parameters.txt``, ``parameters.csv``
        The parameters of each fold: collection, measure, method, fold, lambda, mu, train, test (means of
        the measure), evaluations, at_edge, bound (of a certified Optimal), ridge (for models with term
        weights: plain, feedback, or a regularisation strength).
    ``final.csv``
        The settings fitted on all topics: collection, measure, method, lambda, mu, train (mean on all
        topics), estimate (mean on held-out topics), evaluations, at_edge, ridge.
    ``near.csv``
        The near-optimal region for the first measure: collection, the parameters of each grid setting,
        bound (of its loss against the best one). The region has the bounds up to the plan's margin.
    ``topics.csv``
        The values of the test topics: collection, measure, method, topic, value.
    ``texts.csv``
        The queries: collection, topic, text. Only if `texts` are given.
    ``recall.csv``
        Interpolated precision, mean over the test topics: collection, measure, method, recall (0, 0.1, ...,
        1), precision.
    ``folds.json``
        By collection, a list of folds, each ``{"train": topics, "test": topics}``.
    ``surfaces/COLLECTION/MEASURE-foldN.csv``
        The grid: lambda, mu, train, test (means of the measure on the fold's topics).
    ``lines/COLLECTION/MEASURE-foldN.csv``
        The measure along each parameter: line, position, the parameters, train, test; see
        `lmtune.tuning.experiment.run.measure_profiles`. Only if `lines` are given.
    ``traces/COLLECTION/*.csv``
        Tuners' `lmtune.tuning.tuner.Tuner.columns_` on training topics: ``ranknet-foldN`` (start,
        step, the parameters, cost, then each measure's mean), ``ranknet-val-foldN`` (the same and
        ``validation MEASURE``), ``approx-MEASURE-foldN`` (start, step, the parameters, alpha, cost,
        the measure's mean), ``direct-MEASURE-foldN`` and, if asked for, ``spsa-MEASURE-foldN``
        (start, step, the parameters, then the measure's mean). With a certificate, on test topics:
        ``certificate-MEASURE-foldN`` (boxes, best, bound), and ``boxes-MEASURE-foldN``, the boxes
        without a proof that they have no better setting (lambda_low, lambda_high, mu_low, mu_high,
        bound). The fits on all topics have ``final`` instead of ``foldN``.
    ``runs/COLLECTION/METHOD-MEASURE.run.gz``
        Runs of the test topics, each with the parameters of its fold; ``ranknet.run.gz`` and
        ``default.run.gz`` are the same for all measures.
    ``made.json``
        The provenance, and the digest of each file.

    COLLECTION and MEASURE are converted by `file_name`; N counts from 1.

    Parameters
    ----------
    path : path-like
        The folder; an older results folder is replaced.
    results : sequence of CollectionResult
        One a collection.
    pools : sequence of CandidatePool
        The collections' pools, in the same order.
    record : mapping
        The provenance, written to ``made.json``.
    lines : sequence of mapping of str to dict of str to numpy.ndarray, optional
        `lmtune.tuning.experiment.run.measure_profiles` of each collection.
    texts : sequence of mapping of str to str, optional
        The topics' texts of each collection.
    hits : int
        Documents a topic in the runs.
    progress : callable, optional
        Called with (runs written, number of runs).

    Raises
    ------
    InputError
        If the path is anything but an older results folder.
    """
    names = parameters(results)
    written = result_files(results) | {
        NEAR: csv_text(("collection", *names, "bound"), _near(results, names)),
        RECALL: csv_text((*NAMED, "recall", "precision"), _recall(results, pools, hits)),
        **({TEXTS: csv_text(("collection", "topic", "text"), _texts(results, texts))} if texts else {}),
    }
    grids = [surfaces(result, pool) for result, pool in zip(results, pools, strict=True)]
    for file, tables in ((SURFACE, grids), (PROFILES, lines)):
        written |= _tables(file, results, tables)
    if selected := {result.name: result.selected for result in results if result.selected}:
        record = {**record, "selected": selected}
    record = {**record, "fixed_methods": {result.name: result.fixed_method for result in results}}
    write_folder(
        path, KIND, written, record, lambda folder: _write_runs(folder / RUNS, results, pools, hits, progress)
    )


def result_files(results: Sequence[CollectionResult]) -> dict[str, str]:
    """Return the files of `write_results` that need only the results: tables, settings, topics, traces."""
    folds = {
        result.name: [{"train": fold.train, "test": fold.test} for fold in result.folds] for result in results
    }
    names = parameters(results)
    return {
        **in_all_formats(partial(tuning_table, results)),
        PARAMETER_TABLE: parameter_table(results).text(),
        CHOSEN: csv_text((*NAMED, "fold", *names, *_MEANS, *_COUNTED, "bound", "ridge"), _chosen(results)),
        FINAL: csv_text((*NAMED, *names, "train", "estimate", *_COUNTED, "ridge"), _final(results)),
        TOPICS: csv_text((*NAMED, "topic", "value"), _topics(results)),
        FOLDS: json.dumps(folds, indent=1) + "\n",
        **_tables(TRACE, results, [result.traces for result in results]),
    }


def _tables(
    file: str, results: Sequence[CollectionResult], tables: Sequence[Mapping[str, Columns]]
) -> dict[str, str]:
    """Return each collection's tables as files."""
    return {
        file.format(file_name(result.name), file_name(name)): columns_text(table)
        for result, by_name in zip(results, tables, strict=bool(tables))
        for name, table in by_name.items()
    }


def _near(results: Sequence[CollectionResult], names: Sequence[str]) -> Iterator[tuple[object, ...]]:
    for result in results:
        if near := result.near:
            for setting, bound in zip(near.settings.tolist(), near.bounds.tolist(), strict=True):
                named = dict(zip(near.names, setting, strict=True))
                yield result.name, *(named.get(name, "") for name in names), bound


def _texts(
    results: Sequence[CollectionResult], texts: Sequence[Mapping[str, str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield each test topic's text as one line."""
    for result, text_of in zip(results, texts, strict=True):
        for topic in (topic for fold in result.folds for topic in fold.test):
            yield result.name, topic, one_line(text_of[topic])


def surfaces(result: CollectionResult, pool: CandidatePool) -> dict[str, Columns]:
    """Return the means over the grid by ``MEASURE-foldN``; columns: the parameters, train, test."""
    surface = result.surface
    if surface is None:
        return {}
    settings = dict(zip(surface.names, surface.settings.T, strict=True))
    return {
        f"{measure}-fold{number}": {
            **settings,
            "train": surface.means(measure, pool.positions(fold.train)),
            "test": surface.unweighted.means(measure, pool.positions(fold.test)),
        }
        for number, fold in enumerate(result.folds, 1)
        for measure in surface.measures
    }


def _named_rows(results: Sequence[CollectionResult]) -> Iterator[tuple[Row, tuple[str, str, str]]]:
    """Yield each row with its collection, measure and method."""
    for result in results:
        for row in result.rows:
            yield row, (result.name, str(row.measure), row.method)


def _cells(fit: Fit) -> tuple[object, ...]:
    means = fit.train_value, fit.test_value
    return (*fit.params.values(), *means, fit.evaluations, " and ".join(fit.at_edge))


def _chosen(results: Sequence[CollectionResult]) -> Iterator[tuple[object, ...]]:
    for row, name in _named_rows(results):
        for number, fit in enumerate(row.fits, 1):
            yield (*name, number, *_cells(fit), fit.bound, fit.step)


def _final(results: Sequence[CollectionResult]) -> Iterator[tuple[object, ...]]:
    for row, name in _named_rows(results):
        if row.final is not None:
            yield (*name, *_cells(row.final), row.final.step)


def _topics(results: Sequence[CollectionResult]) -> Iterator[tuple[object, ...]]:
    for row, name in _named_rows(results):
        for topic, value in zip(row.topics, row.values.tolist(), strict=True):
            yield (*name, topic, value)


def _recall(
    results: Sequence[CollectionResult], pools: Sequence[CandidatePool], depth: int
) -> Iterator[tuple[object, ...]]:
    curves: dict[tuple[object, ...], Doubles] = {}
    by_name = {result.name: (result, pool) for result, pool in zip(results, pools, strict=True)}
    for row, name in _named_rows(results):
        result, pool = by_name[name[0]]
        by_fold = []
        for number, (fold, fit) in enumerate(zip(result.folds, row.fits, strict=True)):
            key = (name[0], number, row.measure.rel, *fit.params.values())
            if key not in curves:
                how: Any = {"topics": pool.positions(fold.test), "rel": row.measure.rel, "depth": depth}
                curves[key] = setting_recall_precision(pool.drawn_at(fit.params), fit.params, **how)
            by_fold.append(curves[key])
        for level, mean in zip(LEVELS, np.concatenate(by_fold).mean(axis=0).tolist(), strict=True):
            yield (*name, f"{level:g}", mean)


def _write_runs(
    folder: Path,
    results: Sequence[CollectionResult],
    pools: Sequence[CandidatePool],
    hits: int,
    progress: Count,
) -> None:
    runs: dict[Path, tuple[CollectionResult, CandidatePool, Row]] = {}
    for result, pool in zip(results, pools, strict=True):
        for row in result.rows:
            # The parameters of RankNet and Default do not depend on the measure.
            measured = "" if row.method in (RANKNET, DEFAULT) else f"-{row.measure}"
            name = f"{row.method.lower()}{measured}"
            target = folder / file_name(result.name) / f"{file_name(name)}.run.gz"
            runs.setdefault(target, (result, pool, row))
    for done, (target, (result, pool, row)) in enumerate(runs.items(), 1):
        name = target.name.removesuffix(".run.gz")
        write_run(target, _rankings(result, pool, row, hits), tag=label_setting(result.model, name))
        progress(done, len(runs))


def _rankings(result: CollectionResult, pool: CandidatePool, row: Row, hits: int) -> Sequence[Ranking]:
    rankings = {
        ranking.topic: ranking
        for fold, fit in zip(result.folds, row.fits, strict=True)
        for ranking in rank(pool.drawn_at(fit.params), fit.params, hits=hits, topics=fold.test)
    }
    return [rankings[topic] for topic in pool.topics if topic in rankings]
