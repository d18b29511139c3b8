"""Measures of many score vectors at once: one number a list, equal scores taken exactly.

Documents of equal score stand in every order equally often; each value is the mean over these
orders. So only sets of equal scores matter, and most measures need no complete sort.

`scores` has shape (vectors, rows), `values` (vectors, lists); the rows of list q are those from
`starts[q]` to `starts[q + 1]`.
"""

from __future__ import annotations

import numpy as np

from lmtune.arrays import Booleans, Doubles, Integers
from lmtune.compiled import compiled
from lmtune.measures.kinds import Code

# Up to this cutoff the best documents are kept in order as they come.
_MOST_SELECTED = 64


@compiled()
def _select(s: Doubles, gain: Doubles, top: Doubles, top_gain: Doubles) -> None:
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
def _share_gains(top: Doubles, gain: Doubles) -> None:
    """Give the gains of each set of equal scores, which stand together, their mean."""
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
    """Fill the expected gain of each of the first ``depth`` places; `top` is room for scores."""
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
    """Fill discounted cumulative gains down to the rank ``discount.size``."""
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
    """Count what was added below a grade; a binary indexed tree, node g sums g & -g grades."""
    count = 0
    while grade > 0:
        count += tree[grade]
        grade -= grade & -grade
    return count


@compiled()
def _add(tree: Integers, grade: int) -> None:
    """Count a grade."""
    grade += 1
    while grade < tree.size:
        tree[grade] += 1
        grade += grade & -grade


@compiled()
def pairwise_error_lists(
    scores: Doubles, grades: Integers, starts: Integers, pairs: Integers, values: Doubles
) -> None:
    """Fill the share of pairs of different labels that stand in the wrong order.

    `grades`, shape (rows,), are each label's place among the list's own distinct labels, from 0;
    `pairs`, shape (lists,), how many pairs have different labels. Without any, the value is NaN.
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
def relevance_lists(
    kind: int,
    scores: Doubles,
    relevant: Booleans,
    starts: Integers,
    counts: Booleans,
    cutoff: int,
    values: Doubles,
) -> None:
    """Fill a measure of relevant documents; NaN for lists that do not count, for want of any.

    `kind` is `Code.RECIPROCAL_RANK`, down to the rank `cutoff`, `Code.WINNER` or `Code.AP`.
    """
    for v in range(scores.shape[0]):
        for q in range(counts.size):
            if not counts[q]:
                values[v, q] = np.nan
                continue
            s, wanted = scores[v, starts[q] : starts[q + 1]], relevant[starts[q] : starts[q + 1]]
            if kind == Code.RECIPROCAL_RANK:
                values[v, q] = _reciprocal_rank(s, wanted, cutoff)
            elif kind == Code.WINNER:
                values[v, q] = _winner(s, wanted)
            else:
                values[v, q] = _average_precision(s, wanted)


@compiled()
def _reciprocal_rank(s: Doubles, wanted: Booleans, cutoff: int) -> float:
    """Return 1 over the rank of the first relevant document, 0 beyond the cutoff."""
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
    return total


@compiled()
def _winner(s: Doubles, wanted: Booleans) -> float:
    """Return winner-takes-all's cost: the share of other documents among the first."""
    best, tied, wrong = s[0], 0, 0
    for i in range(s.size):
        if s[i] > best:
            best, tied, wrong = s[i], 0, 0
        if s[i] == best:
            tied += 1
            wrong += not wanted[i]
    return wrong / tied


@compiled()
def _average_precision(s: Doubles, wanted: Booleans) -> float:
    """Return average precision over all ranks."""
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
    return total / found
