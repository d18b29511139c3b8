"""Reading and writing of files for all formats: compression by suffix, limits of sizes, atomic writes.

Libraries for compression are imported only if a file needs them, so that short commands start quickly.
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

from lmtune.errors import FilePosition, InputError, PathLike
from lmtune.io.locks import temporary
from lmtune.io.remote import is_remote, local_copy

LONGEST_LINE_BYTES = 256 << 20
"""Maximum length of a line or a TREC document, in bytes."""

EXPANSION = 200
"""Maximum ratio of decompressed to compressed size, for files of more than 64 MiB decompressed."""

_HARMLESS_BYTES = 64 << 20
_COMPRESSED_BYTES = 1 << 12  # decompressed at a time, to at most 128 MiB


def limit_lines(blocks: Iterable[bytes], path: PathLike, end: bytes = b"\n") -> Iterator[bytes]:
    """Yield blocks unchanged, and raise an error for a line that is too long.

    Parameters
    ----------
    blocks : iterable of bytes
        The content of a file.
    path : path-like
        Name of the file, for messages.
    end : bytes
        The bytes that end a line.

    Raises
    ------
    InputError
        For a line longer than `LONGEST_LINE_BYTES`, up to the length of a block.
    """
    since = 0
    for block in blocks:
        last = block.rfind(end)
        since = since + len(block) if last < 0 else len(block) - last
        if since > LONGEST_LINE_BYTES:
            message = f"a line of more than {LONGEST_LINE_BYTES >> 20} MiB"
            raise InputError(message, file=path, accepted="shorter lines")
        yield block


SUFFIXES = (".gz", ".bz2", ".zst")


def is_compressed(path: PathLike) -> bool:
    """Return whether the suffix of a file, in upper or lower case, names a compression."""
    return Path(path).suffix.lower() in SUFFIXES


def compression_stream(raw: IO[bytes], suffix: str) -> Any:
    """Return a stream that compresses into `raw`, or None if the suffix names no compression.

    The bytes depend only on the content: times and file names are not stored.
    """
    if suffix == ".gz":
        import gzip

        return gzip.GzipFile(filename="", mode="wb", compresslevel=3, fileobj=raw, mtime=0)
    if suffix == ".bz2":
        import bz2

        return bz2.BZ2File(raw, "wb")
    if suffix == ".zst":
        import zstandard

        return zstandard.ZstdCompressor(write_checksum=True).stream_writer(raw, closefd=False)
    return None


class _Decompressed(io.RawIOBase):
    """The decompressed bytes of all members of a gzip, bzip2 or Zstandard file, one after another.

    Unlike the readers of the libraries, it raises an error if the last member is damaged or incomplete, or is
    followed by bytes other than zeros.
    """

    def __init__(self, raw: BinaryIO, path: PathLike) -> None:
        self._raw = raw
        self._path = path
        self._new_member = _decompressor(Path(path).suffix.lower())
        self._member: Any = None
        self._rest = b""
        self._plain = memoryview(b"")
        self._bytes_in = self._bytes_out = 0

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
        self._bytes_in += len(chunk) - len(self._rest)
        self._bytes_out += len(plain)
        if self._bytes_out > max(_HARMLESS_BYTES, EXPANSION * self._bytes_in):
            message = f"the decompressed file is more than {EXPANSION} times larger"
            raise InputError(message, file=self._path, accepted="a lower ratio, or a plain file")
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
"""The byte order mark of UTF-8."""

_BUFFER_BYTES = 1 << 17
_MOST_NAMES = 10_000  # names of a folder that are searched for one similar to a missing file


def open_bytes(path: PathLike) -> BinaryIO:
    """Open a file for reading its decompressed bytes.

    Parameters
    ----------
    path : path-like
        A plain file, or a compressed file with suffix ``.gz``, ``.bz2`` or ``.zst`` (upper or lower case), of
        one or more members; also a URL (see `lmtune.io.remote`).

    Returns
    -------
    BinaryIO
        A buffered stream; its reads raise `InputError` for damaged compressed data.

    Raises
    ------
    InputError
        If the file is missing, a directory or unreadable.
    """
    try:
        raw = Path(local_copy(path)).open("rb", buffering=_BUFFER_BYTES)  # noqa: SIM115 - the caller closes
    except OSError as error:
        raise unreadable(path, error) from error
    if not is_compressed(path):
        return raw
    return cast("BinaryIO", io.BufferedReader(_Decompressed(raw, path), _BUFFER_BYTES))


def read_bytes(path: PathLike, *, text: bool = False) -> bytes:
    """Read a file, decompressed, or standard input for ``-``; a UTF-8 byte order mark is removed.

    Raises
    ------
    InputError
        As `open_bytes`. With `text`, also for a line longer than `LONGEST_LINE_BYTES` if the size of the
        input is not known in advance, as for devices and compressed files.
    """
    standard = os.fspath(path) == "-"
    with nullcontext(sys.stdin.buffer) if standard else open_bytes(path) as stream:
        if text and (is_compressed(path) or not Path(path).is_file()):
            blocks = iter(partial(stream.read, 1 << 20), b"")
            return b"".join(limit_lines(blocks, path)).removeprefix(BOM)
        return stream.read().removeprefix(BOM)


def read_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    r"""Yield (number, text) of each line of a text file.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed.

    Yields
    ------
    tuple of int and str
        The number of the line, from 1, and its text without ``\n`` or ``\r\n``. A byte order mark at the
        beginning of the file is removed.

    Raises
    ------
    InputError
        As `open_bytes`, and for a line that is not valid UTF-8 or longer than `LONGEST_LINE_BYTES`.
    """
    with open_bytes(path) as stream, FilePosition(path) as position:
        pieces = iter(partial(stream.readline, 1 << 20), b"")
        try:
            for position.line, line in enumerate(line_blocks(limit_lines(pieces, path)), 1):
                start = line.removeprefix(BOM) if position.line == 1 else line
                yield position.line, decode_line(start).removesuffix("\n").removesuffix("\r")
        except InputError as error:
            if error.file is not None and error.line is None and position.line:  # the next line is too long
                error.line = position.line + 1
            raise


def line_blocks(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Regroup blocks of bytes so that each ends at the end of a line, or of the input."""
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
    """Yield the bytes of an open file in blocks of complete lines, of about `size` bytes.

    A byte order mark is removed. Every block ends with a line feed, which is added to the last one if needed.
    """
    first = True
    for block in line_blocks(limit_lines(iter(partial(stream.read, size), b""), path)):
        whole = block.removeprefix(BOM) if first else block
        first = False
        if whole:
            yield whole if whole.endswith(b"\n") else whole + b"\n"


def decode_line(line: bytes) -> str:
    """Decode one line; for invalid UTF-8 raise an `InputError` without file and line."""
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
    r"""Write a file atomically.

    The stream writes to a temporary file beside the target. The file replaces the target when the ``with``
    block ends, and is removed if the block raises any exception, including KeyboardInterrupt. Missing parent
    folders are made. Pipes and all paths in ``/dev`` are opened directly, for appending.

    Parameters
    ----------
    path : path-like
        The target. The suffixes ``.gz``, ``.bz2`` and ``.zst`` select compression; the bytes depend only on
        the content.
    mode : {"text", "binary"}
        ``"text"`` yields a UTF-8 stream with ``\n`` line ends on every platform.

    Yields
    ------
    TextIO or BinaryIO
        The stream to write to.

    Raises
    ------
    InputError
        If the target is a directory or cannot be made.
    """
    requested = Path(path)
    check_no_directory(requested)
    # In /dev, a regular file is one that the shell redirects to: it must not be replaced.
    direct = requested.exists() and (not requested.is_file() or requested.parent.parts[:2] == ("/", "dev"))
    # Resolve symbolic links, so that the link itself stays.
    target = requested if direct else Path(os.path.realpath(requested))
    with contextlib.ExitStack() as stack:
        try:
            written = requested
            if not direct:
                target.parent.mkdir(parents=True, exist_ok=True)
                written = stack.enter_context(temporary(target, partial(Path.touch, exist_ok=False)))
            raw = written.open("ab" if direct else "wb", buffering=_BUFFER_BYTES)
        except OSError as error:
            raise unwritable(requested, error) from error
        try:
            with raw, _encoded(raw, target, text=mode == "text") as stream:
                yield stream
            if not direct:
                _replace(written, target)
        except BaseException as error:
            add_file_name(error, requested)
            raise


def check_no_directory(path: PathLike) -> None:
    """Raise `InputError` if the path of an output file is a directory."""
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
        compressed = compression_stream(raw, target.suffix.lower())
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
    """Return the `InputError` for a file that cannot be opened or read."""
    accepted: str | None = "a readable file"
    if isinstance(error, FileNotFoundError):
        near = ", ".join(near_names(path))
        accepted = f"an existing file, such as {near}" if near else None
    if isinstance(error, IsADirectoryError):
        with contextlib.suppress(OSError):
            names = sorted(entry.name for entry in Path(os.fsdecode(path)).iterdir() if entry.is_file())
            accepted = f"a file, such as {names[0]}" if names else "a file"
    return InputError(f"cannot read: {error.strerror or error}", file=path, accepted=accepted)


def check_readable(path: PathLike) -> None:
    """Raise `InputError` if a file does not exist, for a check before slow imports; skips URLs."""
    if os.fspath(path) == "-" or is_remote(path):
        return
    try:
        Path(path).stat()
    except OSError as error:
        raise unreadable(path, error) from error


def near_names(path: PathLike) -> list[str]:
    """Return up to three similar names in the folder of a missing file; equal stems come first."""
    missed, names = Path(os.fsdecode(path)), []
    with contextlib.suppress(OSError, ValueError):
        names = sorted(entry.name for entry in itertools.islice(missed.parent.iterdir(), _MOST_NAMES))
    stem = missed.name.partition(".")[0].lower()
    same = [name for name in names if stem and name.partition(".")[0].lower() == stem]
    return list(dict.fromkeys((*same, *difflib.get_close_matches(missed.name, names))))[:3]


def unwritable(path: PathLike, error: OSError) -> InputError:
    """Return the `InputError` for a file or folder that cannot be written."""
    return InputError(f"cannot write: {error.strerror or error}", file=path)
