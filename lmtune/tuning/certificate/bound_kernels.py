"""Upper bounds of measures over a box of parameters, a topic at a time.

Notation: at one setting let N(r) be the number of nonrelevant documents above a relevant document
r. Sorted, N_1 <= N_2 <= ... follows the ranking, so the i-th relevant document has rank
i - 1 + N_i, counted from 0. Let n(r) count the nonrelevant documents that are above r everywhere
in the box. n <= N for each r, hence also n_i <= N_i for the sorted counts: order statistics are
monotone. Therefore, for every setting of the box,

    AP    = 1/R sum { i / (i + N_i) : i - 1 + N_i < cutoff } <= the same with n_i;
    P@k   = 1/k #{ i : i - 1 + N_i < cutoff }                <= the same with n_i;
    R@k, Success@k and RR, from the same numbers or from N_1     likewise;
    Bpref = 1/R sum over retrieved r of f(M(r)), where M counts the judged nonrelevant documents
            above r and f(M) = 1 - min(M, R) / min(R, N), which is 1 at 0, falls, and is never
            negative. At most t = #{ i : i - 1 + n_i < depth } documents are retrieved, none of them
            with n(r) >= depth: Bpref <= 1/R (the sum of f over the t smallest m(r) of the others).

How relevant documents stand to each other need not be known. Where every pair is decided, n = N and
the bounds are the values: the documents above r are a subset of those above any lower r', so m
sorts relevant documents as n does.

For nDCG it matters, so that there n(r) counts all documents above r everywhere in the box. With a gain
written as the sum of its rises to the levels g up to it,

    nDCG  = 1/Z sum over g of rise_g sum { 1 / log2(rank(r) + 2) : gain(r) >= g, rank(r) < cutoff },

and of the ranks of documents of gain g or more, which differ, the i-th is at least the larger of n_i and
one more than the least that the one before can have.

A group below as many others as the cutoff in all of a box is not counted there. Where it is above a relevant
document, these are too, and that document is out whatever else is above it. The first of a ranking are never
left out so: hence n <= N still, and the bound of a box without undecided pairs is the value.

A relevant document is `active` while its pairs can still change its topic's bound. Groups of equal
documents that are decided against all active ones leave the list that a box's children inherit;
their counts move to `base`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lmtune.arrays import Booleans, Bytes, Doubles, Integers, Integers32
from lmtune.candidates.region_kernels import LinearModels, from_plane, linear
from lmtune.compiled import compiled
from lmtune.measures.kinds import Code
from lmtune.measures.value_kernels import MeasureScale, ndcg_from_counts, value_from_counts
from lmtune.models.taylor_kernels import ERROR, ROWS, VALUE, Sides, bm25_models, two_stage_models

TWO_STAGE, BM25 = range(2)
"""Whose scores are bounded."""

CERTAIN, UNSURE, AT_CENTRE, SETTLED = range(4)
"""Rows of counts: groups above a relevant document for certain; perhaps; at the box's centre; and
for certain, without those that stay listed."""


class Topics(NamedTuple):
    """The topics that have a relevant candidate.

    Attributes
    ----------
    occurrences : numpy.ndarray of int64
        How often each query term occurs in the query, topic by topic.
    weight : numpy.ndarray of float64
        What it counts to the formula.
    term_start : numpy.ndarray of int64, shape (topics + 1,)
        Where a topic's terms begin.
    product : numpy.ndarray of bool, shape (topics,)
        Whether products of factors are safe in the whole range.
    slack : numpy.ndarray of float64, shape (topics,)
        What covers the rounding of a score.
    relevant, nonrelevant : numpy.ndarray of int64, shape (topics,)
        R and N.
    divisor : numpy.ndarray of float64, shape (topics,)
        What the measure's sum or number is divided by.
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
        Where a topic's documents begin.
    y : numpy.ndarray of float64
        tf / P(w|C), or for BM25 tf, a block of (terms, documents) a topic, flattened.
    y_start : numpy.ndarray of int64, shape (topics + 1,)
        Where a topic's block begins.
    length : numpy.ndarray of float64
        Lengths in tokens, or for BM25 over their mean.
    weight : numpy.ndarray of int32
        How many documents each group has.
    twin : numpy.ndarray of int64
        Which documents a group is a twin of; -1 for none.
    placed : numpy.ndarray of int64
        Which documents it stands before or after at every setting, by their places; -1 for none.
    """

    start: Integers
    y: Doubles
    y_start: Integers
    length: Doubles
    weight: Integers32
    twin: Integers
    placed: Integers


class BoundColumns(NamedTuple):
    """What to bound, whatever the box.

    Attributes
    ----------
    formula : int
        `TWO_STAGE` or `BM25`.
    kind, cutoff : int
        The measure's, as in `lmtune.measures.kinds`; the cutoff is the run depth where the
        measure has no smaller one.
    topics : Topics
    groups : DocumentGroups
        Nonrelevant documents, for nDCG all.
    relevant : DocumentGroups
        Relevant candidates.
    worth : numpy.ndarray of float64
        What each relevant candidate adds to DCG at the first rank.
    """

    formula: int
    kind: int
    cutoff: int
    topics: Topics
    groups: DocumentGroups
    relevant: DocumentGroups
    worth: Doubles


class State(NamedTuple):
    """What is undecided in a box.

    Groups come in two classes a topic: judged nonrelevant ones for Bpref (none for the other
    measures), then the rest.

    Attributes
    ----------
    docs : numpy.ndarray of int32
        The groups listed, by their places among the topic's.
    doc_start : numpy.ndarray of int64, shape (2 topics + 1,)
        Class c of topic t has the list ``docs[doc_start[2 t + c] : doc_start[2 t + c + 1]]``.
    base : numpy.ndarray of int32, shape (2, relevant documents)
        By class, how many documents are above each relevant one and no longer listed.
    active : numpy.ndarray of uint8, shape (2, relevant documents)
        Whether a relevant document is still compared with a class.
    """

    docs: Integers32
    doc_start: Integers
    base: Integers32
    active: Bytes

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(array.nbytes for array in self)


class _Relevant(NamedTuple):
    """A topic's active relevant documents by ascending score: models, twins, places, costs."""

    model: Doubles
    twin: Integers
    placed: Integers
    place: Integers32
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
    """Bound every topic over a box, from the state that its parent box left.

    ``bound`` and ``centre`` (the value at the box's centre), one a topic, are updated in place; the
    new state is written to ``new``, whose `base` and `active` begin as copies of the old; ``spread``
    gets how much undecided pairs differ along s and u, weighted by what they may cost.
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
    filled = np.int64(0)  # a literal 0 would be a type of its own, for which all below is compiled too
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
    """Fill ``counts``, (classes, 4, relevant documents), and the lists; return how full those are."""
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
    placed = columns.groups.placed[groups]
    r_twin, r_placed = columns.relevant.twin[rels], columns.relevant.placed[rels]
    base = old.base[:, rels]
    counts[:] = 0
    for c in range(2):
        here = old.docs[old.doc_start[2 * t + c] : old.doc_start[2 * t + c + 1]]
        places = np.flatnonzero(old.active[c, rels]).astype(np.int32)
        if here.size > 0 and places.size > 0:
            m, r = room[0][:, : here.size], room[1][:, : places.size]
            if columns.formula == BM25:
                bm25_models(block, length, here, value, slack, box, m)
                bm25_models(r_block, r_length, places, value, slack, box, r)
            else:
                two_stage_models(block, length, here, count, product, slack, box, m)
                two_stage_models(r_block, r_length, places, count, product, slack, box, r)
            if here.size > columns.cutoff:
                here = _in_reach(m, here, columns.cutoff)
                m = m[:, : here.size]
            order = np.argsort(r[VALUE])
            places = places[order]
            cost = np.empty(places.size)
            for i in range(places.size):
                above = base[0, places[i]] + base[1, places[i]]
                cost[i] = 1.0 / ((1.0 + above) * topics.relevant[t])
            rel = _Relevant(r[:, order], r_twin[places], r_placed[places], places, cost)
            filled = _count(m, here, weight, twin, placed, rel, counts[c], new.docs, filled, spread)
        new.doc_start[2 * t + c + 1] = filled
    return filled


@compiled()
def _in_reach(m: Doubles, docs: Integers32, depth: int) -> Integers32:
    """Return the groups that can be among the first ``depth`` in the box, and move their models up."""
    room = np.empty((6, docs.size))
    models = LinearModels(room[0], room[1], room[2], room[3], room[4])
    linear(m, models)
    lowest = from_plane(models, depth, room[5])
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
    placed: Integers,
    rel: _Relevant,
    counts: Integers,
    kept: Integers32,
    filled: int,
    spread: Doubles,
) -> int:
    """Count groups above each active relevant document.

    The difference of two models is within its value at the centre, less or more the sizes of its
    other terms; squares have one sign. Groups with an undecided pair are listed; the others count
    as settled. Return how full the list is.
    """
    n = rel.place.size
    reach = np.empty(docs.size)
    _reach(m, rel.model, reach)
    # Counts of the sorted documents; a group above the first f of them adds to a row's step f only.
    own, steps = np.zeros((4, n), np.int64), np.zeros((4, n + 1), np.int64)
    certain, unsure, at_centre, settled = own
    to_s_all = to_u_all = 0.0
    rv, rs, ru, rss, rsu, ruu, rerror = rel.model
    # Fields of tuples are dear in loops: each look counts references.
    rel_twin, rel_placed, cost = rel.twin, rel.placed, rel.cost
    for j in range(docs.size):
        weight = np.int64(weights[docs[j]])
        twin, place = twins[docs[j]], placed[docs[j]]
        v, s, u, ss, su, uu, error = m[:, j]
        if twin < 0 and place < 0 and error >= max(v - rv[0], rv[n - 1] - v):
            # Nothing can be decided, as in boxes that are far too large.
            steps[UNSURE, n] += weight
            steps[AT_CENTRE, _place(rv, v)] += weight
            to_s_all += weight * abs(s - rs[n // 2])
            to_u_all += weight * abs(u - ru[n // 2])
            kept[filled] = docs[j]
            filled += 1
            continue
        first = _place(rv, v - reach[j])
        steps[CERTAIN, first] += weight
        steps[AT_CENTRE, first] += weight
        if place >= 0:
            # These are counted by their places.
            for i in range(first):
                if _needs_no_look(twin, place, rel_twin[i], rel_placed[i]):
                    certain[i] -= weight
                    at_centre[i] -= weight
        last = first
        pairs, to_s, to_u = 0, 0.0, 0.0
        while last < n and rv[last] <= v + reach[j]:
            i = last
            last += 1
            if _needs_no_look(twin, place, rel_twin[i], rel_placed[i]):
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
        # All decided: above exactly those that it is above at the centre.
        steps[SETTLED, first] += weight
        for i in range(0 if place >= 0 else first, last):
            if _needs_no_look(twin, place, rel_twin[i], rel_placed[i]):
                settled[i] -= weight if i < first else 0
            elif i >= first and rv[i] < v:
                settled[i] += weight
    spread[0] += to_s_all * cost.sum()
    spread[1] += to_u_all * cost.sum()
    for row in range(4):
        total = np.int64(0)
        for i in range(n - 1, -1, -1):
            total += steps[row, i + 1]
            counts[row, rel.place[i]] = own[row, i] + total
    return filled


@compiled()
def _needs_no_look(twin: int, placed: int, rel_twin: int, rel_placed: int) -> bool:
    """Say whether a group's order to a relevant document is known without scores, or never."""
    return (twin >= 0 and twin == rel_twin) or (placed >= 0 and placed == rel_placed)


@compiled()
def _reach(m: Doubles, r: Doubles, reach: Doubles) -> None:
    """Fill reach[j] so that no difference of group j to a relevant document is wider."""
    error, most = m[ERROR], r[ERROR].max()
    for j in range(reach.size):
        reach[j] = error[j] + most
    for row in range(1, ERROR):
        low, high = r[row].min(), r[row].max()
        here = m[row]
        for j in range(reach.size):
            reach[j] += max(abs(here[j] - low), abs(here[j] - high))


@compiled()
def _place(value: Doubles, limit: float) -> int:
    """Return how many of the ascending values are below ``limit``."""
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
    """Switch off relevant documents whose part in the bound is settled for the whole box.

    Counts of those that are out for certain, or in for certain, may stay below the truth from
    here on; the value of a box without undecided pairs is right all the same, because that only
    asks whether they are in.
    """
    kind, cutoff, n = scale.kind, scale.cutoff, total.size
    for i in range(n):
        out = total[i] >= cutoff
        # Even with every undecided group and every other relevant document above it.
        inside = total[i] + counts[0, UNSURE, i] + counts[1, UNSURE, i] + n - 1 < cutoff
        for c in range(2):
            if not now_active[c, i]:
                continue
            certain = base[c, i] + counts[c, CERTAIN, i]
            done = out or counts[c, UNSURE, i] == 0
            if inside and kind in (Code.PRECISION, Code.RECALL, Code.SUCCESS, Code.BPREF):
                # P@k needs no more. Nor does Bpref of groups that are not judged, or of judged
                # ones after the first R.
                done = done or c == 1 or certain >= scale.relevant
            if done:
                now_active[c, i] = 0
                now_base[c, i] = certain
