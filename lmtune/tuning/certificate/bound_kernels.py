"""Kernels: upper bounds of measures over a box of settings, one topic at a time.

Notation: at one setting, let N(r) be the number of non-relevant documents above a relevant document r. The
sorted counts N_1 <= N_2 <= ... follow the ranking, so the i-th relevant document has rank i - 1 + N_i,
counted from 0. Let n(r) be the number of non-relevant documents above r at every setting of the box. n <= N
for each r, and hence n_i <= N_i for the sorted counts, because order statistics are monotone. Therefore, for
every setting of the box,

    AP    = 1/R sum { i / (i + N_i) : i - 1 + N_i < cutoff } <= the same with n_i;
    P@k   = 1/k #{ i : i - 1 + N_i < cutoff }                <= the same with n_i;
    R@k, Success@k and RR, from the same numbers or from N_1     likewise;
    Bpref = 1/R sum over retrieved r of f(M(r)), where M(r) is the number of judged non-relevant documents
            above r, and f(M) = 1 - min(M, R) / min(R, N). f is 1 at 0, falls, and is never negative. At
            most t = #{ i : i - 1 + n_i < depth } documents are retrieved, and none of them has
            n(r) >= depth. With m(r), the judged part of n(r): Bpref <= 1/R (the sum of f over the t
            smallest m(r) among the documents with n(r) < depth).

These bounds do not need the order of relevant documents. If every pair is decided, n = N and the bounds are
the values: the documents above r are a subset of those above any lower r', so m sorts relevant documents as
n does.

For nDCG, the order of relevant documents matters. There, n(r) is the number of all documents above r at every
setting of the box. With a gain written as the sum of its increments rise_g at the levels g up to it,

    nDCG  = 1/Z sum over g of rise_g sum { 1 / log2(rank(r) + 2) : gain(r) >= g, rank(r) < cutoff }.

The documents of gain g or more have different ranks. The i-th of these ranks is at least n_i, and at least 1
above the lower bound of the rank before.

A group is not counted in a box if, in the whole box, it is below at least as many other documents as the
cutoff. If it is above a relevant document, these documents are too, and the relevant document is beyond the
cutoff anyway. Top documents are never left out. Hence n <= N still holds, and the bound of a box without
undecided pairs is the value.

A relevant document is `active` while its pairs can still change its topic's bound. Groups that are decided
with respect to all active documents leave the list that a box's children inherit; their counts move to
`base`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lmtune.arrays import Booleans, Bytes, Doubles, Integers, Integers32
from lmtune.candidates.region_kernels import LinearModels, linear, subtract_plane
from lmtune.compiled import compiled
from lmtune.measures.kinds import Code
from lmtune.measures.value_kernels import MeasureScale, ndcg_from_counts, value_from_counts
from lmtune.models.taylor_kernels import ERROR, ROWS, VALUE, Sides, bm25_models, two_stage_models

TWO_STAGE, BM25 = range(2)
"""The scoring function that is bounded."""

CERTAIN, UNSURE, AT_CENTRE, SETTLED = range(4)
"""Rows of counts of documents above a relevant one: at every setting; undecided; at the box's centre; and
at every setting, without groups that stay listed."""


class Topics(NamedTuple):
    """The topics with a relevant candidate.

    Attributes
    ----------
    occurrences : numpy.ndarray of int64
        Query term frequencies, topic by topic.
    weight : numpy.ndarray of float64
        Weights of the query terms in the formula.
    term_start : numpy.ndarray of int64, shape (topics + 1,)
        Start of each topic's terms in these arrays.
    product : numpy.ndarray of bool, shape (topics,)
        Whether products of factors neither overflow nor underflow in the whole range.
    slack : numpy.ndarray of float64, shape (topics,)
        Upper bound of the rounding errors of scores.
    relevant, nonrelevant : numpy.ndarray of int64, shape (topics,)
        R and N: numbers of relevant and of judged non-relevant documents.
    divisor : numpy.ndarray of float64, shape (topics,)
        The measure's denominator.
    """

    occurrences: Integers
    weight: Doubles
    term_start: Integers
    product: Booleans
    slack: Doubles
    relevant: Integers
    nonrelevant: Integers
    divisor: Doubles


class DocumentGroups(NamedTuple):
    """Documents, or groups of equal ones, topic by topic.

    Attributes
    ----------
    start : numpy.ndarray of int64, shape (topics + 1,)
        Start of each topic's documents.
    y : numpy.ndarray of float64
        tf / P(w|C), or tf for BM25: a flattened block of shape (terms, documents) per topic.
    y_start : numpy.ndarray of int64, shape (topics + 1,)
        Start of each topic's block.
    length : numpy.ndarray of float64
        Lengths in tokens; for BM25, relative to the mean length.
    weight : numpy.ndarray of int32
        Number of documents per group.
    twin : numpy.ndarray of int64
        Score class: equal to that of relevant documents with the same scores at every setting; -1 for none.
    order_class : numpy.ndarray of int64
        Order class: equal to that of relevant documents whose order to the group follows from their positions
        at every setting; -1 for none.
    """

    start: Integers
    y: Doubles
    y_start: Integers
    length: Doubles
    weight: Integers32
    twin: Integers
    order_class: Integers


class BoundColumns(NamedTuple):
    """The constant input of the bounds, which does not depend on the box.

    Attributes
    ----------
    formula : int
        `TWO_STAGE` or `BM25`.
    kind, cutoff : int
        The measure, as in `lmtune.measures.kinds`; the cutoff is the run depth unless the measure has a
        smaller one.
    topics : Topics
        The topics.
    groups : DocumentGroups
        Groups of non-relevant documents; for nDCG, of all documents.
    relevant : DocumentGroups
        Relevant candidates.
    worth : numpy.ndarray of float64
        The DCG of each relevant candidate at the first rank.
    """

    formula: int
    kind: int
    cutoff: int
    topics: Topics
    groups: DocumentGroups
    relevant: DocumentGroups
    worth: Doubles


class State(NamedTuple):
    """The undecided groups of a box.

    A topic's groups have two classes: judged non-relevant ones, only for Bpref, and the rest.

    Attributes
    ----------
    docs : numpy.ndarray of int32
        The lists of undecided groups, as positions among the topic's groups.
    doc_start : numpy.ndarray of int64, shape (2 topics + 1,)
        Class c of topic t has the list ``docs[doc_start[2 t + c] : doc_start[2 t + c + 1]]``.
    base : numpy.ndarray of int32, shape (2, relevant documents)
        Per class, the number of documents above each relevant one that are no longer listed.
    active : numpy.ndarray of uint8, shape (2, relevant documents)
        Whether a relevant document is still compared with a class.
    """

    docs: Integers32
    doc_start: Integers
    base: Integers32
    active: Bytes

    @property
    def size(self) -> int:
        """Size of the arrays in bytes."""
        return sum(array.nbytes for array in self)


class _Relevant(NamedTuple):
    """A topic's active relevant documents, by ascending score at the box's centre.

    `model` contains the rows of their Taylor models and `position` their positions among the topic's relevant
    documents. `cost` is the approximate effect of a document above them on the measure.
    """

    model: Doubles
    twin: Integers
    order_class: Integers
    position: Integers32
    cost: Doubles


@compiled()
def bound_box(
    columns: BoundColumns,
    box: Sides,
    old: State,
    new: State,
    bound: Doubles,
    centre: Doubles,
    spread: Doubles,
) -> None:
    """Bound every topic over a box, starting from the parent box's state.

    ``bound`` and ``centre`` (the value at the box's centre) have one entry per topic and are updated in
    place. The new state is written to ``new``; the caller initialises its `base` and `active` with copies of
    the old ones. ``spread`` is filled with the differences of undecided pairs along s and u, weighted by
    their costs.
    """
    topics, rel_start = columns.topics, columns.relevant.start
    doc_start = old.doc_start
    most_docs = most_rels = 0
    for t in range(bound.size):
        most_docs = max(most_docs, doc_start[2 * t + 2] - doc_start[2 * t])
        most_rels = max(most_rels, rel_start[t + 1] - rel_start[t])
    room = np.empty((ROWS, most_docs)), np.empty((ROWS, most_rels))
    counters = np.empty((2, 4, most_rels), np.int64)
    spread[:] = 0.0
    filled = np.int64(0)  # A literal 0 has another type, for which everything below would be compiled again.
    new.doc_start[0] = 0
    for t in range(bound.size):
        if doc_start[2 * t] == doc_start[2 * t + 2]:
            new.doc_start[2 * t + 1 : 2 * t + 3] = filled
            continue
        rels = slice(rel_start[t], rel_start[t + 1])
        base, now_base, now_active = old.base[:, rels], new.base[:, rels], new.active[:, rels]
        counts = counters[:, :, : base.shape[1]]
        filled = _count_topic(columns, t, box, old, room, counts, new, filled, spread)
        total = np.zeros(base.shape[1], np.int64)
        for i in range(total.size):
            for c in range(2):
                total[i] += base[c, i] + counts[c, CERTAIN, i]
                now_base[c, i] = base[c, i] + counts[c, SETTLED, i]
        scale = MeasureScale(
            columns.kind, columns.cutoff, topics.relevant[t], topics.nonrelevant[t], topics.divisor[t]
        )
        _deactivate(scale, total, base, counts, now_base, now_active)
        judged, whole = base[0] + counts[0, AT_CENTRE], base[1] + counts[1, AT_CENTRE]
        if columns.kind == Code.DCG:
            worth = columns.worth[rels]
            bound[t] = min(bound[t], ndcg_from_counts(scale, total, worth))
            centre[t] = ndcg_from_counts(scale, judged + whole, worth)
        else:
            bound[t] = min(bound[t], value_from_counts(scale, total, base[0] + counts[0, CERTAIN]))
            centre[t] = value_from_counts(scale, judged + whole, judged)
        if not now_active.any():
            filled = new.doc_start[2 * t]
            new.doc_start[2 * t + 1 : 2 * t + 3] = filled
            centre[t] = bound[t]


@compiled()
def _count_topic(
    columns: BoundColumns,
    t: int,
    box: Sides,
    old: State,
    room: tuple[Doubles, Doubles],
    counts: Integers,
    new: State,
    filled: int,
    spread: Doubles,
) -> int:
    """Fill ``counts``, shape (classes, 4, relevant documents), and the new lists; return their length."""
    topics = columns.topics
    terms = slice(topics.term_start[t], topics.term_start[t + 1])
    count, value = topics.occurrences[terms], topics.weight[terms]
    product, slack = topics.product[t], topics.slack[t]
    groups = slice(columns.groups.start[t], columns.groups.start[t + 1])
    rels = slice(columns.relevant.start[t], columns.relevant.start[t + 1])
    length, r_length = columns.groups.length[groups], columns.relevant.length[rels]
    y = columns.groups.y[columns.groups.y_start[t] : columns.groups.y_start[t + 1]]
    r_y = columns.relevant.y[columns.relevant.y_start[t] : columns.relevant.y_start[t + 1]]
    block, r_block = y.reshape(count.size, length.size), r_y.reshape(count.size, r_length.size)
    weight, twin = columns.groups.weight[groups], columns.groups.twin[groups]
    order_classes = columns.groups.order_class[groups]
    r_twin, r_classes = columns.relevant.twin[rels], columns.relevant.order_class[rels]
    base = old.base[:, rels]
    counts[:] = 0
    for c in range(2):
        here = old.docs[old.doc_start[2 * t + c] : old.doc_start[2 * t + c + 1]]
        positions = np.flatnonzero(old.active[c, rels]).astype(np.int32)
        if here.size > 0 and positions.size > 0:
            m, r = room[0][:, : here.size], room[1][:, : positions.size]
            if columns.formula == BM25:
                bm25_models(block, length, here, value, slack, box, m)
                bm25_models(r_block, r_length, positions, value, slack, box, r)
            else:
                two_stage_models(block, length, here, count, product, slack, box, m)
                two_stage_models(r_block, r_length, positions, count, product, slack, box, r)
            if here.size > columns.cutoff:
                here = _in_reach(m, here, columns.cutoff)
                m = m[:, : here.size]
            order = np.argsort(r[VALUE])
            positions = positions[order]
            cost = np.empty(positions.size)
            for i in range(positions.size):
                above = base[0, positions[i]] + base[1, positions[i]]
                cost[i] = 1.0 / ((1.0 + above) * topics.relevant[t])
            rel = _Relevant(r[:, order], r_twin[positions], r_classes[positions], positions, cost)
            filled = _count(m, here, weight, twin, order_classes, rel, counts[c], new.docs, filled, spread)
        new.doc_start[2 * t + c + 1] = filled
    return filled


@compiled()
def _in_reach(m: Doubles, docs: Integers32, depth: int) -> Integers32:
    """Return the groups that can be among the first ``depth`` in the box; move their models to the front."""
    room = np.empty((6, docs.size))
    models = LinearModels(room[0], room[1], room[2], room[3], room[4])
    linear(m, models)
    lowest = subtract_plane(models, depth, room[5])
    kept = np.empty(docs.size, np.int32)
    size = 0
    for j in range(docs.size):
        if room[4, j] >= lowest:
            kept[size] = docs[j]
            m[:, size] = m[:, j]
            size += 1
    return kept[:size]


@compiled()
def _count(
    m: Doubles,
    docs: Integers32,
    weights: Integers32,
    twins: Integers,
    order_classes: Integers,
    rel: _Relevant,
    counts: Integers,
    kept: Integers32,
    filled: int,
    spread: Doubles,
) -> int:
    """Count the groups above each active relevant document; return the new length of the list.

    The difference of two models is its value at the centre, plus or minus the absolute values of its other
    terms; square terms have a known sign. Groups with an undecided pair are listed; the others are settled.
    """
    n = rel.position.size
    reach = np.empty(docs.size)
    _reach(m, rel.model, reach)
    # Counts per sorted document. A group above the first f documents is added only to steps[row, f].
    rows, steps = np.zeros((4, n), np.int64), np.zeros((4, n + 1), np.int64)
    certain, unsure, at_centre, settled = rows
    to_s_all = to_u_all = 0.0
    rv, rs, ru, rss, rsu, ruu, rerror = rel.model
    # Reading tuple fields inside loops is slow, because each access counts references.
    rel_twin, rel_classes, cost = rel.twin, rel.order_class, rel.cost
    for j in range(docs.size):
        weight = np.int64(weights[docs[j]])
        twin, order_class = twins[docs[j]], order_classes[docs[j]]
        v, s, u, ss, su, uu, error = m[:, j]
        if twin < 0 and order_class < 0 and error >= max(v - rv[0], rv[n - 1] - v):
            # The box is far too large: no pair with this group can be decided.
            steps[UNSURE, n] += weight
            steps[AT_CENTRE, _count_below(rv, v)] += weight
            to_s_all += weight * abs(s - rs[n // 2])
            to_u_all += weight * abs(u - ru[n // 2])
            kept[filled] = docs[j]
            filled += 1
            continue
        first = _count_below(rv, v - reach[j])
        steps[CERTAIN, first] += weight
        steps[AT_CENTRE, first] += weight
        if order_class >= 0:
            # Pairs that are decided by position are in `base` already.
            for i in range(first):
                if _scores_do_not_decide(twin, order_class, rel_twin[i], rel_classes[i]):
                    certain[i] -= weight
                    at_centre[i] -= weight
        last = first
        pairs, to_s, to_u = 0, 0.0, 0.0
        while last < n and rv[last] <= v + reach[j]:
            i = last
            last += 1
            if _scores_do_not_decide(twin, order_class, rel_twin[i], rel_classes[i]):
                continue
            dv, ds, du = v - rv[i], abs(s - rs[i]), abs(u - ru[i])
            dss, duu = ss - rss[i], uu - ruu[i]
            wide = ds + du + abs(su - rsu[i]) + error + rerror[i]
            if dv > 0.0:
                at_centre[i] += weight
            if dv - wide + min(dss, 0.0) + min(duu, 0.0) > 0.0:
                certain[i] += weight
            elif not dv + wide + max(dss, 0.0) + max(duu, 0.0) < 0.0:
                unsure[i] += weight
                pairs += 1
                to_s += cost[i] * ds
                to_u += cost[i] * du
        if pairs > 0:
            kept[filled] = docs[j]
            filled += 1
            spread[0] += weight * to_s
            spread[1] += weight * to_u
            continue
        # All pairs are decided: the group is above the same documents as at the centre.
        steps[SETTLED, first] += weight
        for i in range(0 if order_class >= 0 else first, last):
            if _scores_do_not_decide(twin, order_class, rel_twin[i], rel_classes[i]):
                settled[i] -= weight if i < first else 0
            elif i >= first and rv[i] < v:
                settled[i] += weight
    spread[0] += to_s_all * cost.sum()
    spread[1] += to_u_all * cost.sum()
    for row in range(4):
        total = np.int64(0)
        for i in range(n - 1, -1, -1):
            total += steps[row, i + 1]
            counts[row, rel.position[i]] = rows[row, i] + total
    return filled


@compiled()
def _scores_do_not_decide(twin: int, order_class: int, rel_twin: int, rel_order_class: int) -> bool:
    """Return whether scores do not decide a pair: it is decided by position, or only by rounding."""
    return (twin >= 0 and twin == rel_twin) or (order_class >= 0 and order_class == rel_order_class)


@compiled()
def _reach(m: Doubles, r: Doubles, reach: Doubles) -> None:
    """Fill reach[j] with an upper bound of group j's difference to any relevant document."""
    error, most = m[ERROR], r[ERROR].max()
    for j in range(reach.size):
        reach[j] = error[j] + most
    for row in range(1, ERROR):
        low, high = r[row].min(), r[row].max()
        here = m[row]
        for j in range(reach.size):
            reach[j] += max(abs(here[j] - low), abs(here[j] - high))


@compiled()
def _count_below(value: Doubles, limit: float) -> int:
    """Return the number of ascending values below ``limit``."""
    low, high = 0, value.size
    while low < high:
        middle = (low + high) // 2
        if value[middle] < limit:
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def _deactivate(
    scale: MeasureScale,
    total: Integers,
    base: Integers32,
    counts: Integers,
    now_base: Integers32,
    now_active: Bytes,
) -> None:
    """Deactivate relevant documents whose contribution to the bound is settled for the whole box.

    Counts of documents that are certainly inside or outside the cutoff may be too low from now on. The value
    of a box without undecided pairs is still right, because it depends only on whether they are inside.
    """
    kind, cutoff, n = scale.kind, scale.cutoff, total.size
    for i in range(n):
        out = total[i] >= cutoff
        # Inside the cutoff even if all undecided groups and all other relevant documents are above it.
        inside = total[i] + counts[0, UNSURE, i] + counts[1, UNSURE, i] + n - 1 < cutoff
        for c in range(2):
            if not now_active[c, i]:
                continue
            certain = base[c, i] + counts[c, CERTAIN, i]
            done = out or counts[c, UNSURE, i] == 0
            if inside and kind in (Code.PRECISION, Code.RECALL, Code.SUCCESS, Code.BPREF):
                # P@k, R@k and Success@k need no more. Bpref needs no unjudged groups, and only the first R
                # judged ones.
                done = done or c == 1 or certain >= scale.relevant
            if done:
                now_active[c, i] = 0
                now_base[c, i] = certain
