"""The folder that keeps an experiment: tables, parameters, traces, runs, and how it was made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.errors import PathLike
from lmtune.formats.runs import Ranking, write_run
from lmtune.measures.recall_precision import LEVELS, setting_recall_precision
from lmtune.models.model import label
from lmtune.progress import Count
from lmtune.reporting import results_files as files
from lmtune.reporting.results_files import file_name
from lmtune.reporting.table import FILES
from lmtune.reporting.tuning_tables import parameter_table, parameters, tuning_table
from lmtune.storage.digests import digest, sealed
from lmtune.storage.folders import atomic_directory
from lmtune.tuning.experiment.result import CollectionResult, Row

if TYPE_CHECKING:
    import pandas as pd


def write_results(
    path: PathLike,
    results: Sequence[CollectionResult],
    pools: Sequence[CandidatePool],
    record: Mapping[str, Any],
    *,
    lines: Sequence[Mapping[str, pd.DataFrame]] = (),
    smooth: Sequence[Mapping[str, pd.DataFrame]] = (),
    hits: int = 1000,
    progress: Count | None = None,
) -> None:
    """Write a results folder, whole or not at all; equal results give equal bytes.

    It holds

    ``table.{txt,md,tex,csv,json}``
        The table, in all formats.
    ``parameters.txt``, ``parameters.csv``
        What was chosen: collection, measure, method, fold, lambda, mu, train, test (the measure's
        means), evaluations, at_edge, bound (of a certified Optimal).
    ``final.csv``
        What each method chose on all topics: collection, measure, method, lambda, mu, train (the
        measure's mean on them), estimate (that of the held-out topics), evaluations, at_edge.
    ``topics.csv``
        Every value of every test topic: collection, measure, method, topic, value.
    ``recall.csv``
        Means over the test topics of the interpolated precision: collection, measure, method,
        recall (0, 0.1, ..., 1), precision.
    ``folds.json``
        By collection, a list of folds, each ``{"train": topics, "test": topics}``.
    ``surfaces/COLLECTION/MEASURE-foldN.csv``
        The grid: lambda, mu, train, test (the measure's means on the fold's topics).
    ``surfaces/COLLECTION/smooth-MEASURE.csv``
        The grid on all training topics: lambda, mu, measure, smooth (its smooth form). Only where
        `smooth` is given.
    ``lines/COLLECTION/MEASURE-foldN.csv``
        RankNet's cost beside the measure: line, position, lambda, mu, cost, train, test; see
        `lmtune.tuning.experiment.profiles.measure_profiles`. Only where `lines` are given.
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
        Test topics, each with its fold's parameters; ``ranknet.run.gz`` serves all measures.
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
        Each collection's `lmtune.tuning.experiment.profiles.measure_profiles`.
    smooth : sequence of mapping of str to pandas.DataFrame, optional
        Each collection's `lmtune.tuning.experiment.smooth.smooth_surfaces`.
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
    with atomic_directory(path, files.KIND) as folder:
        texts = {name: tuning_table(results, style) for name, style in FILES.items()} | {
            files.PARAMETER_TABLE: parameter_table(results).text(),
            files.CHOSEN.place: files.CHOSEN.text(names, _chosen(results)),
            files.FINAL.place: files.FINAL.text(names, _final(results)),
            files.TOPICS.place: files.TOPICS.text(names, _topics(results)),
            files.RECALL.place: files.RECALL.text(names, _recall(results, pools, hits)),
            files.FOLDS: json.dumps(folds, indent=1) + "\n",
        }
        tables = [(files.TRACE, result, result.traces) for result in results]
        for result, pool in zip(results, pools, strict=True):
            tables.append((files.SURFACE, result, surfaces(result, pool)))
        for result, profiles in zip(results, lines, strict=bool(lines)):
            tables.append((files.PROFILES, result, dict(profiles)))
        for result, forms in zip(results, smooth, strict=bool(smooth)):
            tables.append((files.SMOOTH, result, dict(forms)))
        for place, text in texts.items():
            _write(folder / place, text)
        for file, result, own in tables:
            for name, table in own.items():
                _write(file.path(folder, result.name, name), table.to_csv(index=False, lineterminator="\n"))
        _write_runs(folder / files.RUNS, results, pools, hits, progress)
        written = {
            path.relative_to(folder).as_posix(): digest(path.read_bytes())
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        made = sealed({**record, "files": written})
        _write(folder / files.RECORD, json.dumps(made, indent=2) + "\n")


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
                "test": surface.means(measure, pool.positions(fold.test)),
            }
        )
        for number, fold in enumerate(result.folds, 1)
        for measure in surface.measures
    }


def _rows(results: Sequence[CollectionResult]) -> Iterator[tuple[Row, tuple[str, str, str]]]:
    """Yield each row with the cells that name it."""
    for result in results:
        for row in result.rows:
            yield row, (result.name, str(row.measure), row.method)


def _chosen(results: Sequence[CollectionResult]) -> Iterator[tuple[object, ...]]:
    for row, name in _rows(results):
        for number, fit in enumerate(row.fits, 1):
            means = fit.train_value, fit.test_value
            edges = " and ".join(fit.at_edge)
            yield (*name, number, *fit.params.values(), *means, fit.evaluations, edges, fit.bound)


def _final(results: Sequence[CollectionResult]) -> Iterator[tuple[object, ...]]:
    for row, name in _rows(results):
        if (fit := row.final) is not None:
            means = fit.train_value, fit.test_value
            yield (*name, *fit.params.values(), *means, fit.evaluations, " and ".join(fit.at_edge))


def _topics(results: Sequence[CollectionResult]) -> Iterator[tuple[object, ...]]:
    for row, name in _rows(results):
        for topic, value in zip(row.topics, row.values.tolist(), strict=True):
            yield (*name, topic, value)


def _recall(
    results: Sequence[CollectionResult], pools: Sequence[CandidatePool], depth: int
) -> Iterator[tuple[object, ...]]:
    curves: dict[tuple[object, ...], NDArray[np.float64]] = {}
    found = {result.name: (result, pool) for result, pool in zip(results, pools, strict=True)}
    for row, name in _rows(results):
        result, pool = found[name[0]]
        own = []
        for number, (fold, fit) in enumerate(zip(result.folds, row.fits, strict=True)):
            key = (name[0], number, row.measure.rel, *fit.params.values())
            if key not in curves:
                curves[key] = setting_recall_precision(
                    pool, fit.params, topics=pool.positions(fold.test), rel=row.measure.rel, depth=depth
                )
            own.append(curves[key])
        for level, mean in zip(LEVELS, np.concatenate(own).mean(axis=0).tolist(), strict=True):
            yield (*name, f"{level:g}", mean)


def _write_runs(
    folder: Path,
    results: Sequence[CollectionResult],
    pools: Sequence[CandidatePool],
    hits: int,
    progress: Count | None,
) -> None:
    runs: dict[Path, tuple[CollectionResult, CandidatePool, Row]] = {}
    for result, pool in zip(results, pools, strict=True):
        for row in result.rows:
            # RankNet chooses the same parameters whatever the measure: one run serves all.
            measured = "" if row.method == "RankNet" else f"-{row.measure}"
            name = f"{row.method.lower()}{measured}"
            target = folder / file_name(result.name) / f"{file_name(name)}.run.gz"
            runs.setdefault(target, (result, pool, row))
    for done, (target, (result, pool, row)) in enumerate(runs.items(), 1):
        name = target.name.removesuffix(".run.gz")
        write_run(target, _rankings(result, pool, row, hits), tag=label(result.model, name))
        if progress is not None:
            progress(done, len(runs))


def _rankings(result: CollectionResult, pool: CandidatePool, row: Row, hits: int) -> Sequence[Ranking]:
    rankings = {
        ranking.topic: ranking
        for fold, fit in zip(result.folds, row.fits, strict=True)
        for ranking in rank(pool, fit.params, hits=hits, topics=fold.test)
    }
    return [rankings[topic] for topic in pool.topics if topic in rankings]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
