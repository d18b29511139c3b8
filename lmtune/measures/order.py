"""The order of trec_eval."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import islice
from operator import gt
from typing import Any, TypeVar

Docno = TypeVar("Docno", bytes, str, tuple[Any, ...])


def trec_eval_order(docnos: Sequence[Docno], scores: Sequence[float], *, double: bool = False) -> list[Docno]:
    """Order a topic's documents as trec_eval does.

    Up to 9.0.8 it keeps scores as 32-bit floats and breaks ties by docno, descending in bytes
    (which for text is the order of its characters); 10.0 keeps 64 bits.

    Parameters
    ----------
    docnos : sequence of bytes, of str, or of tuples that begin with one
        Documents, each once.
    scores : sequence of float
        Their scores, in the same order; not NaN.
    double : bool
        Compare 64 bits, as 10.0 does.

    Returns
    -------
    list
        The docnos, best first.

    Examples
    --------
    >>> trec_eval_order(["a", "b", "c"], [0.5 + 1e-9, 0.5, 0.6])
    ['c', 'b', 'a']
    """
    # Scores beyond the range of 32 bits become infinite here, as in C.
    kept = array("d" if double else "f", scores).tolist()
    if all(map(gt, kept, islice(kept, 1, None))):
        return list(docnos)
    return [docno for _, docno in sorted(zip(kept, docnos, strict=True), reverse=True)]
