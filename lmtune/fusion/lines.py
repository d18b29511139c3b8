"""The mean of a measure along a line of weights, exactly: every step of it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Booleans, Doubles, Integers
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.fusion import kernels
from lmtune.measures.evaluate import DEPTH, divisors, worths
from lmtune.measures.kinds import Code
from lmtune.measures.measure import Measure
from lmtune.measures.value_kernels import MeasureScale
from lmtune.threads import over_places

# Pairs of documents looked at together: their crossings fit in memory.
_PAIRS = 1 << 23
_SECONDS = 2e-8  # a pair, or a document's column
# Up to this cutoff, with more documents than that, those that never come so high are worth a look.
_SHALLOW, _FEW = 200, 100
# Means that differ by less are equal but for rounding.
EQUAL = 1e-12
_LARGEST_WEIGHT = 1 << 26


class Steps(NamedTuple):
    """A piecewise constant function of t from 0 to 1.

    Attributes
    ----------
    at : numpy.ndarray of float64, shape (steps,)
        Where each step begins. Where the next begins at the same t, it is that point alone.
    value : numpy.ndarray of float64, shape (steps,) or (steps, columns)
        The value from there on.
    end : float
        Where the last step ends.
    """

    at: Doubles
    value: Doubles
    end: float

    @property
    def width(self) -> Doubles:
        """How long each step is; 0 for a point."""
        return np.diff(self.at, append=self.end)


class TopicLine(NamedTuple):
    """A topic's relevant documents, what they add up to, all columns, shape (runs, documents), and units."""

    standing: kernels.Standing
    goal: MeasureScale
    tf: NDArray[np.int32]
    units: Doubles


def check_measure(measure: Measure) -> None:
    """Refuse a measure that is no sum over ranks of relevant documents."""
    if measure.is_slow:
        accepted = "AP, nDCG@k, P@k, RR, R@k, Bpref, Success@k"
        raise InputError("no exact line search for the measure", value=str(measure), accepted=accepted)


class Line:
    """A measure's mean over topics along lines of weights.

    Parameters
    ----------
    pool : CandidatePool
        Of a `lmtune.fusion.runs.WeightedSum`.
    measure : Measure
        AP, nDCG, P@k, RR, R@k, Bpref or Success@k.
    topics : numpy.ndarray of int64
        Places in the pool.
    depth : int
        Run depth.

    Attributes
    ----------
    shares : numpy.ndarray of float64, shape (topics,)
        What each topic counts in the mean; they add up to 1.

    Raises
    ------
    InputError
        For another measure.
    """

    def __init__(self, pool: CandidatePool, measure: Measure, topics: Integers, depth: int = DEPTH) -> None:
        check_measure(measure)
        pool.require(np.zeros((1, len(pool.formula.parameters))), depth)
        self.topics = topics.size
        self.shares = pool.weights(topics) / pool.weights(topics).sum()
        assert measure.declared.kernel is not None
        kind = int(measure.declared.kernel)
        relevant_of, others_of = pool.judged_counts(measure.rel)
        divisor = divisors(pool, measure)
        self._cutoff = min(measure.cutoff or depth, depth)
        self.parts: list[TopicLine] = []
        self.places: list[int] = []
        for row, t in enumerate(topics.tolist()):
            gain = pool.candidates.gain[pool.candidates.rows(t)]
            relevant = gain >= measure.rel
            if not relevant.any():
                continue
            position = np.flatnonzero(relevant)
            place = np.full(gain.size, -1)
            place[position] = np.arange(position.size)
            counts = relevant if kind == Code.AP else (gain >= 0) & ~relevant & (kind == Code.BPREF)
            zeros = np.zeros(position.size, np.int64)
            worth = worths(measure, gain[position])
            standing = kernels.Standing(position, worth, place, counts, zeros, zeros.copy())
            sizes = int(relevant_of[t]), int(others_of[t])
            goal = MeasureScale(kind, self._cutoff, *sizes, float(divisor[t]))
            units = pool.value[pool.term_rows(t)]
            self.parts.append(TopicLine(standing, goal, pool.tf_block(pool.candidates, t), units))
            self.places.append(row)

    def steps(self, begin: Doubles, end: Doubles, shares: Doubles | None = None) -> Iterator[Steps]:
        """Yield the measure's steps from weights `begin` to weights `end`, piece by piece.

        Parameters
        ----------
        begin, end : numpy.ndarray of float64, shape (runs,)
            Weights; t is from 0 at the one to 1 at the other.
        shares : numpy.ndarray of float64, shape (topics,) or (topics, columns), optional
            What each topic counts; by default `shares`.
        """
        if shares is None:
            shares = self.shares
        own = shares[self.places]
        ends = np.stack((begin, end))
        value = np.zeros(own.shape[1:])

        def prepare(i: int) -> tuple[Doubles, kernels.Standing]:
            scores, standing = _scores(self.parts[i], ends, self._cutoff)
            kernels.stand(scores[0], standing)
            return scores, standing

        seconds = _SECONDS * sum(part.tf.size for part in self.parts)
        lines = over_places(prepare, len(self.parts), seconds=seconds)
        for share, (_, standing), part in zip(own, lines, self.parts, strict=True):
            value = value + share * kernels.value(standing, part.goal)
        pairs = sum(standing.position.size * ab.shape[1] for ab, standing in lines)
        pieces = 1 + pairs // _PAIRS
        edges = np.linspace(0.0, 1.0, pieces + 1)
        for low, high in zip(edges[:-1].tolist(), [*edges[1:-1].tolist(), np.inf], strict=True):
            keys, changes = self._crossings(lines, low, high, own)
            total = np.concatenate((value[None], value + np.cumsum(changes, axis=0)))
            last = np.append(keys[1:] != keys[:-1], True)[: keys.size]
            at = np.concatenate(([low], (keys[last] >> 1).view(np.float64)))
            yield Steps(at, total[np.concatenate(([0], np.flatnonzero(last) + 1))], min(high, 1.0))
            value = total[-1]

    def _crossings(
        self, lines: list[tuple[Doubles, kernels.Standing]], low: float, high: float, shares: Doubles
    ) -> tuple[Integers, Doubles]:
        """Return where the mean changes, as sorted keys of t and half, and by how much."""

        def work(i: int) -> tuple[Integers, Doubles]:
            (a, b), standing = lines[i]
            room = a.size * standing.position.size
            at, crossings = np.empty(room), np.empty(room, np.int64)
            size = kernels.find_crossings(a, b, standing, low, high, at, crossings)
            # Numbers from 0 on sort as their bits do.
            keys = (at[:size].view(np.int64) << 1) | (crossings[:size] & 1)
            order = np.argsort(keys)
            keys, changes = keys[order], at
            size = kernels.follow(keys, order, crossings, standing, self.parts[i].goal, changes)
            return keys[:size].copy(), changes[:size].copy()

        pairs = sum(standing.position.size * ab.shape[1] for ab, standing in lines)
        found = over_places(work, len(lines), seconds=_SECONDS * pairs)
        keys = np.concatenate([np.empty(0, np.int64), *(own for own, _ in found)])
        order = np.argsort(keys)
        changes = [np.multiply.outer(own, share) for (_, own), share in zip(found, shares, strict=True)]
        return keys[order], np.concatenate([np.empty((0, *shares.shape[1:])), *changes])[order]


def _scores(part: TopicLine, ends: Doubles, cutoff: int) -> tuple[Doubles, kernels.Standing]:
    """Return documents' scores at both ends, and their standing, without those that never count."""
    scores = np.empty((2, part.tf.shape[1]))
    kernels.weighted_sums(ends * part.units, part.tf, scores)
    standing = part.standing
    if cutoff >= _SHALLOW or scores.shape[1] <= max(cutoff, _FEW):
        return scores, standing._replace(above=standing.above.copy(), special=standing.special.copy())
    keep = in_band(scores, cutoff)
    # Bpref counts judged nonrelevant documents wherever they stand above a relevant one.
    mine = keep[standing.position]
    position = np.cumsum(keep)[standing.position[mine]] - 1
    place = np.full(int(keep.sum()), -1)
    place[position] = np.arange(position.size)
    empty = np.zeros(position.size, np.int64)
    return np.ascontiguousarray(scores[:, keep]), kernels.Standing(
        position, standing.gain[mine], place, standing.counts[keep], empty, empty.copy()
    )


def joined(pieces: Iterator[Steps]) -> Steps:
    """Put a line's pieces together."""
    every = list(pieces)
    at, value = np.concatenate([own.at for own in every]), np.concatenate([own.value for own in every])
    return Steps(at, value, every[-1].end)


def in_band(columns: NDArray[Any], depth: int) -> Booleans:
    """Tell the documents that fewer than `depth` others precede in every column, shape (runs, documents)."""
    order = np.argsort(-columns, axis=1, kind="stable")
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.arange(order.shape[1])[None], axis=1)
    keep = np.ones(order.shape[1], np.bool_)
    if keep.size > depth:
        kernels.in_band(places, depth, keep)
    return keep


class Best(NamedTuple):
    """A promising step: its value, and where it is."""

    value: float
    width: float
    at: float


def best_steps(pieces: Iterator[Steps], number: int = 8) -> tuple[list[Best], float]:
    """Return the best steps, of equal ones the longest first, and the highest value of all.

    A step is named by its middle, a point by itself.
    """
    kept: list[Best] = []
    highest = 0.0
    for steps in pieces:
        width = steps.width
        highest = max(highest, float(steps.value.max()))
        level = np.round(steps.value / EQUAL)
        least = np.partition(level, -min(number, level.size))[-min(number, level.size)]
        some = np.flatnonzero(level >= least)
        some = some[np.lexsort((-width[some], -level[some]))][:number]
        kept += [
            Best(float(steps.value[i]), float(width[i]), float(steps.at[i] + 0.5 * width[i])) for i in some
        ]
        kept = sorted(kept, key=lambda best: (-round(best.value / EQUAL), -best.width))[:number]
    return kept, highest


def between(begin: Doubles, end: Doubles, t: float) -> Doubles:
    """Return the weights at a place of a line: whole numbers where two runs' scores may be equal there."""
    if begin.size == 2 and not (begin[1] or end[0]):
        share = Fraction(t).limit_denominator(_LARGEST_WEIGHT)
        if float(share) == t:
            return np.array([share.denominator - share.numerator, share.numerator], np.float64)
    return (1.0 - t) * begin + t * end
