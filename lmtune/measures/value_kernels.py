"""Measures as sums of contributions of relevant documents, from ranks or from counts of documents above.

A measure that is a sum over relevant documents needs one branch of `contribution`. Evaluation of settings,
search along fusion weights and certificates all sum these contributions. A contribution must not increase
with the rank or the count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.compiled import compiled
from lmtune.measures.kinds import Code


class MeasureScale(NamedTuple):
    """A measure and a topic's constants: R, N and the divisor of the sum.

    Attributes
    ----------
    kind, cutoff : int
        The measure's `lmtune.measures.kinds.Code`, and the last rank that counts.
    relevant, nonrelevant : int
        R and N of trec_eval: the numbers of judged relevant and judged non-relevant documents.
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
    """Return a relevant document's contribution to a measure's sum.

    ``rank`` starts at 0 and is above the cutoff. ``counted`` is the number of relevant documents above it for
    AP, and of judged non-relevant documents for Bpref. ``worth`` is the numerator of its gain in DCG.
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
    """Return whether only the first relevant document contributes to a measure."""
    return bool(kind == Code.RECIPROCAL_RANK or kind == Code.SUCCESS)


@compiled()
def value_of_ranks(
    scale: MeasureScale, rel: int, ranks: Integers, gains: Integers, others_above: Integers
) -> float:
    """Return a measure from the ranks (ascending) and gains of a topic's judged documents.

    All documents with gains of `rel` or more must be included. ``others_above`` is the number of judged
    non-relevant documents above each that are not included.
    """
    kind, cutoff, relevant, nonrelevant, divisor = scale
    if relevant == 0:
        return 0.0
    total, relevant_above, nonrelevant_above = 0.0, 0, 0
    for j in range(ranks.size):
        if ranks[j] >= cutoff:
            break
        if gains[j] < rel:
            nonrelevant_above += 1
            continue
        counted = nonrelevant_above + others_above[j] if kind == Code.BPREF else relevant_above
        worth = 2.0 ** gains[j] - 1.0 if kind == Code.EXPONENTIAL_DCG else float(gains[j])
        total += contribution(kind, ranks[j], counted, worth, relevant, nonrelevant)
        if takes_first(kind):
            break
        relevant_above += 1
    return float(total / divisor)


@compiled()
def value_from_counts(scale: MeasureScale, above: Integers, judged_above: Integers) -> float:
    """Return a measure, except nDCG, from the numbers of non-relevant documents above relevant candidates.

    Sums are computed as in `value_of_ranks`, and every operation is monotone. So even with rounding, smaller
    counts never give a lower value.
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
    """Return nDCG from the numbers of all documents above each relevant candidate, rounded up.

    The increase exceeds the rounding error of this sum and of the measuring kernel's sum.
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
    """Return AP if s of the unjudged documents are relevant, for every s from 0 to all of them.

    These are the first s documents if ``is_best``, and otherwise the last. `known` are the positions (from 0,
    ascending) of relevant documents, `unjudged` those of unjudged documents; `relevant` is R. An additional
    relevant document contributes its precision, and 1 to the count of every relevant document below.
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
    """Return Bpref as `precisions_by_count` does AP; all other unjudged documents are non-relevant."""
    number = unjudged.size
    values = np.zeros(number + 1)
    for count in range(number + 1):
        chosen = unjudged[:count] if is_best else unjudged[number - count :]
        all_relevant = relevant + count
        all_nonrelevant = nonrelevant + number - count
        total, i, j = 0.0, 0, 0
        for relevant_above in range(known.size + count):
            if j == count or (i < known.size and known[i] < chosen[j]):
                place = known[i]
                i += 1
            else:
                place = chosen[j]
                j += 1
            if place >= cutoff:
                break
            total += contribution(
                Code.BPREF, place, place - relevant_above, 1.0, all_relevant, all_nonrelevant
            )
        values[count] = total / all_relevant if all_relevant else 0.0
    return values
