"""Files as every format reads and writes them: compressed by suffix, strict, within limits, whole or absent.

Each compression's library is imported where a file needs it: short commands read plain files.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, TextIO, cast, overload

from lmtune.errors import InputError, PathLike, Place
from lmtune.io.locks import temporary

LONGEST_LINE_BYTES = 256 << 20
"""Bytes that a line, or a TREC document, may have."""

EXPANSION = 200
"""Bytes that a byte of a compressed file may become, beyond the first 64 MiB."""

_HARMLESS_BYTES = 64 << 20
_COMPRESSED_BYTES = 1 << 12  # decompressed at a time: at most 128 MiB come out


def within_lines(blocks: Iterable[bytes], path: PathLike, end: bytes = b"\n") -> Iterator[bytes]:
    """Give blocks on, until too many without an end have passed.

    Parameters
    ----------
    blocks : iterable of bytes
        A file's.
    path : path-like
        What to call it.
    end : bytes
        What ends a line.

    Raises
    ------
    InputError
        For a line longer than the limit, up to the length of a block.
    """
    since = 0
    for block in blocks:
        last = block.rfind(end)
        since = since + len(block) if last < 0 else len(block) - last
        if since > LONGEST_LINE_BYTES:
            message = f"a line of more than {LONGEST_LINE_BYTES >> 20} MiB"
            raise InputError(message, file=path, accepted="shorter ones")
        yield block


SUFFIXES = (".gz", ".bz2", ".zst")


def is_compressed(path: PathLike) -> bool:
    """Tell from its suffix, in either case, whether a file is compressed."""
    return Path(path).suffix.lower() in SUFFIXES


def compressing(raw: IO[bytes], suffix: str) -> Any:
    """Return a stream that compresses into `raw`, or None where the suffix asks for none.

    The bytes depend on the content alone: no time and no file name are kept.
    """
    if suffix == ".gz":
        import gzip

        return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0)
    if suffix == ".bz2":
        import bz2

        return bz2.BZ2File(raw, "wb")
    if suffix == ".zst":
        import zstandard

        return zstandard.ZstdCompressor(write_checksum=True).stream_writer(raw, closefd=False)
    return None


class _Decompressed(io.RawIOBase):
    """The decompressed bytes of a file's members, gzip's, bzip2's or Zstandard's, one after another.

    Unlike the libraries' own readers it raises for a damaged or cut last member, and for other bytes after
    it, but for zeros.
    """

    def __init__(self, raw: BinaryIO, path: PathLike) -> None:
        self._raw = raw
        self._path = path
        self._new_member = _decompressor(Path(path).suffix.lower())
        self._member: Any = None
        self._rest = b""
        self._plain = memoryview(b"")
        self._taken = self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._plain:
            chunk = self._rest or self._raw.read(_COMPRESSED_BYTES)
            if not chunk:
                if self._member is None:
                    return 0
                raise InputError("compressed file ends too early", file=self._path, accepted="a whole file")
            self._plain = memoryview(self._decompress(chunk))
        size = min(len(buffer), len(self._plain))
        buffer[:size] = self._plain[:size]
        self._plain = self._plain[size:]
        return size

    def _decompress(self, chunk: bytes) -> bytes:
        self._rest = b""
        if self._member is None:
            chunk = chunk.lstrip(b"\0")
            if not chunk:
                return b""
            self._member = self._new_member()
        try:
            plain: bytes = self._member.decompress(chunk)
        except Exception as error:
            message = f"damaged compressed file ({error})"
            accepted = f"a {Path(self._path).suffix} file"
            raise InputError(message, file=self._path, accepted=accepted) from error
        if self._member.eof:
            self._rest, self._member = self._member.unused_data, None
        self._taken += len(chunk) - len(self._rest)
        self._given += len(plain)
        if self._given > max(_HARMLESS_BYTES, EXPANSION * self._taken):
            message = f"a compressed file that grows to more than {EXPANSION} times its size"
            raise InputError(message, file=self._path, accepted="less, or the file as it is decompressed")
        return plain

    def close(self) -> None:
        self._raw.close()
        super().close()


def _decompressor(suffix: str) -> Callable[[], Any]:
    if suffix == ".gz":
        import zlib

        return partial(zlib.decompressobj, 16 + zlib.MAX_WBITS)
    if suffix == ".bz2":
        import bz2

        return bz2.BZ2Decompressor
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj


BOM = b"\xef\xbb\xbf"
"""UTF-8's byte order mark."""

_BUFFER_BYTES = 1 << 17
_MOST_NAMES = 10_000  # of a folder, that are looked at where a file is missing


def open_bytes(path: PathLike) -> BinaryIO:
    """Open a file for reading its decompressed bytes.

    Parameters
    ----------
    path : path-like
        A plain file, or one that its suffix (in either case) names as ``.gz``, ``.bz2`` or
        ``.zst``, of one or several concatenated members.

    Returns
    -------
    BinaryIO
        A buffered stream; its reads raise InputError where the compressed data is damaged.

    Raises
    ------
    InputError
        If the file is missing, a directory or unreadable.
    """
    try:
        raw = Path(path).open("rb", buffering=_BUFFER_BYTES)  # noqa: SIM115 - the caller closes
    except OSError as error:
        raise unreadable(path, error) from error
    if not is_compressed(path):
        return raw
    return cast("BinaryIO", io.BufferedReader(_Decompressed(raw, path), _BUFFER_BYTES))


def read_bytes(path: PathLike, *, text: bool = False) -> bytes:
    """Read a whole file, decompressed, or ``-``, standard input, without its UTF-8 byte order mark.

    Raises
    ------
    InputError
        As `open_bytes`; with `text`, for a line beyond `LONGEST_LINE_BYTES` of what has
        no size of its own, such as a device or compressed data.
    """
    standard = os.fspath(path) == "-"
    with nullcontext(sys.stdin.buffer) if standard else open_bytes(path) as stream:
        if text and (is_compressed(path) or not Path(path).is_file()):
            blocks = iter(partial(stream.read, 1 << 20), b"")
            return b"".join(within_lines(blocks, path)).removeprefix(BOM)
        return stream.read().removeprefix(BOM)


def read_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    r"""Yield a text file's lines with their numbers.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed.

    Yields
    ------
    tuple of int and str
        The line's number, from 1, and its text without ``\n`` or ``\r\n``; a byte order mark at
        the beginning of the file is dropped.

    Raises
    ------
    InputError
        As `open_bytes`, and at a line that is not valid UTF-8 or beyond
        `LONGEST_LINE_BYTES`.
    """
    with open_bytes(path) as stream, Place(path) as place:
        pieces = iter(partial(stream.readline, 1 << 20), b"")
        try:
            for place.line, line in enumerate(line_blocks(within_lines(pieces, path)), 1):
                start = line.removeprefix(BOM) if place.line == 1 else line
                yield place.line, decode_line(start).removesuffix("\n").removesuffix("\r")
        except InputError as error:
            if error.file is not None and error.line is None and place.line:  # the next line is too long
                error.line = place.line + 1
            raise


def line_blocks(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Regroup blocks of bytes into blocks that end where lines end (or the input does)."""
    rest: list[bytes] = []
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join((*rest, block[:end]))
            rest = [block[end:]]
        else:
            rest.append(block)
    if last := b"".join(rest):
        yield last


def read_whole_lines(stream: BinaryIO, path: PathLike, size: int) -> Iterator[bytes]:
    """Yield an opened file's bytes without its byte order mark, whole lines of about `size` bytes at a time.

    Each block ends in a line feed, the last one too.
    """
    first = True
    for block in line_blocks(within_lines(iter(partial(stream.read, size), b""), path)):
        whole = block.removeprefix(BOM) if first else block
        first = False
        if whole:
            yield whole if whole.endswith(b"\n") else whole + b"\n"


def decode_line(line: bytes) -> str:
    """Decode one line strictly, or name its invalid bytes in an InputError, without the line's place."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"invalid UTF-8 at byte {error.start + 1} of the line",
            value=line[error.start : error.start + 8],
            accepted="UTF-8 text",
        ) from None


@overload
def atomic_write(path: PathLike, *, mode: Literal["text"] = "text") -> AbstractContextManager[TextIO]: ...


@overload
def atomic_write(path: PathLike, *, mode: Literal["binary"]) -> AbstractContextManager[BinaryIO]: ...


@contextlib.contextmanager
def atomic_write(path: PathLike, *, mode: Literal["text", "binary"] = "text") -> Iterator[Any]:
    r"""Write a file whole or not at all.

    The stream goes to a temporary file beside the target, which replaces the target when the
    ``with`` block ends, and is removed when the block raises anything, KeyboardInterrupt included.
    Missing parent folders are made. A pipe, and anything under ``/dev``, is written directly, at
    its end.

    Parameters
    ----------
    path : path-like
        The target. Its suffix compresses: ``.gz``, ``.bz2``, ``.zst``; the bytes depend on the
        content alone (no time, no name).
    mode : {"text", "binary"}
        ``"text"`` gives a UTF-8 stream with ``\n`` line ends on every platform.

    Yields
    ------
    TextIO or BinaryIO
        The stream to write to.

    Raises
    ------
    InputError
        If the target is a directory or cannot be made.
    """
    given = Path(path)
    check_no_directory(given)
    # Under /dev a regular file is one that the shell has redirected to: it is not ours to replace.
    direct = given.exists() and (not given.is_file() or given.parent.parts[:2] == ("/", "dev"))
    # Through a symbolic link, so that the link survives.
    target = given if direct else Path(os.path.realpath(given))
    with contextlib.ExitStack() as stack:
        try:
            written = given
            if not direct:
                target.parent.mkdir(parents=True, exist_ok=True)
                written = stack.enter_context(temporary(target, partial(Path.touch, exist_ok=False)))
            raw = written.open("ab" if direct else "wb", buffering=_BUFFER_BYTES)
        except OSError as error:
            raise unwritable(given, error) from error
        try:
            with raw, _encoded(raw, target, text=mode == "text") as stream:
                yield stream
            if not direct:
                _replace(written, target)
        except BaseException as error:
            add_file_name(error, given)
            raise


def check_no_directory(path: PathLike) -> None:
    """Raise InputError where a file is to be written in a directory's place."""
    try:
        is_directory = Path(path).is_dir()
    except OSError as error:
        raise unwritable(path, error) from error
    if is_directory:
        raise InputError("cannot write", file=path, value="a directory", accepted="a file name")


@contextlib.contextmanager
def _encoded(raw: BinaryIO, target: Path, *, text: bool) -> Iterator[IO[Any]]:
    with contextlib.ExitStack() as stack:
        stream: Any = raw
        compressed = compressing(raw, target.suffix.lower())
        if compressed is not None:
            stream = stack.enter_context(compressed)
        if text:
            stream = io.TextIOWrapper(stream, encoding="utf-8", newline="\n")
            stack.callback(stream.close)
        yield stream


def _replace(source: Path, target: Path) -> None:
    try:
        source.replace(target)
    except OSError as error:
        raise unwritable(target, error) from error


def add_file_name(error: BaseException, path: PathLike) -> None:
    """Add the path to the error of a failed write: errors such as a full disk name no file."""
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError) and error.filename is None:
        error.filename = os.fspath(path)


def unreadable(path: PathLike, error: OSError) -> InputError:
    """Return the InputError for a file that the system will not give us."""
    accepted: str | None = "a readable file"
    if isinstance(error, FileNotFoundError):
        near = ", ".join(near_names(path))
        accepted = f"a file that is there, such as {near}" if near else None
    return InputError(f"cannot read: {error.strerror or error}", file=path, accepted=accepted)


def near_names(path: PathLike) -> list[str]:
    """Return names in a missing file's folder that are like its own: but for suffixes, or by letters."""
    missed, names = Path(os.fsdecode(path)), []
    with contextlib.suppress(OSError, ValueError):
        names = sorted(own.name for own in itertools.islice(missed.parent.iterdir(), _MOST_NAMES))
    stem = missed.name.partition(".")[0].lower()
    same = [name for name in names if stem and name.partition(".")[0].lower() == stem]
    return list(dict.fromkeys((*same, *difflib.get_close_matches(missed.name, names))))[:3]


def unwritable(path: PathLike, error: OSError) -> InputError:
    """Return the InputError for a file or folder that the system will not let us write."""
    return InputError(f"cannot write: {error.strerror or error}", file=path)
