"""The folder that keeps an experiment: tables, parameters, traces, runs, and how it was made."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.formats.files import atomic_directory
from lmtune.formats.runs import Ranking, write_run
from lmtune.measures.recall_precision import LEVELS, setting_recall_precision
from lmtune.models.model import find_model
from lmtune.models.ranking import rank
from lmtune.reporting.table import FILES
from lmtune.reporting.tuning_tables import parameter_table, tuning_table
from lmtune.tuning.result import CollectionResult, Row

if TYPE_CHECKING:
    import pandas as pd

RECORD = "made.json"
"""The file that says how the results were made, and marks a folder as ours to replace."""

PAGE = "report.html"
"""The page that ``lmtune report`` puts in the folder."""

PICTURES = "pictures"
"""The folder that ``lmtune plot`` puts there."""

CONTENT = frozenset(
    {*FILES, RECORD, "parameters.txt", "parameters.csv", "topics.csv", "folds.json", "traces"}
    | {"recall.csv", "surfaces", "lines", "runs", PAGE, PICTURES}
)
"""Everything that a results folder holds; `write_results` replaces no folder that holds more."""


def write_results(
    path: str | os.PathLike[str],
    results: Sequence[CollectionResult],
    pools: Sequence[CandidatePool],
    record: Mapping[str, Any],
    *,
    lines: Sequence[Mapping[str, pd.DataFrame]] = (),
    hits: int = 1000,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a results folder, whole or not at all; equal results give equal bytes.

    It holds

    ``table.{txt,md,tex,csv,json}``
        The table, in all formats.
    ``parameters.txt``, ``parameters.csv``
        What was chosen: collection, measure, method, fold, lambda, mu, train, test (the measure's
        means), evaluations, at_edge, bound (of a certified Optimal).
    ``topics.csv``
        Every value of every test topic: collection, measure, method, topic, value.
    ``recall.csv``
        Means over the test topics of the interpolated precision: collection, measure, method,
        recall (0, 0.1, ..., 1), precision.
    ``folds.json``
        By collection, a list of folds, each ``{"train": topics, "test": topics}``.
    ``surfaces/COLLECTION/MEASURE-foldN.csv``
        The grid: lambda, mu, train, test (the measure's means on the fold's topics).
    ``lines/COLLECTION/MEASURE-foldN.csv``
        RankNet's cost beside the measure: line, position, lambda, mu, cost, train, test; see
        `lmtune.tuning.lines.measure_lines`. Only where `lines` are given.
    ``traces/COLLECTION/*.csv``
        ``ranknet-foldN`` (start, iteration, cost, lambda, mu, then each measure's mean),
        ``ranknet-val-foldN`` (the same and ``validation MEASURE``), ``direct-MEASURE-foldN``
        (start, lambda, mu, then the measure's mean), all on training topics; with a certificate,
        on test topics, ``certificate-MEASURE-foldN`` (boxes, best, bound) and
        ``boxes-MEASURE-foldN``, the boxes that may hold a better setting (lambda_low,
        lambda_high, mu_low, mu_high, bound).
    ``runs/COLLECTION/METHOD-MEASURE.run.gz``
        Test topics, each with its fold's parameters; ``ranknet.run.gz`` serves all measures.
    ``made.json``
        How all this was made.

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
        Each collection's `lmtune.tuning.lines.measure_lines`.
    hits : int
        Documents a topic in the runs.
    progress : callable, optional
        Called with (runs written, runs in all).

    Raises
    ------
    InputError
        Where the path is something else than an older results folder.
    """
    with atomic_directory(path, marker=RECORD, own=CONTENT) as folder:
        for name, style in FILES.items():
            _write(folder / name, tuning_table(results, style))
        _write(folder / "parameters.txt", parameter_table(results).text())
        _write(folder / "parameters.csv", _parameters(results))
        _write(folder / "topics.csv", _topics(results))
        folds = {
            result.name: [{"train": fold.train, "test": fold.test} for fold in result.folds]
            for result in results
        }
        _write(folder / "recall.csv", _recall(results, pools, hits))
        _write(folder / "folds.json", json.dumps(folds, indent=1) + "\n")
        _write(folder / RECORD, json.dumps(record, indent=2) + "\n")
        for result, pool in zip(results, pools, strict=True):
            _write_tables(folder / "traces", result, result.traces)
            _write_tables(folder / "surfaces", result, surfaces(result, pool))
        for result, collection in zip(results, lines, strict=bool(lines)):
            _write_tables(folder / "lines", result, collection)
        _write_runs(folder / "runs", results, pools, hits, progress)


def surfaces(result: CollectionResult, pool: CandidatePool) -> dict[str, pd.DataFrame]:
    """Return the grid's means by ``MEASURE-foldN``: lambda, mu, train, test."""
    import pandas as pd

    surface = result.surface
    if surface is None:
        return {}
    tables = {}
    for number, fold in enumerate(result.folds, 1):
        train, test = pool.positions(fold.train), pool.positions(fold.test)
        for measure in surface.measures:
            tables[f"{measure}-fold{number}"] = pd.DataFrame(
                {
                    "lambda": surface.lambdas,
                    "mu": surface.mus,
                    "train": surface.means(measure, train),
                    "test": surface.means(measure, test),
                }
            )
    return tables


def _write_tables(folder: Path, result: CollectionResult, tables: Mapping[str, pd.DataFrame]) -> None:
    for name, content in tables.items():
        target = folder / file_name(result.name) / f"{file_name(name)}.csv"
        _write(target, content.to_csv(index=False, lineterminator="\n"))


def _write_runs(
    folder: Path,
    results: Sequence[CollectionResult],
    pools: Sequence[CandidatePool],
    hits: int,
    progress: Callable[[int, int], None] | None,
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
        write_run(
            target,
            _rankings(result, pool, row, hits),
            tag=find_model(result.model).label(target.name.removesuffix(".run.gz")),
        )
        if progress is not None:
            progress(done, len(runs))


def _rankings(result: CollectionResult, pool: CandidatePool, row: Row, hits: int) -> Sequence[Ranking]:
    rankings = {
        ranking.topic: ranking
        for fold, fit in zip(result.folds, row.fits, strict=True)
        for ranking in rank(pool, lambda_=fit.lambda_, mu=fit.mu, hits=hits, topics=fold.test)
    }
    return [rankings[topic] for topic in pool.topics if topic in rankings]


def _parameters(results: Sequence[CollectionResult]) -> str:
    lines = ["collection,measure,method,fold,lambda,mu,train,test,evaluations,at_edge,bound"]
    for result in results:
        for row in result.rows:
            for number, fit in enumerate(row.fits, 1):
                edges = " and ".join(fit.at_edge)
                bound = "" if fit.bound is None else repr(fit.bound)
                lines.append(
                    f"{_quoted(result.name)},{_quoted(str(row.measure))},{row.method},{number},"
                    f"{fit.lambda_!r},{fit.mu!r},{fit.train_value!r},{fit.test_value!r},"
                    f"{fit.evaluations},{edges},{bound}"
                )
    return "\n".join(lines) + "\n"


def _topics(results: Sequence[CollectionResult]) -> str:
    lines = ["collection,measure,method,topic,value"]
    for result in results:
        for row in result.rows:
            start = f"{_quoted(result.name)},{_quoted(str(row.measure))},{row.method}"
            lines += [
                f"{start},{_quoted(topic)},{value!r}"
                for topic, value in zip(row.topics, row.values.tolist(), strict=True)
            ]
    return "\n".join(lines) + "\n"


def _recall(results: Sequence[CollectionResult], pools: Sequence[CandidatePool], depth: int) -> str:
    lines = ["collection,measure,method,recall,precision"]
    for result, pool in zip(results, pools, strict=True):
        curves: dict[tuple[int, int, float, float], NDArray[np.float64]] = {}
        for row in result.rows:
            rel = row.measure.rel
            own = []
            for number, (fold, fit) in enumerate(zip(result.folds, row.fits, strict=True)):
                key = (number, rel, fit.lambda_, fit.mu)
                if key not in curves:
                    curves[key] = setting_recall_precision(
                        pool, fit.lambda_, fit.mu, topics=pool.positions(fold.test), rel=rel, depth=depth
                    )
                own.append(curves[key])
            start = f"{_quoted(result.name)},{_quoted(str(row.measure))},{row.method}"
            means = np.concatenate(own).mean(axis=0).tolist()
            lines += [f"{start},{level:g},{mean!r}" for level, mean in zip(LEVELS, means, strict=True)]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    if not re.search(r'[",\r\n]', text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def file_name(text: str) -> str:
    """Make a file name of any text, keeping letters, digits and ``.@()=-_``."""
    return re.sub(r"[^\w.@()=-]+", "_", text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
