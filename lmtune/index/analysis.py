"""Analyse text into index terms, as Anserini's DefaultEnglishAnalyzer does: tokens, stopwords, stems."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from lmtune.errors import InputError, MissingExtraError, check_choice
from lmtune.index.tokenizer import lower_case, tokenize
from lmtune.io.files import read_bytes

Stemmer = Callable[[str], str]

STEMMERS = ("porter", "krovetz", "none")
"""Accepted stemmers, in addition to Snowball's algorithms."""


@lru_cache(maxsize=8)
def load_stemmer(name: str) -> Stemmer:
    """Return the function that stems one lower-case word.

    Parameters
    ----------
    name : str
        ``"porter"`` (Martin Porter's program, as in Lucene's PorterStemFilter), ``"krovetz"`` (Krovetz's
        program; Lucene's KStemFilter is a rewrite with another dictionary), ``"none"``, one of Snowball's
        algorithms, such as ``"english"`` (Porter2) or ``"german"``, or a custom stemmer: the name of an
        entry point of the group ``lmtune.stemmers`` in an installed package.

    Returns
    -------
    callable
        Maps a word to its stem.

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
    """Return the stemmer of an entry point.

    A name in an index's settings can thus run only code of installed packages.
    """
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
            word = _apply_departures(word)
        return str(published(word))

    return porter


# Snowball's Porter stemmer is the published algorithm. Porter's program departs from it in three points: it
# reduces every doubled consonant before ed and ing, it changes bli (not only abli) to ble, and logi to log.
# In these cases the word is replaced by one with the same stem in the published algorithm: either without
# the ending and the doubled letter (the result of step 1b), or with the ending ble or log (which steps 1
# and 2 do not change).
_DOUBLED = re.compile(r"(.*([^aeioulszbdfgmnprt]))\2(?:ed|ing)s?", re.DOTALL)
_BLI_LOGI = re.compile(r"(.*)(bl|log)(?:[iy](?:ed|ing)?s?|ies)", re.DOTALL)


def _apply_departures(word: str) -> str:
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
    """Return v for each vowel and c for each consonant; y is a vowel after a consonant."""
    kinds = ""
    for letter in stem:
        vowel = letter in "aeiou" or (letter == "y" and kinds[-1:] == "c")
        kinds += "v" if vowel else "c"
    return kinds


_ASTRAL = re.compile(r"[^\x00-\uffff]")
_PLACEHOLDER = "\ue000\ue001"


def _with_surrogates(word: str, stem: Stemmer) -> str:
    """Stem as Java does, with two characters for each one beyond U+FFFF."""
    characters = iter(_ASTRAL.findall(word))
    stemmed = stem(_ASTRAL.sub(_PLACEHOLDER, word))
    return re.sub(_PLACEHOLDER, lambda _: next(characters), stemmed)


_KROVETZ_LONGEST = 24
"""The library does not stem words with more letters; Lucene stems words of up to 49."""


def _krovetz() -> Stemmer:
    try:
        import krovetzstemmer
    except ImportError as error:
        raise MissingExtraError("the Krovetz stemmer", "krovetz") from error
    stem = krovetzstemmer.Stemmer().stem

    def krovetz(word: str) -> str:
        if len(word) > _KROVETZ_LONGEST or not (word.isascii() and word.isalpha()):
            return word
        return str(stem(word))

    return krovetz


_ENGLISH = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
LUCENE_ENGLISH = frozenset(_ENGLISH.split())
"""The 33 words of ``org.apache.lucene.analysis.en.EnglishAnalyzer``."""

STOPWORD_LISTS = ("lucene", "none")
"""Built-in stopword lists; any other name is a file."""

_ACCEPTED = "lucene, none, or the path of a file with one word a line"


def load_stopwords(name: str) -> frozenset[str]:
    """Return the words of a stopword list, in lower case.

    Parameters
    ----------
    name : str
        ``"lucene"`` (the 33 words of Lucene's EnglishAnalyzer), ``"none"``, or the path of a
        UTF-8 file with one word a line; blank lines and lines that start with ``#`` are skipped.

    Returns
    -------
    frozenset of str
        The words.

    Raises
    ------
    InputError
        If the name is neither a built-in list nor a file, or if the file is not UTF-8 or has a line with
        several words.
    """
    if name == "lucene":
        return LUCENE_ENGLISH
    if name == "none":
        return frozenset()
    path = Path(name)
    if not name or not path.is_file():
        raise InputError("unknown stopword list", value=name, accepted=_ACCEPTED)
    words = set()
    for number, raw in enumerate(read_bytes(path).splitlines(), start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError("not UTF-8", file=path, line=number, value=raw, accepted="UTF-8 text") from error
        if not line or line.startswith("#"):
            continue
        if len(line.split()) > 1:
            raise InputError(
                "several words on a line", file=path, line=number, value=line, accepted="one word"
            )
        words.add(lower_case(line))
    return frozenset(words)


def default_stopwords(stemmer: str) -> str:
    """Return the default list of a stemmer: ``"lucene"`` for English, ``"none"`` for other languages."""
    if stemmer in (*STEMMERS, "english"):
        return "lucene"
    import Stemmer as PyStemmer

    return "none" if stemmer in PyStemmer.algorithms() else "lucene"


_ANALYSIS_VERSION = 1
"""To be increased whenever the same settings yield other terms."""

_POSSESSIVES = ("'s", "\N{RIGHT SINGLE QUOTATION MARK}s", "\N{FULLWIDTH APOSTROPHE}s")


@dataclass(frozen=True)
class Analyzer:
    """Analyses text into index terms: tokens, possessives removed, lower case, stopwords, stems.

    With ``"porter"`` and ``"none"`` the terms are those of Anserini's ``DefaultEnglishAnalyzer``
    (Lucene 9.9.1: StandardTokenizer, EnglishPossessiveFilter, LowerCaseFilter, StopFilter,
    PorterStemFilter). With ``"krovetz"`` a few stems differ (later, cursor), because Lucene has another
    dictionary; so do words of more than 24 letters.

    Parameters
    ----------
    stemmer : str
        The stemmer: ``"porter"``, ``"krovetz"``, ``"none"``, or one of Snowball's algorithms, such as
        ``"german"``.
    stopwords : str
        ``"lucene"`` (the 33 words of Lucene's EnglishAnalyzer), ``"none"``, or the path of a UTF-8 file with
        one word a line, which is read once. Stopwords are removed before stemming. If empty, the default of
        the stemmer, by `default_stopwords`.
    words : frozenset of str, optional
        The stopwords, if they are known; no file is read then.

    Raises
    ------
    InputError
        If the stemmer or the stopword list is unknown.
    MissingExtraError
        If the stemmer needs a library that is not installed.

    Examples
    --------
    >>> Analyzer().analyze("The geologist's stones are rolling")
    ['geologist', 'stone', 'roll']
    """

    stemmer: str = "porter"
    stopwords: str = ""
    words: frozenset[str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        load_stemmer(self.stemmer)
        if not self.stopwords:
            object.__setattr__(self, "stopwords", default_stopwords(self.stemmer))
        if self.words is None:
            object.__setattr__(self, "words", load_stopwords(self.stopwords))

    def term(self, token: str) -> str | None:
        """Return the index term of a token, or None if the token is a stopword."""
        word = lower_case(token)
        if word.endswith(_POSSESSIVES):
            word = word[:-2]
        if word in self._stopwords:
            return None
        return load_stemmer(self.stemmer)(word)

    def analyze(self, text: str) -> list[str]:
        """Return the index terms of a text in order, with repetitions."""
        return [term for token in tokenize(text) if (term := self.term(token)) is not None]

    @property
    def settings(self) -> dict[str, str | list[str]]:
        """Settings that recreate the analyzer; for a stopword file they include its words."""
        names: dict[str, str | list[str]] = {"stemmer": self.stemmer, "stopwords": self.stopwords}
        return names if self.stopwords in STOPWORD_LISTS else {**names, "words": sorted(self._stopwords)}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Analyzer:
        """Create an analyzer from `settings` of another one."""
        words = settings.get("words")
        return cls(settings["stemmer"], settings["stopwords"], None if words is None else frozenset(words))

    @property
    def _stopwords(self) -> frozenset[str]:
        assert self.words is not None
        return self.words

    @property
    def fingerprint(self) -> str:
        """A hexadecimal digest that changes when the terms of some text may change."""
        settings = [f"analysis {_ANALYSIS_VERSION}", f"stemmer {self.stemmer}", "stopwords"]
        text = "\n".join([*settings, *sorted(self._stopwords)])
        return hashlib.sha256(text.encode()).hexdigest()
