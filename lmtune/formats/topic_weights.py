"""What topics count in a fit: lines of topic and weight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lmtune.errors import InputError, PathLike
from lmtune.options import option
from lmtune.storage.files import read_lines

_ACCEPTED = "topic<TAB>weight, a number above 0, each topic once"


def read_topic_weights(path: PathLike) -> dict[str, float]:
    """Read topics' weights.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed, of lines ``topic<TAB>weight``; blank lines do no harm.

    Raises
    ------
    InputError
        For a line without two columns, a weight that is no finite number above 0, a topic that comes
        again, or an empty file.
    """
    weights: dict[str, float] = {}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        topic, _, text = (part.strip() for part in line.partition("\t"))
        try:
            weight = math.nan if "_" in text else float(text)
        except ValueError:
            weight = math.nan
        if topic in weights or not topic or not 0.0 < weight < math.inf:
            problem = "a second weight of a topic" if topic in weights else "bad weight of a topic"
            raise InputError(problem, file=path, line=number, value=line, accepted=_ACCEPTED)
        weights[topic] = weight
    if not weights:
        raise InputError("no weights of topics: the file is empty", file=path, accepted=_ACCEPTED)
    return weights


def weights_of(topics: Sequence[str], weights: Mapping[str, float]) -> list[float]:
    """Return topics' weights in their order, or raise InputError where one has none above 0."""
    for topic in topics:
        if not 0.0 < weights.get(topic, 0.0) < math.inf:
            raise InputError(f"topic {topic} has no weight", accepted="a number above 0 for each topic")
    return [weights[topic] for topic in topics]


def topic_weights_option() -> Any:
    """Make the option of whatever fits to topics: a mapping of topic to weight, or None."""
    return option(
        None,
        "What topics count in fits: lines of topic, weight. Means count each alike.",
        read=read_topic_weights,
        metavar="TSV",
    )
