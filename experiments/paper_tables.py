"""Rows of a paper's table: our means beside the paper's values, with significance tests over queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from lmtune.measures import Measure, confidence_interval
from lmtune.measures.significance.tests import MeanInterval
from lmtune.rerank import Outcome
from lmtune.rerank.comparison import Over, contrasts


def rows_of(
    outcomes: Sequence[Outcome],
    measure: Measure,
    *,
    over: Over,
    printed: Mapping[str, str],
    column: str,
    group: str = "",
) -> list[dict[str, Any]]:
    """Return one row per method: its mean, 95% confidence interval, and significantly worse methods.

    Parameters
    ----------
    outcomes : sequence of Outcome
        One per method.
    measure : Measure
        A measure of the outcomes.
    over : {"queries", "trials"}
        The sample of the interval. Tests are always over queries, with each query's mean over trials.
    printed : mapping
        The paper's cells by method. A method without an outcome gets a row with mean NaN.
    column, group : str
        The row's column and group in the paper's table.
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
        beside = {"group": group, "printed": printed.get(method, ""), "better_than": "; ".join(better)}
        rows.append({**row, **beside})
    return rows


def row_of(method: str, column: str, interval: MeanInterval) -> dict[str, Any]:
    """Return a row without tests and without the paper's value."""
    cell = {"group": "", "column": column, "method": method}
    return {**cell, "printed": "", **interval._asdict(), "better_than": ""}


def differences(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """Return the differences of all ordered pairs by measure, with p-values over queries, Holm-corrected."""
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


def laid_out(rows: pd.DataFrame) -> pd.DataFrame:
    """Lay out rows as the paper does: one row per method, one column per measure or collection.

    A cell has the mean ± half its 95% confidence interval; in brackets, the numbers of the methods that are
    significantly worse (paired t-tests over queries, Holm's correction, p < 0.05); after a slash, the
    paper's value.
    """
    number = {method: place for place, method in enumerate(dict.fromkeys(rows["method"]), 1)}
    table: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows.to_dict("records"):
        better = ",".join(str(number[other]) for other in row["better_than"].split("; ") if other)
        spread = "" if math.isnan(row["half"]) else f" ± {row['half']:.4f}"
        mean = f"{row['mean']:.4f}{spread}" + (f" ({better})" if better else "")
        cell = "-" if math.isnan(row["mean"]) else mean
        key = row["group"], row["method"]
        line = table.setdefault(key, {"group": key[0], "number": number[key[1]], "method": key[1]})
        line[row["column"]] = f"{cell} / {row['printed']}" if row["printed"] else cell
    return pd.DataFrame([*table.values()])
