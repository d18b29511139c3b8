"""``lmtune evaluate``: few imports and its own reading of arguments, so that it starts at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from lmtune.cli import forms
from lmtune.cli.messages import note, prepare_process, say, status_of
from lmtune.measures.from_files import Evaluation, EvaluationOptions
from lmtune.measures.from_files import evaluate as evaluate_files
from lmtune.options import option

EPILOG = """\
Measures: official (the default), all_trec, set; trec_eval's names with parameters, such as map, \
P.5,10, P_10, ndcg_cut.20, iprec_at_recall.0.1; ir_measures' names, such as AP, nDCG@10, \
'nDCG(dcg="exp-log2")@10' (gains 2^g - 1; trec_eval's are g), 'AP(rel=2)@100'.

A judged topic that the run misses counts 0; topics without judgements play no part; a topic \
without relevant documents counts 0. Documents rank by score as a 32-bit number, descending, then by \
docno, descending, as in trec_eval up to 9.0.8; 10.0 compares 64 bits."""


@dataclass(frozen=True)
class Printing:
    """What is printed."""

    measure: tuple[str, ...] = option(
        ("official",),
        "A measure; repeat it for several.",
        flag="--measure -m",
        metavar="NAME",
        separator=None,
    )
    per_topic: bool = option(False, "Print each topic's values as well.", flag="--per-topic -q")
    no_summary: bool = option(False, "Print no line of all topics together.", flag="--no-summary -n")
    style: str | None = option(
        None,
        "trec_eval, table, markdown, latex, csv or json; default: trec_eval for one run, table for more.",
        flag="--format",
        metavar="NAME",
        choices=("trec_eval", "table", "markdown", "latex", "csv", "json"),
    )


def evaluate(
    qrels: Annotated[str, "Judgements, TREC's or BEIR's format; .gz .bz2 .zst.", "QRELS"],
    runs: Annotated[list[str], "TREC runs; .gz .bz2 .zst.", "RUN"],
    settings: EvaluationOptions,
    printing: Printing,
) -> None:
    """Print runs' measures as trec_eval does."""
    evaluations = []
    for found in evaluate_files(qrels, runs, printing.measure, settings=settings):
        _explain(found)
        evaluations.append(found)
    say(_text(evaluations, printing))


def run_alone(arguments: Sequence[str]) -> int:
    """Run the command as a program of its own and return its exit status."""
    prepare_process()
    try:
        evaluate(**forms.parse(evaluate, arguments))
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        status = status_of(error)
        if status is None:
            raise
        return status
    return 0


def _text(evaluations: list[Evaluation], printing: Printing) -> str:
    style = printing.style or ("trec_eval" if len(evaluations) == 1 else "table")
    summary = not printing.no_summary
    if style == "trec_eval":
        from lmtune.reporting.trec_eval import trec_eval_text

        texts = [
            trec_eval_text(found, per_topic=printing.per_topic, summary=summary) for found in evaluations
        ]
        return "".join(texts)
    from lmtune.reporting.run_tables import run_table

    return run_table(evaluations, style, per_topic=printing.per_topic, summary=summary)


def _explain(found: Evaluation) -> None:
    """Say what is not as it seems."""
    if found.passed:
        kinds = ", ".join(f"{count} {kind}" for kind, count in found.passed.items())
        note(f"{found.file}: bad lines: {kinds}")
    missing = len(found.topics) - len(found.retrieved)
    if missing:
        of_all = f"{missing} of {len(found.topics)}"
        note(f"{found.file}: judged topics that the run misses, counted as 0: {of_all}")
    if found.unjudged:
        note(f"{found.file}: topics without judgements, left out: {found.unjudged}")
