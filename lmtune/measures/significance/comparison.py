"""Compare systems topic by topic, by their values or by their runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Doubles
from lmtune.errors import InputError, PathLike, as_text
from lmtune.io.frames import named_runs
from lmtune.io.rows import QrelsLike, RunsLike
from lmtune.measures.from_files import EvaluationOptions, evaluations, for_judgments
from lmtune.measures.measure import MeasuresLike, parse_measures
from lmtune.measures.residual_bounds import JUDGED, check_bounded, difference_bounds
from lmtune.measures.significance.tests import (
    ALTERNATIVES,
    CORRECTIONS,
    FEWEST,
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
from lmtune.options import check as check_options
from lmtune.options import option, usual
from lmtune.progress import Progress, note, quantity, silent
from lmtune.showing import Plotted

TESTS = ("t", "randomization", "wilcoxon")


@dataclass(frozen=True)
class ComparisonOptions:
    """How systems are compared.

    Attributes
    ----------
    tests : tuple of str
        Of ``"t"``, ``"randomization"`` and ``"wilcoxon"``; the first decides what counts as
        significant.
    correction : {"holm", "bonferroni", "none"}
        For the number of contrasts on each measure.
    alternative : {"two-sided", "greater", "less"}
        ``"greater"`` asks only whether runs are better than the baseline.
    confidence : float
        Of the intervals, all together where p-values are corrected; 1 - confidence is the
        significance level.
    margin : float or None
        The smallest difference of means that matters: adds tests that a run is not worse than
        the baseline, and equivalent to it.
    pairwise : bool
        Compare all pairs of systems, not just each run with the baseline.
    permutations, seed : int
        Of the randomization test.
    hedges : bool
        Remove the bias of few topics from effect sizes.
    """

    tests: tuple[str, ...] = usual(
        ("t",),
        "t, randomization or wilcoxon; several: the first decides.",
        choices=TESTS,
        flag="--test",
        separator=None,
    )
    correction: str = usual("holm", "holm, bonferroni or none.", choices=CORRECTIONS)
    alternative: Alternative = option("two-sided", "two-sided, greater or less.", choices=ALTERNATIVES)
    confidence: float = option(
        0.95, "Of intervals; 1 - confidence is the significance level.", above=0, below=1
    )
    margin: float | None = option(
        None, "A difference that does not matter: also test not worse, equivalent.", above=0
    )
    pairwise: bool = usual(False, "Compare all pairs, not just with the baseline.")
    permutations: int = option(100_000, "Random sign patterns of the randomization test.", low=1)
    seed: int = option(0, "Of the randomization test.", low=0)
    hedges: bool = option(False, "Remove the bias of few topics from effect sizes.", flag="")

    @property
    def level(self) -> float:
        """The significance level, 1 - confidence."""
        return round(1.0 - self.confidence, 12)

    def check(self) -> None:
        """Raise InputError for unknown names and figures outside their domains."""
        check_options(self)
        if not self.tests or len(set(self.tests)) < len(self.tests):
            raise InputError("bad tests", value=self.tests, accepted=f"{', '.join(TESTS)}, each once")
        if self.pairwise and self.alternative != "two-sided":
            raise InputError(
                "a one-sided alternative for all pairs", value=self.alternative, accepted="two-sided"
            )


NOT_WORSE, EQUIVALENT = "not worse", "equivalent"


@dataclass(frozen=True)
class Contrast:
    """One system against another on one measure.

    Attributes
    ----------
    measure, system, against : str
        Names; differences are system minus against.
    mean, against_mean, difference : float
        Means over topics, and their difference.
    relative : float or None
        The difference over the other's mean; None where that is 0.
    wins, ties, losses : int
        Topics on which the system is better, equal and worse.
    tested : dict of str to Tested
        By test; with a margin also ``"not worse"`` and ``"equivalent"`` (by t).
    adjusted : dict of str to float
        The same p-values, corrected for the number of contrasts on this measure.
    effect_size : float
        Cohen's d_z (or Hedges'); 0 where no topic differs, NaN where all differ equally.
    interval : tuple of float
        Confidence interval of the mean difference, from Student's t, of `Comparison.interval_confidence`.
    possible : tuple of float or None
        The lowest and the highest difference over all ways to judge what either system ranks without a
        judgment, where that was asked for; see `lmtune.measures.residual_bounds`.
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
    possible: tuple[float, float] | None = None

    @property
    def could_turn(self) -> bool:
        """Whether judging could leave no difference, or one of the other sign."""
        return self.possible is not None and self.possible[0] <= 0.0 <= self.possible[1]


@dataclass(frozen=True, repr=False)
class Comparison(Plotted, by="comparison_tables.comparison"):
    """Several systems compared on the same topics.

    Attributes
    ----------
    systems : tuple of str
        The baseline first.
    measures : tuple of str
        What was measured.
    topics : tuple of str
        On which topics.
    values : numpy.ndarray of float64, shape (systems, topics, measures)
        What was compared.
    contrasts : tuple of Contrast
        Measure by measure: each run against the baseline, or all pairs.
    options : ComparisonOptions
        How.
    notes : tuple of str
        What a reader must know: constant differences, undefined figures.
    judged : tuple of float
        Each system's mean Judged@10; empty where no runs stand behind the values.
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
        """The number of contrasts on each measure, which the correction allows for."""
        return len(self.contrasts) // len(self.measures)

    @property
    def interval_confidence(self) -> float:
        """The confidence of each contrast's interval, such that those on a measure hold together."""
        return adjusted_confidence(self.options.confidence, self.family, self.options.correction)

    def means(self, system: str) -> list[float]:
        """Give a system's mean on each measure."""
        return [float(mean) for mean in self.values[self.systems.index(system)].mean(axis=0)]

    def beats(self, measure: str, system: str, other: str) -> bool:
        """Say whether `system` is significantly better than `other`, after correction."""
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
    """Compare runs with a baseline, or with each other, topic by topic.

    Parameters
    ----------
    baseline_values : array_like of float, shape (topics,) or (topics, measures)
        The baseline's values, higher is better; or a DataFrame as `lmtune.measure` returns it,
        whose labels then name topics and measures.
    values_by_run : mapping of str to array_like
        The runs' values on the same topics and measures, by name.
    options : ComparisonOptions, optional
        Tests, correction, confidence and the rest; by default t-tests with Holm's correction.
    baseline : str
        The baseline's name.
    measures, topics : sequence of str, optional
        Names; by default those of a DataFrame, or ``"value"`` and numbers from 1.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        For fewer than two topics, no runs, values that do not pair up or are not finite, unknown
        tests, corrections or alternatives, figures outside their domains.

    Examples
    --------
    >>> found = compare([0.1, 0.2, 0.5], {"mine": [0.2, 0.4, 0.6]})
    >>> round(found.contrasts[0].tested["t"].p_value, 4)
    0.0572
    """
    options = ComparisonOptions() if options is None else options
    options.check()
    if not values_by_run:
        raise InputError("nothing to compare with the baseline", accepted="one run or more")
    if baseline in values_by_run:
        raise InputError("a run has the baseline's name", value=baseline, accepted="another name")
    given = {baseline: baseline_values, **values_by_run}
    values = np.stack([_values(name, v, baseline_values) for name, v in given.items()])
    names = _labels(measures, _labels_of(baseline_values, "columns"), values.shape[2], "measures")
    topics = _labels(topics, _labels_of(baseline_values, "index"), values.shape[1], "topics")
    if len(topics) < 2:
        raise InputError(
            "a comparison needs two topics or more",
            value=len(topics),
            accepted="judgments of two topics or more",
        )
    systems = tuple(given)
    pairs = list(combinations(range(len(systems)), 2))
    notes: list[str] = []
    if len(topics) < FEWEST:
        notes.append(f"{quantity(len(topics), 'topic')}: a t-test needs {FEWEST}")
    contrasts: list[Contrast] = []
    for m, measure in enumerate(names):
        sides = {
            (systems[system], systems[against]): (values[system, :, m], values[against, :, m])
            for against, system in pairs
            if options.pairwise or against == 0
        }
        contrasts += _contrasts(measure, sides, options)
        for (system, against), (a, b) in sides.items():
            notes += _remarks(a, b, f"{measure}: {system} and {against}")
    return Comparison(systems, names, topics, values, tuple(contrasts), options, tuple(notes))


def _contrasts(
    measure: str, sides: Mapping[tuple[str, str], _Side], options: ComparisonOptions
) -> Iterator[Contrast]:
    tested = _tested(list(sides.values()), options)
    corrected = {
        name: adjusted([one.p_value for one in found], options.correction) for name, found in tested.items()
    }
    confidence = adjusted_confidence(options.confidence, len(sides), options.correction)
    for i, ((system, against), (a, b)) in enumerate(sides.items()):
        difference, against_mean = float(paired_differences(a, b).values.mean()), float(b.mean())
        wins, ties, losses = wins_ties_losses(a, b)
        yield Contrast(
            measure=measure,
            system=system,
            against=against,
            mean=float(a.mean()),
            against_mean=against_mean,
            difference=difference,
            relative=difference / abs(against_mean) if against_mean else None,
            wins=wins,
            ties=ties,
            losses=losses,
            tested={name: found[i] for name, found in tested.items()},
            adjusted={name: p[i] for name, p in corrected.items()},
            effect_size=effect_size(a, b, hedges=options.hedges),
            interval=mean_interval(a, b, confidence),
        )


def _tested(sides: Sequence[_Side], options: ComparisonOptions) -> dict[str, list[Tested]]:
    found: dict[str, list[Tested]] = {}
    side = options.alternative
    for name in options.tests:
        if name == "t":
            found[name] = [Tested(paired_t_test(a, b, side), _STUDENT) for a, b in sides]
        elif name == "wilcoxon":
            found[name] = [wilcoxon_test(a, b, side) for a, b in sides]
        else:
            found[name] = randomization_tests(
                sides, side, permutations=options.permutations, seed=options.seed
            )
    if options.margin is not None:
        both = [equivalence_test(a, b, options.margin) for a, b in sides]
        found[NOT_WORSE] = [Tested(one.not_worse, _STUDENT) for one in both]
        found[EQUIVALENT] = [Tested(one.equivalent, _STUDENT) for one in both]
    return found


def _remarks(a: Doubles, b: Doubles, names: str) -> list[str]:
    difference = paired_differences(a, b)
    remarks = []
    if not difference.values.any():
        remarks.append(f"{names} are equal on every topic: p is 1")
    elif difference.is_constant:
        remarks.append(
            f"{names} differ by {difference.values.mean():.4g} on every topic: without variance there is no "
            "t-test, effect size or interval"
        )
    if b.mean() == 0.0 and difference.values.any():
        remarks.append(f"{names}: no relative difference, the second's mean is 0")
    return remarks


def _values(name: str, given: Any, like: Any) -> Doubles:
    """Check one system's values and give them the shape (topics, measures)."""
    for labels in ("index", "columns"):
        own, wanted = _labels_of(given, labels), _labels_of(like, labels)
        if own is not None and wanted is not None and own != wanted:
            raise InputError(f"{name}: other {labels} than the baseline's", accepted="the same, in one order")
    values = np.asarray(given, np.float64)
    if values.ndim not in (1, 2) or values.shape != np.shape(like) or values.shape[1:] == (0,):
        raise InputError(
            f"{name}: values do not pair up with the baseline's",
            value=(values.shape, np.shape(like)),
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
    """Give a DataFrame's labels; None for anything else (a list's index is a method)."""
    labels = getattr(values, which, None)
    return None if labels is None or callable(labels) else [str(label) for label in labels]


def _labels(
    given: Sequence[str] | None, own: Sequence[str] | None, number: int, what: str
) -> tuple[str, ...]:
    """Take the names given, or a DataFrame's, or make some."""
    given = own if given is None else given
    if given is None:
        numbers = tuple(str(i) for i in range(1, number + 1))
        return ("value",) if what == "measures" and number == 1 else numbers
    if len(given) != number or len(set(given)) != number:
        raise InputError(f"{what} are not named each once", value=len(given), accepted=f"{number} names")
    return tuple(given)


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
    """Compare runs topic by topic; a judged topic that a run misses counts 0.

    Parameters
    ----------
    qrels : path-like, or others
        Judgments; a file, a frame, named rows, a dictionary, as `lmtune.io.frames` has it.
    runs : sequence, or mapping of names to runs
        Of such, likewise: the baseline, then the others; a file that is given again is left out.
    measures : str, an object of ir_measures, or an iterable of these
        See `lmtune.measures.measure.parse_measures`.
    options : ComparisonOptions, optional
        Tests, correction, confidence and the rest.
    only : str, optional
        The judged topics that count, as `lmtune.collections.folds.select_topics` reads them.
    residuals : bool
        Bound each difference over all ways to judge what either run ranks without a judgment.
    progress : Progress
        Called after each run.

    Raises
    ------
    InputError
        For unknown names, files that cannot be read, fewer than two judged topics, and bounds of
        measures that have none.
    """
    options = ComparisonOptions() if options is None else options
    _check_options(options)
    parsed = parse_measures(measures)
    if residuals:
        check_bounded(parsed)
    labels = list(map(str, parsed))
    named = labelled_runs(runs)
    names = list(named)
    values, judged = [], []
    topics: tuple[str, ...] = ()
    settings = for_judgments(EvaluationOptions(complete=True, topics=only), qrels)
    for name, found in zip(
        names, evaluations(qrels, named, [*labels, JUDGED], settings=settings), strict=True
    ):
        topics = found.topics
        if len(topics) < 2:
            raise InputError(
                "a comparison needs two topics or more",
                file=qrels if isinstance(qrels, str | os.PathLike) else None,
                value=list(topics),
                accepted="judgments of two topics or more",
            )
        values.append(np.array([found.column(label).values for label in labels], np.float64).T)
        judged.append(float(np.mean(np.array(found.column(JUDGED).values, np.float64))))
        progress("reading runs", len(values), len(names), name)
        missed = len(topics) - len(found.retrieved)
        if missed:
            note(f"{name} misses {missed} of {len(topics)} judged topics: 0")
    others = dict(zip(names[1:], values[1:], strict=True))
    compared = compare(values[0], others, options, baseline=names[0], measures=labels, topics=topics)
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
    return replace(compared, contrasts=contrasts, judged=tuple(judged))


def _check_options(options: object) -> None:
    """Raise InputError for options that are wrong, or something else, such as measures behind two runs."""
    if not isinstance(options, ComparisonOptions):
        accepted = "compare_runs(qrels, [baseline, run, ...], measures, ComparisonOptions(...))"
        raise InputError("not ComparisonOptions", value=options, accepted=accepted)
    options.check()


def labelled_runs(runs: RunsLike) -> dict[str, Any]:
    """Give runs names, files as `named_files` does, each of them once.

    A test of a run against itself only weakens the others.
    """
    pairs = list(named_runs(runs))
    if not isinstance(runs, Mapping) and all(isinstance(run, str | os.PathLike) for _, run in pairs):
        kept: dict[Path, str] = {}
        for given, _ in pairs:
            file = _name_and_file(given)[1]
            if file.resolve() in kept:
                note(f"{file} is given again: left out, and not counted by the correction")
            kept.setdefault(file.resolve(), given)
        return dict(named_files(list(kept.values())))
    named = dict(pairs)
    if len(named) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError("two runs have one name", value=names, accepted="a mapping of names to runs")
    return named


def named_files(given: Sequence[PathLike]) -> dict[str, Path]:
    """Name files: NAME=FILE as it says, others by `run_labels`.

    Raises
    ------
    InputError
        For a file that is given twice, and two of one name.

    Examples
    --------
    >>> named_files(["LM=runs/lm.run", "bm25.run"])
    {'LM': PosixPath('runs/lm.run'), 'bm25': PosixPath('bm25.run')}
    """
    pairs = [_name_and_file(one) for one in given]
    if len({file.resolve() for _, file in pairs}) < len(pairs):
        raise InputError(
            "a file is given twice", value=[os.fspath(one) for one in given], accepted="each once"
        )
    labels = iter(run_labels([file for name, file in pairs if not name]))
    names = [name or next(labels) for name, _ in pairs]
    if len(set(names)) < len(names):
        raise InputError("two files have one name", value=names, accepted="NAME=FILE with a name for each")
    return dict(zip(names, [file for _, file in pairs], strict=True))


def _name_and_file(given: PathLike) -> tuple[str, Path]:
    """Split NAME=FILE; a file whose own name holds = has no other."""
    name, _, file = os.fspath(given).partition("=")
    if not file or "/" in name or Path(given).exists():
        return "", Path(given)
    return name, Path(file)


def run_labels(paths: Sequence[Path]) -> list[str]:
    """Name runs, each of another path, after their files, with as much of the path as tells them apart.

    Examples
    --------
    >>> run_labels([Path("x.run.gz"), Path("y.run"), Path("y.txt"), Path("a/z"), Path("b/z")])
    ['x', 'y.run', 'y.txt', 'a/z', 'b/z']
    """
    ladders = [_ladder(path) for path in paths]
    steps = [0] * len(ladders)
    while True:
        names = [ladder[step] for ladder, step in zip(ladders, steps, strict=True)]
        short = [
            place
            for place, name in enumerate(names)
            if names.count(name) > 1 and steps[place] + 1 < len(ladders[place])
        ]
        if not short:
            return names
        for place in short:
            steps[place] += 1


def _ladder(path: Path) -> list[str]:
    """List a file's possible names, from the shortest to the whole path."""
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    shortest = plain.stem if plain.suffix.lower() in _RUN_SUFFIXES else plain.name
    parts = path.parts
    longer = (Path(*parts[-depth:]).as_posix() for depth in range(1, len(parts) + 1))
    return [as_text(name) for name in (shortest, *longer)]
