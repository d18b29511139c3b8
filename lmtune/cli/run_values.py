"""Per-topic values of a run file, from ir_measures."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def topic_values(
    qrels: str | os.PathLike[str],
    run: str | os.PathLike[str],
    measures: Iterable[str],
    *,
    complete: bool = True,
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Measure a run topic by topic.

    Parameters
    ----------
    qrels, run : path-like
        Judgements and a run.
    measures : iterable of str
        What to compute, as ir_measures spells it.
    complete : bool
        Whether to give every judged topic, 0 where the run misses it; otherwise only the judged
        topics that the run has.

    Returns
    -------
    tuple of str
        Topics, in the judgements' order.
    numpy.ndarray of float64, shape (topics, measures)
        Their values.

    Raises
    ------
    InputError
        For bad files; see `read_qrels` and `read_run`.
    """
    import ir_measures
    import numpy as np

    from lmtune.formats.qrels import read_qrels
    from lmtune.formats.runs import read_run

    judged, ranked = read_qrels(qrels), read_run(run)
    topics = tuple(topic for topic in judged if complete or topic in ranked)
    places = {topic: place for place, topic in enumerate(topics)}
    columns = {ir_measures.parse_measure(name): place for place, name in enumerate(measures)}
    values = np.zeros((len(topics), len(columns)))
    for found in ir_measures.iter_calc(list(columns), judged, ranked):
        if found.query_id in places:
            values[places[found.query_id], columns[found.measure]] = found.value
    return topics, values
