"""Anserini's analysis, live: needs the extra `lucene`."""

from __future__ import annotations

from collections.abc import Callable

from lmtune.index.lucene import java
from lmtune.index.lucene.reader import QueryAnalyzer

ANALYZERS = ("porter", "krovetz", "none", "tokens")
"""DefaultEnglishAnalyzer by stemmer; "tokens" is Lucene's StandardAnalyzer without stopwords."""


def anserini(name: str) -> Callable[[str], list[str]]:
    """Return the function from a text to the terms of one of ``ANALYZERS``."""
    if name != "tokens":
        return QueryAnalyzer(name)
    load = java.start().autoclass
    words = load("org.apache.lucene.analysis.CharArraySet").EMPTY_SET
    analyzer = QueryAnalyzer("none")
    analyzer.analyzer = load("org.apache.lucene.analysis.standard.StandardAnalyzer")(words)
    return analyzer
