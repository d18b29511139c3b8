"""Measures of runs: the text of trec_eval for one run, and tables of several.

The text equals that of trec_eval 9.0.8 or 10.0. The exceptions are cases where trec_eval stops or prints a
wrong number:

- With -J, a topic without retrieved judged documents has 0; trec_eval prints nan.
- A topic with negative judgments only has 0; trec_eval stops.
- The ideal ranking follows the order of the gains, even if ``ndcg.2=1.5`` makes two differ by less than 1.
- Rndcg differs if a parameter sets the gain of a relevant level to 0.
- Without -c, topics that a run misses are skipped for 10.0 too; trec_eval 10.0 stops.

Version 10.0 differs from 9.0.8:

- It compares scores as 64-bit numbers.
- iprec_at_recall and 11pt_avg need a different number of relevant documents at some recall points.
- With -q -c it prints the topics that a run misses as if the run had one unjudged document there.
- It adds the measures rbp, rbp_resid, unj, dcg and ideal_dcg.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lmtune.errors import as_text
from lmtune.measures.from_files import Evaluation, MeasureColumn, run_names
from lmtune.measures.trec_names import Summary, Value
from lmtune.report.table import Table, render


def run_table(
    evaluations: Sequence[Evaluation], style: str, *, per_topic: bool = False, summary: bool = True
) -> str:
    """Render runs evaluated with the same measures.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        One a run.
    style : {"table", "markdown", "latex", "csv", "json"}
        ``"table"`` is plain text. The first three have a column a run and a row a measure; with more
        runs than measures, rows and columns are exchanged. ``"csv"`` has a row a value. ``"csv"`` and
        ``"json"`` have full precision.
    per_topic : bool
        Whether to include the values of each topic.
    summary : bool
        Whether to include the values of all topics together.

    Returns
    -------
    str
        Ends with a newline.

    Raises
    ------
    InputError
        For an unknown style.
    """
    return render(
        style,
        lambda: [_measure_table(evaluations, per_topic, summary)],
        lambda: _value_records(evaluations, per_topic, summary),
        columns=("run", "file", "measure", "topic", "value"),
        content=lambda: _run_records(evaluations, per_topic, summary),
        indent=1,
    )


def _measure_table(evaluations: Sequence[Evaluation], per_topic: bool, summary: bool) -> Table:
    names = run_names(evaluations)
    cells: dict[tuple[str, str], list[str]] = {}
    for number, evaluation in enumerate(evaluations):
        for label, topic, value in _values(evaluation, per_topic, summary):
            row = cells.setdefault((label, topic), [""] * len(names))
            row[number] = shown(value).strip()
    cells.pop(("runid", "all"), None)
    if per_topic:
        ordered = sorted(cells, key=lambda key: key[1] == "all")
        header, rows = ["measure", "topic", *names], [[*key, *cells[key]] for key in ordered]
    else:
        header, rows = ["measure", *names], [[label, *row] for (label, _), row in cells.items()]
        if len(names) > len(rows):
            header, *rows = [list(column) for column in zip(["run", *names], *rows, strict=True)]
    leading = 2 if per_topic else 1
    return Table.of(header[:leading], header[leading:], [rows], "Measures of each run")


def _values(evaluation: Evaluation, per_topic: bool, summary: bool) -> Iterator[tuple[str, str, Value]]:
    """Yield measure, topic and value in the order of trec_eval."""
    if per_topic:
        columns = _topic_columns(evaluation)
        for number, topic in evaluation.listed():
            for column in columns:
                yield column.label, topic, column.values[number]
    if summary:
        for column in evaluation.columns:
            if column.mean is not None:
                yield column.label, "all", column.mean


def evaluation_records(evaluation: Evaluation) -> list[dict[str, object]]:
    """Return one record a measure."""
    return [{"run": evaluation.tag, "measure": c.label, "value": c.mean} for c in evaluation.columns]


def evaluation_topics(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """Yield the value of each measure on each topic."""
    for column in evaluation.columns:
        for topic, value in zip(evaluation.topics, column.values, strict=True) if column.values else ():
            yield {"measure": column.label, "topic": topic, "value": value, "run": evaluation.tag}


def _value_records(
    evaluations: Sequence[Evaluation], per_topic: bool, summary: bool
) -> list[dict[str, object]]:
    return [
        {"run": name, "file": as_text(evaluation.file), "measure": label, "topic": topic, "value": value}
        for name, evaluation in zip(run_names(evaluations), evaluations, strict=True)
        for label, topic, value in _values(evaluation, per_topic, summary)
    ]


def _run_records(
    evaluations: Sequence[Evaluation], per_topic: bool, summary: bool
) -> list[dict[str, object]]:
    records = []
    for name, evaluation in zip(run_names(evaluations), evaluations, strict=True):
        record: dict[str, object] = {"run": name, "file": as_text(evaluation.file)}
        if summary:
            record["all"] = {label: value for label, _, value in _values(evaluation, False, summary=True)}
        if per_topic:
            by_topic: dict[str, dict[str, Value]] = {}
            for label, topic, value in _values(evaluation, True, summary=False):
                by_topic.setdefault(topic, {})[label] = value
            record["topics"] = by_topic
        records.append(record)
    return records


def trec_eval_text(evaluation: Evaluation, *, per_topic: bool = False, summary: bool = True) -> str:
    """Return the output of trec_eval for one run, byte for byte.

    Parameters
    ----------
    evaluation : Evaluation
        The values of one run.
    per_topic : bool
        Whether to print the run's topics before the summary (``trec_eval -q``); for 10.0 all topics of
        the mean.
    summary : bool
        Whether to print the lines of all topics together; False is ``trec_eval -n``.

    Returns
    -------
    str
        Lines of measure, topic (or ``all``) and value, separated by tabs.
    """
    return "".join(line(*value) for value in _values(evaluation, per_topic, summary))


def line(label: str, topic: str, value: Value) -> str:
    """Return the line of one value."""
    return f"{label:<22}\t{topic}\t{shown(value)}\n"


def shown(value: Value) -> str:
    """Format a value: counts as integers, other numbers with four decimals."""
    return f"{value:6.4f}" if isinstance(value, float) else str(value)


def _topic_columns(evaluation: Evaluation) -> list[MeasureColumn]:
    """Return the columns that trec_eval prints for each topic."""
    only_together = (Summary.RUN, Summary.GEOMETRIC)
    return [column for column in evaluation.columns if column.summary not in only_together]


def evaluation_tables(evaluation: Evaluation) -> list[Table]:
    """Return the table of one run's measures."""
    return [_measure_table([evaluation], per_topic=False, summary=True)]
