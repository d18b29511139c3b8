"""The measuring kernel: ranks of judged documents by counting, measures from those ranks."""

from __future__ import annotations

import numpy as np
from numba import njit

from lmtune.models.kernels import count_above, rank_scores, relative_frequencies, scores_as_product

AP, PRECISION, BPREF = 0, 1, 2


@njit(cache=True, nogil=True, error_model="numpy")
def measure_topics(  # type: ignore[no-untyped-def]
    topics, doc_start, tf_start, length, gain, tf, term_start, p, count, longest,
    lambdas, mus, kinds, cutoffs, rels, relevant, nonrelevant, depth, out,
):  # fmt: skip
    """Fill out[i, s, m] for every topic i of ``topics``, setting s and measure m.

    ``relevant`` and ``nonrelevant`` hold trec_eval's R and N for each measure and topic of the
    pool. A document's rank is the number of documents that score higher, plus those of equal
    score that stand before it.
    """
    lowest_rel = rels.min()
    wants_bpref = (kinds == BPREF).any()
    for i in range(topics.size):
        t = topics[i]
        length_t = length[doc_start[t] : doc_start[t + 1]].astype(np.float64)
        gain_t = gain[doc_start[t] : doc_start[t + 1]]
        count_t = count[term_start[t] : term_start[t + 1]]
        docs = length_t.size
        positions = np.flatnonzero(gain_t >= lowest_rel)
        if positions.size == 0:
            out[i] = 0.0
            continue
        others = np.flatnonzero((gain_t >= 0) & (gain_t < lowest_rel))
        y = np.empty((count_t.size, docs))
        block = tf[tf_start[t] : tf_start[t + 1]].reshape(count_t.size, docs)
        relative_frequencies(block, p[term_start[t] : term_start[t + 1]], y)
        p_min = p[term_start[t] : term_start[t + 1]].min()
        ratio = np.empty(docs)
        score = np.empty(docs)
        other_score = np.empty(others.size)
        ranks = np.empty(positions.size, np.int64)
        gains = np.empty(positions.size, np.int64)
        others_above = np.zeros(positions.size, np.int64)
        for s in range(lambdas.size):
            safe = scores_as_product(p_min, longest, count_t.sum(), lambdas[s], mus[s])
            rank_scores(y, length_t, count_t, lambdas[s], mus[s], safe, ratio, score)
            for j in range(others.size):
                other_score[j] = score[others[j]]
            retrieved = 0
            for j in range(positions.size):
                position = positions[j]
                rank = count_above(score, position, score[position])
                if rank >= depth:
                    continue
                ranks[retrieved] = rank
                gains[retrieved] = gain_t[position]
                if wants_bpref:
                    before = np.searchsorted(others, position)
                    # count_above skips one element, its subject, which is not among the others.
                    above = np.int64(0)
                    for k in range(before):
                        above += np.int64(other_score[k] >= score[position])
                    for k in range(before, others.size):
                        above += np.int64(other_score[k] > score[position])
                    others_above[retrieved] = above
                retrieved += 1
            order = np.argsort(ranks[:retrieved])
            for m in range(kinds.size):
                out[i, s, m] = _value(
                    kinds[m], cutoffs[m], rels[m], relevant[m, t], nonrelevant[m, t],
                    order, ranks, gains, others_above,
                )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _value(kind, cutoff, rel, relevant, nonrelevant, order, ranks, gains, others_above):  # type: ignore[no-untyped-def]
    if relevant == 0:
        return 0.0
    total = 0.0
    found = 0
    passed = 0
    bound = min(relevant, nonrelevant)
    for place in range(order.size):
        j = order[place]
        if kind != BPREF and ranks[j] >= cutoff:
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
    if kind == PRECISION:
        return found / cutoff
    return total / relevant
