"""``lmtune evaluate``: imports little, so that it starts quickly."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lmtune.cli.forms import stopping
from lmtune.cli.messages import complain, note, say
from lmtune.errors import InputError
from lmtune.measures.from_files import Evaluation, EvaluationOptions, evaluations
from lmtune.measures.trec_names import VERSIONS
from lmtune.options import option, usual

_LONG = {
    "query_eval_wanted": "per-topic",
    "complete_rel_info_wanted": "complete",
    "level_for_rel": "level",
    "nosummary": "no-summary",
    "Judged_docs_only": "judged-only",
    "Number_docs_in_coll": "documents",
    "Max_retrieved_per_topic": "depth",
    "Rel_info_format": "rel-format",
    "Results_format": "run-format",
    "Output_old_results_format": "old-format",
}
"""Long options of trec_eval -> names here."""

_NAMED = 20  # topics listed in a note


@dataclass(frozen=True)
class _Printing:
    """Output."""

    measure: tuple[str, ...] = usual(
        ("official",), "A measure; repeat for several.", flag="--measure -m", metavar="NAME", separator=None
    )
    per_topic: bool = usual(False, "Print each topic's values too.", flag="--per-topic -q")
    no_summary: bool = usual(False, "Do not print the means over all topics.", flag="--no-summary -n")
    all_measures: bool = option(False, "The same as --measure all_trec.", flag="--all-measures -a")
    residuals: bool = usual(
        False, "Print the lowest and highest value over all judgments of unjudged documents."
    )
    predicted: Path | None = option(
        None,
        "Estimate means on topics judged by a model, corrected with the human judgments.",
        metavar="QRELS",
    )
    style: str | None = usual(
        None,
        "trec_eval, table, markdown, latex, csv or json; default: trec_eval for one run, table for more.",
        flag="--format",
        metavar="NAME",
        choices=("trec_eval", "table", "markdown", "latex", "csv", "json"),
    )


@dataclass(frozen=True)
class _Accepted:
    """Compatibility with trec_eval."""

    judgment_format: str = option(
        "qrels", "Format of the judgments: qrels.", flag="--rel-format -R", choices=("qrels",)
    )
    run_format: str = option(
        "trec_results", "Format of the runs: trec_results.", flag="--run-format -T", choices=("trec_results",)
    )
    old: bool = option(False, "No effect, as in trec_eval 9.0.8.", flag="--old-format -o")


def _print_version() -> None:
    from lmtune._version import __version__

    complain(f"trec_eval version {VERSIONS[0]}, and {VERSIONS[1]} by --trec-eval, in lmtune {__version__}")


def evaluate(
    qrels: Annotated[
        str,
        "Judgments: TREC, BEIR or LETOR format, .csv, .json, .parquet; .gz, .bz2, .zst; - is standard input.",
        "QRELS",
    ],
    runs: Annotated[list[str], "TREC runs, as FILE or NAME=FILE.", "RUN"],
    settings: EvaluationOptions,
    printing: _Printing,
    _accepted: _Accepted,
) -> None:
    """Evaluate runs with trec_eval's measures.

    Notes
    -----
    Measures: official (the default), all_trec, set; trec_eval's names, such as map, P_10, ndcg_cut.20,
    iprec_at_recall.0.1; ir_measures' names, such as AP, nDCG@10, 'nDCG(dcg="exp-log2")@10' (gains 2^g - 1),
    'AP(rel=2)@100', MRR@10. Separate several by commas or blanks.

    The output for one run equals trec_eval's for the same arguments, byte for byte. A judged topic that the
    run misses is left out of its means; with -c it counts 0. Topics without judgments are ignored. A topic
    without relevant documents counts 0. Documents are ordered by score (a 32-bit number; 64 bits for 10.0),
    then by docno, both descending. trec_eval's long options are accepted; -D, -Z and -R are missing.

    --residuals prints the lowest and highest value over all judgments of the run's unjudged documents, for
    AP, Bpref, P, R, nDCG, RBP, RR and Success. judged@10 is the judged share of the first ten documents.

    --predicted estimates each mean over all topics that a model judged, corrected with QRELS
    (prediction-powered inference). QRELS must judge 8 topics, or 20 for a measure with two values (P@1).

    Examples
    --------
    lmtune evaluate qrels.txt bm25.run
    lmtune evaluate qrels.txt bm25.run dense.run -c -m AP -m nDCG@10 --residuals
    """
    named_runs = _named(runs)
    if printing.residuals and printing.predicted is None:
        _print_residuals(qrels, named_runs, settings, printing)
        return
    if printing.predicted is not None:
        from lmtune.measures.judges.prediction_powered import powered_runs
        from lmtune.report.judge_tables import powered_table

        if printing.residuals or settings != EvaluationOptions(
            complete=settings.complete, topics=settings.topics
        ):
            accepted = "--measure, --topics, --complete, --format"
            raise InputError("an option conflicts with --predicted", accepted=accepted)
        named = ("AP", "P@10", "nDCG@10") if printing.measure == ("official",) else printing.measure
        estimates = powered_runs(qrels, printing.predicted, named_runs, named, topics=settings.topics)
        say(powered_table(estimates, printing.style or "table"))
        return
    named = (*printing.measure, "all_trec") if printing.all_measures else printing.measure
    evaluated = []
    for evaluation in evaluations(qrels, named_runs, named, settings=settings):
        _explain(evaluation, settings)
        evaluated.append(evaluation)
    if len({evaluation.topics for evaluation in evaluated}) > 1:
        note("the runs' means are over different topics; -c uses all judged topics for each run")
    say(_text(evaluated, printing))


SETTINGS = {
    "spelling": lambda name: _LONG.get(name, name),
    "more": [
        stopping(["--version", "-v"], "Print the versions of trec_eval that are reproduced.", _print_version)
    ],
}
"""Arguments of `Command`."""


def _named(runs: list[str]) -> list[str] | dict[str, Path]:
    """Return runs by name if one has the form NAME=FILE; otherwise runs keep their tags."""
    if all("=" not in run or Path(run).exists() for run in runs):
        return runs
    from lmtune.measures.significance.comparison import named_files

    return named_files(runs)


def _print_residuals(
    qrels: str, runs: list[str] | dict[str, Path], settings: EvaluationOptions, printing: _Printing
) -> None:
    from lmtune.measures.residual_bounds import MEASURES, run_residuals
    from lmtune.report.judge_tables import residual_table

    measures = MEASURES if printing.measure == ("official",) else printing.measure
    found = []
    for one in run_residuals(qrels, runs, measures, settings=settings):
        _explain(one.evaluation, settings)
        found.append(one)
    say(residual_table(found, printing.style or "table", per_topic=printing.per_topic))


def _text(evaluated: list[Evaluation], printing: _Printing) -> str:
    style = printing.style or ("trec_eval" if len(evaluated) == 1 else "table")
    summary = not printing.no_summary
    if style == "trec_eval":
        from lmtune.report.run_tables import trec_eval_text

        return "".join(
            trec_eval_text(one, per_topic=printing.per_topic, summary=summary) for one in evaluated
        )
    from lmtune.report.run_tables import run_table

    return run_table(evaluated, style, per_topic=printing.per_topic, summary=summary)


def _explain(evaluation: Evaluation, settings: EvaluationOptions) -> None:
    """Print notes on what a reader might misunderstand."""
    if evaluation.reversed_ranks:
        note(
            f"{evaluation.file}: scores rise with the rank, but the highest score is ranked first; "
            "negate distances"
        )
    if evaluation.passed:
        kinds = ", ".join(f"{count} {kind}" for kind, count in evaluation.passed.items())
        note(f"{evaluation.file}: skipped lines: {kinds}")
    if evaluation.missed:
        count = (
            f"{len(evaluation.missed)} of {len(evaluation.missed) + len(evaluation.retrieved)} judged topics"
        )
        names = ", ".join(evaluation.missed[:_NAMED]) + (", ..." if len(evaluation.missed) > _NAMED else "")
        how = "counted as 0" if settings.complete else "left out of the means; -c counts them as 0"
        note(f"{evaluation.file}: the run misses {count}, {how}: {names}")
    if evaluation.unjudged:
        note(f"{evaluation.file}: topics without judgments, left out: {evaluation.unjudged}")
