"""Document lengths as Lucene keeps them: in one byte, so that there are 256 of them.

Lengths up to 23 are kept as they are. What a longer document has beyond 24 tokens is rounded down
to its four leading binary digits (org.apache.lucene.util.SmallFloat, intToByte4 and byte4ToInt):
a length loses less than an eighth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Integers, Integers32
from lmtune.errors import InputError

_EXACT = 24
_BYTES = 256
_LONGEST = 2**31 - 1


def _kept() -> Integers:
    """Return the lengths that Lucene can tell apart, ascending, shape (256,)."""
    codes = np.arange(_BYTES - _EXACT)
    # Eight codes to a power of two: three digits follow the leading one.
    power = np.maximum(codes // 8 - 1, 0)
    excess = np.where(codes < 8, codes, (codes % 8 + 8) << power)
    return np.concatenate([np.arange(_EXACT), _EXACT + excess])


_KEPT = _kept()


def quantised_lengths(lengths: ArrayLike) -> Integers32:
    """Round document lengths down to those that Lucene can tell apart.

    Rounding what is rounded already changes nothing, and longer documents stay at least as long.

    Parameters
    ----------
    lengths : array_like of int
        Lengths in tokens, from 0 to 2**31 - 1.

    Returns
    -------
    numpy.ndarray of int32
        Of the same shape.

    Raises
    ------
    InputError
        For a length outside its domain.

    Examples
    --------
    >>> quantised_lengths([7, 40, 41, 43, 100, 1000])
    array([  7,  40,  40,  42,  96, 984], dtype=int32)
    """
    exact = np.asarray(lengths)
    outside = (exact < 0) | (exact > _LONGEST)
    if outside.any():
        raise InputError(
            "a document's length is outside its domain",
            value=int(exact[outside].flat[0]),
            accepted="0 to 2**31 - 1",
        )
    place = np.searchsorted(_KEPT, exact, "right") - 1
    return _KEPT[place].astype(np.int32)
