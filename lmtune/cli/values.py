"""Options whose text needs reading."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lmtune.errors import InputError

if TYPE_CHECKING:
    from lmtune.tuning.space import ParameterSpace


def grid(text: str) -> tuple[int, int]:
    """Read ``20x26``: points along lambda and mu."""
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None or min(int(match[1]), int(match[2])) < 1:
        raise InputError("bad --grid", value=text, accepted="LAMBDASxMUS, such as 20x26")
    return int(match[1]), int(match[2])


def space(lambda_range: str, mu_range: str) -> ParameterSpace:
    """Read two ``LOW,HIGH`` ranges."""
    from lmtune.tuning.space import ParameterSpace

    lambdas = _range("--lambda-range", lambda_range, "such as 0,0.95")
    mus = _range("--mu-range", mu_range, "such as 1,100000")
    return ParameterSpace(*lambdas, *mus)


def fields(text: str) -> tuple[str, ...]:
    """Read ``title,desc``; a plus sign separates as well."""
    return tuple(re.split(r"[,+]", text))


def _range(option: str, text: str, example: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"bad {option}", value=text, accepted=f"LOW,HIGH, {example}") from None
    return low, high
