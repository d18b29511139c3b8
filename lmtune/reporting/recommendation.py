"""The recommendation of an experiment: one choice, what it gains over the usual one, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.measures.significance.comparison import compare
from lmtune.measures.significance.effects import detectable_difference
from lmtune.measures.significance.tests import FEWEST
from lmtune.models.model import known_model
from lmtune.progress import quantity
from lmtune.reporting.comparison_tables import p_text, signed
from lmtune.reporting.table import listed, short
from lmtune.tuning.experiment.result import DEFAULT, OPTIMAL, CollectionResult

if TYPE_CHECKING:
    from lmtune.fusion.fusing import FusedRow, FusionResult
    from lmtune.measures.lists import Empty
    from lmtune.measures.significance.comparison import Comparison
    from lmtune.reranking.comparison import Outcome

_QUERIES = ("query", "queries")


def answer(result: CollectionResult) -> str:
    """Say in a sentence or two which setting to use, and what it gains; nothing of undefined measures.

    The interval and the test are those of `lmtune.compare`: Student's t, of paired differences.
    """
    row = result.recommended
    if row is None:
        return ""
    others = [other for other in result.rows if other.measure == row.measure and other.method != OPTIMAL]
    default = next((other for other in others if other.method == DEFAULT), None)
    mean = f"{row.measure.title} {short(row.mean)} held out"
    if row is default:
        said = f"keep the default {setting_text(result, row.fits[0].params)}. {mean}"
        rivals = [other for other in others if other is not row]
        if rivals:
            best = max(rivals, key=lambda other: other.mean)
            said += f"; the best tuned, {best.method}, gives {gain_text(best.values, row.values)}"
    else:
        said = f"use {setting_text(result, row.final.params)} ({row.method})" if row.final else row.method
        said = f"{said}. {mean}" if row.final else f"{said} is best, {mean}"
        if default is not None:
            usual = f"the default {setting_text(result, default.fits[0].params)}"
            said += f", {gain_text(row.values, default.values, usual)}{_missed(row.values - default.values)}"
    box = [
        f"{name} {low} to {high}"
        for name, ends in result.near.items()
        for low, high in [[setting_text(result, {name: end}).rpartition(" ")[2] for end in ends]]
    ]
    said += f". Not significantly worse at the grid's points, on all topics: {listed(box)}" if box else ""
    edges = row.final.at_edge if row.final else ()
    ended = f" It lies on the edge of the range: {listed(edges)}." if edges else ""
    return f"{result.name}: {said}.{ended}"


def _missed(differences: NDArray[np.float64]) -> str:
    """Say for which differences the topics are too few; nothing where there is no test."""
    if differences.size < FEWEST or not differences.std():
        return ""
    least = detectable_difference(float(differences.std(ddof=1)), differences.size)
    topics = quantity(differences.size, "topic", "topics")
    return f". With {topics} it misses a difference below {short(least)} more often than once in five"


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
    declared = {p.name: p for p in known.parameters} if known else {}
    by_source: dict[str, dict[str, float]] = {}
    for name, value in row.fits[0].params.items():
        usual = name in declared and value == declared[name].default
        source = (declared[name].source or "where the model starts") if usual else "as given"
        by_source.setdefault(source, {})[name] = value
    said = [(setting_text(result, params), source) for source, params in by_source.items()]
    parts = [f"{setting} ({source})" for setting, source in said if setting]
    return f"{DEFAULT}: {'; '.join(parts)}, without any fitting"


def fusion_answer(result: FusionResult) -> str:
    """Say which method and weights to use; nothing where none were judged on topics held out."""
    from lmtune.fusion.fusing import BEST_SINGLE

    row = result.recommended
    if row is None:
        return ""
    single, rrf = (result.baselines(row.measure)[name] for name in (BEST_SINGLE, "rrf"))
    mean = f"{row.measure.title} {short(row.mean)} held out"
    if row is single:
        others = [other for other in result.rows if other.measure == row.measure and not other.is_single]
        best = max(others, key=lambda other: other.mean)
        gain = gain_text(best.values, row.values)
        return f"Keep {row.name} alone. {mean}; the best fused, {best.name}, gives {gain}."
    gains = [gain_text(row.values, single.values, f"the best single run, {single.name}")]
    gains += [gain_text(row.values, rrf.values, "rrf")] if row is not rrf else []
    return f"Use {_fused_by(row, len(result.runs))}. {mean}, {listed(gains)}."


def _fused_by(row: FusedRow, runs: int) -> str:
    """Name a method, with its constant and weights if they were chosen and are few enough to read."""
    from lmtune.fusion.methods import FEW, METHODS

    constant = row.chosen.said
    chosen = METHODS[row.chosen.method].fit is not None and runs <= FEW
    weights = [f"{run} {short(share)}" for run, share in row.chosen.shares.items()] if chosen else []
    return f"{row.name} ({', '.join([*constant, *weights])})" if constant or weights else row.name


def loss_answer(outcomes: Sequence[Outcome], empty: Empty) -> str:
    """Say which loss to use: the best mean of the measure to the most ranks; of equals the first.

    Equal are means of the same four digits. It is compared with the first loss, over queries, each with its
    mean over trials.
    """
    first, *others = outcomes
    if not others:
        return ""
    measures = [measure for measure in first.measures if measure.higher_is_better]
    measure = max(measures, key=lambda one: one.cutoff or math.inf)
    by_loss = {one.label: one.by_query(empty, measure) for one in outcomes}
    if not by_loss[first.label].size:
        return ""
    best = max(outcomes, key=lambda one: round(float(by_loss[one.label].mean()), 4))
    rival = max(others, key=lambda one: float(by_loss[one.label].mean()))
    rate = "" if math.isnan(best.rate) else f" (rate {best.rate:g})"
    mean = f"Use {best.label}{rate}. {measure.title} {short(by_loss[best.label].mean())} held out"
    if best is not first:
        return f"{mean}, {gain_text(by_loss[best.label], by_loss[first.label], first.label, _QUERIES)}."
    gain = gain_text(by_loss[rival.label], by_loss[best.label], units=_QUERIES)
    return f"{mean}; the best other, {rival.label}, gives {gain}."


def reranking_answer(comparison: Comparison) -> str:
    """Say whether to rerank: the first system is the run as it was, the second the same reranked."""
    before, after = comparison.values[:, :, 0]
    measure, run = comparison.measures[0], comparison.systems[0]
    if after.mean() > before.mean():
        return f"Rerank. {measure} {short(after.mean())} held out, {gain_text(after, before, run)}."
    return f"Keep {run}. {measure} {short(before.mean())}; reranked, held out, {gain_text(after, before)}."


def gain_text(
    values: NDArray[np.float64],
    others: NDArray[np.float64],
    over: str = "",
    units: tuple[str, str] = ("topic", "topics"),
) -> str:
    """Give a mean difference, over what, with its interval and p-value, or say that there are none."""
    said = f"{signed(values.mean() - others.mean())}{over and f' over {over}'}"
    counted = quantity(values.size, *units)
    if values.size > 1:
        [contrast] = compare(others, {"compared": values}).contrasts
        p = contrast.tested["t"].p_value
        if not math.isnan(p):
            low, high = map(signed, contrast.interval)
            p_said = p_text(p) if p < 0.0001 else f"= {p_text(p)}"
            doubt = f"95% {low} to {high}, p {p_said.replace('<', '< ')}, {counted}, paired t-test"
            return f"{said} ({doubt})"
    return f"{said} ({counted}: no test of so few, or of one difference on all)"
