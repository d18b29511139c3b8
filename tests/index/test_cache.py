"""The index that is found is that of the documents, whatever others do meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier

import pytest

from lmtune.errors import InputError
from lmtune.index.analysis import Analyzer
from lmtune.index.builder import build_index
from lmtune.index.cache import cached_path, index_for
from lmtune.index.columnar import ColumnarIndex
from lmtune.io.documents import Document, ListDocuments
from lmtune.io.file_documents import FileBatch, FileDocuments, document_files
from lmtune.io.locks import locked


def documents(folder: Path, word: str) -> FileDocuments:
    folder.mkdir(parents=True)
    lines = (json.dumps({"id": f"{word}{i}", "contents": f"{word} {i}"}) for i in range(20))
    (folder / "docs.jsonl").write_text("\n".join(lines))
    return FileDocuments(folder.name, document_files(folder))


def of(index: ColumnarIndex) -> str:
    return index.docnos([0])[0][0]


@pytest.mark.slow
def test_two_collections_of_one_name_searched_at_once(tmp_path: Path) -> None:
    sources = {word: documents(tmp_path / word / "coll", word) for word in "ab"}
    built: list[str] = []
    start = Barrier(8)

    def search(number: int) -> int:
        word = "ab"[number % 2]
        start.wait()
        found = (
            index_for(
                sources[word], home=tmp_path / "indexes", on_build=lambda path, _: built.append(path.name)
            )
            for _ in range(40)
        )
        return sum(of(index) != word for index in found)

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(search, range(8))) == 0
    # Each is built once, others wait for it, and nothing else is left there.
    assert sorted(built) == sorted(path.name for path in (tmp_path / "indexes").iterdir())
    assert len(built) == 2


class Replacing(ListDocuments):
    """Documents whose index another process replaces while they are compared with it."""

    def digest(self) -> str:
        digest = super().digest()
        for path in self.home.iterdir():
            build_index(ListDocuments(self.name, [Document("b0", "b")]), path, Analyzer())
        return digest

    home = Path()


def test_the_index_that_was_checked_is_the_one_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = [Document("a0", "a")]
    index_for(ListDocuments("coll", own), home=tmp_path)
    monkeypatch.setattr(Replacing, "home", tmp_path)
    found = index_for(Replacing("coll", own), home=tmp_path)
    assert of(found) == "a"
    [path] = tmp_path.iterdir()
    assert of(ColumnarIndex.open(path)) == "b"


def test_names_tell_documents_and_analysis_apart(tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.mkdir()
    for folder in ("one", "two"):
        (words / folder).mkdir()
        (words / folder / "stop.txt").write_text(folder)
    stopped = [Analyzer(stopwords=str(words / folder / "stop.txt")) for folder in ("one", "two")]
    sources = [documents(tmp_path / side / "coll", side) for side in "ab"]
    paths = {cached_path(source, analyzer) for source in sources for analyzer in (Analyzer(), *stopped)}
    assert len(paths) == 6
    assert {path.name.rpartition(".")[0] for path in paths} == {"coll.porter.lucene", "coll.porter.stop.txt"}


@dataclass(frozen=True)
class Counted(FileDocuments):
    """Documents that note how often they are read."""

    reads: list[str] = field(default_factory=list)

    def batches(self) -> Iterator[FileBatch]:
        self.reads.append(self.name)
        yield from super().batches()


def test_what_others_lack_is_built_in_one_pass(tmp_path: Path) -> None:
    """Documents are read once for all analyses; what is current, or another builds, is left as it is."""
    source = Counted("coll", documents(tmp_path / "coll", "a").files)
    built: list[str] = []
    first, second, third, fourth = (Analyzer(stemmer) for stemmer in ("none", "porter", "english", "german"))

    def opened(analyzer: Analyzer, *beside: Analyzer) -> list[str]:
        built.clear()
        index = index_for(
            source,
            analyzer,
            home=tmp_path / "i",
            beside=beside,
            on_build=lambda path, _: built.append(path.name),
        )
        assert index.analyzer == analyzer
        return [name.split(".")[1] for name in built]

    assert opened(second) == ["porter"]
    with locked(cached_path(source, fourth, tmp_path / "i")):
        assert opened(first, first, second, third, fourth) == ["none", "english"]
    assert len(source.reads) == 2
    assert opened(third, first) == []
    assert opened(fourth, first, second, third) == ["german"]
    assert len(source.reads) == 3
    for analyzer in (first, second, third, fourth):
        alone = build_index(source, tmp_path / "alone", analyzer)
        there = cached_path(source, analyzer, tmp_path / "i")
        assert [path.read_bytes() for path in sorted(there.iterdir()) if path.is_file()] == [
            path.read_bytes() for path in sorted(alone.path.iterdir())
        ]


@dataclass(frozen=True)
class Growing(FileDocuments):
    """Documents that somebody adds to while they are indexed."""

    def batches(self) -> Iterator[FileBatch]:
        yield from super().batches()
        with Path(self.files[0]).open("a") as file:
            file.write('\n{"id": "new", "contents": "new"}')


def test_documents_that_change_meanwhile_are_told(tmp_path: Path) -> None:
    files = documents(tmp_path / "coll", "a").files
    with pytest.raises(InputError, match="changed while it was indexed") as caught:
        index_for(Growing("coll", files), home=tmp_path / "indexes")
    assert caught.value.file == str(files[0])
    assert list((tmp_path / "indexes").iterdir()) == []
