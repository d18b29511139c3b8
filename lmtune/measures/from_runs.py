"""Measures that only ir_measures has: a run at every setting, one topic after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.measures.from_ir_measures import calculated
from lmtune.progress import Count


def from_runs(
    pool: CandidatePool,
    settings: NDArray[np.float64],
    names: Sequence[str],
    topics: NDArray[np.int64],
    depth: int,
    progress: Count | None = None,
) -> NDArray[np.float64]:
    """Measure every (topic, setting) pair with ir_measures.

    Negative gains count as no judgements, as everywhere in lmtune.

    Parameters
    ----------
    pool : CandidatePool
        The collection.
    settings : numpy.ndarray of float64, shape (settings, parameters)
        Parameter settings.
    names : sequence of str
        Measures as ir_measures spells them.
    topics : numpy.ndarray of int64, shape (topics,)
        Places of topics in the pool.
    depth : int
        Run depth.
    progress : callable, optional
        Called with (topics done, topics in all).

    Returns
    -------
    numpy.ndarray of float64, shape (topics, settings, measures)
        0 where ir_measures gives no value, as for a topic without ranked documents.
    """
    import ir_measures

    measures = {ir_measures.parse_measure(name): m for m, name in enumerate(names)}
    out = np.zeros((topics.size, len(settings), len(names)))
    for i, t in enumerate(topics.tolist()):
        # A setting takes the place of a topic: one call then measures them all.
        judged = _judgements(pool, t)
        qrels = {str(s): judged for s in range(len(settings))}
        docnos = pool.index.docnos(pool.candidates.doc[pool.candidates.rows(t)])
        run = {}
        for s, setting in enumerate(settings):
            top = pool.top(t, setting, depth)
            run[str(s)] = {docnos[place]: float(-rank) for rank, place in enumerate(top)}
        for value in calculated(list(measures), qrels, run):
            out[i, int(value.query_id), measures[value.measure]] = value.value
        if progress is not None:
            progress(i + 1, topics.size)
    return out


def _judgements(pool: CandidatePool, t: int) -> dict[str, int]:
    """Give back a topic's judgements, made-up docnos for documents that the index lacks."""
    rows = pool.judged.rows(t)
    gains = pool.judged.gain[rows].tolist()
    judged = dict(zip(pool.index.docnos(pool.judged.doc[rows]), gains, strict=True))
    everything = pool.judgements[pool.judgement_start[t] : pool.judgement_start[t + 1]].tolist()
    missing = (Counter(everything) - Counter(gains)).elements()
    return judged | {f"not in the index {number}": gain for number, gain in enumerate(missing)}
