"""Recommendations of experiments: the setting to use, its gain over a baseline, and the evidence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lmtune.arrays import Doubles
from lmtune.fusion.fusing import BEST_SINGLE, FusedRow, FusionResult
from lmtune.fusion.methods import ENGINE_DEFAULT, FEW_RUNS
from lmtune.fusion.spaces import SPACES
from lmtune.measures.significance.comparison import Gain
from lmtune.measures.significance.tests import LEVEL
from lmtune.models.model import known_model
from lmtune.progress import quantity
from lmtune.report.comparison_tables import (
    difference_text,
    interval_text,
    measure_label,
    p_text,
    signed,
    verdict_text,
)
from lmtune.report.table import Answer, listed, short
from lmtune.tuning.choices.experiment import ChoiceResult, ChosenRow
from lmtune.tuning.experiment.result import (
    DEFAULT,
    CollectionResult,
    NearOptimal,
    Row,
    at_most,
    setting_values,
)

if TYPE_CHECKING:
    from lmtune.measures.lists import Empty
    from lmtune.measures.significance.comparison import Comparison
    from lmtune.rerank.comparison import Outcome

_Lines = list[tuple[str, str]]
_QUERIES = ("query", "queries")
PLAIN, CORRECTED = "paired t-test", "paired t-test, Holm's correction"
"""Names of the test of one difference, and of several."""


def tuning_answer(result: CollectionResult) -> Answer | None:
    """Return the setting to use for the first measure, compared with the default; None without rows."""
    row = result.recommended
    if row is None:
        return None
    default, tuned = result.row(row.measure, DEFAULT), result.row(row.measure, result.fixed_method)
    lines: _Lines = [("Recommended", _recommended_text(result, row))]
    if row is default:
        best = f"; tuned {short(tuned.mean)} ({_tuned_text(result, tuned)})" if tuned else ""
        lines.append((row.measure.title, f"{short(row.mean)}{best}"))
    elif default is not None:
        setting = setting_text(result, default.fits[0].params)
        lines.append((row.measure.title, f"{short(row.mean)}; default ({setting}) {short(default.mean)}"))
    else:
        lines.append((row.measure.title, short(row.mean)))
    if tuned is not None and default is not None:
        gain = result.gains[row.measure, tuned.method]
        lines += difference_lines(gain, tuned.values - default.values, "default")
    if result.near:
        lines.append(("Near-optimal", near_text(result, result.near)))
    if row.final and row.final.at_edge:
        lines.append(("Edge", f"{listed(row.final.at_edge)} on the edge of the range"))
    topics = _split_text(len(row.topics), len(result.folds), len(result.folds[0].train))
    return Answer(f"{result.name}: {result.model}, {topics}", lines)


def near_text(result: CollectionResult, near: NearOptimal) -> str:
    """Describe the near-optimal region; if it is empty, the setting with the smallest bound."""
    inside, confidence = near.settings[near.inside], f"{1.0 - LEVEL:.0%}"
    if not len(inside):
        setting = near.settings[near.closest].tolist()
        closest = setting_text(result, dict(zip(near.names, setting, strict=True)))
        least = at_most(float(near.bounds.min()))
        return f"none within {near.margin:g} ({confidence}); {closest} within {least}"
    low, high = (
        setting_values(result, dict(zip(near.names, ends.tolist(), strict=True)))
        for ends in (inside.min(axis=0), inside.max(axis=0))
    )
    free = [name for name, column in zip(near.names, near.settings.T, strict=True) if np.ptp(column) > 0.0]
    ranges = ", ".join(f"{name} in [{low[name]}, {high[name]}]" for name in free)
    return f"{len(inside)} settings within {near.margin:g} ({confidence}): {ranges}"


def _split_text(test: int, folds: int, train: int) -> str:
    """Describe the split: numbers of test topics, of folds, and of the first fold's training topics."""
    if folds == 1:
        return f"{quantity(train, 'training topic')}, {quantity(test, 'test topic')}"
    return f"{quantity(test, 'topic')}, {folds}-fold cross-validation"


def _recommended_text(result: CollectionResult, row: Row) -> str:
    """Return the recommended setting with its method in parentheses, or the default setting."""
    if row.method == DEFAULT:
        return f"keep the default, {setting_text(result, row.fits[0].params)}"
    return f"{setting_text(result, row.setting.params)} ({row.method})" if row.setting else row.method


def _tuned_text(result: CollectionResult, row: Row) -> str:
    """Return a method's name and its setting, if it has one for all topics."""
    return f"{row.method}: {setting_text(result, row.setting.params)}" if row.setting else row.method


def choice_answer(result: ChoiceResult) -> Answer:
    """Return the combination and setting to use, their difference from the first case's default."""
    folds = result.results[0].folds
    recommended = result.recommended
    cases = quantity(len(result.cases), "combination")
    if recommended is None:
        return Answer(f"{result.name}: {cases}; no measure is defined")
    tuned, default = result.tuned, result.default
    default_text = _case_and_setting(result, default)
    if recommended is default:
        text, value = f"keep the default, {default_text}", short(default.row.mean)
        value += f"; tuned {short(tuned.row.mean)} ({_case_and_setting(result, tuned)})" if tuned else ""
    else:
        text = f"{_case_and_setting(result, recommended)} ({recommended.row.method})"
        value = f"{short(recommended.row.mean)}; default ({default_text}) {short(default.row.mean)}"
    row, lines = recommended.row, [("Recommended", text), (recommended.row.measure.title, value)]
    if tuned is not None:
        gain = result.gains[row.measure, tuned.row.method]
        lines += difference_lines(gain, tuned.row.values - default.row.values, "default")
        lines += [("Chosen", _stability(result, tuned)), ("Selection", _selection_cost(result, tuned))]
    bound = result.bound(row.measure)
    if bound is not None:
        excess = bound - result.best_value(row.measure)
        lines.append(
            ("Bound", f"no combination and setting exceeds {at_most(bound)}, {excess:.4f} above the best")
        )
    topics = _split_text(len(row.topics), len(folds), len(folds[0].train))
    return Answer(f"{result.name}: {cases}, {topics}", lines)


def _case_and_setting(result: ChoiceResult, one: ChosenRow) -> str:
    """Return the finally chosen combination and its setting: stemmer = porter, mu = 900."""
    # A default has no final fit; its setting is the same in all folds.
    final = one.row.final or result.case_row((one.row.measure, one.row.method), one.final).fits[0]
    setting = setting_text(result.results[one.final], final.params)
    return ", ".join(filter(None, [str(result.cases[one.final]), setting]))


def _stability(result: ChoiceResult, one: ChosenRow) -> str:
    """Return how often each combination was chosen.

    Unless all folds agree, add the held-out mean of the recommended combination in all folds.
    """
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
    title = f"{quantity(len(result.runs), 'run')}, {quantity(len(result.topics), 'topic')}, {result.how}"
    fused, single = result.fixed(row.measure), baselines[BEST_SINGLE]
    if ENGINE_DEFAULT in baselines:
        return Answer(title, _engine_lines(result, row, baselines))
    rrf = baselines["rrf"]
    details = _fused_by(fused, len(result.runs))
    if row is single:
        value = (
            f"{short(row.mean)}; fused {short(fused.mean)} ({': '.join(filter(None, (fused.name, details)))})"
        )
        lines = [("Recommended", f"{row.name} alone"), (row.measure.title, value)]
    else:
        value = f"{short(row.mean)}; best single run ({single.name}) {short(single.mean)}"
        lines = [
            ("Recommended", f"{row.name} ({details})" if details else row.name),
            (row.measure.title, value),
        ]
    lines += difference_lines(fused.gains[BEST_SINGLE], fused.values - single.values, single.name)
    if fused is row and fused is not rrf:
        lines.append(("Over rrf", gain_text(fused.gains["rrf"])))
    return Answer(title, lines)


def _engine_lines(result: FusionResult, row: FusedRow, baselines: Mapping[str, FusedRow]) -> _Lines:
    """Return the recommended variant of an engine, three means, and the tuned variant's differences."""
    single, default, tuned = baselines[BEST_SINGLE], baselines[ENGINE_DEFAULT], result.fixed(row.measure)
    space = SPACES[tuned.chosen.engine]
    found = f"{', '.join(tuned.chosen.details)}; weights {weights_text(tuned.chosen.weights)}"
    chosen = Counter(str(fold.variant) for fold in tuned.folds).get(str(tuned.chosen.variant), 0)
    lines = [
        ("Recommended", f"{row.name} alone" if row is single else f"{space.title}: {found}"),
        (row.measure.title, f"{short(tuned.mean)} tuned{f' ({found})' if row is single else ''}"),
        ("Best single run", f"{short(single.mean)} ({single.name})"),
        ("Engine's default", f"{short(default.mean)} ({', '.join(default.chosen.details)})"),
        *difference_lines(tuned.gains[BEST_SINGLE], tuned.values - single.values, single.name),
        ("Over the default", gain_text(tuned.gains[ENGINE_DEFAULT])),
        (
            "Searched",
            f"{result.variants} variants of {space.name}; this one in {chosen} of {len(tuned.folds)} folds",
        ),
    ]
    if tuned.bound is not None:
        excess = at_most(tuned.bound - tuned.in_sample)
        lines.append(
            ("Certificate", f"no variant and weights exceed its in-sample mean by more than {excess}")
        )
    elif space.refused:
        lines.append(("Certificate", f"none: {space.refused}"))
    return lines


def weights_text(weights: Mapping[str, float]) -> str:
    """Return weights as text, by run."""
    return ", ".join(f"{run} {weight:.4g}" for run, weight in weights.items())


def _fused_by(row: FusedRow, runs: int) -> str:
    """Return a method's constant and, if there are few runs, its tuned weights."""
    constant = row.chosen.details
    chosen = row.chosen.plan.fit is not None and runs <= FEW_RUNS
    weights = [f"{run} {short(share)}" for run, share in row.chosen.shares.items()] if chosen else []
    return ", ".join([*constant, *weights])


def loss_answer(outcomes: Sequence[Outcome], empty: Empty) -> Answer | None:
    """Return the system to use, by the measure with the largest cutoff; None for a single one.

    A system is a loss, another ranker or a model. The first one is recommended unless another one is
    significantly better. The unit is the query, with its mean over trials. p-values and intervals are
    corrected for all pairs, so they hold for the best system, too.
    """
    first, *others = outcomes
    if not others:
        return None
    measures = [measure for measure in first.measures if measure.higher_is_better]
    measure = max(measures, key=lambda one: one.cutoff or math.inf)
    by_loss = {one.label: one.by_query(empty, measure) for one in outcomes}
    values = by_loss[first.label]
    if not values.size:
        return None
    from lmtune.rerank.comparison import contrasts

    best = max(others, key=lambda one: float(by_loss[one.label].mean()))
    differences = by_loss[best.label] - values
    compared = contrasts(outcomes, empty, measure, over="queries")
    gain = Gain(float(differences.mean()))
    gain = _gain_of_contrast(compared, best.label, first.label) if compared else gain
    chosen = best if gain.significance > 0 else first
    rate = f" (learning rate {chosen.rate_text})" if chosen.rates else ""
    means = "; ".join(f"{one.label} {short(by_loss[one.label].mean())}" for one in (best, first))
    test = CORRECTED if len(others) > 1 else PLAIN
    (title, text), verdict = difference_lines(gain, differences, first.label, _QUERIES, test)
    lines = [
        ("Recommended", f"{chosen.label}{rate}"),
        (measure.title, means),
        (title, f"{best.label} minus {first.label}: {text}"),
        verdict,
    ]
    return Answer(f"{len(outcomes)} systems, {quantity(values.size, *_QUERIES)}", lines)


def reranking_answer(comparison: Comparison) -> Answer:
    """Return whether to rerank; the first system is the run, the second the reranked run."""
    before, after = comparison.values[:, :, 0]
    measure, (run, reranked) = comparison.measures[0], comparison.systems[:2]
    gain = _gain_of_contrast(comparison, reranked, run)
    test = CORRECTED if comparison.family > 1 else PLAIN
    lines = [
        ("Recommended", "rerank" if gain.significance > 0 else f"keep {run}"),
        (measure_label(measure), f"{short(after.mean())} reranked, held out; {short(before.mean())} {run}"),
        *difference_lines(gain, after - before, run, test=test),
    ]
    return Answer(f"{reranked}: {quantity(before.size, 'topic')}", lines)


def _gain_of_contrast(comparison: Comparison, system: str, against: str) -> Gain:
    """Return a difference in the first measure, with the comparison's correction."""
    one = next(c for c in comparison.contrasts if (c.system, c.against) == (system, against))
    p = one.adjusted[comparison.options.tests[0]]
    return Gain(one.difference) if math.isnan(p) else Gain(one.difference, *one.interval, p)


def difference_lines(
    gain: Gain,
    differences: Doubles,
    name: str,
    units: tuple[str, str] = ("topic", "topics"),
    test: str = PLAIN,
) -> _Lines:
    """Return the lines on the mean difference from a baseline and on its significance."""
    p = math.nan if gain.p_value is None else gain.p_value
    verdict = verdict_text(differences, p, name, units=units)
    return [("Difference", gain_text(gain, test)), ("Verdict", verdict)]


def gain_cells(gain: Gain) -> list[str]:
    """Return the cells of a difference, its interval and its p-value; empty where it has no test."""
    if gain.low is None or gain.high is None or gain.p_value is None:
        return [signed(gain.difference), "", ""]
    return [signed(gain.difference), interval_text((gain.low, gain.high), signed), p_text(gain.p_value)]


def gain_text(gain: Gain, test: str = PLAIN) -> str:
    """Format a difference with its interval, p-value and test, if it was tested."""
    difference, *tested = gain
    low, high, p = (math.nan if value is None else value for value in tested)
    return difference_text(difference, (low, high), p, test)


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
