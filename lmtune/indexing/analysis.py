"""From text to index terms, as Anserini's DefaultEnglishAnalyzer does it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lmtune.indexing.stemming import load_stemmer
from lmtune.indexing.stopwords import load_stopwords
from lmtune.indexing.tokenizer import tokenize

ANALYSIS_VERSION = 1
"""Raised whenever the same settings come to give other terms."""

_APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}\N{FULLWIDTH APOSTROPHE}"


@dataclass(frozen=True)
class Analyzer:
    """Turns text into index terms: tokens, possessives off, lower case, stopwords, stems.

    The terms are those of Anserini's ``DefaultEnglishAnalyzer`` (Lucene's StandardTokenizer,
    EnglishPossessiveFilter, LowerCaseFilter, StopFilter and PorterStemFilter or KStemFilter).

    Parameters
    ----------
    stemmer : {"porter", "krovetz", "none"}
        How words are stemmed.
    stopwords : str
        ``"lucene"``, ``"none"`` or the path of a file with one word a line.

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

    def __post_init__(self) -> None:
        load_stemmer(self.stemmer)
        load_stopwords(self.stopwords)

    def tokenize(self, text: str) -> list[str]:
        """Return the raw tokens of a text in order; words of ASCII letters are in lower case."""
        return tokenize(text)

    def term(self, token: str) -> str | None:
        """Return the index term of a token, or None where the token is a stopword."""
        word = lower(token)
        if word[-2:-1] in _APOSTROPHES and word[-1:] == "s" and len(word) > 1:
            word = word[:-2]
        if word in load_stopwords(self.stopwords):
            return None
        return load_stemmer(self.stemmer)(word)

    def analyze(self, text: str) -> list[str]:
        """Return the index terms of a text in order, repeats kept."""
        return [term for token in tokenize(text) if (term := self.term(token)) is not None]

    @property
    def fingerprint(self) -> str:
        """A hexadecimal digest that changes when the analysis of some text may change."""
        words = " ".join(sorted(load_stopwords(self.stopwords)))
        settings = f"analysis {ANALYSIS_VERSION}\nstemmer {self.stemmer}\nstopwords {words}\n"
        return hashlib.sha256(settings.encode()).hexdigest()


def lower(token: str) -> str:
    """Return a token in lower case, each character by itself as Java does it.

    Python's ``str.lower`` looks at a sigma's neighbours and turns one dotted capital I into two
    characters.
    """
    if token.isascii():
        return token.lower()
    return "".join([character.lower()[0] for character in token])
