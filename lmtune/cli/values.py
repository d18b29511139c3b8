"""Options whose text needs reading."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lmtune.errors import InputError

if TYPE_CHECKING:
    from lmtune.indexing.analysis import Analyzer

_MOST_POINTS = 1_000_000


def grid(text: str) -> tuple[int, int]:
    """Read ``20x26``: points along lambda and mu."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})x([1-9][0-9]{0,5})", text)
    if match is None or int(match[1]) * int(match[2]) > _MOST_POINTS:
        raise InputError(
            "bad --grid", value=text, accepted=f"LAMBDASxMUS, such as 20x26; up to {_MOST_POINTS}"
        )
    return int(match[1]), int(match[2])


def ranges(lambda_range: str | None, mu_range: str | None, model: str) -> dict[str, tuple[float, float]]:
    """Read the ``LOW,HIGH`` ranges that are given."""
    _refuse_fixed(model, {"--lambda-range": lambda_range, "--mu-range": mu_range})
    given = {
        "lambda": _range("--lambda-range", lambda_range, "such as 0,0.95"),
        "mu": _range("--mu-range", mu_range, "such as 1,100000"),
    }
    return {name: bounds for name, bounds in given.items() if bounds is not None}


def setting(lambda_: float | None, mu: float | None, model: str) -> dict[str, float]:
    """Return lambda and mu, the model's own where they are not given."""
    from lmtune.models.model import find_model

    _refuse_fixed(model, {"--lambda": lambda_, "--mu": mu})
    given = {"lambda": lambda_, "mu": mu}
    return {
        name: default if (x := given[name]) is None else x
        for name, default in find_model(model).default.items()
    }


def _refuse_fixed(model: str, given: Mapping[str, object]) -> None:
    """Raise where an option, ``--lambda...`` or ``--mu...``, names what the model fixes."""
    from lmtune.models.model import find_model

    fixed = find_model(model).fixed
    for option, value in given.items():
        name = option.split("-")[2]
        if value is not None and name in fixed:
            raise InputError(
                f"{option} beside --model {model}, which fixes {name}",
                value=value,
                accepted=f"{name} = {fixed[name]:g}, which needs no option",
            )


def analyzer(stemmer: str | None, stopwords: str | None, index: str | None = None) -> Analyzer:
    """Make the analyzer; a named index has its own, which options must not seem to change.

    Lucene indexes do not know theirs, so that there it may be said.
    """
    from lmtune.indexing.analysis import Analyzer

    if index is not None and is_lucene(index):
        return Analyzer()
    for option, value in (("--stemmer", stemmer), ("--stopwords", stopwords)):
        if index is not None and value is not None:
            raise InputError(
                f"{option} beside --index, which has its own analysis",
                value=value,
                accepted=f"{option} where the index is built",
            )
    return Analyzer(stemmer=stemmer or "porter", stopwords=stopwords or "lucene")


def is_lucene(index: str) -> bool:
    """Tell whether ``--index`` names a Lucene index."""
    return index.startswith("lucene:")


def fields(text: str) -> tuple[str, ...]:
    """Read ``title,desc``; a plus sign separates as well."""
    return tuple(re.split(r"[,+]", text))


def _range(option: str, text: str | None, example: str) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"bad {option}", value=text, accepted=f"LOW,HIGH, {example}") from None
    return low, high
