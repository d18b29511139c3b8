"""JSON, read strictly; checksums of what lmtune writes and reads again, so that nothing damaged is used.

All are CRC-32: any 32 bits in a row may be damaged and are noticed, and of other damage all but
one in 2**32. They guard against accidents, not against a forger.
"""

from __future__ import annotations

import json
import math
import typing
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lmtune.errors import InputError, PathLike
from lmtune.io.files import read_bytes, unreadable

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
        As for `sealed` and `require_types`.

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
    return require_types(rest, kinds)


def require_types(content: Any, kinds: Mapping[str, Any]) -> dict[str, Any]:
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
        return require_types(content, kinds)
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


_LONGEST = 308  # digits that every float can hold


def parse_json(
    raw: bytes | str, *, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None, infinite: bool = False
) -> Any:
    """Parse JSON.

    Parameters
    ----------
    raw : bytes or str
        The text; bytes are UTF-8, UTF-16 or UTF-32.
    pairs : callable, optional
        Makes an object of its names and values; by default a dictionary.
    infinite : bool
        Whether NaN and Infinity are numbers, as Python writes them.

    Raises
    ------
    ValueError
        For other text, NaN and Infinity unless `infinite`, numbers beyond a float, and too deep nesting.
    """
    try:
        return json.loads(
            raw,
            object_pairs_hook=pairs,
            parse_float=_float,
            parse_int=_int,
            parse_constant=float if infinite else _refuse,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        _refuse(text)
    return number


def _int(text: str) -> int:
    if len(text) > _LONGEST:
        _refuse(text)
    return int(text)


def _refuse(text: str) -> None:
    raise ValueError(f"the number {text:.20} is not finite or too large")
