"""Compare systems topic by topic, from values or from runs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Doubles
from lmtune.errors import InputError, PathLike, as_text
from lmtune.io.frames import named_runs
from lmtune.io.rows import QrelsLike, RunsLike
from lmtune.measures.from_files import (
    EvaluationOptions,
    as_judgments,
    evaluations,
    for_judgments,
    needed_besides_gains,
    parse_families,
)
from lmtune.measures.measure import MeasuresLike, parse_measures
from lmtune.measures.residual_bounds import JUDGED, check_bounded, difference_bounds, lists_nonrelevant
from lmtune.measures.significance.stored import read_baseline
from lmtune.measures.significance.tests import (
    ALTERNATIVES,
    FEWEST,
    LEVEL,
    Alternative,
    Tested,
    adjusted,
    adjusted_confidence,
    effect_size,
    equivalence_test,
    mean_interval,
    paired_differences,
    paired_t_test,
    randomization_tests,
    wilcoxon_test,
    wins_ties_losses,
)
from lmtune.measures.significance.tests import CORRECTIONS as P_CORRECTIONS
from lmtune.measures.significance.tukey import randomized_hsd, tukey_hsd
from lmtune.options import check as check_options
from lmtune.options import option, usual
from lmtune.progress import Progress, note, quantity, silent
from lmtune.showing import Plotted

TESTS = ("t", "randomization", "wilcoxon")
HSD = "hsd"
CORRECTIONS = (*P_CORRECTIONS[:-1], HSD, P_CORRECTIONS[-1])
_HSD_TESTS = TESTS[:2]


@dataclass(frozen=True)
class ComparisonOptions:
    """Comparison: test, correction and intervals of differences between systems.

    Attributes
    ----------
    tests : tuple of str
        One or more of ``"t"``, ``"randomization"`` and ``"wilcoxon"``. The first determines which
        differences are significant.
    correction : {"holm", "bonferroni", "bh", "hsd", "none"}
        Correction of p-values and intervals for the number of contrasts on each measure; ``"hsd"`` for all
        pairs of systems (`lmtune.measures.significance.tukey`).
    alternative : {"two-sided", "greater", "less"}
        ``"greater"`` tests only whether runs are better than the baseline.
    confidence : float
        Confidence of the intervals, by the correction: simultaneous, or with ``"bh"`` of the significant
        differences (`adjusted_confidence`). The significance level is 1 - confidence.
    margin : float or None
        The smallest difference of means that matters. If it is set, non-inferiority and equivalence of runs
        and the baseline are tested, too.
    pairwise : bool
        Compare all pairs of systems, not only each run with the baseline.
    permutations, seed : int
        Number and seed of the randomization test's random sign patterns; with ``"hsd"``, of its permutations.
    hedges : bool
        Remove the small-sample bias of effect sizes.
    """

    tests: tuple[str, ...] = usual(
        ("t",),
        "t, randomization or wilcoxon; the first of several determines significance.",
        choices=TESTS,
        flag="--test",
        separator=None,
    )
    correction: str = usual(
        "holm",
        "holm or bonferroni (family-wise error), bh (false discovery rate), hsd (Tukey) or none.",
        choices=CORRECTIONS,
    )
    alternative: Alternative = option("two-sided", "two-sided, greater or less.", choices=ALTERNATIVES)
    confidence: float = option(
        0.95, "Confidence of intervals; 1 - confidence is the significance level.", above=0, below=1
    )
    margin: float | None = option(
        None, "Also test non-inferiority and equivalence with this margin of the mean.", above=0
    )
    pairwise: bool = usual(False, "Compare all pairs of runs, not only each run with the baseline.")
    permutations: int = option(100_000, "Random permutations of the randomization test.", low=1)
    seed: int = option(0, "Seed of the randomization test.", low=0)
    hedges: bool = option(False, "Remove the small-sample bias of effect sizes.", flag="")

    @property
    def level(self) -> float:
        """The significance level, 1 - confidence."""
        return round(1.0 - self.confidence, 12)

    def check(self) -> None:
        """Raise InputError for unknown names and values outside their domains."""
        check_options(self)
        if not self.tests or len(set(self.tests)) < len(self.tests):
            raise InputError("bad tests", value=self.tests, accepted=f"{', '.join(TESTS)}, each at most once")
        if self.pairwise and self.alternative != "two-sided":
            raise InputError(
                "pairwise comparisons need a two-sided alternative",
                value=self.alternative,
                accepted="two-sided",
            )
        if self.correction == HSD:
            refused = (
                ("test", sorted({*self.tests} - {*_HSD_TESTS}), " or ".join(_HSD_TESTS)),
                ("alternative", self.alternative, "two-sided"),
                ("margin", self.margin, "none, or --correction holm"),
            )
            for name, value, accepted in refused:
                if value and value != "two-sided":
                    raise InputError(
                        f"--correction hsd conflicts with this {name}", value=value, accepted=accepted
                    )


NOT_WORSE, EQUIVALENT = "not worse", "equivalent"
NOISE = 1e-12
"""Bound on the rounding errors of means."""


@dataclass(frozen=True)
class Contrast:
    """The comparison of two systems on one measure.

    Attributes
    ----------
    measure, system, against : str
        Names. Differences are `system` minus `against`.
    mean, against_mean, difference : float
        Means over topics, and their difference.
    relative : float or None
        The difference over the absolute value of `against_mean`; None if that is 0.
    wins, ties, losses : int
        Numbers of topics on which `system` is better, equal and worse.
    tested : dict of str to Tested
        Results by test; with a margin also ``"not worse"`` and ``"equivalent"``, which are t-tests.
    adjusted : dict of str to float
        The p-values of `tested`, corrected for the number of contrasts on this measure. Those of
        ``"hsd"`` are the same, as its tests include the correction.
    effect_size : float
        Cohen's d_z, or Hedges' corrected value; 0 if no topic differs, NaN if all differ equally.
    interval : tuple of float
        The interval of the mean difference, by the correction: a t-interval, or that of the first test of
        ``"hsd"``.
    interval_confidence : float
        The confidence of the t-interval by itself (`adjusted_confidence`); with ``"hsd"``, of all intervals.
    possible : tuple of float or None
        The lowest and the highest difference over all judgments of the unjudged documents, if requested; see
        `lmtune.measures.residual_bounds`.
    """

    measure: str
    system: str
    against: str
    mean: float
    against_mean: float
    difference: float
    relative: float | None
    wins: int
    ties: int
    losses: int
    tested: dict[str, Tested]
    adjusted: dict[str, float]
    effect_size: float
    interval: tuple[float, float]
    interval_confidence: float
    possible: tuple[float, float] | None = None

    @property
    def could_turn(self) -> bool:
        """Whether judgments of unjudged documents could reverse the sign of the difference."""
        if self.possible is None:
            return False
        low, high = self.possible
        return (self.difference <= 0.0 and high > NOISE) or (self.difference >= 0.0 and low < -NOISE)


@dataclass(frozen=True, repr=False)
class Comparison(Plotted, by="comparison_tables.comparison"):
    """A comparison of several systems on the same topics.

    Attributes
    ----------
    systems : tuple of str
        Names of the systems, the baseline first.
    measures : tuple of str
        Names of the measures.
    topics : tuple of str
        Identifiers of the topics.
    values : numpy.ndarray of float64, shape (systems, topics, measures)
        The compared values.
    contrasts : tuple of Contrast
        Ordered by measure: each run with the baseline, or all pairs.
    options : ComparisonOptions
        Options of the comparison.
    notes : tuple of str
        Notes on constant differences and undefined statistics.
    judged : tuple of float
        Each system's mean Judged@10; empty for a comparison without runs, and if the judgments list only
        relevant documents, as Judged@10 is then P@10.
    """

    systems: tuple[str, ...]
    measures: tuple[str, ...]
    topics: tuple[str, ...]
    values: Doubles
    contrasts: tuple[Contrast, ...]
    options: ComparisonOptions
    notes: tuple[str, ...] = ()
    judged: tuple[float, ...] = ()

    @property
    def family(self) -> int:
        """The number of comparisons on each measure that are corrected together."""
        pairs = len(self.systems) * (len(self.systems) - 1) // 2
        return pairs if self.options.correction == HSD else len(self.contrasts) // len(self.measures)

    def means(self, system: str) -> list[float]:
        """Return a system's mean on each measure."""
        return [float(mean) for mean in self.values[self.systems.index(system)].mean(axis=0)]

    def beats(self, measure: str, system: str, other: str) -> bool:
        """Return whether `system` is significantly better than `other`, after correction."""
        for contrast in self.contrasts:
            if contrast.measure == measure and {contrast.system, contrast.against} == {system, other}:
                sign = 1.0 if contrast.system == system else -1.0
                p = contrast.adjusted[self.options.tests[0]]
                return sign * contrast.difference > 0.0 and p < self.options.level
        return False


_STUDENT = "t distribution"
_Side = tuple[Doubles, Doubles]


def compare(
    baseline_values: ArrayLike,
    values_by_run: Mapping[str, ArrayLike],
    options: ComparisonOptions | None = None,
    *,
    baseline: str = "baseline",
    measures: Sequence[str] | None = None,
    topics: Sequence[str] | None = None,
) -> Comparison:
    """Compare runs with a baseline, or with each other, from their values by topic.

    Parameters
    ----------
    baseline_values : array_like of float, shape (topics,) or (topics, measures)
        The baseline's values, higher is better. The labels of a DataFrame, such as `lmtune.measure` returns,
        name topics and measures.
    values_by_run : mapping of str to array_like
        The runs' values on the same topics and measures, by name.
    options : ComparisonOptions, optional
        Tests, correction, confidence and others; by default t-tests with Holm's correction.
    baseline : str
        The baseline's name.
    measures, topics : sequence of str, optional
        Names; by default those of the DataFrame, or ``"value"`` and numbers from 1.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If there are fewer than two topics or no runs, shapes differ, a value is not finite, a test,
        correction or alternative is unknown, or a number is outside its domain.

    Examples
    --------
    >>> comparison = compare([0.1, 0.2, 0.5], {"mine": [0.2, 0.4, 0.6]})
    >>> round(comparison.contrasts[0].tested["t"].p_value, 4)
    0.0572
    """
    options = ComparisonOptions() if options is None else options
    options.check()
    if not values_by_run:
        raise InputError("nothing to compare with the baseline", accepted="one run or more")
    if baseline in values_by_run:
        raise InputError("a run has the baseline's name", value=baseline, accepted="another name")
    by_system = {baseline: baseline_values, **values_by_run}
    values = np.stack([_values(name, v, baseline_values) for name, v in by_system.items()])
    names = _labels(measures, _labels_of(baseline_values, "columns"), values.shape[2], "measures")
    topics = _labels(topics, _labels_of(baseline_values, "index"), values.shape[1], "topics")
    if len(topics) < 2:
        raise InputError(
            "a comparison needs two topics or more",
            value=len(topics),
            accepted="judgments of two topics or more",
        )
    systems = tuple(by_system)
    pairs = [
        (system, against)
        for against, system in combinations(range(len(systems)), 2)
        if options.pairwise or against == 0
    ]
    notes: list[str] = []
    if len(topics) < FEWEST:
        notes.append(f"{quantity(len(topics), 'topic')}: a t-test needs {FEWEST}")
    contrasts: list[Contrast] = []
    for m, measure in enumerate(names):
        contrasts += _contrasts(measure, systems, values[..., m], pairs, options)
        for system, against in pairs:
            label = f"{measure}: {systems[system]} and {systems[against]}"
            notes += _notes(values[system, :, m], values[against, :, m], label, options.correction)
    return Comparison(systems, names, topics, values, tuple(contrasts), options, tuple(notes))


def compare_slices(comparison: Comparison, slices: Mapping[str, Sequence[str]]) -> dict[str, Comparison]:
    """Repeat a comparison on slices of its topics.

    Parameters
    ----------
    comparison : Comparison
        The comparison on all topics.
    slices : mapping of str to sequence of str
        Topics by name of slice; other topics than the comparison's are ignored.

    Returns
    -------
    dict of str to Comparison
        The slices with compared topics. Their confidence is corrected for the number of slices.

    Raises
    ------
    InputError
        If no topic is in a slice, or a slice has fewer than `FEWEST`.
    """
    rows, options = {topic: row for row, topic in enumerate(comparison.topics)}, comparison.options
    parts = {name: [topic for topic in topics if topic in rows] for name, topics in slices.items()}
    parts = {name: topics for name, topics in parts.items() if topics}
    if not parts:
        accepted = f"topics of the judgments, such as {comparison.topics[0]}"
        raise InputError("no slice has a compared topic", value=[*slices][:3], accepted=accepted)
    outside = len(rows) - len({topic for topics in parts.values() for topic in topics})
    if outside:
        note(f"{outside} of {len(rows)} topics are in no slice")
    confidence = adjusted_confidence(options.confidence, len(parts), options.correction)
    compared = {}
    for name, topics in parts.items():
        if len(topics) < FEWEST:
            accepted = f"slices of {FEWEST} topics or more"
            raise InputError(f"too few topics in slice {name!r}", value=len(topics), accepted=accepted)
        baseline, *runs = comparison.values[:, [rows[topic] for topic in topics]]
        compared[name] = compare(
            baseline,
            dict(zip(comparison.systems[1:], runs, strict=True)),
            replace(options, confidence=confidence),
            baseline=comparison.systems[0],
            measures=comparison.measures,
            topics=topics,
        )
    return compared


class Gain(NamedTuple):
    """A mean difference over topics, its 95% confidence interval, and the p-value of a paired t-test.

    Interval and p-value are None for fewer than three topics, and if all topics have the same difference.
    """

    difference: float
    low: float | None = None
    high: float | None = None
    p_value: float | None = None

    @property
    def significance(self) -> int:
        """1 if the difference is significant and above 0, -1 if it is below 0, and else 0."""
        is_significant = self.p_value is not None and self.p_value < LEVEL
        return int(np.sign(self.difference)) if is_significant else 0


def gains_over(baseline: Doubles, values: Mapping[str, Doubles], first: str) -> dict[str, Gain]:
    """Compare a system that was fixed beforehand with a baseline, and then all others.

    The first system has a p-value and an interval of its own. The others have Holm's correction, and no
    p-value is below the first one's. This gatekeeping procedure keeps the family-wise error rate (Westfall
    and Krishen, Journal of Statistical Planning and Inference 99, 2001). The others' intervals are
    simultaneous.

    Parameters
    ----------
    baseline : numpy.ndarray of float64, shape (topics,)
        The baseline's values.
    values : mapping of str to numpy.ndarray of float64, shape (topics,)
        The systems' values on the same topics.
    first : str
        The system that was fixed beforehand. If it has no values, the others have Holm's correction alone.
    """
    if baseline.size < FEWEST:
        return {name: Gain(float(own.mean() - baseline.mean())) for name, own in values.items()}
    others = {name: own for name, own in values.items() if name != first}
    gains, gate = dict[str, Gain](), 0.0
    for family in ({first: values[first]} if first in values else {}, others):
        for one in compare(baseline, family).contrasts if family else ():
            p = one.adjusted["t"]
            is_tested = not math.isnan(p)
            tested = (*one.interval, max(p, gate)) if is_tested else ()
            gains[one.system] = Gain(one.difference, *tested)
        if first in gains:
            first_p = gains[first].p_value
            gate = 1.0 if first_p is None else first_p
    return {name: gains[name] for name in values}


def _contrasts(
    measure: str,
    systems: Sequence[str],
    values: Doubles,
    pairs: Sequence[tuple[int, int]],
    options: ComparisonOptions,
) -> Iterator[Contrast]:
    """Yield the contrasts of a measure; `values` has shape (systems, topics)."""
    sides = [(values[system], values[against]) for system, against in pairs]
    results = _hsd(values, pairs, options) if options.correction == HSD else _corrected(sides, options)
    for i, ((system, against), (a, b)) in enumerate(zip(pairs, sides, strict=True)):
        difference, against_mean = float(paired_differences(a, b).values.mean()), float(b.mean())
        wins, ties, losses = wins_ties_losses(a, b)
        yield Contrast(
            measure=measure,
            system=systems[system],
            against=systems[against],
            mean=float(a.mean()),
            against_mean=against_mean,
            difference=difference,
            relative=difference / abs(against_mean) if against_mean else None,
            wins=wins,
            ties=ties,
            losses=losses,
            tested={name: tested[i] for name, tested in results.tested.items()},
            adjusted={name: p[i] for name, p in results.adjusted.items()},
            effect_size=effect_size(a, b, hedges=options.hedges),
            interval=results.intervals[i],
            interval_confidence=results.confidences[i],
        )


class _Results(NamedTuple):
    """Results of a measure's contrasts: p-values by test, corrected p-values, intervals."""

    tested: dict[str, list[Tested]]
    adjusted: dict[str, list[float]]
    intervals: list[tuple[float, float]]
    confidences: list[float]


def _corrected(sides: Sequence[_Side], options: ComparisonOptions) -> _Results:
    tested = _tested(sides, options)
    corrected = {
        name: adjusted([one.p_value for one in results], options.correction)
        for name, results in tested.items()
    }
    is_significant = [p < options.level for p in corrected[options.tests[0]]]
    confidences = [
        adjusted_confidence(
            options.confidence, len(sides), options.correction, sum(is_significant) + (not significant)
        )
        for significant in is_significant
    ]
    intervals = [mean_interval(a, b, own) for (a, b), own in zip(sides, confidences, strict=True)]
    return _Results(tested, corrected, intervals, confidences)


def _hsd(values: Doubles, pairs: Sequence[tuple[int, int]], options: ComparisonOptions) -> _Results:
    found = {
        name: tukey_hsd(values.T, options.confidence)
        if name == "t"
        else randomized_hsd(
            values.T, options.confidence, permutations=options.permutations, seed=options.seed
        )
        for name in options.tests
    }
    p_values = {name: [float(one.p_values[pair]) for pair in pairs] for name, one in found.items()}
    tested = {name: [Tested(p, found[name].how) for p in own] for name, own in p_values.items()}
    half = found[options.tests[0]].half
    differences = [float((values[system] - values[against]).mean()) for system, against in pairs]
    intervals = [(difference - half, difference + half) for difference in differences]
    return _Results(tested, p_values, intervals, [options.confidence] * len(pairs))


def _tested(sides: Sequence[_Side], options: ComparisonOptions) -> dict[str, list[Tested]]:
    results: dict[str, list[Tested]] = {}
    alternative = options.alternative
    for name in options.tests:
        if name == "t":
            results[name] = [Tested(paired_t_test(a, b, alternative), _STUDENT) for a, b in sides]
        elif name == "wilcoxon":
            results[name] = [wilcoxon_test(a, b, alternative) for a, b in sides]
        else:
            results[name] = randomization_tests(
                sides, alternative, permutations=options.permutations, seed=options.seed
            )
    if options.margin is not None:
        both = [equivalence_test(a, b, options.margin) for a, b in sides]
        results[NOT_WORSE] = [Tested(one.not_worse, _STUDENT) for one in both]
        results[EQUIVALENT] = [Tested(one.equivalent, _STUDENT) for one in both]
    return results


def _notes(a: Doubles, b: Doubles, names: str, correction: str) -> list[str]:
    difference = paired_differences(a, b)
    notes = []
    if not difference.values.any():
        notes.append(f"{names} are equal on every topic: p is 1")
    elif difference.is_constant:
        missing = "effect size" if correction == HSD else "t-test, effect size or interval"
        notes.append(
            f"{names} differ by {difference.values.mean():.4g} on every topic: without variance there is no "
            f"{missing}"
        )
    if b.mean() == 0.0 and difference.values.any():
        notes.append(f"{names}: no relative difference, because the second mean is 0")
    return notes


def _values(name: str, system_values: Any, baseline_values: Any) -> Doubles:
    """Check one system's values and return them in shape (topics, measures)."""
    for which in ("index", "columns"):
        labels, baseline_labels = _labels_of(system_values, which), _labels_of(baseline_values, which)
        if labels is not None and baseline_labels is not None and labels != baseline_labels:
            raise InputError(
                f"{name}: the {which} labels differ from the baseline's",
                accepted="the same labels in the same order",
            )
    values = np.asarray(system_values, np.float64)
    if values.ndim not in (1, 2) or values.shape != np.shape(baseline_values) or values.shape[1:] == (0,):
        raise InputError(
            f"{name}: the shape of values differs from the baseline's",
            value=(values.shape, np.shape(baseline_values)),
            accepted="the same shape: (topics,) or (topics, measures)",
        )
    if not np.isfinite(values).all():
        raise InputError(
            f"{name}: a value is not finite",
            value=float(values[~np.isfinite(values)][0]),
            accepted="finite values",
        )
    return values[:, np.newaxis] if values.ndim == 1 else values


def _labels_of(values: Any, which: str) -> list[str] | None:
    """Return a DataFrame's labels; None for anything else (a list's index is a method)."""
    labels = getattr(values, which, None)
    return None if labels is None or callable(labels) else [str(label) for label in labels]


def _labels(
    names: Sequence[str] | None, frame_labels: Sequence[str] | None, number: int, what: str
) -> tuple[str, ...]:
    """Return the names, or by default a DataFrame's labels, or else numbers from 1."""
    names = frame_labels if names is None else names
    if names is None:
        numbers = tuple(str(i) for i in range(1, number + 1))
        return ("value",) if what == "measures" and number == 1 else numbers
    if len(names) != number or len(set(names)) != number:
        accepted = f"{number} different names"
        raise InputError(f"{what} are not named uniquely", value=len(names), accepted=accepted)
    return tuple(names)


_COMPRESSED = (".gz", ".bz2", ".zst")
_RUN_SUFFIXES = (".run", ".txt", ".trec", ".res")


def compare_runs(
    qrels: QrelsLike,
    runs: RunsLike,
    measures: MeasuresLike,
    options: ComparisonOptions | None = None,
    *,
    only: str | None = None,
    residuals: bool = False,
    progress: Progress = silent,
) -> Comparison:
    """Compare runs topic by topic; judged topics missing from a run count 0.

    Parameters
    ----------
    qrels : path-like, or others
        Judgments: a file, a frame, named rows or a dictionary; see `lmtune.io.frames`.
    runs : sequence, or mapping of names to runs
        Runs in the same forms, the baseline first. All but one can be files of stored values
        (`lmtune.measures.significance.stored`). A repeated file is left out.
    measures : str, an object of ir_measures, or an iterable of these
        See `lmtune.measures.measure.parse_measures`.
    options : ComparisonOptions, optional
        Tests, correction, confidence and others.
    only : str, optional
        The judged topics to use, as `lmtune.collections.folds.select_topics` reads them.
    residuals : bool
        Bound each difference over all judgments of the unjudged documents.
    progress : Progress
        Called after each run.

    Raises
    ------
    InputError
        If a name is unknown, a file cannot be read, there are fewer than two judged topics, or residual
        bounds are not available for a measure.
    """
    options = ComparisonOptions() if options is None else options
    _check_options(options)
    parsed = parse_measures(measures)
    if residuals:
        check_bounded(parsed)
    labels = list(map(str, parsed))
    named = labelled_runs(runs)
    names = list(named)
    stored = {name: own for name, run in named.items() if (own := read_baseline(run, qrels)) is not None}
    if stored and (residuals or len(stored) == len(named)):
        what = "residual bounds of stored values" if residuals else "only stored values"
        file = next(iter(stored.values())).file
        raise InputError(what, file=file, accepted="the run" if residuals else "one run or more")
    read = {name: run for name, run in named.items() if name not in stored}
    values: dict[str, Doubles] = {}
    judged: dict[str, float] = {}
    topics: tuple[str, ...] = ()
    settings = for_judgments(EvaluationOptions(complete=True, topics=only), qrels)
    for name, evaluation in zip(
        read, evaluations(qrels, read, [*labels, JUDGED], settings=settings), strict=True
    ):
        topics = evaluation.topics
        if len(topics) < 2:
            raise InputError(
                "a comparison needs two topics or more",
                file=qrels if isinstance(qrels, str | os.PathLike) else None,
                value=list(topics),
                accepted="judgments of two topics or more",
            )
        values[name] = np.array([evaluation.column(label).values for label in labels], np.float64).T
        judged[name] = float(np.mean(np.array(evaluation.column(JUDGED).values, np.float64)))
        progress("reading runs", len(values), len(read), name)
        missed = len(topics) - len(evaluation.retrieved)
        if missed:
            note(f"{name} misses {missed} of {len(topics)} judged topics, which count 0")
    for name, own in stored.items():
        values[name], judged[name] = own.of(topics, labels), float(own.of(topics, [JUDGED]).mean())
    others = {name: values[name] for name in names[1:]}
    compared = compare(values[names[0]], others, options, baseline=names[0], measures=labels, topics=topics)
    contrasts = compared.contrasts
    if residuals:
        pairs = dict.fromkeys((one.system, one.against) for one in contrasts)
        possible = difference_bounds(qrels, named, list(pairs), labels, settings)
        contrasts = tuple(
            replace(
                one, possible=tuple(possible[one.system, one.against][labels.index(one.measure)].tolist())
            )
            for one in contrasts
        )
    reads = needed_besides_gains(parse_families(labels))
    if not lists_nonrelevant(as_judgments(qrels, settings.topics, reads)):
        judged = {}
        if residuals:
            note("the judgments list only relevant documents: all others are unjudged in the bounds")
    return replace(compared, contrasts=contrasts, judged=tuple(judged[name] for name in names if judged))


def _check_options(options: object) -> None:
    """Raise InputError for invalid options, or another object, such as measures after two runs."""
    if not isinstance(options, ComparisonOptions):
        accepted = "compare_runs(qrels, [baseline, run, ...], measures, ComparisonOptions(...))"
        raise InputError("not ComparisonOptions", value=options, accepted=accepted)
    options.check()


def labelled_runs(runs: RunsLike) -> dict[str, Any]:
    """Return runs by name, named as in `named_files`, without repeated files.

    A comparison of a run with itself would only make the correction stricter for the others.
    """
    pairs = list(named_runs(runs))
    if not isinstance(runs, Mapping) and all(isinstance(run, str | os.PathLike) for _, run in pairs):
        distinct: dict[Path, str] = {}
        for argument, _ in pairs:
            file = _name_and_file(argument)[1]
            if file.resolve() in distinct:
                note(f"{file} is repeated: left out, and not counted by the correction")
            distinct.setdefault(file.resolve(), argument)
        return dict(named_files(list(distinct.values())))
    named = dict(pairs)
    if len(named) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError("two runs have one name", value=names, accepted="a mapping of names to runs")
    return named


def named_files(arguments: Sequence[PathLike]) -> dict[str, Path]:
    """Return files by name: the NAME of NAME=FILE, or a name from `run_labels`.

    Raises
    ------
    InputError
        If a file is repeated or two files have the same name.

    Examples
    --------
    >>> named_files(["LM=runs/lm.run", "bm25.run"])
    {'LM': PosixPath('runs/lm.run'), 'bm25': PosixPath('bm25.run')}
    """
    pairs = [_name_and_file(argument) for argument in arguments]
    if len({file.resolve() for _, file in pairs}) < len(pairs):
        raise InputError(
            "a file is given twice",
            value=[os.fspath(argument) for argument in arguments],
            accepted="each file once",
        )
    labels = iter(run_labels([file for name, file in pairs if not name]))
    names = [name or next(labels) for name, _ in pairs]
    if len(set(names)) < len(names):
        raise InputError("two files have one name", value=names, accepted="NAME=FILE with a name for each")
    return dict(zip(names, [file for _, file in pairs], strict=True))


def _name_and_file(argument: PathLike) -> tuple[str, Path]:
    """Split NAME=FILE; the name is empty for a file without one, also if its path contains "="."""
    name, _, file = os.fspath(argument).partition("=")
    if not file or "/" in name or Path(argument).exists():
        return "", Path(argument)
    return name, Path(file)


def run_labels(paths: Sequence[Path]) -> list[str]:
    """Return unique names for different paths: the file name, with as much of the path as is needed.

    Examples
    --------
    >>> run_labels([Path("x.run.gz"), Path("y.run"), Path("y.txt"), Path("a/z"), Path("b/z")])
    ['x', 'y.run', 'y.txt', 'a/z', 'b/z']
    """
    candidates = [_possible_names(path) for path in paths]
    chosen = [0] * len(candidates)
    while True:
        names = [possible[number] for possible, number in zip(candidates, chosen, strict=True)]
        ambiguous = [
            i for i, name in enumerate(names) if names.count(name) > 1 and chosen[i] + 1 < len(candidates[i])
        ]
        if not ambiguous:
            return names
        for i in ambiguous:
            chosen[i] += 1


def _possible_names(path: Path) -> list[str]:
    """List a file's possible names, from the shortest to the full path."""
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    shortest = plain.stem if plain.suffix.lower() in _RUN_SUFFIXES else plain.name
    parts = path.parts
    longer = (Path(*parts[-depth:]).as_posix() for depth in range(1, len(parts) + 1))
    return [as_text(name) for name in (shortest, *longer)]
