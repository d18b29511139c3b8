"""The compiled loop over topics and cells: candidates taken, scored and measured while a cache has them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled
from lmtune.measures.kernels import Judged, Targets, measure_topic
from lmtune.models import bm25_kernels
from lmtune.models.kernels import Documents, rank_topic

# Scores computed at a time: they fit in a core's cache.
SCORES = 1 << 16


class Cells(NamedTuple):
    """What candidates settings are measured on: those of a cell of `lmtune.candidates.regions`, or all.

    Attributes
    ----------
    cell : numpy.ndarray of int64, shape (groups,)
        The cell of each group of settings, negative for all candidates.
    begin : numpy.ndarray of int64, shape (groups + 1,)
        Where each group's settings begin, and where the last one's end.
    start : numpy.ndarray of int64, shape (topics, cells + 1)
        Where each cell's candidates begin in `position`, and where the last one's end.
    position : numpy.ndarray of int32
        Places among the topic's candidates, ascending within a cell.
    """

    cell: NDArray[np.int64]
    begin: NDArray[np.int64]
    start: NDArray[np.int64]
    position: NDArray[np.int32]

    def of(self, topics: NDArray[np.int64]) -> Cells:
        """Return what is said of some of the topics."""
        return self._replace(start=self.start[topics])


@compiled()
def measure_cells(
    floored: bool | None,
    mean_length: float | None,
    documents: Documents,
    judged: Judged,
    targets: Targets,
    cells: Cells,
    settings: NDArray[np.float64],
    scores: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Fill out[i, s, m] for topic i, setting s and measure m; ``scores`` has room for the longest topic's.

    Scores are query likelihoods, ``floored`` or not as `lmtune.models.kernels.rank_scores` says, or those of
    BM25 by the ``mean_length``; the other of the two is None, by whose type numba leaves its branches out.
    """
    longest = documents.longest
    for i in range(out.shape[0]):
        docs = judged.docs[i]
        value = documents.value[documents.terms[i, 0] : documents.terms[i, 1]]
        count = documents.counts[documents.terms[i, 0] : documents.terms[i, 1]]
        length = documents.length[documents.docs[i, 0] : documents.docs[i, 1]]
        tf = documents.tf[documents.tfs[i, 0] : documents.tfs[i, 1]].reshape(value.size, docs)
        position = judged.position[judged.bounds[i, 0] : judged.bounds[i, 1]]
        gain = judged.gain[judged.bounds[i, 0] : judged.bounds[i, 1]]
        for g in range(cells.cell.size):
            cell, end = cells.cell[g], cells.begin[g + 1]
            own_tf, own_length, places, gains = tf, length, position, gain
            if cell >= 0:
                chosen = cells.position[cells.start[i, cell] : cells.start[i, cell + 1]]
                own_tf, own_length, places, gains = take(chosen, tf, length, position, gain)
            docs = own_length.size
            step = max(1, SCORES // max(docs, 1))
            for begin in range(cells.begin[g], end, step):
                part = slice(begin, min(begin + step, end))
                some, found = settings[part], out[i, part]
                score = scores[: docs * found.shape[0]].reshape(found.shape[0], docs)
                if mean_length is not None:
                    bm25_kernels.rank_topic(own_tf, own_length, value * count, mean_length, some, score)
                if floored is not None and docs > 0:
                    rank_topic(own_tf, own_length, value, count, longest, some, floored, score)
                measure_topic(score, places, gains, targets, i, found)


@compiled()
def take(
    chosen: NDArray[np.int32],
    tf: NDArray[np.int32],
    length: NDArray[np.int32],
    position: NDArray[np.int64],
    gain: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
    """Return these columns of some of a topic's documents, and places and gains of the judged among them."""
    own_tf, own_length = np.empty((tf.shape[0], chosen.size), np.int32), np.empty(chosen.size, np.int32)
    for w in range(tf.shape[0]):
        row, own = tf[w], own_tf[w]
        for k in range(chosen.size):
            own[k] = row[np.uint64(chosen[k])]
    for k in range(chosen.size):
        own_length[k] = length[np.uint64(chosen[k])]
    places, gains = np.empty(position.size, np.int64), np.empty(position.size, np.int32)
    k = found = 0
    for j in range(position.size):
        while k < chosen.size and chosen[k] < position[j]:
            k += 1
        if k < chosen.size and chosen[k] == position[j]:
            places[found], gains[found] = k, gain[j]
            found += 1
    return own_tf, own_length, places[:found], gains[:found]
