"""Anserini's analyzers, called through Java; needs the extra `lucene`."""

from __future__ import annotations

from collections.abc import Callable

from lmtune.index.lucene import java
from lmtune.index.lucene.reader import QueryAnalyzer

ANALYZERS = ("porter", "krovetz", "none", "tokens")
"""DefaultEnglishAnalyzer with each stemmer; "tokens" is Lucene's StandardAnalyzer without stopwords."""


def anserini(name: str) -> Callable[[str], list[str]]:
    """Return one of ``ANALYZERS`` as a function from a text to its terms."""
    if name != "tokens":
        return QueryAnalyzer(name)
    load = java.start().autoclass
    words = load("org.apache.lucene.analysis.CharArraySet").EMPTY_SET
    analyzer = QueryAnalyzer("none")
    analyzer.analyzer = load("org.apache.lucene.analysis.standard.StandardAnalyzer")(words)
    return analyzer
