"""``lmtune compare``: which runs differ from a baseline by more than chance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import note, on_screen
from lmtune.cli.screen import stages, utf8_output
from lmtune.measures.significance.contrasts import Comparison
from lmtune.measures.significance.options import ComparisonOptions
from lmtune.measures.significance.run_files import compare_runs
from lmtune.options import option
from lmtune.reporting.comparison_tables import comparison_table, legend
from lmtune.reporting.table import STYLES


@dataclass(frozen=True)
class ComparisonOutput:
    """What is measured and printed."""

    measure: tuple[str, ...] = option(
        ("AP", "P@10", "nDCG@10"), "As for tune; repeat it for several.", flag="--measure -m", separator=None
    )
    topics: str | None = option(None, "Of the judged topics these alone: 401-450, a list 51,52 or @FILE.")
    per_topic: bool = option(False, "Add every topic's difference, sorted.", flag="--per-topic -q")
    style: str = option("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)
    plot: Path | None = option(None, "Draw intervals and topics' differences in this folder.", metavar="DIR")


def compare(
    qrels: Annotated[Path, "Judgements: TREC's or BEIR's format.", "QRELS"],
    baseline: Annotated[Path, "The run to compare with.", "BASELINE"],
    runs: Annotated[list[Path], "The runs to compare.", "RUN"],
    comparison: ComparisonOptions,
    output: ComparisonOutput,
) -> None:
    """Compare runs with a baseline, topic by topic; a judged topic that a run misses counts 0."""
    with stages() as progress:
        found = compare_runs(
            qrels, [baseline, *runs], output.measure, comparison, only=output.topics, progress=progress
        )
    show(found, output.style, per_topic=output.per_topic)
    if output.plot is not None:
        from lmtune.reporting.figures import comparison_pictures, save

        for picture in comparison_pictures(found):
            save(picture.figure, output.plot / f"{picture.name}.svg")
        note(f"drew {len(found.contrasts) + 1} pictures in {output.plot}")


def show(found: Comparison, style: str, *, per_topic: bool = False) -> None:
    """Print a comparison, and on standard error what a reader must know."""
    with utf8_output() as stream:
        stream.write(on_screen(comparison_table(found, style, per_topic=per_topic)))
    if style in ("csv", "json"):
        note(legend(found))
    for text in found.notes:
        note(text)
