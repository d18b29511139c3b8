"""Stemmers that agree with Lucene's English stem filters."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from lmtune.errors import InputError, MissingExtraError

Stemmer = Callable[[str], str]

STEMMERS = ("porter", "krovetz", "none")
"""The accepted names."""


@lru_cache(maxsize=8)
def load_stemmer(name: str) -> Stemmer:
    """Return the function that stems one lower-case word.

    Parameters
    ----------
    name : str
        ``"porter"`` (Martin Porter's own program, as in Lucene's PorterStemFilter), ``"krovetz"``
        (as in Lucene's KStemFilter) or ``"none"``.

    Returns
    -------
    callable
        From a word to its stem.

    Raises
    ------
    InputError
        If the name is unknown.
    MissingExtraError
        If the stemmer's library is not installed.
    """
    if name == "porter":
        return _porter()
    if name == "krovetz":
        return _krovetz()
    if name == "none":
        return str
    raise InputError("unknown stemmer", value=name, accepted=", ".join(STEMMERS))


# Porter's program has two rules that the published algorithm, which Snowball implements, lacks:
# bli -> ble (for abli -> able) and logi -> log, where a vowel and then a consonant come before.
# Once those rules have fired only steps 3 to 5 are left, and these are all that the library's
# stemmer does to a word that ends in ble or log.
_MEASURE_ABOVE_0 = r"y?+[^aeiouy]*+[aeiouy][aeiou]*[^aeiou]"
_TAIL = r"(?:[iy](?:ed|ing)?s?|ies)"
_DEPARTURE = re.compile(rf"({_MEASURE_ABOVE_0}.*)(?:(bl)|log){_TAIL}", re.DOTALL)


def _porter() -> Stemmer:
    import Stemmer as PyStemmer

    stem = PyStemmer.Stemmer("porter", 0).stemWord

    def porter(word: str) -> str:
        if len(word) < 3:
            return word
        if "bl" in word or "log" in word:
            departure = _DEPARTURE.fullmatch(word)
            if departure is not None:
                word = departure[1] + ("ble" if departure[2] else "log")
        return str(stem(word))

    return porter


def _krovetz() -> Stemmer:
    try:
        import krovetzstemmer
    except ImportError as error:
        raise MissingExtraError("the Krovetz stemmer", "krovetz") from error
    stem = krovetzstemmer.Stemmer()

    def krovetz(word: str) -> str:
        return str(stem(word))

    return krovetz
