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
    """Measures and output."""

    measure: tuple[str, ...] = usual(
        ("AP", "P@10", "nDCG@10"), "A measure; repeat for several.", flag="--measure -m", separator=None
    )
    topics: str | None = usual(None, "Use only these judged topics: 401-450, a list 51,52 or @FILE.")
    per_topic: bool = usual(False, "Print each topic's difference, sorted.", flag="--per-topic -q")
    residuals: bool = usual(False, "Bound each difference over all judgments of unjudged documents.")
    style: str = usual("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)
    predicted: Path | None = option(
        None,
        "Also estimate the differences on topics judged by a model, corrected with the human judgments.",
        metavar="QRELS",
    )
    plot: Path | None = usual(None, "Draw intervals and per-topic differences in this folder.", metavar="DIR")


def compare(
    qrels: Annotated[Path, "Judgments: TREC's or BEIR's format.", "QRELS"],
    baseline: Annotated[Path, "The run to compare with, as FILE or NAME=FILE.", "BASELINE"],
    runs: Annotated[list[Path], "The runs to compare, in the same form.", "RUN"],
    comparison: ComparisonOptions,
    output: ComparisonOutput,
) -> None:
    """Compare runs with a baseline and test the differences.

    Notes
    -----
    A judged topic that a run misses counts 0. judged@10 is the share of a run's first ten documents
    that is judged. --residuals prints the lowest and highest difference over all judgments of the
    unjudged documents: exact for P, R, nDCG, RBP, RR and Success; for AP and Bpref the bounds may be
    wider than necessary.

    Examples
    --------
    lmtune compare qrels.txt bm25.run dense.run --residuals
    lmtune compare qrels.txt BM25=bm25.run E5=dense.run -m AP --test wilcoxon
    """
    if output.predicted is not None and (
        output.style in ("csv", "json") or comparison.pairwise or comparison.correction in ("bh", "hsd")
    ):
        accepted = "--format table, markdown or latex; lmtune.measures.judges.powered_runs returns a frame"
        what = "csv, json, --pairwise and --correction bh or hsd"
        raise InputError(f"--predicted conflicts with {what}", accepted=accepted)
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
    per_topic: bool = False,
    answer: Callable[[Comparison], Answer] = comparison_answer,
) -> None:
    """Print a comparison; print its notes on standard error."""
    show_table(comparison_table(compared, style, per_topic=per_topic, answer=answer))
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
