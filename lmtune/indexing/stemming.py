"""Stemmers: those that agree with Lucene's English stem filters, and Snowball's of other languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from lmtune.errors import MissingExtraError, check_choice

Stemmer = Callable[[str], str]

STEMMERS = ("porter", "krovetz", "none")
"""The accepted names, beside those of Snowball's algorithms."""


@lru_cache(maxsize=8)
def load_stemmer(name: str) -> Stemmer:
    """Return the function that stems one lower-case word.

    Parameters
    ----------
    name : str
        ``"porter"`` (Martin Porter's own program, as in Lucene's PorterStemFilter), ``"krovetz"``
        (Krovetz's own program, which Lucene's KStemFilter rewrites with a dictionary of its own),
        ``"none"``, one of Snowball's algorithms, such as ``"english"`` (Porter2), ``"german"``, or one's own:
        the name of an entry point of the group ``lmtune.stemmers`` in an installed package.

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
    import Stemmer as PyStemmer

    known = PyStemmer.algorithms()
    if name not in known:
        return _installed(name, (*STEMMERS, *known))
    stem: Stemmer = PyStemmer.Stemmer(name, 0).stemWord
    return stem


def _installed(name: str, known: Sequence[str]) -> Stemmer:
    """Return another package's; a name in an index's settings thus runs nothing that was not installed."""
    from importlib.metadata import entry_points

    points = entry_points(group="lmtune.stemmers")
    check_choice("unknown stemmer", name, dict.fromkeys((*known, *points.names)))
    stem: Stemmer = points[name].load()
    return stem


def _porter() -> Stemmer:
    import Stemmer as PyStemmer

    published = PyStemmer.Stemmer("porter", 0).stemWord

    def porter(word: str) -> str:
        if not word.isascii() and max(word) > "\uffff":
            return _with_surrogates(word, porter)
        if len(word) < 3:
            return word
        if word.endswith(("ed", "ing", "eds", "ings")) or "bl" in word or "log" in word:
            word = _departures(word)
        return str(published(word))

    return porter


# Snowball's Porter stemmer keeps to the published algorithm. Porter's program departs from it in
# that it halves every doubled consonant before ed and ing, turns bli (not only abli) into ble, and
# turns logi into log. Where it does so, the word is replaced by one that the published algorithm
# takes to the same stem: the doubled letter halved and the ending gone, as step 1b leaves it, or
# ending in ble or log, which steps 1 and 2 leave alone.
_DOUBLED = re.compile(r"(.*([^aeioulszbdfgmnprt]))\2(?:ed|ing)s?", re.DOTALL)
_BLI_LOGI = re.compile(r"(.*)(bl|log)(?:[iy](?:ed|ing)?s?|ies)", re.DOTALL)


def _departures(word: str) -> str:
    doubled = _DOUBLED.fullmatch(word)
    if doubled is not None:
        kinds = _kinds(doubled[1] + doubled[2])
        if "v" in kinds and kinds[-1] == "c":
            word = doubled[1]
    suffix = _BLI_LOGI.fullmatch(word)
    if suffix is not None and "vc" in _kinds(suffix[1]):
        word = suffix[1] + ("ble" if suffix[2] == "bl" else "log")
    return word


def _kinds(stem: str) -> str:
    """Return a v for each vowel and a c for each consonant; y is a vowel after a consonant."""
    kinds = ""
    for letter in stem:
        vowel = letter in "aeiou" or (letter == "y" and kinds[-1:] == "c")
        kinds += "v" if vowel else "c"
    return kinds


_ASTRAL = re.compile(r"[^\x00-\uffff]")
_STAND_IN = "\ue000\ue001"


def _with_surrogates(word: str, stem: Stemmer) -> str:
    """Stem as Java does, to which a character beyond U+FFFF is two."""
    characters = iter(_ASTRAL.findall(word))
    stemmed = stem(_ASTRAL.sub(_STAND_IN, word))
    return re.sub(_STAND_IN, lambda _: next(characters), stemmed)


KROVETZ_LONGEST = 24
"""Words with more letters are their own stems to the library; Lucene stems up to 49."""


def _krovetz() -> Stemmer:
    try:
        import krovetzstemmer
    except ImportError as error:
        raise MissingExtraError("the Krovetz stemmer", "krovetz") from error
    stem = krovetzstemmer.Stemmer().stem

    def krovetz(word: str) -> str:
        if len(word) > KROVETZ_LONGEST or not (word.isascii() and word.isalpha()):
            return word
        return str(stem(word))

    return krovetz
