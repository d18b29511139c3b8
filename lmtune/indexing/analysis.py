"""From text to index terms, as Anserini's DefaultEnglishAnalyzer does it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lmtune.indexing.stemming import load_stemmer
from lmtune.indexing.stopwords import LISTS, load_stopwords
from lmtune.indexing.tokenizer import lower_case, tokenize

ANALYSIS_VERSION = 1
"""Raised whenever the same settings come to give other terms."""

_POSSESSIVES = ("'s", "\N{RIGHT SINGLE QUOTATION MARK}s", "\N{FULLWIDTH APOSTROPHE}s")


@dataclass(frozen=True)
class Analyzer:
    """Turns text into index terms: tokens, possessives off, lower case, stopwords, stems.

    With ``"porter"`` and ``"none"`` the terms are those of Anserini's ``DefaultEnglishAnalyzer``
    (Lucene 9.9.1: StandardTokenizer, EnglishPossessiveFilter, LowerCaseFilter, StopFilter,
    PorterStemFilter). With ``"krovetz"`` a few words differ, whose forms Lucene's dictionary and
    the Krovetz stemmer's own give differently (later, cursor), and words of over 24 letters.

    Parameters
    ----------
    stemmer : str
        How words are stemmed: ``"porter"``, ``"krovetz"``, ``"none"``, or one of Snowball's algorithms,
        such as ``"german"``.
    stopwords : str
        ``"lucene"`` (the 33 words of Lucene's EnglishAnalyzer), ``"none"``, or the path of a
        UTF-8 file with one word a line, which is read once, here. Words are dropped before they
        are stemmed.

    words : frozenset of str, optional
        The stopwords, where they are known already: then no file is read.

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
    stopwords: str = "lucene"
    words: frozenset[str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        load_stemmer(self.stemmer)
        if self.words is None:
            object.__setattr__(self, "words", load_stopwords(self.stopwords))

    def term(self, token: str) -> str | None:
        """Return the index term of a token, or None where the token is a stopword."""
        word = lower_case(token)
        if word.endswith(_POSSESSIVES):
            word = word[:-2]
        if word in self._dropped:
            return None
        return load_stemmer(self.stemmer)(word)

    def analyze(self, text: str) -> list[str]:
        """Return the index terms of a text in order, repeats kept."""
        return [term for token in tokenize(text) if (term := self.term(token)) is not None]

    @property
    def settings(self) -> dict[str, str | list[str]]:
        """What makes an equal analyzer elsewhere: the words of a file go with its name."""
        named: dict[str, str | list[str]] = {"stemmer": self.stemmer, "stopwords": self.stopwords}
        return named if self.stopwords in LISTS else {**named, "words": sorted(self._dropped)}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Analyzer:
        """Make the analyzer that `settings` describes."""
        words = settings.get("words")
        return cls(settings["stemmer"], settings["stopwords"], None if words is None else frozenset(words))

    @property
    def _dropped(self) -> frozenset[str]:
        assert self.words is not None
        return self.words

    @property
    def fingerprint(self) -> str:
        """A hexadecimal digest that changes when the terms of some text may change."""
        settings = [f"analysis {ANALYSIS_VERSION}", f"stemmer {self.stemmer}", "stopwords"]
        text = "\n".join([*settings, *sorted(self._dropped)])
        return hashlib.sha256(text.encode()).hexdigest()
