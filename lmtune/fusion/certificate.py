"""Upper bound of a measure over all run weights, by branch and bound over the simplex."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from lmtune.arrays import Booleans, Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.fusion.kernels import Levels, bound_topic, weighted_sums
from lmtune.fusion.runs import prune_for_measure
from lmtune.fusion.search import EQUAL, Line, TopicLine
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.kinds import Code
from lmtune.measures.measure import Measure
from lmtune.models.parameter import Setting, as_settings
from lmtune.progress import Count, no_count
from lmtune.threads import map_range

_BATCH = 32
_LOWEST = 1e30  # below all scores

BOXES = 10_000
"""Default limit on the number of boxes of weights that are bounded."""

MOST_RUNS = 12
"""Limit on the number of runs; the simplex of 12 runs has 4095 faces."""


class Certificate(NamedTuple):
    """An upper bound of a measure's mean over all weights.

    Attributes
    ----------
    bound : float
        No weights >= 0 have a higher mean, in exact arithmetic.
    value : float
        The best mean found.
    weights : dict of str to float
        The weights with this mean.
    boxes : int
        Number of boxes of weights (simplices) that were bounded.
    """

    bound: float
    value: float
    weights: dict[str, float]
    boxes: int


class _Part(NamedTuple):
    """The inside of a simplex of weights.

    Vertices are rows. A topic is settled if all its pairs of documents are decided; its bound is then exact.
    """

    vertices: Doubles
    bounds: Doubles
    settled: Booleans


def certify(
    pool: CandidatePool,
    measure: Measure,
    known: Setting,
    *,
    topics: Sequence[str] | None = None,
    tolerance: float = 1e-3,
    boxes: int = BOXES,
    depth: int = DEPTH,
    columns: Sequence[Doubles] | None = None,
    present: Sequence[Booleans] | None = None,
    evaluate: Callable[[Doubles], Doubles] | None = None,
    at_least: float = -np.inf,
    progress: Count = no_count,
) -> Certificate:
    """Bound a measure's mean over all weights >= 0.

    The search starts from the insides of the simplex and of all its faces. It splits the parts with the
    highest bounds first, each at the middle of its longest edge. The centre of every part is evaluated, which
    may improve the best weights. The gap does not close if the optimum is a single point at which several
    pairs of documents tie.

    Parameters
    ----------
    pool : CandidatePool
        A pool of runs.
    measure : Measure
        AP, nDCG, P@k, RR, R@k, Bpref or Success@k.
    known : mapping of str to float
        Initial weights, by run.
    topics : sequence of str, optional
        All by default.
    tolerance : float
        Stop when the bound exceeds the best mean by at most this.
    boxes : int
        Stop after about this many boxes. The bound is valid even then, and the same on every machine.
    depth : int
        Run depth.
    columns : sequence of numpy.ndarray of float64, shape (runs, documents), optional
        For each topic of the pool, columns to bound in place of the pool's.
    present : sequence of numpy.ndarray of bool, shape (runs, documents), optional
        For each topic, the runs that have a document. A document's score is then the mean over these runs,
        and 0 or lower than all others if their weights are 0.
    evaluate : callable, optional
        Returns the means at weights of shape (settings, runs); by default those of the pool.
    at_least : float
        A mean that is known from elsewhere: the search also stops when the bound exceeds it by at most the
        tolerance.
    progress : callable, optional
        Called with the number of bounded boxes and their limit.

    Raises
    ------
    InputError
        For more than `MOST_RUNS` runs, or a measure without an exact line search.
    """
    runs = len(pool.formula.parameters)
    if runs > MOST_RUNS:
        raise InputError("too many runs for a certificate", value=runs, accepted=f"up to {MOST_RUNS}")
    if columns is None:
        pool, depth = prune_for_measure(pool, measure, depth)
    positions = pool.positions(topics)
    line = Line(pool, measure, positions, depth, columns and [columns[t] for t in positions])
    levels = [gain_levels(topic) for topic in line.topic_lines]
    masks = None if present is None else [present[positions[row]].astype(np.float64) for row in line.rows]

    def evaluate_means(weights: Doubles) -> Doubles:
        if evaluate is not None:
            return evaluate(weights)
        values = measure_settings(pool, weights, [measure], topics=positions, depth=depth)
        means: Doubles = values[:, :, 0].mean(axis=0)
        return means

    best = as_settings(pool.formula.parameters, known)[0]
    [value] = evaluate_means(best[None])
    new, heap = _faces(runs, len(line.topic_lines)), list[tuple[float, int, _Part]]()
    closed, parts = 0.0, 0
    while True:
        new = map_range(partial(_bound_part, new, line, levels, masks), len(new))
        centres = np.array([part.vertices.mean(axis=0) for part in new])
        measured = evaluate_means(centres)
        if measured.max() > value + EQUAL:
            best, value = centres[int(measured.argmax())], measured.max()
        for part in new:
            parts += 1
            most = float(part.bounds.sum()) / line.topics
            if part.settled.all():
                closed = max(closed, most)
            else:
                heapq.heappush(heap, (-most, parts, part))
        progress(min(parts, boxes), boxes)
        if not heap or -heap[0][0] <= max(value, at_least) + tolerance or parts >= boxes:
            break
        taken = [heapq.heappop(heap)[2] for _ in range(min(_BATCH, len(heap)))]
        new = [half for part in taken for half in _split(part)]
    bound = max(closed, -heap[0][0] if heap else 0.0, float(value))
    names = [parameter.name for parameter in pool.formula.parameters]
    return Certificate(bound, float(value), dict(zip(names, best.tolist(), strict=True)), parts)


def _faces(runs: int, topics: int) -> list[_Part]:
    """Return the simplex of all weights and its faces, with infinite bounds."""
    faces = (list(face) for size in range(runs) for face in itertools.combinations(range(runs), size + 1))
    return [_Part(np.eye(runs)[face], np.full(topics, np.inf), np.zeros(topics, np.bool_)) for face in faces]


def _bound_part(
    parts: Sequence[_Part], line: Line, levels: Sequence[Levels], masks: Sequence[Doubles] | None, index: int
) -> _Part:
    """Return the part at an index, with bounds of the topics that were not yet settled."""
    part = parts[index]
    bounds, settled = part.bounds.copy(), part.settled.copy()
    for t in np.flatnonzero(~settled).tolist():
        topic = line.topic_lines[t]
        scores = np.empty((len(part.vertices), topic.tf.shape[1]))
        weighted_sums(part.vertices * topic.units, topic.tf, scores)
        shares = np.empty((0, 0))
        if masks is not None:
            shares = part.vertices @ masks[t]
            # A document that no run with a weight has is below all others.
            is_lowest = ~shares.any(axis=0)
            shares[:, is_lowest] = 1.0
            scores[:, is_lowest] = -_LOWEST
        bound, undecided = bound_topic(scores, shares, levels[t], topic.goal)
        bounds[t], settled[t] = min(bounds[t], bound), undecided == 0
    return part._replace(bounds=bounds, settled=settled)


def _split(part: _Part) -> list[_Part]:
    """Split the inside of a simplex at the middle of its longest edge: two halves, and the inside of the cut.

    Midpoints of midpoints are exact in floating point.
    """
    pairs = itertools.combinations(range(len(part.vertices)), 2)
    one, other = max(
        pairs, key=lambda ij: float(np.abs(part.vertices[ij[0]] - part.vertices[ij[1]]).sum()), default=(0, 0)
    )
    middle = 0.5 * (part.vertices[one] + part.vertices[other])
    halves = []
    for end in (one, other):
        vertices = part.vertices.copy()
        vertices[end] = middle
        halves.append(part._replace(vertices=vertices))
    return [*halves, part._replace(vertices=np.delete(halves[0].vertices, other, axis=0))]


def gain_levels(topic: TopicLine) -> Levels:
    """Return the gain levels of a topic's documents."""
    gain, kind = topic.standing.gain, topic.goal.kind
    is_relevant = topic.standing.relevant_index >= 0
    position = np.flatnonzero(is_relevant)
    if kind != Code.DCG:
        judged = topic.standing.is_special & (kind == Code.BPREF)
        return Levels(np.where(is_relevant, 2, judged.astype(np.int64)), position, np.empty(0))
    worth = np.unique(np.append(gain, 0.0))
    level = np.zeros(is_relevant.size, np.int64)
    level[position] = np.searchsorted(worth, gain)
    return Levels(level, position, np.diff(worth, prepend=0.0))
