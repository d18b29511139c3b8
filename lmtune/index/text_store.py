"""Store documents' texts beside an index, compressed in blocks, for random access.

A block has the texts of consecutive whole documents, compressed as one Zstandard frame.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Integers
from lmtune.errors import InputError
from lmtune.index.columns import (
    Column,
    ColumnWriter,
    StoredColumn,
    Strings,
    read_columns,
    write_column,
    write_strings,
)
from lmtune.index.manifest import TEXTS_FOLDER
from lmtune.index.protocol import CONTENTS, Index, StoredIndex
from lmtune.io.digests import sealed_text, unsealed
from lmtune.io.documents import DocumentSource, field_of, unchanged
from lmtune.io.folders import FolderKind, atomic_directory
from lmtune.io.locks import locked
from lmtune.progress import Count

_TEXTS_FORMAT = "lmtune texts 1"
_TEXTS_FILE = "texts.json"

_BLOCK_BYTES = 1 << 14
_DOCNOS_AT_A_TIME = 1 << 12
_FACTS = {"index": str, "digest": str, "columns": dict}
_COLUMNS = {
    "frames": "blocks of documents' texts in UTF-8, each a Zstandard frame",
    "frame_bytes": "the first byte of each block's frame, and the end of the last one",
    "text_ends": "the end of each document's text within its block",
    "block_docs": "the first document of each block, and the number of documents",
}
_KIND = FolderKind(_TEXTS_FILE, (_TEXTS_FILE, *_COLUMNS))
_REMOVE = "this folder removed; it will be rebuilt if the documents are available"


class StoredTexts:
    """The texts of one field of all documents, memory-mapped.

    Parameters
    ----------
    folder : path
        The folder that `keep_texts` wrote.
    columns : mapping of str to StoredColumn
        The columns, as described in ``texts.json``.
    """

    def __init__(self, folder: Path, columns: dict[str, StoredColumn]) -> None:
        mapped = {name: Column[Any](folder, column, _REMOVE) for name, column in columns.items()}
        self._frames = Strings(mapped["frames"], mapped["frame_bytes"])
        self._ends = mapped["text_ends"]
        self._firsts: Integers = mapped["block_docs"][:]

    def of(self, docs: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Return the texts of documents by number, in that order; each block is decompressed once."""
        import zstandard

        numbers = np.asarray(docs, np.int64)
        blocks = np.searchsorted(self._firsts, numbers, side="right") - 1
        is_first = numbers == self._firsts[blocks]
        begins = np.where(is_first, 0, self._ends.take(np.where(is_first, numbers, numbers - 1)))
        ends = self._ends.take(numbers)
        texts = [""] * len(numbers)
        decompress = zstandard.ZstdDecompressor().decompress
        order = np.argsort(blocks, kind="stable")
        for block, group in itertools.groupby(order.tolist(), key=blocks.tolist().__getitem__):
            raw = decompress(self._frames[block])
            for at in group:
                texts[at] = raw[begins[at] : ends[at]].decode("utf-8", "surrogatepass")
        return texts


class KeptTexts:
    """The stored texts of an index, in a subfolder.

    Parameters
    ----------
    index : path
        The folder of the index.
    fingerprint : str
        The fingerprint of the index.
    """

    def __init__(self, index: Path, fingerprint: str) -> None:
        self._folder = index / TEXTS_FOLDER
        self._fingerprint = fingerprint
        self._opened: dict[str, StoredTexts] = {}

    def path(self, field: str) -> Path:
        """Return the folder of a field's text."""
        return self._folder / field

    def fields(self) -> list[str]:
        """Return the fields with stored texts."""
        return sorted(file.parent.name for file in self._folder.glob(f"*/{_TEXTS_FILE}"))

    def open(self, field: str, digest: str | None = None) -> StoredTexts | None:
        """Open a field's texts; return None if there are none, or those of another index or documents.

        Parameters
        ----------
        field : str
            The field; `CONTENTS` is the text that was indexed.
        digest : str, optional
            The expected digest of the documents.

        Raises
        ------
        InputError
            If a column is damaged.
        """
        if digest is None and field in self._opened:
            return self._opened[field]
        try:
            content = unsealed((self.path(field) / _TEXTS_FILE).read_bytes(), _TEXTS_FORMAT, _FACTS)
            columns = read_columns(content["columns"], _COLUMNS)
        except (OSError, ValueError):
            return None
        if content["index"] != self._fingerprint or digest not in (None, content["digest"]):
            return None
        self._opened[field] = StoredTexts(self.path(field), columns)
        return self._opened[field]

    def of(self, docs: Sequence[int] | NDArray[np.integer], field: str) -> list[str]:
        """Return the texts of documents by number.

        Raises
        ------
        InputError
            If the field's text is not stored. The message lists the stored fields, and the command that
            stores this one.
        """
        stored = self.open(field)
        if stored is None:
            wanted = "--keep-text" if field == CONTENTS else f"--keep-text --fields {field}"
            raise InputError(
                "the index does not keep this text",
                file=self._folder.parent,
                value=field,
                accepted=f"one that it keeps ({', '.join(self.fields()) or 'none'}), or"
                f" lmtune index ... {wanted} --output {self._folder.parent}",
            )
        return stored.of(docs)


def keep_texts(
    source: DocumentSource, index: StoredIndex, field: str = CONTENTS, *, progress: Count | None = None
) -> bool:
    """Store the texts of one field beside the index, unless they are stored and current.

    The write is atomic; of several processes, one writes.

    Parameters
    ----------
    source : DocumentSource
        The documents that were indexed.
    index : StoredIndex
        Their index; the texts are stored in its folder.
    field : str
        A field, or `CONTENTS`.
    progress : callable, optional
        Called with (bytes done, bytes in all or 0).

    Returns
    -------
    bool
        Whether this call wrote the texts.

    Raises
    ------
    InputError
        If the documents are not those of the index, change during the call, or have no fields.
    """
    view = source if field == CONTENTS else field_of(source, field)
    digest = "" if field == CONTENTS else view.digest()  # the index has a digest of the whole text
    kept = KeptTexts(index.path, index.fingerprint)
    with locked(kept.path(field)):
        if kept.open(field, digest) is not None:
            return False
        with atomic_directory(kept.path(field), _KIND) as folder, unchanged(source):
            columns = _write(folder, _documents(view, index, progress))
            described = {name: asdict(column) for name, column in columns.items()}
            content = {"index": index.fingerprint, "digest": digest, "columns": described}
            text = sealed_text(content, _TEXTS_FORMAT)
            (folder / _TEXTS_FILE).write_text(text, encoding="ascii")
    return True


def _documents(source: DocumentSource, index: Index, progress: Count | None) -> Iterator[bytes]:
    """Yield the documents' texts; raise `InputError` if a docno differs from the index's."""
    number = done = 0
    for batch in source.batches():
        documents = iter(batch.read())
        while some := list(itertools.islice(documents, _DOCNOS_AT_A_TIME)):
            end = min(number + len(some), index.num_docs)
            if index.docnos(range(number, end)) != [document.docno for document in some]:
                raise _other_documents(source, index)
            yield from (document.text.encode("utf-8", "surrogatepass") for document in some)
            number = end
        done += batch.size
        if progress is not None:
            progress(done, source.size)
    if number != index.num_docs:
        raise _other_documents(source, index)


def _other_documents(source: DocumentSource, index: Index) -> InputError:
    return InputError(
        "the documents are not those of the index",
        file=index.name,
        value=source.name,
        accepted="the documents that were indexed",
    )


def _write(folder: Path, texts: Iterator[bytes]) -> dict[str, StoredColumn]:
    import zstandard

    compress = zstandard.ZstdCompressor().compress
    firsts = [0]
    with ColumnWriter(folder / "text_ends", "<i4") as ends:

        def frames() -> Iterator[list[bytes]]:
            for block in _blocks(texts):
                ends.write(np.cumsum([len(text) for text in block]))
                firsts.append(firsts[-1] + len(block))
                yield [compress(b"".join(block))]

        columns = write_strings(folder, "frames", "frame_bytes", frames()) | {"text_ends": ends.close()}
    return columns | {"block_docs": write_column(folder / "block_docs", "<i8", np.array(firsts))}


def _blocks(texts: Iterator[bytes]) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    size = 0
    for text in texts:
        if block and size + len(text) > _BLOCK_BYTES:
            yield block
            block, size = [], 0
        block.append(text)
        size += len(text)
    if block:
        yield block
