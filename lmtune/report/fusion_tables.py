"""Tables of a fusion: each method's means in sample and held out, and intervals of its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from lmtune.fusion.certificate import MOST_RUNS
from lmtune.fusion.fusing import BASELINES, BEST_SINGLE, FusedRow, FusionResult, fixed_method
from lmtune.fusion.methods import FEW_RUNS
from lmtune.fusion.runs import MINIMUM, ZERO
from lmtune.fusion.spaces import SPACES
from lmtune.progress import quantity
from lmtune.report.comparison_tables import BETTER, WORSE, interval_text
from lmtune.report.recommendation import fusion_answer, gain_cells
from lmtune.report.table import Cell, Table, render, short
from lmtune.tuning.experiment.result import at_most

_SHOWN = 10  # of many runs' weights
_JACKKNIFE = "Jackknife: interval of the weight over the fits of the folds; too narrow for 95%"
_MISSING = {MINIMUM: "the topic's minimum", ZERO: "0"}


def fusion_table(result: FusionResult, style: str = "table") -> str:
    """Render a fusion in one of `lmtune.report.table.STYLES`; plain text starts with the answer."""
    return render(
        style,
        lambda: fusion_tables(result),
        lambda: [_flattened(record) for record in fusion_records(result)],
        answer=lambda: fusion_answer(result),
        content=lambda: _content(result),
    )


def fusion_tables(result: FusionResult) -> list[Table]:
    """Return the tables of means, differences from the baselines, and weights."""
    return [_values(result), *_gains(result), *_largest(result), *_weight_intervals(result)]


def _content(result: FusionResult) -> dict[str, Any]:
    """Return the content of JSON; ``output`` is the part that `lmtune fuse --from` reads."""
    options = {name: value for name, value in asdict(result.options).items() if value is not None}
    return {
        "runs": list(result.runs),
        "topics": list(result.topics),
        "folds": result.how,
        "options": options,
        "output": asdict(result.output),
        "rows": fusion_records(result),
    }


def fusion_records(result: FusionResult) -> list[dict[str, Any]]:
    """Return one record a row, with numbers at full precision."""
    return [
        {
            "measure": str(row.measure),
            "method": row.chosen.method,
            "recommended": row is result.recommended_for(row.measure),
            "normalise": _normalisation(row, result),
            "k": _constant(row, result),
            "constant": row.chosen.constant,
            "in_sample": row.in_sample,
            "held_out": None if result.options.in_sample else row.mean,
            "bound": row.bound,
            "evaluations": row.evaluations,
            "weights": row.chosen.weights,
            "window": row.chosen.window,
            "logistic": {name: list(ab) for name, ab in row.chosen.logistic.items()},
            "formula": "" if row.is_single else formula(row, result),
            "engine": row.chosen.engine,
            "combine": row.chosen.combine,
            "flat": {name: list(ends) for name, ends in row.flat.items()},
            "interval": {name: list(ends) for name, ends in row.interval.items()},
            **{
                f"p_{name.replace(' ', '_').removesuffix('_run')}": gain and gain.p_value
                for name in BASELINES
                for gain in [row.gains.get(name)]
            },
            "gains": {name: [gain.low, gain.high] for name, gain in row.gains.items()},
        }
        for row in result.rows
    ]


def fusion_topics(result: FusionResult) -> Iterator[dict[str, Any]]:
    """Yield the value of each method on each topic."""
    for row in result.rows:
        for topic, value in zip(result.topics, row.values.tolist(), strict=True):
            yield {"measure": str(row.measure), "method": row.name, "topic": topic, "value": value}


def fusion_legend(result: FusionResult) -> str:
    """Return the notes on data, scores, weights and tests, one a line."""
    options = result.options
    scores = f"{options.normalise}, missing documents get {_MISSING[options.missing]}"
    if options.engine is not None:
        scores = f"as {SPACES[options.engine].name} computes them"
    notes = [
        f"{quantity(len(result.topics), 'topic')}, {result.how}",
        f"Scores: {scores}; weights: shares of 1",
        f"{BETTER} significantly better than the best single run, {WORSE} significantly worse "
        f"({_how(result)}, adjusted p < 0.05)",
    ]
    notes[1] += "".join(f"; {text}" for text in _bounds(result))
    return "\n".join(notes)


def _how(result: FusionResult) -> str:
    first = fixed_method(result.options.method)
    return f"two-sided paired t-test: {first} first, then the others with Holm's correction"


def _normalisation(row: FusedRow, result: FusionResult) -> str | None:
    scored = not row.is_single and row.chosen.plan.is_scored
    return row.chosen.normalise or (result.options.normalise if scored else None)


def _constant(row: FusedRow, result: FusionResult) -> float | None:
    return result.options.rrf_k if row.chosen.method == "rrf" else row.chosen.constant or None


def _flattened(record: dict[str, Any]) -> dict[str, Any]:
    """Join each nested value into one cell of CSV."""
    return {
        key: "; ".join(f"{name}={_joined(part)}" for name, part in value.items())
        if isinstance(value, dict)
        else value
        for key, value in record.items()
    }


def _joined(part: Any) -> str:
    return " to ".join(map(repr, part)) if isinstance(part, list) else repr(part)


def _values(result: FusionResult) -> Table:
    """Make the table of means in sample and held out, with the weights of few runs."""
    baselines = {row.measure: result.baselines(row.measure) for row in result.rows}
    few = len(result.runs) <= FEW_RUNS
    best = [by_name[BEST_SINGLE] for by_name in baselines.values()]
    shown = [row for row in result.rows if few or not row.is_single or any(row is single for single in best)]
    bounds = any(row.bound is not None for row in result.rows)
    held_out = not result.options.in_sample
    groups: dict[object, list[list[str | Cell]]] = {}
    for row in shown:
        mark = {1: BETTER, 0: "", -1: WORSE}[row.significance]
        cells: list[str | Cell] = [row.measure.title, _method_and_constant(row, result)]
        cells += [short(row.in_sample)] if held_out else []
        cells += [Cell(short(row.mean), mark)]
        cells += ["" if row.bound is None else at_most(row.bound)] if bounds else []
        shares = row.chosen.shares
        cells += ["" if row.is_single else short(shares[run]) for run in result.runs if few]
        groups.setdefault(row.measure, []).append(cells)
    figures = ["In sample", *(["Held out"] if held_out else []), *(["At most"] if bounds else [])]
    figures += result.runs if few else ()
    return Table.of(["Measure", "Method"], figures, groups.values(), "Runs fused", fusion_legend(result))


def _method_and_constant(row: FusedRow, result: FusionResult) -> str:
    """Return the method's name with its parameters other than weights."""
    parameters = row.chosen.details
    if not row.chosen.engine:
        parameters = replace(row.chosen, constant=_constant(row, result) or 0.0).details
    return row.name + (f" ({', '.join(parameters)})" if parameters else "")


def _bounds(result: FusionResult) -> list[str]:
    """Return a note if weights were searched without a certificate."""
    runs, searched = len(result.runs), any(row.name == "linear" for row in result.rows)
    if not searched or runs < 3 or any(row.bound is not None for row in result.rows):
        return []
    return [f"no certificate: {'see --certify' if runs <= MOST_RUNS else 'too many runs'}"]


def _gains(result: FusionResult) -> list[Table]:
    """Return the table of differences between tuned methods and the baselines, if there are any."""
    lines = []
    for row in result.rows:
        for name, gain in row.gains.items() if row.folds else ():
            lines.append([row.measure.title, row.name, name, *gain_cells(gain)])
    legend = f"For each measure and baseline, {_how(result)}; 95% CI: simultaneous for the others"
    names, figures = ["Measure", "Method", "Baseline"], ["Difference", "95% CI", "adjusted p"]
    return [Table.of(names, figures, [lines], "Differences from the baselines", legend)] if lines else []


def formula(row: FusedRow, result: FusionResult) -> str:
    """Return the formula of a method's scores, followed by a line for each run with a weight."""
    chosen = row.chosen
    if chosen.engine:
        space = SPACES[chosen.engine]
        how = f"{space.name}, {chosen.variant}: {space.combination(chosen.variant).formula}"
        return "\n".join([f"{row.measure}, {row.name}: {how}", *_weight_lines(chosen.weights)]) + "\n"
    value = (
        "value(run, document)" if not chosen.plan.is_scored else f"{_normalisation(row, result)}(run's score)"
    )
    lines = [f"{row.measure}, {', '.join([row.name, *chosen.details])}: sum over runs of weight x {value}"]
    return "\n".join([*lines, *_weight_lines(chosen.shares)]) + "\n"


def _weight_lines(weights: Mapping[str, float]) -> list[str]:
    return [f"  {name}: {weight:.4g}" for name, weight in weights.items() if weight]


def formulas(result: FusionResult) -> str:
    """Return the formulas of all methods with tuned weights."""
    tuned = [row for row in result.rows if not row.is_single and (row.chosen.plan.fit or row.chosen.engine)]
    return "\n".join(formula(row, result) for row in tuned)


def _optional_interval(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else interval_text(interval)


def _largest(result: FusionResult) -> list[Table]:
    """Return the table of the largest weights if there are many runs."""
    tuned = [row for row in result.rows if row.folds or (row.evaluations and not row.is_single)]
    if len(result.runs) <= FEW_RUNS or not tuned:
        return []
    groups = []
    for row in tuned:
        shares = sorted(row.chosen.shares.items(), key=lambda item: -item[1])[:_SHOWN]
        names = row.measure.title, row.name
        groups.append(
            [[*names, run, short(share), _optional_interval(row.interval.get(run))] for run, share in shares]
        )
    legend = f"The {_SHOWN} largest weights of {len(result.runs)} runs; --format json has all\n{_JACKKNIFE}"
    return [Table.of(["Measure", "Method", "Run"], ["Share", "Jackknife"], groups, "Weights", legend)]


def _weight_intervals(result: FusionResult) -> list[Table]:
    """Return the table of tuned weights and their intervals, if there are any."""
    lines = [
        [
            *(row.measure.title, row.chosen.method, run, short(row.chosen.shares[run])),
            *(interval_text(ends), _optional_interval(row.interval.get(run))),
        ]
        for row in result.rows
        for run, ends in row.flat.items()
    ]
    legend = (
        "Within 0.001: shares with a mean at most 0.001 below that of these weights, in sample, other runs "
        f"in proportion\n{_JACKKNIFE}"
    )
    names, figures = ["Measure", "Method", "Run"], ["Share", "Within 0.001", "Jackknife"]
    return [Table.of(names, figures, [lines], "Weights", legend)] if lines else []
