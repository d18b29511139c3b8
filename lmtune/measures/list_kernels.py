"""Kernels of list measures for many score vectors, with exact means over the orders of ties.

Each value is the mean over all orders of documents with equal scores. It depends only on the sets of tied
documents, so that most measures need no full sort.

`scores` has shape (vectors, rows) and `values` (vectors, lists). List q has the rows from `starts[q]` to
`starts[q + 1]`.
"""

from __future__ import annotations

import numpy as np

from lmtune.arrays import Booleans, Doubles, Integers
from lmtune.compiled import compiled
from lmtune.measures.kinds import Code

# Up to this cutoff, insertion into a sorted list of the best documents replaces a full sort.
_MOST_SELECTED = 64


@compiled()
def _select(s: Doubles, gain: Doubles, top: Doubles, top_gain: Doubles) -> None:
    """Fill `top` with the largest ``top.size`` scores, descending, and `top_gain` with their gains."""
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
def _share_gains(top: Doubles, gain: Doubles) -> None:
    """Replace gains by their mean over each set of equal scores; scores are sorted."""
    begin = 0
    while begin < top.size:
        end, gains = begin, 0.0
        while end < top.size and top[end] == top[begin]:
            gains += gain[end]
            end += 1
        gain[begin:end] = gains / (end - begin)
        begin = end


@compiled()
def _expected_gains(s: Doubles, gain: Doubles, top: Doubles, expected: Doubles, depth: int) -> None:
    """Fill `expected` with the expected gain at each of the first ``depth`` ranks; `top` is a buffer."""
    if depth > _MOST_SELECTED:
        order = np.argsort(-s)
        for place in range(s.size):
            top[place] = s[order[place]]
            expected[place] = gain[order[place]]
        _share_gains(top[: s.size], expected[: s.size])
        return
    _select(s, gain, top[:depth], expected[:depth])
    last, above, tied_gain = top[depth - 1], depth, 0.0
    while above > 0 and top[above - 1] == last:
        above -= 1
        tied_gain += expected[above]
    tied = 0
    for i in range(s.size):
        tied += s[i] == last
    if tied > depth - above:
        tied_gain = 0.0
        for i in range(s.size):
            if s[i] == last:
                tied_gain += gain[i]
    _share_gains(top[:above], expected[:above])
    expected[above:depth] = tied_gain / tied


@compiled()
def dcg_lists(scores: Doubles, gains: Doubles, starts: Integers, discount: Doubles, values: Doubles) -> None:
    """Compute the DCG of each list down to rank ``discount.size``."""
    longest = np.append(np.diff(starts), 0).max()
    top, expected = np.empty(longest), np.empty(longest)
    for v in range(scores.shape[0]):
        for q in range(starts.size - 1):
            s, gain = scores[v, starts[q] : starts[q + 1]], gains[starts[q] : starts[q + 1]]
            depth = min(discount.size, s.size)
            _expected_gains(s, gain, top, expected, depth)
            total = 0.0
            for place in range(depth):
                total += expected[place] * discount[place]
            values[v, q] = total


@compiled()
def _below(tree: Integers, grade: int) -> int:
    """Count the added grades below `grade`, in a binary indexed tree whose node g sums g & -g grades."""
    count = 0
    while grade > 0:
        count += tree[grade]
        grade -= grade & -grade
    return count


@compiled()
def _add(tree: Integers, grade: int) -> None:
    """Add a grade to the tree."""
    grade += 1
    while grade < tree.size:
        tree[grade] += 1
        grade += grade & -grade


@compiled()
def pairwise_error_lists(
    scores: Doubles, grades: Integers, starts: Integers, pairs: Integers, values: Doubles
) -> None:
    """Compute the fraction of pairs with different labels that are in the wrong order.

    `grades`, shape (rows,), are labels as ranks (from 0) among the list's distinct labels. `pairs`, shape
    (lists,), are the numbers of pairs with different labels. The value of a list without such pairs is NaN.
    """
    for v in range(scores.shape[0]):
        for q in range(pairs.size):
            if pairs[q] == 0:
                values[v, q] = np.nan
                continue
            s, grade = scores[v, starts[q] : starts[q + 1]], grades[starts[q] : starts[q + 1]]
            order = np.argsort(-s)
            # `tree` counts the grades of higher scores, `same` those within the current ties.
            tree, same = np.zeros(grade.max() + 2, np.int64), np.zeros(grade.max() + 1, np.int64)
            # Errors count twice, so that a tied pair, half an error, is an integer.
            errors, begin = 0, 0
            while begin < s.size:
                end = begin
                while end < s.size and s[order[end]] == s[order[begin]]:
                    current = grade[order[end]]
                    errors += 2 * _below(tree, current) + (end - begin) - same[current]
                    same[current] += 1
                    end += 1
                for place in range(begin, end):
                    current = grade[order[place]]
                    same[current] = 0
                    _add(tree, current)
                begin = end
            values[v, q] = errors / (2 * pairs[q])


@compiled()
def binary_measure_lists(
    kind: int,
    scores: Doubles,
    relevant: Booleans,
    starts: Integers,
    counts: Booleans,
    cutoff: int,
    values: Doubles,
) -> None:
    """Compute RR, winner-takes-all or AP; NaN for lists without relevant documents (`counts` is False).

    `kind` is `Code.RECIPROCAL_RANK`, which uses `cutoff`, `Code.WINNER` or `Code.AP`.
    """
    for v in range(scores.shape[0]):
        for q in range(counts.size):
            if not counts[q]:
                values[v, q] = np.nan
                continue
            s, is_relevant = scores[v, starts[q] : starts[q + 1]], relevant[starts[q] : starts[q + 1]]
            if kind == Code.RECIPROCAL_RANK:
                values[v, q] = _reciprocal_rank(s, is_relevant, cutoff)
            elif kind == Code.WINNER:
                values[v, q] = _winner(s, is_relevant)
            else:
                values[v, q] = _average_precision(s, is_relevant)


@compiled()
def _reciprocal_rank(s: Doubles, is_relevant: Booleans, cutoff: int) -> float:
    """Return the expected reciprocal rank of the first relevant document, 0 if below the cutoff."""
    best, hits = -np.inf, 0
    for i in range(s.size):
        if is_relevant[i] and (hits == 0 or s[i] > best):
            best, hits = s[i], 1
        elif is_relevant[i] and s[i] == best:
            hits += 1
    above, tied = 0, 0
    for i in range(s.size):
        above += s[i] > best
        tied += s[i] == best
    # `chance`: the probability that the first of `hits` relevant documents is at each of `tied` ranks.
    chance, total = hits / tied, 0.0
    for place in range(1, tied - hits + 2):
        if above + place > cutoff:
            break
        total += chance / (above + place)
        chance *= (tied - place - hits + 1) / max(tied - place, 1)
    return total


@compiled()
def _winner(s: Doubles, is_relevant: Booleans) -> float:
    """Return the winner-takes-all cost: the fraction of non-relevant documents among those tied first."""
    best, tied, wrong = s[0], 0, 0
    for i in range(s.size):
        if s[i] > best:
            best, tied, wrong = s[i], 0, 0
        if s[i] == best:
            tied += 1
            wrong += not is_relevant[i]
    return wrong / tied


@compiled()
def _average_precision(s: Doubles, is_relevant: Booleans) -> float:
    """Return the expected average precision."""
    order = np.argsort(-s)
    total, hits_above, begin = 0.0, 0, 0
    while begin < s.size:
        end, hits = begin, 0
        while end < s.size and s[order[end]] == s[order[begin]]:
            hits += is_relevant[order[end]]
            end += 1
        tied = end - begin
        # Each tied rank above a relevant document is relevant with this probability.
        density = (hits - 1) / (tied - 1) if tied > 1 else 0.0
        if hits > 0:
            for place in range(tied):
                total += hits / tied * (hits_above + 1 + place * density) / (begin + place + 1)
        hits_above += hits
        begin = end
    return total / hits_above
