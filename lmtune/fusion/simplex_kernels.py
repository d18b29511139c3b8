r"""Upper bounds of a measure over the inside of a simplex of weights, a topic at a time.

The difference of two documents' scores is linear in the weights: where one scores no less than the other
at any vertex and more at one, it scores more everywhere inside; where they are equal at all vertices, the
tie order decides. With n(r) the number of
documents of lower gain that stand above a relevant document r for certain, sorted, the i-th relevant
document's rank is i - 1 + n_i at least (why: `lmtune.tuning.certificate.bound_kernels`). DCG is a sum over
gains: with :math:`G_1 < G_2 < ...` it is :math:`\sum_l (G_l - G_{l-1})` times the sum of discounts of the
documents with a gain of :math:`G_l` or more, and each of these sums is bounded so, with all documents of
lower gains in the place of nonrelevant ones. Where all pairs of different gains are decided, bounds are
the values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled
from lmtune.tuning.certificate.bound_kernels import MeasureScale, value_from_counts

Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]


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
                total += levels.worth[own] / np.log2(i + ranked[i] + 2.0)
    return total / scale.divisor, undecided
