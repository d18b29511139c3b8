"""Text that Lucene stores: whole documents of Anserini's, stored fields, deleted documents left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_lucene import require_java, write_index

from lmtune.datasets.building import Building, build
from lmtune.datasets.collection import Collection
from lmtune.datasets.texts import open_texts
from lmtune.errors import InputError
from lmtune.indexing.lucene.index import LuceneIndex
from lmtune.indexing.lucene.stored_text import field_text

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
