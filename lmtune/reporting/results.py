"""The folder that keeps an experiment: tables, parameters, traces, runs, and how it was made."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmtune.candidates.pool import CandidatePool
from lmtune.formats.files import atomic_directory
from lmtune.formats.runs import Ranking, write_run
from lmtune.models.ranking import rank
from lmtune.reporting.tables import parameter_table, plain, table
from lmtune.tuning.result import CollectionResult, Row

RECORD = "made.json"
"""The file that says how the results were made, and marks a folder as ours to replace."""

PAGE = "report.html"
"""The page that ``lmtune report`` puts in the folder."""

_TABLES = {
    "table.txt": "table",
    "table.md": "markdown",
    "table.tex": "latex",
    "table.csv": "csv",
    "table.json": "json",
}


CONTENT = frozenset(
    {*_TABLES, RECORD, "parameters.txt", "parameters.csv", "topics.csv", "folds.json", "traces"}
    | {"runs", PAGE}
)
"""Everything that a results folder holds; `write_results` replaces no folder that holds more."""


def write_results(
    path: str | os.PathLike[str],
    results: Sequence[CollectionResult],
    pools: Sequence[CandidatePool],
    record: Mapping[str, Any],
    *,
    hits: int = 1000,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a results folder, whole or not at all; equal results give equal bytes.

    It holds ``table.{txt,md,tex,csv,json}``, ``parameters.{txt,csv}``, ``topics.csv`` (every
    value of every test topic), ``folds.json``, ``traces/COLLECTION/*.csv``,
    ``runs/COLLECTION/METHOD-MEASURE.run.gz`` (test topics, each with its fold's parameters) and
    ``made.json``.

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
        for name, style in _TABLES.items():
            _write(folder / name, table(results, style))
        _write(folder / "parameters.txt", plain(parameter_table(results)))
        _write(folder / "parameters.csv", _parameters(results))
        _write(folder / "topics.csv", _topics(results))
        folds = {
            result.name: [{"train": fold.train, "test": fold.test} for fold in result.folds]
            for result in results
        }
        _write(folder / "folds.json", json.dumps(folds, indent=1) + "\n")
        _write(folder / RECORD, json.dumps(record, indent=2) + "\n")
        for result in results:
            for name, trace in result.traces.items():
                target = folder / "traces" / file_name(result.name) / f"{file_name(name)}.csv"
                _write(target, trace.to_csv(index=False, lineterminator="\n"))
        _write_runs(folder / "runs", results, pools, hits, progress)


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
            target, _rankings(result, pool, row, hits), tag=target.name.removesuffix(".run.gz")
        )
        if progress is not None:
            progress(done, len(runs))


def _rankings(
    result: CollectionResult, pool: CandidatePool, row: Row, hits: int
) -> Sequence[Ranking]:
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
