"""A fusion's tables: each method's values in sample and held out, and how sure its weights are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from typing import Any

from lmtune.fusion.fusing import FEW, METHODS, FusedRow, FusionResult
from lmtune.fusion.runs import MINIMUM, ZERO
from lmtune.progress import quantity
from lmtune.reporting.comparison_tables import BETTER
from lmtune.reporting.recommendation import fusion_answer
from lmtune.reporting.table import Cell, Column, Table, name_columns, render, short
from lmtune.tuning.experiment.result import SIGNIFICANCE, at_most

RRF_BETTER, WORSE, RRF_WORSE = "‡", "↓", "⇓"
_SHOWN = 10  # of many runs' weights
_MISSING = {MINIMUM: "the topic's minimum", ZERO: "0"}


def fusion_table(result: FusionResult, style: str = "table") -> str:
    """Render a fusion in one of `lmtune.reporting.table.STYLES`; plain text opens with the answer."""
    return render(
        style,
        lambda: fusion_tables(result),
        lambda: [_flattened(record) for record in as_records(result)],
        answer=lambda: fusion_answer(result),
        content=lambda: as_content(result),
    )


def fusion_tables(result: FusionResult) -> list[Table]:
    """Return each method's values, and how sure the weights are."""
    return [_values(result), *_largest(result), *_sureness(result)]


def as_content(result: FusionResult) -> dict[str, Any]:
    """Return all that is known as JSON holds it; ``output`` is what `lmtune fuse --from` takes."""
    options = {name: value for name, value in asdict(result.options).items() if value is not None}
    return {
        "runs": list(result.runs),
        "topics": list(result.topics),
        "folds": result.how,
        "options": options,
        "output": asdict(result.best.chosen),
        "rows": as_records(result),
    }


def as_records(result: FusionResult) -> list[dict[str, Any]]:
    """Return a record a row, every figure at full precision."""
    return [
        {
            "measure": str(row.measure),
            "method": row.chosen.method,
            "normalise": _normalisation(row, result),
            "k": _constant(row, result),
            "in_sample": row.in_sample,
            "held_out": None if result.options.in_sample else row.mean,
            "bound": row.bound,
            "evaluations": row.evaluations,
            "weights": row.chosen.weights,
            "powers": row.chosen.powers,
            "flat": {name: list(ends) for name, ends in row.flat.items()},
            "interval": {name: list(ends) for name, ends in row.interval.items()},
            "p_best_single": row.p_values.get("best single run"),
            "p_rrf": row.p_values.get("rrf"),
        }
        for row in result.rows
    ]


def topic_records(result: FusionResult) -> Iterator[dict[str, Any]]:
    """Yield each method's value of every topic."""
    for row in result.rows:
        for topic, value in zip(result.topics, row.values.tolist(), strict=True):
            yield {"measure": str(row.measure), "method": row.name, "topic": topic, "value": value}


def legend(result: FusionResult) -> str:
    """Explain the table."""
    options = result.options
    parts = [
        quantity(len(result.topics), "topic"),
        result.how,
        f"scores by {options.normalise}, a missing document gets {_MISSING[options.missing]}",
        "weights by their shares",
        f"{BETTER} significantly better than the best single run, {RRF_BETTER} than rrf, {WORSE} and "
        f"{RRF_WORSE} worse: two-sided paired t-tests, Holm's correction, adjusted p < .05",
    ]
    return "; ".join(parts)


def _normalisation(row: FusedRow, result: FusionResult) -> str | None:
    method = METHODS.get(row.chosen.method)
    scored = method is not None and method.is_scored
    return row.chosen.normalise or (result.options.normalise if scored else None)


def _constant(row: FusedRow, result: FusionResult) -> float | None:
    return result.options.rrf_k if row.chosen.method == "rrf" else row.chosen.constant or None


def _flattened(record: dict[str, Any]) -> dict[str, Any]:
    """Put nested values into one cell of CSV each."""
    return {
        key: "; ".join(f"{name}={_joined(part)}" for name, part in value.items())
        if isinstance(value, dict)
        else value
        for key, value in record.items()
    }


def _joined(part: Any) -> str:
    return " to ".join(map(repr, part)) if isinstance(part, list) else repr(part)


def _values(result: FusionResult) -> Table:
    against = {
        row.measure: [baseline.mean for baseline in result.baselines(row.measure)] for row in result.rows
    }
    few = len(result.runs) <= FEW
    shown = [row for row in result.rows if few or not row.is_single or row.mean == against[row.measure][0]]
    bounds = any(row.bound is not None for row in result.rows)
    held_out = not result.options.in_sample
    groups = []
    for measure, rows in groupby(shown, key=lambda row: row.measure):
        lines = []
        for row in rows:
            marks = [
                better if row.mean > other else worse
                for better, worse, name, other in (
                    (BETTER, WORSE, "best single run", against[measure][0]),
                    (RRF_BETTER, RRF_WORSE, "rrf", against[measure][1]),
                )
                if row.p_values.get(name, 1.0) < SIGNIFICANCE
            ]
            single, shares, k = row.is_single, row.chosen.shares, _constant(row, result)
            name = row.name + (f" ({'power' if 'mnz' in row.name else 'k'} = {k:g})" if k else "")
            if row.chosen.powers:
                name += " (one for all)" if not any(row.chosen.powers.values()) else ""
            cells = [Cell(str(measure)), Cell(name)]
            value = Cell(short(row.mean), "".join(marks))
            cells += [Cell(short(row.in_sample)), value] if held_out else [value]
            cells += [Cell("" if row.bound is None else at_most(row.bound))] if bounds else []
            cells += [Cell("" if single else f"{shares[run]:.3f}".lstrip("0")) for run in result.runs if few]
            lines.append(tuple(cells))
        groups.append(lines)
    columns = ["In sample", *(["Held out"] if held_out else []), *(["At most"] if bounds else [])]
    return Table(
        [*name_columns("Measure", "Method"), *map(Column, [*columns, *(result.runs if few else ())])],
        groups,
        caption="Runs fused",
        legend=legend(result),
    )


def _largest(result: FusionResult) -> list[Table]:
    """Make the table of the largest weights that were chosen for many runs, or none."""
    tuned = [row for row in result.rows if row.folds or (row.evaluations and not row.is_single)]
    if len(result.runs) <= FEW or not tuned:
        return []
    groups = []
    for row in tuned:
        shares = sorted(row.chosen.shares.items(), key=lambda item: -item[1])[:_SHOWN]
        texts = [(str(row.measure), row.chosen.method, run, short(share)) for run, share in shares]
        groups.append([tuple(map(Cell, words)) for words in texts])
    return [
        Table(
            [*name_columns("Measure", "Method", "Run"), Column("Share")],
            groups,
            caption="Weights",
            legend=f"The {_SHOWN} largest of {len(result.runs)}; all with --format json",
        )
    ]


def _sureness(result: FusionResult) -> list[Table]:
    """Make the table of tuned weights, or none."""
    lines = []
    for row in result.rows:
        for run, (low, high) in row.flat.items():
            interval = row.interval.get(run)
            texts = [str(row.measure), row.chosen.method, run, short(row.chosen.shares[run])]
            texts.append(f"{short(low)} to {short(high)}")
            texts.append("" if interval is None else f"{short(interval[0])} to {short(interval[1])}")
            lines.append(tuple(map(Cell, texts)))
    if not lines:
        return []
    return [
        Table(
            [*name_columns("Measure", "Method", "Run"), *map(Column, ("Share", "Within .001", "95%"))],
            [lines],
            caption="Weights",
            legend=(
                "Within .001: the shares, the other runs in their proportions, that lose no more than that "
                f"in sample; 95%: the middle of the best shares over {result.options.bootstrap} resamples of "
                "topics"
            ),
        )
    ]
