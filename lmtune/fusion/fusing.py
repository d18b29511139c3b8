"""Fuse runs by several methods; weights are chosen on some topics and judged on others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.datasets.folds import Fold, make_folds
from lmtune.errors import InputError
from lmtune.formats.runs import Ranking
from lmtune.fusion.certificate import BOXES, certify
from lmtune.fusion.lines import EQUAL, Best, Line, best_steps, joined
from lmtune.fusion.normalisation import (
    NORMALISATIONS,
    RRF_K,
    borda,
    counted,
    normalised,
    ranks,
    reciprocal_ranks,
)
from lmtune.fusion.query_features import features_of
from lmtune.fusion.runs import MINIMUM, ZERO, Columns, RunSet
from lmtune.fusion.search import (
    ExactLineSearch,
    WeightFit,
    coordinate_line,
    fit_forward,
    fit_linear,
    fit_per_query,
    fit_shrunk,
)
from lmtune.fusion.weighted_sum import THETA, WeightedSum
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import Measure, parse_measures
from lmtune.measures.significance.tests import adjusted, paired_t_test
from lmtune.options import check, option, usual
from lmtune.progress import Progress, note, quantity, silent
from lmtune.showing import Shown

Doubles = NDArray[np.float64]

# Constants of reciprocal rank fusion among which its tuned row chooses.
RRF_KS = (1.0, 5.0, 20.0, 60.0, 200.0)
# Powers of the number of runs that retrieved a document; CombANZ, CombSUM and CombMNZ are among them.
MNZ_POWERS = (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
CHOOSE = "choose"
"""In place of a normalisation: the best on each fold's training topics."""
# What a mean may lose and weights still count as equally good.
FLAT = 0.001
_TOGETHER = 20
# Line searches look at each run's weight by itself, which takes hours where there are many runs.
FEW = 8


class Method(NamedTuple):
    """How runs are fused.

    Attributes
    ----------
    columns : callable
        Makes columns, given `FusionOptions` and a constant.
    fit : callable, optional
        Chooses weights on topics of a pool, and says what that took; without it they are equal.
    constants : tuple of float
        Those among which a tuned method chooses.
    is_scored : bool
        Whether it depends on the normalisation of scores.
    of_few : bool
        Whether it is made for `FEW` runs at most, and of more only used where it is asked for.
    by_query : bool
        Whether weights depend on the query.
    is_usual : bool
        Whether it is used where no method is asked for.
    """

    columns: Callable[[FusionOptions, float], Columns]
    fit: WeightFit | None = None
    constants: tuple[float, ...] = (0.0,)
    is_scored: bool = True
    of_few: bool = False
    by_query: bool = False
    is_usual: bool = True


METHODS = {
    "linear": Method(lambda own, _: normalised(own.normalise, own.missing), fit_linear, of_few=True),
    "shrunk": Method(lambda own, _: normalised(own.normalise, own.missing), fit_shrunk),
    "per-query": Method(lambda own, _: normalised(own.normalise, own.missing), fit_per_query, by_query=True),
    "forward": Method(lambda own, _: normalised(own.normalise, own.missing), fit_forward),
    "rrf-tuned": Method(
        lambda _, k: reciprocal_ranks(k), fit_linear, constants=RRF_KS, is_scored=False, of_few=True
    ),
    "equal": Method(lambda own, _: normalised(own.normalise, own.missing)),
    "rrf": Method(lambda own, _: reciprocal_ranks(own.rrf_k), is_scored=False),
    "combsum": Method(lambda own, _: counted(own.normalise, 0)),
    "combmnz": Method(lambda own, _: counted(own.normalise, 1)),
    "combmnz-tuned": Method(
        lambda own, power: counted(own.normalise, power), constants=MNZ_POWERS, is_usual=False
    ),
    "combanz": Method(lambda own, _: counted(own.normalise, -1)),
    "borda": Method(lambda _own, _: borda, is_scored=False),
}
SEARCHED = " and ".join(name for name, method in METHODS.items() if method.of_few)
UNUSUAL = ", ".join(name for name, method in METHODS.items() if not method.is_usual)
# As many points for the last as documents have been retrieved, one more for each before it: whole numbers.
_ALONE = Method(lambda _own, _: lambda scores: scores.shape[1] - ranks(scores) + 1.0, is_scored=False)


@dataclass(frozen=True)
class FusionOptions:
    """How runs are fused and judged."""

    measure: tuple[str, ...] = usual(
        ("nDCG@10",), "What to maximise; repeat it for several.", flag="--measure -m", separator=None
    )
    method: tuple[str, ...] = usual(
        (),
        f"{', '.join(METHODS)}; by default all but {UNUSUAL}, and of more than {FEW} runs {SEARCHED}.",
        choices=tuple(METHODS),
    )
    normalise: str = usual(
        "min-max",
        f"{', '.join(NORMALISATIONS)}, or {CHOOSE}: that with the best equal weights in training.",
        choices=(*NORMALISATIONS, CHOOSE),
    )
    missing: str = option(
        MINIMUM,
        "What a document gets that a run lacks: the topic's minimum, or zero.",
        choices=(MINIMUM, ZERO),
    )
    rrf_k: float = option(RRF_K, "The constant of reciprocal rank fusion.", low=0)
    restarts: int = option(0, "Further starts of the line searches, drawn at random.", low=0)
    folds: str = usual("5", "Cross-validation: how many folds, or a JSON file of them.", metavar="N|FILE")
    train_topics: str | None = option(None, "Choose on these: 51-100, a list 51,52 or a file.")
    test_topics: str | None = option(None, "Report on these; default: all others.")
    in_sample: bool = option(False, "No cross-validation.")
    bootstrap: int = option(100, "Resamples of topics for the weights' intervals; 0 for none.", low=0)
    certify: float | None = usual(
        None, "Prove that no weights do better in sample than linear's by more than this.", low=0
    )
    boxes: int = option(BOXES, "How many boxes of weights a proof may bound.", low=1)
    depth: int = option(DEPTH, "Run depth.", low=1)
    seed: int = option(0, "Of folds, restarts and resamples.", low=0)


@dataclass(frozen=True)
class Chosen:
    """What fuses runs: all that is needed for other topics.

    Attributes
    ----------
    method : str
        Of `METHODS`; or ``"single"``.
    weights : dict of str to float
        By run; only their proportions count.
    constant : float
        Reciprocal rank fusion's k, CombMNZ's power; 0 where there is none.
    normalise : str
        The normalisation, where it was chosen; else that of the options.
    powers : dict of str to float
        Of features of the query on which weights depend, by name; see
        `lmtune.fusion.query_features.features_of`.
    """

    method: str
    weights: dict[str, float]
    constant: float = 0.0
    normalise: str = ""
    powers: dict[str, float] = field(default_factory=dict)

    @property
    def setting(self) -> dict[str, float]:
        """The parameters of the sum."""
        return self.weights | {f"{THETA} {name}": power for name, power in self.powers.items()}

    def renamed(self, names: Mapping[str, str]) -> Chosen:
        """Return the same for runs of other names, given these by the old ones."""
        weights = {names[name]: weight for name, weight in self.weights.items()}
        parts = {name: name.partition(" ") for name in self.powers}
        powers = {
            f"{feature}{blank}{names.get(run, run)}": self.powers[name]
            for name, (feature, blank, run) in parts.items()
        }
        return replace(self, weights=weights, powers=powers)

    @property
    def shares(self) -> dict[str, float]:
        """The weights, adding up to 1."""
        total = sum(self.weights.values()) or 1.0
        return {name: weight / total for name, weight in self.weights.items()}


@dataclass(frozen=True)
class FusedRow:
    """One method and measure.

    Attributes
    ----------
    measure : Measure
        What is maximised and reported.
    chosen : Chosen
        What is chosen on all topics.
    in_sample : float
        The mean over all topics of what is chosen on them.
    values : numpy.ndarray of float64, shape (topics,)
        Each topic's value; of a tuned method with what the other folds chose.
    bound : float or None
        No weights from 0 on have a higher mean over all topics; None where nothing is proven.
    evaluations : int
        Of the choice on all topics.
    flat : dict of str to (float, float)
        By run, the shares of the weight, the others in their proportions, with which the mean is
        within .001 of the best.
    interval : dict of str to (float, float)
        By run, the middle 95% of the best shares over resampled topics, others likewise.
    p_values : dict of str to float
        Paired t-tests against the best single run and reciprocal rank fusion, by Holm's correction; none
        where there is no test.
    folds : tuple of Chosen
        What each fold's training topics chose.
    """

    measure: Measure
    chosen: Chosen
    in_sample: float
    values: Doubles
    bound: float | None = None
    evaluations: int = 0
    flat: dict[str, tuple[float, float]] = field(default_factory=dict)
    interval: dict[str, tuple[float, float]] = field(default_factory=dict)
    p_values: dict[str, float] = field(default_factory=dict)
    folds: tuple[Chosen, ...] = ()

    @property
    def is_single(self) -> bool:
        """Whether it is a run by itself."""
        return self.chosen.method == "single"

    @property
    def name(self) -> str:
        """The method's, or a single run's own."""
        return next(iter(self.chosen.weights)) if self.is_single else self.chosen.method

    @property
    def mean(self) -> float:
        """What is reported: on topics that were held out, where there are any."""
        return float(self.values.mean())


@dataclass(frozen=True, repr=False)
class FusionResult(Shown):
    """All rows, and how they came about.

    Attributes
    ----------
    runs, topics : tuple of str
        The runs' names, and the topics that count.
    options : FusionOptions
        As given.
    how : str
        The folds.
    rows : tuple of FusedRow
        Measure by measure: single runs, then the methods.
    """

    runs: tuple[str, ...]
    topics: tuple[str, ...]
    options: FusionOptions
    how: str
    rows: tuple[FusedRow, ...]

    @cached_property
    def best(self) -> FusedRow:
        """The row that is written as a run: the first method's, by the first measure."""
        named = (row for row in self.rows if row.chosen.method == self.options.method[0])
        return next(named)

    @property
    def recommended(self) -> FusedRow | None:
        """The row to use for the first measure; None where all was chosen in sample.

        It has the best held-out mean; of those equal to four digits, it took the fewest evaluations,
        and of these it is the first: a run by itself, then the methods.
        """
        rows = [row for row in self.rows if row.measure == self.rows[0].measure]
        judged = () if self.options.in_sample else rows
        return max(judged, key=lambda row: (round(row.mean, 4), -row.evaluations), default=None)

    def baselines(self, measure: Measure) -> tuple[FusedRow, FusedRow]:
        """Return the best single run and reciprocal rank fusion, which methods are held against."""
        rows = [row for row in self.rows if row.measure == measure]
        single = max((row for row in rows if row.is_single), key=lambda row: row.mean)
        return single, next(row for row in rows if row.chosen.method == "rrf")


def fuse_runs(
    runs: RunSet,
    qrels: Mapping[str, Mapping[str, int]],
    options: FusionOptions | None = None,
    *,
    weights: Mapping[str, float] | None = None,
    progress: Progress = silent,
) -> FusionResult:
    """Fuse runs by all methods asked for.

    Parameters
    ----------
    runs : RunSet
        Two or more.
    qrels : mapping of str to mapping of str to int
        Judgements. Topics without a relevant document, or in no run, are left out.
    options : FusionOptions, optional
        Methods, measures, folds.
    weights : mapping of str to float, optional
        By run, all of them: nothing is chosen, and these are measured as the method linear.
    progress : Progress
        Called after each choice.

    Raises
    ------
    InputError
        For fewer than two runs, no usable topic, a measure that cannot be searched exactly.
    """
    options = FusionOptions() if options is None else options
    if weights is not None:
        options = replace(options, method=("linear",), in_sample=True)
    check(options)
    if len(runs.names) < 2:
        raise InputError("nothing to fuse", value=list(runs.names), accepted="two runs or more")
    few = len(runs.names) <= FEW
    usual_methods = tuple(n for n, own in METHODS.items() if own.is_usual and (few or not own.of_few))
    options = replace(options, method=options.method or usual_methods)
    topics = tuple(judged_topics(runs, qrels))
    measures = parse_measures(options.measure)
    methods = tuple(dict.fromkeys(("rrf", *options.method)))
    folds: list[Fold] = []
    how = "in sample: weights are chosen on the topics that they are judged on"
    if weights is not None:
        how = "weights as given"
    elif not options.in_sample:
        split = {"train": options.train_topics, "test": options.test_topics}
        given = None if any(split.values()) else options.folds
        folds, how = make_folds(topics, topics, folds=given, seed=options.seed, **split)
    work = _Fusion(runs, qrels, topics, options, weights)
    tuned = set(filter(work.is_tuned, methods))
    total, done = len(measures) * (len(methods) + len(tuned) * len(folds)), itertools.count()
    reported = {topic for fold in folds for topic in fold.test} or set(topics)
    held = np.array([topic in reported for topic in topics])
    rows: list[FusedRow] = []
    for measure in measures:
        own = [work.single(name, measure) for name in runs.names]
        for method in sorted(methods, key=list(METHODS).index):
            progress("fusing", next(done), total, f"{measure}, {method}")
            row = work.row(method, measure)
            choices = []
            for fold in folds if method in tuned else []:
                progress("fusing", next(done), total, f"{measure}, {method}")
                choices.append(work.choose(method, measure, fold.train)[0])
            own.append(work.judged(row, folds, choices) if method in tuned else row)
        own = [replace(row, values=row.values[held]) for row in own]
        singles, others = np.split(np.array(list(_tested(own, len(runs.names))), object), [len(runs.names)])
        rows += [*(singles[runs.names.index(name)] for name in runs.given), *others]
    progress("fusing", total, total)
    note_ties(work.tied)
    topics = tuple(topic for topic in topics if topic in reported)
    return FusionResult(runs.given, topics, options, how, tuple(_as_given(row, runs.given) for row in rows))


def rankings(runs: RunSet, chosen: Chosen, options: FusionOptions) -> Sequence[Ranking]:
    """Rank all topics of runs with what was chosen, which names these runs."""
    return rank(fused_pool(runs, chosen, options), chosen.setting, hits=options.depth)


def fused_pool(
    runs: RunSet,
    chosen: Chosen,
    options: FusionOptions,
    qrels: Mapping[str, Mapping[str, int]] | None = None,
    topics: Sequence[str] | None = None,
) -> CandidatePool:
    """Return the pool on which a choice's weights add runs up; see `RunSet.pool`."""
    method = METHODS[chosen.method]
    if chosen.normalise:
        options = replace(options, normalise=chosen.normalise)
    features = features_of(runs.names, FEW) if method.by_query else None
    return runs.pool(method.columns(options, chosen.constant), qrels, topics, features)


def judged_topics(runs: RunSet, qrels: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the topics that count: in a run, and with a relevant document; say which are left out.

    Raises
    ------
    InputError
        Where there are none.
    """
    relevant = [topic for topic, gains in qrels.items() if any(gain > 0 for gain in gains.values())]
    usable = [topic for topic in relevant if topic in runs.docs]
    if not usable:
        raise InputError(
            "no topic of the runs has relevant documents", value=list(runs.docs)[:3], accepted="judged topics"
        )
    if not any(qrels[topic].get(runs.docnos[doc], 0) > 0 for topic in usable for doc in runs.docs[topic]):
        raise InputError(
            "no run retrieves a relevant document of any topic",
            value=list(runs.given),
            accepted="runs and judgements of the same documents",
        )
    for count, what in (
        (len(runs.docs.keys() - qrels.keys()), "of the runs' topics have no judgements"),
        (len(qrels) - len(relevant), "judged topics have no relevant document"),
        (len(relevant) - len(usable), "judged topics are in no run"),
    ):
        if count:
            note(f"{count} {what}: left out")
    return usable


def ties_of(pool: CandidatePool) -> int:
    """Return how many unequal scores rounding made equal in a pool of runs."""
    assert isinstance(pool.formula, WeightedSum)
    return pool.formula.tied


def note_ties(tied: int) -> None:
    """Say how many unequal scores rounding made equal."""
    if tied:
        note(
            f"{quantity(tied, 'score')} of a run and topic, less than 2^-30 of the largest from the next, "
            "added up as equal to it"
        )


def _as_given(row: FusedRow, names: Sequence[str]) -> FusedRow:
    """Put all that a row says of runs in the order in which these were given."""

    def ordered(chosen: Chosen) -> Chosen:
        weights = {name: chosen.weights[name] for name in names if name in chosen.weights}
        return replace(chosen, weights=weights)

    flat, interval = ({name: own[name] for name in names if name in own} for own in (row.flat, row.interval))
    folds = tuple(map(ordered, row.folds))
    return replace(row, chosen=ordered(row.chosen), flat=flat, interval=interval, folds=folds)


class _Fusion:
    """What all rows share: pools, made once."""

    def __init__(
        self,
        runs: RunSet,
        qrels: Mapping[str, Mapping[str, int]],
        topics: tuple[str, ...],
        options: FusionOptions,
        weights: Mapping[str, float] | None,
    ) -> None:
        self.runs, self.qrels, self.topics, self.options = runs, qrels, topics, options
        self.weights = weights
        self._pools: dict[tuple[str, float, str], CandidatePool] = {}
        self.tied = 0

    def pool(self, chosen: Chosen) -> CandidatePool:
        """Return the pool of a method and constant."""
        key = chosen.method, chosen.constant, chosen.normalise
        if key not in self._pools:
            pool = fused_pool(self.runs, chosen, self.options, self.qrels, self.topics)
            self.tied = max(self.tied, ties_of(pool))
            self._pools[key] = pool
        return self._pools[key]

    def single(self, name: str, measure: Measure) -> FusedRow:
        """Measure a run as it is."""
        pool = self.runs.only(name).pool(_ALONE.columns(self.options, 0.0), self.qrels, self.topics)
        values = measure_settings(pool, {name: 1.0}, [measure], depth=self.options.depth)[:, 0, 0]
        return FusedRow(measure, Chosen("single", {name: 1.0}), float(values.mean()), values)

    def row(self, method: str, measure: Measure) -> FusedRow:
        """Choose on all topics."""
        chosen, evaluations, bound = self.choose(method, measure, self.topics)
        options = self.options
        if method == "linear" and options.certify is not None and bound is None:
            proof = certify(
                self.pool(chosen),
                measure,
                chosen.weights,
                tolerance=options.certify,
                boxes=options.boxes,
                depth=options.depth,
            )
            chosen, bound = replace(chosen, weights=proof.weights), proof.bound
            evaluations += proof.boxes
            gap = proof.bound - proof.value
            short = "" if gap <= options.certify else f", not the {options.certify:g} asked for"
            note(
                f"{measure}: no weights do better than linear's by more than {gap:.2g}{short}: "
                f"{quantity(proof.boxes, 'box', 'boxes')} bounded"
            )
        values = self._values(chosen, measure, self.topics)
        return FusedRow(measure, chosen, float(values.mean()), values, bound, evaluations)

    def judged(self, row: FusedRow, folds: Sequence[Fold], choices: Sequence[Chosen]) -> FusedRow:
        """Add to a tuned row what held-out topics say of each fold's choice, and how sure its weights are."""
        values, measure = row.values.copy(), row.measure
        places = {topic: place for place, topic in enumerate(self.topics)}
        for fold, chosen in zip(folds, choices, strict=True):
            values[[places[topic] for topic in fold.test]] = self._values(chosen, measure, fold.test)
        plan = METHODS[row.chosen.method]
        searched = plan.fit is not None and not plan.by_query and len(self.runs.names) <= FEW
        flat, interval = self._sureness(row.chosen, measure) if searched else ({}, {})
        return replace(row, values=values, folds=tuple(choices), flat=flat, interval=interval)

    def choose(
        self, method: str, measure: Measure, topics: Sequence[str]
    ) -> tuple[Chosen, int, float | None]:
        """Return what is best on topics, the evaluations that it took, and a bound on all weights."""
        plan, evaluations, bound = METHODS[method], 0, -np.inf
        chosen = Chosen(method, dict.fromkeys(self.runs.names, 1.0))
        if self.weights is not None:
            return replace(chosen, weights=dict(self.weights)), 0, None
        if len(variants := self._variants(chosen)) > 1:
            looks = [self._look(own, measure, topics) for own in variants]
            values, counts, bounds = zip(*looks, strict=True)
            chosen, evaluations, bound = variants[int(np.argmax(values))], sum(counts), max(bounds)
        else:
            [chosen] = variants
        if plan.fit is None:
            return chosen, evaluations, None
        seed, depth, restarts = self.options.seed, self.options.depth, self.options.restarts
        best, taken = plan.fit(self.pool(chosen), measure, topics, restarts=restarts, seed=seed, depth=depth)
        own = best.best_params_
        powers = {name.removeprefix(f"{THETA} "): own[name] for name in own if name not in chosen.weights}
        chosen = replace(chosen, weights={name: own[name] for name in chosen.weights}, powers=powers)
        bound = max(bound, getattr(best, "bound_", -np.inf))
        return chosen, evaluations + taken, bound if np.isfinite(bound) else None

    def is_tuned(self, method: str) -> bool:
        """Say whether topics choose anything."""
        return self.weights is None and (
            METHODS[method].fit is not None or len(self._variants(Chosen(method, {}))) > 1
        )

    def _variants(self, chosen: Chosen) -> list[Chosen]:
        """Return a method with each constant and normalisation that it may have."""
        plan, given = METHODS[chosen.method], self.options.normalise
        among = tuple(NORMALISATIONS) if given == CHOOSE and plan.is_scored else ("",)
        return [replace(chosen, constant=k, normalise=name) for k in plan.constants for name in among]

    def _look(self, chosen: Chosen, measure: Measure, topics: Sequence[str]) -> tuple[float, int, float]:
        """Return what a variant is worth, the evaluations that it took, and a bound on all weights.

        One climb says enough of few runs' weights, equal weights of others.
        """
        if not METHODS[chosen.method].of_few:
            return float(self._values(chosen, measure, topics).mean()), 1, np.inf
        climb = ExactLineSearch(str(measure), seed=self.options.seed, depth=self.options.depth)
        climb.fit(self.pool(chosen), topics=topics)
        return climb.best_value_, climb.n_evaluations_, climb.bound_

    def _values(self, chosen: Chosen, measure: Measure, topics: Sequence[str]) -> Doubles:
        pool = self.pool(chosen)
        places = pool.positions(topics)
        found = measure_settings(pool, chosen.setting, [measure], topics=places, depth=self.options.depth)
        values: Doubles = found[:, 0, 0]
        return values

    def _sureness(
        self, chosen: Chosen, measure: Measure
    ) -> tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]:
        """Return where the mean is flat, and intervals over resampled topics, along each run's weight."""
        pool, resamples = self.pool(chosen), self.options.bootstrap
        line = Line(pool, measure, pool.positions(), self.options.depth)
        here = np.array([chosen.weights[name] for name in self.runs.names])
        rng = np.random.default_rng(self.options.seed)
        shares = rng.multinomial(line.topics, np.full(line.topics, 1.0 / line.topics), resamples).T
        flat, interval = {}, {}
        for run, name in enumerate(self.runs.names):
            begin, end = coordinate_line(here / here.sum(), run)
            flat[name] = _flat(line, begin, end, float(here[run] / here.sum()))
            best: list[float] = []
            for first in range(0, resamples, _TOGETHER):
                best += _best_shares(line, begin, end, shares[:, first : first + _TOGETHER] / line.topics)
            if best:
                low, high = np.quantile(best, [0.025, 0.975])
                interval[name] = float(low), float(high)
        return flat, interval


def _flat(line: Line, begin: Doubles, end: Doubles, here: float) -> tuple[float, float]:
    """Return the ends of the stretch around a place on which the mean is within `FLAT` of the best."""
    at, value, _ = joined(line.steps(begin, end))
    edges = np.append(at, 1.0)
    good = value >= value.max() - FLAT
    place = int(np.searchsorted(at, here, "right")) - 1
    if not good[place]:
        place = int(value.argmax())
    bad = np.flatnonzero(~good)
    before, after = bad[bad < place], bad[bad > place]
    low = edges[before[-1] + 1] if before.size else 0.0
    return float(low), float(edges[after[0]]) if after.size else 1.0


def _best_shares(line: Line, begin: Doubles, end: Doubles, shares: Doubles) -> list[float]:
    """Return the middle of the best step of each column, of equal ones the longest."""
    best = [Best(-1.0, 0.0, 0.0)] * shares.shape[1]
    for steps in line.steps(begin, end, shares):
        for column, known in enumerate(best):
            [own], _ = best_steps(iter([steps._replace(value=steps.value[:, column])]), 1)
            best[column] = max(known, own, key=lambda step: (round(step.value / EQUAL), step.width))
    return [own.at for own in best]


def _tested(rows: Sequence[FusedRow], singles: int) -> Iterator[FusedRow]:
    """Add p-values against the best single run and reciprocal rank fusion, corrected together."""
    best = max(rows[:singles], key=lambda row: row.mean)
    rrf = next(row for row in rows if row.chosen.method == "rrf")
    pairs = [
        (place, name, against)
        for place in range(singles, len(rows))
        for name, against in (("best single run", best), ("rrf", rrf))
        if rows[place] is not against
    ]
    corrected = adjusted([paired_t_test(rows[i].values, other.values) for i, _, other in pairs])
    for place, row in enumerate(rows):
        own = {name: value for (i, name, _), value in zip(pairs, corrected, strict=True) if i == place}
        yield replace(row, p_values={name: value for name, value in own.items() if not math.isnan(value)})
