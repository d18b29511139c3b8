"""trec_eval's text.

It equals that of 9.0.8 or 10.0, with these exceptions, where trec_eval prints no number or a wrong
one: under -J, a topic of which nothing retrieved is judged has 0 where it prints nan; a topic whose
judgements are all negative has 0 where it stops; the best ranking is in the order of the gains, even
where ``ndcg.2=1.5`` brings two within less than 1 of each other; Rndcg differs where a parameter
takes a relevant level's gain away; and without -c topics that a run misses are left out for 10.0
too, where it stops.

10.0 differs from 9.0.8: it compares scores as 64-bit numbers, asks for another number of relevant
documents at some points of recall (iprec_at_recall, 11pt_avg), prints under -q -c the topics that
the run misses as if it had one unjudged document there, and has the further measures rbp,
rbp_resid, unj, dcg and ideal_dcg.
"""

from __future__ import annotations

from collections.abc import Iterator

from lmtune.measures.from_files import Evaluation, MeasureColumn
from lmtune.measures.trec_names import Summary, Value


def trec_eval_text(evaluation: Evaluation, *, per_topic: bool = False, summary: bool = True) -> str:
    """Print values byte for byte as trec_eval prints them.

    Parameters
    ----------
    evaluation : Evaluation
        One run's values.
    per_topic : bool
        The topics that the run has, before the summary (``trec_eval -q``); of 10.0 all topics
        averaged over.
    summary : bool
        The lines of all topics together; False is ``trec_eval -n``.

    Returns
    -------
    str
        Lines of measure, topic (or ``all``) and value, with tabs between them.
    """
    lines: list[str] = []
    if per_topic:
        lines += _topic_lines(evaluation)
    if summary:
        lines += [
            line(column, "all", column.mean) for column in evaluation.columns if column.mean is not None
        ]
    return "".join(lines)


def line(column: MeasureColumn, topic: str, value: Value) -> str:
    """Print one value."""
    return f"{column.label:<22}\t{topic}\t{shown(value)}\n"


def shown(value: Value) -> str:
    """Print a value alone: counts as integers, other numbers with four digits."""
    return f"{value:6.4f}" if isinstance(value, float) else str(value)


def topic_columns(evaluation: Evaluation) -> list[MeasureColumn]:
    """Return the measures that trec_eval prints for each topic."""
    only_together = (Summary.RUN, Summary.GEOMETRIC)
    return [column for column in evaluation.columns if column.summary not in only_together]


def _topic_lines(evaluation: Evaluation) -> Iterator[str]:
    columns = topic_columns(evaluation)
    for place, topic in evaluation.listed():
        for column in columns:
            yield line(column, topic, column.values[place])
