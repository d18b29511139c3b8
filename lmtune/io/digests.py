"""JSON files, and checksums of files that lmtune writes and later reads.

The checksums are CRC-32. They detect any damage within 32 consecutive bits, and all but one in 2**32
of other damages. They protect against accidents, not against forgery.
"""

from __future__ import annotations

import json
import typing
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lmtune.errors import InputError, PathLike
from lmtune.io.files import read_bytes, unreadable
from lmtune.strict_json import parse_json

_KEY = "crc32"


def sealed(content: Mapping[str, Any], of: str = "") -> dict[str, Any]:
    """Return JSON content with its checksum under the key ``crc32``.

    Parameters
    ----------
    content : mapping
        Content that JSON can represent, without a key ``crc32``.
    of : str
        Identity of the owner, for example a digest. It enters the checksum, so that `unsealed` rejects the
        content for any other owner.
    """
    # The checksum is of the content as it will be read: JSON turns all keys into text.
    read = parse_json(json.dumps(dict(content)), infinite=True)
    return {**read, _KEY: _json_digest(read, of)}


def sealed_text(content: Mapping[str, Any], of: str = "", indent: int | None = 1) -> str:
    """Return the text of a JSON file with its checksum, for `unsealed`; parameters as for `sealed`."""
    return json.dumps(sealed(content, of), indent=indent) + "\n"


def unsealed(content: Any, of: str = "", kinds: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Check the checksum and the types of content that `sealed` made, and return it without the checksum.

    Parameters
    ----------
    content : bytes or object
        The bytes of a JSON file, or the parsed object.
    of : str
        Identity of the owner; see `sealed`.
    kinds : mapping of str to type
        Required types; see `require_types`.

    Raises
    ------
    ValueError
        If the content is not JSON, has no checksum or a wrong one, or has values of other types.
    """
    if isinstance(content, bytes):
        content = parse_json(content, infinite=True)
    if not isinstance(content, dict) or _KEY not in content:
        raise ValueError("no checksum")
    rest = {key: value for key, value in content.items() if key != _KEY}
    if content[_KEY] != _json_digest(rest, of):
        raise ValueError("the checksum differs")
    return require_types(rest, kinds)


def require_types(content: Any, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Check that parsed JSON is an object with values of the required types, and return it.

    Parameters
    ----------
    content : object
        Parsed JSON.
    kinds : mapping of str to type
        The required type of each key. For a type such as ``dict[str, int]`` the elements are checked too.

    Raises
    ------
    ValueError
        If the content is not an object, a key is missing, or a value has another type.
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
    """Read a JSON file.

    Parameters
    ----------
    path : path-like
        The file.
    kinds : mapping of str to type, optional
        Require an object with values of these types; see `require_types`.
    accepted : str, optional
        The accepted content, for error messages.

    Raises
    ------
    InputError
        If the file cannot be read, is not JSON, or does not have the required types.
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
        return require_types(content, kinds)
    except ValueError as error:
        raise InputError(str(error), file=path, accepted=accepted) from None


def _json_digest(content: Any, of: str) -> int:
    try:
        return zlib.crc32(json.dumps(content, sort_keys=True).encode(), zlib.crc32(of.encode()))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def digest(content: bytes | memoryview) -> int:
    """Return the CRC-32 of a file's content."""
    return zlib.crc32(content)


def read_verified(path: Path, expected: int) -> bytes:
    """Read a file and check its digest.

    Raises
    ------
    InputError
        If the file cannot be read or has another digest.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    if digest(content) != expected:
        raise InputError("damaged: the checksum differs", file=path, accepted="the file as lmtune wrote it")
    return content
