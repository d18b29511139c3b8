"""Lucene indexes behind the `Index` protocol: equal to the embedded one, and kept on disk."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from made_lucene import require_java, write_index
from scripts import run_python

import lmtune
from lmtune.errors import InputError
from lmtune.index.lucene import index as lucene_index
from lmtune.index.lucene.index import LuceneIndex, build_lucene_index, find_lucene_index
from lmtune.index.protocol import Index
from lmtune.io.digests import sealed
from lmtune.io.documents import Document, ListDocuments

CLASSICS = ("cranfield", "cacm", "npl", "med")
SEGMENTS = [{"b": "w1 w2 w2", "a": "w2", "d": ""}, {"c": "w3 w2 w1 w1 w1", "e": "w9 " * 51}]


def differences(lucene: Index, embedded: Index, terms: list[str]) -> list[str]:
    """Say where two indexes of the same documents differ."""
    docnos = embedded.docnos(range(embedded.num_docs))
    numbers = lucene.doc_numbers(docnos)
    found = []
    for what, ours, theirs in [
        ("documents", lucene.num_docs, embedded.num_docs),
        ("tokens", lucene.total_terms, embedded.total_terms),
        ("docnos", sorted(lucene.docnos(range(lucene.num_docs))), sorted(docnos)),
        ("lengths", lucene.lengths[numbers].tolist(), embedded.lengths.tolist()),
        ("docno ranks", lucene.docno_rank[numbers].tolist(), embedded.docno_rank.tolist()),
    ]:
        if ours != theirs:
            found.append(what)
    for term in terms:
        ours, theirs = (
            None
            if postings is None
            else dict(zip(of[postings.docs].tolist(), postings.tfs.tolist(), strict=True))
            for postings, of in (
                (lucene.postings(term), np.arange(lucene.num_docs)),
                (embedded.postings(term), numbers),
            )
        )
        if ours != theirs:
            found.append(f"postings of {term}")
    return found


@pytest.mark.first_case
@pytest.mark.parametrize("stemmer", ["porter", "none"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "med")) for name in CLASSICS]
)
def test_engines_agree_on_the_classics(shared_data: Path, tmp_path: Path, name: str, stemmer: str) -> None:
    require_java()
    data = lmtune.load(shared_data / name)
    assert data.documents is not None
    analyzer = lmtune.Analyzer(stemmer=stemmer)
    embedded = lmtune.index_for(data.documents, analyzer, home=tmp_path)
    build_lucene_index(data.documents, tmp_path / "lucene", stemmer=stemmer)
    lucene = LuceneIndex.open(tmp_path / "lucene", home=tmp_path)
    assert lucene.analysis == {"stemmer": stemmer, "stopwords": "lucene"}
    queries = list(data.topics.values())
    assert [lucene.analyze(text) for text in queries] == list(map(embedded.analyze, queries))
    terms = sorted({term for text in queries for term in embedded.analyze(text)})
    assert len(terms) > 250
    assert differences(lucene, embedded, terms) == []
    # Every measure of every topic is equal, so every table is.
    pools = [lmtune.CandidatePool.build(i, data.topics, data.qrels) for i in (lucene, embedded)]
    for lambda_, mu in [(0.0, 1000.0), (0.5, 100.0), (0.9, 1.0)]:
        first, second = (
            lmtune.measure(pool, {"lambda": lambda_, "mu": mu}, measures=["AP", "Bpref", "P@10"])
            for pool in pools
        )
        assert first.equals(second)


def test_words_that_tokenizers_find_hard(tmp_path: Path) -> None:
    require_java()
    texts = [
        "U.S.A. can't re-entry o'neil's C++ 3.14 1,000,000 a_b foo.bar@baz.com",
        "日本語 テスト ไทย \U0001d518\U0001d52b \U0001f600 e\u0301t\u00e9 İstanbul ﬁne",
        " ",
        "",
        "the of and",
        "x" * 300,
        "\u200d\u00ad zero\u200bwidth",
        "Müller's naïve café",
    ]
    documents = [Document(f"d{n}", text) for n, text in enumerate(texts)]
    source = ListDocuments("hard", documents)
    embedded = lmtune.build_index(source, tmp_path / "embedded", lmtune.Analyzer())
    assert build_lucene_index(source, tmp_path / "lucene", workers=3) == len(texts)
    lucene = LuceneIndex.open(tmp_path / "lucene", home=tmp_path)
    assert differences(lucene, embedded, embedded.terms()) == []
    for text in texts:
        assert lucene.analyze(text) == embedded.analyze(text)


def asked_lucene(index: LuceneIndex) -> bool:
    return index._opened is not None


def opened(tmp_path: Path, **options: str) -> LuceneIndex:
    path = tmp_path / "index"
    if not path.exists():
        write_index(path, SEGMENTS)
    return LuceneIndex.open(path, home=tmp_path / "home", stemmer="none", **options)  # type: ignore[arg-type]


def contents(index: LuceneIndex) -> list[object]:
    return [
        index.num_docs,
        index.total_terms,
        index.lengths.tolist(),
        index.docno_rank.tolist(),
        index.docnos([4, 0]),
        index.doc_numbers(["a", "zz"]).tolist(),
        index.analyze("W1 the w2"),
        [
            None if found is None else (found.docs.tolist(), found.tfs.tolist())
            for found in map(index.postings, ["w1", "w2", "absent", "w9"])
        ],
    ]


def test_the_second_time_no_java_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(tmp_path)
    expected = [
        5,
        60,
        [3, 1, 0, 5, 51],
        [1, 0, 3, 2, 4],
        ["e", "b"],
        [1, -1],
        ["w1", "w2"],
        [([0, 3], [1, 3]), ([0, 1, 3], [2, 1, 1]), None, ([4], [51])],
    ]
    assert contents(first) == expected
    assert asked_lucene(first)

    def refuse(*_: object) -> None:
        raise AssertionError("Java was asked")

    monkeypatch.setattr(lucene_index, "LuceneReader", refuse)
    monkeypatch.setattr(lucene_index, "QueryAnalyzer", refuse)
    second = opened(tmp_path)
    assert contents(second) == expected
    assert second.fingerprint == first.fingerprint
    sent = pickle.loads(pickle.dumps(second))
    assert contents(sent) == expected
    assert sent.fingerprint == first.fingerprint
    assert not asked_lucene(second)
    with pytest.raises(AssertionError):
        second.postings("w3")


def test_new_terms_are_added_to_what_is_kept(tmp_path: Path) -> None:
    opened(tmp_path).postings("w1")
    opened(tmp_path).postings("w2")
    third = opened(tmp_path)
    assert third.postings("w1") is not None
    assert third.postings("w2") is not None
    assert not asked_lucene(third)


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "other content"])
def test_damaged_values_are_read_again_from_lucene(tmp_path: Path, harm: str) -> None:
    whole = contents(opened(tmp_path))
    [kept] = (tmp_path / "home").glob("*/kept.sqlite")
    raw = bytearray(kept.read_bytes())
    if harm == "flip":
        raw[raw.index(b"postings w1") + 12] ^= 1
        kept.write_bytes(raw)
    elif harm == "cut":
        kept.write_bytes(raw[:-3000])
    elif harm == "remove":
        kept.unlink()
    else:
        kept.write_text("postings")
    again = opened(tmp_path)
    assert contents(again) == whole
    assert asked_lucene(again)
    third = opened(tmp_path)
    assert contents(third) == whole
    assert not asked_lucene(third)


def test_a_changed_index_is_read_anew(tmp_path: Path) -> None:
    before = opened(tmp_path)
    assert before.postings("new") is None
    write_index(tmp_path / "index", [{"f": "new w1"}], deleted=["a"])
    after = opened(tmp_path)
    assert after.fingerprint != before.fingerprint
    found = after.postings("new")
    assert found is not None
    assert after.docnos(found.docs) == ["f"]
    assert sorted(after.docnos(range(after.num_docs))) == ["b", "c", "d", "e", "f"]
    assert after.total_terms == 61 == after.lengths.sum()


def test_lengths_and_analysis_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    exact, lucene = opened(tmp_path), opened(tmp_path, lengths="lucene")
    assert lucene.lengths.tolist() == [3, 1, 0, 5, 50]
    assert lucene.total_terms == exact.total_terms == 60
    words = opened(tmp_path, stopwords="none")
    assert words.analyze("the w1") == ["the", "w1"]
    assert len({index.fingerprint for index in (exact, lucene, words)}) == 3


def test_options_that_are_unknown(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown lengths: 'short'; accepted: exact or lucene"):
        opened(tmp_path, lengths="short")
    with pytest.raises(InputError, match="unknown stemmer: 'snow'; accepted: porter, krovetz"):
        LuceneIndex.open(tmp_path / "index", stemmer="snow", home=tmp_path / "home")


def test_one_docno_twice_is_an_error(tmp_path: Path) -> None:
    write_index(tmp_path / "index", [{"a": "w1", "b": "w2"}, {"a": "w3"}])
    with pytest.raises(InputError, match="two documents of the index have one docno: 'a'"):
        LuceneIndex.open(tmp_path / "index", home=tmp_path)
    source = ListDocuments("twice", [Document("x", "a"), Document("x", "b")])
    with pytest.raises(InputError, match=r"a second document of the same docno.*'x'"):
        build_lucene_index(source, tmp_path / "built")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]


def test_building_notes_the_analysis_and_replaces_only_its_own(tmp_path: Path) -> None:
    require_java()
    source = ListDocuments("some", [Document("x", "running the dogs"), Document("y", "")])
    stopwords = tmp_path / "words.txt"
    stopwords.write_text("dogs\n")
    reports: list[tuple[str, int, int]] = []
    for stemmer in ("porter", "none"):
        count = build_lucene_index(
            source,
            tmp_path / "built",
            stemmer=stemmer,
            stopwords=str(stopwords),
            progress=lambda *report: reports.append(report),
        )
        assert count == 2
    index = LuceneIndex.open(tmp_path / "built", home=tmp_path / "home")
    assert index.analysis == {"stemmer": "none", "stopwords": ["dogs"]}
    assert index.analyze("Running the Dogs") == ["running", "the"]
    assert sorted(index.lengths.tolist()) == [0, 2]
    assert reports[-1] == ("indexing", 2, 2)
    foreign = write_index(tmp_path / "foreign", [{"a": "b"}])
    before = sorted(foreign.iterdir())
    with pytest.raises(InputError, match="foreign"):
        build_lucene_index(source, foreign)
    assert sorted(foreign.iterdir()) == before


def test_finding_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_index(tmp_path / "indexes" / "mine", [{"a": "b"}])
    assert find_lucene_index("mine") == Path("indexes/mine")
    assert find_lucene_index("indexes/mine") == Path("indexes/mine")
    with pytest.raises(InputError, match="no such folder: 'lucene:not/here'"):
        find_lucene_index("not/here")
    LuceneIndex.open("indexes/mine", name="remembered")
    assert find_lucene_index("remembered") == (tmp_path / "indexes" / "mine").resolve()


@pytest.mark.slow
def test_the_embedded_engine_asks_for_nothing_of_lucene(tmp_path: Path) -> None:
    program = """
import sys
import lmtune
from lmtune.io.documents import Document, ListDocuments
from lmtune.index.columnar import ColumnarIndex
source = ListDocuments("some", [Document("x", "a b")])
index = lmtune.build_index(source, sys.argv[1], lmtune.Analyzer())
lmtune.CandidatePool.build(index, {"1": "b"})
print([name for name in ("jnius", "jnius_config", "pyserini", "torch") if name in sys.modules])
"""
    assert run_python("-c", program, str(tmp_path / "index")).out == "[]\n"


def test_the_note_of_an_index_is_checked(tmp_path: Path) -> None:
    path = write_index(tmp_path / "index", [{"a": "b"}])
    (path / "lmtune.json").write_text("not json")
    with pytest.raises(InputError, match="the index's note is damaged"):
        LuceneIndex.open(path, home=tmp_path)
    (path / "lmtune.json").write_text(json.dumps(sealed({"analysis": {"stemmer": "none"}})))
    assert LuceneIndex.open(path, home=tmp_path).analysis["stemmer"] == "none"
