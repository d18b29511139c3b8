"""What a certificate works on: relevant documents, and groups of equal documents that are not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures import kernels
from lmtune.measures.measure import Measure
from lmtune.models.kernels import product_is_safe
from lmtune.tuning.certificate.bound_kernels import BoundColumns, DocumentGroups, State, Topics
from lmtune.tuning.certificate.taylor_kernels import Sides
from lmtune.tuning.space import ParameterSpace

_KINDS = {
    "AP": kernels.AP,
    "P": kernels.PRECISION,
    "Bpref": kernels.BPREF,
    "RR": kernels.RECIPROCAL_RANK,
    "R": kernels.RECALL,
    "Success": kernels.SUCCESS,
}
_UNIT = 2.0**-53
# Relative, and more than a logarithm is wrong by.
_WIDEN = 8.0 * _UNIT
# Stands for mu = 0, which has no logarithm. Every computed score is the same to the last bit where
# lambda is no smaller than the other.
_TINY_MU, _LEAST_LAMBDA = 1e-200, 1e-100
# How near tf / |D| and P(w|C) count as equal; far above their rounding, far below what two
# different fractions of token counts differ by.
_NEUTRAL = 1e-13


@dataclass(frozen=True)
class Problem:
    r"""What to bound, as columns for `lmtune.tuning.certificate.bound_kernels.bound_box`.

    Only topics with a relevant candidate are here; the others measure 0 at every setting.
    Nonrelevant documents with the same term frequencies, length and class are one group.

    A group and a relevant document whose scores are equal for *all* parameters are twins: equal
    lengths, and equal term frequencies up to an exchange between terms with the same P(w|C) and
    count; or, both of them, tf = P(w|C) \|D\| in every term, so that smoothing changes nothing.
    Where mu is 0, lengths and term frequencies need only be proportional. No box decides such a
    pair. If their columns are equal without an exchange, the measuring kernel
    gives both the same bits and positions decide: the members of the group that stand before the
    relevant document are in `base` from the start. Otherwise rounding decides, and the group
    counts as below, which can only raise a bound.

    Attributes
    ----------
    topics : int
        Topics in the mean, those without a relevant candidate included.
    columns : BoundColumns
        Topics here, their groups and relevant candidates.
    ceiling : numpy.ndarray of float64, shape (topics here,)
        What the measure cannot exceed whatever the ranking: not all relevant documents match.
    state : State
        That of the whole range: every group listed.
    sides : tuple of float
        The whole range, wide enough that the logarithms of every allowed setting lie inside.
    """

    topics: int
    columns: BoundColumns
    ceiling: NDArray[np.float64]
    state: State
    sides: Sides

    @staticmethod
    def check(measure: Measure) -> None:
        """Raise `InputError` unless there are bounds of a measure."""
        if measure.kind not in _KINDS:
            raise InputError(
                "the measure cannot be certified", value=str(measure), accepted=", ".join(_KINDS)
            )

    @classmethod
    def build(
        cls,
        pool: CandidatePool,
        measure: Measure,
        *,
        space: ParameterSpace,
        topics: NDArray[np.int64],
        depth: int,
    ) -> Problem:
        """Group the candidates of topics, given by their places in the pool."""
        relevant, nonrelevant = pool.judged_counts(measure.rel)
        gain = pool.candidates.gain
        chosen = [int(t) for t in topics if (gain[pool.candidates.rows(t)] >= measure.rel).any()]
        parts = [_topic(pool, t, measure, space) for t in chosen]
        cutoff = depth if measure.cutoff is None else min(depth, measure.cutoff)
        divisor = relevant[chosen].astype(np.float64)
        if measure.kind == "P":
            divisor[:] = measure.cutoff
        elif measure.kind in ("RR", "Success"):
            divisor[:] = 1.0
        found = np.array([part.relevant.length.size for part in parts], np.int64)
        groups = [part.groups.length.size for part in parts]
        doc_start = np.zeros(2 * len(parts) + 1, np.int64)
        doc_start[2::2] = np.cumsum(groups)
        doc_start[1::2] = doc_start[:-1:2] + [part.judged_groups for part in parts]
        return cls(
            topics=topics.size,
            columns=BoundColumns(
                _KINDS[measure.kind],
                cutoff,
                Topics(
                    occurrences=_join([part.occurrences for part in parts], np.int64),
                    term_start=_starts([part.occurrences for part in parts]),
                    product=np.array([part.product for part in parts], np.bool_),
                    slack=np.array([part.slack for part in parts], np.float64),
                    relevant=relevant[chosen],
                    nonrelevant=nonrelevant[chosen],
                    divisor=divisor,
                ),
                _documents([part.groups for part in parts]),
                _documents([part.relevant for part in parts]),
            ),
            ceiling=np.minimum(np.minimum(found, cutoff) / divisor, 1.0),
            state=State(
                docs=_join([np.arange(size) for size in groups], np.int32),
                doc_start=doc_start,
                base=np.concatenate([np.zeros((2, 0), np.int32), *(p.base for p in parts)], axis=1),
                active=np.repeat(np.diff(doc_start).reshape(-1, 2).T > 0, found, axis=1).astype(np.uint8),
            ),
            sides=_sides(space),
        )


class _TopicGroups(NamedTuple):
    """One topic's documents, or groups of equal ones; y is (terms x documents)."""

    y: NDArray[np.float64]
    length: NDArray[np.int64]
    weight: NDArray[np.int64]
    twin: NDArray[np.int64]


class _Topic(NamedTuple):
    occurrences: NDArray[np.int64]
    product: bool
    slack: float
    judged_groups: int
    groups: _TopicGroups
    relevant: _TopicGroups
    base: NDArray[np.int32]


def _topic(pool: CandidatePool, t: int, measure: Measure, space: ParameterSpace) -> _Topic:
    rows = pool.candidates.rows(t)
    gain = pool.candidates.gain[rows]
    length = pool.candidates.length[rows].astype(np.int64)
    tf = pool.tf_block(pool.candidates, t).astype(np.int64)
    p, count = pool.p[pool.term_rows(t)], pool.count[pool.term_rows(t)]
    rels = np.flatnonzero(gain >= measure.rel)
    others = np.flatnonzero(gain < measure.rel)
    judged = (gain >= 0) if measure.kind == "Bpref" else np.zeros(gain.size, np.bool_)

    # Judged groups come first, as a class of their own.
    key = _row_ids([(~judged).astype(np.int64), length, *tf])[others]
    _, leaders, group_of = np.unique(key, return_index=True, return_inverse=True)
    leaders = others[leaders]
    equal = _row_ids([length, *tf])
    base = np.zeros((2, rels.size), np.int32)
    for i, r in enumerate(rels):
        ahead = others[: np.searchsorted(others, r)]
        ahead = ahead[equal[ahead] == equal[r]]
        base[:, i] = judged[ahead].sum(), (~judged[ahead]).sum()

    neutral = (np.abs(tf - p[:, None] * length) <= _NEUTRAL * tf).all(axis=0)
    common = np.gcd.reduce([length, *tf]) if space.high[1] == 0.0 else np.ones_like(length)
    frequencies = _exchangeable(tf // common, p, count)
    alike = _row_ids([np.where(neutral, 0, part) for part in (length // common, *frequencies)])
    y = tf * (1.0 / p)[:, None]
    product, slack = _rounding(y, length, count, space)
    weight = np.bincount(group_of, minlength=leaders.size)
    twin = np.where(np.isin(alike[leaders], alike[rels]), alike[leaders], -1)
    return _Topic(
        occurrences=count,
        product=product,
        slack=slack,
        judged_groups=int(judged[leaders].sum()),
        groups=_TopicGroups(y[:, leaders], length[leaders], weight, twin),
        relevant=_TopicGroups(y[:, rels], length[rels], np.ones_like(rels), alike[rels]),
        base=base,
    )


def _documents(parts: Sequence[_TopicGroups]) -> DocumentGroups:
    return DocumentGroups(
        start=_starts([part.length for part in parts]),
        y=_join([part.y.ravel() for part in parts], np.float64),
        y_start=_starts([part.y for part in parts]),
        length=_join([part.length for part in parts], np.float64),
        weight=_join([part.weight for part in parts], np.int32),
        twin=_join([part.twin for part in parts], np.int64),
    )


def _row_ids(columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Give equal rows, and no others, equal numbers, in lexicographic order."""
    ids = columns[0].copy()
    for column in columns[1:]:
        width = int(column.max(initial=0)) + 1
        if int(ids.max(initial=0)) + 1 > 2**62 // width:
            ids = np.unique(ids, return_inverse=True)[1].astype(np.int64)
        ids = ids * width + column
    return ids


def _exchangeable(
    tf: NDArray[np.int64], p: NDArray[np.float64], count: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Sort each document's frequencies within terms of equal P(w|C) and count."""
    order = np.lexsort((count, p))
    key = np.stack([p[order], count[order]])
    edges = np.flatnonzero((np.diff(key) != 0).any(axis=0)) + 1
    return np.concatenate([np.sort(part, axis=0) for part in np.split(tf[order], edges)])


def _rounding(
    y: NDArray[np.float64], length: NDArray[np.int64], count: NDArray[np.int64], space: ParameterSpace
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


def _sides(space: ParameterSpace) -> Sides:
    lambdas, mus = space.parameters
    if mus.high == 0.0 and lambdas.low < _LEAST_LAMBDA:
        raise InputError(
            "lambda is too near 0 for a certificate at mu = 0",
            value=lambdas.low,
            accepted=f"{_LEAST_LAMBDA:g} or more",
        )

    def widen(low: float, high: float) -> tuple[float, float]:
        return low - _WIDEN * abs(low), high + _WIDEN * abs(high)

    return (
        *widen(math.log1p(-lambdas.high), math.log1p(-lambdas.low)),
        *widen(math.log(mus.low or _TINY_MU), math.log(mus.high or _TINY_MU)),
    )


def _join(parts: Sequence[NDArray[Any]], kind: type[Any]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, kind), *parts]).astype(kind, copy=False)


def _starts(parts: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum([part.size for part in parts]))).astype(np.int64)
