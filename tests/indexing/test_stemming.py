"""Stems against Porter's and Krovetz's own programs, and Lucene's versions of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtune.errors import InputError, MissingExtraError
from lmtune.indexing.analysis import Analyzer
from lmtune.indexing.stemming import load_stemmer

# Word, the stem that Lucene 9.9.1 gives, and whether the published algorithm gives it too.
PORTER = [
    ("relational", "relat", True),
    ("generalizations", "gener", True),
    ("ponies", "poni", True),
    ("is", "is", False),
    ("as", "as", False),
    ("geology", "geologi", True),
    ("analogy", "analog", False),
    ("apologies", "apolog", False),
    ("logi", "logi", True),
    ("possibly", "possibl", False),
    ("bly", "bly", True),
    ("trekked", "trek", False),
    ("boxxing", "box", False),
    ("11ing", "11ing", True),
    ("a11ing", "a1", False),
    ("hissing", "hiss", True),
    ("happily", "happili", True),
    ("byyed", "by", False),
    ("ayyed", "ayi", True),
    ("caf\u00e9s", "caf\u00e9", True),
    ("\U00010330s", "\U00010330", True),
    ("\U00010330", "\U00010330", True),
]


@pytest.mark.parametrize(("word", "stem", "published"), PORTER)
def test_porter_is_the_program_and_not_the_paper(word: str, stem: str, published: bool) -> None:
    import Stemmer

    assert load_stemmer("porter")(word) == stem
    assert (Stemmer.Stemmer("porter").stemWord(word) == stem) is published


@given(st.from_regex(r"[abceiklogsy]{0,6}(bl|log|kk|yy)?(i|y|ies)?(ed|ing)?s?", fullmatch=True))
def test_astral_letters_are_two_consonants(word: str) -> None:
    # Any two different consonants in their place: Java sees a pair of surrogates.
    porter = load_stemmer("porter")
    astral = porter(f"\U00010330{word}")
    assert astral.replace("\U00010330", "qx") == porter(f"qx{word}")


def test_none_changes_nothing() -> None:
    assert load_stemmer("none")("relational") == "relational"


def test_krovetz_gives_words() -> None:
    pytest.importorskip("krovetzstemmer", reason="the krovetz extra is not installed")
    stem = load_stemmer("krovetz")
    words = ["relational", "utilities", "ponies", "walked", "caf\u00e9s", "x9s", "b" * 25 + "ings"]
    assert [stem(word) for word in words] == [
        "relational",
        "utility",
        "pony",
        "walk",
        "caf\u00e9s",
        "x9s",
        "b" * 25 + "ings",
    ]


def test_missing_krovetz_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    load_stemmer.cache_clear()
    monkeypatch.setitem(sys.modules, "krovetzstemmer", None)
    with pytest.raises(MissingExtraError, match=r"lmtune\[krovetz\]"):
        load_stemmer("krovetz")
    load_stemmer.cache_clear()


def test_unknown_stemmer_lists_the_names() -> None:
    with pytest.raises(InputError, match="'snowball'; accepted: porter, krovetz, none"):
        load_stemmer("snowball")


# Of the vocabularies that Snowball publishes with its algorithms.
SNOWBALL = [
    ("english", "generously", "generous"),
    ("german", "aufeinanderfolgenden", "aufeinanderfolg"),
    ("french", "continuellement", "continuel"),
    ("spanish", "torneados", "torn"),
    ("swedish", "klostergården", "klostergård"),
]


@pytest.mark.parametrize(("language", "word", "stem"), SNOWBALL)
def test_other_languages_are_snowballs(language: str, word: str, stem: str) -> None:
    assert load_stemmer(language)(word) == stem


def test_a_stemmer_of_another_package_is_used_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "first_letters.py").write_text("def stem(word):\n    return word[:4]\n", encoding="utf-8")
    told = tmp_path / "first_letters-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: first-letters\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[lmtune.stemmers]\nfour-letters = first_letters:stem\n")
    with pytest.raises(InputError, match="unknown stemmer: 'four-letters'"):
        load_stemmer("four-letters")
    monkeypatch.syspath_prepend(tmp_path)
    analyzer = Analyzer(stemmer="four-letters")
    assert analyzer.analyze("The geologist's rolling stones") == ["geol", "roll", "ston"]
    assert Analyzer.from_settings(analyzer.settings).fingerprint == analyzer.fingerprint
