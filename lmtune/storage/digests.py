"""Digests of what lmtune writes and reads again, so that nothing damaged is ever used.

All are CRC-32: any 32 bits in a row may be damaged and are noticed, and of other damage all but
one in 2**32. They guard against accidents, not against a forger.
"""

from __future__ import annotations

import json
import typing
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, PathLike
from lmtune.storage.files import read_bytes, unreadable
from lmtune.storage.json_text import parse_json

BLOCK_BYTES = 1 << 14
"""Bytes of a large file that share a digest: what is read of it is checked in steps of these."""

_KEY = "crc32"


def sealed(content: Mapping[str, Any], of: str = "") -> dict[str, Any]:
    """Return content to be written as JSON, with its digest.

    Parameters
    ----------
    content : mapping
        As JSON holds it, without a key ``crc32``.
    of : str
        What the content belongs to: it is no other's.
    """
    # As it will be read: keys are text then.
    read = json.loads(json.dumps(dict(content)))
    return {**read, _KEY: _json_digest(read, of)}


def sealed_text(content: Mapping[str, Any], of: str = "", indent: int | None = 1) -> str:
    """Return the text of a JSON file that `unsealed` reads; as `sealed`."""
    return json.dumps(sealed(content, of), indent=indent) + "\n"


def unsealed(content: Any, of: str = "", kinds: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return the content that `sealed` took, with values of some types.

    Parameters
    ----------
    content : bytes or object
        A JSON file's bytes, or what they hold.
    of, kinds
        As for `sealed` and `checked`.

    Raises
    ------
    ValueError
        Where it is anything else.
    """
    if isinstance(content, bytes):
        content = parse_json(content, infinite=True)
    if not isinstance(content, dict) or _KEY not in content:
        raise ValueError("no checksum")
    rest = {key: value for key, value in content.items() if key != _KEY}
    if content[_KEY] != _json_digest(rest, of):
        raise ValueError("the checksum differs")
    return checked(rest, kinds)


def checked(content: Any, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object whose values are of some types.

    Parameters
    ----------
    content : object
        As JSON has it.
    kinds : mapping of str to type
        By key; of a type such as ``dict[str, int]`` the elements count too.

    Raises
    ------
    ValueError
        Where a key is missing or its value is of another type, or it is no object.
    """
    if not isinstance(content, dict):
        raise ValueError("not an object")
    for name, kind in kinds.items():
        if name not in content or not _is_of(content[name], kind):
            raise ValueError(f"bad or missing {name}: {content.get(name)!r:.80}")
    return content


def _is_of(value: Any, kind: Any) -> bool:
    whole = typing.get_origin(kind) or kind
    if whole is Any:
        return True
    if not isinstance(value, whole) or (whole is int and isinstance(value, bool)):
        return False
    parts = typing.get_args(kind)
    elements = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not parts or all(_is_of(element, parts[-1]) for element in elements)


def read_json(path: PathLike, kinds: Mapping[str, Any] | None = None, *, accepted: str | None = None) -> Any:
    """Read a file of JSON.

    Parameters
    ----------
    path : path-like
        The file.
    kinds : mapping of str to type, optional
        What the file has to hold: an object with values of these types.
    accepted : str, optional
        What to have instead, for messages.

    Raises
    ------
    InputError
        Where it cannot be read, or is anything else.
    """
    raw = read_bytes(path)
    try:
        content = parse_json(raw)
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg}"
        raise InputError(message, file=path, line=error.lineno, accepted=accepted) from None
    except ValueError as error:
        raise InputError("not JSON", file=path, value=str(error), accepted=accepted) from None
    if kinds is None:
        return content
    try:
        return checked(content, kinds)
    except ValueError as error:
        raise InputError(str(error), file=path, accepted=accepted) from None


def _json_digest(content: Any, of: str) -> int:
    try:
        return zlib.crc32(json.dumps(content, sort_keys=True).encode(), zlib.crc32(of.encode()))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def digest(content: bytes | memoryview) -> int:
    """Return the digest of a whole file's content."""
    return zlib.crc32(content)


def read_whole(path: Path, expected: int) -> bytes:
    """Read a file whose digest is known.

    Raises
    ------
    InputError
        Where it is missing or has another content.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    if digest(content) != expected:
        raise InputError("damaged: the checksum differs", file=path, accepted="the file as lmtune wrote it")
    return content


def block_digests(stream: BinaryIO) -> bytes:
    """Return the digests of the blocks of a stream's rest, as little-endian numbers of 4 bytes."""
    return np.array(
        [zlib.crc32(block) for block in iter(partial(stream.read, BLOCK_BYTES), b"")], "<u4"
    ).tobytes()


def digests_size(size: int) -> int:
    """Return how many bytes `block_digests` returns for so many bytes."""
    return 4 * -(-size // BLOCK_BYTES)


class Blocks:
    """A file in memory of which only those blocks are used whose digest was found right.

    Parameters
    ----------
    content : memoryview
        Its bytes.
    digests : bytes-like
        As `block_digests` returned them.
    path : path-like
        The file, for messages.
    accepted : str
        What to have instead, for messages.
    """

    def __init__(self, content: memoryview, digests: Any, path: PathLike, accepted: str) -> None:
        self._content = content
        self._digests: NDArray[np.uint32] = np.frombuffer(digests, "<u4")
        self._path = path
        self._accepted = accepted
        # Looked at one by one and many at a time.
        self._seen = bytearray(len(self._digests))
        self._many_seen = np.frombuffer(self._seen, np.bool_)

    def check(self, begin: int, end: int) -> None:
        """Check the blocks from one byte up to another.

        Raises
        ------
        InputError
            Where one is damaged.
        """
        if begin < end:
            seen = self._seen
            for block in range(begin // BLOCK_BYTES, (end - 1) // BLOCK_BYTES + 1):
                if not seen[block]:
                    self._check(block)

    def check_places(self, places: NDArray[np.int64]) -> None:
        """Check the blocks that hold some bytes, as `check` does."""
        blocks = places // BLOCK_BYTES
        for block in np.unique(blocks[~self._many_seen[blocks]]).tolist():
            self._check(block)

    def _check(self, block: int) -> None:
        part = self._content[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]
        if zlib.crc32(part) != self._digests[block]:
            raise self.damaged()
        self._seen[block] = True

    def damaged(self) -> InputError:
        """Return the error to raise where a block is damaged."""
        return InputError("damaged: a checksum differs", file=self._path, accepted=self._accepted)
