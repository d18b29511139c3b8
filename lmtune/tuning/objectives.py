"""What stands in for a measure of a formula's parameters: names, and costs with gradients."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.errors import InputError
from lmtune.losses.approx_kernels import Aims, approx_queries
from lmtune.losses.list_kernels import listnet_queries
from lmtune.losses.packing_kernels import ByLabel, discount_table
from lmtune.losses.pair_kernels import Swaps, ranknet_queries, weighted_queries
from lmtune.measures.evaluate import divisors, worths
from lmtune.measures.kinds import EXPONENTIAL
from lmtune.measures.measure import Measure, parse_measure
from lmtune.models.parameter import Setting, as_settings
from lmtune.threads import over_slices
from lmtune.tuning import kernels
from lmtune.tuning.pairs import Cost, Lists

ACCEPTED = "approx-ap, approx-ndcg@10, approx-p@10, approx-bpref, approx-rr, approx-r@100, softmax, ranknet, "
ACCEPTED += "lambda-ap, lambda-ndcg@10, song"

# Pairs of a relevant document and another below which a second thread costs more than it brings.
_MANY_PAIRS = 1 << 18
_Fill = Callable[[int, int, Doubles, Doubles], None]
Family = Literal["approx", "lambda", "song", "softmax", "ranknet"]


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

    family: Family
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
    raise InputError("unknown objective", value=text, accepted=ACCEPTED)


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

    def _targets(self, lists: Lists, gain: Integers, topics: Integers) -> tuple[Aims, Doubles]:
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
        return Aims(int(kernel), k, 0.0, hinge, worth, ideal, part, bound), labels

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
