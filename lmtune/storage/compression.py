"""Compressed streams, chosen by suffix: strict when reading, reproducible when writing.

Each format's library is imported where a file needs it: short commands read plain files.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from lmtune.errors import InputError, PathLike
from lmtune.storage.limits import check_expansion

SUFFIXES = (".gz", ".bz2", ".zst")


def is_compressed(path: PathLike) -> bool:
    """Tell from its suffix, in either case, whether a file is compressed."""
    return Path(path).suffix.lower() in SUFFIXES


def decompressing(raw: BinaryIO, path: PathLike) -> BinaryIO:
    """Return a stream of the decompressed bytes of `raw`, the opened file `path`.

    Closing it closes `raw`; a plain file is `raw` itself. Reads raise InputError where the
    compressed data is damaged or ends too early.
    """
    suffix = Path(path).suffix.lower()
    source: Any
    if suffix == ".gz":
        import gzip

        source = gzip.GzipFile(fileobj=raw, mode="rb")
    elif suffix == ".bz2":
        import bz2

        source = bz2.BZ2File(raw)
    elif suffix == ".zst":
        source = _ZstandardReader(raw)
    else:
        return raw
    return cast("BinaryIO", io.BufferedReader(_StrictReader(source, raw, path), 1 << 17))


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


class _StrictReader(io.RawIOBase):
    """Decompressed bytes; damage becomes an InputError that names the file."""

    def __init__(self, source: Any, raw: BinaryIO, path: PathLike) -> None:
        self._source = source
        self._raw = raw
        self._path = path
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            size = int(self._source.readinto(buffer))
            self._given += size
            if self._raw.seekable():
                check_expansion(self._path, self._raw.tell(), self._given)
            return size
        except InputError:
            raise
        except EOFError:
            raise InputError(
                "compressed file ends too early", file=self._path, accepted="a whole file"
            ) from None
        except Exception as error:
            import zlib

            if not isinstance(error, OSError | ValueError | zlib.error):
                raise
            raise InputError(
                f"damaged compressed file ({error})",
                file=self._path,
                accepted=f"a {Path(self._path).suffix} file",
            ) from error

    def close(self) -> None:
        if not self.closed:
            self._source.close()
            self._raw.close()
        super().close()


class _ZstandardReader(io.RawIOBase):
    """Zstandard frames one after another; unlike the library's own reader, strict at the end."""

    def __init__(self, raw: BinaryIO) -> None:
        import zstandard

        self._raw = raw
        self._new_frame = zstandard.ZstdDecompressor().decompressobj
        self._error = zstandard.ZstdError
        self._frame: Any = None
        self._input = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            chunk = self._input or self._raw.read(1 << 16)
            self._input = b""
            if not chunk:
                if self._frame is not None:
                    raise EOFError
                return 0
            if self._frame is None:
                self._frame = self._new_frame()
            try:
                self._output = memoryview(self._frame.decompress(chunk))
            except self._error as error:
                raise ValueError(str(error)) from error
            if self._frame.eof:
                self._input = self._frame.unused_data
                self._frame = None
        size = min(len(buffer), len(self._output))
        buffer[:size] = self._output[:size]
        self._output = self._output[size:]
        return size
