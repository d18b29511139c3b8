"""``lmtune compare`` and ``judges``: compare runs with a baseline, and label sets with judgments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import click

from lmtune.cli.messages import complain, note, say
from lmtune.cli.screen import draw_pictures, show_table, stages
from lmtune.collections.collection import Collection
from lmtune.collections.texts import open_texts
from lmtune.errors import InputError
from lmtune.io.files import atomic_write
from lmtune.io.folders import check_file
from lmtune.io.rows import THESE_ARE_JUDGMENTS
from lmtune.io.slices import read_slices
from lmtune.measures.judges.agreement import JudgeOptions, compare_judges
from lmtune.measures.measure import parse_measures
from lmtune.measures.overlap import OverlapOptions, compare_overlap
from lmtune.measures.significance.comparison import (
    Comparison,
    ComparisonOptions,
    compare_runs,
    compare_slices,
    labelled_runs,
    named_files,
)
from lmtune.measures.significance.requirements import Requirement, check_requirements
from lmtune.measures.significance.stored import read_baseline, store_baseline
from lmtune.options import option, usual
from lmtune.report.comparison_tables import comparison_answer, comparison_legend, comparison_table
from lmtune.report.gate import github_text, junit_text
from lmtune.report.judge_tables import judge_table
from lmtune.report.overlap_tables import overlap_table
from lmtune.report.table import STYLES, Answer

GITHUB, FAILED = "github", 3
"""The format of requirements only, and the exit status if one fails."""
_OVERLAP = "lmtune compare --overlap BASELINE RUN..., without QRELS"
MEASURES = ("AP", "P@10", "nDCG@10")


@dataclass(frozen=True)
class ComparisonOutput:
    """Measures and output."""

    measure: tuple[str, ...] = usual(
        (),
        "A measure; repeat for several; default: those of --require, or AP, P@10 and nDCG@10.",
        flag="--measure -m",
        separator=None,
    )
    topics: str | None = usual(None, "Use only these judged topics: 401-450, a list 51,52 or @FILE.")
    per_topic: bool = usual(False, "Print each topic's difference, sorted.", flag="--per-topic -q")
    residuals: bool = usual(False, "Bound each difference over all judgments of unjudged documents.")
    style: str = usual(
        "table",
        "table, markdown, latex, csv or json; github for annotations of --require.",
        flag="--format",
        choices=(*STYLES, GITHUB),
    )
    predicted: Path | None = option(
        None,
        "Also estimate the differences on topics judged by a model, corrected with the human judgments.",
        metavar="QRELS",
    )
    plot: Path | None = usual(None, "Draw intervals and per-topic differences in this folder.", metavar="DIR")


@dataclass(frozen=True)
class Gate:
    """Gate for continuous integration."""

    require: tuple[str, ...] = usual(
        (),
        "Exit with status 3 unless this holds: 'nDCG@10 >= -0.01' (observed difference), 'nDCG@10 not worse "
        "by 0.01' (confidence bound); also with 'in SLICE' or 'in each slice'; repeat for several.",
        metavar="RULE",
        separator=None,
    )
    slices: Path | None = usual(
        None, "Also compare slices of topics: tab-separated, topics in column 1, a header.", metavar="TSV"
    )
    column: str | None = option(None, "The column with the slices, if there are several.", flag="--slice")
    junit: Path | None = option(None, "Write the results of --require as JUnit's XML.", metavar="FILE")
    store: Path | None = usual(
        None, "Store the baseline's values here, to be passed as BASELINE later.", metavar="FILE"
    )


@dataclass(frozen=True)
class _Overlap(OverlapOptions):
    """Comparison without judgments."""

    overlap: bool = usual(
        False, "Compare rankings without judgments: the arguments are BASELINE RUN..., without QRELS."
    )
    side_by_side: int = option(
        0, "Print the first documents of this many topics that moved most, side by side.", low=0
    )
    collection: str | None = option(
        None, "Print the documents' texts, too: pydocs, a folder or irds:ID.", metavar="DATASET"
    )


def compare(
    qrels: Annotated[Path, "Judgments: TREC's or BEIR's format.", "QRELS"],
    baseline: Annotated[
        Path, "The run to compare with, as FILE or NAME=FILE; or what --store wrote.", "BASELINE"
    ],
    runs: Annotated[list[Path] | None, "The runs to compare, in the same form.", "RUN"],
    comparison: ComparisonOptions,
    output: ComparisonOutput,
    gate: Gate,
    overlap: _Overlap,
) -> None:
    """Compare runs with a baseline and test the differences.

    Notes
    -----
    A judged topic that a run misses counts 0. judged@10 is the share of a run's first ten documents
    that is judged. --residuals prints the lowest and highest difference over all judgments of the
    unjudged documents: exact for P, R, nDCG, RBP, RR and Success; for AP and Bpref the bounds may be
    wider than necessary.

    --require is checked for each run; bounds are corrected over all requirements, slices and runs. Exit
    status: 0 if all requirements hold, 3 if not, 2 for invalid input.

    Examples
    --------
    lmtune compare qrels.txt BM25=bm25.run E5=dense.run -m AP --residuals
    lmtune compare qrels.txt bm25.run dense.run --require 'nDCG@10 >= -0.01'
    """
    if overlap.overlap:
        _show_overlap([qrels, baseline, *(runs or [])], comparison, output, gate, overlap)
        return
    if overlap != _Overlap():
        raise InputError("an option of --overlap without it", accepted=_OVERLAP)
    required = [Requirement.parse(text, comparison.margin) for text in gate.require]
    _check_options(output, gate, comparison, runs)
    named = labelled_runs([baseline, *(runs or [])])
    if output.predicted is not None and any(read_baseline(run, qrels) for run in named.values()):
        raise InputError("--predicted with stored values", accepted="the runs")
    labels = [*map(str, parse_measures(output.measure))] if output.measure else []
    measures = [*dict.fromkeys([*labels, *(one.measure for one in required)])] or MEASURES
    for path in filter(None, (gate.store, gate.junit)):
        check_file(path, reads=[qrels, *named.values(), *filter(None, (gate.slices,))])
    slices = None if gate.slices is None else read_slices(gate.slices, gate.column)
    if gate.store is not None:
        store_baseline(gate.store, qrels, next(iter(named.values())), measures, only=output.topics)
        note(f"stored the baseline's values in {gate.store}")
    if not runs:
        return
    with stages() as progress:
        compared = compare_runs(
            qrels,
            named,
            measures,
            comparison,
            only=output.topics,
            residuals=output.residuals,
            progress=progress,
        )
    by_slice = {} if slices is None else compare_slices(compared, slices)
    checks = check_requirements(compared, required, by_slice)
    if gate.junit is not None:
        with atomic_write(gate.junit) as stream:
            stream.write(junit_text(checks))
    if output.style == GITHUB:
        say(github_text(checks))
    else:
        show(compared, output.style, per_topic=output.per_topic, slices=by_slice, checks=checks)
    if output.predicted is not None:
        _show_corrected(qrels, output.predicted, named, compared, output)
    if output.plot is not None:
        from lmtune.report.figures import comparison_pictures

        draw_pictures(comparison_pictures(compared), output.plot)
    failed = [check for check in checks if not check.is_met]
    for check in failed:
        complain(str(check))
    if failed:
        raise click.exceptions.Exit(FAILED)


def _check_options(
    output: ComparisonOutput, gate: Gate, comparison: ComparisonOptions, runs: list[Path] | None
) -> None:
    """Raise InputError for options that need or exclude others."""
    if output.predicted is not None and (
        output.style in ("csv", "json", GITHUB)
        or comparison.pairwise
        or comparison.correction in ("bh", "hsd")
    ):
        accepted = "--format table, markdown or latex; lmtune.measures.judges.powered_runs returns a frame"
        what = "csv, json, github, --pairwise and --correction bh or hsd"
        raise InputError(f"--predicted conflicts with {what}", accepted=accepted)
    if not gate.require and (gate.junit is not None or output.style == GITHUB):
        what = "--junit" if gate.junit is not None else "--format github"
        raise InputError(f"{what} without --require", accepted="--require RULE")
    if gate.slices is None and gate.column is not None:
        raise InputError("--slice without --slices", value=gate.column, accepted="--slices TSV")
    if not runs and (gate.store is None or gate.require):
        accepted = "lmtune compare QRELS BASELINE RUN..., or --store FILE without RUN"
        raise InputError("nothing to compare with the baseline", accepted=accepted)


def _show_overlap(
    runs: list[Path], comparison: ComparisonOptions, output: ComparisonOutput, gate: Gate, overlap: _Overlap
) -> None:
    """Print the overlap of rankings with the first run's."""
    usable = ComparisonOutput(topics=output.topics, per_topic=output.per_topic, style=output.style)
    if output.style == GITHUB or (comparison, output, gate) != (ComparisonOptions(), usable, Gate()):
        accepted = "--topics, -q, --format, --persistence, --cutoff, --side-by-side, --collection"
        raise InputError("an option conflicts with --overlap", accepted=accepted)
    named = labelled_runs(runs)
    shown = overlap.side_by_side or int(overlap.collection is not None)
    details: dict[str, Any] = {"per_topic": output.per_topic, "side_by_side": shown}
    with stages() as progress:
        try:
            found = compare_overlap(named, overlap, only=output.topics, progress=progress)
        except InputError as error:
            if error.message == THESE_ARE_JUDGMENTS:
                error.accepted = _OVERLAP
            raise
        if overlap.collection is not None:
            collection = Collection(overlap.collection)
            dataset = collection.load(("documents", "topics"))
            rankings = [own for rows in found.values() for row in rows[:shown] for own in row.rankings]
            docnos = [*dict.fromkeys(docno for own in rankings for docno in own[: overlap.cutoff])]
            texts = open_texts(collection, dataset, progress=progress).of(docnos)
            details |= {"queries": dataset.topics, "texts": dict(zip(docnos, texts, strict=True))}
    show_table(overlap_table(next(iter(named)), found, overlap, output.style, **details))


def _show_corrected(
    qrels: Path, predicted: Path, runs: dict[str, Path], compared: Comparison, output: ComparisonOutput
) -> None:
    """Print differences from the baseline, estimated from a model's and human judgments."""
    from lmtune.measures.judges.prediction_powered import powered_runs
    from lmtune.report.judge_tables import powered_table

    found = powered_runs(
        qrels,
        predicted,
        runs,
        compared.measures,
        subtract=True,
        confidence=compared.contrasts[0].interval_confidence,
        topics=output.topics,
    )
    show_table("\n" + powered_table(found, output.style))


def show(
    compared: Comparison,
    style: str,
    *,
    answer: Callable[[Comparison], Answer] = comparison_answer,
    **details: Any,
) -> None:
    """Print a comparison, with the details of `comparison_table`; print its notes on standard error."""
    show_table(comparison_table(compared, style, answer=answer, **details))
    if style in ("csv", "json"):
        note(comparison_legend(compared).replace("\n", "; "))
    for text in compared.notes:
        note(text)


@dataclass(frozen=True)
class _JudgesOutput:
    """Runs and output."""

    runs: tuple[Path, ...] = usual(
        (),
        "A run, or a folder of runs, to rank by each label set; repeat for several.",
        flag="--runs",
        metavar="RUN",
        separator=None,
    )
    confusions: bool = usual(False, "Print the distribution of labels for each human grade.")
    style: str = usual("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)


def judges(
    qrels: Annotated[Path, "The human judgments.", "QRELS"],
    labels: Annotated[list[Path], "Label sets in qrels format, as FILE or NAME=FILE.", "LABELS"],
    options: JudgeOptions,
    output: _JudgesOutput,
) -> None:
    """Compare label sets, such as LLM judgments, with qrels.

    Notes
    -----
    Agreement is measured on the query-document pairs that both label sets have. Runs are ranked by their
    means over the common topics or, without any, over each set's topics. "favours most" is the run whose
    mean the judge raises most, relative to its mean shift over all runs; --family measures this for a group
    of runs. --format json has all runs and the confusion matrices.

    Examples
    --------
    lmtune judges qrels.txt gpt.txt llama.txt
    lmtune judges qrels.txt gpt.txt --runs runs -m AP --family 'bm25*'
    """
    files = [file for path in output.runs for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    given, runs = named_files(labels), named_files(files)
    with stages() as progress:
        found = compare_judges(qrels, given, runs, options, progress=progress)
    show_table(judge_table(found, output.style, confusions=output.confusions))
