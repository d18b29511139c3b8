"""Compare label sets with human judgments: agreement on pairs, and on the ranking of runs."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Booleans, Doubles, Integers
from lmtune.errors import InputError
from lmtune.io.rows import QrelsLike, RunsLike
from lmtune.measures.from_files import Evaluation, Judgments, as_judgments, evaluate_by_each, run_names
from lmtune.measures.measure import parse_measure
from lmtune.options import check, option, usual
from lmtune.progress import Progress, silent
from lmtune.showing import Shown

_Interval = tuple[float, float]


@dataclass(frozen=True)
class JudgeOptions:
    """Comparison of judges.

    Attributes
    ----------
    measure : str
        The measure that ranks the runs.
    samples : int
        Number of bootstrap samples of topics for the intervals.
    confidence : float
        Confidence of the intervals.
    seed : int
        Seed of the bootstrap.
    families : tuple of str
        Shell patterns of runs' names. The runs that match a pattern are a family.
    """

    measure: str = usual("nDCG@10", "The measure that ranks the runs.", flag="--measure -m")
    samples: int = option(1000, "Bootstrap samples of topics for the intervals.", low=10)
    confidence: float = option(0.95, "Confidence of the intervals.", above=0, below=1)
    seed: int = option(0, "Seed of the bootstrap.", low=0)
    families: tuple[str, ...] = usual(
        (),
        "Test whether a judge favours the runs with such names, as 'uogTr*'. Repeat for several families.",
        flag="--family",
        metavar="PATTERN",
        separator=None,
    )


class RunFamily(NamedTuple):
    """How much a judge favours a family of runs over the other runs.

    Attributes
    ----------
    name : str
        The pattern of the runs' names.
    runs : int
        The number of runs.
    favour : float
        The mean difference between the judge's and the judgments' values of these runs, minus that of the
        other runs. A judge whose values vary less between runs lowers the best runs of any family.
    favour_interval : tuple of float
        Bootstrap percentile interval over topics.
    places : float
        The mean number of ranks, among all runs, by which the judge raises these runs. Tied runs share
        their mean rank.
    places_interval : tuple of float
        Normal interval with the standard deviation of the bootstrap.
    """

    name: str
    runs: int
    favour: float
    favour_interval: _Interval
    places: float
    places_interval: _Interval


class Order(NamedTuple):
    """The ranking of runs by a judge's labels, compared with the ranking by the judgments.

    Attributes
    ----------
    topics, judge_topics : int
        The numbers of topics in the means by the judgments and by the judge.
    paired : bool
        Whether both have the same topics. Otherwise the bootstrap samples them separately.
    tau, tau_ap : float
        Kendall's tau-b, and tau-AP with the judgments as the truth.
    tau_interval, tau_ap_interval : tuple of float
        Normal intervals with the standard deviation of the bootstrap, clipped to [-1, 1]. Percentiles would
        be biased: resampling adds noise to both rankings, which lowers tau.
    favour : numpy.ndarray of float64, shape (runs,)
        The difference between the judge's and the judgments' mean of each run, minus its mean over runs.
    favour_interval : numpy.ndarray of float64, shape (runs, 2)
        Bootstrap percentile intervals over topics.
    families : tuple of RunFamily
        The families in `JudgeOptions`.
    """

    topics: int
    judge_topics: int
    paired: bool
    tau: float
    tau_interval: _Interval
    tau_ap: float
    tau_ap_interval: _Interval
    favour: Doubles
    favour_interval: Doubles
    families: tuple[RunFamily, ...]


class Judge(NamedTuple):
    """The agreement of a label set with the judgments.

    Attributes
    ----------
    name : str
        The name or file of the labels.
    pairs, topics : int
        The numbers of pairs of topic and document with a label and a judgment, and of their topics.
    alpha, nominal_alpha : float
        Krippendorff's alpha, ordinal and nominal; NaN without pairs.
    alpha_interval : tuple of float
        Bootstrap percentile interval of `alpha` over topics.
    kappa, weighted_kappa : float
        Cohen's kappa, unweighted and with quadratic weights; NaN without pairs.
    topic_kappas : numpy.ndarray of float64, shape (topics,)
        `weighted_kappa` of each topic; NaN if all labels and judgments of the topic are equal.
    shift : float
        The mean label minus the mean judgment of the pairs.
    confusion : numpy.ndarray of int64, shape (labels, labels)
        The number of pairs by judgment (rows) and label (columns).
    errors : numpy.ndarray of float64, shape (labels, labels)
        The conditional probability of each label (columns) for each judgment (rows); NaN for a judgment
        without pairs.
    errors_interval : numpy.ndarray of float64, shape (labels, labels, 2)
        Bootstrap percentile intervals of `errors` over topics.
    order : Order or None
        The ranking of runs, if there are runs.
    """

    name: str
    pairs: int
    topics: int
    alpha: float
    alpha_interval: _Interval
    nominal_alpha: float
    kappa: float
    weighted_kappa: float
    topic_kappas: Doubles
    shift: float
    confusion: Integers
    errors: Doubles
    errors_interval: Doubles
    order: Order | None


@dataclass(frozen=True, repr=False)
class JudgesResult(Shown, by="judge_tables.judge"):
    """Several judges, sorted by alpha, or by tau if they share no pairs with the judgments.

    Attributes
    ----------
    judges : tuple of Judge
        The judges, best first.
    labels : tuple of int
        All labels in use, ascending.
    systems : tuple of str
        The names of the runs.
    options : JudgeOptions
        The options of the comparison.
    """

    judges: tuple[Judge, ...]
    labels: tuple[int, ...]
    systems: tuple[str, ...]
    options: JudgeOptions


def compare_judges(
    qrels: QrelsLike,
    labels: Mapping[str, QrelsLike],
    runs: RunsLike = (),
    options: JudgeOptions | None = None,
    *,
    progress: Progress = silent,
) -> JudgesResult:
    """Compare label sets, such as LLM judgments, with human judgments.

    Parameters
    ----------
    qrels : path-like, or others
        The judgments that serve as the truth: a file, a frame, named rows or a dictionary.
    labels : mapping of str to path-like or others
        Label sets by name, in the same forms.
    runs : path-like, or others; an iterable of these; or a mapping of names to these
        Runs to rank, as for `lmtune.measures.from_files.evaluations`; none by default.
    options : JudgeOptions, optional
        Measure, intervals and families.
    progress : Progress
        Called after each run.

    Returns
    -------
    JudgesResult

    Raises
    ------
    InputError
        If a file cannot be read, there is only one run, a family contains no run or all runs, or, without
        runs, labels share no pair with the judgments.

    Notes
    -----
    Labels below 0 are ignored. Runs are ranked by their means over the topics that have both labels and
    judgments. If there are none, the means are over all topics of each. Topics missing from a run count 0.
    """
    options = JudgeOptions() if options is None else options
    check(options)
    human = as_judgments(qrels)
    judges_labels = {name: as_judgments(one) for name, one in labels.items()}
    if not judges_labels:
        raise InputError("no labels to compare with the judgments", accepted="one set or more")
    levels = np.unique(
        [
            gain
            for judgments in (human, *judges_labels.values())
            for judged in judgments.values()
            for gain in judged.values()
        ]
    )
    levels = levels[levels >= 0]
    counts = {name: _confusions(human, one, levels) for name, one in judges_labels.items()}
    systems, orders = _orders(human, judges_labels, runs, options, progress)
    for name, tables in counts.items():
        if not len(tables) and name not in orders:
            raise InputError(
                "no pair has a label and a judgment",
                value=name,
                accepted="topics and docnos of the judgments",
            )
    judges = [_judge(name, tables, levels, orders.get(name), options) for name, tables in counts.items()]
    judges.sort(key=_quality, reverse=True)
    return JudgesResult(tuple(judges), tuple(levels.tolist()), systems, options)


def _quality(judge: Judge) -> tuple[float, float]:
    alpha = -math.inf if math.isnan(judge.alpha) else judge.alpha
    return alpha, judge.order.tau if judge.order else 0.0


def _confusions(human: Judgments, judge: Judgments, levels: Integers) -> Integers:
    """Count pairs by judgment and label for each topic with pairs, shape (topics, labels, labels)."""
    tables = []
    for topic in sorted(human.keys() & judge.keys()):
        both = [
            (human[topic][docno], judge[topic][docno]) for docno in human[topic].keys() & judge[topic].keys()
        ]
        pairs = np.array([pair for pair in both if min(pair) >= 0], np.int64).reshape(-1, 2)
        table = np.zeros((levels.size, levels.size), np.int64)
        np.add.at(table, tuple(np.searchsorted(levels, pairs).T), 1)
        tables += [table] if len(pairs) else []
    return np.array(tables, np.int64).reshape(-1, levels.size, levels.size)


def _judge(
    name: str, tables: Integers, levels: Integers, order: Order | None, options: JudgeOptions
) -> Judge:
    total, pairs = tables.sum(axis=0), int(tables.sum())
    weights = _bootstrap_counts(np.random.default_rng(options.seed), len(tables), options)
    resampled = np.tensordot(weights, tables, axes=1)
    return Judge(
        name=name,
        pairs=pairs,
        topics=len(tables),
        alpha=krippendorff_alpha(total),
        alpha_interval=_percentiles(krippendorff_alpha(resampled), options),
        nominal_alpha=krippendorff_alpha(total, ordinal=False),
        kappa=cohen_kappa(total),
        weighted_kappa=cohen_kappa(total, quadratic=True, grades=levels),
        topic_kappas=np.asarray(cohen_kappa(tables, quadratic=True, grades=levels)),
        shift=float((total.sum(axis=0) - total.sum(axis=1)) @ levels) / pairs if pairs else math.nan,
        confusion=total,
        errors=_by_row(total),
        errors_interval=np.apply_along_axis(_percentiles, 0, _by_row(resampled), options).transpose(1, 2, 0),
        order=order,
    )


def _by_row(counts: Integers) -> Doubles:
    """Divide counts, shape (..., labels, labels), by the sums of their rows."""
    with np.errstate(invalid="ignore"):
        return np.asarray(counts / counts.sum(axis=-1, keepdims=True))


def _orders(
    human: Judgments,
    judges_labels: Mapping[str, Judgments],
    runs: RunsLike,
    options: JudgeOptions,
    progress: Progress,
) -> tuple[tuple[str, ...], dict[str, Order]]:
    """Return the runs' names, and compare their ranking by each label set with that by judgments."""
    if isinstance(runs, Sequence | Mapping) and not len(runs):
        if options.families:
            raise InputError("a family needs runs", value=options.families[0], accepted="runs to rank")
        return (), {}
    measure = str(parse_measure(options.measure))
    sides = {}
    for name, labels in judges_labels.items():
        shared = sorted(human.keys() & labels.keys())
        sides[name] = [
            {topic: judgments[topic] for topic in shared or judgments} for judgments in (human, labels)
        ]
    evaluated: list[list[Evaluation]] = []
    total = len(runs) if isinstance(runs, Sized) else 0
    for of_run in evaluate_by_each([*chain(*sides.values())], runs, [measure]):
        evaluated.append(of_run)
        progress("reading runs", len(evaluated), total, of_run[0].tag)
    if len(evaluated) < 2:
        raise InputError("too few runs to rank", value=len(evaluated), accepted="two runs or more")
    orders, systems = {}, tuple(run_names([of_run[0] for of_run in evaluated]))
    by_set = [
        np.array([run.column(measure).values for run in of_set], np.float64)
        for of_set in zip(*evaluated, strict=True)
    ]
    members = {pattern: _members(pattern, systems) for pattern in options.families}
    for (name, (truth, labels)), true_values, judge_values in zip(
        sides.items(), by_set[::2], by_set[1::2], strict=True
    ):
        paired = truth.keys() == labels.keys()
        orders[name] = _order(true_values, judge_values, members, options, paired=paired)
    return systems, orders


def _members(pattern: str, systems: Sequence[str]) -> Booleans:
    """Return a mask of the runs in a family."""
    members = np.array([fnmatch.fnmatchcase(system, pattern) for system in systems])
    if members.all() or not members.any():
        which = "all runs" if members.any() else "no run"
        accepted = f"a pattern that matches some of {', '.join(systems[:5])}"
        accepted += ", ..." if len(systems) > 5 else ""
        raise InputError(f"the family contains {which}", value=pattern, accepted=accepted)
    return members


def _order(
    true_values: Doubles,
    judge_values: Doubles,
    families: Mapping[str, Booleans],
    options: JudgeOptions,
    *,
    paired: bool,
) -> Order:
    """Compare the rankings of runs by values, shape (runs, topics), with a bootstrap over topics."""
    rng = np.random.default_rng(options.seed)
    weights = [
        _bootstrap_counts(rng, values.shape[1], options) / values.shape[1]
        for values in (true_values, judge_values)
    ]
    truth = weights[0] @ true_values.T
    estimate = weights[0 if paired else 1] @ judge_values.T
    means = true_values.mean(axis=1), judge_values.mean(axis=1)
    added = means[1] - means[0]
    compared = [
        _family(pattern, members, means, (truth, estimate), options) for pattern, members in families.items()
    ]
    resampled = estimate - truth
    resampled -= resampled.mean(axis=1, keepdims=True)
    return Order(
        topics=true_values.shape[1],
        judge_topics=judge_values.shape[1],
        paired=paired,
        tau=(tau := float(kendall_tau(*means))),
        tau_interval=_normal_interval(tau, kendall_tau(truth, estimate), options),
        tau_ap=(top := float(tau_ap(*means))),
        tau_ap_interval=_normal_interval(top, tau_ap(truth, estimate), options),
        favour=added - added.mean(),
        favour_interval=np.array([_percentiles(of_run, options) for of_run in resampled.T]),
        families=tuple(compared),
    )


def _family(
    name: str,
    members: Booleans,
    means: tuple[Doubles, Doubles],
    resampled: tuple[Doubles, Doubles],
    options: JudgeOptions,
) -> RunFamily:
    """Compare a family with the other runs.

    `means`, shape (runs,), and `resampled`, shape (samples, runs), are by judgments and by the judge.
    """
    from scipy.stats import rankdata

    share = members / members.sum()
    contrast = share - ~members / (~members).sum()
    places = [
        rankdata(estimate, axis=-1) - rankdata(truth, axis=-1) for truth, estimate in (means, resampled)
    ]
    gained, half = float(places[0] @ share), _half_width(places[1] @ share, options)
    return RunFamily(
        name=name,
        runs=int(members.sum()),
        favour=float((means[1] - means[0]) @ contrast),
        favour_interval=_percentiles((resampled[1] - resampled[0]) @ contrast, options),
        places=gained,
        places_interval=(gained - half, gained + half),
    )


def _bootstrap_counts(rng: np.random.Generator, topics: int, options: JudgeOptions) -> Integers:
    """Return how often each topic is in each bootstrap sample, shape (samples, topics)."""
    if not topics:
        return np.zeros((options.samples, 0), np.int64)
    return rng.multinomial(topics, np.full(topics, 1.0 / topics), size=options.samples)


def _normal_interval(value: float, resampled: Doubles, options: JudgeOptions) -> _Interval:
    """Return the normal interval of a correlation, clipped to [-1, 1]."""
    half = _half_width(resampled, options)
    return max(value - half, -1.0), min(value + half, 1.0)


def _half_width(resampled: Doubles, options: JudgeOptions) -> float:
    """Return half the width of the normal interval with the bootstrap's standard deviation."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + options.confidence / 2.0)) * float(np.nanstd(resampled))


def _percentiles(values: Doubles, options: JudgeOptions) -> _Interval:
    known = values[~np.isnan(values)]
    if not known.size:
        return math.nan, math.nan
    rest = (1.0 - options.confidence) / 2.0
    low, high = np.quantile(known, [rest, 1.0 - rest]).tolist()
    return low, high


def cohen_kappa(counts: ArrayLike, *, quadratic: bool = False, grades: ArrayLike | None = None) -> Any:
    """Compute Cohen's kappa, the agreement of two judges corrected for chance.

    Parameters
    ----------
    counts : array_like, shape (..., labels, labels)
        Numbers of pairs by the first judge's label (rows) and the second's (columns), labels ascending.
    quadratic : bool
        Weight disagreements by the squared difference of grades (Cohen, Psychological Bulletin 70, 1968).
        Otherwise all disagreements weigh 1 (Educational and Psychological Measurement 20, 1960).
    grades : array_like of float, shape (labels,), optional
        The labels' grades; 0, 1, 2, ... by default.

    Returns
    -------
    float or numpy.ndarray of float64, shape (...)
        1 for full agreement, 0 for chance agreement; NaN if both judges use the same label for all pairs.

    Examples
    --------
    >>> round(cohen_kappa([[20, 5], [10, 15]]), 3)
    0.4
    """
    counts = np.asarray(counts, np.float64)
    size = counts.shape[-1]
    weight = _unequal(size)
    if quadratic:
        grade = np.arange(size, dtype=np.float64) if grades is None else np.asarray(grades, np.float64)
        weight = np.subtract.outer(grade, grade) ** 2
    totals = counts.sum(axis=(-2, -1), keepdims=True)
    expected = counts.sum(axis=-1, keepdims=True) * counts.sum(axis=-2, keepdims=True)
    return _chance_corrected(
        (weight * counts * totals).sum(axis=(-2, -1)), (weight * expected).sum(axis=(-2, -1))
    )


def krippendorff_alpha(counts: ArrayLike, *, ordinal: bool = True) -> Any:
    """Compute Krippendorff's alpha of two judges who labelled the same pairs.

    Parameters
    ----------
    counts : array_like, shape (..., labels, labels)
        Numbers of pairs by the first judge's label and the second's, labels ascending.
    ordinal : bool
        Use the ordinal distance of labels, from the number of labels between them. Otherwise the distance
        is 1 (nominal).

    Returns
    -------
    float or numpy.ndarray of float64, shape (...)
        1 for full agreement, 0 for chance agreement; NaN if all labels are equal.

    Notes
    -----
    Let o = counts + counts' be the coincidences, n_c their row sums and n the total. Then alpha is
    1 - (n - 1) sum(o_ck d_ck) / sum(n_c n_k d_ck). The nominal distance d_ck is 1 for c != k; the ordinal one
    is (n_c / 2 + n_(c+1) + ... + n_(k-1) + n_k / 2)^2.
    Source: Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011.
    """
    counts = np.asarray(counts, np.float64)
    pairs = counts + np.swapaxes(counts, -1, -2)
    sums = pairs.sum(axis=-1)
    middle = np.cumsum(sums, axis=-1) - sums / 2.0
    distance = _unequal(sums.shape[-1])
    if ordinal:
        distance = (middle[..., :, np.newaxis] - middle[..., np.newaxis, :]) ** 2
    expected = sums[..., :, np.newaxis] * sums[..., np.newaxis, :] * distance
    observed = (pairs * distance).sum(axis=(-2, -1)) * (sums.sum(axis=-1) - 1.0)
    return _chance_corrected(observed, expected.sum(axis=(-2, -1)))


def kendall_tau(first: ArrayLike, second: ArrayLike) -> Any:
    """Compute Kendall's tau-b of values with shape (..., systems); NaN if one side is constant.

    Source: Kendall, Biometrika 33, 1945.
    """
    a, b = _signs(first), _signs(second)
    over = np.sqrt((a * a).sum(axis=(-2, -1)) * (b * b).sum(axis=(-2, -1)))
    with np.errstate(invalid="ignore"):
        return (a * b).sum(axis=(-2, -1)) / over


def tau_ap(truth: ArrayLike, estimate: ArrayLike) -> Any:
    """Compute tau-AP, a rank correlation that weights errors at the top more.

    Values have shape (..., systems). For each system that `estimate` ranks below another one, take the
    fraction of the systems above it that `truth` also ranks above it (ties count half). tau-AP is 2 times the
    mean of these fractions, minus 1. Systems that are tied in `estimate` are not above each other.
    Source: Yilmaz, Aslam and Robertson, SIGIR 2008.

    Examples
    --------
    >>> tau_ap([3, 2, 1], [3, 1, 2]), tau_ap([3, 2, 1], [2, 3, 1])
    (0.5, 0.0)
    """
    above = _signs(estimate) < 0  # [i, j]: j is ranked above i
    correct = (1.0 - _signs(truth)) / 2.0
    number = above.sum(axis=-1)
    with np.errstate(invalid="ignore"):
        fractions = (above * correct).sum(axis=-1) / number
        tau = 2.0 * np.nansum(fractions, axis=-1) / (number > 0).sum(axis=-1) - 1.0
    return tau if np.ndim(tau) else float(tau)


def _signs(values: ArrayLike) -> Doubles:
    values = np.asarray(values, np.float64)
    signs: Doubles = np.sign(values[..., :, np.newaxis] - values[..., np.newaxis, :])
    return signs


def _unequal(labels: int) -> Doubles:
    return 1.0 - np.eye(labels)


def _chance_corrected(observed: Doubles, expected: Doubles) -> Any:
    """Return 1 - observed / expected disagreement; NaN where the expected disagreement is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        agreement = 1.0 - np.where(expected > 0, observed / expected, np.nan)
    return agreement if np.ndim(agreement) else float(agreement)
