"""Texts kept beside an index: what was indexed comes back, document by document, and is checked."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmtune.collections.building import Building, build
from lmtune.collections.collection import Collection
from lmtune.errors import InputError
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.columnar import ColumnarIndex
from lmtune.index.sharded import ShardedIndex
from lmtune.index.sharding import build_sharded_index, join_indexes
from lmtune.index.text_store import KeptTexts, keep_texts
from lmtune.io.documents import Document, DocumentSource, ListDocuments
from lmtune.io.file_documents import FileDocuments

ODD = ["", "é \U0001f600", "a\x00b\r\n", "long " * 20_000, " ", "x" * (1 << 14), "\ud800 lone"]


def listed(count: int = 500) -> ListDocuments:
    rng = np.random.default_rng(3)
    words = [f"word{number}" for number in range(200)]
    texts = [" ".join(rng.choice(words, rng.integers(0, 300))) for _ in range(count)]
    documents = [Document(f"d{n * 77 % 1009}", text) for n, text in enumerate([*texts, *ODD])]
    titles = [Document(docno, f"title of {docno}") for docno, _ in documents]
    return ListDocuments("listed", documents, {"title": titles})


def in_files(folder: Path) -> FileDocuments:
    records = [
        {"id": f"{n}", "contents": f"text {n} é", **({"title": f"T{n}"} if n % 3 else {})}
        for n in range(5000)
    ]
    (folder / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records[:2500]))
    with gzip.open(folder / "b.jsonl.gz", "wt") as stream:
        stream.writelines(json.dumps(record) + "\n" for record in records[2500:])
    return FileDocuments("filed", [folder / "a.jsonl", folder / "b.jsonl.gz"], batch_bytes=10_000)


def built(source: DocumentSource, folder: Path) -> ColumnarIndex:
    return build_index(source, folder / "index", Analyzer("none", "none"), workers=1)


def plain(source: DocumentSource) -> list[str]:
    return [document.text for batch in source.batches() for document in batch.read()]


def test_every_text_comes_back_in_any_order(tmp_path: Path) -> None:
    source = listed()
    index, expected = built(source, tmp_path), plain(source)
    assert keep_texts(source, index)
    places = np.random.default_rng(1).integers(0, index.num_docs, 900)
    assert index.texts(range(index.num_docs)) == expected
    assert ColumnarIndex.open(index.path).texts(places) == [expected[place] for place in places]
    assert [index.texts([place]) for place in (506, 0, 505)] == [
        [expected[506]],
        [expected[0]],
        [expected[505]],
    ]
    assert index.texts([]) == []


def test_fields_of_files_plain_and_compressed(tmp_path: Path) -> None:
    source = in_files(tmp_path)
    index, seen = built(source, tmp_path), []
    assert keep_texts(source, index, "title", progress=lambda done, total: seen.append((done, total)))
    assert index.texts(range(5000), "title") == [f"T{n}" if n % 3 else "" for n in range(5000)]
    assert seen[-1] == (source.size, source.size)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert KeptTexts(index.path, index.fingerprint).fields() == ["title"]
    assert not list(index.path.glob("texts/.*"))


def test_it_is_kept_once_and_made_again_for_other_documents(tmp_path: Path) -> None:
    source = listed(20)
    index = built(source, tmp_path)
    assert keep_texts(source, index)
    assert not keep_texts(source, index)
    docnos = index.docnos(range(index.num_docs))
    titles = [Document(docno, "new") for docno in docnos]
    renamed = ListDocuments("listed", source.documents, {"title": titles})
    assert keep_texts(source, index, "title")
    assert keep_texts(renamed, index, "title")
    assert ColumnarIndex.open(index.path).texts([3], "title") == ["new"]
    again = built(listed(30), tmp_path)
    with pytest.raises(
        InputError, match=r"does not keep this text: 'contents'.*\(none\).*--keep-text --output"
    ):
        again.texts([0])


def test_texts_of_other_documents_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    index = built(listed(20), tmp_path)
    for source in (listed(19), listed(21)):
        with pytest.raises(InputError, match="not those of the index"):
            keep_texts(source, index)
    assert KeptTexts(index.path, index.fingerprint).fields() == []
    with pytest.raises(InputError, match=r"'title'.*--keep-text --fields title --output"):
        index.texts([0], "title")


def test_texts_of_a_field_index_of_another_collection_are_not_taken(tmp_path: Path) -> None:
    source = listed(20)
    index = built(source, tmp_path / "one")
    keep_texts(source, index)
    other = built(listed(21), tmp_path / "two")
    (index.path / "texts").rename(other.path / "texts")
    with pytest.raises(InputError, match="does not keep"):
        other.texts([0])


def test_shards_keep_the_text_of_all_or_give_their_own(tmp_path: Path) -> None:
    source = in_files(tmp_path)
    whole = build_sharded_index(source, tmp_path / "cut", Analyzer("none", "none"), 3, workers=1)
    with pytest.raises(InputError, match=r"cut: the index does not keep this text"):
        whole.texts([0])
    keep_texts(source, whole)
    assert whole.texts([4999, 0, 2500]) == ["text 4999 é", "text 0 é", "text 2500 é"]
    one, two = built(listed(20), tmp_path / "one"), built(source, tmp_path / "two")
    joined = join_indexes([one.path, two.path], tmp_path / "joined")
    keep_texts(listed(20), one)
    with pytest.raises(InputError, match=r"two.index: the index does not keep this text"):
        joined.texts([0])
    keep_texts(source, two)
    assert joined.texts([one.num_docs + 7, 3]) == ["text 7 é", *one.texts([3])]


def test_damage_is_found_before_it_is_used(tmp_path: Path) -> None:
    source = listed(200)
    index = built(source, tmp_path)
    keep_texts(source, index)
    file = index.path / "texts" / "contents" / "frames"
    content = bytearray(file.read_bytes())
    content[20_000] ^= 4
    file.write_bytes(content)
    fresh = ColumnarIndex.open(index.path)
    assert fresh.texts([0]) == [plain(source)[0]]
    with pytest.raises(InputError, match=r"frames: damaged.*removed"):
        fresh.texts(range(200))


@pytest.mark.parametrize("shards", [None, 2])
def test_an_index_takes_its_place_with_its_texts_or_not_at_all(
    shards: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `lmtune index --keep-text` that is terminated while it keeps the second field's text."""
    documents, target = tmp_path / "docs.jsonl", tmp_path / "kept"
    documents.write_text("".join(f'{{"id": "{n}", "title": "t{n}", "contents": "c{n}"}}\n' for n in range(9)))
    collection = Collection(documents=str(documents), fields=("title",))
    building = Building(target, keep_text=True, shards=shards)

    def interrupted(source: DocumentSource, index: Any, field: str, **how: Any) -> bool:
        if field == "title":
            raise KeyboardInterrupt
        return keep_texts(source, index, field, **how)

    with monkeypatch.context() as patch:
        patch.setattr("lmtune.collections.building.keep_texts", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build(collection, building)
    assert [path.name for path in tmp_path.iterdir()] == ["docs.jsonl"]
    build(collection, building)
    opened = ColumnarIndex.open(target) if shards is None else ShardedIndex.open(target)
    assert opened.texts([8, 0]) == ["c8", "c0"]
    assert opened.texts([8, 0], "title") == ["t8", "t0"]
