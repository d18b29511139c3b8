"""What a certificate works on: groups of equal documents; and what it needs to know of a formula."""

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
# Stands for mu or k1 = 0, which have no logarithm. Every computed score is the same to the last bit;
# for mu where lambda is no smaller than the other.
_TINY, _LEAST_LAMBDA = 1e-200, 1e-100
# How near tf / |D| and P(w|C) count as equal; far above their rounding, far below what two
# different fractions of token counts differ by.
_NEUTRAL = 1e-13


class _TopicScores(NamedTuple):
    """What one topic's scores are made of.

    Attributes
    ----------
    tf, length : numpy.ndarray of int64, shapes (terms, documents) and (documents,)
        Documents that are equal in both have equal bits at every setting.
    alike : numpy.ndarray of int64, shape (documents,)
        Equal numbers for documents of equal scores at every setting, but for rounding.
    placed : numpy.ndarray of int64, shape (documents,)
        Equal numbers, 0 or more, for documents whose order is that of their places at every
        setting; -1 for none.
    y : numpy.ndarray of float64, shape (terms, documents)
        Frequencies, as the model of scores takes them.
    size : numpy.ndarray of float64, shape (documents,)
        Lengths, as it takes them.
    weight : numpy.ndarray of float64, shape (terms,)
        What each term counts.
    product : bool
        Whether products are safe in the whole range.
    slack : float
        What covers the rounding of two scores and of their models.
    """

    tf: Integers
    length: Integers
    alike: Integers
    placed: Integers
    y: Doubles
    size: Doubles
    weight: Doubles
    product: bool
    slack: float


class Proof(NamedTuple):
    """A formula's part in a certificate.

    Attributes
    ----------
    model : int
        Which kernel models its scores over a box.
    first_widths : tuple of float
        The first boxes are no larger than this; nothing is decided in larger ones.
    to_point, to_setting : callable
        From a setting to the coordinates in which boxes stand, and back.
    check : callable
        Raises `InputError` for a space that it cannot do.
    topic : callable
        A topic's scores, given its place in a pool and the space.
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
        Where there is none.
    """
    check_choice("no certificate's proof holds for this model", formula.bounds, _PROOFS)
    return _PROOFS[formula.bounds]


def _row_ids(columns: list[Integers]) -> Integers:
    """Give equal rows, and no others, equal numbers, in lexicographic order."""
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
            "lambda is too near 0 for a certificate at mu = 0",
            value=lambdas.low,
            accepted=f"{_LEAST_LAMBDA:g} or more",
        )


def _two_stage(pool: CandidatePool, t: int, space: ParameterSpace) -> _TopicScores:
    r"""Describe scores of two-stage smoothing.

    Twins have equal lengths, and equal term frequencies up to an exchange between terms with the
    same P(w|C) and count; or, both of them, tf = P(w|C) \|D\| in every term, so that smoothing
    changes nothing. Where mu is 0, lengths and term frequencies need only be proportional.
    """
    tf, length, p, count = _columns(pool, t)
    neutral: Booleans = np.asarray((np.abs(tf - p[:, None] * length) <= _NEUTRAL * tf).all(axis=0))
    alike = _alike(tf, length, p, count, proportional=space.high[1] == 0.0, but=neutral)
    y = tf * (1.0 / p)[:, None]
    product, slack = _two_stage_rounding(y, length, count, space)
    placed, size, weight = _row_ids([length, *tf]), length.astype(np.float64), count.astype(np.float64)
    return _TopicScores(tf, length, alike, placed, y, size, weight, product, slack)


def _bm25(pool: CandidatePool, t: int, space: ParameterSpace) -> _TopicScores:
    """Describe scores of BM25.

    Twins have equal lengths, and equal term frequencies up to an exchange between terms with the
    same idf and count; where b is 1, they need only be proportional. Where b is 0, lengths do not
    count; where k1 is 0, neither do repetitions. Of documents with equal frequencies the shorter one
    is first at every setting, also where b = 0 makes them equal: the order of their places.
    """
    tf, length, idf, count = _columns(pool, t)
    size = length / pool.mean_length
    if space.high[0] == 0.0:
        tf = np.minimum(tf, 1)
    if 0.0 in space.high:
        length = np.zeros_like(length)
        size = np.ones(length.size)
    alike = _alike(tf, length, idf, count, proportional=space.low[1] == 1.0)
    weight = idf * count
    y = tf.astype(np.float64)
    slack = slack_of(weight)
    return _TopicScores(tf, length, alike, _row_ids([*tf]), y, size, weight, product=False, slack=slack)


def _columns(pool: CandidatePool, t: int) -> tuple[Integers, Integers, Doubles, Integers]:
    terms = pool.term_rows(t)
    tf = pool.tf_block(pool.candidates, t).astype(np.int64)
    return (
        tf,
        pool.candidates.length[pool.candidates.rows(t)].astype(np.int64),
        pool.value[terms],
        pool.count[terms],
    )


def _alike(
    tf: Integers,
    length: Integers,
    value: Doubles,
    count: Integers,
    *,
    proportional: bool,
    but: Booleans | None = None,
) -> Integers:
    """Give documents numbers by length and by frequencies, sorted within terms of equal value and count."""
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
    r"""Say whether products are safe in the whole range, and bound the rounding of a score.

    The measuring kernel computes a factor x with 8 roundings at most (2 in tf / P(w|C), 1 in the
    sum with mu, 3 in (1 - lambda) / (mu + \|D|), the product, the sum with lambda), all of them in
    sums and products of non-negative numbers: log x is right to 8 units u = 2^-53. A product of W
    factors adds W of them; a sum of W logarithms, \|log x| <= M, adds 3 M each (with its product
    with a count) and W M a sum: at most u W (9 + M (3 + W)) in all. A model's value has the
    roundings of exp and expm1 besides, and costs less than as much again. Two scores, two values
    and their difference: less than twice 32 u W (1 + M (1 + W)), and every document's error
    includes one of these.
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


# Relative, and more than a logarithm is wrong by.
_WIDEN = 2.0**-50


@dataclass(frozen=True)
class Problem:
    r"""What to bound, as columns for `lmtune.tuning.certificate.bound_kernels.bound_box`.

    Only topics with a relevant candidate are here; the others measure 0 at every setting.
    Nonrelevant documents (for nDCG all) with the same term frequencies, length and class are one group.

    A group and a relevant document whose scores are equal for *all* parameters are twins;
    `lmtune.tuning.certificate.problem` says which are. No box decides such a pair. Where their places do at
    every setting, as where their columns are equal and the measuring kernel gives both the same
    bits, the members of the group that stand before the relevant document are in `base` from the
    start. Otherwise rounding decides, and the group counts as below, which can only raise a bound.

    Attributes
    ----------
    topics : int
        Topics in the mean, those without a relevant candidate included.
    places : numpy.ndarray of int64, shape (topics here,)
        Where the topics here are in the pool.
    columns : BoundColumns
        Topics here, their groups and relevant candidates.
    ceiling : numpy.ndarray of float64, shape (topics here,)
        What the measure cannot exceed whatever the ranking: not all relevant documents match.
    state : State
        That of the whole range: every group listed.
    sides : tuple of float
        The whole range, wide enough that the coordinates of every allowed setting lie inside.
    proof : Proof
        The formula's.
    """

    topics: int
    places: Integers
    columns: BoundColumns
    ceiling: Doubles
    state: State
    sides: Sides
    proof: Proof

    @staticmethod
    def check(measure: Measure) -> None:
        """Raise `InputError` unless there are bounds of a measure."""
        if measure.is_slow:
            known = [name for name, kind in KINDS.items() if kind.kernel in SUMS]
            raise InputError("the measure cannot be certified", value=str(measure), accepted=", ".join(known))

    @staticmethod
    def check_pool(pool: CandidatePool) -> None:
        """Raise `InputError` for a topic with a negative term weight, which no bound allows."""
        if pool.negative:
            raise InputError(
                "no certificate is proved for a topic with a negative term weight",
                value=pool.negative[0],
                accepted="weights of 0 or more, or no --certify",
            )

    @classmethod
    def build(
        cls, pool: CandidatePool, measure: Measure, *, space: ParameterSpace, topics: Integers, depth: int
    ) -> Problem:
        """Group the candidates of topics, given by their places in the pool."""
        cls.check_pool(pool)
        relevant, nonrelevant = pool.judged_counts(measure.rel)
        gain = pool.candidates.gain
        chosen = [int(t) for t in topics if (gain[pool.candidates.rows(t)] >= measure.rel).any()]
        proof = proof_of(pool.formula)
        proof.check(space)
        parts = [_topic(pool, t, measure, proof.topic(pool, t, space)) for t in chosen]
        cutoff = depth if measure.cutoff is None else min(depth, measure.cutoff)
        divisor = divisors(pool, measure)[chosen]
        found = np.array([part.relevant.length.size for part in parts], np.int64)
        assert measure.declared.kernel is not None
        kind = int(measure.declared.kernel)
        gains = [gain[pool.candidates.rows(t)] for t in chosen]
        worth = [worths(measure, own[own >= measure.rel]) for own in gains]
        ceiling = np.minimum(np.minimum(found, cutoff) / divisor, 1.0)
        if measure.declared.is_graded:
            scales = [MeasureScale(kind, cutoff, 0, 0, own) for own in divisor]
            best = [
                ndcg_from_counts(one, np.zeros(own.size, np.int64), own)
                for one, own in zip(scales, worth, strict=True)
            ]
            ceiling = np.array(best, np.float64)
        return cls(
            topics=topics.size,
            places=np.array(chosen, np.int64),
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
            state=_undecided(parts, found),
            sides=_sides(proof, space),
            proof=proof,
        )


class _TopicGroups(NamedTuple):
    """One topic's documents, or groups of equal ones; y is (terms x documents)."""

    y: Doubles
    length: Doubles
    weight: Integers
    twin: Integers
    placed: Integers


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

    # Judged groups come first, as a class of their own.
    key = _row_ids([(~judged).astype(np.int64), scores.length, *scores.tf])[others]
    _, leaders, group_of = np.unique(key, return_index=True, return_inverse=True)
    leaders = others[leaders]
    base = np.zeros((2, rels.size), np.int32)
    for i, r in enumerate(rels):
        ahead = others[: np.searchsorted(others, r)]
        ahead = ahead[scores.placed[ahead] == scores.placed[r]]
        base[:, i] = judged[ahead].sum(), (~judged[ahead]).sum()

    alike, y, size = scores.alike, scores.y, scores.size
    weight = np.bincount(group_of, minlength=leaders.size)
    twin, placed = (
        np.where(np.isin(ids[leaders], ids[rels]), ids[leaders], -1) for ids in (alike, scores.placed)
    )
    return _Topic(
        scores,
        judged_groups=int(judged[leaders].sum()),
        groups=_TopicGroups(y[:, leaders], size[leaders], weight, twin, placed),
        relevant=_TopicGroups(y[:, rels], size[rels], np.ones_like(rels), alike[rels], scores.placed[rels]),
        base=base,
    )


def _undecided(parts: Sequence[_Topic], found: Integers) -> State:
    """Return the state of the whole range: every group listed, its judged ones first."""
    groups = [part.groups.length.size for part in parts]
    doc_start = np.zeros(2 * len(parts) + 1, np.int64)
    doc_start[2::2] = np.cumsum(groups)
    doc_start[1::2] = doc_start[:-1:2] + [part.judged_groups for part in parts]
    return State(
        docs=_join([np.arange(size) for size in groups], np.int32),
        doc_start=doc_start,
        base=np.concatenate([np.zeros((2, 0), np.int32), *(part.base for part in parts)], axis=1),
        active=np.repeat(np.diff(doc_start).reshape(-1, 2).T > 0, found, axis=1).astype(np.uint8),
    )


def _documents(parts: Sequence[_TopicGroups]) -> DocumentGroups:
    return DocumentGroups(
        start=_starts([part.length for part in parts]),
        y=_join([part.y.ravel() for part in parts], np.float64),
        y_start=_starts([part.y for part in parts]),
        length=_join([part.length for part in parts], np.float64),
        weight=_join([part.weight for part in parts], np.int32),
        twin=_join([part.twin for part in parts], np.int64),
        placed=_join([part.placed for part in parts], np.int64),
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
