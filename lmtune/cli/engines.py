"""``lmtune deploy``, ``check-run``, ``check-engine``: a setting in an engine; whether it ranks so."""

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
from lmtune.engines.deployment import FIELD, INDEX, Engine, Names, expresses, nearest_model, stems
from lmtune.engines.deployment import deploy as deploy_to
from lmtune.engines.hybrid import HYBRIDS, FusedRuns, deploy_fusion, fusion_cost
from lmtune.engines.running import IN_PYTHON, run_engine, run_qdrant
from lmtune.errors import InputError, check_choice
from lmtune.fusion.methods import kept_fusion
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
    """What to rank with."""

    engine: str | None = usual(
        None,
        f"This engine's own formula, and the values that it fixes: {', '.join(ENGINES)}.",
        choices=tuple(ENGINES),
        metavar="ENGINE",
    )
    model: str | None = usual(
        None, "This model, of the same parameters, such as bm25:lucene; default: the model as tuned."
    )

    def __post_init__(self) -> None:
        if self.engine is not None and self.model is not None:
            raise InputError("both --engine and --model", accepted="one of them")

    def of(self, tuned: FinalSetting) -> FinalSetting:
        """Return what the engine computes of a tuned setting."""
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
    """The comparison."""

    depth: int = usual(100, "Ranks that are compared; not more than the run has.", low=1)
    output: Path | None = usual(
        None, "Keep each topic's first difference and its reason in this CSV file.", metavar="FILE"
    )
    collection: str | None = usual(
        None,
        "Of results of several collections: which. A folder: where the collection is now.",
        metavar="NAME",
    )
    split: str | None = option(
        None, "Of a folder's judgments: which, and their topics alone; default: BEIR's test.", metavar="NAME"
    )


_Results = Annotated[
    Path,
    "A folder that lmtune tune --output wrote, with --choose too; or what fuse --format json printed.",
    "RESULTS",
]
_Fused = Annotated[
    list[Path] | None, "Of what fuse printed: the judgments and runs that were fused.", "QRELS RUN"
]
_QDRANT = "qdrant"


def check_run(
    run: Annotated[Path, "What your engine ranked: a TREC run.", "RUN"],
    results: _Results,
    fused: _Fused,
    ranking: _Ranking,
    comparing: _Comparing,
    chosen: Annotated[dict[str, Any], Tuned, "results"],
) -> None:
    """Check that an engine's run matches the tuned setting.

    Notes
    -----
    Exit status: 0 where all topics are alike or differ by ties alone, 1 where not, 2 for bad input.

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
    others = _others(results, tuned, comparing)
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
        str, f"The engine, in Python: {', '.join(IN_PYTHON)}; of fused runs {_QDRANT}.", "ENGINE"
    ],
    results: _Results,
    fused: _Fused,
    comparing: _Comparing,
    chosen: Annotated[dict[str, Any], Tuned, "results"],
) -> None:
    """Index and query an engine, and check its run.

    Notes
    -----
    What lmtune deploy writes is run as it is; exit status as of lmtune check-run.

    Examples
    --------
    lmtune check-engine duckdb results --measure AP --output differences.csv
    lmtune check-engine qdrant fused.json qrels.txt bm25.run dense.run
    """
    if comparing.output is not None:
        check_file(comparing.output, reads=[results, *_files(fused or [])])
    if _is_fusion(results, fused, comparing, {}):
        check_choice(
            "no engine that fuses runs here; for its run there is lmtune check-run", engine, (_QDRANT,)
        )
        ours = FusedRuns.read(results, fused or [], **chosen)
        files = deploy_fusion(engine, ours.chosen, ours.options)
        with stages() as progress:
            run = run_qdrant(files, ours.runs, progress=progress)
        _compare_fused(run, ours, comparing)
        return
    check_choice("no engine that a Python package brings", engine, IN_PYTHON)
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
    """Return the paths of judgments and runs, some of which have a name."""
    return [*fused[:1], *named_files(fused[1:]).values()]


def _tuned(results: Path, comparing: _Comparing, chosen: dict[str, Any]) -> FinalSetting:
    opened = reopened(results, comparing.collection)
    if comparing.split is not None:
        opened = replace(opened, split=comparing.split)
    return Tuned(results, **chosen).take(opened)


def _others(results: Path, tuned: FinalSetting, comparing: _Comparing) -> dict[str, FinalSetting]:
    """Return this setting rounded as printed, and the results' other settings, by their options."""
    result, _ = read_results(results).of_collection(comparing.collection)
    printed = setting_values(result, tuned.values)
    rounded = {name: float(text) for name, text in printed.items()}
    name = f"its values as printed, {', '.join(f'{own} = {text}' for own, text in printed.items())}"
    found = {name: tuned._replace(values=tuned.values | rounded)}
    for row in result.rows:
        known = [tuned.values, *(own.values for own in found.values())]
        if row.setting is not None and row.setting.params not in known:
            name = f"--measure {row.measure} --method {row.method.lower()}"
            found[name] = tuned._replace(values=row.setting.params)
    return found


def _compare(
    run: checking.Run,
    results: Path,
    tuned: FinalSetting,
    ranked: FinalSetting,
    comparing: _Comparing,
    others: Mapping[str, FinalSetting] | None = None,
) -> None:
    """Print the answer, and the measures of what was tuned, of what is ranked here, and of the run.

    Where the run is of another setting, the answer says of which of `others`.
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
        matched = "" if checked.alike else _matched(run, others or {}, qrels, comparing.depth, progress)
    _say(checked, compared, comparing, matched)


def _matched(
    run: checking.Run,
    others: Mapping[str, FinalSetting],
    qrels: Container[str],
    depth: int,
    progress: Progress,
) -> str:
    """Say which of other settings a run matches, if any."""
    for name, (model, values, collection) in others.items():
        found = search(collection, model, values, hits=depth + checking.DEEPER, progress=progress)
        if checking.check_run(run, found, depth, needed=qrels).alike:
            return f"the run matches {name}"
    return ""


def _is_fusion(
    results: Path, fused: list[Path] | None, comparing: _Comparing, others: dict[str, Any]
) -> bool:
    """Tell whether fused runs are checked, which needs them and takes no options of settings."""
    if not results.is_file():
        if fused:
            raise InputError(
                "runs beside a folder of results", value=str(fused[0]), accepted="the folder alone"
            )
        return False
    if len(fused or ()) < 3:
        raise InputError(
            "fused runs are checked by what was fused", file=results, accepted="then QRELS RUN RUN..."
        )
    others = {**others, "collection": comparing.collection, "split": comparing.split}
    if named := [name for name, value in others.items() if value]:
        accepted = "--measure, --method, --depth, --output"
        raise InputError("an option of tuned settings beside fused runs", value=named, accepted=accepted)
    return True


def _compare_fused(run: checking.Run, fused: FusedRuns, comparing: _Comparing) -> None:
    """Print the answer, and the measures of the fusion here and of the run."""
    qrels = read_qrels(fused.qrels)
    ours = fused.ours(comparing.depth + checking.DEEPER)._replace(needed=qrels)
    checked = checking.check_rankings(run, ours, comparing.depth)
    systems = {"lmtune": checking.cut(ours.rankings, max(map(len, run.values()))), "run": run}
    _say(checked, compare_runs(qrels, systems, fused.measures), comparing)


def _say(checked: checking.Check, compared: Comparison, comparing: _Comparing, more: str = "") -> None:
    """Print the answer above a table of measures; keep the differences; exit as the answer says."""
    lines = [("Rankings", str(checked)), ("Scores", checked.scores), ("Instead", more)]
    title = f"The run {'matches' if checked.alike else 'does not match'} the setting"
    answer = Answer(title, [(label, text.strip()) for label, text in lines if text])
    show(compared, "table", answer=lambda _: answer)
    if comparing.output is not None:
        with atomic_write(comparing.output) as file:
            file.write(checked.csv())
        note(f"wrote {quantity(len(checked.differences), 'difference')} to {comparing.output}")
    if not checked.alike:
        raise click.exceptions.Exit(1)


_KIND = FolderKind(RECORD, (), (RECORD,), ("engine",))
_TITLES = {name: own.title for name, own in ENGINES.items()} | {
    name: own.title for name, own in HYBRIDS.items()
}


@dataclass(frozen=True)
class _Target:
    """The engine."""

    to: str = usual(..., f"{', '.join(_TITLES)}.", choices=tuple(_TITLES), metavar="ENGINE")
    output: Path | None = usual(None, "Write the files into this folder; default: the screen.", metavar="DIR")
    collection: str | None = usual(None, "Of results of several collections: which.", metavar="NAME")
    index_name: str = option(INDEX, "What the engine calls the index, in files that name it.", metavar="NAME")
    field_name: str = option(FIELD, "What the index calls its field of text.", metavar="NAME")

    @property
    def names(self) -> Names:
        """Those of the index and its field."""
        return Names(self.index_name, self.field_name)


def deploy(results: _Results, target: _Target, chosen: Annotated[dict[str, Any], Tuned, "results"]) -> None:
    """Write a tuned setting as a search engine's files.

    What the engine cannot express is refused, with the nearest it can and what that costs in the measures.

    Examples
    --------
    lmtune deploy results --to elasticsearch --output cluster
    lmtune deploy fused.json --to opensearch --output cluster
    """
    names = target.names
    if target.output is not None:
        check_directory(target.output, _KIND, reads=[results])
    if results.is_file():
        choice, options = kept_fusion(results, **chosen)
        try:
            files = deploy_fusion(target.to, choice, options, names)
        except InputError:
            if target.to in HYBRIDS and (table := fusion_cost(results, target.to, choice, options)):
                say(table.text())
            raise
        _write(target, files, record(weights=choice.weights, engine=target.to))
        return
    if target.to not in ENGINES:
        accepted = "what lmtune fuse --format json printed"
        raise InputError(f"{_TITLES[target.to]} takes fused runs", file=results, accepted=accepted)
    model, values, collection = Tuned(results, **chosen).take(Collection(target.collection))
    if collection.analysis is None:
        raise InputError(
            "the results do not say their analysis", file=results, accepted="those of a tuning now"
        )
    if collection.exclude_self:
        note("the results leave out each topic's own document: leave it out of the engine's answers too")
    analyzer = Analyzer.from_settings(collection.analysis)
    engine, tuned = ENGINES[target.to], FinalSetting(model, values, collection)
    if not (expresses(engine, model, values) and stems(engine, analyzer.stemmer)):
        _show_cost(results, target, chosen, tuned)
    files = deploy_to(engine, model, values, analyzer, names)
    kept = record(model={"name": model, **values}, analysis=analyzer.settings, engine=target.to)
    _write(target, files, kept)


def _show_cost(results: Path, target: _Target, chosen: dict[str, Any], tuned: FinalSetting) -> None:
    """Print the nearest that the engine can beside what was tuned, or why that cannot be computed."""
    result, _ = read_results(results).of_collection(target.collection)
    row = final_row(results, result, **chosen)
    try:
        opened = replace(reopened(results, target.collection), analysis=tuned.collection.analysis)
        with stages() as progress:
            settings = tuned._replace(collection=opened)
            found, compared = _cost(ENGINES[target.to], result, row, settings, progress)
    except InputError as error:
        note(f"what the nearest costs was not computed: {error}")
        return
    nearest = Answer(f"Nearest setting for {_TITLES[target.to]}", [("Setting", found)])
    show(compared, "table", answer=lambda _: nearest)


def _cost(
    engine: Engine, result: CollectionResult, row: Row, tuned: FinalSetting, progress: Progress
) -> tuple[str, Comparison]:
    """Say and measure the nearest formula at its best; the nearest stemmer where it has the formula."""
    if expresses(engine, tuned.model, tuned.values):
        stemmers, compared = stemming_cost(engine, result, row, tuned.collection, progress=progress)
        counted = [f"{name} in {quantity(n, 'fold')}" for name, n in Counter(stemmers).items()]
        return (
            f"--stemmer {' and '.join(counted)}, by their training topics; held out, not tuned anew",
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
