"""Fit parameters by the gradient of a smooth objective: objectives by name, their cost, the tuner."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.losses.approx_kernels import SmoothMeasure, approx_queries
from lmtune.losses.list_kernels import listnet_queries
from lmtune.losses.packing_kernels import ByLabel, discount_table
from lmtune.losses.pair_kernels import Swaps, ranknet_queries, weighted_queries
from lmtune.measures.evaluate import DEPTH, divisors, lacks_nonrelevant, measure_settings, worths
from lmtune.measures.kinds import EXPONENTIAL
from lmtune.measures.measure import Measure, parse_measure
from lmtune.models.formula import Ridge
from lmtune.models.parameter import Setting, as_settings
from lmtune.threads import over_slices
from lmtune.tuning import kernels
from lmtune.tuning.gradient import LOOSE, OPTIMIZERS, Descent, Evaluations, GradientTuner, Iterate
from lmtune.tuning.pairs import Cost, Lists
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import FitProgress, SearchRecord

_ACCEPTED = (
    "approx-ap, approx-ndcg@10, approx-p@10, approx-bpref, approx-rr, approx-r@100, softmax, ranknet, "
    "lambda-ap, lambda-ndcg@10, song"
)

# Pairs of a relevant document and another below which a second thread costs more than it brings.
_MANY_PAIRS = 1 << 18
_Fill = Callable[[int, int, Doubles, Doubles], None]
_Family = Literal["approx", "lambda", "song", "softmax", "ranknet"]


@dataclass(frozen=True)
class Objective:
    """What a `SurrogateTuner` minimises, on scores divided by their spread.

    Attributes
    ----------
    family : str
        ``"approx"``, minus a measure of smooth ranks; ``"song"``, minus NDCG of SONG's bounds of
        ranks; ``"lambda"``, RankNet's cost with pairs weighted by what swapping them does to a
        measure; ``"ranknet"``, RankNet's mean cost of a topic's pairs; ``"softmax"``, ListNet's
        cross-entropy.
    measure : Measure
        What it stands in for; of the last two, what is relevant.
    """

    family: _Family
    measure: Measure

    def __str__(self) -> str:
        has_measure = self.family in ("approx", "lambda")
        return f"{self.family}-{self.measure}" if has_measure else self.family

    @property
    def fits_slope(self) -> bool:
        """Whether the steepness is fitted along with the parameters: it is a likelihood's."""
        return self.family in ("softmax", "ranknet", "lambda")


def parse_objective(text: str | Objective) -> Objective:
    """Read an objective's name; an Objective is itself.

    Parameters
    ----------
    text : str or Objective
        ``approx-MEASURE``, with AP, nDCG, P@k, R@k, Bpref or RR in any spelling of
        `lmtune.measures.measure.parse_measure`, ``lambda-MEASURE`` with AP or nDCG, ``song``,
        ``softmax`` or ``ranknet``.

    Raises
    ------
    InputError
        For another name.

    Examples
    --------
    >>> str(parse_objective("approx-ndcg@10"))
    'approx-nDCG@10'
    """
    if isinstance(text, Objective):
        return text
    if text == "song":
        return Objective("song", Measure("nDCG", dcg=EXPONENTIAL))
    if text == "softmax":
        return Objective("softmax", Measure("AP"))
    if text == "ranknet":
        return Objective("ranknet", Measure("AP"))
    match = re.fullmatch(r"(approx|lambda)-(.+)", text)
    if match:
        measure = parse_measure(match[2])
        if match[1] == "approx" and measure.declared.smooth is not None:
            return Objective("approx", measure)
        if match[1] == "lambda" and (
            measure.declared.is_graded or (measure.kind, measure.cutoff) == ("AP", None)
        ):
            return Objective("lambda", measure)
    raise InputError("unknown objective", value=text, accepted=_ACCEPTED)


def smooth_form(measure: Measure) -> Objective:
    """Return what stands in for a measure: its own smooth form, or that of AP where it has none."""
    own = measure.declared.smooth is not None
    return Objective("approx", measure if own else Measure("AP", rel=measure.rel))


class SurrogateCost:
    """An objective of topics' lists, as a cost with its gradient in a formula's parameters.

    A topic's scores are divided by z, their standard deviation over its list: so no parameter can
    lower the cost by shrinking or stretching all differences alike. The gradient includes that of z.

    Parameters
    ----------
    lists : Lists
        The documents.
    objective : Objective
        What to compute of them.
    topics : numpy.ndarray of int64
        Places of topics in the pool; the cost is the mean over them.
    """

    def __init__(self, lists: Lists, objective: Objective, topics: Integers) -> None:
        self.objective, self.formula, self._lists = objective, lists.pool.formula, lists
        self._topics = lists.pool.weights(topics).sum()
        # The others' scores have nothing to say: their cost is 0.
        topics = lists.with_relevant(topics, objective.measure.rel)
        if topics.size == 0:
            raise InputError(
                "no topic has a relevant document among those that settings rank high",
                value=str(objective),
                accepted="a topic with one, or deeper lists",
            )
        self._places, self._weights = topics, lists.pool.weights(topics)
        self._documents = lists.pool.documents(lists.columns).of(topics)
        self._sizes = np.diff(self._documents.docs)[:, 0]
        self._ends = np.concatenate(([0], np.cumsum(self._sizes)))
        shape = topics.size, int(self._sizes.max())
        self._real = np.arange(shape[1]) < self._sizes[:, None]
        self._order = np.tile(np.arange(shape[1]), (shape[0], 1))
        gain = np.zeros(shape, np.int64)
        gain[self._real] = np.concatenate([lists.columns.gain[lists.columns.rows(t)] for t in topics])
        self._aims, self._labels = self._targets(lists, gain, topics)
        self._swaps: Swaps | None = None
        pairs = int((self._labels > 0).sum(axis=1) @ self._sizes)
        self._threads = None if pairs >= _MANY_PAIRS else 1

    def _targets(self, lists: Lists, gain: Integers, topics: Integers) -> tuple[SmoothMeasure, Doubles]:
        """Return what documents of given gains count for, and their labels."""
        measure, pool = self.objective.measure, lists.pool
        relevant, nonrelevant = (counts[topics] for counts in pool.judged_counts(measure.rel))
        is_relevant = self._real & (gain >= measure.rel)
        if measure.declared.is_graded:
            labels = np.where(is_relevant, gain, 0).astype(np.float64)
            worth = worths(measure, labels)
        else:
            labels = worth = is_relevant.astype(np.float64)
        ideal = divisors(pool, measure)[topics]
        found = is_relevant.sum(axis=1)
        part = np.zeros((topics.size, 2), np.int64)
        if measure.kind == "AP":
            part[:, 1] = found
        elif measure.kind == "Bpref":
            part[:, 0], part[:, 1] = found, (self._real & (gain >= 0)).sum(axis=1)
        bound = np.maximum(np.minimum(relevant, nonrelevant), 1).astype(np.float64)
        hinge = self.objective.family == "song"
        kernel, k = measure.declared.smooth, measure.cutoff or 0
        assert kernel is not None
        return SmoothMeasure(int(kernel), k, 0.0, hinge, worth, ideal, part, bound), labels

    def __call__(self, setting: Setting | Doubles, alpha: float, *, threads: int | None = None) -> Cost:
        """Compute the mean cost; that of ``lambda-...`` needs `freeze` before.

        Parameters
        ----------
        setting : mapping of str to float, or numpy.ndarray, shape (parameters,)
            Parameters of the pool's formula: by name, or in its order.
        alpha : float
            Steepness, above 0: scores are multiplied by alpha / z.
        threads : int, optional
            Threads over topics, by default where they bring more than they cost; the result does not
            depend on them.

        Returns
        -------
        Cost
            Its gradient has one more entry than there are parameters: the derivative in log alpha,
            with a measure's truncation, and the corner of Bpref, held fixed.

        Raises
        ------
        InputError
            For parameters outside the formula's domain.
        """
        mean: Doubles = (self._per_topic(setting, alpha, threads) * self._weights[:, None]).sum(
            axis=0
        ) / self._topics
        return Cost(float(mean[0]), mean[1:])

    def value(self, setting: Doubles, alpha: float) -> float:
        """Return the cost alone; its topics' are computed once for all costs over the same lists."""
        key = self.objective, alpha, setting.tobytes()
        known = self._lists.losses.setdefault(key, np.full(len(self._lists.pool.topics), np.nan))
        if np.isnan(known[self._places]).any():
            known[self._places] = self._per_topic(setting, alpha)[:, 0]
        # One after the other, as the sum of several columns is: the same bits.
        return float((known[self._places] * self._weights).cumsum()[-1] / self._topics)

    def _per_topic(self, setting: Setting | Doubles, alpha: float, threads: int | None = None) -> Doubles:
        """Return each topic's loss, then its gradient."""
        settings = as_settings(self.formula.parameters, setting)
        self.formula.check(settings)
        own = np.zeros((self._sizes.size, 2 + settings.shape[1]))
        scores, losses, slopes = np.zeros(self._real.shape), np.zeros(len(own)), np.zeros(self._real.shape)
        fill = self._kernel(scores, alpha)

        def work(chunk: slice) -> None:
            gradient, spread = self._standardise(chunk, settings[0], scores)
            fill(chunk.start, chunk.stop, losses, slopes)
            kernels.chain_topics(
                self._sizes[chunk], scores[chunk], slopes[chunk], spread, gradient, own[chunk]
            )

        # One thread takes few pairs at once: a slice costs more than its topics do.
        threads = threads or self._threads
        over_slices(work, len(own), threads=threads, seconds=0.0 if threads == 1 else math.inf)
        own[:, 0] = losses
        return own

    def freeze(self, setting: Doubles) -> None:
        """Weight pairs from now on by what swapping them does to the ranking at a setting."""
        at = np.zeros(self._real.shape)
        self._standardise(slice(0, len(at)), setting, at)
        measure, items = self.objective.measure, int(self._sizes.max())
        by_score = np.argsort(np.where(self._real, -at, np.inf), axis=1, kind="stable")
        table = discount_table(items, measure.cutoff)
        self._swaps = Swaps(
            self._aims.gains, self._aims.ideal, at, by_score, measure.kind == "AP", table, table[:0], 0
        )

    def _standardise(self, chunk: slice, setting: Doubles, out: Doubles) -> tuple[Doubles, Doubles]:
        """Fill some topics' scores over their spread; return the scores' gradients and the spreads."""
        documents = self._documents.of(chunk)
        scores = np.empty(int(self._ends[chunk.stop] - self._ends[chunk.start]))
        gradient, spread = np.empty((setting.size, scores.size)), np.empty(chunk.stop - chunk.start)
        product = np.empty(spread.size, np.bool_)
        self.formula.likelihoods(documents, setting, scores, gradient, product)
        kernels.standardise(self._sizes[chunk], product, scores, out[chunk], spread)
        return gradient, spread

    def _kernel(self, scores: Doubles, alpha: float) -> _Fill:
        """Return what fills the losses of some topics and their derivatives in the scores."""
        lists = ByLabel(scores, self._labels, self._order, self._sizes)
        family = self.objective.family
        if family == "ranknet":
            return lambda i, j, losses, slopes: ranknet_queries(i, j, lists, alpha, True, losses, slopes)
        if family == "lambda":
            swaps = self._swaps
            return lambda i, j, losses, slopes: weighted_queries(i, j, lists, swaps, alpha, losses, slopes)
        if family == "softmax":
            return lambda i, j, losses, slopes: self._softmax(
                scores[i:j], slice(i, j), alpha, losses[i:j], slopes[i:j]
            )
        # Ranks near k are as uncertain as the steepness makes them.
        aims = self._aims._replace(alpha_k=alpha / max(self._aims.k, 1))
        return lambda i, j, losses, slopes: approx_queries(i, j, lists, aims, alpha, losses, slopes)

    def _softmax(self, scores: Doubles, rows: slice, alpha: float, losses: Doubles, slopes: Doubles) -> None:
        targets = self._labels[rows] / self._labels[rows].sum(axis=1, keepdims=True)
        listnet_queries(0, losses.size, alpha * scores, targets, self._real[rows], False, losses, slopes)
        slopes *= alpha


# Chosen on MED, CACM and NPL by held-out AP, nDCG@10, P@10 and RR (experiments/surrogates/README.md).
ALPHAS = (4.0, 32.0)
LIST_DEPTH = 200
_RELEVANT = 6.0

# Where the gradient of a mean over topics is called flat.
_FLAT = 1e-5
# Settings among which starts are looked for.
_DRAWS = 32
# Bounds of a steepness that is fitted.
_STEEPNESS = (1e-2, 1e3)
# Rounds of weighting pairs and minimising, and the movement that ends them.
_MOST_ROUNDS, _STILL = 30, 1e-4


@dataclass(eq=False, repr=False)
class SurrogateTuner(GradientTuner):
    """Fit a formula's parameters by an objective that stands in for a measure.

    Scores are divided by their spread over each topic's list, so that parameters cannot lower the
    cost by shrinking all differences: this is where RankNet goes astray on smoothing parameters,
    which set the scale of the scores. Measures are of ranks that are smooth in the scores
    (Qin, Liu and Li, Information Retrieval 2010; Bruch et al., SIGIR 2019). The first start is
    followed from a wide steepness to the last one; the other starts are the best of 32 draws at the
    last steepness, and descend there. The lowest end wins, or of ``lambda-...``, which have no cost
    to compare, the best by the measure on the fitting topics.

    Parameters
    ----------
    objective : str or Objective
        ``"approx-ap"`` and others; see `lmtune.tuning.surrogate.parse_objective`.
    alpha : float or sequence of float
        Steepnesses, rising: of ranks in units of the scores' spread. ``softmax``, ``ranknet`` and
        ``lambda-...`` fit theirs, from the first on.
    optimizer, space, starts, seed, ridge, measures, depth
        As of `lmtune.tuning.gradient.GradientTuner`.
    list_depth : int, optional
        How many of the best documents of settings all over the space make up a topic's list; by
        default 200, or where that is more, but within `depth`, twice a measure's cutoff, or six times
        the mean number of relevant documents of one without; no more than candidates were pruned for.

    Attributes
    ----------
    objective_ : Objective
        What was minimised. Bpref without a document judged nonrelevant is recall at `depth`.

    Notes
    -----
    Costs are means over topics, minus a smooth measure for ``approx-...``; those of different
    steepness, in the column ``alpha`` of `results_`, do not compare.

    Examples
    --------
    >>> tuner = SurrogateTuner("approx-ndcg@10").fit(pool, topics=train)  # doctest: +SKIP
    >>> tuner.best_params_  # doctest: +SKIP
    """

    objective_: Objective = field(init=False)
    flat = _FLAT

    objective: str | Objective = "approx-ap"
    _: KW_ONLY
    alpha: float | Sequence[float] = ALPHAS
    optimizer: str = "l-bfgs"
    space: ParameterSpace | None = None
    starts: int = 4
    seed: int = 0
    ridge: float = 0.0
    list_depth: int | None = None
    measures: Sequence[str | Measure] = ()
    depth: int = DEPTH

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        lists: Lists | None = None,
        progress: FitProgress = None,
    ) -> Self:
        """Fit on topics of a pool (all judged ones by default).

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        topics : sequence of str, optional
            Topics to fit on.
        lists : Lists, optional
            Lists of this pool, built before.
        progress : callable or bool, optional
            Called with (starts done, starts in all); True draws a bar.

        Raises
        ------
        InputError
            For unknown topics, topics without a relevant document in the lists, lists of another
            pool, or a constructor argument outside its domain.
        """
        measures = self._check()
        report = self._report(progress)
        record = SearchRecord(pool, None, space=self.space, topics=topics, repeats=True)
        self.objective_ = objective_for(parse_objective(self.objective), pool, self.depth)
        alphas = self._alphas(self.objective_)
        if lists is None:
            lists = self.ready(pool, record.space)["lists"]
        elif lists.pool is not pool:
            raise InputError(
                "the lists are of other candidates", value=lists.pool.name, accepted="this pool's"
            )
        cost = SurrogateCost(lists, self.objective_, record.places)
        search = _Search(record, cost, OPTIMIZERS[self.optimizer], self._penalty(pool, record.places))
        ends = []
        for start, x in enumerate(search.starts(self.starts, alphas[-1], self.seed)):
            # The first start comes from afar; the others were chosen at the last steepness.
            for alpha in alphas if start == 0 else alphas[-1:]:
                end = search.descend(start, x, alpha, self.flat if alpha == alphas[-1] else LOOSE)
                x = end.x
            ends.append(end)
            report(start + 1, self.starts)
        end = search.best(ends, self.depth)
        self._close(record, measures)
        self.results_.insert(3 + len(record.space.names), "alpha", search.alphas)
        self._choose(record.space, end.row)
        self.converged_, self.n_evaluations_ = end.converged, search.evaluations
        return self

    def ready(self, pool: CandidatePool, space: ParameterSpace) -> dict[str, Any]:
        """Return the lists."""
        depth = self.list_depth
        if depth is None:
            objective = objective_for(parse_objective(self.objective), pool, self.depth)
            depth = lists_depth(objective, pool, self.depth)
        return {"lists": Lists.build(pool, space, depth=depth, seed=self.seed)}

    @property
    def judge(self) -> Measure:
        """The objective's measure, once it is fitted as the pool's judgments allow."""
        return self.objective_.measure

    def again(self) -> dict[str, Any]:
        """Leave out the wide steepnesses."""
        return {"alpha": self._alphas(parse_objective(self.objective))[-1:]}

    def _alphas(self, objective: Objective) -> list[float]:
        alphas = [float(alpha) for alpha in np.atleast_1d(self.alpha)]
        rising = all(a < b for a, b in itertools.pairwise(alphas))
        if not (alphas and rising and alphas[0] > 0.0 and np.isfinite(alphas[-1])):
            raise InputError("bad alpha", value=self.alpha, accepted="numbers above 0, rising")
        if objective.fits_slope:
            return alphas[:1]
        return alphas


class _End(NamedTuple):
    """Where a descent ended: the point, its cost and row, and whether the gradient vanishes there."""

    x: Doubles
    cost: float
    row: int
    converged: bool


class _Search:
    """The descents of a fit, each recorded."""

    def __init__(
        self, record: SearchRecord, cost: SurrogateCost, minimise: Callable[..., Descent], penalty: Ridge
    ) -> None:
        self.record, self.cost, self.minimise, self.penalty = record, cost, minimise, penalty
        # Costs of pairs that are weighted at different settings do not compare.
        self.weighted, self.fitted = cost.objective.family == "lambda", cost.objective.fits_slope
        self.evaluations = 0
        self.alphas: list[float] = []

    def starts(self, count: int, alpha: float, seed: int) -> list[Doubles]:
        """Return the space's start and the best of settings drawn from it, at a steepness."""
        space, rng = self.record.space, np.random.default_rng(seed)
        draws = [space.random(rng) for _ in range(max(_DRAWS, count - 1) if count > 1 else 0)]
        if not self.weighted:
            self.evaluations += len(draws)
            draws.sort(key=lambda setting: self.cost.value(setting, alpha))
        return [space.to_unbounded(setting) for setting in (space.start, *draws[: count - 1])]

    def descend(self, start: int, x: Doubles, alpha: float, flat: float) -> _End:
        """Minimise from a point, with the steepness held fixed unless it is fitted."""
        space, box = self.record.space, self.record.space.unbounded_box
        parameters = len(box)
        if self.fitted:
            x, box = np.append(x, np.log(alpha)), (*box, tuple(np.log(_STEEPNESS)))
        converged = False
        for _ in range(_MOST_ROUNDS if self.weighted else 1):
            if self.weighted:
                self.cost.freeze(space.from_unbounded(x[:parameters]))
            evaluations = Evaluations(lambda x: self._evaluate(x, alpha), self.record.begin)
            found = self.minimise(evaluations, x, box, flat=flat)
            self._keep(evaluations, start, found.points, alpha)
            still = not self.weighted or bool(np.abs(found.points[-1].x - x).max() < _STILL)
            x, converged = found.points[-1].x, found.converged and still
            if still:
                break
        return _End(x[:parameters], found.points[-1].cost, len(self.alphas) - 1, converged)

    def best(self, ends: Sequence[_End], depth: int) -> _End:
        """Return the end of the lowest cost, or where costs do not compare of the best measure."""
        if not self.weighted:
            return min(ends, key=lambda end: end.cost)
        pool, places, space = self.record.pool, self.record.places, self.record.space
        settings = np.array([space.from_unbounded(end.x) for end in ends])
        measure = self.cost.objective.measure
        values = measure_settings(pool, settings, [measure], topics=places, depth=depth)
        return ends[int(pool.mean(values[:, :, 0], places).argmax())]

    def _evaluate(self, x: Doubles, alpha: float) -> tuple[float, Doubles]:
        space = self.record.space
        parameters = len(space.names)
        setting = space.from_unbounded(x[:parameters])
        cost = self.cost(setting, alpha if x.size == parameters else float(np.exp(x[-1])))
        pull, pulled = self.penalty.at(setting)
        slope = space.chain(cost.gradient[:-1] + pulled, setting)
        value = cost.value + pull
        return value, slope if x.size == parameters else np.append(slope, cost.gradient[-1])

    def _keep(self, evaluations: Evaluations, start: int, points: Sequence[Iterate], alpha: float) -> None:
        evaluations.record(self.record, start, points)
        self.alphas += [float(np.exp(point.x[-1])) if self.fitted else alpha for point in points]
        self.evaluations += len(evaluations)


def objective_for(objective: Objective, pool: CandidatePool, depth: int) -> Objective:
    """Return what an objective comes to with a pool's judgments.

    Where no document is judged nonrelevant, Bpref is recall at the run depth.
    """
    if lacks_nonrelevant(pool, objective.measure):
        return Objective(objective.family, Measure("R", depth, objective.measure.rel))
    return objective


def lists_depth(objective: Objective, pool: CandidatePool, depth: int) -> int:
    """Return how deep an objective's lists are by default: see `SurrogateTuner`."""
    measure = objective.measure
    far = (
        2 * measure.cutoff if measure.cutoff else round(_RELEVANT * pool.judged_counts(measure.rel)[0].mean())
    )
    wanted = max(LIST_DEPTH, min(far, depth))
    return wanted if pool.pruning is None else min(wanted, pool.pruning.depth)
