"""Reading Lucene indexes in bulk, against counting the documents' own tokens."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from made_lucene import require_java, write_index
from support import TinyIndex

from lmtune.collections.building import Building, build
from lmtune.collections.collection import Collection
from lmtune.collections.texts import open_texts
from lmtune.errors import InputError
from lmtune.index.lucene.index import LuceneIndex
from lmtune.index.lucene.reader import LuceneReader, QueryAnalyzer, commit_digest, field_text

ODD = 'é \U0001f600 "quoted" \\ \x00\nsecond line'
SEGMENTS = [{"b": "w1 w2 w2", "a": "w2", "d": "w7"}, {"c": "w3 w2", "e": "w9 é"}, {"f": "w1"}]
NEWS = "<HEADLINE>Wing &amp; flow</HEADLINE><TEXT>over <P>it</P></TEXT>"


def test_text_of_an_index_that_lmtune_built(tmp_path: Path) -> None:
    require_java()
    texts = {f"d{n}": f"text {n}" for n in range(40)} | {"odd": ODD}
    lines = (json.dumps({"id": docno, "contents": text}) + "\n" for docno, text in texts.items())
    (tmp_path / "docs.jsonl").write_text("".join(lines))
    built = tmp_path / "index"
    documents = Collection(documents=str(tmp_path / "docs.jsonl"), indexes=tmp_path / "kept")
    build(documents, Building(output=built, engine="lucene", keep_text=True))
    (tmp_path / "topics.tsv").write_text("1\ttext\n")
    collection = Collection(index=str(built), topics=str(tmp_path / "topics.tsv"), indexes=tmp_path / "kept")
    dataset = collection.load(["topics"])
    opened = open_texts(collection, dataset, "<{contents}>")
    docnos = list(reversed(texts))
    assert opened.of(docnos) == [f"<{texts[docno]}>" for docno in docnos]
    with pytest.raises(
        InputError, match=r"none of the index's first 41 documents.*'title'; accepted: contents"
    ):
        open_texts(collection, dataset, "{title}")
    build(documents, Building(output=tmp_path / "bare", engine="lucene"))
    with pytest.raises(InputError, match=r"stores this text: 'contents'.*--engine lucene --keep-text"):
        LuceneIndex.open(tmp_path / "bare", home=tmp_path / "kept").texts(())


def test_stored_fields_without_the_deleted_documents(tmp_path: Path) -> None:
    path = write_index(tmp_path / "index", SEGMENTS, deleted=["a", "b", "c"], stored=True)
    index = LuceneIndex.open(path, home=tmp_path / "kept")
    docnos = ["f", "d", "e"]
    assert index.texts(index.doc_numbers(docnos)) == ["w1", "w7", "w9 é"]
    with pytest.raises(InputError, match="'title'; accepted: contents"):
        index.texts((), "title")


@pytest.mark.parametrize(
    ("stored", "field", "expected"),
    [
        ({"raw": '{\n "id": "x",\n "contents": "all"}'}, "contents", "all"),
        ({"raw": '{"_id": "x", "title": "T", "text": "of it"}'}, "contents", "T\nof it"),
        ({"raw": '{"_id": "x", "title": "T", "text": "of it"}'}, "title", "T"),
        ({"raw": '{"_id": "x", "text": "of it"}'}, "title", ""),
        ({"raw": NEWS}, "contents", "Wing & flow\nover  it"),
        ({"raw": NEWS}, "headline", "Wing & flow"),
        ({"raw": NEWS}, "body", ""),
        ({"raw": "<p>plain</p> text"}, "contents", "plain  text"),
        ({"raw": '{"id": "x"}', "contents": "apart"}, "contents", "apart"),
        ({}, "contents", None),
    ],
)
def test_fields_of_whole_documents(stored: dict[str, str], field: str, expected: str | None) -> None:
    assert field_text(Path("index"), stored.get, field) == expected


@pytest.mark.parametrize("raw", ['{"id": ', '{"id": "x"}'])
def test_whole_documents_that_are_none(raw: str) -> None:
    with pytest.raises(InputError, match="index:"):
        field_text(Path("index"), {"raw": raw}.get, "contents")


def made_segments(seed: int, sizes: list[int], empty: float = 0.1) -> list[dict[str, str]]:
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(30)] + ["é", "日本", "\U00010400"]
    segments, number = [], 0
    for size in sizes:
        segment = {}
        for _ in range(size):
            count = 0 if rng.random() < empty else int(rng.integers(1, 400))
            segment[f"D-{number:05d}é"] = " ".join(rng.choice(words, count))
            number += 1
        segments.append(segment)
    return segments


def check(reader: LuceneReader, documents: dict[str, str]) -> None:
    """Compare everything with counts of the documents, which are in document order."""
    counts = [Counter(text.split()) for text in documents.values()]
    assert reader.num_docs == len(documents)
    assert [docno.decode() for docno in reader.docnos()] == list(documents)
    lengths = [count.total() for count in counts]
    assert reader.lengths().tolist() == lengths
    assert reader.total_terms in (None, sum(lengths))
    for term in {*counts[0], *counts[-1], "w0", "日本", "\U00010400", "absent"}:
        expected = [(doc, count[term]) for doc, count in enumerate(counts) if count[term]]
        found = reader.postings(term)
        if not expected:
            assert found is None
        else:
            assert found is not None
            assert found[0].dtype == found[1].dtype == np.int32
            assert list(zip(*(column.tolist() for column in found), strict=True)) == expected


def check_positions(reader: LuceneReader, documents: dict[str, str]) -> None:
    texts = [text.split() for text in documents.values()]
    for term in ("w0", "w7", "日本", "\U00010400", "absent"):
        expected = [(doc, at) for doc, text in enumerate(texts) for at, own in enumerate(text) if own == term]
        found = reader.positions(term)
        own = [] if found is None else list(zip(*(column.tolist() for column in found), strict=True))
        assert own == expected


@pytest.mark.first_case
@pytest.mark.parametrize("sizes", [[1], [60], [25, 1, 40]])
@pytest.mark.parametrize("stored", ["", "positions", "vectors"])
def test_counts_are_those_of_the_documents(tmp_path: Path, sizes: list[int], stored: str) -> None:
    segments = made_segments(len(sizes), sizes, empty=0.0 if sizes == [1] else 0.1)
    path = write_index(
        tmp_path / "index",
        segments,
        positions=stored == "positions",
        vectors=stored == "vectors",
        norms=stored != "vectors",
    )
    reader = LuceneReader(path)
    assert reader.segments == len(sizes)
    documents = {docno: text for segment in segments for docno, text in segment.items()}
    check(reader, documents)
    if stored == "positions":
        check_positions(reader, documents)
    else:
        with pytest.raises(InputError, match=r"no positions.*--engine lucene --positions"):
            reader.positions(next(text for text in documents.values() if text).split()[0])


def test_deleted_documents_are_not_there(tmp_path: Path) -> None:
    segments = made_segments(7, [30, 20, 5])
    docnos = [docno for segment in segments for docno in segment]
    deleted = [*docnos[:3], *docnos[28:34], *docnos[50:], "never there"]
    path = write_index(tmp_path / "index", segments, deleted=deleted, positions=True)
    reader = LuceneReader(path)
    left = {docno: text for segment in segments for docno, text in segment.items() if docno not in deleted}
    check(reader, left)
    check_positions(reader, left)
    # The second time from what was kept.
    for _ in range(2):
        found = LuceneIndex.open(path, home=tmp_path / "kept").positions("w3")
        expected = TinyIndex(left).positions("w3")
        assert found is not None
        assert expected is not None
        for own, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(own, other)
    # Lucene drops a segment whose documents are all deleted.
    assert reader.deleted == 9


@pytest.mark.parametrize("docnos", ["sorted", "stored"])
def test_docnos_of_older_indexes(tmp_path: Path, docnos: str) -> None:
    segments = made_segments(3, [6, 7])
    reader = LuceneReader(write_index(tmp_path / "index", segments, docnos=docnos))
    documents = {docno: text for segment in segments for docno, text in segment.items()}
    check(reader, documents)


def test_quantised_lengths_are_lucenes(tmp_path: Path) -> None:
    jnius = require_java()
    small = jnius.autoclass("org.apache.lucene.util.SmallFloat")
    lengths = [0, 1, 39, 40, 41, 42, 100, 263, 264, 1000, 5000]
    segment = {f"d{length:04d}": " ".join(["w"] * length) for length in lengths}
    reader = LuceneReader(write_index(tmp_path / "index", [segment], deleted=["d0001"]))
    expected = [small.byte4ToInt(small.intToByte4(n)) for n in lengths if n != 1]
    assert reader.quantised_lengths().tolist() == expected
    assert reader.lengths().tolist() == [n for n in lengths if n != 1]


def test_an_index_without_norms_has_no_quantised_lengths(tmp_path: Path) -> None:
    reader = LuceneReader(write_index(tmp_path / "index", [{"d": "a b"}], norms=False))
    with pytest.raises(InputError, match=r"no norms.*--lengths exact"):
        reader.quantised_lengths()


def test_postings_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtune.index.lucene.java._PIECE", 7)
    monkeypatch.setattr("lmtune.index.lucene.java._TERMS_AT_A_TIME", 4)
    segments = made_segments(11, [40, 15])
    reader = LuceneReader(write_index(tmp_path / "index", segments))
    documents = {docno: text for segment in segments for docno, text in segment.items()}
    check(reader, documents)


def test_counting_lengths_reports_all_terms(tmp_path: Path) -> None:
    reader = LuceneReader(write_index(tmp_path / "index", made_segments(5, [20, 20])))
    reports: list[tuple[int, int]] = []
    reader.lengths(lambda done, total: reports.append((done, total)))
    assert reports[-1][0] == reports[-1][1] > 33
    assert reports == sorted(reports)


def test_what_is_no_index_says_so(tmp_path: Path) -> None:
    require_java()
    with pytest.raises(InputError, match=r"not a Lucene index: no segments file; accepted: a fold"):
        LuceneReader(tmp_path)
    with pytest.raises(InputError, match="cannot read the index: No such file"):
        LuceneReader(tmp_path / "nowhere")


def test_damaged_indexes_say_so_in_one_line(tmp_path: Path) -> None:
    whole = write_index(tmp_path / "whole", [{"d": "a b"}])
    commit = max(whole.glob("segments_*"))
    cut = shutil.copytree(whole, tmp_path / "cut")
    (cut / commit.name).write_bytes(commit.read_bytes()[:10])
    missing = shutil.copytree(whole, tmp_path / "missing")
    next(missing.glob("_0.si")).unlink()
    for path in (cut, missing):
        with pytest.raises(InputError, match="Lucene cannot read the index: ") as raised:
            LuceneReader(path)
        assert "\n" not in str(raised.value)
        assert str(path) in str(raised.value)


def test_indexes_without_what_is_needed_say_so(tmp_path: Path) -> None:
    bare = write_index(tmp_path / "bare", [{"d": "a b"}], frequencies=False)
    with pytest.raises(InputError, match="no term frequencies: 'DOCS'; accepted: DOCS_AND_FREQS"):
        LuceneReader(bare)
    other = write_index(tmp_path / "other", [{"d": "a b"}], field="body")
    with pytest.raises(InputError, match="lacks Anserini's field contents: 'body, id'"):
        LuceneReader(other)


def test_the_commit_digest_sees_every_change(tmp_path: Path) -> None:
    first = write_index(tmp_path / "a", [{"d": "a b", "e": "c"}])
    digest = commit_digest(first)
    assert digest == commit_digest(shutil.copytree(first, tmp_path / "copy"))
    write_index(first, [{"f": "x"}])
    assert commit_digest(first) != digest
    digest = commit_digest(first)
    write_index(first, [], deleted=["e"])
    assert commit_digest(first) != digest
    assert LuceneReader(first).num_docs == 2


def test_queries_are_analysed_by_anserini() -> None:
    require_java()
    porter = QueryAnalyzer("porter")
    assert (
        porter("The Running dog's of \U0001d518\U0001d52b, été") == "run dog \U0001d518\U0001d52b été".split()
    )
    assert porter("the of") == []
    assert QueryAnalyzer("none", frozenset())("The Running") == ["the", "running"]
    assert QueryAnalyzer("krovetz", frozenset({"dogs"}))("the dogs reporters") == ["the", "reporter"]


def test_a_flipped_bit_is_refused_or_harmless(tmp_path: Path) -> None:
    path = write_index(tmp_path / "index", made_segments(2, [60, 30]))

    def read() -> list[object]:
        reader = LuceneReader(path)
        found = [reader.postings(f"w{number}") for number in range(30)]
        postings = [(docs.tolist(), tfs.tolist()) for docs, tfs in filter(None, found)]
        return [reader.docnos(), reader.lengths().tolist(), reader.quantised_lengths().tolist(), postings]

    expected, rng, refused = read(), np.random.default_rng(0), 0
    for file in sorted(path.glob("[_s]*")):
        whole = file.read_bytes()
        for place in rng.choice(len(whole), 12, replace=False):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << int(rng.integers(8))
            file.write_bytes(damaged)
            try:
                assert read() == expected, (file.name, place)
            except InputError as error:
                assert "\n" not in str(error)
                refused += 1
        file.write_bytes(whole)
    assert refused > 12


def test_a_large_index_is_checked_once_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtune.index.lucene.reader.SMALL_BYTES", 0)
    path = write_index(tmp_path / "index", made_segments(2, [60]))
    LuceneIndex.open(path, home=tmp_path / "whole")
    [file] = path.glob("*.cfs")
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    with pytest.raises(InputError, match="Lucene cannot read the index: checksum failed"):
        LuceneIndex.open(path, home=tmp_path / "damaged")
