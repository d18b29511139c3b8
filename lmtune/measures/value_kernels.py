"""Measures as sums of what relevant documents add: of a ranking, and of counts of documents above each.

A measure that is a sum over relevant documents needs one branch of `contribution`: settings, lines of fusion
weights and certificates all add that up. It must not rise as a rank or a count rises.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.compiled import compiled
from lmtune.measures.kinds import Code


class MeasureScale(NamedTuple):
    """What makes counts a value: the measure, a topic's R and N, what a sum is divided by.

    Attributes
    ----------
    kind, cutoff : int
        The measure's `lmtune.measures.kinds.Code`, and the rank down to which documents count.
    relevant, nonrelevant : int
        trec_eval's R and N.
    divisor : float
        See `lmtune.measures.evaluate.divisors`.
    """

    kind: int
    cutoff: int
    relevant: int
    nonrelevant: int
    divisor: float


@compiled(inline=True)
def contribution(kind: int, rank: int, counted: int, worth: float, relevant: int, nonrelevant: int) -> float:
    """Return what a relevant document adds to a measure at a rank, from 0, above the cutoff.

    ``counted`` are the relevant documents above it for AP, the judged nonrelevant ones for Bpref; ``worth``
    is what its gain adds to DCG at the first rank.
    """
    if kind == Code.AP:
        return float((counted + 1.0) / (rank + 1.0))
    if kind == Code.DCG or kind == Code.EXPONENTIAL_DCG:
        return float(worth / np.log2(rank + 2.0))
    if kind == Code.RECIPROCAL_RANK:
        return float(1.0 / (rank + 1.0))
    if kind == Code.BPREF and counted > 0:
        return float(1.0 - min(counted, relevant) / min(relevant, nonrelevant))
    return 1.0


@compiled(inline=True)
def takes_first(kind: int) -> bool:
    """Say whether a measure is what the first relevant document adds, and no sum."""
    return bool(kind == Code.RECIPROCAL_RANK or kind == Code.SUCCESS)


@compiled()
def value_of_ranks(
    scale: MeasureScale, rel: int, ranks: Integers, gains: Integers, others_above: Integers
) -> float:
    """Return a measure of a ranking, given the documents with a gain of `rel` or more, the best ranked first.

    ``others_above`` are the judged nonrelevant documents above each that are not among these.
    """
    kind, cutoff, relevant, nonrelevant, divisor = scale
    if relevant == 0:
        return 0.0
    total, found, passed = 0.0, 0, 0
    for j in range(ranks.size):
        if ranks[j] >= cutoff:
            break
        if gains[j] < rel:
            passed += 1
            continue
        counted = passed + others_above[j] if kind == Code.BPREF else found
        worth = 2.0 ** gains[j] - 1.0 if kind == Code.EXPONENTIAL_DCG else float(gains[j])
        total += contribution(kind, ranks[j], counted, worth, relevant, nonrelevant)
        if takes_first(kind):
            break
        found += 1
    return float(total / divisor)


@compiled()
def value_from_counts(scale: MeasureScale, above: Integers, judged_above: Integers) -> float:
    """Return the measure for counts of nonrelevant documents above each relevant candidate; not nDCG.

    Sums run as in `value_of_ranks`, and each operation is monotone: rounding cannot put the value for smaller
    counts below that for larger ones.
    """
    kind, cutoff, relevant, nonrelevant, divisor = scale
    ranked = np.sort(above)
    judged = np.sort(judged_above[above < cutoff]) if kind == Code.BPREF else ranked
    total = 0.0
    for i in range(ranked.size):
        rank = i + int(ranked[i])
        if rank >= cutoff:
            break
        counted = int(judged[i]) if kind == Code.BPREF else i
        total += contribution(kind, rank, counted, 1.0, relevant, nonrelevant)
        if takes_first(kind):
            break
    return total / divisor


@compiled()
def ndcg_from_counts(scale: MeasureScale, above: Integers, worth: Doubles) -> float:
    """Return nDCG for counts of all documents above each relevant candidate, rounded up.

    By more than this sum of parts, or the measuring kernel's of whole gains, can round.
    """
    order, levels = np.argsort(above), np.unique(worth)
    total, last = 0.0, 0.0
    for level in levels:
        rank = -1
        for i in order:
            if worth[i] >= level:
                rank = max(rank + 1, above[i])
                if rank >= scale.cutoff:
                    break
                total += contribution(Code.DCG, rank, 0, level - last, 0, 0)
        last = level
    return float(total / scale.divisor * (1.0 + (levels.size + 1) * (above.size + 2) * 2.0**-51))


@compiled()
def precisions_by_count(
    is_best: bool, cutoff: int, known: Integers, unjudged: Integers, relevant: int
) -> Doubles:
    """Return AP for 0 to all of the unjudged documents relevant: the first of them, or the last.

    Places (from 0) of `known` relevant and of `unjudged` documents ascend; `relevant` ones are judged so,
    ranked or not. One more relevant document adds its own precision, and 1 to the count of all below it.
    """
    number, below = unjudged.size, np.zeros(known.size + 1)
    for i in range(known.size - 1, -1, -1):
        below[i] = below[i + 1] + (1.0 / (known[i] + 1) if known[i] < cutoff else 0.0)
    total, chosen_below = 0.0, 0.0
    for i in range(known.size):
        total += contribution(Code.AP, known[i], i, 1.0, 0, 0) if known[i] < cutoff else 0.0
    values = np.zeros(number + 1)
    for count in range(number + 1):
        values[count] = total / (relevant + count) if relevant + count else 0.0
        if count < number:
            place = unjudged[count if is_best else number - 1 - count]
            before = np.searchsorted(known, place)
            total += below[before] + chosen_below
            if place < cutoff:
                total += (before + 1 + (count if is_best else 0)) / (place + 1)
                chosen_below += 0.0 if is_best else 1.0 / (place + 1)
    return values


@compiled()
def preferences_by_count(
    is_best: bool, cutoff: int, known: Integers, unjudged: Integers, relevant: int, nonrelevant: int
) -> Doubles:
    """Return Bpref likewise, all other unjudged documents nonrelevant, as `nonrelevant` are judged."""
    number = unjudged.size
    values = np.zeros(number + 1)
    for count in range(number + 1):
        chosen = unjudged[:count] if is_best else unjudged[number - count :]
        whole = relevant + count
        others = nonrelevant + number - count
        total, i, j = 0.0, 0, 0
        for found in range(known.size + count):
            if j == count or (i < known.size and known[i] < chosen[j]):
                place = known[i]
                i += 1
            else:
                place = chosen[j]
                j += 1
            if place >= cutoff:
                break
            total += contribution(Code.BPREF, place, place - found, 1.0, whole, others)
        values[count] = total / whole if whole else 0.0
    return values
