"""Input of branch and bound: groups of equal documents, and each formula's part of the proof."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Booleans, Doubles, Integers, Integers32
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_choice
from lmtune.measures.evaluate import divisors, worths
from lmtune.measures.kinds import KINDS, SUMS
from lmtune.measures.measure import Measure
from lmtune.measures.value_kernels import MeasureScale, ndcg_from_counts
from lmtune.models.formula import Formula
from lmtune.models.kernels import product_is_safe
from lmtune.models.taylor_kernels import Sides, slack_of
from lmtune.tuning.certificate.bound_kernels import (
    BM25,
    TWO_STAGE,
    BoundColumns,
    DocumentGroups,
    State,
    Topics,
)
from lmtune.tuning.space import ParameterSpace

_Point = tuple[float, float]

_UNIT = 2.0**-53
# Replaces mu = 0 or k1 = 0 in logarithms. Every computed score has the same bits; for mu, this needs a lambda
# of at least `_LEAST_LAMBDA`.
_TINY, _LEAST_LAMBDA = 1e-200, 1e-100
# Relative tolerance for tf / |D| = P(w|C): far above rounding, and far below the difference of two different
# fractions of token counts.
_NEUTRAL = 1e-13


class _TopicScores(NamedTuple):
    """The statistics that determine a topic's scores.

    Attributes
    ----------
    tf, length : numpy.ndarray of int64, shapes (terms, documents) and (documents,)
        Term frequencies and lengths. Documents that are equal in both have bitwise equal scores at every
        setting.
    score_class : numpy.ndarray of int64, shape (documents,)
        Documents of one class have equal scores at every setting, up to rounding.
    order_class : numpy.ndarray of int64, shape (documents,)
        Documents of one class, 0 or more, are ranked by their positions at every setting; -1 is no class.
    y : numpy.ndarray of float64, shape (terms, documents)
        Scaled term frequencies, for the Taylor models.
    size : numpy.ndarray of float64, shape (documents,)
        Scaled lengths, for the Taylor models.
    weight : numpy.ndarray of float64, shape (terms,)
        The terms' weights.
    product : bool
        Whether products of factors neither overflow nor underflow in the whole range.
    slack : float
        An upper bound of the rounding errors of two scores and their models.
    """

    tf: Integers
    length: Integers
    score_class: Integers
    order_class: Integers
    y: Doubles
    size: Doubles
    weight: Doubles
    product: bool
    slack: float


class Proof(NamedTuple):
    """A formula's part of the proof.

    Attributes
    ----------
    model : int
        The kernel that models scores over a box: `TWO_STAGE` or `BM25`.
    first_widths : tuple of float
        The largest size of the first boxes, per coordinate; larger ones decide no pair.
    to_point, to_setting : callable
        Convert a setting to the coordinates of boxes, and back.
    check : callable
        Raises `InputError` for a space that the proof does not cover.
    topic : callable
        Returns a topic's statistics, from a pool, the topic's position in it and a space.
    """

    model: int
    first_widths: _Point
    to_point: Callable[[float, float], _Point]
    to_setting: Callable[[float, float], _Point]
    check: Callable[[ParameterSpace], None]
    topic: Callable[[CandidatePool, int, ParameterSpace], _TopicScores]


def proof_of(formula: Formula) -> Proof:
    """Return a formula's proof.

    Raises
    ------
    InputError
        If the formula has none.
    """
    check_choice("this model cannot be certified", formula.bounds, _PROOFS)
    return _PROOFS[formula.bounds]


def _row_ids(columns: list[Integers]) -> Integers:
    """Return a number for each row of several columns, in lexicographic order and equal for equal rows."""
    ids = columns[0].copy()
    for column in columns[1:]:
        width = int(column.max(initial=0)) + 1
        if int(ids.max(initial=0)) + 1 > 2**62 // width:
            ids = np.unique(ids, return_inverse=True)[1].astype(np.int64)
        ids = ids * width + column
    return ids


def _check_two_stage(space: ParameterSpace) -> None:
    lambdas, mus = space.parameters
    if mus.high == 0.0 and lambdas.low < _LEAST_LAMBDA:
        raise InputError(
            "lambda is too close to 0 for a certificate at mu = 0",
            value=lambdas.low,
            accepted=f"{_LEAST_LAMBDA:g} or more",
        )


def _two_stage(pool: CandidatePool, t: int, space: ParameterSpace) -> _TopicScores:
    r"""Return a topic's statistics for two-stage smoothing.

    Two documents have equal scores at every setting in two cases. First, their lengths are equal, and their
    term frequencies are equal up to a permutation of terms with the same P(w|C) and count; if mu is always 0,
    proportional values suffice. Second, both have tf = P(w|C) \|D\| for every term, so that smoothing changes
    nothing.
    """
    tf, length, p, count = _columns(pool, t)
    neutral: Booleans = np.asarray((np.abs(tf - p[:, None] * length) <= _NEUTRAL * tf).all(axis=0))
    score_class = _score_classes(tf, length, p, count, proportional=space.high[1] == 0.0, but=neutral)
    y = tf * (1.0 / p)[:, None]
    product, slack = _two_stage_rounding(y, length, count, space)
    order_class, size, weight = _row_ids([length, *tf]), length.astype(np.float64), count.astype(np.float64)
    return _TopicScores(tf, length, score_class, order_class, y, size, weight, product, slack)


def _bm25(pool: CandidatePool, t: int, space: ParameterSpace) -> _TopicScores:
    """Return a topic's statistics for BM25.

    Two documents have equal scores at every setting if their lengths are equal, and their term frequencies
    are equal up to a permutation of terms with the same idf and count. If b is always 1, proportional values
    suffice. If b is always 0, lengths do not matter; if k1 is always 0, repetitions do not matter. Of
    documents with equal frequencies, the shorter one is first at every setting, also if b = 0 makes the
    scores equal: ties are broken by position, and candidates are sorted by length.
    """
    tf, length, idf, count = _columns(pool, t)
    size = length / pool.mean_length
    if space.high[0] == 0.0:
        tf = np.minimum(tf, 1)
    if 0.0 in space.high:
        length = np.zeros_like(length)
        size = np.ones(length.size)
    score_class = _score_classes(tf, length, idf, count, proportional=space.low[1] == 1.0)
    weight = idf * count
    y = tf.astype(np.float64)
    slack = slack_of(weight)
    return _TopicScores(tf, length, score_class, _row_ids([*tf]), y, size, weight, product=False, slack=slack)


def _columns(pool: CandidatePool, t: int) -> tuple[Integers, Integers, Doubles, Integers]:
    terms = pool.term_rows(t)
    tf = pool.tf_block(pool.candidates, t).astype(np.int64)
    return (
        tf,
        pool.candidates.length[pool.candidates.rows(t)].astype(np.int64),
        pool.value[terms],
        pool.count[terms],
    )


def _score_classes(
    tf: Integers,
    length: Integers,
    value: Doubles,
    count: Integers,
    *,
    proportional: bool,
    but: Booleans | None = None,
) -> Integers:
    """Return score classes: by length, and by frequencies sorted within terms of equal value and count.

    Documents in the mask ``but`` form a class of their own.
    """
    common = np.gcd.reduce([length, *tf]) if proportional else np.ones_like(length)
    order = np.lexsort((count, value))
    key = np.stack([value[order], count[order]])
    edges = np.flatnonzero((np.diff(key) != 0).any(axis=0)) + 1
    parts = np.split((tf // common)[order], edges)
    columns = [length // common, *np.concatenate([np.sort(part, axis=0) for part in parts])]
    return _row_ids(columns if but is None else [np.where(but, 0, column) for column in columns])


def _two_stage_rounding(
    y: Doubles, length: Integers, count: Integers, space: ParameterSpace
) -> tuple[bool, float]:
    r"""Return whether products are safe in the whole range, and an upper bound of a score's rounding error.

    The scoring kernel computes a factor x with at most 8 roundings: 2 in tf / P(w|C), 1 in the sum with mu, 3
    in (1 - lambda) / (mu + \|D\|), the product, and the sum with lambda. All terms are non-negative, so the
    error of log x is at most 8 units u = 2^-53. A product of W factors adds W units. A sum of W logarithms
    with \|log x\| <= M adds 3 M per term, including the product with a count, and W M for the sum. Together,
    this is at most u W (9 + M (3 + W)).

    A model's value also has the roundings of exp and expm1, which less than doubles the error. For two
    scores, two values and their difference, the error is below 2 (32 u W (1 + M (1 + W))). Each document's
    error includes half of this.
    """
    weight = int(count.sum())
    (lambda_, mu), most_y = space.low.tolist(), float(y.max())
    shortest, longest = float(length.min()), float(length.max())
    low = (1.0 - lambda_) * mu / (mu + longest) + lambda_
    high = (1.0 - lambda_) * (most_y + mu) / (mu + shortest) + lambda_
    largest = max(-math.log(low) if low > 0.0 else math.inf, abs(math.log(high)))
    # Factors are nearest to 0 and to infinity at the lowest lambda and mu.
    product = bool(product_is_safe(most_y, shortest, longest, weight, lambda_, mu))
    return product, 32.0 * _UNIT * weight * (1.0 + largest * (1.0 + weight))


_TWO_STAGE = Proof(
    TWO_STAGE,
    first_widths=(0.8, 1.5),
    to_point=lambda lambda_, mu: (math.log1p(-lambda_), math.log(mu or _TINY)),
    to_setting=lambda s, u: (0.0 - math.expm1(s), math.exp(u)),
    check=_check_two_stage,
    topic=_two_stage,
)
_BM25 = Proof(
    BM25,
    first_widths=(0.8, 0.15),
    to_point=lambda k1, b: (math.log(k1 or _TINY), b),
    to_setting=lambda s, b: (math.exp(s), b),
    check=lambda _: None,
    topic=_bm25,
)
_PROOFS = {"two-stage": _TWO_STAGE, "bm25": _BM25}


# Relative widening of the range, larger than the rounding error of a logarithm.
_WIDEN = 2.0**-50


@dataclass(frozen=True)
class Problem:
    r"""Input of `lmtune.tuning.certificate.bound_kernels.bound_box`, for a measure, topics and a space.

    It contains only topics with a relevant candidate; the others have the value 0 at every setting.
    Non-relevant documents (for nDCG all) with the same term frequencies, length and class form a group.

    A group and a relevant document are twins if their scores are equal at *all* settings, up to rounding. No
    box decides such a pair. If their positions decide it at every setting (for example because their
    statistics, and so the bits of their scores, are equal), the group's members before the relevant document
    are in `base` from the start. Otherwise rounding decides. Then the group counts as below the relevant
    document, which can only raise a bound.

    Attributes
    ----------
    topics : int
        Number of topics in the mean, including those without a relevant candidate.
    positions : numpy.ndarray of int64, shape (topics here,)
        Positions in the pool of the topics with a relevant candidate.
    columns : BoundColumns
        These topics, their groups and relevant candidates.
    ceiling : numpy.ndarray of float64, shape (topics here,)
        The measure of an ideal ranking of the candidates; below 1 if relevant documents are no candidates.
    state : State
        The state of the whole range, in which every group is undecided.
    sides : tuple of float
        The whole range as a box, widened so that rounding excludes no setting.
    proof : Proof
        The formula's proof.
    """

    topics: int
    positions: Integers
    columns: BoundColumns
    ceiling: Doubles
    state: State
    sides: Sides
    proof: Proof

    @staticmethod
    def check(measure: Measure) -> None:
        """Raise `InputError` unless a measure can be bounded."""
        if measure.is_slow:
            known = [name for name, kind in KINDS.items() if kind.kernel in SUMS]
            raise InputError("the measure cannot be certified", value=str(measure), accepted=", ".join(known))

    @staticmethod
    def check_pool(pool: CandidatePool) -> None:
        """Raise `InputError` if a topic has a negative term weight, which the bounds do not allow."""
        if pool.negative:
            raise InputError(
                "a topic with a negative term weight cannot be certified",
                value=pool.negative[0],
                accepted="weights of 0 or more, or no --certify",
            )

    @classmethod
    def build(
        cls, pool: CandidatePool, measure: Measure, *, space: ParameterSpace, topics: Integers, depth: int
    ) -> Problem:
        """Group the candidates of topics, which are positions in the pool."""
        cls.check_pool(pool)
        relevant, nonrelevant = pool.judged_counts(measure.rel)
        gain = pool.candidates.gain
        chosen = [int(t) for t in topics if (gain[pool.candidates.rows(t)] >= measure.rel).any()]
        proof = proof_of(pool.formula)
        proof.check(space)
        parts = [_topic(pool, t, measure, proof.topic(pool, t, space)) for t in chosen]
        cutoff = depth if measure.cutoff is None else min(depth, measure.cutoff)
        divisor = divisors(pool, measure)[chosen]
        counts = np.array([part.relevant.length.size for part in parts], np.int64)
        assert measure.declared.kernel is not None
        kind = int(measure.declared.kernel)
        gains = [gain[pool.candidates.rows(t)] for t in chosen]
        worth = [worths(measure, gain[gain >= measure.rel]) for gain in gains]
        ceiling = np.minimum(np.minimum(counts, cutoff) / divisor, 1.0)
        if measure.declared.is_graded:
            scales = [MeasureScale(kind, cutoff, 0, 0, ideal) for ideal in divisor]
            best = [
                ndcg_from_counts(scale, np.zeros(topic_worth.size, np.int64), topic_worth)
                for scale, topic_worth in zip(scales, worth, strict=True)
            ]
            ceiling = np.array(best, np.float64)
        return cls(
            topics=topics.size,
            positions=np.array(chosen, np.int64),
            columns=BoundColumns(
                proof.model,
                kind,
                cutoff,
                Topics(
                    occurrences=_join([pool.count[pool.term_rows(t)] for t in chosen], np.int64),
                    weight=_join([part.scores.weight for part in parts], np.float64),
                    term_start=_starts([part.scores.weight for part in parts]),
                    product=np.array([part.scores.product for part in parts], np.bool_),
                    slack=np.array([part.scores.slack for part in parts], np.float64),
                    relevant=relevant[chosen],
                    nonrelevant=nonrelevant[chosen],
                    divisor=divisor,
                ),
                _documents([part.groups for part in parts]),
                _documents([part.relevant for part in parts]),
                _join(worth, np.float64),
            ),
            ceiling=ceiling,
            state=_undecided(parts, counts),
            sides=_sides(proof, space),
            proof=proof,
        )


class _TopicGroups(NamedTuple):
    """One topic's documents, or groups of equal ones; y has shape (terms, documents)."""

    y: Doubles
    length: Doubles
    weight: Integers
    twin: Integers
    order_class: Integers


class _Topic(NamedTuple):
    scores: _TopicScores
    judged_groups: int
    groups: _TopicGroups
    relevant: _TopicGroups
    base: Integers32


def _topic(pool: CandidatePool, t: int, measure: Measure, scores: _TopicScores) -> _Topic:
    gain = pool.candidates.gain[pool.candidates.rows(t)]
    rels = np.flatnonzero(gain >= measure.rel)
    others = np.flatnonzero((gain < measure.rel) | measure.declared.is_graded)
    judged = (gain >= 0) if measure.kind == "Bpref" else np.zeros(gain.size, np.bool_)

    # Judged non-relevant groups are a class of their own and come first.
    key = _row_ids([(~judged).astype(np.int64), scores.length, *scores.tf])[others]
    _, leaders, group_of = np.unique(key, return_index=True, return_inverse=True)
    leaders = others[leaders]
    base = np.zeros((2, rels.size), np.int32)
    for i, r in enumerate(rels):
        ahead = others[: np.searchsorted(others, r)]
        ahead = ahead[scores.order_class[ahead] == scores.order_class[r]]
        base[:, i] = judged[ahead].sum(), (~judged[ahead]).sum()

    score_class, y, size = scores.score_class, scores.y, scores.size
    weight = np.bincount(group_of, minlength=leaders.size)
    twin, order_class = (
        np.where(np.isin(ids[leaders], ids[rels]), ids[leaders], -1)
        for ids in (score_class, scores.order_class)
    )
    return _Topic(
        scores,
        judged_groups=int(judged[leaders].sum()),
        groups=_TopicGroups(y[:, leaders], size[leaders], weight, twin, order_class),
        relevant=_TopicGroups(
            y[:, rels], size[rels], np.ones_like(rels), score_class[rels], scores.order_class[rels]
        ),
        base=base,
    )


def _undecided(parts: Sequence[_Topic], counts: Integers) -> State:
    """Return the state of the whole range: all groups are undecided, judged ones come first."""
    groups = [part.groups.length.size for part in parts]
    doc_start = np.zeros(2 * len(parts) + 1, np.int64)
    doc_start[2::2] = np.cumsum(groups)
    doc_start[1::2] = doc_start[:-1:2] + [part.judged_groups for part in parts]
    return State(
        docs=_join([np.arange(size) for size in groups], np.int32),
        doc_start=doc_start,
        base=np.concatenate([np.zeros((2, 0), np.int32), *(part.base for part in parts)], axis=1),
        active=np.repeat(np.diff(doc_start).reshape(-1, 2).T > 0, counts, axis=1).astype(np.uint8),
    )


def _documents(parts: Sequence[_TopicGroups]) -> DocumentGroups:
    return DocumentGroups(
        start=_starts([part.length for part in parts]),
        y=_join([part.y.ravel() for part in parts], np.float64),
        y_start=_starts([part.y for part in parts]),
        length=_join([part.length for part in parts], np.float64),
        weight=_join([part.weight for part in parts], np.int32),
        twin=_join([part.twin for part in parts], np.int64),
        order_class=_join([part.order_class for part in parts], np.int64),
    )


def _sides(proof: Proof, space: ParameterSpace) -> Sides:
    ends = [proof.to_point(*end.tolist()) for end in (space.low, space.high)]
    first, second = (sorted(coordinate) for coordinate in zip(*ends, strict=True))

    def widen(low: float, high: float) -> tuple[float, float]:
        return low - _WIDEN * abs(low), high + _WIDEN * abs(high)

    return (*widen(*first), *widen(*second))


def _join(parts: Sequence[NDArray[Any]], kind: type[Any]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, kind), *parts]).astype(kind, copy=False)


def _starts(parts: Sequence[NDArray[Any]]) -> Integers:
    return np.concatenate(([0], np.cumsum([part.size for part in parts]))).astype(np.int64)
