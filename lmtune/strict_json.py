"""The one parser of JSON: numbers and nesting are bounded."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

_DEEPEST = 500  # below Python's limit of recursion; the parsers of some versions crash beyond theirs
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[][{}]")


def _check_nesting(text: str) -> None:
    if text.count("[") + text.count("{") <= _DEEPEST:
        return
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")


_LONGEST = 308  # every integer with this many digits is within the range of a float


def parse_json(
    raw: bytes | str, *, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None, infinite: bool = False
) -> Any:
    """Parse JSON.

    Parameters
    ----------
    raw : bytes or str
        The text; bytes are UTF-8, UTF-16 or UTF-32.
    pairs : callable, optional
        Converts the (name, value) pairs of each object; the default makes a dictionary.
    infinite : bool
        Accept NaN and Infinity, which are not standard JSON but are written by Python, and read numbers
        beyond the largest float as infinite.

    Raises
    ------
    ValueError
        For text that is not JSON, arrays and objects nested more than 500 deep, integers outside the range of
        a float, and infinite numbers and NaN unless `infinite` is set.
    """
    text = raw if isinstance(raw, str) else raw.decode(json.detect_encoding(raw), "surrogatepass")
    _check_nesting(text)
    try:
        return _decoder(pairs, infinite).decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


@cache  # a decoder is slower to make than a line is to parse
def _decoder(pairs: Callable[[list[tuple[str, Any]]], Any] | None, infinite: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=pairs,
        parse_float=float if infinite else _float,
        parse_int=_int,
        parse_constant=float if infinite else _refuse,
    )


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
