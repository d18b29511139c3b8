"""Measures of run files that only ir_measures has."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lmtune.errors import InputError


def from_ir_measures(
    judgements: Mapping[bytes, Mapping[bytes, int]],
    rankings: Mapping[bytes, Sequence[bytes]],
    topics: Sequence[bytes],
    names: Sequence[str],
) -> dict[str, tuple[float, ...]]:
    """Measure rankings with ir_measures.

    Parameters
    ----------
    judgements : mapping of bytes to mapping of bytes to int
        Gains by topic and docno.
    rankings : mapping of bytes to sequence of bytes
        Docnos by topic, best first.
    topics : sequence of bytes
        The topics to measure.
    names : sequence of str
        Measures as ir_measures spells them.

    Returns
    -------
    dict of str to tuple of float
        By name, one value a topic; 0 where ir_measures gives none.
    """
    import ir_measures

    measures = {ir_measures.parse_measure(name): name for name in names}
    qrels = {
        topic.decode(): {docno.decode(): gain for docno, gain in judgements[topic].items()}
        for topic in topics
    }
    # The order stands; scores only say it again, without ties and exact in 32 bits.
    run = {
        topic.decode(): {docno.decode(): float(-rank) for rank, docno in enumerate(docnos)}
        for topic, docnos in rankings.items()
        if docnos
    }
    place = {topic.decode(): t for t, topic in enumerate(topics)}
    values = {name: [0.0] * len(topics) for name in names}
    for value in calculated(list(measures), qrels, run):
        values[measures[value.measure]][place[value.query_id]] = float(value.value)
    return {name: tuple(found) for name, found in values.items()}


def calculated(
    measures: Sequence[Any], qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]]
) -> Iterator[Any]:
    """Yield ir_measures' values of topics.

    Raises
    ------
    InputError
        Where one of the programs behind it fails, as some do on gains that they do not expect.
    """
    import ir_measures

    try:
        yield from ir_measures.iter_calc(measures, qrels, run)
    except (ArithmeticError, AssertionError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        raise InputError(
            f"ir_measures cannot compute the measures ({type(error).__name__}: {error})",
            value=[str(measure) for measure in measures],
            accepted="judgements and parameters that they are made for",
        ) from error
