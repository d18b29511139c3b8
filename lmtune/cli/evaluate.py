"""``lmtune evaluate``: its own parser and few imports, so that it starts at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from lmtune.cli.messages import note, prepare_process, status_of
from lmtune.errors import InputError
from lmtune.measures.from_files import Evaluation, Settings
from lmtune.measures.from_files import evaluate as evaluate_files

_FORMATS = ("trec_eval", "table", "markdown", "latex", "csv", "json")
_EPILOG = """\
Measures: official (the default), all_trec, set; trec_eval's names with parameters, such as map,
P.5,10, P_10, ndcg_cut.20, iprec_at_recall.0.1; ir_measures' names, such as AP, nDCG@10,
'nDCG(dcg="exp-log2")@10' (gains 2^g - 1; trec_eval's are g), 'AP(rel=2)@100'.

A judged topic that the run misses counts 0; topics without judgements play no part; a topic
without relevant documents counts 0. Documents rank by score as a 32-bit number, descending, then by
docno, descending, as in trec_eval up to 9.0.8; 10.0 compares 64 bits."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message, accepted="what lmtune evaluate --help says")


def _parser() -> _Parser:
    parser = _Parser(
        prog="lmtune evaluate",
        description="Print runs' measures as trec_eval does.",
        epilog=_EPILOG,
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=100),
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("qrels", metavar="QRELS", help="judgements, TREC's or BEIR's format; .gz .bz2 .zst")
    add("runs", metavar="RUN", nargs="+", help="TREC runs; .gz .bz2 .zst")
    add("-m", "--measure", action="append", metavar="NAME", help="repeat it for several")
    add("-q", "--per-topic", action="store_true", help="print each topic's values as well")
    add("-n", "--no-summary", action="store_true", help="print no line of all topics together")
    add(
        "-c",
        "--complete",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="average over all judged topics, or over those that the run has",
    )
    add(
        "-l",
        "--level",
        type=int,
        default=1,
        metavar="N",
        help="the smallest relevant gain, for trec_eval's names (default: 1)",
    )
    add("-M", "--depth", type=int, metavar="N", help="documents of a topic that count")
    add("-J", "--judged-only", action="store_true", help="drop documents without judgements")
    add(
        "--format",
        choices=_FORMATS,
        metavar="NAME",
        help=f"{', '.join(_FORMATS)} (default: trec_eval for one run, table for more)",
    )
    add("--lenient", action="store_true", help="skip bad lines of runs, and count them")
    return parser


def evaluate(arguments: Sequence[str]) -> None:
    """Print the measures of runs; see ``--help``.

    Raises
    ------
    InputError
        For bad arguments, measures and files; then nothing is printed.
    SystemExit
        After ``--help``.
    """
    given = _parser().parse_args(arguments)
    settings = Settings(
        complete=given.complete,
        level=given.level,
        depth=given.depth,
        judged_only=given.judged_only,
        lenient=given.lenient,
    )
    style = given.format or ("trec_eval" if len(given.runs) == 1 else "table")
    evaluations = []
    for found in evaluate_files(given.qrels, given.runs, given.measure or ["official"], settings=settings):
        _explain(found)
        evaluations.append(found)
    sys.stdout.write(_text(evaluations, style, given.per_topic, not given.no_summary))


def run_alone(arguments: Sequence[str]) -> int:
    """Run the command as a program of its own and return its exit status."""
    prepare_process()
    try:
        evaluate(arguments)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        status = status_of(error)
        if status is None:
            raise
        return status
    return 0


def _text(evaluations: list[Evaluation], style: str, per_topic: bool, summary: bool) -> str:
    if style == "trec_eval":
        from lmtune.reporting.trec_eval import trec_eval_text

        return "".join(trec_eval_text(found, per_topic=per_topic, summary=summary) for found in evaluations)
    from lmtune.reporting.run_tables import run_table

    return run_table(evaluations, style, per_topic=per_topic, summary=summary)


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
