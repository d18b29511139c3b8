"""AP and Bpref of the best and the worst way to choose a number of relevant documents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled

Integers = NDArray[np.int64]


@compiled()
def values_by_count(
    is_bpref: bool,
    is_best: bool,
    cutoff: int,
    known: Integers,
    unjudged: Integers,
    relevant: int,
    nonrelevant: int,
) -> NDArray[np.float64]:
    """Return the measure for 0 to all of the unjudged documents relevant, the others nonrelevant.

    The relevant are the first of them, or the last. Places (from 0) of `known` relevant and of `unjudged`
    documents ascend; `relevant` and `nonrelevant` documents are judged so, ranked or not.
    """
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
            if not is_bpref:
                total += (found + 1) / (place + 1)
            else:
                total += 1.0 - min(whole, place - found) / limit if place > found else 1.0
        values[count] = total / whole if whole else 0.0
    return values
