"""Document lengths quantised as in Lucene: to one byte, so to 256 values.

Lengths up to 23 are exact. For longer documents, the length minus 24 is rounded down to its four leading
binary digits (org.apache.lucene.util.SmallFloat, intToByte4 and byte4ToInt). A length loses less than an
eighth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Integers, Integers32
from lmtune.errors import InputError

_EXACT = 24
_BYTES = 256
_LONGEST = 2**31 - 1


def _quantised_values() -> Integers:
    """Return the lengths that one byte can represent, ascending, shape (256,)."""
    codes = np.arange(_BYTES - _EXACT)
    # Eight codes for each power of two: three binary digits follow the leading one.
    power = np.maximum(codes // 8 - 1, 0)
    excess = np.where(codes < 8, codes, (codes % 8 + 8) << power)
    return np.concatenate([np.arange(_EXACT), _EXACT + excess])


_VALUES = _quantised_values()


def quantised_lengths(lengths: ArrayLike) -> Integers32:
    """Round document lengths down to the values that Lucene can represent.

    Rounding is idempotent and monotonic: rounding again changes nothing, and the order of lengths is kept.

    Parameters
    ----------
    lengths : array_like of int
        Lengths in tokens, from 0 to 2**31 - 1.

    Returns
    -------
    numpy.ndarray of int32
        Rounded lengths, of the same shape.

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
    code = np.searchsorted(_VALUES, exact, "right") - 1
    return _VALUES[code].astype(np.int32)
