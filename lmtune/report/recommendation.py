"""Recommendations of experiments: the setting to use, its gain over a baseline, and the evidence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lmtune.arrays import Doubles
from lmtune.fusion.fusing import BEST_SINGLE, FusedRow, FusionResult
from lmtune.fusion.methods import FEW_RUNS, METHODS
from lmtune.measures.significance.comparison import compare
from lmtune.models.model import known_model
from lmtune.progress import quantity
from lmtune.report.comparison_tables import difference_text, measure_label, verdict_text
from lmtune.report.table import Answer, listed, short
from lmtune.tuning.choices.experiment import ChoiceResult, ChosenRow
from lmtune.tuning.experiment.result import DEFAULT, OPTIMAL, CollectionResult, Row, at_most, setting_values

if TYPE_CHECKING:
    from lmtune.measures.lists import Empty
    from lmtune.measures.significance.comparison import Comparison
    from lmtune.rerank.comparison import Outcome

_Lines = list[tuple[str, str]]
_QUERIES = ("query", "queries")


def tuning_answer(result: CollectionResult) -> Answer | None:
    """Return the setting to use for the first measure, compared with the default; None without rows."""
    row = result.recommended
    if row is None:
        return None
    others = [other for other in result.rows if other.measure == row.measure and other.method != OPTIMAL]
    default = next((other for other in others if other.method == DEFAULT), None)
    tuned = max(
        (other for other in others if other is not default), key=lambda other: other.mean, default=None
    )
    tuned = tuned if row is default else row
    lines: _Lines = [("Recommended", _setting_and_method(result, row))]
    if row is default:
        best = f"; best tuned {short(tuned.mean)} ({tuned.method})" if tuned else ""
        lines.append((row.measure.title, f"{short(row.mean)}{best}"))
    elif default is not None:
        setting = setting_text(result, default.fits[0].params)
        lines.append((row.measure.title, f"{short(row.mean)}; default ({setting}) {short(default.mean)}"))
    else:
        lines.append((row.measure.title, short(row.mean)))
    if tuned is not None and default is not None:
        lines += difference_lines(tuned.values, default.values, "default")
    box = [
        f"{name} in [{low}, {high}]"
        for name, ends in result.near.items()
        for low, high in [[setting_values(result, {name: end})[name] for end in ends]]
    ]
    if box:
        lines.append(("Near-optimal", f"{', '.join(box)} (not significantly worse)"))
    if row.final and row.final.at_edge:
        lines.append(("Edge", f"{listed(row.final.at_edge)} on the edge of the range"))
    topics = _topics_text(len(row.topics), len(result.folds), len(result.folds[0].train))
    return Answer(f"{result.name}: {result.model}, {topics}", lines)


def _topics_text(test: int, folds: int, train: int) -> str:
    if folds == 1:
        return f"{quantity(train, 'training topic')}, {quantity(test, 'test topic')}"
    return f"{quantity(test, 'topic')}, {folds}-fold cross-validation"


def _setting_and_method(result: CollectionResult, row: Row) -> str:
    method = "default" if row.method == DEFAULT else row.method
    return f"{setting_text(result, row.setting.params)} ({method})" if row.setting else method


def choice_answer(result: ChoiceResult) -> Answer:
    """Return the combination and setting to use, their difference from the first case's default."""
    folds = result.results[0].folds
    one = result.recommended
    cases = quantity(len(result.cases), "combination")
    if one is None:
        return Answer(f"{result.name}: {cases}; no measure is defined")
    row, case = one.row, result.cases[one.final]
    final = row.final or result.case_row((row.measure, row.method), one.final).fits[0]
    default = result.case_row((row.measure, DEFAULT), 0)
    setting = setting_text(result.results[one.final], final.params)
    default_text = f"{result.cases[0]} at {setting_text(result.results[0], default.fits[0].params)}"
    lines = [
        ("Recommended", f"{', '.join(filter(None, [str(case), setting]))} ({row.method})"),
        (row.measure.title, f"{short(row.mean)}; default ({default_text}) {short(default.mean)}"),
        *difference_lines(row.values, default.values, "default"),
        ("Chosen", _stability(result, one)),
        ("Selection", _selection_cost(result, one)),
    ]
    bound = result.bound(row.measure)
    if bound is not None:
        excess = bound - result.best_value(row.measure)
        lines.append(
            ("Bound", f"no combination and setting exceeds {at_most(bound)}, {excess:.4f} above the best")
        )
    topics = _topics_text(len(row.topics), len(folds), len(folds[0].train))
    return Answer(f"{result.name}: {cases}, {topics}", lines)


def _stability(result: ChoiceResult, one: ChosenRow) -> str:
    """Return how often each combination was chosen, and the held-out mean of the recommended one."""
    folds, counts = quantity(len(one.picks), "fold"), Counter(one.picks)
    if set(counts) == {one.final}:
        return f"in all {folds}" if len(one.picks) > 1 else f"in {folds}"
    picked = [f"{result.cases[pick]} in {count}" for pick, count in counts.most_common()]
    row = result.case_row((one.row.measure, one.row.method), one.final)
    return (
        f"in {folds}: {'; '.join(picked)}; the recommended combination alone has {short(row.mean)} held out"
    )


def _selection_cost(result: ChoiceResult, one: ChosenRow) -> str:
    """Return the in-sample mean of the chosen combinations, and the best held-out mean in hindsight."""
    tuned = result.known_rows((one.row.measure, one.row.method))
    hindsight = max(row.mean for row in tuned.values())
    where = f"in {result.inner} inner folds" if result.inner else "on training topics"
    some = f" ({len(tuned)} tuned)" if len(tuned) < len(result.cases) else ""
    return f"{short(one.score)} {where}{some}; best combination in hindsight {short(hindsight)} held out"


def fusion_answer(result: FusionResult) -> Answer | None:
    """Return the method and weights to use; None without held-out topics."""
    row = result.recommended
    if row is None:
        return None
    baselines = result.baselines(row.measure)
    single, rrf = baselines[BEST_SINGLE], baselines["rrf"]
    title = f"{quantity(len(result.runs), 'run')}, {quantity(len(result.topics), 'topic')}, {result.how}"
    if row is single:
        others = [other for other in result.rows if other.measure == row.measure and not other.is_single]
        best = max(others, key=lambda other: other.mean)
        lines = [
            ("Recommended", f"{row.name} alone"),
            (row.measure.title, f"{short(row.mean)}; best fused {short(best.mean)} ({best.name})"),
        ]
        return Answer(title, [*lines, *difference_lines(best.values, row.values, row.name)])
    lines = [
        ("Recommended", _fused_by(row, len(result.runs))),
        (row.measure.title, f"{short(row.mean)}; best single run ({single.name}) {short(single.mean)}"),
        *difference_lines(row.values, single.values, single.name),
    ]
    if row is not rrf:
        lines.append(("Over rrf", _difference(row.values, rrf.values)))
    return Answer(title, lines)


def _fused_by(row: FusedRow, runs: int) -> str:
    """Return a method's name, with its constant and, if few, its tuned weights."""
    constant = row.chosen.details
    chosen = METHODS[row.chosen.method].fit is not None and runs <= FEW_RUNS
    weights = [f"{run} {short(share)}" for run, share in row.chosen.shares.items()] if chosen else []
    return f"{row.name} ({', '.join([*constant, *weights])})" if constant or weights else row.name


def loss_answer(outcomes: Sequence[Outcome], empty: Empty) -> Answer | None:
    """Return the loss to use, by the measure with the largest cutoff; None for a single loss.

    The loss with the best mean, rounded to four digits, is recommended; of ties the first. It is compared
    with the first loss over queries, by each query's mean over trials.
    """
    first, *others = outcomes
    if not others:
        return None
    measures = [measure for measure in first.measures if measure.higher_is_better]
    measure = max(measures, key=lambda one: one.cutoff or math.inf)
    by_loss = {one.label: one.by_query(empty, measure) for one in outcomes}
    queries = by_loss[first.label].size
    if not queries:
        return None
    best = max(outcomes, key=lambda one: round(float(by_loss[one.label].mean()), 4))
    runner_up = max(others, key=lambda one: float(by_loss[one.label].mean()))
    compared = runner_up if best is first else best
    rate = "" if math.isnan(best.rate) else f" (learning rate {best.rate:g})"
    lines = [
        ("Recommended", f"{best.label}{rate}"),
        (
            measure.title,
            "; ".join(f"{one.label} {short(by_loss[one.label].mean())}" for one in (compared, first)),
        ),
        *difference_lines(by_loss[compared.label], by_loss[first.label], first.label, _QUERIES),
    ]
    return Answer(f"{len(outcomes)} losses, {quantity(queries, *_QUERIES)}", lines)


def reranking_answer(comparison: Comparison) -> Answer:
    """Return whether to rerank; the first system is the run, the second the reranked run."""
    before, after = comparison.values[:, :, 0]
    measure, (run, reranked) = comparison.measures[0], comparison.systems[:2]
    lines = [
        ("Recommended", "rerank" if after.mean() > before.mean() else f"keep {run}"),
        (measure_label(measure), f"{short(after.mean())} reranked, held out; {short(before.mean())} {run}"),
        *difference_lines(after, before, run),
    ]
    return Answer(f"{reranked}: {quantity(before.size, 'topic')}", lines)


def difference_lines(
    values: Doubles, baseline: Doubles, name: str, units: tuple[str, str] = ("topic", "topics")
) -> _Lines:
    """Return the lines on the mean difference from a baseline and on its significance."""
    p = gain_over(values, baseline).p_value
    verdict = verdict_text(values - baseline, math.nan if p is None else p, name, units=units)
    return [("Difference", _difference(values, baseline)), ("Verdict", verdict)]


def _difference(values: Doubles, baseline: Doubles) -> str:
    difference, *tested = gain_over(values, baseline)
    low, high, p = (math.nan if value is None else value for value in tested)
    return difference_text(difference, (low, high), p)


class Gain(NamedTuple):
    """A mean difference over topics, its 95% confidence interval, and the p-value of a paired t-test.

    Interval and p-value are None for a single topic, and if all topics have the same difference.
    """

    difference: float
    low: float | None = None
    high: float | None = None
    p_value: float | None = None


def gain_over(values: Doubles, others: Doubles) -> Gain:
    """Compare values with others on the same topics."""
    difference = float(values.mean() - others.mean())
    if values.size < 2:
        return Gain(difference)
    [contrast] = compare(others, {"compared": values}).contrasts
    p = contrast.tested["t"].p_value
    return Gain(difference) if math.isnan(p) else Gain(difference, *contrast.interval, p)


def setting_text(result: CollectionResult, params: Mapping[str, float]) -> str:
    """Format a setting: lambda = 0.594, mu = 55.1."""
    return ", ".join(f"{name} = {text}" for name, text in setting_values(result, params).items())


def default_remark(result: CollectionResult) -> str:
    """Return the note on the default parameters and their sources; empty without a row Default."""
    row = next((row for row in result.rows if row.method == DEFAULT), None)
    if row is None:
        return ""
    known = known_model(result.model)
    declared = {p.name: p for p in known.parameters} if known else {}
    by_source: dict[str, dict[str, float]] = {}
    for name, value in row.fits[0].params.items():
        is_default = name in declared and value == declared[name].default
        source = (declared[name].source or "the model's initial point") if is_default else "as given"
        by_source.setdefault(source, {})[name] = value
    settings = [(setting_text(result, params), source) for source, params in by_source.items()]
    parts = [f"{setting} ({source})" for setting, source in settings if setting]
    return f"{DEFAULT}: {'; '.join(parts)}"
