"""Measures of many score vectors at once: one number a query, equal scores taken exactly.

Documents of equal score stand in every order equally often; each value is the mean over these
orders. So only sets of equal scores matter, and most measures need no complete sort.
"""

from __future__ import annotations

import numpy as np

from lmtune.compiled import compiled

# Up to this cutoff the best documents are kept in order as they come.
MOST_SELECTED = 64


@compiled()
def _select(s, gain, top, top_gain):  # type: ignore[no-untyped-def]
    """Put the best ``top.size`` scores and their gains, falling, into `top` and `top_gain`."""
    depth = top.size
    for i in range(s.size):
        if i >= depth and s[i] <= top[depth - 1]:
            continue
        place = min(i, depth - 1)
        while place > 0 and top[place - 1] < s[i]:
            top[place] = top[place - 1]
            top_gain[place] = top_gain[place - 1]
            place -= 1
        top[place] = s[i]
        top_gain[place] = gain[i]


@compiled()
def _discounted(top, top_gain, discount):  # type: ignore[no-untyped-def]
    """Sum the gains in their order, discounted, each the mean of those of equal score."""
    total = 0.0
    begin = 0
    while begin < top.size:
        end, gains = begin, 0.0
        while end < top.size and top[end] == top[begin]:
            gains += top_gain[end]
            end += 1
        mean = gains / (end - begin)
        for place in range(begin, min(end, discount.size)):
            total += mean * discount[place]
        begin = end
    return total


@compiled()
def ndcg_queries(scores, gains, starts, best, discount, values):  # type: ignore[no-untyped-def]
    """Fill NDCG down to the rank ``discount.size``.

    Parameters
    ----------
    scores : float64 array of shape (vectors, rows)
    gains : float64 array of shape (rows,)
    starts : int64 array of shape (queries + 1,)
    best : float64 array of shape (queries,)
        The highest DCG of each query; 0 where it does not count.
    discount : float64 array of shape (cutoff,)
    values : float64 array of shape (vectors, queries)
        NaN where a query does not count.
    """
    longest = 0
    for q in range(best.size):
        longest = max(longest, starts[q + 1] - starts[q])
    kept, kept_gains = np.empty(longest), np.empty(longest)
    for v in range(scores.shape[0]):
        for q in range(best.size):
            if best[q] == 0.0:
                values[v, q] = np.nan
                continue
            s, gain = scores[v, starts[q] : starts[q + 1]], gains[starts[q] : starts[q + 1]]
            depth = min(discount.size, s.size)
            if depth > MOST_SELECTED:
                order = np.argsort(-s)
                for place in range(s.size):
                    kept[place] = s[order[place]]
                    kept_gains[place] = gain[order[place]]
                reached = _discounted(kept[: s.size], kept_gains[: s.size], discount)
                values[v, q] = reached / best[q]
                continue
            top, top_gain = kept[:depth], kept_gains[:depth]
            _select(s, gain, top, top_gain)
            last, above, tied_gain = top[depth - 1], depth, 0.0
            while above > 0 and top[above - 1] == last:
                above -= 1
                tied_gain += top_gain[above]
            tied = 0
            for i in range(s.size):
                tied += s[i] == last
            if tied > depth - above:
                tied_gain = 0.0
                for i in range(s.size):
                    if s[i] == last:
                        tied_gain += gain[i]
            reached = _discounted(top[:above], top_gain[:above], discount)
            for place in range(above, depth):
                reached += tied_gain / tied * discount[place]
            values[v, q] = reached / best[q]


@compiled()
def _below(tree, grade):  # type: ignore[no-untyped-def]
    """Count what was added below a grade; a binary indexed tree, node g sums g & -g grades."""
    count = 0
    while grade > 0:
        count += tree[grade]
        grade -= grade & -grade
    return count


@compiled()
def _add(tree, grade):  # type: ignore[no-untyped-def]
    """Count a grade."""
    grade += 1
    while grade < tree.size:
        tree[grade] += 1
        grade += grade & -grade


@compiled()
def pairwise_error_queries(scores, grades, starts, pairs, values):  # type: ignore[no-untyped-def]
    """Fill the share of pairs of different labels that stand in the wrong order.

    Parameters
    ----------
    scores, starts, values
        As of `ndcg_queries`.
    grades : int64 array of shape (rows,)
        Each label's place among the query's own distinct labels, from 0.
    pairs : int64 array of shape (queries,)
        Pairs of different labels.
    """
    for v in range(scores.shape[0]):
        for q in range(pairs.size):
            if pairs[q] == 0:
                values[v, q] = np.nan
                continue
            s, grade = scores[v, starts[q] : starts[q + 1]], grades[starts[q] : starts[q + 1]]
            order = np.argsort(-s)
            # `tree` counts the grades passed; `same` those among the equal scores at hand.
            tree, same = np.zeros(grade.max() + 2, np.int64), np.zeros(grade.max() + 1, np.int64)
            # Twice the errors, as a pair of equal scores is half a one.
            errors, begin = 0, 0
            while begin < s.size:
                end = begin
                while end < s.size and s[order[end]] == s[order[begin]]:
                    here = grade[order[end]]
                    errors += 2 * _below(tree, here) + (end - begin) - same[here]
                    same[here] += 1
                    end += 1
                for place in range(begin, end):
                    here = grade[order[place]]
                    same[here] = 0
                    _add(tree, here)
                begin = end
            values[v, q] = errors / (2 * pairs[q])


@compiled()
def first_relevant_queries(  # type: ignore[no-untyped-def]
    scores, relevant, starts, counts, cutoff, values
):
    """Fill the reciprocal rank of the first relevant document, 0 beyond rank `cutoff`.

    Parameters
    ----------
    scores, starts, values
        As of `ndcg_queries`.
    relevant : bool array of shape (rows,)
    counts : bool array of shape (queries,)
        Whether there is a relevant document.
    cutoff : int
    """
    for v in range(scores.shape[0]):
        for q in range(counts.size):
            if not counts[q]:
                values[v, q] = np.nan
                continue
            s, wanted = scores[v, starts[q] : starts[q + 1]], relevant[starts[q] : starts[q + 1]]
            best, hits = -np.inf, 0
            for i in range(s.size):
                if wanted[i] and (hits == 0 or s[i] > best):
                    best, hits = s[i], 1
                elif wanted[i] and s[i] == best:
                    hits += 1
            above, tied = 0, 0
            for i in range(s.size):
                above += s[i] > best
                tied += s[i] == best
            # The chance that the first of `hits` among `tied` stands at each place.
            chance, total = hits / tied, 0.0
            for place in range(1, tied - hits + 2):
                if above + place > cutoff:
                    break
                total += chance / (above + place)
                chance *= (tied - place - hits + 1) / max(tied - place, 1)
            values[v, q] = total


@compiled()
def winner_queries(scores, relevant, starts, counts, values):  # type: ignore[no-untyped-def]
    """Fill winner-takes-all's cost: the share of documents that are not relevant among the first.

    Parameters
    ----------
    scores, relevant, starts, counts, values
        As of `first_relevant_queries`.
    """
    for v in range(scores.shape[0]):
        for q in range(counts.size):
            if not counts[q]:
                values[v, q] = np.nan
                continue
            s, wanted = scores[v, starts[q] : starts[q + 1]], relevant[starts[q] : starts[q + 1]]
            best, tied, wrong = s[0], 0, 0
            for i in range(s.size):
                if s[i] > best:
                    best, tied, wrong = s[i], 0, 0
                if s[i] == best:
                    tied += 1
                    wrong += not wanted[i]
            values[v, q] = wrong / tied


@compiled()
def average_precision_queries(  # type: ignore[no-untyped-def]
    scores, relevant, starts, counts, values
):
    """Fill average precision over all ranks.

    Parameters
    ----------
    scores, relevant, starts, counts, values
        As of `first_relevant_queries`.
    """
    for v in range(scores.shape[0]):
        for q in range(counts.size):
            if not counts[q]:
                values[v, q] = np.nan
                continue
            s, wanted = scores[v, starts[q] : starts[q + 1]], relevant[starts[q] : starts[q + 1]]
            order = np.argsort(-s)
            total, found, begin = 0.0, 0, 0
            while begin < s.size:
                end, hits = begin, 0
                while end < s.size and s[order[end]] == s[order[begin]]:
                    hits += wanted[order[end]]
                    end += 1
                tied = end - begin
                # A relevant document at a place has (hits - 1) / (tied - 1) before it a place.
                more = (hits - 1) / (tied - 1) if tied > 1 else 0.0
                if hits > 0:
                    for place in range(tied):
                        total += hits / tied * (found + 1 + place * more) / (begin + place + 1)
                found += hits
                begin = end
            values[v, q] = total / found
