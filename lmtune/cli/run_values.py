"""Per-topic values of a run file, from ir_measures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lmtune.measures.measure import Measure


def topic_values(
    qrels_path: str | os.PathLike[str],
    run_path: str | os.PathLike[str],
    measures: Sequence[Measure],
    complete: bool = True,
) -> tuple[list[str], NDArray[np.float64]]:
    """Measure a run topic by topic.

    Parameters
    ----------
    qrels_path, run_path : path-like
        Judgements and a run.
    measures : sequence of Measure
        What to compute.
    complete : bool
        Whether to give every judged topic, 0 where the run misses it; otherwise only the judged
        topics that the run has.

    Returns
    -------
    list of str
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

    qrels, run = read_qrels(qrels_path), read_run(run_path)
    topics = [topic for topic in qrels if complete or topic in run]
    places = {topic: place for place, topic in enumerate(topics)}
    columns = {ir_measures.parse_measure(str(m)): place for place, m in enumerate(measures)}
    values = np.zeros((len(topics), len(measures)))
    for found in ir_measures.iter_calc(list(columns), qrels, run):
        if found.query_id in places:
            values[places[found.query_id], columns[found.measure]] = found.value
    return topics, values
