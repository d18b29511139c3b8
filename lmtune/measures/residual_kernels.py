"""AP and Bpref of the best and the worst way to choose a number of relevant documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled

Integers = NDArray[np.int64]


@compiled()
def precisions_by_count(
    is_best: bool, cutoff: int, known: Integers, unjudged: Integers, relevant: int
) -> NDArray[np.float64]:
    """Return AP for 0 to all of the unjudged documents relevant: the first of them, or the last.

    Places (from 0) of `known` relevant and of `unjudged` documents ascend; `relevant` ones are judged so,
    ranked or not. One more relevant document adds its own precision, and 1 to the count of all below it.
    """
    number, below = unjudged.size, np.zeros(known.size + 1)
    for i in range(known.size - 1, -1, -1):
        below[i] = below[i + 1] + (1.0 / (known[i] + 1) if known[i] < cutoff else 0.0)
    total, chosen_below = 0.0, 0.0
    for i in range(known.size):
        total += (i + 1) / (known[i] + 1) if known[i] < cutoff else 0.0
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
) -> NDArray[np.float64]:
    """Return Bpref likewise, all other unjudged documents nonrelevant, as `nonrelevant` are judged."""
    number = unjudged.size
    values = np.zeros(number + 1)
    for count in range(number + 1):
        chosen = unjudged[:count] if is_best else unjudged[number - count :]
        whole = relevant + count
        limit = min(whole, nonrelevant + number - count)
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
            total += 1.0 - min(whole, place - found) / limit if place > found else 1.0
        values[count] = total / whole if whole else 0.0
    return values
