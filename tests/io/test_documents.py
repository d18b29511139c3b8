from __future__ import annotations

import bz2
import gzip
import json
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lmtune.errors import InputError
from lmtune.io.documents import Document, DocumentSource, ListDocuments
from lmtune.io.file_documents import FileDocuments, document_files

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def put(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(source: DocumentSource) -> list[Document]:
    # Through pickle, as batches reach the workers.
    return [document for batch in source.batches() for document in pickle.loads(pickle.dumps(batch)).read()]


def failure(path: Path, **settings: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read(FileDocuments("x", [path], **settings))
    assert caught.value.file == str(path)
    assert "\n" not in str(caught.value)
    return caught.value


def as_lines(documents: Iterable[Document]) -> bytes:
    return "".join(
        json.dumps({"id": docno, "contents": text}, ensure_ascii=False) + "\n" for docno, text in documents
    ).encode()


@pytest.mark.parametrize(
    ("line", "docno", "text"),
    [
        ('{"id": "1", "title": "t", "contents": "c"}', "1", "c"),
        ('{"_id": "a", "title": "t", "text": "x"}', "a", "t\nx"),
        ('{"docid": 7, "title": "", "body": "x"}', "7", "x"),
        ('{"docno": "é", "title": null, "text": "x", "body": "y"}', "é", "x"),
        ('{"_id": "a", "contents": "c", "text": "x"}', "a", "c"),
        ('{"id": 0, "contents": ""}', "0", ""),
        ('{"id": "1", "contents": "\\ud83d\\ude00\\ud800!"}', "1", "😀\ufffd!"),
        ('  {"id": "1", "contents": "\\u00e9"}\r', "1", "é"),
    ],
)
def test_spellings_of_json_documents(tmp_path: Path, line: str, docno: str, text: str) -> None:
    path = put(tmp_path / "docs.jsonl", f"\ufeff\n{line}\n\r\n")
    assert read(FileDocuments("x", [path])) == [Document(docno, text)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"id": "1", "contents": "x"', "not JSON"),
        (b"x", "not JSON"),
        (b"[1]", r"not a JSON object: '\[1\]'"),
        (b'"id"', "not a JSON object"),
        (b'{"contents": "x"}', "without an identifier.*id, _id, docid, docno"),
        (b'{"id": 1.5, "contents": "x"}', "bad document identifier: 1.5"),
        (b'{"id": true, "contents": "x"}', "bad document identifier: 'True'"),
        (b'{"id": null, "contents": "x"}', "bad document identifier: 'None'"),
        (b'{"id": "a b", "contents": "x"}', "bad document identifier: 'a b'"),
        (b'{"id": "", "contents": "x"}', "bad document identifier: ''"),
        (b'{"id": "\\ud800", "contents": "x"}', "bad document identifier"),
        (b'{"id": "1"}', "document 1 has no text.*contents, text, body"),
        (b'{"id": "1", "title": "x"}', "document 1 has no text"),
        (b'{"id": "1", "text": ["x"]}', r"the text is not a string: \['x'\]"),
        (b'{"id": "1", "title": 3, "text": "x"}', "the title is not a string: 3"),
        (b'{"id": "1", "contents": null}', "the text is not a string: 'None'"),
        (b'{"id": "1", "contents": "\xff"}', "invalid UTF-8 at byte 26"),
        (b"[" * 100_000, "not JSON"),
    ],
)
@pytest.mark.parametrize("batch_bytes", [16, 1 << 20])
def test_bad_json_names_its_line(tmp_path: Path, line: bytes, words: str, batch_bytes: int) -> None:
    good = as_lines(Document(f"D{number}", "x" * number) for number in range(40))
    path = put(tmp_path / "docs.jsonl", good + b"\n" + line + b"\n" + good)
    error = failure(path, batch_bytes=batch_bytes)
    assert error.line == 42
    with pytest.raises(InputError, match=words):
        raise pickle.loads(pickle.dumps(error))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.slow
@given(st.lists(TEXTS, min_size=1), st.integers(1, 200))
def test_split_files(tmp_path_factory: pytest.TempPathFactory, texts: list[str], batch_bytes: int) -> None:
    folder = tmp_path_factory.mktemp("documents")
    documents = [Document(f"D{number}", text) for number, text in enumerate(texts)]
    data = as_lines(documents)
    path = put(folder / "docs.jsonl", data)
    source = FileDocuments("x", [path], batch_bytes=batch_bytes)
    assert read(source) == documents
    assert sum(batch.size for batch in source.batches()) == source.size == len(data)
    for suffix, compress in COMPRESS.items():
        packed = put(folder / f"docs.jsonl{suffix}", compress(data))
        assert read(FileDocuments("x", [packed], batch_bytes=batch_bytes)) == documents


def test_files_larger_than_a_block(tmp_path: Path) -> None:
    documents = [Document(f"D{number}", "word " * number) for number in range(1200)]
    data = as_lines(documents)
    assert len(data) > 3 << 20
    path = put(tmp_path / "docs.jsonl", data)
    assert read(FileDocuments("x", [path])) == documents
    assert len(list(FileDocuments("x", [path], batch_bytes=1 << 20).batches())) == 4
    assert read(FileDocuments("x", [path], batch_bytes=1 << 20)) == documents
    assert read(FileDocuments("x", [put(tmp_path / "d.gz", gzip.compress(data))])) == documents


def test_locate_and_digest(tmp_path: Path) -> None:
    documents = [Document(f"D{number % 50}", str(number)) for number in range(100)]
    one = put(tmp_path / "1.jsonl", as_lines(documents[:70]))
    two = put(tmp_path / "2.jsonl.gz", gzip.compress(as_lines(documents[70:])))
    source = FileDocuments("x", [one, two], batch_bytes=100)
    assert source.locate("D3") == [(str(one), 4), (str(one), 54)]
    assert source.locate("D30") == [(str(one), 31), (str(two), 11)]
    assert source.locate("E") == []
    digest = source.digest()
    assert digest == FileDocuments("y", [str(one), str(two)]).digest()
    put(one, as_lines(documents[1:70]) + as_lines(documents[:1]))
    assert source.digest() != digest
    assert FileDocuments("x", [one]).digest() != FileDocuments("x", [one, one]).digest()


@pytest.mark.parametrize("content", [b"", b" \n\r\n", b"\xef\xbb\xbf"])
def test_empty_file(tmp_path: Path, content: bytes) -> None:
    assert "empty" in str(failure(put(tmp_path / "docs.jsonl", content)))
    assert "empty" in str(failure(put(tmp_path / "docs.jsonl.gz", gzip.compress(content))))


@pytest.mark.parametrize("content", [b"\x1f\x9d\x90", b"plain text", b"<html>", b"\xff\xfe{\x00"])
def test_unknown_format(tmp_path: Path, content: bytes) -> None:
    error = failure(put(tmp_path / "docs", content))
    assert "not a document file" in str(error)
    assert "JSON lines" in str(error)


def test_lines_of_an_identifier_and_a_text(tmp_path: Path) -> None:
    expected = [Document(f"{n}", f" passage {n}, é \U0001f600 " if n % 50 else "") for n in range(3000)]
    content = "".join(f"{docno}\t{text}\n" for docno, text in expected).encode()
    for batch_bytes in (100, 5000, 1 << 20):
        path = put(tmp_path / "collection.tsv", content)
        assert read(FileDocuments("x", [path], batch_bytes=batch_bytes)) == expected
    for suffix, compress in COMPRESS.items():
        path = put(tmp_path / f"collection.tsv{suffix}", compress(content.replace(b"\n", b"\r\n") + b"\n"))
        assert read(FileDocuments("x", [path])) == expected
    source = FileDocuments("x", [path])
    assert source.fields == []
    assert read(source.of_field("title"))[7] == Document("7", "")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"3", "not a document: '3'; accepted: id<TAB>text"),
        (b"3\ta\tb", "not a document"),
        (b"3 4\ta", "not a document"),
        (b"\ta", "not a document"),
        (b"3\t\xff", "invalid UTF-8"),
    ],
)
def test_bad_lines_of_an_identifier_and_a_text(tmp_path: Path, line: bytes, message: str) -> None:
    path = put(tmp_path / "c.tsv", b"1\tx\n\n2\ty\n" + line + b"\n")
    error = failure(path, batch_bytes=4)
    assert message in str(error)
    assert error.line == 4


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (
            '{"id": "1", "title": "t", "tags": ["a"], "year": 3, "contents": "c"}\n{"x',
            ["title", "tags", "contents"],
        ),
        ("<DOC>\n<DOCNO>1</DOCNO><HL>h</HL>\n<TEXT>x</TEXT></DOC><DOC><OTHER></OTHER>", ["hl", "text"]),
    ],
)
def test_fields_of_the_first_document(tmp_path: Path, content: str, fields: list[str]) -> None:
    assert FileDocuments("x", [put(tmp_path / "docs", content)]).fields == fields


def test_truncated_gzip(tmp_path: Path) -> None:
    whole = gzip.compress(as_lines([Document("A", "x")] * 100))
    assert "ends too early" in str(failure(put(tmp_path / "d.jsonl.gz", whole[:-20])))
    assert "ends too early" in str(failure(put(tmp_path / "d.jsonl.gz", whole[:20])))


def test_missing_file(tmp_path: Path) -> None:
    source = FileDocuments("x", [tmp_path / "none"])
    actions: list[Callable[[], object]] = [source.digest, lambda: list(source.batches()), lambda: source.size]
    for action in actions:
        with pytest.raises(InputError, match="No such file"):
            action()


def test_files_of_a_folder(tmp_path: Path) -> None:
    wanted = ["WT01/B01.gz", "WT01/B02", "WT02/b1.Z", "a.jsonl", "docs.jsonl.zst"]
    others = (
        ".hidden .git/x README readme.txt qrels.txt topics.301-450 queries.jsonl WT01/ft.dtd notes.md"
    ).split()
    for name in wanted + others:
        put(tmp_path / name, "x")
    (tmp_path / "WT01" / "loop").symlink_to(tmp_path)
    assert document_files(tmp_path) == [tmp_path / name for name in wanted]
    assert document_files(tmp_path / "README") == [tmp_path / "README"]
    with pytest.raises(InputError, match="no document files"):
        document_files(put(tmp_path / "empty" / "qrels", "x").parent)
    with pytest.raises(InputError, match="no such file or folder"):
        document_files(tmp_path / "none")


def test_list_documents_in_memory() -> None:
    documents = [Document(f"D{number}", "é" * 100_000) for number in range(12)]
    source = ListDocuments("memory", documents)
    assert read(source) == documents
    assert [batch.size for batch in source.batches()] == [1_200_000, 1_200_000]
    assert source.size == 2_400_000
    assert source.locate("D3") == [("memory", 4)]
    made = ListDocuments("made", lambda: iter(documents))
    assert read(made) == read(made) == documents
    assert made.size == 0
    assert made.digest() == source.digest()


def test_digest_of_a_list_tells_documents_apart() -> None:
    lists = [
        [Document("A", "bc")],
        [Document("Ab", "c")],
        [Document("A", "b"), Document("c", "")],
        [Document("c", ""), Document("A", "b")],
        [],
    ]
    assert len({ListDocuments("x", documents).digest() for documents in lists}) == len(lists)


@pytest.mark.parametrize("docno", ["", "a b", "a\n"])
def test_list_documents_with_a_bad_name(docno: str) -> None:
    source = ListDocuments("memory", [Document("A", "x"), Document(docno, "x")])
    with pytest.raises(InputError, match="bad document identifier") as caught:
        read(source)
    assert (caught.value.file, caught.value.line) == ("memory", 2)


def test_classic_collections(shared_data: Path) -> None:
    counts = {"cranfield": 1400, "cacm": 3204, "npl": 11429, "med": 1033}
    for name, count in counts.items():
        path = shared_data / name / "docs.jsonl"
        documents = read(FileDocuments(name, [path], batch_bytes=100_000))
        assert len({document.docno for document in documents}) == count
        lines = path.read_text().splitlines()
        assert [text for _, text in documents] == [json.loads(line)["contents"] for line in lines]


URL = "https://a.example/x"
MSMARCO = {
    "v1 docs": (f"D1\t{URL}\tBird flu\tIt spreads\n", "D1", f"{URL}\nBird flu\nIt spreads", "Bird flu"),
    "v1 docs without title": (f"D1\t{URL}\t\tIt spreads\n", "D1", f"{URL}\nIt spreads", ""),
    "v2 passage": (
        '{"pid": "p_1", "passage": "Bird flu", "spans": "(0,8)", "docid": "d_9"}',
        "p_1",
        "Bird flu",
        "",
    ),
    "v2 doc": (
        json.dumps({"docid": "d_1", "url": URL, "title": "T", "headings": "H", "body": "bird flu"}),
        "d_1",
        f"{URL}\nT\nH\nbird flu",
        "T",
    ),
    "v2.1 segment": (
        json.dumps(
            {
                "docid": "d_1#0_5",
                "url": URL,
                "title": "T",
                "headings": "",
                "segment": "bird flu",
                "start_char": 0,
            }
        ),
        "d_1#0_5",
        f"{URL}\nT\nbird flu",
        "T",
    ),
}


@pytest.mark.parametrize("name", MSMARCO)
def test_msmarco_is_read_as_distributed(name: str, tmp_path: Path) -> None:
    """The text is all fields but identifiers, as Anserini indexes it; each field can be read alone."""
    content, docno, text, title = MSMARCO[name]
    source = FileDocuments("msmarco", [put(tmp_path / "docs", content)])
    assert read(source) == [Document(docno, text)]
    assert read(source.of_field("title")) == [Document(docno, title)]
    assert {"title", "passage"} & set(source.fields)
    assert not {"docid", "pid"} & set(source.fields)


def test_judgments_with_tabs_are_no_documents(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a document file"):
        read(FileDocuments("x", [put(tmp_path / "qrels", "1\t0\tD1\t1\n")]))
