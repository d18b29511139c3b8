"""How much better than the best known any weights could be: branch and bound over the simplex."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from lmtune.arrays import Booleans, Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.fusion.kernels import Levels, bound_topic, weighted_sums
from lmtune.fusion.runs import pruned_for
from lmtune.fusion.search import EQUAL, Line, TopicLine
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.kinds import Code
from lmtune.measures.measure import Measure
from lmtune.models.parameter import Setting, as_settings
from lmtune.progress import Count, no_count
from lmtune.threads import map_range

_BATCH = 32

BOXES = 10_000
"""How many boxes of weights are bounded at most where nothing else is asked for."""

MOST_RUNS = 12
"""Whose simplex has 4095 faces."""


class Certificate(NamedTuple):
    """What no weights exceed.

    Attributes
    ----------
    bound : float
        No weights from 0 on have a higher mean, in exact arithmetic.
    value : float
        The best mean known.
    weights : dict of str to float
        With these.
    boxes : int
        Boxes of weights, which are simplices, bounded.
    """

    bound: float
    value: float
    weights: dict[str, float]
    boxes: int


class _Part(NamedTuple):
    """The inside of a simplex of weights, vertices as rows; topics' bounds, and which are settled."""

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
    progress: Count = no_count,
) -> Certificate:
    """Bound a measure's mean over all weights from 0 on.

    The insides of the simplex and of all its faces are halved at their longest edges, those of the
    highest bound first; each part's centre is measured, so that better weights are found on the way.
    Where the best is a single point at which several pairs tie, the gap does not close.

    Parameters
    ----------
    pool : CandidatePool
        Of runs.
    measure : Measure
        AP, nDCG, P@k, RR, R@k, Bpref or Success@k.
    known : mapping of str to float
        Good weights.
    topics : sequence of str, optional
        All by default.
    tolerance : float
        Stop when the bound is at most this above the best mean known.
    boxes : int
        Stop when about so many are bounded; the bound holds all the same, and is the same everywhere.
    depth : int
        Run depth.
    progress : callable, optional
        Called with how many boxes are bounded, and how many may be.
    """
    runs = len(pool.formula.parameters)
    if runs > MOST_RUNS:
        raise InputError("too many runs for a proof", value=runs, accepted=f"up to {MOST_RUNS}")
    pool, depth = pruned_for(pool, measure, depth)
    places = pool.positions(topics)
    line = Line(pool, measure, places, depth)
    levels = [_levels(part) for part in line.parts]

    def means(weights: Doubles) -> Doubles:
        values = measure_settings(pool, weights, [measure], topics=places, depth=depth)
        found: Doubles = values[:, :, 0].mean(axis=0)
        return found

    best = as_settings(pool.formula.parameters, known)[0]
    [value] = means(best[None])
    new, heap = _faces(runs, len(line.parts)), list[tuple[float, int, _Part]]()
    closed, parts = 0.0, 0
    while True:
        new = map_range(partial(_bounded, new, line, levels), len(new))
        centres = np.array([part.vertices.mean(axis=0) for part in new])
        measured = means(centres)
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
        if not heap or -heap[0][0] <= value + tolerance or parts >= boxes:
            break
        taken = [heapq.heappop(heap)[2] for _ in range(min(_BATCH, len(heap)))]
        new = [half for part in taken for half in _split(part)]
    bound = max(closed, -heap[0][0] if heap else 0.0, float(value))
    names = [parameter.name for parameter in pool.formula.parameters]
    return Certificate(bound, float(value), dict(zip(names, best.tolist(), strict=True)), parts)


def _faces(runs: int, topics: int) -> list[_Part]:
    """Return the simplex of all weights and its faces, nothing known of them yet."""
    faces = (list(face) for size in range(runs) for face in itertools.combinations(range(runs), size + 1))
    return [_Part(np.eye(runs)[face], np.full(topics, np.inf), np.zeros(topics, np.bool_)) for face in faces]


def _bounded(parts: Sequence[_Part], line: Line, levels: Sequence[Levels], place: int) -> _Part:
    """Return a part with bounds of the topics that were not settled before."""
    part = parts[place]
    bounds, settled = part.bounds.copy(), part.settled.copy()
    for t in np.flatnonzero(~settled).tolist():
        topic = line.parts[t]
        scores = np.empty((len(part.vertices), topic.tf.shape[1]))
        weighted_sums(part.vertices * topic.units, topic.tf, scores)
        bound, undecided = bound_topic(scores, levels[t], topic.goal)
        bounds[t], settled[t] = min(bounds[t], bound), undecided == 0
    return part._replace(bounds=bounds, settled=settled)


def _split(part: _Part) -> list[_Part]:
    """Split the inside of a simplex at the middle of its longest edge: two insides, and that of the cut.

    Midpoints of midpoints are exact.
    """
    pairs = itertools.combinations(range(len(part.vertices)), 2)
    one, other = max(
        pairs, key=lambda ij: float(np.abs(part.vertices[ij[0]] - part.vertices[ij[1]]).sum()), default=(0, 0)
    )
    middle = 0.5 * (part.vertices[one] + part.vertices[other])
    found = []
    for end in (one, other):
        vertices = part.vertices.copy()
        vertices[end] = middle
        found.append(part._replace(vertices=vertices))
    return [*found, part._replace(vertices=np.delete(found[0].vertices, other, axis=0))]


def _levels(part: TopicLine) -> Levels:
    """Order a topic's documents by what they are worth to a measure."""
    place, gain, kind = part.standing.place, part.standing.gain, part.goal.kind
    position = np.flatnonzero(place >= 0)
    if kind != Code.DCG:
        judged = part.standing.counts & (kind == Code.BPREF)
        return Levels(np.where(place >= 0, 2, judged.astype(np.int64)), position, np.empty(0))
    worth = np.unique(np.append(gain, 0.0))
    level = np.zeros(place.size, np.int64)
    level[position] = np.searchsorted(worth, gain)
    return Levels(level, position, np.diff(worth, prepend=0.0))
