"""Kernels that compute measures from scores, by counting the documents above each judged one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Doubles, Integers, Integers32
from lmtune.compiled import compiled
from lmtune.measures.kinds import Code
from lmtune.measures.value_kernels import MeasureScale, value_of_ranks
from lmtune.models.bm25_kernels import rank_bm25_topic
from lmtune.models.kernels import Documents, rank_two_stage_topic, topic_of


class Targets(NamedTuple):
    """The measures to compute, and each topic's constants.

    Attributes
    ----------
    kind, cutoff, rel : numpy.ndarray of int64, shape (measures,)
        The measures' `lmtune.measures.kinds.Code`, last ranks that count, and smallest relevant gains.
    relevant, nonrelevant : numpy.ndarray of int64, shape (topics, measures)
        R and N of trec_eval: the numbers of judged relevant and judged non-relevant documents.
    divisor : numpy.ndarray of float64, shape (topics, measures)
        The divisor of each sum, see `lmtune.measures.evaluate.divisors`.
    depth : int
        Run depth.
    """

    kind: Integers
    cutoff: Integers
    rel: Integers
    relevant: Integers
    nonrelevant: Integers
    divisor: Doubles
    depth: int

    def of(self, topics: Integers | slice) -> Targets:
        """Return the targets of some topics."""
        return self._replace(
            relevant=self.relevant[topics], nonrelevant=self.nonrelevant[topics], divisor=self.divisor[topics]
        )


class Judged(NamedTuple):
    """The judged candidates of some topics.

    Attributes
    ----------
    docs : numpy.ndarray of int64, shape (topics,)
        The number of candidates of each topic, judged or not.
    bounds : numpy.ndarray of int64, shape (topics, 2)
        The range of each topic's judged candidates in `position` and `gain`.
    position : numpy.ndarray of int64
        Positions of judged candidates among the topic's candidates, ascending.
    gain : numpy.ndarray of int32
        Gains of judged candidates.
    """

    docs: Integers
    bounds: Integers
    position: Integers
    gain: Integers32

    @classmethod
    def at(cls, rows: Integers, docs: Integers, gain: Integers32) -> Judged:
        """Select the judged `rows` of all candidates; topic i has the rows from docs[i, 0] to docs[i, 1]."""
        bounds = np.searchsorted(rows, docs)
        topic = np.repeat(docs[:, 0], bounds[:, 1] - bounds[:, 0])
        return cls(docs[:, 1] - docs[:, 0], bounds, rows - topic, gain[rows])

    def of(self, topics: Integers | slice) -> Judged:
        """Return some of the topics, sharing `position` and `gain`."""
        return self._replace(docs=self.docs[topics], bounds=self.bounds[topics])


@compiled()
def measure_scores(scores: Doubles, judged: Judged, targets: Targets, first: int, out: Doubles) -> None:
    """Compute out[i, s, m] for topic ``first + i``, setting s and measure m.

    ``scores`` are ordered by topic, then by setting, then by candidate, with candidates in tie order.
    """
    settings = out.shape[1]
    filled = 0
    for i in range(out.shape[0]):
        docs = judged.docs[first + i]
        topic_scores = scores[filled : filled + docs * settings].reshape(settings, docs)
        filled += docs * settings
        rows = slice(judged.bounds[first + i, 0], judged.bounds[first + i, 1])
        measure_topic(topic_scores, judged.position[rows], judged.gain[rows], targets, first + i, out[i])


@compiled()
def measure_topic(
    scores: Doubles, position: Integers, gain: Integers32, targets: Targets, topic: int, out: Doubles
) -> None:
    """Compute out[s, m] for one topic; its judged candidates have positions ``position`` and gains ``gain``.

    A document's rank (from 0) is the number of documents with a higher score, plus those with an equal score
    and a smaller position.
    """
    least, wants_bpref = targets.rel[0], False
    for m in range(targets.rel.size):
        least = min(least, targets.rel[m])
        wants_bpref = wants_bpref or targets.kind[m] == Code.BPREF
    is_relevant = gain >= least
    positions = position[is_relevant]
    others = position[~is_relevant] if wants_bpref else position[:0]
    if positions.size == 0:
        out[:] = 0.0
        return
    buckets = allocate_buckets(scores.shape[1], positions.size)
    order = buckets.order
    gain_of = gain[is_relevant].astype(np.int64)
    above, others_over = np.empty(positions.size, np.int64), np.empty(positions.size, np.int64)
    ranks = np.empty(positions.size, np.int64)
    gains = np.empty(positions.size, np.int64)
    others_above = np.zeros(positions.size, np.int64)
    # Local variables, because each access to a tuple's field in a loop counts references.
    kind, cutoff, rel, depth = targets.kind, targets.cutoff, targets.rel, targets.depth
    relevant, nonrelevant = targets.relevant[topic], targets.nonrelevant[topic]
    divisor = targets.divisor[topic]
    for s in range(scores.shape[0]):
        count_all_above(scores[s], positions, others, buckets, above, others_over)
        retrieved = 0
        for n in range(order.size):
            j = order[n]
            if above[j] < depth:
                # Insertion sort: there are few documents, or they are almost sorted.
                k = retrieved
                while k > 0 and ranks[k - 1] > above[j]:
                    ranks[k], gains[k], others_above[k] = ranks[k - 1], gains[k - 1], others_above[k - 1]
                    k -= 1
                ranks[k], gains[k], others_above[k] = above[j], gain_of[j], others_over[j]
                retrieved += 1
        for m in range(kind.size):
            scale = MeasureScale(kind[m], cutoff[m], relevant[m], nonrelevant[m], divisor[m])
            out[s, m] = value_of_ranks(scale, rel[m], ranks[:retrieved], gains, others_above)


# Maximum number of buckets between the lowest and the highest score of relevant documents, without the bucket
# below and the one above.
_MOST_BUCKETS = 1 << 11
# Up to this number of relevant documents, comparing each with all documents is faster than buckets.
_FEW = 24


class Buckets(NamedTuple):
    """Buffers for a partial sort of one topic's documents by score.

    Attributes
    ----------
    of : numpy.ndarray of int16, shape (documents,)
        The bucket of each document; empty if there are too few relevant documents for buckets.
    after : numpy.ndarray of int64, shape (relevant documents,)
        The next relevant document in the same bucket, negative after the last one.
    first : numpy.ndarray of int64, shape (buckets,)
        The first relevant document in each bucket, negative if there is none.
    sizes : numpy.ndarray of int64, shape (2, buckets)
        The number of documents in each bucket: of all documents, and of `others`.
    order : numpy.ndarray of int64, shape (relevant documents,)
        The relevant documents, almost in ranked order.
    """

    of: NDArray[np.int16]
    after: Integers
    first: Integers
    sizes: Integers
    order: Integers


@compiled()
def allocate_buckets(documents: int, relevant: int) -> Buckets:
    """Allocate the buffers of `count_all_above`."""
    size = min(documents // 2, _MOST_BUCKETS) + 2
    if relevant <= _FEW:
        documents = size = 0
    return Buckets(
        np.empty(documents, np.int16),
        np.empty(relevant, np.int64),
        np.empty(size, np.int64),
        np.empty((2, size), np.int64),
        np.arange(relevant),
    )


@compiled()
def count_all_above(
    score: Doubles,
    positions: Integers,
    others: Integers,
    buckets: Buckets,
    above: Integers,
    others_above: Integers,
) -> None:
    """Count all documents, and those in `others`, that are ranked above each document in `positions`.

    `positions` and `others` ascend. If there are many positions, documents are sorted into buckets by score;
    then only documents of the same bucket are compared.
    """
    if buckets.of.size == 0:
        other_score = np.empty(others.size)
        for j in range(others.size):
            other_score[j] = score[np.uint64(others[j])]
        before = np.searchsorted(others, positions)
        for j in range(positions.size):
            threshold = score[positions[j]]
            above[j] = count_above(score, positions[j], threshold)
            others_above[j] = count_above(other_score, before[j], threshold)
        return
    of, after, first, order = buckets.of, buckets.after, buckets.first, buckets.order
    all_sizes, other_sizes, last = buckets.sizes[0], buckets.sizes[1], first.size - 2
    least, most = _key(score[positions[0]]), _key(score[positions[0]])
    for j in range(positions.size):
        key = _key(score[positions[j]])
        least, most = min(least, key), max(most, key)
    shift = np.int64(0)
    while (most - least) >> shift >= last:
        shift += 1
    for b in range(first.size):
        first[b] = -1
        all_sizes[b] = 0
        other_sizes[b] = 0
    for i in range(score.size):
        of[i] = np.int16(min(max((_key(score[i]) - least) >> shift, -1), last) + 1)
    for i in range(score.size):
        all_sizes[np.uint64(of[i])] += 1
    for j in range(others.size):
        other_sizes[np.uint64(of[np.uint64(others[j])])] += 1
    for j in range(positions.size):
        bucket = of[positions[j]]
        after[j], first[bucket] = first[bucket], j
    higher = others_higher = np.int64(0)
    ordered, following = 0, np.int64(0)
    for b in range(first.size - 1, -1, -1):
        following = first[b]
        while following >= 0:
            above[following], others_above[following], order[ordered] = higher, others_higher, following
            following, ordered = after[following], ordered + 1
        higher += all_sizes[b]
        others_higher += other_sizes[b]
    for i in range(score.size):
        if first[np.uint64(of[i])] >= 0:
            _count_in_bucket(score, i, positions, first[of[i]], after, above)
    for j in range(others.size):
        if first[of[others[j]]] >= 0:
            _count_in_bucket(score, others[j], positions, first[of[others[j]]], after, others_above)


@compiled(inline=True)
def _key(score: float) -> np.int64:
    """Return an integer that is monotone in the score, from the bits of the float.

    The last bit is dropped, so that the difference of two keys does not overflow.
    """
    bits = np.float64(score + 0.0).view(np.int64)  # no -0
    return (bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))) >> np.int64(1)


@compiled()
def _count_in_bucket(
    score: Doubles, i: int, positions: Integers, j: int, after: Integers, above: Integers
) -> None:
    """Count document i for the relevant documents of a bucket, from j on, that are ranked below it."""
    while j >= 0:
        threshold = score[positions[j]]
        above[j] += score[i] > threshold or (score[i] == threshold and i < positions[j])
        j = after[j]


@compiled()
def count_above(score: Doubles, position: int, threshold: float) -> np.int64:
    """Count the documents ranked above a document with score ``threshold`` at ``position``.

    Among equal scores, the smaller position ranks above. The document itself is not counted.
    """
    above = np.int64(0)
    head = score[:position]
    for i in range(head.size):
        above += np.int64(head[i] >= threshold)
    tail = score[position:]
    for i in range(tail.size):
        above += np.int64(tail[i] > threshold)
    return above


# Number of scores per batch, which fit in a core's cache.
SCORES = 1 << 16


class Cells(NamedTuple):
    """The candidates for each group of settings: those of a cell of `lmtune.candidates.regions`, or all.

    Attributes
    ----------
    cell : numpy.ndarray of int64, shape (groups,)
        The cell of each group of settings, negative for all candidates.
    begin : numpy.ndarray of int64, shape (groups + 1,)
        Group g has the settings from begin[g] to begin[g + 1].
    start : numpy.ndarray of int64, shape (topics, cells + 1)
        Cell c of topic t has the candidates position[start[t, c]:start[t, c + 1]].
    position : numpy.ndarray of int32
        Positions among the topic's candidates, ascending within a cell.
    """

    cell: Integers
    begin: Integers
    start: Integers
    position: Integers32

    def of(self, topics: Integers) -> Cells:
        """Return the cells of some topics."""
        return self._replace(start=self.start[topics])


@compiled()
def measure_cells(
    floored: bool | None,
    mean_length: float | None,
    documents: Documents,
    judged: Judged,
    targets: Targets,
    cells: Cells,
    settings: Doubles,
    scores: Doubles,
    out: Doubles,
) -> None:
    """Compute out[i, s, m] for topic i, setting s and measure m; ``scores`` is a buffer.

    The model is two-stage smoothing if ``floored`` is a boolean (see `lmtune.models.kernels.rank_two_stage`),
    and BM25 if ``mean_length`` is a number. The other one is None, and numba does not compile its branches.
    """
    longest = documents.longest
    for i in range(out.shape[0]):
        topic = topic_of(documents, i)
        tf, length, value, count = topic.tf, topic.length, topic.value, topic.counts
        position = judged.position[judged.bounds[i, 0] : judged.bounds[i, 1]]
        gain = judged.gain[judged.bounds[i, 0] : judged.bounds[i, 1]]
        for g in range(cells.cell.size):
            cell, end = cells.cell[g], cells.begin[g + 1]
            cell_tf, cell_length, places, gains = tf, length, position, gain
            if cell >= 0:
                chosen = cells.position[cells.start[i, cell] : cells.start[i, cell + 1]]
                cell_tf, cell_length, places, gains = take_documents(chosen, tf, length, position, gain)
            docs = cell_length.size
            step = max(1, SCORES // max(docs, 1))
            for begin in range(cells.begin[g], end, step):
                part = slice(begin, min(begin + step, end))
                some, values = settings[part], out[i, part]
                score = scores[: docs * values.shape[0]].reshape(values.shape[0], docs)
                if mean_length is not None:
                    rank_bm25_topic(cell_tf, cell_length, value * count, mean_length, some, score)
                if floored is not None and docs > 0:
                    rank_two_stage_topic(cell_tf, cell_length, value, count, longest, some, floored, score)
                measure_topic(score, places, gains, targets, i, values)


@compiled()
def take_documents(
    chosen: Integers32, tf: Integers32, length: Integers32, position: Integers, gain: Integers32
) -> tuple[Integers32, Integers32, Integers, Integers32]:
    """Return tf and length of the chosen documents, and new positions and gains of the judged ones."""
    chosen_tf, chosen_length = np.empty((tf.shape[0], chosen.size), np.int32), np.empty(chosen.size, np.int32)
    for w in range(tf.shape[0]):
        row, chosen_row = tf[w], chosen_tf[w]
        for k in range(chosen.size):
            chosen_row[k] = row[np.uint64(chosen[k])]
    for k in range(chosen.size):
        chosen_length[k] = length[np.uint64(chosen[k])]
    places, gains = np.empty(position.size, np.int64), np.empty(position.size, np.int32)
    k = judged = 0
    for j in range(position.size):
        while k < chosen.size and chosen[k] < position[j]:
            k += 1
        if k < chosen.size and chosen[k] == position[j]:
            places[judged], gains[judged] = k, gain[j]
            judged += 1
    return chosen_tf, chosen_length, places[:judged], gains[:judged]
