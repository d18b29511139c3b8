"""Texts by docno: templates, what is missing, every kind of collection."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lmtune
from lmtune.collections.building import Building, build
from lmtune.collections.collection import Collection
from lmtune.collections.texts import Template, Texts, open_texts
from lmtune.errors import InputError

RECORDS = [
    {"id": "a", "title": "Wing", "contents": "flow over it"},
    {"id": "b", "contents": "heat"},
    {"id": "c", "title": "Empty", "contents": ""},
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "docs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def opened(collection: Collection, template: str = "{contents}") -> Texts:
    return open_texts(collection, collection.load(("documents",)), template)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{contents}", "C"),
        ("{title}. {contents}", "T. C"),
        ("{{{title}}} {contents} {title}", "{T} C T"),
        ("  {title}\n", "T"),
    ],
)
def test_templates(template: str, expected: str) -> None:
    parsed = Template.parse(template)
    assert parsed.fill(*([{"title": "T", "contents": "C"}[field]] for field in parsed.fields)) == [expected]


@pytest.mark.parametrize(
    "template", ["", "title", "{}", "{title!r}", "{title:>9}", "{title", "}", "{a.b}", "{0}"]
)
def test_bad_templates(template: str) -> None:
    with pytest.raises(InputError, match=r"bad template of text.*accepted: names of fields in braces"):
        Template.parse(template)


def test_fields_are_put_into_the_template_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lmtune")
    texts = opened(Collection("c"), "{title}. {contents}")
    assert texts.of(["b", "a", "b"]) == [". heat", "Wing. flow over it", ". heat"]
    assert texts.of([]) == []
    assert "stored the documents' text (title)" in caplog.text
    caplog.clear()
    assert opened(Collection("c"), "{contents}").of(["a"]) == ["flow over it"]
    assert caplog.text == ""


def test_what_is_missing_is_named() -> None:
    texts = opened(Collection("c"))
    with pytest.raises(InputError, match=r"c has no such document: 'z'"):
        texts.of(["a", "z", "y"])
    with pytest.raises(
        InputError, match=r"no document of c has text in this field.*'titel'; accepted: title, contents"
    ):
        opened(Collection("c"), "{contents} {titel}")
    with pytest.raises(InputError, match=r"no such field: 'titel'; accepted: name, summary, body"):
        opened(Collection("pydocs"), "{titel}")


def test_documents_without_text_are_empty_and_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lmtune")
    texts = opened(Collection("c"), "{contents}.")
    caplog.clear()
    for _ in range(2):
        assert texts.of(["c", "a"]) == ["", "flow over it."]
    assert [own.getMessage() for own in caplog.records] == [
        "c: c has no text; documents without text are read as empty"
    ]


def test_an_index_that_kept_text_stands_alone(home: Path) -> None:
    build(Collection("c", fields=("title",)), Building(output=Path("kept"), keep_text=True))
    build(Collection("c"), Building(output=Path("bare")))
    (home / "c" / "docs.jsonl").unlink()
    (home / "t.tsv").write_text("1\twing\n")
    texts = opened(Collection(index="kept", topics="t.tsv"), "{title}: {contents}")
    assert texts.of(["a"]) == ["Wing: flow over it"]
    with pytest.raises(InputError, match=r"'body'; accepted: one that it keeps \(contents, title\)"):
        opened(Collection(index="kept", topics="t.tsv"), "{body}")
    with pytest.raises(
        InputError, match=r"bare: the index does not keep this text.*lmtune index .* --keep-text"
    ):
        opened(Collection(index="bare", topics="t.tsv"))


def test_texts_of_documents_in_memory(home: Path) -> None:
    documents = {"a": "one", "b": "two"}
    index = lmtune.index_for(documents, home=home)
    with pytest.raises(InputError, match="does not keep this text"):
        lmtune.texts_for(index)
    assert lmtune.texts_for(index, documents, "<{contents}>").of(["b", "a"]) == ["<two>", "<one>"]
    assert lmtune.texts_for(index).of(["b"]) == ["two"]
    with pytest.raises(InputError, match="no such field: 'title'"):
        lmtune.texts_for(index, documents, "{title}")
    with pytest.raises(InputError, match="not those of the index"):
        lmtune.texts_for(lmtune.index_for({"x": "one"}, home=home), documents)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("name", "split", "docno", "text"),
    [
        ("wikiqa", "dev", "train-1-2", "the ice facade is approximately 60 m high"),
        ("trec_dl19", None, "1722", "Fields of Anthropology. There are now four major fields"),
    ],
)
def test_real_collections_open_with_text(
    shared_data: Path, name: str, split: str | None, docno: str, text: str, tmp_path: Path
) -> None:
    collection = Collection(str(shared_data / name), split=split, indexes=tmp_path)
    dataset = collection.load()
    texts = open_texts(collection, dataset)
    assert texts.of([docno])[0].startswith(text)
    judged = {docno for gains in dataset.qrels.values() for docno in gains}
    here = [docno for docno, at in zip(judged, texts.index.doc_numbers(list(judged)), strict=True) if at >= 0]
    assert all(texts.of(here))
    assert dataset.qrels.keys() <= dataset.topics.keys()
