"""The folder that keeps an experiment, written: tables, traces, runs, and how it was made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.collections.provenance import describe, record
from lmtune.errors import PathLike
from lmtune.io.csv_files import csv_text
from lmtune.io.result_folders import file_name, write_folder
from lmtune.io.runs import Ranking, write_run
from lmtune.measures.evaluate import LEVELS, setting_recall_precision
from lmtune.models.model import label_setting
from lmtune.progress import Count, Progress, silent, unseen
from lmtune.report.table import frame_text, in_all_formats, one_line
from lmtune.report.tuning_tables import parameter_table, parameters, tuning_table
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.preparation import Prepared
from lmtune.tuning.experiment.result import DEFAULT, RANKNET, CollectionResult, Fit, Row
from lmtune.tuning.experiment.run import measure_profiles
from lmtune.tuning.experiment.stored import CHOSEN, FINAL, FOLDS, KIND, NAMED, NEAR, TEXTS, TOPICS
from lmtune.tuning.experiment.stored import StoredResults as StoredResults
from lmtune.tuning.experiment.stored import read_results as read_results

if TYPE_CHECKING:
    import pandas as pd

PARAMETER_TABLE, RUNS = "parameters.txt", "runs"
RECALL = "recall.csv"
SURFACE, PROFILES, TRACE = (f"{folder}/{{}}/{{}}.csv" for folder in ("surfaces", "lines", "traces"))
"""Files by collection and name, as `file_name` makes them."""

_MEANS = ("train", "test")
_COUNTED = ("evaluations", "at_edge")


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
        Called while profiles are computed, and while runs are written.

    Raises
    ------
    InputError
        For a folder that holds something else.
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
    kept = partial(write_results, path, results, pools, made, lines=lines, texts=texts)
    kept(hits=plan.depth, progress=count)


def write_results(
    path: PathLike,
    results: Sequence[CollectionResult],
    pools: Sequence[CandidatePool],
    record: Mapping[str, Any],
    *,
    lines: Sequence[Mapping[str, pd.DataFrame]] = (),
    texts: Sequence[Mapping[str, str]] = (),
    hits: int = 1000,
    progress: Count = unseen,
) -> None:
    """Write a results folder, whole or not at all; equal results give equal bytes.

    It holds

    ``table.{txt,md,tex,csv,json}``
        The table, in all formats.
    ``parameters.txt``, ``parameters.csv``
        What was chosen: collection, measure, method, fold, lambda, mu, train, test (the measure's
        means), evaluations, at_edge, bound (of a certified Optimal), ridge (how much of a model's
        weights was taken: plain, feedback, or a ridge's strength).
    ``final.csv``
        What each method chose on all topics: collection, measure, method, lambda, mu, train (the
        measure's mean on them), estimate (that of the held-out topics), evaluations, at_edge, ridge.
    ``near.csv``
        The box around the recommended setting in which no grid point is significantly worse on all topics:
        collection, parameter, low, high.
    ``topics.csv``
        Every value of every test topic: collection, measure, method, topic, value.
    ``texts.csv``
        What was asked: collection, topic, text. Only where `texts` are given.
    ``recall.csv``
        Means over the test topics of the interpolated precision: collection, measure, method,
        recall (0, 0.1, ..., 1), precision.
    ``folds.json``
        By collection, a list of folds, each ``{"train": topics, "test": topics}``.
    ``surfaces/COLLECTION/MEASURE-foldN.csv``
        The grid: lambda, mu, train, test (the measure's means on the fold's topics).
    ``lines/COLLECTION/MEASURE-foldN.csv``
        The measure along each parameter: line, position, the parameters, train, test; see
        `lmtune.tuning.experiment.run.measure_profiles`. Only where `lines` are given.
    ``traces/COLLECTION/*.csv``
        Tuners' `lmtune.tuning.tuner.Tuner.results_` on training topics: ``ranknet-foldN`` (start,
        step, the parameters, cost, then each measure's mean), ``ranknet-val-foldN`` (the same and
        ``validation MEASURE``), ``approx-MEASURE-foldN`` (start, step, the parameters, alpha, cost,
        the measure's mean), ``direct-MEASURE-foldN`` and, if asked for, ``spsa-MEASURE-foldN``
        (start, step, the parameters, then the measure's mean); with a certificate, on test
        topics, ``certificate-MEASURE-foldN`` (boxes, best, bound) and
        ``boxes-MEASURE-foldN``, the boxes that may hold a better setting (lambda_low,
        lambda_high, mu_low, mu_high, bound). The fits on all topics have ``final`` for ``foldN``.
    ``runs/COLLECTION/METHOD-MEASURE.run.gz``
        Test topics, each with its fold's parameters; ``ranknet.run.gz`` and
        ``default.run.gz`` serve all measures.
    ``made.json``
        How all this was made, and the digest of each file.

    COLLECTION and MEASURE are the names as `file_name` makes them; N counts from 1.

    Parameters
    ----------
    path : path-like
        The folder; older results are replaced.
    results : sequence of CollectionResult
        One a collection.
    pools : sequence of CandidatePool
        Their pools, in the same order.
    record : mapping
        How the results were made; goes to ``made.json``.
    lines : sequence of mapping of str to pandas.DataFrame, optional
        Each collection's `lmtune.tuning.experiment.run.measure_profiles`.
    texts : sequence of mapping of str to str, optional
        Each collection's topics' texts.
    hits : int
        Documents a topic in the runs.
    progress : callable, optional
        Called with (runs written, runs in all).

    Raises
    ------
    InputError
        Where the path is something else than an older results folder.
    """
    folds = {
        result.name: [{"train": fold.train, "test": fold.test} for fold in result.folds] for result in results
    }
    names = parameters(results)
    written = in_all_formats(partial(tuning_table, results)) | {
        PARAMETER_TABLE: parameter_table(results).text(),
        CHOSEN: csv_text((*NAMED, "fold", *names, *_MEANS, *_COUNTED, "bound", "ridge"), _chosen(results)),
        FINAL: csv_text((*NAMED, *names, "train", "estimate", *_COUNTED, "ridge"), _final(results)),
        NEAR: csv_text(("collection", "parameter", "low", "high"), _near(results)),
        TOPICS: csv_text((*NAMED, "topic", "value"), _topics(results)),
        RECALL: csv_text((*NAMED, "recall", "precision"), _recall(results, pools, hits)),
        **({TEXTS: csv_text(("collection", "topic", "text"), _texts(results, texts))} if texts else {}),
        FOLDS: json.dumps(folds, indent=1) + "\n",
    }
    grids = [surfaces(result, pool) for result, pool in zip(results, pools, strict=True)]
    traces = [result.traces for result in results]
    for file, frames in ((TRACE, traces), (SURFACE, grids), (PROFILES, lines)):
        for result, by_name in zip(results, frames, strict=bool(frames)):
            for name, frame in by_name.items():
                written[file.format(file_name(result.name), file_name(name))] = frame_text(frame)
    if selected := {result.name: result.selected for result in results if result.selected}:
        record = {**record, "selected": selected}
    write_folder(
        path, KIND, written, record, lambda folder: _write_runs(folder / RUNS, results, pools, hits, progress)
    )


def _near(results: Sequence[CollectionResult]) -> Iterator[tuple[object, ...]]:
    return ((result.name, name, *ends) for result in results for name, ends in result.near.items())


def _texts(
    results: Sequence[CollectionResult], texts: Sequence[Mapping[str, str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield each test topic's text, on one line."""
    for result, own in zip(results, texts, strict=True):
        for topic in (topic for fold in result.folds for topic in fold.test):
            yield result.name, topic, one_line(own[topic])


def surfaces(result: CollectionResult, pool: CandidatePool) -> dict[str, pd.DataFrame]:
    """Return the grid's means by ``MEASURE-foldN``: the parameters, train, test."""
    import pandas as pd

    surface = result.surface
    if surface is None:
        return {}
    settings = dict(zip(surface.names, surface.settings.T, strict=True))
    return {
        f"{measure}-fold{number}": pd.DataFrame(
            {
                **settings,
                "train": surface.means(measure, pool.positions(fold.train)),
                "test": surface.unweighted.means(measure, pool.positions(fold.test)),
            }
        )
        for number, fold in enumerate(result.folds, 1)
        for measure in surface.measures
    }


def _named_rows(results: Sequence[CollectionResult]) -> Iterator[tuple[Row, tuple[str, str, str]]]:
    """Yield each row with the cells that name it."""
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
            # RankNet's and Default's parameters are the same whatever the measure: one run serves all.
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
