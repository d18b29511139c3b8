"""Fields: their frequencies and lengths are those of each field's own text, in the documents' numbering."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lmtune.collections.pydocs import load_pydocs
from lmtune.errors import InputError
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.cache import index_for
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.protocol import field_index
from lmtune.io.documents import Document, DocumentSource, ListDocuments
from lmtune.io.file_documents import FileDocuments

PLAIN = Analyzer("none", "none")
TEXTS = {
    "a": {"title": "wing flow", "body": "flow over a wing wing"},
    "b": {"title": "", "body": "heat"},
    "c": {"title": "flow flow", "body": ""},
}


def jsonl(folder: Path) -> FileDocuments:
    lines = [json.dumps({"id": name, "contents": "all of it", **texts}) for name, texts in TEXTS.items()]
    del_title = json.loads(lines[1])
    del del_title["title"]
    lines[1] = json.dumps(del_title)
    first = json.loads(lines[0])
    lines[0] = json.dumps(first | {"title": ["wing", "flow"]})
    (folder / "docs.jsonl").write_text("\n".join(lines))
    return FileDocuments("coll", [folder / "docs.jsonl"])


def trectext(folder: Path) -> FileDocuments:
    text = "".join(
        f"<DOC><DOCNO>{name}</DOCNO><TITLE>{texts['title']}</TITLE><TEXT>no</TEXT><Body>{texts['body']}</Body></DOC>\n"
        for name, texts in TEXTS.items()
    )
    (folder / "docs.trec").write_text(text)
    return FileDocuments("coll", [folder / "docs.trec"])


def trecweb(folder: Path) -> FileDocuments:
    page = "<html><head><title>{title}</title></head><body><p>{body}<script>heat</script></body></html>"
    text = "".join(
        f"<DOC><DOCNO>{name}</DOCNO><DOCHDR>x</DOCHDR>{page.format(**texts)}</DOC>\n"
        for name, texts in TEXTS.items()
    )
    (folder / "docs.trec").write_text(text)
    return FileDocuments("coll", [folder / "docs.trec"])


def listed(_: Path) -> ListDocuments:
    fields = {
        field: [Document(name, texts[field]) for name, texts in TEXTS.items()] for field in ("title", "body")
    }
    return ListDocuments("coll", [Document(name, "all of it") for name in TEXTS], fields)


@pytest.mark.parametrize("source", [jsonl, trectext, trecweb, listed])
@pytest.mark.parametrize("workers", [1, 2])
def test_frequencies_and_lengths_are_the_fields_own(tmp_path: Path, source: object, workers: int) -> None:
    assert callable(source)
    documents: DocumentSource = source(tmp_path)
    index = build_index(documents, tmp_path / "ix", PLAIN, fields=["title", "body"], workers=workers)
    for field in ("title", "body"):
        own, texts = index.field(field), [texts[field].split() for texts in TEXTS.values()]
        assert own.docnos(range(3)) == index.docnos(range(3)) == list(TEXTS)
        assert own.lengths.tolist() == [len(words) for words in texts]
        counts = Counter((word, doc) for doc, words in enumerate(texts) for word in words)
        assert own.terms() == sorted({word for word, _ in counts})
        for word in own.terms():
            found = own.postings(word)
            assert found is not None
            assert {
                (word, doc): tf for doc, tf in zip(found.docs.tolist(), found.tfs.tolist(), strict=True)
            } == {pair: tf for pair, tf in counts.items() if pair[0] == word}


def test_a_field_that_no_document_has_leaves_the_old_index_whole(tmp_path: Path) -> None:
    documents = jsonl(tmp_path)
    build_index(documents, tmp_path / "ix", PLAIN, fields=["title"])
    with pytest.raises(InputError, match=r"no document has this field.*'titel'"):
        build_index(documents, tmp_path / "ix", PLAIN, fields=["titel"])
    assert ColumnarIndex.open(tmp_path / "ix").field("title").total_terms == 4
    with pytest.raises(
        InputError, match=r"no such field: 'body'.*lmtune index \.\.\. --fields body,\.\.\. --output"
    ):
        ColumnarIndex.open(tmp_path / "ix").field("body")


def test_fields_are_built_where_they_are_missing_or_stale_alone(tmp_path: Path) -> None:
    documents, built = jsonl(tmp_path), list[str]()

    def opened(*fields: str) -> ColumnarIndex:
        built.clear()
        return index_for(
            documents,
            PLAIN,
            fields=fields,
            home=tmp_path / "ix",
            on_build=lambda path, _: built.append(path.name),
        )

    path = opened().path
    assert built == [path.name]
    opened("title")
    assert built == ["title"]
    assert opened("title", "body").field("body").total_terms == 6
    assert built == ["body"]
    opened("title", "body")
    assert built == []
    TEXTS_AFTER = {"id": "a", "contents": "all", "title": "one", "body": "two"}
    (tmp_path / "docs.jsonl").write_text(json.dumps(TEXTS_AFTER))
    assert opened("title").field("title").terms() == ["one"]
    assert built == [path.name, "title"]


def test_fields_of_several_analyses_are_built_together(tmp_path: Path) -> None:
    documents, built = jsonl(tmp_path), list[str]()
    others = [Analyzer("porter", "none"), Analyzer("german", "none")]
    how: Any = {"fields": ["title", "body"], "home": tmp_path / "ix"}
    index_for(documents, PLAIN, **how, beside=others, on_build=lambda path, _: built.append(path.name))
    assert [len(built), built.count("title"), built.count("body")] == [9, 3, 3]
    for analyzer in others:
        index = index_for(documents, analyzer, **how, on_build=lambda *_: pytest.fail("it is there"))
        alone = build_index(documents, tmp_path / "alone", analyzer, fields=["title", "body"])
        for name in ("title", "body"):
            files = [sorted(own.field(name).path.iterdir()) for own in (index, alone)]
            assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]
    one = build_index(documents, tmp_path / "a", PLAIN, fields=["title"], beside={tmp_path / "b": others[0]})
    assert ColumnarIndex.open(tmp_path / "b").field("title").num_docs == one.num_docs


def test_what_has_no_fields_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"coll have no such field: 'name'; accepted: title, body"):
        build_index(listed(tmp_path), tmp_path / "ix", PLAIN, fields=["name"])
    with pytest.raises(InputError, match="bad field"):
        build_index(listed(tmp_path), tmp_path / "ix", PLAIN, fields=["../x"])

    class Bare:
        name = "bare"

    with pytest.raises(InputError, match="has no fields"):
        field_index(Bare(), "title")  # type: ignore[arg-type]


def test_pydocs_has_a_name_a_summary_and_a_body() -> None:
    source = load_pydocs().documents
    assert isinstance(source, ListDocuments)
    texts = {
        field: {docno: text for batch in source.of_field(field).batches() for docno, text in batch.read()}
        for field in ("name", "summary", "body")
    }
    assert texts["name"]["numpy.linalg.matrix_rank"] == "numpy linalg matrix rank"
    assert texts["name"]["pandas.DataFrame.agg"] == "pandas Data Frame agg"
    assert texts["summary"]["numpy.linalg.matrix_rank"] == "Return matrix rank of array using SVD method"
    assert "SVD" in texts["body"]["numpy.linalg.matrix_rank"]
