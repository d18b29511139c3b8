"""``lmtune deploy``, ``check-run``, ``check-engine``: deploy a tuned setting, and check an engine's run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import click

from lmtune.candidates.ranking import search
from lmtune.cli.compare import show
from lmtune.cli.messages import note, say
from lmtune.cli.parameters import Tuned
from lmtune.cli.screen import stages
from lmtune.collections.collection import Collection
from lmtune.collections.provenance import record
from lmtune.engines import checking
from lmtune.engines.catalogue import ENGINES
from lmtune.engines.cost import TUNED, deployment_cost, stemming_cost
from lmtune.engines.deployment import (
    FIELD,
    INDEX,
    Engine,
    Names,
    nearest_model,
    supports_setting,
    supports_stemmer,
)
from lmtune.engines.deployment import deploy as deploy_to
from lmtune.engines.hybrid import HYBRIDS, FusedRuns, deploy_fusion, fusion_cost
from lmtune.engines.running import IN_PYTHON, run_engine, run_qdrant
from lmtune.errors import InputError, check_choice
from lmtune.fusion.methods import read_fusion
from lmtune.fusion.spaces import SPACES
from lmtune.index.analysis import Analyzer
from lmtune.io.files import atomic_write
from lmtune.io.folders import FolderKind, check_directory, check_file
from lmtune.io.frames import as_run
from lmtune.io.qrels import read_qrels
from lmtune.io.result_folders import RECORD, write_folder
from lmtune.measures.significance.comparison import Comparison, compare_runs, named_files
from lmtune.models.model import find_model
from lmtune.options import option, usual
from lmtune.progress import Progress, quantity
from lmtune.report.table import Answer
from lmtune.tuning.experiment.result import CollectionResult, Row, parameter_text, setting_values
from lmtune.tuning.experiment.stored import FinalSetting, final_row, read_results, reopened


@dataclass(frozen=True)
class _Ranking:
    """Ranking."""

    engine: str | None = usual(
        None,
        f"Rank with this engine's formula and fixed values: {', '.join(ENGINES)}.",
        choices=tuple(ENGINES),
        metavar="ENGINE",
    )
    model: str | None = usual(
        None,
        "Rank with this model, such as bm25:lucene; it needs the same parameters. Default: the tuned model.",
    )

    def __post_init__(self) -> None:
        if self.engine is not None and self.model is not None:
            raise InputError("both --engine and --model", accepted="one of them")

    def of(self, tuned: FinalSetting) -> FinalSetting:
        """Return the setting that the engine ranks with."""
        model, values, collection = tuned
        if self.engine is not None:
            return FinalSetting(*nearest_model(ENGINES[self.engine], model, values), collection)
        if self.model is None:
            return tuned
        if (own := find_model(self.model).default.keys()) != values.keys():
            raise InputError(
                f"--model {self.model} has other parameters than {model}",
                value=", ".join(own),
                accepted=", ".join(values),
            )
        return FinalSetting(self.model, values, collection)


@dataclass(frozen=True)
class _Comparing:
    """Comparison."""

    depth: int = usual(100, "Compare this many ranks; the run must be as deep.", low=1)
    output: Path | None = usual(
        None, "Write each topic's first difference and its reason to this CSV file.", metavar="FILE"
    )
    collection: str | None = usual(
        None,
        "The collection, if the results have several; or the folder where the collection is now.",
        metavar="NAME",
    )
    split: str | None = option(
        None, "Use the judgments of this split, and only their topics; default: BEIR's test.", metavar="NAME"
    )


_Results = Annotated[
    Path,
    "A folder written by lmtune tune --output; or a file with the output of fuse --format json.",
    "RESULTS",
]
_Fused = Annotated[list[Path] | None, "For a fusion: the judgments and runs that were fused.", "QRELS RUN"]
_QDRANT = "qdrant"


def check_run(
    run: Annotated[Path, "The engine's run, in TREC format.", "RUN"],
    results: _Results,
    fused: _Fused,
    ranking: _Ranking,
    comparing: _Comparing,
    chosen: Annotated[dict[str, Any], Tuned, "results"],
) -> None:
    """Check that an engine's run matches the tuned setting.

    Notes
    -----
    Exit status: 0 if all rankings are identical except for ties, 1 if not, 2 for invalid input.

    Examples
    --------
    lmtune check-run cluster.run results --engine elasticsearch
    lmtune check-run cluster.run fused.json qrels.txt bm25.run dense.run
    """
    if comparing.output is not None:
        check_file(comparing.output, reads=[run, results, *_files(fused or [])])
    theirs = as_run(run)
    if _is_fusion(results, fused, comparing, vars(ranking)):
        _compare_fused(theirs, FusedRuns.read(results, fused or [], **chosen), comparing)
        return
    tuned = _tuned(results, comparing, chosen)
    others = _other_settings(results, tuned, comparing)
    _compare(
        theirs,
        results,
        tuned,
        ranking.of(tuned),
        comparing,
        {name: ranking.of(other) for name, other in others.items()},
    )


def check_engine(
    engine: Annotated[
        str, f"The engine, as a Python package: {', '.join(IN_PYTHON)}; for a fusion {_QDRANT}.", "ENGINE"
    ],
    results: _Results,
    fused: _Fused,
    comparing: _Comparing,
    chosen: Annotated[dict[str, Any], Tuned, "results"],
) -> None:
    """Index and query an engine, and check its run.

    Notes
    -----
    Runs the files that lmtune deploy writes. Exit status as for lmtune check-run.

    Examples
    --------
    lmtune check-engine duckdb results --measure AP --output differences.csv
    lmtune check-engine qdrant fused.json qrels.txt bm25.run dense.run
    """
    if comparing.output is not None:
        check_file(comparing.output, reads=[results, *_files(fused or [])])
    if _is_fusion(results, fused, comparing, {}):
        check_choice("this engine does not run here; check its run with lmtune check-run", engine, (_QDRANT,))
        ours = FusedRuns.read(results, fused or [], **chosen)
        files = deploy_fusion(engine, ours.chosen, ours.options)
        with stages() as progress:
            run = run_qdrant(files, ours.runs, progress=progress)
        _compare_fused(run, ours, comparing)
        return
    check_choice("this engine does not run here; check its run with lmtune check-run", engine, IN_PYTHON)
    tuned = _tuned(results, comparing, chosen)
    ranked = _Ranking(engine=engine).of(tuned)
    model, values, collection = ranked
    files = deploy_to(ENGINES[engine], model, values, Analyzer.from_settings(collection.analysis or {}))
    with stages() as progress:
        dataset = collection.load(("documents", "topics"))
        fields: tuple[str, ...] = getattr(find_model(model), "fields", ())
        run = run_engine(ENGINES[engine], files, dataset, fields=fields, progress=progress)
    _compare(run, results, tuned, ranked, comparing)


def _files(fused: list[Path]) -> list[Path]:
    """Return the paths of judgments and runs, without names."""
    return [*fused[:1], *named_files(fused[1:]).values()]


def _tuned(results: Path, comparing: _Comparing, chosen: dict[str, Any]) -> FinalSetting:
    opened = reopened(results, comparing.collection)
    if comparing.split is not None:
        opened = replace(opened, split=comparing.split)
    return Tuned(results, **chosen).take(opened)


def _other_settings(results: Path, tuned: FinalSetting, comparing: _Comparing) -> dict[str, FinalSetting]:
    """Return other settings that the run may have: the values as printed, other rows of the results."""
    result, _ = read_results(results).of_collection(comparing.collection)
    printed = setting_values(result, tuned.values)
    rounded = {name: float(text) for name, text in printed.items()}
    name = f"its values as printed, {', '.join(f'{own} = {text}' for own, text in printed.items())}"
    settings = {name: tuned._replace(values=tuned.values | rounded)}
    for row in result.rows:
        known = [tuned.values, *(setting.values for setting in settings.values())]
        if row.setting is not None and row.setting.params not in known:
            name = f"--measure {row.measure} --method {row.method.lower()}"
            settings[name] = tuned._replace(values=row.setting.params)
    return settings


def _compare(
    run: checking.Run,
    results: Path,
    tuned: FinalSetting,
    ranked: FinalSetting,
    comparing: _Comparing,
    others: Mapping[str, FinalSetting] | None = None,
) -> None:
    """Print whether the run matches, and the measures of the tuned setting, lmtune's ranking and the run.

    If the run is of another setting, the answer names which of `others`.
    """
    hits = comparing.depth + checking.DEEPER
    with stages() as progress:
        found = {
            label: search(collection, model, values, hits=hits, progress=progress)
            for label, (model, values, collection) in {TUNED: tuned, "lmtune": ranked}.items()
            if label == "lmtune" or ranked != tuned
        }
        if found["lmtune"].dataset.exclude_self:
            run = checking.without_self(run)
        qrels = ranked.collection.load(("topics", "qrels")).qrels
        checked = checking.check_run(run, found["lmtune"], comparing.depth, needed=qrels)
        longest = max(map(len, run.values()))
        systems = {label: checking.cut(one.rankings, longest) for label, one in found.items()}
        measures = read_results(results).of_collection(comparing.collection)[0].measures
        compared = compare_runs(qrels, {**systems, "run": run}, dict.fromkeys(map(str, measures)))
        matched = "" if checked.is_match else _matched(run, others or {}, qrels, comparing.depth, progress)
    _print_check(checked, compared, comparing, matched)


def _matched(
    run: checking.Run,
    others: Mapping[str, FinalSetting],
    qrels: Container[str],
    depth: int,
    progress: Progress,
) -> str:
    """Return a note on the other setting that a run matches, if any."""
    for name, (model, values, collection) in others.items():
        found = search(collection, model, values, hits=depth + checking.DEEPER, progress=progress)
        if checking.check_run(run, found, depth, needed=qrels).is_match:
            return f"the run matches {name}"
    return ""


def _is_fusion(
    results: Path, fused: list[Path] | None, comparing: _Comparing, others: dict[str, Any]
) -> bool:
    """Return whether a fusion is checked; check its arguments and options."""
    if not results.is_file():
        if fused:
            raise InputError(
                "runs conflict with a results folder", value=str(fused[0]), accepted="only the folder"
            )
        return False
    if len(fused or ()) < 3:
        raise InputError("a fusion is checked with its runs", file=results, accepted="then QRELS RUN RUN...")
    others = {**others, "collection": comparing.collection, "split": comparing.split}
    if named := [name for name, value in others.items() if value]:
        accepted = "--measure, --method, --depth, --output"
        raise InputError("an option does not apply to a fusion", value=named, accepted=accepted)
    return True


def _compare_fused(run: checking.Run, fused: FusedRuns, comparing: _Comparing) -> None:
    """Print whether the run matches, and the measures of lmtune's fusion and of the run."""
    qrels = read_qrels(fused.qrels)
    reference = fused.reference(comparing.depth + checking.DEEPER)._replace(needed=qrels)
    checked = checking.check_rankings(run, reference, comparing.depth)
    systems = {"lmtune": checking.cut(reference.rankings, max(map(len, run.values()))), "run": run}
    _print_check(checked, compare_runs(qrels, systems, fused.measures), comparing)


def _print_check(
    checked: checking.Check, compared: Comparison, comparing: _Comparing, more: str = ""
) -> None:
    """Print the answer and a table of measures; write the differences; exit with status 1 if they differ."""
    lines = [("Rankings", str(checked)), ("Scores", checked.scores), ("Instead", more)]
    title = f"The run {'matches' if checked.is_match else 'does not match'} the setting"
    answer = Answer(title, [(label, text.strip()) for label, text in lines if text])
    show(compared, "table", answer=lambda _: answer)
    if comparing.output is not None:
        with atomic_write(comparing.output) as file:
            file.write(checked.csv())
        note(f"wrote {quantity(len(checked.differences), 'difference')} to {comparing.output}")
    if not checked.is_match:
        raise click.exceptions.Exit(1)


_KIND = FolderKind(RECORD, (), (RECORD,), ("engine",))
_TITLES = {name: own.title for name, own in ENGINES.items()} | {name: SPACES[name].title for name in HYBRIDS}


@dataclass(frozen=True)
class _Target:
    """Output."""

    to: str = usual(..., f"{', '.join(_TITLES)}.", choices=tuple(_TITLES), metavar="ENGINE")
    output: Path | None = usual(None, "Write the files to this folder; default: print them.", metavar="DIR")
    collection: str | None = usual(None, "The collection, if the results have several.", metavar="NAME")
    index_name: str = option(INDEX, "Name of the index in the engine's files.", metavar="NAME")
    field_name: str = option(FIELD, "Name of the text field in the index.", metavar="NAME")

    @property
    def names(self) -> Names:
        """Names of the index and its text field."""
        return Names(self.index_name, self.field_name)


def deploy(results: _Results, target: _Target, chosen: Annotated[dict[str, Any], Tuned, "results"]) -> None:
    """Write a tuned setting as a search engine's files.

    If the engine cannot express the setting, prints the nearest one that it can, and what that costs.

    Examples
    --------
    lmtune deploy results --to elasticsearch --output cluster
    lmtune deploy fused.json --to opensearch --output cluster
    """
    names = target.names
    if target.output is not None:
        check_directory(target.output, _KIND, reads=[results])
    if results.is_file():
        choice, options = read_fusion(results, **chosen)
        try:
            files = deploy_fusion(target.to, choice, options, names)
        except InputError:
            if target.to in HYBRIDS and (table := fusion_cost(results, target.to, choice, options)):
                say(table.text())
            raise
        _write(target, files, record(weights=choice.weights, engine=target.to))
        return
    if target.to not in ENGINES:
        accepted = "the output of lmtune fuse --format json"
        raise InputError(f"{_TITLES[target.to]} takes a fusion", file=results, accepted=accepted)
    model, values, collection = Tuned(results, **chosen).take(Collection(target.collection))
    if collection.analysis is None:
        raise InputError("the results have no analysis", file=results, accepted="results of this version")
    if collection.exclude_self:
        note("tuned without each topic's own document: remove it from the engine's answers too")
    analyzer = Analyzer.from_settings(collection.analysis)
    engine, tuned = ENGINES[target.to], FinalSetting(model, values, collection)
    if not (supports_setting(engine, model, values) and supports_stemmer(engine, analyzer.stemmer)):
        _show_cost(results, target, chosen, tuned)
    files = deploy_to(engine, model, values, analyzer, names)
    kept = record(model={"name": model, **values}, analysis=analyzer.settings, engine=target.to)
    _write(target, files, kept)


def _show_cost(results: Path, target: _Target, chosen: dict[str, Any], tuned: FinalSetting) -> None:
    """Print the engine's nearest setting and the tuned one, or why that cannot be computed."""
    result, _ = read_results(results).of_collection(target.collection)
    row = final_row(results, result, **chosen)
    try:
        opened = replace(reopened(results, target.collection), analysis=tuned.collection.analysis)
        with stages() as progress:
            settings = tuned._replace(collection=opened)
            found, compared = _cost(ENGINES[target.to], result, row, settings, progress)
    except InputError as error:
        note(f"cannot compare the nearest setting: {error}")
        return
    nearest = Answer(f"Nearest setting for {_TITLES[target.to]}", [("Setting", found)])
    show(compared, "table", answer=lambda _: nearest)


def _cost(
    engine: Engine, result: CollectionResult, row: Row, tuned: FinalSetting, progress: Progress
) -> tuple[str, Comparison]:
    """Return the nearest setting as text, and its comparison: another formula, or another stemmer."""
    if supports_setting(engine, tuned.model, tuned.values):
        stemmers, compared = stemming_cost(engine, result, row, tuned.collection, progress=progress)
        counted = [f"{name} in {quantity(n, 'fold')}" for name, n in Counter(stemmers).items()]
        return (
            f"--stemmer {' and '.join(counted)}, chosen on training topics; parameters as tuned",
            compared,
        )
    measures = [row.measure, *(own.measure for own in result.rows)]
    found, compared = deployment_cost(engine, tuned, measures, progress=progress)
    values = ", ".join(f"{name} = {parameter_text(name, value)}" for name, value in found.values.items())
    return f"{found.model} with {values}", compared


def _write(target: _Target, files: dict[str, str], kept: dict[str, Any]) -> None:
    if target.output is None:
        say("\n".join(f"--- {name}\n{text}" for name, text in files.items()))
        return
    write_folder(target.output, _KIND, files, kept)
    note(f"wrote {quantity(len(files), 'file')} for {_TITLES[target.to]} in {target.output}")
