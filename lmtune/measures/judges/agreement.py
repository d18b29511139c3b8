"""Sets of labels against the judgments to trust: agreement pair by pair, and on the order of runs."""

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
    """How judges are compared.

    Attributes
    ----------
    measure : str
        What systems are ordered by.
    samples : int
        How often topics are drawn again for intervals.
    confidence : float
        Of the intervals.
    seed : int
        Of the draws.
    families : tuple of str
        Patterns of runs' names, as shells have them: a family is the runs that one fits.
    """

    measure: str = usual("nDCG@10", "What orders the runs.", flag="--measure -m")
    samples: int = option(1000, "How often topics are drawn again for intervals.", low=10)
    confidence: float = option(0.95, "Of the intervals.", above=0, below=1)
    seed: int = option(0, "Of the draws.", low=0)
    families: tuple[str, ...] = usual(
        (),
        "Runs by name, as 'uogTr*': are they favoured over the others? Repeat it for several.",
        flag="--family",
        metavar="PATTERN",
        separator=None,
    )


class RunFamily(NamedTuple):
    """How a judge treats some runs beside the others.

    Attributes
    ----------
    name : str
        The pattern of their names.
    runs : int
        How many.
    favour : float
        What the judge adds to their mean values on average, less what it adds to the others'. A judge who
        spreads values less than the judgments takes from the best runs, whosever they are.
    favour_interval : tuple of float
        Percentile interval over topics.
    places : float
        Places in the order of runs that they gain on average by the judge, ties sharing theirs.
    places_interval : tuple of float
        Normal interval by the spread over topics drawn again.
    """

    name: str
    runs: int
    favour: float
    favour_interval: _Interval
    places: float
    places_interval: _Interval


class Order(NamedTuple):
    """The order of runs under a judge's labels against that under the judgments.

    Attributes
    ----------
    topics, judge_topics : int
        How many stand behind the judgments' order and the judge's.
    paired : bool
        Whether these are the same topics; else each has its own, drawn apart.
    tau, tau_ap : float
        Kendall's tau-b, and tau-AP with the judgments as the truth.
    tau_interval, tau_ap_interval : tuple of float
        Normal intervals by the spread over topics drawn again, cut at -1 and 1. (Percentiles would be of
        orders that are drawn from topics twice, and so all of a lower tau.)
    favour : numpy.ndarray of float64, shape (runs,)
        What the judge adds to each run's mean, less what it adds to the runs' on average.
    favour_interval : numpy.ndarray of float64, shape (runs, 2)
        Percentile intervals over topics.
    families : tuple of Family
        As asked for.
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
    """A set of labels against the judgments.

    Attributes
    ----------
    name : str
        Its name or file.
    pairs, topics : int
        Pairs of topic and document that both labelled, and their topics.
    alpha, nominal_alpha : float
        Krippendorff's alpha, ordinal and nominal; NaN, as the next two, where there are no pairs.
    alpha_interval : tuple of float
        Percentile interval of the ordinal one over topics.
    kappa, weighted_kappa : float
        Cohen's kappa, plain and quadratic.
    topic_kappas : numpy.ndarray of float64, shape (topics,)
        The quadratic one of each topic; NaN where both have one label for all.
    shift : float
        Mean label less the judgments'.
    confusion : numpy.ndarray of int64, shape (labels, labels)
        Pairs by the judgments' label (rows) and the judge's.
    errors : numpy.ndarray of float64, shape (labels, labels)
        The probability of each of the judge's labels given the judgments' (rows): the model of its errors;
        NaN where no pair has such a judgment.
    errors_interval : numpy.ndarray of float64, shape (labels, labels, 2)
        Percentile intervals over topics.
    order : Order or None
        Of the runs, where there are any.
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
    """Several judges, the best first: by alpha, or without common pairs by tau.

    Attributes
    ----------
    judges : tuple of Judge
        The best first.
    labels : tuple of int
        All labels given, ascending.
    systems : tuple of str
        The runs.
    options : JudgeOptions
        How they were compared.
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
    """Hold sets of labels against judgments.

    Parameters
    ----------
    qrels : path-like, or others
        The judgments to trust; a file, a frame, named rows, a dictionary.
    labels : mapping of str to such
        Sets of labels by name, likewise.
    runs : path-like, or others; an iterable of these; or a mapping of names to these
        Runs to order, as `lmtune.measures.from_files.evaluations` takes them; none by default.
    options : JudgeOptions, optional
        Measure and intervals.
    progress : Progress
        Called after each run.

    Returns
    -------
    JudgesResult

    Raises
    ------
    InputError
        For files that cannot be read, fewer than two runs, labels that share no pair with the judgments
        where there are no runs, and a family of no run or of all.

    Notes
    -----
    Gains below 0 are no labels. Runs are ordered by means over the topics that both labelled, or, where
    there are none, over each one's own; a topic that a run misses counts 0.
    """
    options = JudgeOptions() if options is None else options
    check(options)
    human = as_judgments(qrels)
    given = {name: as_judgments(one) for name, one in labels.items()}
    if not given:
        raise InputError("no labels to hold against the judgments", accepted="one set or more")
    levels = np.unique(
        [gain for one in (human, *given.values()) for own in one.values() for gain in own.values()]
    )
    levels = levels[levels >= 0]
    counts = {name: _confusions(human, one, levels) for name, one in given.items()}
    systems, orders = _orders(human, given, runs, options, progress)
    for name, tables in counts.items():
        if not len(tables) and name not in orders:
            raise InputError(
                "no pair has a label and a judgment", value=name, accepted="ids of the judgments"
            )
    judges = [_judge(name, tables, levels, orders.get(name), options) for name, tables in counts.items()]
    judges.sort(key=_worth, reverse=True)
    return JudgesResult(tuple(judges), tuple(levels.tolist()), systems, options)


def _worth(judge: Judge) -> tuple[float, float]:
    known = -math.inf if math.isnan(judge.alpha) else judge.alpha
    return known, judge.order.tau if judge.order else 0.0


def _confusions(human: Judgments, judge: Judgments, levels: Integers) -> Integers:
    """Count pairs by both labels, shape (topics that share some, labels, labels)."""
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
    whole, pairs = tables.sum(axis=0), int(tables.sum())
    drawn = _draws(np.random.default_rng(options.seed), len(tables), options)
    again = np.tensordot(drawn, tables, axes=1)
    return Judge(
        name=name,
        pairs=pairs,
        topics=len(tables),
        alpha=krippendorff_alpha(whole),
        alpha_interval=_percentiles(krippendorff_alpha(again), options),
        nominal_alpha=krippendorff_alpha(whole, ordinal=False),
        kappa=cohen_kappa(whole),
        weighted_kappa=cohen_kappa(whole, quadratic=True, grades=levels),
        topic_kappas=np.asarray(cohen_kappa(tables, quadratic=True, grades=levels)),
        shift=float((whole.sum(axis=0) - whole.sum(axis=1)) @ levels) / pairs if pairs else math.nan,
        confusion=whole,
        errors=_by_row(whole),
        errors_interval=np.apply_along_axis(_percentiles, 0, _by_row(again), options).transpose(1, 2, 0),
        order=order,
    )


def _by_row(counts: Integers) -> Doubles:
    """Divide counts of shape (..., labels, labels) by their rows' sums."""
    with np.errstate(invalid="ignore"):
        return np.asarray(counts / counts.sum(axis=-1, keepdims=True))


def _orders(
    human: Judgments,
    given: Mapping[str, Judgments],
    runs: RunsLike,
    options: JudgeOptions,
    progress: Progress,
) -> tuple[tuple[str, ...], dict[str, Order]]:
    """Order the runs under each set of labels."""
    if isinstance(runs, Sequence | Mapping) and not len(runs):
        if options.families:
            raise InputError("a family without runs", value=options.families[0], accepted="runs to order")
        return (), {}
    measure = str(parse_measure(options.measure))
    sides = {}
    for name, one in given.items():
        shared = sorted(human.keys() & one.keys())
        sides[name] = [{topic: own[topic] for topic in shared or own} for own in (human, one)]
    seen: list[list[Evaluation]] = []
    total = len(runs) if isinstance(runs, Sized) else 0
    for found in evaluate_by_each([*chain(*sides.values())], runs, [measure]):
        seen.append(found)
        progress("reading runs", len(seen), total, found[0].tag)
    if len(seen) < 2:
        raise InputError("no order of runs", value=len(seen), accepted="two runs or more")
    orders, systems = {}, tuple(run_names([found[0] for found in seen]))
    by_set = [
        np.array([own.column(measure).values for own in of_set], np.float64)
        for of_set in zip(*seen, strict=True)
    ]
    members = {pattern: _members(pattern, systems) for pattern in options.families}
    for (name, (trusted, labelled)), ours, theirs in zip(
        sides.items(), by_set[::2], by_set[1::2], strict=True
    ):
        orders[name] = _order(ours, theirs, members, options, paired=trusted.keys() == labelled.keys())
    return systems, orders


def _members(pattern: str, systems: Sequence[str]) -> Booleans:
    """Tell which runs a family has."""
    members = np.array([fnmatch.fnmatchcase(system, pattern) for system in systems])
    if members.all() or not members.any():
        which = "all runs" if members.any() else "no run"
        accepted = f"a pattern of some of {', '.join(systems[:5])}{', ...' if len(systems) > 5 else ''}"
        raise InputError(f"a family of {which}", value=pattern, accepted=accepted)
    return members


def _order(
    ours: Doubles, theirs: Doubles, families: Mapping[str, Booleans], options: JudgeOptions, *, paired: bool
) -> Order:
    """Compare orders by values of shape (runs, topics)."""
    rng = np.random.default_rng(options.seed)
    draws = [_draws(rng, own.shape[1], options) / own.shape[1] for own in (ours, theirs)]
    truth = draws[0] @ ours.T
    estimate = draws[0 if paired else 1] @ theirs.T
    means = ours.mean(axis=1), theirs.mean(axis=1)
    added = means[1] - means[0]
    named = [_family(pattern, own, means, (truth, estimate), options) for pattern, own in families.items()]
    drawn = estimate - truth
    drawn -= drawn.mean(axis=1, keepdims=True)
    return Order(
        topics=ours.shape[1],
        judge_topics=theirs.shape[1],
        paired=paired,
        tau=(tau := float(kendall_tau(*means))),
        tau_interval=_around(tau, kendall_tau(truth, estimate), options),
        tau_ap=(top := float(tau_ap(*means))),
        tau_ap_interval=_around(top, tau_ap(truth, estimate), options),
        favour=added - added.mean(),
        favour_interval=np.array([_percentiles(own, options) for own in drawn.T]),
        families=tuple(named),
    )


def _family(
    name: str,
    members: Booleans,
    means: tuple[Doubles, Doubles],
    drawn: tuple[Doubles, Doubles],
    options: JudgeOptions,
) -> RunFamily:
    """Hold some runs against the others, by means of shape (runs,) and drawn ones of (samples, runs)."""
    from scipy.stats import rankdata

    share = members / members.sum()
    contrast = share - ~members / (~members).sum()
    places = [rankdata(own[1], axis=-1) - rankdata(own[0], axis=-1) for own in (means, drawn)]
    gained, half = float(places[0] @ share), _half(places[1] @ share, options)
    return RunFamily(
        name=name,
        runs=int(members.sum()),
        favour=float((means[1] - means[0]) @ contrast),
        favour_interval=_percentiles((drawn[1] - drawn[0]) @ contrast, options),
        places=gained,
        places_interval=(gained - half, gained + half),
    )


def _draws(rng: np.random.Generator, topics: int, options: JudgeOptions) -> Integers:
    """Draw topics again; return how often each is drawn, shape (samples, topics)."""
    if not topics:
        return np.zeros((options.samples, 0), np.int64)
    return rng.multinomial(topics, np.full(topics, 1.0 / topics), size=options.samples)


def _around(value: float, drawn: Doubles, options: JudgeOptions) -> _Interval:
    half = _half(drawn, options)
    return max(value - half, -1.0), min(value + half, 1.0)


def _half(drawn: Doubles, options: JudgeOptions) -> float:
    """Return half the width of a normal interval by the spread of draws."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + options.confidence / 2.0)) * float(np.nanstd(drawn))


def _percentiles(values: Doubles, options: JudgeOptions) -> _Interval:
    known = values[~np.isnan(values)]
    if not known.size:
        return math.nan, math.nan
    rest = (1.0 - options.confidence) / 2.0
    low, high = np.quantile(known, [rest, 1.0 - rest]).tolist()
    return low, high


def cohen_kappa(counts: ArrayLike, *, quadratic: bool = False, grades: ArrayLike | None = None) -> Any:
    """Return Cohen's kappa: agreement beyond that of judges who label at random with their own habits.

    Parameters
    ----------
    counts : array_like, shape (..., labels, labels)
        Pairs by the first judge's label (rows) and the second's, labels ascending.
    quadratic : bool
        Let a disagreement weigh the square of its distance in grades (Cohen, Psychological Bulletin 70,
        1968), and not 1 whatever the distance (Educational and Psychological Measurement 20, 1960).
    grades : array_like of float, shape (labels,), optional
        The labels' grades; 0, 1, 2, ... by default.

    Returns
    -------
    float or numpy.ndarray of float64, shape (...)
        1 for full agreement, 0 for that of chance; NaN where each judge has one label for all.

    Examples
    --------
    >>> round(cohen_kappa([[20, 5], [10, 15]]), 3)
    0.4
    """
    counts = np.asarray(counts, np.float64)
    size = counts.shape[-1]
    weight = _unequal(size)
    if quadratic:
        at = np.arange(size, dtype=np.float64) if grades is None else np.asarray(grades, np.float64)
        weight = np.subtract.outer(at, at) ** 2
    totals = counts.sum(axis=(-2, -1), keepdims=True)
    expected = counts.sum(axis=-1, keepdims=True) * counts.sum(axis=-2, keepdims=True)
    return _less_than_chance(
        (weight * counts * totals).sum(axis=(-2, -1)), (weight * expected).sum(axis=(-2, -1))
    )


def krippendorff_alpha(counts: ArrayLike, *, ordinal: bool = True) -> Any:
    """Return Krippendorff's alpha of two judges who labelled the same pairs.

    Parameters
    ----------
    counts : array_like, shape (..., labels, labels)
        Pairs by the first judge's label and the second's, labels ascending.
    ordinal : bool
        Take the distance of two labels from how many labels given lie between them; else 1.

    Returns
    -------
    float or numpy.ndarray of float64, shape (...)
        1 for full agreement, 0 for that of chance; NaN where all labels are one.

    Notes
    -----
    With coincidences o = counts + counts', n_c their sums and n the sum of those, 1 - (n - 1) times the
    sum of o_ck d_ck by the sum of n_c n_k d_ck; d_ck = 1, or (n_c / 2 + ... + n_k / 2)^2 with whole n
    between. Source: Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011.
    """
    counts = np.asarray(counts, np.float64)
    pairs = counts + np.swapaxes(counts, -1, -2)
    given = pairs.sum(axis=-1)
    middle = np.cumsum(given, axis=-1) - given / 2.0
    distance = _unequal(given.shape[-1])
    if ordinal:
        distance = (middle[..., :, np.newaxis] - middle[..., np.newaxis, :]) ** 2
    chance = given[..., :, np.newaxis] * given[..., np.newaxis, :] * distance
    seen = (pairs * distance).sum(axis=(-2, -1)) * (given.sum(axis=-1) - 1.0)
    return _less_than_chance(seen, chance.sum(axis=(-2, -1)))


def kendall_tau(first: ArrayLike, second: ArrayLike) -> Any:
    """Return Kendall's tau-b of two lists of values, shape (..., systems); NaN where one is constant.

    Source: Kendall, Biometrika 33, 1945.
    """
    a, b = _signs(first), _signs(second)
    over = np.sqrt((a * a).sum(axis=(-2, -1)) * (b * b).sum(axis=(-2, -1)))
    with np.errstate(invalid="ignore"):
        return (a * b).sum(axis=(-2, -1)) / over


def tau_ap(truth: ArrayLike, estimate: ArrayLike) -> Any:
    """Return the rank correlation that counts errors at the top more, of values of shape (..., systems).

    The mean over the systems that `estimate` puts below some other, of the part of those above that
    `truth` puts above too (half where it ties), times 2 less 1. Systems that `estimate` ties stand beside
    each other. Source: Yilmaz, Aslam and Robertson, SIGIR 2008.

    Examples
    --------
    >>> tau_ap([3, 2, 1], [3, 1, 2]), tau_ap([3, 2, 1], [2, 3, 1])
    (0.5, 0.0)
    """
    above = _signs(estimate) < 0  # [i, j]: j stands above i
    right = (1.0 - _signs(truth)) / 2.0
    number = above.sum(axis=-1)
    with np.errstate(invalid="ignore"):
        parts = (above * right).sum(axis=-1) / number
        found = 2.0 * np.nansum(parts, axis=-1) / (number > 0).sum(axis=-1) - 1.0
    return found if np.ndim(found) else float(found)


def _signs(values: ArrayLike) -> Doubles:
    values = np.asarray(values, np.float64)
    signs: Doubles = np.sign(values[..., :, np.newaxis] - values[..., np.newaxis, :])
    return signs


def _unequal(labels: int) -> Doubles:
    return 1.0 - np.eye(labels)


def _less_than_chance(seen: Doubles, chance: Doubles) -> Any:
    with np.errstate(invalid="ignore", divide="ignore"):
        found = 1.0 - np.where(chance > 0, seen / chance, np.nan)
    return found if np.ndim(found) else float(found)
