"""JSON as every reader takes it: strict, and with numbers that a float can hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

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
