"""A tuning experiment's answer: one setting, what it gains over the default, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lmtune.measures.significance.comparison import compare
from lmtune.models.model import known_model
from lmtune.progress import quantity
from lmtune.reporting.comparison_tables import p_text, signed
from lmtune.reporting.table import listed, short
from lmtune.tuning.experiment.result import DEFAULT, OPTIMAL, CollectionResult, Row


def answer(result: CollectionResult) -> str:
    """Say in a sentence or two which setting to use, and what it gains; nothing of undefined measures.

    The interval and the test are those of `lmtune.compare`: Student's t, of paired differences.
    """
    row = result.recommended
    if row is None:
        return ""
    others = [own for own in result.rows if own.measure == row.measure and own.method != OPTIMAL]
    default = next((own for own in others if own.method == DEFAULT), None)
    mean = f"{row.measure.title} {short(row.mean)} held out"
    if row is default:
        said = f"keep the default {setting_text(result, row.fits[0].params)}. {mean}"
        rivals = [own for own in others if own is not row]
        if rivals:
            best = max(rivals, key=lambda own: own.mean)
            said += f"; the best tuned, {best.method}, gives {gain(best, row)} {doubt(best, row)}"
    else:
        said = f"use {setting_text(result, row.final.params)} ({row.method})" if row.final else row.method
        said = f"{said}. {mean}" if row.final else f"{said} is best, {mean}"
        if default is not None:
            setting = setting_text(result, default.fits[0].params)
            said += f", {gain(row, default)} over the default {setting} {doubt(row, default)}"
    box = [
        f"{name} {low} to {high}"
        for name, ends in result.near.items()
        for low, high in [[setting_text(result, {name: end}).rpartition(" ")[2] for end in ends]]
    ]
    said += f". Not significantly worse at the grid's points, on all topics: {listed(box)}" if box else ""
    edges = row.final.at_edge if row.final else ()
    ended = f" It lies on the edge of the range: {listed(edges)}." if edges else ""
    return f"{result.name}: {said}.{ended}"


def setting_values(result: CollectionResult, params: Mapping[str, float]) -> dict[str, str]:
    """Print the parameters that the model does not fix, with three digits or more, by name."""
    known = known_model(result.model)
    fixed = known.fixed if known else {}
    shown = {name: value for name, value in params.items() if name not in fixed}
    return {n: f"{v:.0f}" if abs(v) >= 1000.0 else f"{v:.3g}" for n, v in shown.items()}


def setting_text(result: CollectionResult, params: Mapping[str, float]) -> str:
    """Print a setting as papers do: lambda = .594, mu = 55.1."""
    values = setting_values(result, params)
    brief = {n: text.replace("0.", ".", 1) if abs(float(text)) < 1.0 else text for n, text in values.items()}
    return ", ".join(f"{name} = {text}" for name, text in brief.items())


def default_remark(result: CollectionResult) -> str:
    """Say what the row Default is, and whose; nothing where there is none."""
    row = next((row for row in result.rows if row.method == DEFAULT), None)
    if row is None:
        return ""
    known = known_model(result.model)
    own = {p.name: p for p in known.parameters} if known else {}
    by_source: dict[str, dict[str, float]] = {}
    for name, value in row.fits[0].params.items():
        usual = name in own and value == own[name].default
        source = (own[name].source or "where the model starts") if usual else "as given"
        by_source.setdefault(source, {})[name] = value
    said = [(setting_text(result, params), source) for source, params in by_source.items()]
    parts = [f"{setting} ({source})" for setting, source in said if setting]
    return f"{DEFAULT}: {'; '.join(parts)}, without any fitting"


def gain(row: Row, other: Row) -> str:
    """Print the difference of two means."""
    return signed(row.mean - other.mean)


def doubt(row: Row, other: Row) -> str:
    """Give the interval and the p-value of a difference, or say that there is none."""
    topics = quantity(len(row.topics), "topic")
    if len(row.topics) > 1:
        [contrast] = compare(other.values, {row.method: row.values}).contrasts
        p = contrast.tested["t"].p_value
        if not math.isnan(p):
            low, high = map(signed, contrast.interval)
            p_said = p_text(p) if p < 0.0001 else f"= {p_text(p)}"
            return f"(95% {low} to {high}, p {p_said.replace('<', '< ')}, {topics}, paired t-test)"
    return f"({topics}: no test of so few, or of one difference on all)"
