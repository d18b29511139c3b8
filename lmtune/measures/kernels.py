"""The measuring kernels: ranks of judged documents by counting, measures from those, topics and cells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.compiled import compiled
from lmtune.measures.kinds import AP, BPREF, DCG, EXPONENTIAL_DCG, PRECISION, RECALL, RECIPROCAL_RANK, SUCCESS
from lmtune.models import bm25_kernels
from lmtune.models.kernels import Documents, rank_topic


class Targets(NamedTuple):
    """What to compute, and what it takes of each topic's judgements.

    Attributes
    ----------
    kind, cutoff, rel : numpy.ndarray of int64, shape (measures,)
        What `lmtune.measures.kinds` calls each, the rank down to which documents count, and the smallest gain
        that is relevant.
    relevant, nonrelevant : numpy.ndarray of int64, shape (topics, measures)
        trec_eval's R and N.
    ideal : numpy.ndarray of float64, shape (topics, measures)
        The DCG of the best ranking.
    depth : int
        Run depth.
    """

    kind: NDArray[np.int64]
    cutoff: NDArray[np.int64]
    rel: NDArray[np.int64]
    relevant: NDArray[np.int64]
    nonrelevant: NDArray[np.int64]
    ideal: NDArray[np.float64]
    depth: int

    def of(self, topics: NDArray[np.int64] | slice) -> Targets:
        """Return what is said of some of the topics."""
        return self._replace(
            relevant=self.relevant[topics], nonrelevant=self.nonrelevant[topics], ideal=self.ideal[topics]
        )


class Judged(NamedTuple):
    """The judged candidates of some topics.

    Attributes
    ----------
    docs : numpy.ndarray of int64, shape (topics,)
        How many candidates each topic has.
    bounds : numpy.ndarray of int64, shape (topics, 2)
        Where each topic's judged ones begin and end in the other columns.
    position : numpy.ndarray of int64
        Their places among the topic's candidates, ascending.
    gain : numpy.ndarray of int32
        Their gains.
    """

    docs: NDArray[np.int64]
    bounds: NDArray[np.int64]
    position: NDArray[np.int64]
    gain: NDArray[np.int32]

    @classmethod
    def at(cls, places: NDArray[np.int64], docs: NDArray[np.int64], gain: NDArray[np.int32]) -> Judged:
        """Take the judged from their places among all candidates, topic i's from docs[i, 0] to docs[i, 1]."""
        bounds = np.searchsorted(places, docs)
        topic = np.repeat(docs[:, 0], bounds[:, 1] - bounds[:, 0])
        return cls(docs[:, 1] - docs[:, 0], bounds, places - topic, gain[places])

    def of(self, topics: NDArray[np.int64] | slice) -> Judged:
        """Return some of the topics; the columns are shared."""
        return self._replace(docs=self.docs[topics], bounds=self.bounds[topics])


@compiled()
def measure_scores(
    scores: NDArray[np.float64], judged: Judged, targets: Targets, first: int, out: NDArray[np.float64]
) -> None:
    """Fill out[i, s, m] for topic ``first + i``, setting s and measure m.

    ``scores`` holds topic by topic and, within a topic, setting by setting, a score of each of its
    candidates, which stand in tie order.
    """
    settings = out.shape[1]
    filled = 0
    for i in range(out.shape[0]):
        docs = judged.docs[first + i]
        own = scores[filled : filled + docs * settings].reshape(settings, docs)
        filled += docs * settings
        held = slice(judged.bounds[first + i, 0], judged.bounds[first + i, 1])
        measure_topic(own, judged.position[held], judged.gain[held], targets, first + i, out[i])


@compiled()
def measure_topic(
    scores: NDArray[np.float64],
    position: NDArray[np.int64],
    gain: NDArray[np.int32],
    targets: Targets,
    topic: int,
    out: NDArray[np.float64],
) -> None:
    """Fill out[s, m] for one topic, whose judged candidates stand at ``position`` with gains ``gain``.

    A document's rank is the number of documents that score higher, plus those of equal score
    that stand before it.
    """
    least, wants_bpref = targets.rel[0], False
    for m in range(targets.rel.size):
        least = min(least, targets.rel[m])
        wants_bpref = wants_bpref or targets.kind[m] == BPREF
    is_relevant = gain >= least
    positions, others = position[is_relevant], position[~is_relevant]
    if positions.size == 0:
        out[:] = 0.0
        return
    others_before = np.searchsorted(others, positions)
    other_score = np.empty(others.size)
    gain_of = gain[is_relevant].astype(np.int64)
    ranks = np.empty(positions.size, np.int64)
    gains = np.empty(positions.size, np.int64)
    places = np.empty(positions.size, np.int64)
    others_above = np.zeros(positions.size, np.int64)
    # Fields of tuples are dear in loops: each look counts references.
    kind, cutoff, rel, depth = targets.kind, targets.cutoff, targets.rel, targets.depth
    relevant, nonrelevant = targets.relevant[topic], targets.nonrelevant[topic]
    ideal = targets.ideal[topic]
    for s in range(scores.shape[0]):
        score = scores[s]
        retrieved = 0
        for j in range(positions.size):
            rank = count_above(score, positions[j], score[positions[j]])
            if rank < depth:
                # Sorted as they come: of a few relevant ones, that takes far less than the counting.
                k = retrieved
                while k > 0 and ranks[k - 1] > rank:
                    ranks[k], places[k] = ranks[k - 1], places[k - 1]
                    k -= 1
                ranks[k], places[k] = rank, j
                retrieved += 1
        for k in range(retrieved):
            gains[k] = gain_of[places[k]]
        if wants_bpref:
            for j in range(others.size):
                other_score[j] = score[np.uint64(others[j])]
            for k in range(retrieved):
                j = places[k]
                others_above[k] = count_above(other_score, others_before[j], score[positions[j]])
        for m in range(kind.size):
            out[s, m] = _value(
                kind[m],
                cutoff[m],
                rel[m],
                relevant[m],
                nonrelevant[m],
                ideal[m],
                ranks[:retrieved],
                gains,
                others_above,
            )


@compiled()
def count_above(score: NDArray[np.float64], position: int, threshold: float) -> np.int64:
    """Count the documents ranked above one that scores ``threshold`` and stands at ``position``.

    Positions are the tie order: an equal score earlier in the array ranks above. The document may
    be in the array itself: it does not count.
    """
    above = np.int64(0)
    head = score[:position]
    for i in range(head.size):
        above += np.int64(head[i] >= threshold)
    tail = score[position:]
    for i in range(tail.size):
        above += np.int64(tail[i] > threshold)
    return above


@compiled()
def _value(
    kind: int,
    cutoff: int,
    rel: int,
    relevant: int,
    nonrelevant: int,
    ideal: float,
    ranks: NDArray[np.int64],
    gains: NDArray[np.int64],
    others_above: NDArray[np.int64],
) -> float:
    """Return one measure of a run whose relevant documents are given, the best ranked first."""
    if relevant == 0:
        return 0.0
    total = 0.0
    found = 0
    passed = 0
    bound = min(relevant, nonrelevant)
    for j in range(ranks.size):
        if ranks[j] >= cutoff:
            break
        if gains[j] < rel:
            passed += 1
            continue
        found += 1
        if kind == AP:
            total += found / (ranks[j] + 1)
        elif kind == BPREF:
            above = passed + others_above[j]
            total += 1.0 - min(above, relevant) / bound if above > 0 else 1.0
        elif kind == DCG:
            total += gains[j] / np.log2(ranks[j] + 2.0)
        elif kind == EXPONENTIAL_DCG:
            total += (2.0 ** gains[j] - 1.0) / np.log2(ranks[j] + 2.0)
        elif kind == RECIPROCAL_RANK:
            return float(1.0 / (ranks[j] + 1))
        elif kind == SUCCESS:
            return 1.0
    if kind == PRECISION:
        return found / cutoff
    if kind == RECALL:
        return found / relevant
    return float(total / (ideal if kind in (DCG, EXPONENTIAL_DCG) else relevant))


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
