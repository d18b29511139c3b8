"""Documents in files of all supported formats, split into batches for worker processes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal

from lmtune.errors import InputError, PathLike, check_least
from lmtune.io.documents import Document, cut_evenly
from lmtune.io.files import BOM, is_compressed, limit_lines, open_bytes, unreadable
from lmtune.io.line_documents import FIRST, TSV_FIELDS, URL, keys_with_text, parse_jsonl, parse_tab_separated
from lmtune.io.trec_documents import START, element_names, parse_trec

_BLOCK_BYTES = 1 << 20
_PIECES_PER_PART = 4
_NOT_DOCUMENTS = re.compile(
    r"\..*|(readme|readchg|readfr|topics|queries|qrels).*|runs|.*\.(dtd|md|run)|.*\.run\..*", re.I
)
_ACCEPTED = (
    "JSON lines ({...}), TREC documents (<DOC> ...) or lines of id<TAB>text, plain or as .gz, .bz2, .zst"
)
_Format = Literal["jsonl", "trec", "tsv"]
_PARSERS = {"jsonl": parse_jsonl, "trec": parse_trec, "tsv": parse_tab_separated}


@dataclass(frozen=True)
class FileBatch:
    """The documents of a file, or of a range of bytes of a plain file.

    Attributes
    ----------
    path : str
        The file.
    kind : {"jsonl", "trec", "tsv"}
        Its format.
    size : int
        Bytes of input.
    start, stop : int
        The range of bytes; by default the whole file.
    field : str, optional
        Read only this field of the documents.
    """

    path: str
    kind: _Format
    size: int
    start: int = 0
    stop: int | None = None
    field: str | None = None

    def read(self) -> Iterator[Document]:
        """Yield the documents; errors name the line in the whole file."""
        for _, docno, text in self.numbered():
            yield Document(docno, text)

    def numbered(self) -> Iterator[tuple[int, str, str]]:
        """Yield (line within the batch, docno, text)."""
        with open_bytes(self.path) as stream:
            if self.start:
                stream.seek(self.start)
            try:
                # The end of any closing tag resets the limit of the length; see `limit_lines`.
                end = b"</" if self.kind == "trec" else b"\n"
                parse = _PARSERS[self.kind]
                yield from parse(limit_lines(self._blocks(stream), self.path, end), self.path, self.field)
            except InputError as error:
                if error.line is not None:
                    error.line += self.lines_before()
                raise

    def lines_before(self) -> int:
        """Count the lines of the file before the batch."""
        if self.start == 0:
            return 0
        left, lines = self.start, 0
        with open_bytes(self.path) as stream:
            while left and (block := stream.read(min(left, _BLOCK_BYTES))):
                left -= len(block)
                lines += block.count(b"\n")
        return lines

    def _blocks(self, stream: BinaryIO) -> Iterator[bytes]:
        position = self.start
        while self.stop is None or position < self.stop:
            left = _BLOCK_BYTES if self.stop is None else self.stop - position
            block = stream.read(min(_BLOCK_BYTES, left))
            if not block:
                return
            yield block.removeprefix(BOM) if position == 0 else block
            position += len(block)


@dataclass(frozen=True)
class FileDocuments:
    """Documents in files: a DocumentSource.

    The first bytes of each file decide its format: JSON lines or tab-separated lines (see
    `lmtune.io.line_documents`), TRECTEXT or TRECWEB (see `lmtune.io.trec_documents`). Plain files are
    split, so that several workers can read one file.

    Parameters
    ----------
    name : str
        Name of the collection, for messages.
    files : sequence of path-like
        The files in collection order; see `document_files`.
    batch_bytes : int
        Approximate size of a batch of a plain file, in bytes.
    field : str, optional
        Read only this field: a key of JSON lines, an element of TREC documents, a column of tab-separated
        lines.

    Raises
    ------
    InputError
        If `batch_bytes` is below 1.
    """

    name: str
    files: Sequence[PathLike]
    _: KW_ONLY
    batch_bytes: int = 8 << 20
    field: str | None = None

    def __post_init__(self) -> None:
        check_least("bad batch_bytes", self.batch_bytes, 1)

    @property
    def size(self) -> int:
        """Bytes of the files on disk."""
        return sum(_file_size(path) for path in self.files)

    @property
    def origin(self) -> str:
        """The absolute path of the file, or of the common folder of all files."""
        return os.path.commonpath([os.path.realpath(path) for path in self.files])

    @property
    def fields(self) -> list[str]:
        """The fields of the first document."""
        return _first_fields(self.files[0])

    def state(self) -> dict[str, object]:
        """Return size, modification time and inode of each file."""
        states: dict[str, object] = {}
        for path in self.files:
            status = _status(path)
            states[os.fspath(path)] = status.st_size, status.st_mtime_ns, status.st_ino
        return states

    def batches(self) -> Iterator[FileBatch]:
        """Yield the batches in collection order.

        Raises
        ------
        InputError
            For a file that is empty, unreadable or of unknown format.
        """
        for path in self.files:
            kind = _kind(path)
            size = _file_size(path)
            if is_compressed(path) or size <= self.batch_bytes:
                yield FileBatch(os.fspath(path), kind, size, field=self.field)
                continue
            start = 0
            while start < size:
                stop = _next_start(path, kind, start + self.batch_bytes, size)
                yield FileBatch(os.fspath(path), kind, stop - start, start, stop, self.field)
                start = stop

    def digest(self) -> str:
        """Return a digest (BLAKE2b, 128 bits) of the bytes of the files on disk, and of the field."""
        state = hashlib.blake2b(digest_size=16)
        for path in self.files:
            state.update(f"{_file_size(path)}\n".encode())
            try:
                with Path(path).open("rb") as stream:
                    while block := stream.read(_BLOCK_BYTES):
                        state.update(block)
            except OSError as error:
                raise unreadable(path, error) from error
        return state.hexdigest() + (f"/{self.field}" if self.field else "")

    def of_field(self, field: str) -> FileDocuments:
        """Return the same documents with only this field's text."""
        return replace(self, field=field)

    def locate(self, docno: str) -> list[tuple[str, int]]:
        """Return (file, line) of every document with this docno; reads all documents."""
        return _locate(self.batches(), docno)

    def parts(self, count: int, digest: str) -> list[FilePart]:
        """Split the files into at most `count` parts of about equal bytes; compressed files are not split."""
        step = max(1, min(self.batch_bytes, self.size // (count * _PIECES_PER_PART)))
        pieces = tuple(replace(self, batch_bytes=step).batches())
        groups = cut_evenly([piece.size for piece in pieces], count)
        return [
            FilePart(self.name, pieces[part], f"{digest}/{number}of{count}")
            for number, part in enumerate(groups, 1)
        ]


@dataclass(frozen=True)
class FilePart:
    """Consecutive batches of a collection of files: a DocumentSource.

    Attributes
    ----------
    name : str
        Name of the collection.
    pieces : tuple of FileBatch
        The batches.
    known_digest : str
        A digest derived from that of the collection and the number of the part.
    """

    name: str
    pieces: tuple[FileBatch, ...]
    known_digest: str

    @property
    def size(self) -> int:
        """Bytes of the batches on disk."""
        return sum(piece.size for piece in self.pieces)

    @property
    def fields(self) -> list[str]:
        """The fields of the first document of the first file."""
        return _first_fields(self.pieces[0].path)

    def batches(self) -> Iterator[FileBatch]:
        """Yield the batches."""
        yield from self.pieces

    def digest(self) -> str:
        """Return the part's digest."""
        return self.known_digest

    def of_field(self, field: str) -> FilePart:
        """Return the same documents with only this field's text."""
        pieces = tuple(replace(piece, field=field) for piece in self.pieces)
        return FilePart(self.name, pieces, f"{self.known_digest}/{field}")

    def locate(self, docno: str) -> list[tuple[str, int]]:
        """Return (file, line) of every document with this docno; reads all documents."""
        return _locate(self.pieces, docno)


def _locate(batches: Iterable[FileBatch], docno: str) -> list[tuple[str, int]]:
    locations = []
    for batch in batches:
        lines = [line for line, name, _ in batch.numbered() if name == docno]
        before = batch.lines_before() if lines else 0
        locations += [(batch.path, before + line) for line in lines]
    return locations


def document_files(path: PathLike) -> list[Path]:
    """List the files of a collection.

    Parameters
    ----------
    path : path-like
        A file, or a folder.

    Returns
    -------
    list of pathlib.Path
        The file, or all files in the folder and its subfolders, sorted by path. Hidden files and folders are
        skipped, and those with names such as ``readme*``, ``topics*``, ``queries*``, ``qrels*``, ``*.dtd``,
        ``*.md``.

    Raises
    ------
    InputError
        If the path does not exist, is a pipe or device, or is a folder without document files.
    """
    top = Path(path)
    if top.is_file():
        return [top]
    if top.exists() and not top.is_dir():
        raise InputError(
            "documents are read several times, which a pipe or device does not allow",
            file=path,
            accepted="a file or folder",
        )
    if not top.is_dir():
        raise InputError("no such file or folder", file=path, accepted=_ACCEPTED)
    files = []
    visited = set()
    for folder, folders, names in os.walk(top, followlinks=True):
        visited.add(os.path.realpath(folder))
        folders[:] = [
            name
            for name in folders
            if not _NOT_DOCUMENTS.fullmatch(name) and os.path.realpath(Path(folder, name)) not in visited
        ]
        files += [Path(folder, name) for name in names if not _NOT_DOCUMENTS.fullmatch(name)]
    if not files:
        raise InputError("no document files in the folder", file=path, accepted=_ACCEPTED)
    return sorted(files, key=lambda file: file.relative_to(top).parts)


def _kind(path: PathLike) -> _Format:
    with open_bytes(path) as stream:
        head = stream.read(1 << 12).removeprefix(BOM)
        while head.isspace() and (more := stream.read(1 << 16)):
            head = more
    head = head.lstrip()
    if head.startswith(b"{"):
        return "jsonl"
    if START.match(head):
        return "trec"
    if FIRST.match(head):
        return "tsv"
    raise InputError(
        "not a document file" if head else "the file is empty",
        file=path,
        value=head[:24] or None,
        accepted=_ACCEPTED,
    )


def _first_fields(path: PathLike) -> list[str]:
    with open_bytes(path) as stream:
        head = stream.read(_BLOCK_BYTES).removeprefix(BOM)
    kind = _kind(path)
    if kind == "tsv":
        return [*TSV_FIELDS] if URL.match(head.lstrip()) else []
    return keys_with_text(head) if kind == "jsonl" else element_names(head)


def _next_start(path: PathLike, kind: _Format, offset: int, size: int) -> int:
    """Return the position of the first line, or the first TREC document, that begins at or after `offset`."""
    with open_bytes(path) as stream:
        # Start one byte earlier, so that a line that begins exactly at the offset counts.
        stream.seek(offset - 1)
        position = offset - 1 + len(stream.readline())
        while kind == "trec" and (line := stream.readline()) and START.match(line) is None:
            position += len(line)
    return min(position, size)


def _file_size(path: PathLike) -> int:
    return _status(path).st_size


def _status(path: PathLike) -> os.stat_result:
    try:
        return Path(path).stat()
    except OSError as error:
        raise unreadable(path, error) from error
