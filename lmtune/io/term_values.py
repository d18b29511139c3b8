"""Files with values of topics' words (topic, word, value) and with topic weights (topic, weight)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lmtune.errors import FilePosition, InputError, PathLike
from lmtune.io.files import read_lines
from lmtune.options import option


def read_term_values(path: PathLike) -> dict[str, dict[str, float]]:
    """Read values of the words of topics.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed, of lines ``topic<TAB>word<TAB>value``; blank lines are skipped.

    Returns
    -------
    dict of str to dict of str to float
        Values by topic and word, as written.

    Raises
    ------
    InputError
        For a line without three columns, a value that is not a finite number, a repeated topic and word, or
        an empty file.
    """
    accepted = "topic<TAB>word<TAB>value, the value a finite number, each topic and word once"
    values: dict[str, dict[str, float]] = {}
    with FilePosition(path) as position:
        for position.line, line in read_lines(path):
            if not line.strip():
                continue
            topic, word, written = [*(part.strip() for part in line.split("\t")), "", "", ""][:3]
            if line.count("\t") != 2 or not topic or not word:
                raise InputError("not three columns", value=line, accepted=accepted)
            value = _number(written)
            if not math.isfinite(value):
                raise InputError("bad value of a word", value=written, accepted=accepted)
            of_topic = values.setdefault(topic, {})
            if word in of_topic:
                raise InputError(f"a second value of a word in topic {topic}", value=word, accepted=accepted)
            of_topic[word] = value
    if not values:
        raise InputError("no values of words: the file is empty", file=path, accepted=accepted)
    return values


def _number(text: str) -> float:
    """Parse a number; return NaN for other text."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


_ACCEPTED = "topic<TAB>weight, a number above 0, each topic once"


def read_topic_weights(path: PathLike) -> dict[str, float]:
    """Read topic weights.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed, of lines ``topic<TAB>weight``; blank lines are skipped.

    Returns
    -------
    dict of str to float
        Weight by topic.

    Raises
    ------
    InputError
        For a line without two columns, a weight that is not a finite number above 0, a repeated topic, or an
        empty file.
    """
    weights = _read_pairs(path, "weight of a topic", _ACCEPTED, above=0.0)
    if not weights:
        raise InputError("no topic weights: the file is empty", file=path, accepted=_ACCEPTED)
    return weights


def read_document_values(path: PathLike) -> dict[str, float]:
    """Read a value of each document, such as a prior: lines ``docno<TAB>value``, as `read_topic_weights`.

    Raises
    ------
    InputError
        For a line without two columns, a value that is not a finite number, or a repeated document.
    """
    accepted = "docno<TAB>value, a finite number, each document once"
    return _read_pairs(path, "value of a document", accepted, above=-math.inf)


def _read_pairs(path: PathLike, what: str, accepted: str, *, above: float) -> dict[str, float]:
    values: dict[str, float] = {}
    with FilePosition(path) as position:
        for position.line, line in read_lines(path):
            if not line.strip():
                continue
            name, _, text = (part.strip() for part in line.partition("\t"))
            value = _number(text)
            if name in values or not name or not above < value < math.inf:
                problem = f"a second {what}" if name in values else f"bad {what}"
                raise InputError(problem, value=line, accepted=accepted)
            values[name] = value
    return values


def weights_of(topics: Sequence[str], weights: Mapping[str, float]) -> list[float]:
    """Return the weights of topics in their order; raise `InputError` if a topic has no weight above 0."""
    for topic in topics:
        if not 0.0 < weights.get(topic, 0.0) < math.inf:
            raise InputError(f"topic {topic} has no weight", accepted="a number above 0 for each topic")
    return [weights[topic] for topic in topics]


def topic_weights_option() -> Any:
    """Make the option for topic weights: a mapping of topic to weight, or None."""
    return option(
        None,
        "Weights of topics in fits: lines of topic, weight. Reported means ignore them.",
        read=read_topic_weights,
        metavar="TSV",
    )
