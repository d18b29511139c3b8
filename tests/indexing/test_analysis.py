"""The analysis as a whole."""

from __future__ import annotations

import pickle

import pytest

from lmtune.errors import InputError
from lmtune.indexing.analysis import Analyzer


def test_terms_are_stemmed_stopped_and_stripped_of_possessives() -> None:
    assert Analyzer().analyze("The world's GEOLOGY is: a 3.5 km rock") == [
        "world", "geologi", "3.5", "km", "rock",
    ]  # fmt: skip


def test_unknown_names_say_what_is_accepted() -> None:
    with pytest.raises(InputError, match="porter, krovetz, none"):
        Analyzer(stemmer="poter")
    with pytest.raises(InputError, match="lucene, none"):
        Analyzer(stopwords="smart")


def test_an_analyzer_survives_pickling() -> None:
    analyzer = Analyzer(stemmer="none")
    again = pickle.loads(pickle.dumps(analyzer))
    assert again == analyzer
    assert again.analyze("Stones rolled") == ["stones", "rolled"]
    assert again.fingerprint == analyzer.fingerprint != Analyzer().fingerprint
