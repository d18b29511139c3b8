"""Tables of the overlap of rankings: runs, the topics that moved most, and their documents side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from statistics import fmean

from lmtune.measures.overlap import OverlapOptions, TopicOverlap
from lmtune.progress import quantity
from lmtune.report.comparison_tables import DASH
from lmtune.report.table import Answer, Table, render, short

Overlaps = Mapping[str, Sequence[TopicOverlap]]
MOVED = 10
"""Topics in the table of those that moved most."""
_LONGEST = 60  # characters of a text
_FIGURES = ("rbo", "jaccard", "tau")


def overlap_table(
    baseline: str,
    overlaps: Overlaps,
    options: OverlapOptions,
    style: str,
    *,
    per_topic: bool = False,
    side_by_side: int = 0,
    queries: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
) -> str:
    """Render what `lmtune.measures.overlap.compare_overlap` returns.

    Parameters
    ----------
    baseline : str
        The baseline's name.
    overlaps : mapping of str to sequence of TopicOverlap
        By run, the topics that moved most first.
    options : OverlapOptions
        The parameters of the measures.
    style : {"table", "markdown", "latex", "csv", "json"}
        CSV and JSON have all topics.
    per_topic : bool
        Whether to list all topics, not only `MOVED`.
    side_by_side : int
        Number of topics of each run whose documents are printed side by side.
    queries, texts : mapping of str to str, optional
        Texts by topic, and by docno, for these documents.
    """

    def tables() -> list[Table]:
        made = [_run_table(baseline, overlaps, options), _topic_table(overlaps, options, per_topic=per_topic)]
        for run, rows in overlaps.items():
            for row in rows[:side_by_side]:
                query = (queries or {}).get(row.topic, "")
                made.append(_side_by_side((baseline, run), row, options.cutoff, query, texts or {}))
        return made

    return render(
        style,
        tables,
        lambda: [_record(run, row) for run, rows in overlaps.items() for row in rows],
        answer=lambda: _answer(baseline, overlaps),
        content=lambda: [
            _record(run, row) | dict(zip(("against", "ranking"), row.rankings, strict=True))
            for run, rows in overlaps.items()
            for row in rows
        ],
    )


def _headers(options: OverlapOptions) -> list[str]:
    return ["RBO", f"Jaccard@{options.cutoff}", "tau"]


def _run_table(baseline: str, overlaps: Overlaps, options: OverlapOptions) -> Table:
    """Return the table of means: a row a run."""
    legend = (
        f"Means over topics. RBO: p = {options.persistence:g}, extrapolated, equal scores tied\n"
        "tau: Kendall's, on the documents of either ranking; missing ones are tied below the last\n"
        "identical: topics with the same documents in the same order"
    )
    lines = []
    for run, rows in overlaps.items():
        means = (short(fmean(getattr(row, name) for row in rows)) for name in _FIGURES)
        lines.append([run, *means, f"{sum(row.is_identical for row in rows)}/{len(rows)}"])
    caption = f"Overlap with {baseline}"
    return Table.of(["System"], [*_headers(options), "identical"], [lines], caption, legend)


def _topic_table(overlaps: Overlaps, options: OverlapOptions, *, per_topic: bool) -> Table:
    """Return the table of topics, the least similar first."""
    groups = [
        [[run, row.topic, *(short(getattr(row, name)) for name in _FIGURES)] for row in rows]
        for run, rows in overlaps.items()
    ]
    caption, legend = "Topics, the least similar first", f"The {MOVED} topics of a run that moved most"
    shown = groups if per_topic else [group[:MOVED] for group in groups]
    return Table.of(["System", "Topic"], _headers(options), shown, caption, "" if per_topic else legend)


def _record(run: str, row: TopicOverlap) -> dict[str, object]:
    figures = {name: getattr(row, name) for name in _FIGURES}
    return {"system": run, "topic": row.topic, **figures, "identical": row.is_identical}


def _answer(baseline: str, overlaps: Overlaps) -> Answer:
    """Return the run that is least similar to the baseline, and its topic that moved most."""
    means = {run: fmean(row.rbo for row in rows) for run, rows in overlaps.items()}
    least = min(means, key=lambda run: means[run])
    moved = overlaps[least][0]
    lines = [
        ("Least similar" if len(means) > 1 else "Compared", f"{least}, mean RBO {short(means[least])}"),
        ("Moved most", f"topic {moved.topic}, RBO {short(moved.rbo)}"),
    ]
    topics = quantity(len(overlaps[least]), "topic")
    return Answer(
        f"{quantity(len(means), 'run')} compared with {baseline}, {topics}, without judgments", lines
    )


def _side_by_side(
    names: tuple[str, str], row: TopicOverlap, cutoff: int, query: str, texts: Mapping[str, str]
) -> Table:
    """Return the table of a topic's first documents, each with its rank in the other ranking."""
    columns = []
    for own, other in (row.rankings, row.rankings[::-1]):
        ranks = {docno: str(rank) for rank, docno in enumerate(other, 1)}
        cells = [(docno, ranks.get(docno, DASH), _shortened(texts.get(docno, ""))) for docno in own[:cutoff]]
        columns.append([cell[: 3 if texts else 2] for cell in cells])
    blank = ("",) * (3 if texts else 2)
    pairs = enumerate(zip_longest(*columns, fillvalue=blank), 1)
    rows = [[str(rank), *first, *second] for rank, (first, second) in pairs]
    header = [name for own in names for name in (own, "other rank", "text")[: len(blank)]]
    title = f"topic {row.topic}" + (f": {_shortened(query)}" if query else "")
    return Table.of(["Rank", *header], [], [rows], f"First documents of {title}", title)


def _shortened(text: str) -> str:
    return textwrap.shorten(text, _LONGEST, placeholder=" ...")
