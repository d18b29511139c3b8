r"""Kernels for a measure as a function of run weights: exact values along a line, upper bounds on a simplex.

**Line.** On the line from weights A to weights B, a document with scores a at A and b at B scores
(1 - t) a + t b. Two documents swap at most once. Let x and y be the differences of their scores at A and
at B; they swap at t = \|x\| / (\|x\| + \|y\|). Before t their order is that at A, after t that at B. At t
itself their scores are equal, and the tie order decides. Documents are stored in tie order. A crossing
therefore takes effect either at t (half 0) or just after t (half 1). The same holds at an end of the line,
where x or y is 0.

**Simplex.** The difference of two documents' scores is linear in the weights. If one document scores at
least as much as the other at every vertex and more at one vertex, it scores more everywhere inside. If both
are equal at all vertices, the tie order decides. Let n(r) be the number of documents of lower gain that are
certainly ranked above the relevant document r. With these counts sorted, the number of documents above the
i-th relevant document is at least i - 1 + n_i (proof: `lmtune.tuning.certificate.bound_kernels`).

Scores can also be means over the runs that have a document: a weighted sum divided by the sum of these runs'
weights. The difference of two such scores has the sign of a quadratic form in the weights. Its coefficients
in the barycentric coordinates of the simplex (Bernstein's form) decide the pair as the vertices' scores do.

DCG is bounded level by level. With gains :math:`G_1 < G_2 < ...`, it is the sum over levels l of
:math:`G_l - G_{l-1}` times the discounts of all documents with gain :math:`G_l` or more. Each of these sums
of discounts is bounded as above, with all documents of lower gain as the non-relevant ones. If all pairs of
different gains are decided, the bound is the exact value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Booleans, Doubles, Integers, Integers32
from lmtune.compiled import compiled
from lmtune.measures.kinds import Code
from lmtune.measures.value_kernels import MeasureScale, contribution, takes_first, value_from_counts

# Below the effect of any swap on a measure, above the rounding error of a topic's sum.
_ROUNDING = 1e-14
# Relative difference of two sums of products that are equal in exact arithmetic.
_EQUAL_PRODUCTS = 1e-14
# Bit offsets in a crossing's integer. Bit 0 is the half; bit 1 is set if the other document is above after t.
_OTHER, _RELEVANT = 2, 34


class Standing(NamedTuple):
    """The ranks of a topic's relevant documents.

    Attributes
    ----------
    position : numpy.ndarray of int64, shape (relevant,)
        Positions of the relevant documents in tie order.
    gain : numpy.ndarray of float64, shape (relevant,)
        Contribution of each gain to DCG at the first rank.
    relevant_index : numpy.ndarray of int64, shape (documents,)
        Index of each document among the relevant ones; -1 for the others.
    is_special : numpy.ndarray of bool, shape (documents,)
        The documents that `special` counts: relevant ones for AP, judged non-relevant ones for Bpref.
    above, special : numpy.ndarray of int64, shape (relevant,)
        The numbers of documents and of special documents above each relevant one. The kernels update both.
    """

    position: Integers
    gain: Doubles
    relevant_index: Integers
    is_special: Booleans
    above: Integers
    special: Integers


@compiled()
def weighted_sums(weights: Doubles, columns: NDArray[Any], out: Doubles) -> None:
    """Fill out[s, d] with the sum over k of weights[s, k] columns[k, d], added in the order of k."""
    for s in range(weights.shape[0]):
        total = out[s]
        total[:] = 0.0
        for k in range(weights.shape[1]):
            weight, column = weights[s, k], columns[k]
            for d in range(total.size):
                total[d] += weight * column[d]


@compiled()
def differentiate_sum(
    columns: Integers32, weights: Doubles, slopes: Doubles, scores: Doubles, gradient: Doubles
) -> None:
    """Fill the scores of a topic and their gradients with respect to the run weights.

    `weights` multiply the columns; `slopes` are their derivatives with respect to the run weights.
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
    """Apply `differentiate_sum` to several topics; ``starts`` bounds each topic's runs x documents block."""
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
    """Mark the documents that fewer than `depth` others precede in all runs.

    ``by_run[k, d]`` is the rank of document d, from 0, in run k; ties are in tie order. A document that
    precedes another in all runs precedes it at all weights >= 0.
    """
    runs, docs = by_run.shape
    order = np.argsort(by_run[0])
    for i in range(docs):
        preceding = 0
        for j in order[: by_run[0, i]]:
            ahead = True
            for k in range(1, runs):
                if by_run[k, j] > by_run[k, i]:
                    ahead = False
                    break
            if ahead:
                preceding += 1
                if preceding == depth:
                    break
        kept[i] = preceding < depth


@compiled()
def count_above(a: Doubles, standing: Standing) -> None:
    """Count the documents above each relevant one in the ranking by scores `a`."""
    for r in range(standing.position.size):
        i = standing.position[r]
        above = special = 0
        for j in range(a.size):
            if a[j] > a[i] or (a[j] == a[i] and j < i):
                above += 1
                special += standing.is_special[j]
        standing.above[r], standing.special[r] = above, special


@compiled()
def find_crossings(
    a: Doubles, b: Doubles, standing: Standing, low: float, high: float, at: Doubles, crossings: Integers
) -> int:
    """Fill the crossings with low <= t < high, and return their number."""
    position, relevant_index = standing.position, standing.relevant_index
    count = 0
    for r in range(position.size):
        i = position[r]
        for j in range(a.size):
            if j <= i and relevant_index[j] >= 0:
                continue  # the document itself, or a pair of relevant documents seen before
            x, y, tie = a[j] - a[i], b[j] - b[i], j < i
            before = x > 0.0 or (x == 0.0 and tie)
            after = y > 0.0 or (y == 0.0 and tie)
            if before == after:
                continue
            t = abs(x) / (abs(x) + abs(y))
            if low <= t < high:
                half = 1 if before == tie else 0
                at[count] = t
                crossings[count] = (r << _RELEVANT) | (np.int64(j) << _OTHER) | (np.int64(after) << 1) | half
                count += 1
    return count


@compiled()
def apply_crossings(
    keys: Integers,
    order: Integers,
    crossings: Integers,
    standing: Standing,
    goal: MeasureScale,
    changes: Doubles,
) -> int:
    """Swap documents in the given order of crossings, and record each change of the measure.

    ``keys`` are sorted; crossings with equal keys take effect together. The first entries of ``keys`` and
    ``changes`` are overwritten with the keys and sizes of the changes. Return the number of changes.
    """
    count = 0
    last = measure_value(standing, goal)
    total = last * goal.divisor
    takes_best = takes_first(goal.kind)
    for e in range(order.size):
        crossing = crossings[order[e]]
        r, j = crossing >> _RELEVANT, (crossing >> _OTHER) & ((1 << (_RELEVANT - _OTHER)) - 1)
        step = 1 if (crossing >> 1) & 1 else -1
        other = standing.relevant_index[j]
        total -= _contribution(standing, goal, r)
        if other >= 0:
            total -= _contribution(standing, goal, other)
            standing.above[other] -= step
            standing.special[other] -= step * np.int64(standing.is_special[standing.position[r]])
            total += _contribution(standing, goal, other)
        standing.above[r] += step
        standing.special[r] += step * np.int64(standing.is_special[j])
        total += _contribution(standing, goal, r)
        if e + 1 < order.size and keys[e + 1] == keys[e]:
            continue
        now = measure_value(standing, goal) if takes_best else total / goal.divisor
        if abs(now - last) > _ROUNDING:
            keys[count], changes[count] = keys[e], now - last
            last = now
            count += 1
    return count


@compiled()
def measure_value(standing: Standing, goal: MeasureScale) -> float:
    """Compute the measure from the counts of documents above the relevant ones."""
    total = 0.0
    takes_best = takes_first(goal.kind)
    for r in range(standing.above.size):
        added = _contribution(standing, goal, r)
        total = max(total, added) if takes_best else total + added
    return total / goal.divisor


@compiled()
def _contribution(standing: Standing, goal: MeasureScale, r: int) -> float:
    if standing.above[r] >= goal.cutoff:
        return 0.0
    counts = standing.above[r], standing.special[r], standing.gain[r]
    return float(contribution(goal.kind, *counts, goal.relevant, goal.nonrelevant))


class Levels(NamedTuple):
    """A topic's documents by gain level.

    Attributes
    ----------
    level : numpy.ndarray of int64, shape (documents,)
        Level of each document, in tie order; 0 is the lowest. For DCG, the levels are the distinct gains. For
        other measures, 2 is relevant, 1 is judged non-relevant (Bpref only) and 0 is any other document.
    position : numpy.ndarray of int64, shape (relevant,)
        Positions of the relevant documents.
    worth : numpy.ndarray of float64, shape (levels,)
        For DCG, the difference of each level's gain from that of the level below; empty for other measures.
    """

    level: Integers
    position: Integers
    worth: Doubles


@compiled()
def compare_means(scores: Doubles, shares: Doubles, i: int, j: int) -> tuple[bool, bool]:
    """Return whether document j scores above i, and below i, anywhere inside a simplex, as far as is known.

    ``scores`` and ``shares``, shape (vertices, documents), are the weighted sums of scores and of weights.
    """
    up = down = False
    for u in range(scores.shape[0]):
        for v in range(u + 1):
            above = scores[u, j] * shares[v, i] + scores[v, j] * shares[u, i]
            below = scores[u, i] * shares[v, j] + scores[v, i] * shares[u, j]
            equal = _EQUAL_PRODUCTS * (abs(above) + abs(below))
            up = up or above - below > equal
            down = down or below - above > equal
    return up, down


@compiled()
def bound_topic(scores: Doubles, shares: Doubles, levels: Levels, scale: MeasureScale) -> tuple[float, int]:
    """Return a topic's upper bound and its undecided pairs.

    ``scores`` have shape (vertices, documents). If scores are means over the runs that have a document,
    ``shares`` are the sums of these runs' weights, of the same shape; otherwise they are empty.
    """
    level, position = levels.level, levels.position
    counts = np.zeros((position.size, level.max() + 1), np.int64)
    undecided = 0
    for r in range(position.size):
        i = position[r]
        for j in range(level.size):
            if level[j] >= level[i]:
                continue
            up = down = False
            if shares.size:
                up, down = compare_means(scores, shares, i, j)
            for v in range(scores.shape[0] if not shares.size else 0):
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
    for lowest in range(1, levels.worth.size):
        above = np.empty(position.size, np.int64)
        size = 0
        for r in range(position.size):
            if level[position[r]] >= lowest:
                above[size] = counts[r, :lowest].sum()
                size += 1
        ranked = np.sort(above[:size])
        for i in range(size):
            if i + ranked[i] < scale.cutoff:
                total += contribution(Code.DCG, i + ranked[i], 0, levels.worth[lowest], 0, 0)
    return total / scale.divisor, undecided
