"""Rows of a paper's table, ours beside the printed ones, and the table in the paper's layout."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import pandas as pd

from experiments.experiment import Claim, Experiment, Tables
from lmtune.measures.measure import Measure
from lmtune.measures.significance.effects import MeanInterval, confidence_interval
from lmtune.reporting.comparison_tables import DASH, letters
from lmtune.reporting.table import Cell, Table, short
from lmtune.reranking.comparison import Outcome, Over, contrasts

_LEVEL = 0.05
_FREE = ("data", "datasets", "device", "seed")


def rows_of(
    outcomes: Sequence[Outcome],
    measure: Measure,
    *,
    over: Over,
    printed: Mapping[str, str],
    column: str,
    group: str = "",
) -> list[dict[str, Any]]:
    """Return a row a method: its mean with the 95% interval, and what it is better than.

    Parameters
    ----------
    outcomes : sequence of Outcome
        One a method.
    measure : Measure
        One of theirs.
    over : {"queries", "trials"}
        What the interval is over; tests are over queries, each with its mean over trials.
    printed : mapping
        The paper's cells by method; methods that are here alone have a row without a mean.
    column, group : str
        Where the row stands in the table.
    """
    tested = contrasts(outcomes, "skip", measure, over="queries") if outcomes else None
    by_method = {outcome.label: outcome for outcome in outcomes}
    rows = []
    for method in dict.fromkeys([*printed, *by_method]):
        interval = MeanInterval(math.nan, math.nan)
        if method in by_method:
            means = by_method[method].by_query if over == "queries" else by_method[method].by_trial
            interval = confidence_interval(means("skip", measure).tolist())
        better = [other for other in by_method if tested and tested.beats(str(measure), method, other)]
        row = row_of(method, column, interval)
        rows.append(
            {**row, "group": group, "printed": printed.get(method, ""), "better_than": "; ".join(better)}
        )
    return rows


def row_of(method: str, column: str, interval: MeanInterval) -> dict[str, Any]:
    """Return a row of which nothing is tested or printed."""
    cell = {"group": "", "column": column, "method": method}
    return {**cell, "printed": "", **interval._asdict(), "better_than": ""}


def differences(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """Return all pairs' differences over queries, either way round, by measure."""
    rows = []
    for measure in outcomes[0].measures:
        tested = contrasts(outcomes, "skip", measure, over="queries")
        for contrast in tested.contrasts if tested else ():
            (low, high), p = contrast.interval, contrast.adjusted["t"]
            rows += [
                (str(measure), contrast.system, contrast.against, contrast.difference, low, high, p),
                (str(measure), contrast.against, contrast.system, -contrast.difference, -high, -low, p),
            ]
    return pd.DataFrame(rows, columns=["measure", "a", "b", "difference", "low", "high", "p_holm"])


def better(claims: Sequence[tuple[str, str]], measure: Measure) -> Claim:
    """Claim of pairs that the first method is better than the second, by the table ``differences``."""

    def statistic(tables: Tables) -> pd.DataFrame:
        rows = tables["differences"].query("measure == @measure", local_dict={"measure": str(measure)})
        rows = rows.set_index(["a", "b"])[["difference", "low", "high", "p_holm"]]
        return rows[rows.index.isin(claims)]

    def test(rows: pd.DataFrame) -> pd.Series[bool]:
        return (rows["difference"] > 0.0) & (rows["p_holm"] < _LEVEL)

    return Claim(f"NDCG@{measure.cutoff}, first minus second, significantly better", statistic, test)


def differing(experiment: Experiment, otherwise: Iterable[str]) -> list[Claim]:
    """Say what is not as in the paper: options other than its protocol's, the defaults, and the rest."""
    usual, texts = type(experiment)(), list(otherwise)
    changed = [
        f"{name.replace('_', ' ')} {getattr(experiment, name)} instead of {getattr(usual, name)}"
        for name in (field.name for field in fields(experiment))
        if name not in _FREE and getattr(experiment, name) != getattr(usual, name)
    ]
    texts = [f"this run has {', '.join(changed)}", *texts] if changed else texts
    stated = [pd.DataFrame(index=[text]) for text in texts]
    return [Claim("Differs from the paper", lambda _, frame=frame: frame) for frame in stated]  # type: ignore[misc]


def paper_table(rows: pd.DataFrame, *, caption: str, over: str, first: str = "") -> Table:
    """Lay rows out as the paper does.

    Parameters
    ----------
    rows : pandas.DataFrame
        Of `rows_of`, in the table's order.
    caption : str
        What the table shows.
    over : str
        What the intervals are over, in words.
    first : str
        The header of the groups' names; none where there is one group alone.
    """
    columns, methods = (list(dict.fromkeys(rows[name])) for name in ("column", "method"))
    names = dict(zip(methods, letters(len(methods)), strict=True))
    beside = [column for column in columns if any(rows[rows["column"] == column]["printed"])]
    cells = {(row["group"], row["method"], row["column"]): row for row in rows.to_dict("records")}
    groups: dict[str, list[list[str | Cell]]] = {}
    for group, method in dict.fromkeys((row[0], row[1]) for row in cells):
        lines = groups.setdefault(group, [])
        line = [Cell(group, repeated=bool(lines))] if first else []
        line += [Cell(names[method]), Cell(method)]
        for column in columns:
            row = cells[group, method, column]
            line.append(_cell(row, names))
            line += [Cell(row["printed"] or DASH)] if column in beside else []
        lines.append([*line])
    headers = [text for column in columns for text in [column, "printed"][: 1 + (column in beside)]]
    legend = (
        f"Means ± half of their 95% interval over {over}. Raised letters: the methods that a mean is "
        "significantly better than: two-sided paired t-tests over queries, Holm's correction over all "
        "pairs of a column, adjusted p < .05"
    )
    return Table.of([*([first] if first else []), "", "Method"], headers, groups.values(), caption, legend)


def _cell(row: Mapping[Hashable, Any], names: Mapping[str, str]) -> Cell:
    if math.isnan(row["mean"]):
        return Cell(DASH)
    spread = "" if math.isnan(row["half"]) else f" ± {short(row['half'])}"
    better = [names[other] for other in row["better_than"].split("; ") if other]
    return Cell(short(row["mean"]) + spread, "".join(better))
