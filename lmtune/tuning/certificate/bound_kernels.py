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

A relevant document is `active` while its pairs can still change its topic's bound. Groups of equal
documents that are decided against all active ones leave the list that a box's children inherit;
their counts move to `base`.
"""

from __future__ import annotations

import numpy as np

from lmtune.compiled import compiled
from lmtune.measures.kernels import AP, BPREF, RECIPROCAL_RANK, SUCCESS
from lmtune.tuning.certificate.taylor_kernels import ERROR, ROWS, VALUE, models


@compiled()
def bound_box(  # type: ignore[no-untyped-def]
    kind,
    cutoff,
    count,
    term_start,
    product,
    slack,
    relevant,
    nonrelevant,
    divisor,
    group_start,
    y,
    y_start,
    length,
    weight,
    group_twin,
    rel_start,
    rel_y,
    rel_y_start,
    rel_length,
    rel_twin,
    box,
    docs,
    doc_start,
    base,
    active,
    bound,
    centre,
    new_docs,
    new_start,
    new_base,
    new_active,
    spread,
):
    """Bound every topic over a box, from the state that its parent box left.

    The first arguments are `lmtune.tuning.certificate.problem.Problem.columns`; ``box`` is low and
    high of log(1 - lambda) and of log mu. Groups come in two classes a topic: judged nonrelevant
    ones for Bpref (none for the other measures), then the rest. Class c of topic t has the list
    ``docs[doc_start[2 t + c] : doc_start[2 t + c + 1]]``, and ``base[c]`` counts what is above each
    relevant document and no longer listed.

    ``bound`` and ``centre`` (the value at the box's centre) are updated in place; the new state is
    written to the ``new`` arrays; ``spread`` gets how much undecided pairs differ along s and u,
    weighted by what they may cost.
    """
    topics = relevant.size
    most_docs = most_rels = 0
    for t in range(topics):
        most_docs = max(most_docs, doc_start[2 * t + 2] - doc_start[2 * t])
        most_rels = max(most_rels, rel_start[t + 1] - rel_start[t])
    doc_models = np.empty((ROWS, most_docs))
    rel_models = np.empty((ROWS, most_rels))
    counters = np.empty((4, 2, most_rels), np.int64)
    new_base[:] = base
    new_active[:] = active
    spread[:] = 0.0
    filled = 0
    new_start[0] = 0
    for t in range(topics):
        if doc_start[2 * t] == doc_start[2 * t + 2]:
            new_start[2 * t + 1] = new_start[2 * t + 2] = filled
            continue
        groups = slice(group_start[t], group_start[t + 1])
        sizes, weights, twins = length[groups], weight[groups], group_twin[groups]
        counts = count[term_start[t] : term_start[t + 1]]
        block = y[y_start[t] : y_start[t + 1]].reshape(counts.size, sizes.size)
        rels = slice(rel_start[t], rel_start[t + 1])
        r_sizes, r_twins = rel_length[rels], rel_twin[rels]
        r_block = rel_y[rel_y_start[t] : rel_y_start[t + 1]].reshape(counts.size, r_sizes.size)
        old_base = base[:, rels]
        n = r_sizes.size
        certain, unsure = counters[0, :, :n], counters[1, :, :n]
        at_centre, settled = counters[2, :, :n], counters[3, :, :n]
        counters[:, :, :n] = 0
        for c in range(2):
            here = docs[doc_start[2 * t + c] : doc_start[2 * t + c + 1]]
            places = np.flatnonzero(active[c, rels]).astype(np.int32)
            if here.size > 0 and places.size > 0:
                m, r = doc_models[:, : here.size], rel_models[:, : places.size]
                models(block, sizes, here, counts, product[t], slack[t], box, m)
                models(r_block, r_sizes, places, counts, product[t], slack[t], box, r)
                order = np.argsort(r[VALUE])
                places, r = places[order], r[:, order]
                cost = np.empty(places.size)
                for i in range(places.size):
                    above = old_base[0, places[i]] + old_base[1, places[i]]
                    cost[i] = 1.0 / ((1.0 + above) * relevant[t])
                filled = _count(
                    m,
                    here,
                    weights,
                    twins,
                    r,
                    r_twins[places],
                    cost,
                    places,
                    certain[c],
                    unsure[c],
                    at_centre[c],
                    settled[c],
                    new_docs,
                    filled,
                    spread,
                )
            new_start[2 * t + c + 1] = filled
        now_base, now_active = new_base[:, rels], new_active[:, rels]
        total = np.zeros(n, np.int64)
        for i in range(n):
            for c in range(2):
                total[i] += old_base[c, i] + certain[c, i]
                now_base[c, i] = old_base[c, i] + settled[c, i]
        _deactivate(kind, cutoff, relevant[t], total, old_base, certain, unsure, now_base, now_active)
        scale = (kind, cutoff, relevant[t], nonrelevant[t], divisor[t])
        bound[t] = min(bound[t], value_from_counts(scale, total, old_base[0] + certain[0]))
        judged = old_base[0] + at_centre[0]
        centre[t] = value_from_counts(scale, judged + old_base[1] + at_centre[1], judged)
        if not now_active.any():
            filled = new_start[2 * t]
            new_start[2 * t + 1] = new_start[2 * t + 2] = filled
            centre[t] = bound[t]


@compiled()
def _count(  # type: ignore[no-untyped-def]
    m,
    docs,
    weights,
    twins,
    r,
    r_twins,
    cost,
    places,
    certain,
    unsure,
    at_centre,
    settled,
    kept,
    filled,
    spread,
):
    """Count groups above each active relevant document: certainly, perhaps, and at the centre.

    ``r`` holds the relevant documents' models by ascending value. The difference of two models is
    within its value at the centre, less or more the sizes of its other terms; squares have one
    sign. Groups with an undecided pair are listed; the others count in ``settled``. Return how full
    the list is.
    """
    n = places.size
    reach = np.empty(docs.size)
    _reach(m, r, reach)
    # Counts of the sorted documents; a group above the first f of them adds to steps[f] only.
    sure, open_, middle, fixed = np.zeros((4, n), np.int64)
    sure_steps, middle_steps, fixed_steps = np.zeros((3, n + 1), np.int64)
    open_all, to_s_all, to_u_all = np.int64(0), 0.0, 0.0
    rv, rs, ru, rss, rsu, ruu, rerror = r
    for j in range(docs.size):
        weight = np.int64(weights[docs[j]])
        twin = twins[docs[j]]
        v, s, u, ss, su, uu, error = m[:, j]
        if twin < 0 and error >= max(v - rv[0], rv[n - 1] - v):
            # Nothing can be decided, as in boxes that are far too large.
            open_all += weight
            middle_steps[_place(rv, v)] += weight
            to_s_all += weight * abs(s - rs[n // 2])
            to_u_all += weight * abs(u - ru[n // 2])
            kept[filled] = docs[j]
            filled += 1
            continue
        first = _place(rv, v - reach[j])
        sure_steps[first] += weight
        middle_steps[first] += weight
        last = first
        pairs = 0
        to_s = to_u = 0.0
        while last < n and rv[last] <= v + reach[j]:
            i = last
            last += 1
            if twin >= 0 and twin == r_twins[i]:
                continue
            dv, ds, du = v - rv[i], abs(s - rs[i]), abs(u - ru[i])
            dss, duu = ss - rss[i], uu - ruu[i]
            wide = ds + du + abs(su - rsu[i]) + error + rerror[i]
            if dv > 0.0:
                middle[i] += weight
            if dv - wide + min(dss, 0.0) + min(duu, 0.0) > 0.0:
                sure[i] += weight
            elif not dv + wide + max(dss, 0.0) + max(duu, 0.0) < 0.0:
                open_[i] += weight
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
        fixed_steps[first] += weight
        for i in range(first, last):
            if rv[i] < v and not (twin >= 0 and twin == r_twins[i]):
                fixed[i] += weight
    spread[0] += to_s_all * cost.sum()
    spread[1] += to_u_all * cost.sum()
    sure_total, middle_total, fixed_total = np.int64(0), np.int64(0), np.int64(0)
    for i in range(n - 1, -1, -1):
        sure_total += sure_steps[i + 1]
        middle_total += middle_steps[i + 1]
        fixed_total += fixed_steps[i + 1]
        certain[places[i]] = sure[i] + sure_total
        unsure[places[i]] = open_[i] + open_all
        at_centre[places[i]] = middle[i] + middle_total
        settled[places[i]] = fixed[i] + fixed_total
    return filled


@compiled()
def _reach(m, r, reach):  # type: ignore[no-untyped-def]
    """Fill reach[j] so that no difference of group j to a relevant document is wider."""
    reach[:] = m[ERROR] + r[ERROR].max()
    for row in range(1, ERROR):
        low, high = r[row].min(), r[row].max()
        here = m[row]
        for j in range(reach.size):
            reach[j] += max(abs(here[j] - low), abs(here[j] - high))


@compiled()
def _place(value, limit):  # type: ignore[no-untyped-def]
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
def _deactivate(  # type: ignore[no-untyped-def]
    kind, cutoff, relevant, total, base, certain, unsure, now_base, now_active
):
    """Switch off relevant documents whose part in the bound is settled for the whole box.

    Counts of those that are out for certain, or in for certain, may stay below the truth from
    here on; the value of a box without undecided pairs is right all the same, because that only
    asks whether they are in.
    """
    n = total.size
    for i in range(n):
        out = total[i] >= cutoff
        # Even with every undecided group and every other relevant document above it.
        inside = total[i] + unsure[0, i] + unsure[1, i] + n - 1 < cutoff
        for c in range(2):
            if not now_active[c, i]:
                continue
            done = out or unsure[c, i] == 0
            if kind != AP and kind != RECIPROCAL_RANK and inside:
                # P@k needs no more. Nor does Bpref of groups that are not judged, or of judged
                # ones after the first R.
                done = done or c == 1 or base[0, i] + certain[0, i] >= relevant
            if done:
                now_active[c, i] = 0
                now_base[c, i] = base[c, i] + certain[c, i]


@compiled()
def value_from_counts(scale, above, judged_above):  # type: ignore[no-untyped-def]
    """Return the measure for counts of nonrelevant documents above each relevant candidate.

    ``scale`` is (kind, cutoff, R, N, divisor): the cutoff is the run depth where the measure has no
    smaller one; what is summed or counted is divided by the divisor. Sums run as in the measuring
    kernel, and each operation is monotone: rounding cannot put the value for smaller counts below
    that for larger ones.
    """
    kind, cutoff, relevant, nonrelevant, divisor = scale
    ranked = np.sort(above)
    retrieved = 0
    total = 0.0
    for i in range(ranked.size):
        rank = i + ranked[i]
        if rank >= cutoff:
            break
        retrieved += 1
        if kind == AP:
            total += retrieved / (rank + 1)
        elif kind == RECIPROCAL_RANK:
            return 1.0 / (rank + 1)
        elif kind == SUCCESS:
            return 1.0
    if kind == AP:
        return total / divisor
    if kind != BPREF:
        return retrieved / divisor
    ranked = np.sort(judged_above[above < cutoff])
    for i in range(retrieved):
        passed = ranked[i]
        total += 1.0 - min(passed, relevant) / min(relevant, nonrelevant) if passed > 0 else 1.0
    return total / divisor
