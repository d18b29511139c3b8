r"""A measure over weights of runs: step by step along a line, and bounded over the inside of a simplex.

Along the line from weights A to weights B a document's score is (1 - t) a + t b, with its scores a at
A and b at B. Two documents change places at most once, at t = \|x\| / (\|x\| + \|y\|), where x and y are
the differences of their scores at A and at B: before it their order is that at A, beyond it that at
B, and at t itself their scores are equal and the tie order decides, in which documents stand. So each
crossing takes effect either at t (half 0) or just beyond it (half 1); at an end of the line, where x
or y is 0, likewise.

Over a simplex a topic's value is bounded from above. The difference of two documents' scores is linear in
the weights: where one scores no less than the other at any vertex and more at one, it scores more
everywhere inside; where they are equal at all vertices, the tie order decides. With n(r) the number of
documents of lower gain that stand above a relevant document r for certain, sorted, the i-th relevant
document's rank is i - 1 + n_i at least (why: `lmtune.tuning.certificate.bound_kernels`). DCG is a sum over
gains: with :math:`G_1 < G_2 < ...` it is :math:`\sum_l (G_l - G_{l-1})` times the sum of discounts of the
documents with a gain of :math:`G_l` or more, and each of these sums is bounded so, with all documents of
lower gains in the place of nonrelevant ones. Where all pairs of different gains are decided, bounds are the
values.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Booleans, Doubles, Integers, Integers32
from lmtune.compiled import compiled
from lmtune.measures.kinds import Code
from lmtune.measures.value_kernels import MeasureScale, contribution, takes_first, value_from_counts

# Less than what a change of places does to a measure, more than what rounding does to a topic's sum.
_ROUNDING = 1e-14
# A crossing in one number: the relevant document, the other, whether that is above beyond it, the half.
_OTHER, _RELEVANT = 2, 34


class Standing(NamedTuple):
    """Where a topic's relevant documents stand.

    Attributes
    ----------
    position : numpy.ndarray of int64, shape (relevant,)
        Their places in the tie order.
    gain : numpy.ndarray of float64, shape (relevant,)
        What their gains add to DCG at the first rank.
    place : numpy.ndarray of int64, shape (documents,)
        Which relevant document each one is, -1 for the others.
    counts : numpy.ndarray of bool, shape (documents,)
        The documents that `special` counts: for AP relevant ones, for Bpref judged nonrelevant ones.
    above, special : numpy.ndarray of int64, shape (relevant,)
        How many documents stand above each, and how many of those that count; they change.
    """

    position: Integers
    gain: Doubles
    place: Integers
    counts: Booleans
    above: Integers
    special: Integers


@compiled()
def weighted_sums(weights: Doubles, columns: NDArray[Any], out: Doubles) -> None:
    """Fill out[s, d] with the sum over k of weights[s, k] columns[k, d], from the first on."""
    for s in range(weights.shape[0]):
        own = out[s]
        own[:] = 0.0
        for k in range(weights.shape[1]):
            weight, column = weights[s, k], columns[k]
            for d in range(own.size):
                own[d] += weight * column[d]


@compiled()
def differentiate_sum(
    columns: Integers32, weights: Doubles, slopes: Doubles, scores: Doubles, gradient: Doubles
) -> None:
    """Fill a topic's scores, and their gradients in the runs' weights.

    Runs' columns are multiplied by `weights`, whose derivatives in the runs' weights are `slopes`.
    """
    scores[:] = 0.0
    for k in range(weights.size):
        column, weight, slope = columns[k], weights[k], slopes[k]
        for d in range(scores.size):
            scores[d] += weight * column[d]
            gradient[k, d] = slope * column[d]


@compiled()
def differentiate_sums(
    tf: Integers32, starts: Integers, weights: Doubles, slopes: Doubles, scores: Doubles, gradient: Doubles
) -> None:
    """Do so for topics one after the other, whose blocks (runs x documents) of ``tf`` begin at ``starts``."""
    runs, first = weights.shape[1], 0
    for t in range(starts.shape[0]):
        begin, end = starts[t]
        docs = (end - begin) // runs
        last = first + docs
        columns = tf[begin:end].reshape(runs, docs)
        differentiate_sum(columns, weights[t], slopes[t], scores[first:last], gradient[:, first:last])
        first = last


@compiled()
def in_band(by_run: Integers, depth: int, kept: Booleans) -> None:
    """Mark the documents that fewer than `depth` others precede in every row of places.

    ``by_run`` holds, run by run, each document's place by falling score, ties in tie order: a document
    that precedes another in all of them does so at all weights from 0 on.
    """
    runs, docs = by_run.shape
    order = np.argsort(by_run[0])
    for i in range(docs):
        found = 0
        for j in order[: by_run[0, i]]:
            ahead = True
            for k in range(1, runs):
                if by_run[k, j] > by_run[k, i]:
                    ahead = False
                    break
            if ahead:
                found += 1
                if found == depth:
                    break
        kept[i] = found < depth


@compiled()
def stand(a: Doubles, standing: Standing) -> None:
    """Count who stands above each relevant document by scores `a`."""
    for r in range(standing.position.size):
        i = standing.position[r]
        above = special = 0
        for j in range(a.size):
            if a[j] > a[i] or (a[j] == a[i] and j < i):
                above += 1
                special += standing.counts[j]
        standing.above[r], standing.special[r] = above, special


@compiled()
def find_crossings(
    a: Doubles, b: Doubles, standing: Standing, low: float, high: float, at: Doubles, crossings: Integers
) -> int:
    """Fill the crossings from `low` to below `high`, and say how many there are."""
    position, place = standing.position, standing.place
    found = 0
    for r in range(position.size):
        i = position[r]
        for j in range(a.size):
            if j <= i and place[j] >= 0:
                continue  # itself, or a pair of relevant ones that is looked at once
            x, y, tie = a[j] - a[i], b[j] - b[i], j < i
            before = x > 0.0 or (x == 0.0 and tie)
            after = y > 0.0 or (y == 0.0 and tie)
            if before == after:
                continue
            t = abs(x) / (abs(x) + abs(y))
            if low <= t < high:
                half = 1 if before == tie else 0
                at[found] = t
                crossings[found] = (r << _RELEVANT) | (np.int64(j) << _OTHER) | (np.int64(after) << 1) | half
                found += 1
    return found


@compiled()
def follow(
    keys: Integers,
    order: Integers,
    crossings: Integers,
    standing: Standing,
    goal: MeasureScale,
    changes: Doubles,
) -> int:
    """Let documents change places in a given order, and keep what that does to the measure.

    ``keys`` (in order) and ``changes`` are overwritten from the front by those crossings that change
    the measure; those of one key take effect together. Return how many there are.
    """
    found = 0
    last = value(standing, goal)
    total = last * goal.divisor
    takes_best = takes_first(goal.kind)
    for e in range(order.size):
        crossing = crossings[order[e]]
        r, j = crossing >> _RELEVANT, (crossing >> _OTHER) & ((1 << (_RELEVANT - _OTHER)) - 1)
        step = 1 if (crossing >> 1) & 1 else -1
        other = standing.place[j]
        total -= _worth(standing, goal, r)
        if other >= 0:
            total -= _worth(standing, goal, other)
            standing.above[other] -= step
            standing.special[other] -= step * np.int64(standing.counts[standing.position[r]])
            total += _worth(standing, goal, other)
        standing.above[r] += step
        standing.special[r] += step * np.int64(standing.counts[j])
        total += _worth(standing, goal, r)
        if e + 1 < order.size and keys[e + 1] == keys[e]:
            continue
        now = value(standing, goal) if takes_best else total / goal.divisor
        if abs(now - last) > _ROUNDING:
            keys[found], changes[found] = keys[e], now - last
            last = now
            found += 1
    return found


@compiled()
def value(standing: Standing, goal: MeasureScale) -> float:
    """Return the measure."""
    total = 0.0
    takes_best = takes_first(goal.kind)
    for r in range(standing.above.size):
        worth = _worth(standing, goal, r)
        total = max(total, worth) if takes_best else total + worth
    return total / goal.divisor


@compiled()
def _worth(standing: Standing, goal: MeasureScale, r: int) -> float:
    if standing.above[r] >= goal.cutoff:
        return 0.0
    counts = standing.above[r], standing.special[r], standing.gain[r]
    return float(contribution(goal.kind, *counts, goal.relevant, goal.nonrelevant))


class Levels(NamedTuple):
    """A topic's documents by what they are worth.

    Attributes
    ----------
    level : numpy.ndarray of int64, shape (documents,)
        0 for the least, in tie order.
    position : numpy.ndarray of int64, shape (relevant,)
        The relevant documents' places.
    worth : numpy.ndarray of float64, shape (levels,)
        For DCG: what each level adds to the one below; empty for other measures, whose levels are
        unjudged or nonrelevant, judged nonrelevant (for Bpref), relevant.
    """

    level: Integers
    position: Integers
    worth: Doubles


@compiled()
def bound_topic(scores: Doubles, levels: Levels, scale: MeasureScale) -> tuple[float, int]:
    """Return the bound, and how many pairs are undecided; ``scores`` are those at each vertex."""
    level, position = levels.level, levels.position
    counts = np.zeros((position.size, level.max() + 1), np.int64)
    undecided = 0
    for r in range(position.size):
        i = position[r]
        for j in range(level.size):
            if level[j] >= level[i]:
                continue
            up = down = False
            for v in range(scores.shape[0]):
                up = up or scores[v, j] > scores[v, i]
                down = down or scores[v, j] < scores[v, i]
                if up and down:
                    break
            if up and down:
                undecided += 1
            elif up or (j < i and not down):
                counts[r, level[j]] += 1
    if levels.worth.size == 0:
        return value_from_counts(scale, counts.sum(axis=1), counts[:, 1]), undecided
    total = 0.0
    for own in range(1, levels.worth.size):
        above = np.empty(position.size, np.int64)
        size = 0
        for r in range(position.size):
            if level[position[r]] >= own:
                above[size] = counts[r, :own].sum()
                size += 1
        ranked = np.sort(above[:size])
        for i in range(size):
            if i + ranked[i] < scale.cutoff:
                total += contribution(Code.DCG, i + ranked[i], 0, levels.worth[own], 0, 0)
    return total / scale.divisor, undecided
