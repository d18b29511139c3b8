"""Smooth surrogate objectives of measures, their cost and gradient, and the tuner that minimises them."""

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
from lmtune.tuning.gradient import LOOSE_TOLERANCE, OPTIMIZERS, Descent, Evaluations, GradientTuner, Iterate
from lmtune.tuning.pairs import Cost, Lists
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import FitProgress, SearchRecord

_ACCEPTED = (
    "approx-ap, approx-ndcg@10, approx-p@10, approx-bpref, approx-rr, approx-r@100, softmax, ranknet, "
    "lambda-ap, lambda-ndcg@10, song"
)

# With fewer pairs of a relevant and another document, a second thread costs more time than it saves.
_MANY_PAIRS = 1 << 18
_Fill = Callable[[int, int, Doubles, Doubles], None]
_Family = Literal["approx", "lambda", "song", "softmax", "ranknet"]


@dataclass(frozen=True)
class Objective:
    """The objective that a `SurrogateTuner` minimises, as a function of standardised scores.

    Attributes
    ----------
    family : str
        ``"approx"``: the negative of a measure with smooth ranks. ``"song"``: the negative of NDCG with
        SONG's bounds of ranks. ``"lambda"``: RankNet's cost with pairs weighted by the change of a measure
        when they are swapped. ``"ranknet"``: RankNet's mean cost over a topic's pairs. ``"softmax"``:
        ListNet's cross-entropy.
    measure : Measure
        The measure that the objective approximates. ``"ranknet"`` and ``"softmax"`` use only its relevance
        level.
    """

    family: _Family
    measure: Measure

    def __str__(self) -> str:
        has_measure = self.family in ("approx", "lambda")
        return f"{self.family}-{self.measure}" if has_measure else self.family

    @property
    def fits_steepness(self) -> bool:
        """Whether the steepness is fitted along with the parameters, as for all likelihoods."""
        return self.family in ("softmax", "ranknet", "lambda")


def parse_objective(text: str | Objective) -> Objective:
    """Parse an objective's name; an `Objective` is returned unchanged.

    Parameters
    ----------
    text : str or Objective
        ``approx-MEASURE``, with AP, nDCG, P@k, R@k, Bpref or RR in any spelling of
        `lmtune.measures.measure.parse_measure`, ``lambda-MEASURE`` with AP or nDCG, ``song``,
        ``softmax`` or ``ranknet``.

    Raises
    ------
    InputError
        If the name is unknown.

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
    """Return the smooth approximation of a measure, or that of AP if the measure has none."""
    is_smooth = measure.declared.smooth is not None
    return Objective("approx", measure if is_smooth else Measure("AP", rel=measure.rel))


class SurrogateCost:
    """An objective's cost over topics, and its gradient in the formula's parameters.

    A topic's scores are divided by z, their standard deviation over its list. Therefore no parameter can
    lower the cost by scaling all score differences. The gradient takes the derivative of z into account.

    Parameters
    ----------
    lists : Lists
        The documents.
    objective : Objective
        The objective.
    topics : numpy.ndarray of int64
        Positions of topics in the pool; the cost is the mean over them.
    """

    def __init__(self, lists: Lists, objective: Objective, topics: Integers) -> None:
        self.objective, self.formula, self._lists = objective, lists.pool.formula, lists
        self._topics = lists.pool.weights(topics).sum()
        # Topics without a relevant document in their list do not depend on the scores: their cost is 0.
        topics = lists.with_relevant(topics, objective.measure.rel)
        if topics.size == 0:
            raise InputError(
                "no topic has a relevant document in its list",
                value=str(objective),
                accepted="a topic with a relevant document, or deeper lists",
            )
        self._positions, self._weights = topics, lists.pool.weights(topics)
        self._documents = lists.pool.documents(lists.columns).of(topics)
        self._sizes = np.diff(self._documents.docs)[:, 0]
        self._ends = np.concatenate(([0], np.cumsum(self._sizes)))
        shape = topics.size, int(self._sizes.max())
        self._mask = np.arange(shape[1]) < self._sizes[:, None]
        self._order = np.tile(np.arange(shape[1]), (shape[0], 1))
        gain = np.zeros(shape, np.int64)
        gain[self._mask] = np.concatenate([lists.columns.gain[lists.columns.rows(t)] for t in topics])
        self._aims, self._labels = self._targets(lists, gain, topics)
        self._swaps: Swaps | None = None
        pairs = int((self._labels > 0).sum(axis=1) @ self._sizes)
        self._threads = None if pairs >= _MANY_PAIRS else 1

    def _targets(self, lists: Lists, gain: Integers, topics: Integers) -> tuple[SmoothMeasure, Doubles]:
        """Return the measure's worth of documents with these gains, for the kernels, and their labels."""
        measure, pool = self.objective.measure, lists.pool
        relevant, nonrelevant = (counts[topics] for counts in pool.judged_counts(measure.rel))
        is_relevant = self._mask & (gain >= measure.rel)
        if measure.declared.is_graded:
            labels = np.where(is_relevant, gain, 0).astype(np.float64)
            worth = worths(measure, labels)
        else:
            labels = worth = is_relevant.astype(np.float64)
        ideal = divisors(pool, measure)[topics]
        counts = is_relevant.sum(axis=1)
        part = np.zeros((topics.size, 2), np.int64)
        if measure.kind == "AP":
            part[:, 1] = counts
        elif measure.kind == "Bpref":
            part[:, 0], part[:, 1] = counts, (self._mask & (gain >= 0)).sum(axis=1)
        bound = np.maximum(np.minimum(relevant, nonrelevant), 1).astype(np.float64)
        hinge = self.objective.family == "song"
        kernel, k = measure.declared.smooth, measure.cutoff or 0
        assert kernel is not None
        return SmoothMeasure(int(kernel), k, 0.0, hinge, worth, ideal, part, bound), labels

    def __call__(self, setting: Setting | Doubles, alpha: float, *, threads: int | None = None) -> Cost:
        """Compute the mean cost and its gradient; ``lambda-...`` needs a call of `weight_pairs` before.

        Parameters
        ----------
        setting : mapping of str to float, or numpy.ndarray, shape (parameters,)
            Parameters of the pool's formula, by name or in its order.
        alpha : float
            Steepness, above 0: scores are multiplied by alpha / z.
        threads : int, optional
            Threads over topics; by default one unless there are many pairs. The result does not depend on
            them.

        Returns
        -------
        Cost
            The last entry of its gradient is the derivative in log alpha. In that derivative, the measure's
            smooth truncation and Bpref's smooth minimum are constant.

        Raises
        ------
        InputError
            If a parameter is outside the formula's domain.
        """
        mean: Doubles = (self._per_topic(setting, alpha, threads) * self._weights[:, None]).sum(
            axis=0
        ) / self._topics
        return Cost(float(mean[0]), mean[1:])

    def value(self, setting: Doubles, alpha: float) -> float:
        """Return the cost without its gradient, from the cache of the lists if possible."""
        key = self.objective, alpha, setting.tobytes()
        known = self._lists.losses.setdefault(key, np.full(len(self._lists.pool.topics), np.nan))
        if np.isnan(known[self._positions]).any():
            known[self._positions] = self._per_topic(setting, alpha)[:, 0]
        # Sequential summation gives the same bits as the sum over columns in `__call__`.
        return float((known[self._positions] * self._weights).cumsum()[-1] / self._topics)

    def _per_topic(self, setting: Setting | Doubles, alpha: float, threads: int | None = None) -> Doubles:
        """Return each topic's loss and its gradient, shape (topics, 2 + parameters)."""
        settings = as_settings(self.formula.parameters, setting)
        self.formula.check(settings)
        rows = np.zeros((self._sizes.size, 2 + settings.shape[1]))
        scores, losses, slopes = np.zeros(self._mask.shape), np.zeros(len(rows)), np.zeros(self._mask.shape)
        fill = self._kernel(scores, alpha)

        def work(chunk: slice) -> None:
            gradient, spread = self._standardise(chunk, settings[0], scores)
            fill(chunk.start, chunk.stop, losses, slopes)
            kernels.chain_topics(
                self._sizes[chunk], scores[chunk], slopes[chunk], spread, gradient, rows[chunk]
            )

        # A single thread computes all topics as one slice: with few pairs, a slice costs more than its
        # topics.
        threads = threads or self._threads
        over_slices(work, len(rows), threads=threads, seconds=0.0 if threads == 1 else math.inf)
        rows[:, 0] = losses
        return rows

    def weight_pairs(self, setting: Doubles) -> None:
        """Set each pair's weight: the change of the measure if it is swapped in the ranking at a setting.

        The weights stay until the next call.
        """
        scores = np.zeros(self._mask.shape)
        self._standardise(slice(0, len(scores)), setting, scores)
        measure, items = self.objective.measure, int(self._sizes.max())
        by_score = np.argsort(np.where(self._mask, -scores, np.inf), axis=1, kind="stable")
        table = discount_table(items, measure.cutoff)
        self._swaps = Swaps(
            self._aims.gains, self._aims.ideal, scores, by_score, measure.kind == "AP", table, table[:0], 0
        )

    def _standardise(self, chunk: slice, setting: Doubles, out: Doubles) -> tuple[Doubles, Doubles]:
        """Fill standardised scores of a slice of topics; return the raw scores' gradients and deviations."""
        documents = self._documents.of(chunk)
        scores = np.empty(int(self._ends[chunk.stop] - self._ends[chunk.start]))
        gradient, spread = np.empty((setting.size, scores.size)), np.empty(chunk.stop - chunk.start)
        product = np.empty(spread.size, np.bool_)
        self.formula.likelihoods(documents, setting, scores, gradient, product)
        kernels.standardise(self._sizes[chunk], product, scores, out[chunk], spread)
        return gradient, spread

    def _kernel(self, scores: Doubles, alpha: float) -> _Fill:
        """Return the function that fills losses of a range of topics, and their derivatives in the scores."""
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
        # The cutoff k is smoothed in proportion to the steepness of the ranks.
        aims = self._aims._replace(alpha_k=alpha / max(self._aims.k, 1))
        return lambda i, j, losses, slopes: approx_queries(i, j, lists, aims, alpha, losses, slopes)

    def _softmax(self, scores: Doubles, rows: slice, alpha: float, losses: Doubles, slopes: Doubles) -> None:
        targets = self._labels[rows] / self._labels[rows].sum(axis=1, keepdims=True)
        listnet_queries(0, losses.size, alpha * scores, targets, self._mask[rows], False, losses, slopes)
        slopes *= alpha


# Chosen on MED, CACM and NPL by held-out AP, nDCG@10, P@10 and RR (experiments/surrogates/README.md).
ALPHAS = (4.0, 32.0)
LIST_DEPTH = 200
_RELEVANT = 6.0

# Convergence tolerance for the gradient of a mean over topics.
_TOLERANCE = 1e-5
# Number of random settings from which the starts are selected.
_DRAWS = 32
# Bounds of a fitted steepness.
_STEEPNESS = (1e-2, 1e3)
# ``lambda-...`` alternates between weighting pairs and minimising: maximum rounds, and the smallest movement.
_MOST_ROUNDS, _STILL = 30, 1e-4


@dataclass(eq=False, repr=False)
class SurrogateTuner(GradientTuner):
    """Fit a formula's parameters with a smooth surrogate of a measure.

    Scores are divided by their standard deviation over each topic's list, so that parameters cannot lower the
    cost by scaling all score differences. RankNet lacks this; smoothing parameters set the scale of the
    scores and mislead it. Surrogates of measures use ranks that are smooth in the scores (Qin, Liu and Li,
    Information Retrieval 2010; Bruch et al., SIGIR 2019).

    The first descent minimises at each steepness in turn. The other starts are the best of 32 random settings
    at the last steepness, and are minimised only there. The result is the end with the lowest cost. Costs of
    ``lambda-...`` are not comparable; there, the end with the best measure on the training topics is
    selected.

    Parameters
    ----------
    objective : str or Objective
        ``"approx-ap"`` and others; see `lmtune.tuning.surrogate.parse_objective`.
    alpha : float or sequence of float
        Steepness of the smooth ranks, relative to the scores' standard deviation; several values must rise.
        ``softmax``, ``ranknet`` and ``lambda-...`` fit the steepness, beginning with the first value.
    optimizer, space, starts, seed, ridge, measures, depth
        See `lmtune.tuning.gradient.GradientTuner`.
    list_depth : int, optional
        Number of top documents that each of 16 settings contributes to a topic's list. The default is 200, or
        more if needed: twice the measure's cutoff, or without one six times the mean number of relevant
        documents, up to `depth`. It does not exceed the depth that the candidates were pruned for.

    Attributes
    ----------
    objective_ : Objective
        The objective that was minimised. Without judged non-relevant documents, Bpref is replaced by recall
        at `depth`.

    Notes
    -----
    Costs are means over topics; for ``approx-...``, negatives of a smooth measure. Costs at different
    steepness (column ``alpha`` of `results_`) are not comparable.

    Examples
    --------
    >>> tuner = SurrogateTuner("approx-ndcg@10").fit(pool, topics=train)  # doctest: +SKIP
    >>> tuner.best_params_  # doctest: +SKIP
    """

    objective_: Objective = field(init=False)
    tolerance = _TOLERANCE

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
            Lists of this pool; built by default.
        progress : callable or bool, optional
            Called with (starts done, starts in all); True draws a bar.

        Raises
        ------
        InputError
            If a topic is unknown, no topic has a relevant document in its list, the lists are of another
            pool, or a constructor argument is outside its domain.
        """
        measures = self._check()
        report = self._report(progress)
        record = SearchRecord(pool, None, space=self.space, topics=topics, repeats=True)
        self.objective_ = objective_for(parse_objective(self.objective), pool, self.depth)
        alphas = self._alphas(self.objective_)
        if lists is None:
            lists = self.build_data(pool, record.space)["lists"]
        elif lists.pool is not pool:
            raise InputError(
                "the lists are of another pool", value=lists.pool.name, accepted="lists of this pool"
            )
        cost = SurrogateCost(lists, self.objective_, record.positions)
        search = _Search(record, cost, OPTIMIZERS[self.optimizer], self._penalty(pool, record.positions))
        ends = []
        for start, x in enumerate(search.starts(self.starts, alphas[-1], self.seed)):
            # The first start goes through all steepnesses; the others were selected at the last one.
            for alpha in alphas if start == 0 else alphas[-1:]:
                end = search.descend(
                    start, x, alpha, self.tolerance if alpha == alphas[-1] else LOOSE_TOLERANCE
                )
                x = end.x
            ends.append(end)
            report(start + 1, self.starts)
        end = search.best(ends, self.depth)
        self._close(record, measures, alpha=search.alphas)
        self._choose(record.space, end.row)
        self.converged_, self.n_evaluations_ = end.converged, search.evaluations
        return self

    def build_data(self, pool: CandidatePool, space: ParameterSpace) -> dict[str, Any]:
        """Build the lists."""
        depth = self.list_depth
        if depth is None:
            objective = objective_for(parse_objective(self.objective), pool, self.depth)
            depth = lists_depth(objective, pool, self.depth)
        return {"lists": Lists.build(pool, space, depth=depth, seed=self.seed)}

    @property
    def selection_measure(self) -> Measure:
        """The measure of the fitted objective."""
        return self.objective_.measure

    def warm_start_params(self) -> dict[str, Any]:
        """Use only the last steepness."""
        return {"alpha": self._alphas(parse_objective(self.objective))[-1:]}

    def _alphas(self, objective: Objective) -> list[float]:
        alphas = [float(alpha) for alpha in np.atleast_1d(self.alpha)]
        rising = all(a < b for a, b in itertools.pairwise(alphas))
        if not (alphas and rising and alphas[0] > 0.0 and np.isfinite(alphas[-1])):
            raise InputError("bad alpha", value=self.alpha, accepted="rising numbers above 0")
        if objective.fits_steepness:
            return alphas[:1]
        return alphas


class _End(NamedTuple):
    """The end of a descent: the point, its cost, its row in the record, and whether the descent converged."""

    x: Doubles
    cost: float
    row: int
    converged: bool


class _Search:
    """The descents of a fit; their iterates go to the record."""

    def __init__(
        self, record: SearchRecord, cost: SurrogateCost, minimise: Callable[..., Descent], penalty: Ridge
    ) -> None:
        self.record, self.cost, self.minimise, self.penalty = record, cost, minimise, penalty
        # Pair weights depend on the setting, so the costs of ``lambda-...`` are not comparable.
        self.weighted, self.fitted = cost.objective.family == "lambda", cost.objective.fits_steepness
        self.evaluations = 0
        self.alphas: list[float] = []

    def starts(self, count: int, alpha: float, seed: int) -> list[Doubles]:
        """Return the space's start and the best of its random settings, by cost at a steepness."""
        space, rng = self.record.space, np.random.default_rng(seed)
        draws = [space.random(rng) for _ in range(max(_DRAWS, count - 1) if count > 1 else 0)]
        if not self.weighted:
            self.evaluations += len(draws)
            draws.sort(key=lambda setting: self.cost.value(setting, alpha))
        return [space.to_unbounded(setting) for setting in (space.start, *draws[: count - 1])]

    def descend(self, start: int, x: Doubles, alpha: float, tolerance: float) -> _End:
        """Minimise from a point; the steepness is constant unless the objective fits it."""
        space, box = self.record.space, self.record.space.unbounded_box
        parameters = len(box)
        if self.fitted:
            x, box = np.append(x, np.log(alpha)), (*box, tuple(np.log(_STEEPNESS)))
        converged = False
        for _ in range(_MOST_ROUNDS if self.weighted else 1):
            if self.weighted:
                self.cost.weight_pairs(space.from_unbounded(x[:parameters]))
            evaluations = Evaluations(lambda x: self._evaluate(x, alpha), self.record.begin)
            descent = self.minimise(evaluations, x, box, tolerance=tolerance)
            self._record(evaluations, start, descent.points, alpha)
            still = not self.weighted or bool(np.abs(descent.points[-1].x - x).max() < _STILL)
            x, converged = descent.points[-1].x, descent.converged and still
            if still:
                break
        return _End(x[:parameters], descent.points[-1].cost, len(self.alphas) - 1, converged)

    def best(self, ends: Sequence[_End], depth: int) -> _End:
        """Return the end with the lowest cost, or with the best measure if costs are not comparable."""
        if not self.weighted:
            return min(ends, key=lambda end: end.cost)
        pool, positions, space = self.record.pool, self.record.positions, self.record.space
        settings = np.array([space.from_unbounded(end.x) for end in ends])
        measure = self.cost.objective.measure
        values = measure_settings(pool, settings, [measure], topics=positions, depth=depth)
        return ends[int(pool.mean(values[:, :, 0], positions).argmax())]

    def _evaluate(self, x: Doubles, alpha: float) -> tuple[float, Doubles]:
        space = self.record.space
        parameters = len(space.names)
        setting = space.from_unbounded(x[:parameters])
        cost = self.cost(setting, alpha if x.size == parameters else float(np.exp(x[-1])))
        pull, pulled = self.penalty.at(setting)
        slope = space.chain(cost.gradient[:-1] + pulled, setting)
        value = cost.value + pull
        return value, slope if x.size == parameters else np.append(slope, cost.gradient[-1])

    def _record(self, evaluations: Evaluations, start: int, points: Sequence[Iterate], alpha: float) -> None:
        evaluations.record(self.record, start, points)
        self.alphas += [float(np.exp(point.x[-1])) if self.fitted else alpha for point in points]
        self.evaluations += len(evaluations)


def objective_for(objective: Objective, pool: CandidatePool, depth: int) -> Objective:
    """Adapt an objective to a pool: without judged non-relevant documents, Bpref becomes R@depth."""
    if lacks_nonrelevant(pool, objective.measure):
        return Objective(objective.family, Measure("R", depth, objective.measure.rel))
    return objective


def lists_depth(objective: Objective, pool: CandidatePool, depth: int) -> int:
    """Return the default depth of an objective's lists: see `SurrogateTuner`."""
    measure = objective.measure
    far = (
        2 * measure.cutoff if measure.cutoff else round(_RELEVANT * pool.judged_counts(measure.rel)[0].mean())
    )
    wanted = max(LIST_DEPTH, min(far, depth))
    return wanted if pool.pruning is None else min(wanted, pool.pruning.depth)
