"""The measuring kernels: ranks of judged documents by counting, measures from those, topics and cells."""

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
    """What to compute, and what it takes of each topic's judgments.

    Attributes
    ----------
    kind, cutoff, rel : numpy.ndarray of int64, shape (measures,)
        What `lmtune.measures.kinds` calls each, the rank down to which documents count, and the smallest gain
        that is relevant.
    relevant, nonrelevant : numpy.ndarray of int64, shape (topics, measures)
        trec_eval's R and N.
    divisor : numpy.ndarray of float64, shape (topics, measures)
        What divides each sum, as `lmtune.measures.evaluate.divisors` has it.
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
        """Return what is said of some of the topics."""
        return self._replace(
            relevant=self.relevant[topics], nonrelevant=self.nonrelevant[topics], divisor=self.divisor[topics]
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

    docs: Integers
    bounds: Integers
    position: Integers
    gain: Integers32

    @classmethod
    def at(cls, places: Integers, docs: Integers, gain: Integers32) -> Judged:
        """Take the judged from their places among all candidates, topic i's from docs[i, 0] to docs[i, 1]."""
        bounds = np.searchsorted(places, docs)
        topic = np.repeat(docs[:, 0], bounds[:, 1] - bounds[:, 0])
        return cls(docs[:, 1] - docs[:, 0], bounds, places - topic, gain[places])

    def of(self, topics: Integers | slice) -> Judged:
        """Return some of the topics; the columns are shared."""
        return self._replace(docs=self.docs[topics], bounds=self.bounds[topics])


@compiled()
def measure_scores(scores: Doubles, judged: Judged, targets: Targets, first: int, out: Doubles) -> None:
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
    scores: Doubles, position: Integers, gain: Integers32, targets: Targets, topic: int, out: Doubles
) -> None:
    """Fill out[s, m] for one topic, whose judged candidates stand at ``position`` with gains ``gain``.

    A document's rank is the number of documents that score higher, plus those of equal score
    that stand before it.
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
    buckets = room_for_buckets(scores.shape[1], positions.size)
    order = buckets.order
    gain_of = gain[is_relevant].astype(np.int64)
    above, others_over = np.empty(positions.size, np.int64), np.empty(positions.size, np.int64)
    ranks = np.empty(positions.size, np.int64)
    gains = np.empty(positions.size, np.int64)
    others_above = np.zeros(positions.size, np.int64)
    # Fields of tuples are dear in loops: each look counts references.
    kind, cutoff, rel, depth = targets.kind, targets.cutoff, targets.rel, targets.depth
    relevant, nonrelevant = targets.relevant[topic], targets.nonrelevant[topic]
    divisor = targets.divisor[topic]
    for s in range(scores.shape[0]):
        count_all_above(scores[s], positions, others, buckets, above, others_over)
        retrieved = 0
        for n in range(order.size):
            j = order[n]
            if above[j] < depth:
                # Sorted as they come: few, or in order but for a few.
                k = retrieved
                while k > 0 and ranks[k - 1] > above[j]:
                    ranks[k], gains[k], others_above[k] = ranks[k - 1], gains[k - 1], others_above[k - 1]
                    k -= 1
                ranks[k], gains[k], others_above[k] = above[j], gain_of[j], others_over[j]
                retrieved += 1
        for m in range(kind.size):
            scale = MeasureScale(kind[m], cutoff[m], relevant[m], nonrelevant[m], divisor[m])
            out[s, m] = value_of_ranks(scale, rel[m], ranks[:retrieved], gains, others_above)


# Buckets of scores at most, from the least relevant document's to the best one's, one below and one above.
_MOST_BUCKETS = 1 << 11
# Relevant documents of which each is compared with all others sooner than all are sorted into buckets.
_FEW = 24


class Buckets(NamedTuple):
    """Room for sorting one topic's documents by score, roughly.

    Attributes
    ----------
    of : numpy.ndarray of int16, shape (documents,)
        The bucket of each document; without documents where there are too few relevant ones.
    after : numpy.ndarray of int64, shape (relevant documents,)
        The next relevant document in a bucket, negative behind the last one.
    first : numpy.ndarray of int64, shape (buckets,)
        The first relevant document in each bucket.
    sizes : numpy.ndarray of int64, shape (2, buckets)
        Documents in each bucket: all, and the others of which relevant ones are asked.
    order : numpy.ndarray of int64, shape (relevant documents,)
        The relevant documents, nearly as they are ranked.
    """

    of: NDArray[np.int16]
    after: Integers
    first: Integers
    sizes: Integers
    order: Integers


@compiled()
def room_for_buckets(documents: int, relevant: int) -> Buckets:
    """Return the room that `count_all_above` needs."""
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
    """Count the documents ranked above each of some relevant ones, and those of some others; places ascend.

    Many relevant documents are counted for at once: documents are sorted into buckets by their scores, and
    compared with the relevant ones of their own bucket alone.
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
    everything, asked, last = buckets.sizes[0], buckets.sizes[1], first.size - 2
    least, most = _key(score[positions[0]]), _key(score[positions[0]])
    for j in range(positions.size):
        key = _key(score[positions[j]])
        least, most = min(least, key), max(most, key)
    shift = np.int64(0)
    while (most - least) >> shift >= last:
        shift += 1
    for b in range(first.size):
        first[b] = -1
        everything[b] = 0
        asked[b] = 0
    for i in range(score.size):
        of[i] = np.int16(min(max((_key(score[i]) - least) >> shift, -1), last) + 1)
    for i in range(score.size):
        everything[np.uint64(of[i])] += 1
    for j in range(others.size):
        asked[np.uint64(of[np.uint64(others[j])])] += 1
    for j in range(positions.size):
        own = of[positions[j]]
        after[j], first[own] = first[own], j
    better = better_asked = np.int64(0)
    ordered, following = 0, np.int64(0)
    for b in range(first.size - 1, -1, -1):
        following = first[b]
        while following >= 0:
            above[following], others_above[following], order[ordered] = better, better_asked, following
            following, ordered = after[following], ordered + 1
        better += everything[b]
        better_asked += asked[b]
    for i in range(score.size):
        if first[np.uint64(of[i])] >= 0:
            _count_in_bucket(score, i, positions, first[of[i]], after, above)
    for j in range(others.size):
        if first[of[others[j]]] >= 0:
            _count_in_bucket(score, others[j], positions, first[of[others[j]]], after, others_above)


@compiled(inline=True)
def _key(score: float) -> np.int64:
    """Return a whole number that never falls as a score rises: its bits, which do so for scores above 0.

    All but the last, so that no difference of two is too large.
    """
    bits = np.float64(score + 0.0).view(np.int64)  # no -0
    return (bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))) >> np.int64(1)


@compiled()
def _count_in_bucket(
    score: Doubles, i: int, positions: Integers, j: int, after: Integers, above: Integers
) -> None:
    """Count document i for those relevant ones from j on that it is ranked above."""
    while j >= 0:
        threshold = score[positions[j]]
        above[j] += score[i] > threshold or (score[i] == threshold and i < positions[j])
        j = after[j]


@compiled()
def count_above(score: Doubles, position: int, threshold: float) -> np.int64:
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

    cell: Integers
    begin: Integers
    start: Integers
    position: Integers32

    def of(self, topics: Integers) -> Cells:
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
    settings: Doubles,
    scores: Doubles,
    out: Doubles,
) -> None:
    """Fill out[i, s, m] for topic i, setting s and measure m; ``scores`` has room for the longest topic's.

    Scores are query likelihoods, ``floored`` or not as `lmtune.models.kernels.rank_two_stage` says, or
    those of BM25 by the ``mean_length``; the other of the two is None, by whose type numba leaves its
    branches out.
    """
    longest = documents.longest
    for i in range(out.shape[0]):
        topic = topic_of(documents, i)
        tf, length, value, count = topic.tf, topic.length, topic.value, topic.counts
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
                    rank_bm25_topic(own_tf, own_length, value * count, mean_length, some, score)
                if floored is not None and docs > 0:
                    rank_two_stage_topic(own_tf, own_length, value, count, longest, some, floored, score)
                measure_topic(score, places, gains, targets, i, found)


@compiled()
def take(
    chosen: Integers32, tf: Integers32, length: Integers32, position: Integers, gain: Integers32
) -> tuple[Integers32, Integers32, Integers, Integers32]:
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
