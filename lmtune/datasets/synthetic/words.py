"""Made-up names: words that no analysis changes, and docnos."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A word ends in a vowel that no stemmer strips, has no two vowels in a row, and is longer than any
# stopword of its kind: all of lmtune's analyses leave it as it is.
_SYLLABLES = [consonant + vowel for consonant in "bdhjlmnprstvwz" for vowel in "aeiou"]
_LAST_SYLLABLES = [syllable for syllable in _SYLLABLES if syllable[-1] in "aou"]
# Coprime to the number of words of any number of syllables, and to powers of ten.
_STRIDE = 7919
_DIGITS = 7
_DOCNO_STRIDE = 7_654_321


def word(number: int, syllables: int) -> str:
    """Return a pronounceable word; different numbers give different words.

    Parameters
    ----------
    number : int
        From 0 to below 42 x 70 ** (syllables - 1).
    syllables : int
        At least 2.

    Examples
    --------
    >>> word(0, 2), word(1, 2), word(1, 3)
    ('baba', 'sopu', 'bisopu')
    """
    code = number * _STRIDE % (len(_LAST_SYLLABLES) * len(_SYLLABLES) ** (syllables - 1))
    code, last = divmod(code, len(_LAST_SYLLABLES))
    parts = [_LAST_SYLLABLES[last]]
    for _ in range(syllables - 1):
        code, syllable = divmod(code, len(_SYLLABLES))
        parts.append(_SYLLABLES[syllable])
    return "".join(reversed(parts))


def docnos(docs: NDArray[np.integer] | range, total: int) -> list[str]:
    """Return the names of documents, whose order is another than that of their numbers.

    Parameters
    ----------
    docs : numpy.ndarray of int or range
        Document numbers from 0 to below `total`.
    total : int
        How many documents there are, at most 10 ** 9.
    """
    digits = max(_DIGITS, len(str(total - 1)))
    codes = np.asarray(docs, np.int64) * _DOCNO_STRIDE % 10**digits
    return [f"syn-{code:0{digits}d}" for code in codes.tolist()]
