"""What a certificate works on: relevant documents, and groups of equal documents that are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.kinds import KINDS
from lmtune.measures.measure import Measure
from lmtune.models.taylor_kernels import Sides
from lmtune.tuning.certificate.bound_kernels import BoundColumns, DocumentGroups, State, Topics
from lmtune.tuning.certificate.proofs import Proof, TopicScores, proof_of, row_ids
from lmtune.tuning.space import ParameterSpace

_KERNELS = {
    name: kind.kernel
    for name, kind in KINDS.items()
    if kind.cutoff is not None and kind.kernel is not None and not kind.is_graded
}
# Relative, and more than a logarithm is wrong by.
_WIDEN = 2.0**-50


@dataclass(frozen=True)
class Problem:
    r"""What to bound, as columns for `lmtune.tuning.certificate.bound_kernels.bound_box`.

    Only topics with a relevant candidate are here; the others measure 0 at every setting.
    Nonrelevant documents with the same term frequencies, length and class are one group.

    A group and a relevant document whose scores are equal for *all* parameters are twins;
    `lmtune.tuning.certificate.proofs` says which are. No box decides such a pair. Where their places do at
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
    places: NDArray[np.int64]
    columns: BoundColumns
    ceiling: NDArray[np.float64]
    state: State
    sides: Sides
    proof: Proof

    @staticmethod
    def check(measure: Measure) -> None:
        """Raise `InputError` unless there are bounds of a measure."""
        if measure.kind not in _KERNELS:
            raise InputError(
                "the measure cannot be certified", value=str(measure), accepted=", ".join(_KERNELS)
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
        proof = proof_of(pool.formula)
        proof.check(space)
        parts = [_topic(pool, t, measure, proof.topic(pool, t, space)) for t in chosen]
        cutoff = depth if measure.cutoff is None else min(depth, measure.cutoff)
        divisor = _divisor(measure, relevant[chosen])
        found = np.array([part.relevant.length.size for part in parts], np.int64)
        return cls(
            topics=topics.size,
            places=np.array(chosen, np.int64),
            columns=BoundColumns(
                proof.model,
                _KERNELS[measure.kind],
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
            ),
            ceiling=np.minimum(np.minimum(found, cutoff) / divisor, 1.0),
            state=_undecided(parts, found),
            sides=_sides(proof, space),
            proof=proof,
        )


class _TopicGroups(NamedTuple):
    """One topic's documents, or groups of equal ones; y is (terms x documents)."""

    y: NDArray[np.float64]
    length: NDArray[np.float64]
    weight: NDArray[np.int64]
    twin: NDArray[np.int64]
    placed: NDArray[np.int64]


class _Topic(NamedTuple):
    scores: TopicScores
    judged_groups: int
    groups: _TopicGroups
    relevant: _TopicGroups
    base: NDArray[np.int32]


def _topic(pool: CandidatePool, t: int, measure: Measure, scores: TopicScores) -> _Topic:
    gain = pool.candidates.gain[pool.candidates.rows(t)]
    rels = np.flatnonzero(gain >= measure.rel)
    others = np.flatnonzero(gain < measure.rel)
    judged = (gain >= 0) if measure.kind == "Bpref" else np.zeros(gain.size, np.bool_)

    # Judged groups come first, as a class of their own.
    key = row_ids([(~judged).astype(np.int64), scores.length, *scores.tf])[others]
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


def _divisor(measure: Measure, relevant: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what each topic's sum is divided by, of how many are relevant to it."""
    if measure.kind == "P":
        return np.full(relevant.size, measure.cutoff, np.float64)
    if measure.kind in ("RR", "Success"):
        return np.ones(relevant.size)
    return relevant.astype(np.float64)


def _undecided(parts: Sequence[_Topic], found: NDArray[np.int64]) -> State:
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


def _starts(parts: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum([part.size for part in parts]))).astype(np.int64)
