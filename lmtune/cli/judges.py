"""``lmtune judges`` and ``judge``: how far sets of labels agree with judgements, and what to judge next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import note, on_screen, say
from lmtune.cli.pages import Serving, check_servers, serve_page
from lmtune.cli.screen import stages, utf8_output
from lmtune.datasets.collection import Collection
from lmtune.datasets.texts import open_texts
from lmtune.errors import InputError
from lmtune.judging.judges import JudgeOptions, compare_judges
from lmtune.judging.selection import pairs_to_judge
from lmtune.judging.sheet import Entry, read_sheet, write_sheet
from lmtune.measures.significance.run_files import run_labels
from lmtune.options import usual
from lmtune.reporting.judge_tables import judge_table
from lmtune.reporting.table import STYLES
from lmtune.storage.outputs import check_file


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
    labels: Annotated[list[Path], "Sets of labels, in the judgements' format.", "LABELS"],
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
    if len({path.resolve() for path in labels}) < len(labels):
        raise InputError("labels are given twice", value=[str(path) for path in labels], accepted="each once")
    given = dict(zip(run_labels(labels), labels, strict=True))
    runs = dict(zip(run_labels(files), files, strict=True))
    with stages() as progress:
        found = compare_judges(qrels, given, runs, options, progress=progress)
    with utf8_output() as stream:
        stream.write(on_screen(judge_table(found, output.style, confusions=output.confusions)))


@dataclass(frozen=True)
class Judging:
    """What to judge."""

    output: Path = usual(..., "The file to fill in: judgements with ? for the gain.", metavar="FILE")
    measure: str = usual("P@10", "What the runs are compared by: P@k, RBP or nDCG@k.", flag="--measure -m")
    number: int = usual(50, "Of pairs.", flag="--number -n", low=1)
    page: bool = usual(False, "Judge on a page, by keys; a file that is there is gone on with.")
    collection: str | None = usual(
        None, "Whose topics and documents the page shows: pydocs, a folder, irds:ID.", metavar="DATASET"
    )


def judge(
    qrels: Annotated[Path, "The judgements so far.", "QRELS"],
    runs: Annotated[list[Path], "Runs; several: the first is held against the others.", "RUN"],
    judging: Judging,
    serving: Serving,
) -> None:
    """Choose the pairs whose judgements leave least open between runs.

    Notes
    -----
    A pair weighs as much as a gain of 1 would move the runs' differences from the first (of one run: its
    measure); topics without any judgement are left out. Replace each ? of the file by a gain, or do it on a
    page (--page), where each label is saved at once; then put the file's lines to the judgements.

    Examples
    --------
    lmtune judge qrels.txt bm25.run dense.run --output to-judge.txt
    lmtune judge qrels.txt bm25.run --output pairs.txt --page --collection DIR
    """
    if judging.page:
        check_servers("judge --page")
    elif judging.collection is not None:
        raise InputError("--collection without --page", value=judging.collection, accepted="both, or neither")
    check_file(judging.output, reads=[qrels, *runs])
    if judging.page and judging.output.exists():
        read_sheet(judging.output)
    else:
        _choose(qrels, runs, judging)
    if judging.page:
        _serve(judging, serving)


def _choose(qrels: Path, runs: list[Path], judging: Judging) -> None:
    found = pairs_to_judge(qrels, runs, judging.measure, number=judging.number)
    write_sheet(judging.output, [Entry(pair.topic, pair.docno) for pair in found.pairs])
    topics = len({pair.topic for pair in found.pairs})
    undecided = f"what {found.unjudged:,} unjudged pairs leave open of {found.measure}"
    between = f" between {found.runs[0]} and {', '.join(found.runs[1:])}" if found.runs[1:] else ""
    say(
        f"{len(found.pairs)} pairs of {topics} topics carry {found.share:.0%} of {undecided}{between}; as "
        f"many by their best rank, {found.pooled:.0%}.\n"
    )
    note(f"wrote {judging.output}")


def _serve(judging: Judging, serving: Serving) -> None:
    from lmtune.exploring.labelling import Labelling, Sheet

    topics, texts = {}, None
    if judging.collection is not None:
        with stages() as progress:
            collection = Collection(judging.collection)
            dataset = collection.load(("documents", "topics"), progress=progress)
            topics, texts = dataset.topics, open_texts(collection, dataset, progress=progress)
    serve_page(Labelling(Sheet(judging.output, topics, texts)), serving)
    entries = read_sheet(judging.output)
    done = sum(entry.label is not None for entry in entries)
    note(f"{done} of {len(entries)} pairs of {judging.output} are judged")
