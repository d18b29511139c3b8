"""``lmtune compare`` and ``judges``: compare runs with a baseline, and label sets with judgments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import note
from lmtune.cli.screen import show_table, stages
from lmtune.errors import InputError
from lmtune.measures.judges.agreement import JudgeOptions, compare_judges
from lmtune.measures.significance.comparison import (
    Comparison,
    ComparisonOptions,
    compare_runs,
    labelled_runs,
    named_files,
)
from lmtune.options import option, usual
from lmtune.report.comparison_tables import comparison_answer, comparison_legend, comparison_table
from lmtune.report.judge_tables import judge_table
from lmtune.report.table import STYLES, Answer


@dataclass(frozen=True)
class ComparisonOutput:
    """Measures, tables and pictures."""

    measure: tuple[str, ...] = usual(
        ("AP", "P@10", "nDCG@10"), "As for tune; repeat it for several.", flag="--measure -m", separator=None
    )
    topics: str | None = usual(None, "Of the judged topics these alone: 401-450, a list 51,52 or @FILE.")
    per_topic: bool = usual(False, "Add every topic's difference, sorted.", flag="--per-topic -q")
    residuals: bool = usual(False, "Say which differences the unjudged documents could turn, and how far.")
    style: str = usual("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)
    predicted: Path | None = option(
        None,
        "A model's judgments of more topics: add differences over all of these, corrected by QRELS'.",
        metavar="QRELS",
    )
    plot: Path | None = usual(None, "Draw intervals and topics' differences in this folder.", metavar="DIR")


def compare(
    qrels: Annotated[Path, "Judgments: TREC's or BEIR's format.", "QRELS"],
    baseline: Annotated[Path, "The run to compare with, as FILE or NAME=FILE.", "BASELINE"],
    runs: Annotated[list[Path], "The runs to compare, likewise.", "RUN"],
    comparison: ComparisonOptions,
    output: ComparisonOutput,
) -> None:
    """Compare runs with a baseline and test the differences.

    Notes
    -----
    A judged topic that a run misses counts 0. judged@10 is the share of a run's first ten documents
    that is judged. --residuals bounds each difference over all ways to judge what either run ranks
    without a judgment, a document alike in both: exactly for P, R, nDCG, RBP, RR and Success; for AP
    and Bpref by an interval that may be wider than need be.

    Examples
    --------
    lmtune compare qrels.txt bm25.run dense.run --residuals
    lmtune compare qrels.txt BM25=bm25.run E5=dense.run -m AP --test wilcoxon
    """
    if output.predicted is not None and (output.style in ("csv", "json") or comparison.pairwise):
        accepted = "a table of differences from one run; lmtune.measures.judges.powered_runs has frames"
        raise InputError("--predicted with csv, json or --pairwise", accepted=accepted)
    named = labelled_runs([baseline, *runs])
    with stages() as progress:
        compared = compare_runs(
            qrels,
            named,
            output.measure,
            comparison,
            only=output.topics,
            residuals=output.residuals,
            progress=progress,
        )
    show(compared, output.style, per_topic=output.per_topic)
    if output.predicted is not None:
        _show_corrected(qrels, output.predicted, named, compared, output)
    if output.plot is not None:
        from lmtune.report.figures import comparison_pictures, save

        for picture in comparison_pictures(compared):
            save(picture.figure, output.plot / f"{picture.name}.svg")
        note(f"drew {len(compared.contrasts) + 1} pictures in {output.plot}")


def _show_corrected(
    qrels: Path, predicted: Path, runs: dict[str, Path], compared: Comparison, output: ComparisonOutput
) -> None:
    """Print the differences from the baseline by a model's judgments, corrected by QRELS'."""
    from lmtune.measures.judges.prediction_powered import powered_runs
    from lmtune.report.judge_tables import powered_table

    found = powered_runs(
        qrels,
        predicted,
        runs,
        compared.measures,
        subtract=True,
        confidence=compared.interval_confidence,
        topics=output.topics,
    )
    show_table("\n" + powered_table(found, output.style))


def show(
    compared: Comparison,
    style: str,
    *,
    per_topic: bool = False,
    answer: Callable[[Comparison], Answer] = comparison_answer,
) -> None:
    """Print a comparison, and its notes on standard error."""
    show_table(comparison_table(compared, style, per_topic=per_topic, answer=answer))
    if style in ("csv", "json"):
        note(comparison_legend(compared))
    for text in compared.notes:
        note(text)


@dataclass(frozen=True)
class _JudgesOutput:
    """Runs and tables."""

    runs: tuple[Path, ...] = usual(
        (),
        "A run, or a folder of runs, to put in order; repeat it for several.",
        flag="--runs",
        metavar="RUN",
        separator=None,
    )
    confusions: bool = usual(False, "Add how likely each label is, given the judgments'.")
    style: str = usual("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)


def judges(
    qrels: Annotated[Path, "The judgments to trust.", "QRELS"],
    labels: Annotated[
        list[Path], "Sets of labels, in the judgments' format, as FILE or NAME=FILE.", "LABELS"
    ],
    options: JudgeOptions,
    output: _JudgesOutput,
) -> None:
    """Compare label sets, such as LLM judgments, with qrels.

    Notes
    -----
    Agreement is of the pairs of topic and document that both labelled. Runs are ordered by their means over
    the topics that both labelled, or, where there are none, over each one's own; "favours most" is the run
    to whose mean a judge adds most, beside what it adds to all; --family says it of some runs together.
    --format json has all runs and confusions.

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
