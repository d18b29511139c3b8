"""The measuring kernel: ranks of judged documents by counting, measures from those ranks."""

from __future__ import annotations

import numpy as np

from lmtune.compiled import compiled
from lmtune.models.kernels import count_above, rank_scores, relative_frequencies, scores_as_product

AP, PRECISION, BPREF, DCG, EXPONENTIAL_DCG, RECIPROCAL_RANK, RECALL, SUCCESS = range(8)


@compiled()
def measure_topics(  # type: ignore[no-untyped-def]
    topics,
    doc_start,
    tf_start,
    length,
    gain,
    tf,
    term_start,
    p,
    count,
    longest,
    floored,
    cell_start,
    cell_position,
    cells,
    settings,
    lambdas,
    mus,
    kinds,
    cutoffs,
    rels,
    relevant,
    nonrelevant,
    ideal,
    depth,
    out,
):
    """Fill out[i, s, m] for every topic i of ``topics``, setting s and measure m.

    ``relevant`` and ``nonrelevant`` hold trec_eval's R and N, and ``ideal`` the DCG of the best
    ranking, for each measure and topic of the pool.

    ``settings`` lists the settings so that those of one of ``cells`` (shape (settings,), as they
    are listed) stand together. A cell's candidates are ``cell_position[cell_start[t, cell] :
    cell_start[t, cell + 1]]``, ascending; cell -1 has all.
    """
    for i in range(topics.size):
        t = topics[i]
        if doc_start[t] == doc_start[t + 1]:
            out[i] = 0.0
            continue
        length_t = length[doc_start[t] : doc_start[t + 1]]
        gain_t = gain[doc_start[t] : doc_start[t + 1]]
        count_t = count[term_start[t] : term_start[t + 1]]
        p_t = p[term_start[t] : term_start[t + 1]]
        block = tf[tf_start[t] : tf_start[t + 1]].reshape(count_t.size, length_t.size)
        begin = 0
        while begin < settings.size:
            cell = cells[begin]
            end = begin
            while end < settings.size and cells[end] == cell:
                end += 1
            if cell < 0:
                y = np.empty(block.shape)
                relative_frequencies(block, p_t, y)
                lengths = length_t.astype(np.float64)
                gains = gain_t
            else:
                chosen = cell_position[cell_start[t, cell] : cell_start[t, cell + 1]]
                y = np.empty((count_t.size, chosen.size))
                lengths = np.empty(chosen.size)
                gains = np.empty(chosen.size, np.int32)
                gather(block, p_t, length_t, gain_t, chosen, y, lengths, gains)
            _measure_settings(
                y,
                lengths,
                gains,
                count_t,
                p_t.min(),
                longest,
                floored,
                settings[begin:end],
                lambdas,
                mus,
                kinds,
                cutoffs,
                rels,
                relevant[:, t],
                nonrelevant[:, t],
                ideal[:, t],
                depth,
                out[i],
            )
            begin = end


@compiled()
def gather(tf, p, length, gain, chosen, y, lengths, gains):  # type: ignore[no-untyped-def]
    """Fill ``y``, ``lengths`` and ``gains`` of the documents at the places ``chosen``."""
    for w in range(p.size):
        row = tf[w]
        filled = y[w]
        scale = 1.0 / p[w]
        for k in range(chosen.size):
            filled[k] = row[np.uint64(chosen[k])] * scale
    for k in range(chosen.size):
        lengths[k] = length[np.uint64(chosen[k])]
        gains[k] = gain[np.uint64(chosen[k])]


@compiled()
def _measure_settings(  # type: ignore[no-untyped-def]
    y,
    length,
    gain,
    count,
    p_min,
    longest,
    floored,
    settings,
    lambdas,
    mus,
    kinds,
    cutoffs,
    rels,
    relevant,
    nonrelevant,
    ideal,
    depth,
    out,
):
    """Fill out[s, m] for the settings listed, on one topic's candidates.

    A document's rank is the number of documents that score higher, plus those of equal score
    that stand before it.
    """
    lowest_rel = rels.min()
    wants_bpref = (kinds == BPREF).any()
    docs = length.size
    positions = np.flatnonzero(gain >= lowest_rel)
    if positions.size == 0:
        for s in settings:
            out[s] = 0.0
        return
    others = np.flatnonzero((gain >= 0) & (gain < lowest_rel))
    others_before = np.searchsorted(others, positions)
    ratio = np.empty(docs)
    score = np.empty(docs)
    other_score = np.empty(others.size)
    ranks = np.empty(positions.size, np.int64)
    gains = np.empty(positions.size, np.int64)
    others_above = np.zeros(positions.size, np.int64)
    for s in settings:
        safe = scores_as_product(p_min, longest, count.sum(), lambdas[s], mus[s])
        rank_scores(y, length, count, lambdas[s], mus[s], safe, floored, ratio, score)
        if wants_bpref:
            for j in range(others.size):
                other_score[j] = score[np.uint64(others[j])]
        retrieved = 0
        for j in range(positions.size):
            position = positions[j]
            rank = count_above(score, position, score[position])
            if rank >= depth:
                continue
            ranks[retrieved] = rank
            gains[retrieved] = gain[position]
            if wants_bpref:
                others_above[retrieved] = count_above(other_score, others_before[j], score[position])
            retrieved += 1
        order = np.argsort(ranks[:retrieved])
        for m in range(kinds.size):
            out[s, m] = _value(
                kinds[m],
                cutoffs[m],
                rels[m],
                relevant[m],
                nonrelevant[m],
                ideal[m],
                order,
                ranks,
                gains,
                others_above,
            )


@compiled()
def _value(  # type: ignore[no-untyped-def]
    kind, cutoff, rel, relevant, nonrelevant, ideal, order, ranks, gains, others_above
):
    if relevant == 0:
        return 0.0
    total = 0.0
    found = 0
    passed = 0
    bound = min(relevant, nonrelevant)
    for place in range(order.size):
        j = order[place]
        if ranks[j] >= cutoff:
            break
        if gains[j] < rel:
            passed += 1
            continue
        found += 1
        if kind == AP:
            total += found / (ranks[j] + 1)
        elif kind == BPREF:
            above = passed + others_above[j]
            total += 1.0 - min(above, relevant) / bound if above > 0 else 1.0
        elif kind == DCG:
            total += gains[j] / np.log2(ranks[j] + 2.0)
        elif kind == EXPONENTIAL_DCG:
            total += (2.0 ** gains[j] - 1.0) / np.log2(ranks[j] + 2.0)
        elif kind == RECIPROCAL_RANK:
            return 1.0 / (ranks[j] + 1)
        elif kind == SUCCESS:
            return 1.0
    if kind == PRECISION:
        return found / cutoff
    if kind == RECALL:
        return found / relevant
    if kind in (DCG, EXPONENTIAL_DCG):
        return total / ideal
    return total / relevant
