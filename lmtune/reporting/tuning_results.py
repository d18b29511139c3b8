"""The folder that keeps an experiment, written and read back: tables, traces, runs, and how it was made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.datasets.collection import Collection
from lmtune.datasets.folds import read_kept
from lmtune.datasets.loading import PARTS
from lmtune.errors import InputError, PathLike, name_of
from lmtune.formats.runs import Ranking, write_run
from lmtune.measures.evaluate import LEVELS, setting_recall_precision
from lmtune.measures.measure import parse_measure
from lmtune.models.model import label
from lmtune.models.two_stage import TWO_STAGE
from lmtune.progress import Count, Progress, note, quantity, silent
from lmtune.reporting.result_folder import (
    RECORD,
    SETTING,
    CsvFile,
    ResultFolder,
    describe,
    file_name,
    read_record,
    record,
)
from lmtune.reporting.table import frame_text, in_all_formats, one_line
from lmtune.reporting.tuning_tables import (
    parameter_table,
    parameter_text,
    parameters,
    topics_of,
    tuning_table,
)
from lmtune.storage.digests import digest, read_json, sealed_text, unsealed
from lmtune.storage.files import atomic_write
from lmtune.storage.folders import FolderKind, check_directory, recorded
from lmtune.tuning.experiment.plan import Plan
from lmtune.tuning.experiment.preparation import Prepared
from lmtune.tuning.experiment.profiles import measure_profiles
from lmtune.tuning.experiment.result import DEFAULT, DIRECT, RANKNET, CollectionResult, Fit, Row

if TYPE_CHECKING:
    import pandas as pd

PAGE = "report.html"
"""The page that ``lmtune report`` puts in the folder."""

PICTURES = "pictures"
"""The folder that ``lmtune plot`` puts there."""

CHOICES, CHOSEN_CASE = "choices.json", "chosen"
"""In a folder of ``lmtune tune --choose``: each fold's choices, and the folder of the recommended case."""

FOLDS, TABLE, PARAMETER_TABLE, RUNS = "folds.json", "table.json", "parameters.txt", "runs"

ACCEPTED = "a folder that lmtune tune --output wrote"

_ROW = {"collection": str, "measure": str, "method": str}
_MEANS = {"train": float, "test": float}
_COUNTED = {"evaluations": int, "at_edge": str}

TOPICS = CsvFile("topics.csv", {**_ROW, "topic": str, "value": float})
CHOSEN = CsvFile(
    "parameters.csv", {**_ROW, "fold": int, SETTING: float, **_MEANS, **_COUNTED}, ("bound",), ("ridge",)
)
_ESTIMATED = {"train": float, "estimate": float}
FINAL = CsvFile("final.csv", {**_ROW, SETTING: float, **_ESTIMATED, **_COUNTED}, texts=("ridge",))
NEAR = CsvFile("near.csv", {"collection": str, "parameter": str, "low": float, "high": float})
TEXTS = CsvFile("texts.csv", {"collection": str, "topic": str, "text": str})
RECALL = CsvFile("recall.csv", {**_ROW, "recall": float, "precision": float})
SURFACE = CsvFile("surfaces/{}/{}.csv", {SETTING: float, **_MEANS})
PROFILES = CsvFile("lines/{}/{}.csv", {"line": str, "position": float, SETTING: float, **_MEANS})
TRACE = CsvFile("traces/{}/{}.csv", {})

KIND = FolderKind(RECORD, (PAGE,), (RECORD, f"{PICTURES}/{RECORD}"), ("notes",))
"""A results folder; `write_results` replaces none that holds more than was recorded, or other content."""

_KINDS = {
    "command": str,
    "versions": dict,
    "plan": dict,
    "collections": list[dict],  # type: ignore[type-arg]
    "notes": dict[str, list[str]],
}


@dataclass(frozen=True)
class StoredResults:
    """The content of a results folder.

    Attributes
    ----------
    path : pathlib.Path
        The folder.
    results : tuple of CollectionResult
        As they were written: rows, folds, traces (by the names of their files), p-values and notes.
        Equal results, written and read back, are equal to the last bit.
    record : mapping
        ``made.json``: ``command``, ``versions``, ``plan``, ``collections``, ``notes``, ``files``.
    texts : dict of str to dict of str to str
        Topics' texts, on one line each, by collection; results of old have none.
    """

    path: Path
    results: tuple[CollectionResult, ...]
    record: Mapping[str, Any]
    texts: dict[str, dict[str, str]] = field(default_factory=dict)

    def of_collection(self, name: str | None) -> tuple[CollectionResult, dict[str, Any]]:
        """Return the result on a collection of this name, or of the only one, and what was recorded of it.

        Raises
        ------
        InputError
            Where several are of none with this name.
        """
        names = [result.name for result in self.results]
        wanted = name if name and ":" in name else Path(name or "").resolve().name
        if len(names) > 1 and wanted not in names:
            raise InputError(
                "the results are of several collections, of none with this name",
                file=self.path,
                value=wanted,
                accepted=", ".join(names),
            )
        number = names.index(wanted) if len(names) > 1 else 0
        return self.results[number], self.record["collections"][number]


class FinalSetting(NamedTuple):
    """A model's setting, fitted on all topics of a collection.

    Attributes
    ----------
    model : str
        A name in `lmtune.models.model.MODELS`.
    values : dict of str to float
        Its parameters by name.
    collection : Collection
        The one to use it on, with the analysis that it was fitted for.
    """

    model: str
    values: dict[str, float]
    collection: Collection


def check_output(
    path: Path,
    kind: FolderKind,
    collections: Sequence[Collection],
    *,
    reads: Iterable[PathLike] = (),
    overwrite: bool = False,
) -> None:
    """Raise at once where results cannot be kept, or would replace those of other collections.

    Parameters
    ----------
    path : path
        The folder.
    kind : FolderKind
        That of the results.
    collections : sequence of Collection
        What is going to be tuned on.
    reads : iterable of path-like
        As for `lmtune.storage.folders.check_directory`.
    overwrite : bool
        Whether results of other collections are replaced too.

    Raises
    ------
    InputError
        If they cannot, or would.
    """
    check_directory(path, kind, reads=reads)
    made = next((file for file in (path / CHOSEN_CASE / RECORD, path / RECORD) if file.is_file()), None)
    if made is None or overwrite:
        return
    records = [own.get("opened") for own in unsealed(made.read_bytes())["collections"]]
    known = [_named(Collection.from_record(own)) for own in records if own is not None]
    if known and known != [_named(own) for own in collections]:
        raise InputError(
            "will not replace results of another collection",
            file=path,
            value=", ".join(known),
            accepted="another folder, or --overwrite",
        )


def _named(collection: Collection) -> str:
    """Name a collection by its name and files, wherever these are."""
    name = collection.name or ""
    words = [name if ":" in name else Path(name).resolve().name] if name else []
    for part in PARTS:
        if given := getattr(collection, part):
            words += [f"--{part}", Path(given).name]
    return " ".join(words)


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
    progress: Count | None = None,
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
        Each collection's `lmtune.tuning.experiment.profiles.measure_profiles`.
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
    tables = in_all_formats(partial(tuning_table, results)) | {
        PARAMETER_TABLE: parameter_table(results).text(),
        CHOSEN.name: CHOSEN.text(names, _chosen(results)),
        FINAL.name: FINAL.text(names, _final(results)),
        NEAR.name: NEAR.text((), ((r.name, name, *ends) for r in results for name, ends in r.near.items())),
        TOPICS.name: TOPICS.text(names, _topics(results)),
        RECALL.name: RECALL.text(names, _recall(results, pools, hits)),
        **({TEXTS.name: TEXTS.text((), _texts(results, texts))} if texts else {}),
        FOLDS: json.dumps(folds, indent=1) + "\n",
    }
    grids = [surfaces(result, pool) for result, pool in zip(results, pools, strict=True)]
    traces = [result.traces for result in results]
    for file, frames in ((TRACE, traces), (SURFACE, grids), (PROFILES, lines)):
        for result, by_name in zip(results, frames, strict=bool(frames)):
            for name, frame in by_name.items():
                tables[file.name.format(file_name(result.name), file_name(name))] = frame_text(frame)
    if selected := {result.name: result.selected for result in results if result.selected}:
        record = {**record, "selected": selected}
    ResultFolder(tables, record).write(
        path, KIND, lambda folder: _write_runs(folder / RUNS, results, pools, hits, progress)
    )


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
    curves: dict[tuple[object, ...], NDArray[np.float64]] = {}
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
    progress: Count | None,
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
        write_run(target, _rankings(result, pool, row, hits), tag=label(result.model, name))
        if progress is not None:
            progress(done, len(runs))


def _rankings(result: CollectionResult, pool: CandidatePool, row: Row, hits: int) -> Sequence[Ranking]:
    rankings = {
        ranking.topic: ranking
        for fold, fit in zip(result.folds, row.fits, strict=True)
        for ranking in rank(pool.drawn_at(fit.params), fit.params, hits=hits, topics=fold.test)
    }
    return [rankings[topic] for topic in pool.topics if topic in rankings]


def read_results(path: PathLike) -> StoredResults:
    """Read a results folder whose tables are as they were written.

    ``made.json``, ``folds.json``, ``topics.csv``, ``parameters.csv``, ``final.csv`` and ``table.json``
    have to be there. Runs, the tables in other formats, and anything else in the folder are not read.

    Parameters
    ----------
    path : path-like
        A folder that ``lmtune tune --output`` wrote; of one with ``--choose``, the chosen case is read.

    Returns
    -------
    StoredResults

    Raises
    ------
    InputError
        Where a file is missing or was changed.
    """
    folder = Path(path)
    folder = folder / CHOSEN_CASE if (folder / CHOICES).is_file() else folder
    needed = (FOLDS, TOPICS.name, CHOSEN.name, FINAL.name, TABLE)
    record, check = read_record(folder, _KINDS, needed, ACCEPTED)
    files = record.pop("files")
    model = record["plan"].get("model", TWO_STAGE.name)
    rows = _rows(folder)
    near: dict[str, dict[str, tuple[float, float]]] = {}
    for line, _ in NEAR.rows(folder) if NEAR.path(folder).is_file() else ():
        near.setdefault(line["collection"], {})[line["parameter"]] = line["low"], line["high"]
    texts: dict[str, dict[str, str]] = {}
    for line, _ in TEXTS.rows(folder) if TEXTS.path(folder).is_file() else ():
        texts.setdefault(line["collection"], {})[line["topic"]] = line["text"]
    results = tuple(
        CollectionResult(
            name,
            folds,
            tuple(rows[name]),
            _traces(folder, name, files),
            tuple(record["notes"].get(name, ())),
            model,
            near=near.get(name, {}),
            selected=record.get("selected", {}).get(name),
        )
        for name, folds in read_kept(folder / FOLDS, ACCEPTED).items()
    )
    check()
    return StoredResults(folder, results, record, texts)


def _rows(folder: Path) -> dict[str, list[Row]]:
    """Read each collection's rows."""
    fits: dict[tuple[str, ...], list[Fit]] = {}
    finals: dict[tuple[str, ...], Fit] = {}
    values: dict[tuple[str, ...], dict[str, float]] = {}
    for line, params in CHOSEN.rows(folder):
        fits.setdefault(_key(line), []).append(_fit(line, params, line["test"]))
    for line, params in FINAL.rows(folder):
        finals[_key(line)] = _fit(line, params, line["estimate"])
    for line, _ in TOPICS.rows(folder):
        values.setdefault(_key(line), {})[line["topic"]] = line["value"]
    rows: dict[str, list[Row]] = {}
    for line in read_json(folder / TABLE):
        key = _key(line)
        if line["mean"] is None:  # not told from these judgements: so until 0.5
            continue
        tests = {name: line[f"p_value_{name.lower()}"] for name in (DIRECT, RANKNET)}
        row = Row(
            parse_measure(line["measure"]),
            line["method"],
            tuple(values[key]),
            np.array([*values[key].values()], np.float64),
            tuple(fits[key]),
            {name: p for name, p in tests.items() if p is not None},
            finals.get(key),
            tuple(line["cautions"]),
        )
        rows.setdefault(line["collection"], []).append(row)
    return rows


def _key(line: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(line[name] for name in _ROW)


def _fit(line: Mapping[str, Any], params: dict[str, float], test: float) -> Fit:
    edges = tuple(line["at_edge"].split(" and ")) if line["at_edge"] else ()
    bound = float(line.get("bound", np.nan))
    means, step = (line["train"], test), line.get("ridge", "")
    return Fit(params, *means, line["evaluations"], edges, None if np.isnan(bound) else bound, step)


def _traces(folder: Path, name: str, files: Mapping[str, int]) -> dict[str, pd.DataFrame]:
    """Read the traces of a collection that the record lists."""
    stems = [Path(file).stem for file in files if Path(file) == TRACE.path("", name, Path(file).stem)]
    frames = {stem: TRACE.frame(folder, name, stem) for stem in stems}
    return {stem: frame for stem, frame in frames.items() if frame is not None}


def take_final(
    path: PathLike, collection: Collection, *, measure: str | None = None, method: str | None = None
) -> FinalSetting:
    """Take the setting that is recommended for a measure, or the one that a method chose on all topics.

    Parameters
    ----------
    path : path-like
        A folder that ``lmtune tune --output`` wrote, with ``--choose`` too.
    collection : Collection
        What the setting is for; of results of several collections, those of its name are taken.
    measure : str, optional
        What it was tuned for; by default the results' first measure.
    method : str, optional
        Another method than the recommended one, in upper or lower case.

    Raises
    ------
    InputError
        For a folder that is none of results or has no such setting, and for a collection whose name
        several results lack.
    """
    result, recorded = read_results(path).of_collection(collection.name)
    row = final_row(path, result, measure, method)
    recommended = result.recommended_for(row.measure)
    assert row.setting is not None
    params = row.setting.params
    setting = ", ".join(f"{name} = {parameter_text(name, value)}" for name, value in params.items())
    how = f"{row.method} for {row.measure.title} on {result.name}"
    if row.method != DEFAULT:
        how += f", fitted on all {quantity(len(topics_of(result)), 'topic')}"
    if recommended is not None and recommended is not row:
        how += f"; recommended: {recommended.method}"
    note(f"{result.model} with {setting} ({how})")
    return FinalSetting(result.model, params, collection.as_recorded(recorded))


def final_row(
    path: PathLike, result: CollectionResult, measure: str | None = None, method: str | None = None
) -> Row:
    """Return the row that `take_final` takes the setting of, or raise as it does."""
    wanted = result.measures[0] if measure is None else parse_measure(measure)
    row = result.recommended_for(wanted)
    if method is not None:
        named = (own for own in result.rows if own.measure == wanted and own.method.lower() == method.lower())
        row = next(named, None)
    if row is not None and row.setting is not None:
        return row
    able = [own for own in result.rows if own.setting is not None]
    if row is not None and method is None:
        problem, value = "the recommended setting was not fitted on all topics (tune --no-final)", row.method
    else:
        problem, value = "no setting of this measure and method", f"{wanted} {method or ''}".strip()
    accepted = ", ".join(f"{own.measure} {own.method}" for own in able) or "results of lmtune tune --final"
    raise InputError(problem, file=path, value=value, accepted=accepted)


def reopened(path: PathLike, name: str | None = None) -> Collection:
    """Return the collection that was tuned on, as the record says.

    Parameters
    ----------
    path : path-like
        A folder that ``lmtune tune --output`` wrote.
    name : str, optional
        Of several collections: which. Where it is the path of a folder, the collection is there now.

    Raises
    ------
    InputError
        For a folder that is none of results, or whose record does not say it.
    """
    _, recorded = read_results(path).of_collection(name)
    if "opened" not in recorded:
        raise InputError(
            "the results do not say how to open their collection", file=path, accepted="those of a tuning now"
        )
    collection = Collection.from_record(recorded["opened"])
    collection = replace(collection, exclude_self=recorded.get("exclude_self"))
    return collection if name is None or not Path(name).is_dir() else replace(collection, name=name)


def record_pictures(results: Path, files: Sequence[Path]) -> None:
    """Note in a results folder which pictures are lmtune's, so that they are replaced with it."""
    home = results / PICTURES
    known = recorded(home, FolderKind(RECORD, records=(RECORD,)))
    known.pop(RECORD, None)
    known |= {file.name: digest(file.read_bytes()) for file in files}
    with atomic_write(home / RECORD) as stream:
        stream.write(sealed_text({"files": known}, indent=2))


def check_names(names: Sequence[str | None]) -> None:
    """Raise InputError for collections whose files would have one name."""
    kept = [file_name(name if name and ":" in name else name_of(name or "")) for name in names]
    if len(set(kept)) < len(kept):
        raise InputError("two collections have one name", value=list(names), accepted="different names")
