"""``lmtune judges``: how far sets of labels agree with judgements."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import on_screen
from lmtune.cli.screen import stages, utf8_output
from lmtune.measures.judges.agreement import JudgeOptions, compare_judges
from lmtune.measures.significance.comparison import named_files
from lmtune.options import usual
from lmtune.report.judge_tables import judge_table
from lmtune.report.table import STYLES


@dataclass(frozen=True)
class JudgesOutput:
    """Runs and tables."""

    runs: tuple[Path, ...] = usual(
        (),
        "A run, or a folder of runs, to put in order; repeat it for several.",
        flag="--runs",
        metavar="RUN",
        separator=None,
    )
    confusions: bool = usual(False, "Add how likely each label is, given the judgements'.")
    style: str = usual("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)


def judges(
    qrels: Annotated[Path, "The judgements to trust.", "QRELS"],
    labels: Annotated[
        list[Path], "Sets of labels, in the judgements' format, as FILE or NAME=FILE.", "LABELS"
    ],
    options: JudgeOptions,
    output: JudgesOutput,
) -> None:
    """Hold sets of labels, such as language models', against judgements.

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
    with utf8_output() as stream:
        stream.write(on_screen(judge_table(found, output.style, confusions=output.confusions)))
