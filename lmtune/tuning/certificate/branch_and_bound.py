"""Best-first branch and bound over boxes of settings, in the coordinates of a formula's proof."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lmtune.arrays import Doubles
from lmtune.models.taylor_kernels import Sides
from lmtune.threads import over_slices
from lmtune.tuning.certificate.bound_kernels import State, bound_box
from lmtune.tuning.certificate.problem import Problem

# Boxes split at a time. Fixed, so that the result does not depend on the number of workers.
_BATCH = 16
# Neither side of a box is split below this: then rounding is all that is undecided.
_NARROWEST = 1e-9
# Boxes whose lists are not shorter than this share of their parent's use their parent's.
_SHARED = 0.9
_MEMORY = 1 << 30


@dataclass(frozen=True, eq=False)
class Box:
    """A box with what is known of it.

    Attributes
    ----------
    sides : tuple of float
        Low and high of s, low and high of u.
    state : State
        Its own, or its parent's, which is as valid.
    bounds : numpy.ndarray of float64, shape (problem's topics,)
        No setting of the box measures more on a topic.
    bound, centre : float
        The mean of the bounds over all topics, rounded up; about the mean at the centre.
    spread : tuple of float
        How much undecided pairs differ along s and u.
    owned : int
        Bytes of the state; half of the parent's share where it is the parent's.
    """

    sides: Sides
    state: State
    bounds: Doubles
    bound: float
    centre: float
    spread: tuple[float, float]
    owned: int

    @property
    def final(self) -> bool:
        """Whether splitting it is of no use."""
        narrow = all(high - low <= _NARROWEST for low, high in (self.sides[:2], self.sides[2:]))
        return narrow or self.state.docs.size == 0

    @property
    def halves(self) -> tuple[Sides, Sides]:
        """The sides of its two halves."""
        s_low, s_high, u_low, u_high = self.sides
        along_s = self.spread[0] >= self.spread[1]
        if min(s_high - s_low, u_high - u_low) <= _NARROWEST:
            along_s = s_high - s_low > u_high - u_low
        if along_s:
            middle = 0.5 * (s_low + s_high)
            return (s_low, middle, u_low, u_high), (middle, s_high, u_low, u_high)
        middle = 0.5 * (u_low + u_high)
        return (s_low, s_high, u_low, middle), (s_low, s_high, middle, u_high)

    @property
    def middle(self) -> tuple[float, float]:
        """The coordinates of its centre."""
        s_low, s_high, u_low, u_high = self.sides
        return 0.5 * (s_low + s_high), 0.5 * (u_low + u_high)


@dataclass
class BranchAndBound:
    """A branch and bound in progress; `bound` is valid whenever it is read.

    Parameters
    ----------
    problem : Problem
        The topics.
    tolerance : float
        Boxes with bounds within this of `best` are not split.
    best : float
        The best mean measured.
    measure : callable
        Takes (lambda, mu), clips it to the range and measures it there.
    workers : int, optional
        Threads over boxes; the number of cores by default.
    deadline : float
        On `time.monotonic`'s clock: no box is begun after it.
    """

    problem: Problem
    tolerance: float
    best: float
    measure: Callable[[float, float], float]
    workers: int | None = None
    deadline: float = math.inf
    boxes: int = 0
    _open: list[tuple[float, int, Box]] = field(default_factory=list)
    _in_hand: list[Box] = field(default_factory=list)
    _kept: list[tuple[Sides, float]] = field(default_factory=list)
    _closed: float = 0.0
    _floor: float = 0.0
    _held: int = 0
    # Falling, so that of equal bounds the newest goes first. Where rounding alone decides, boxes keep
    # their parent's bound however often they are split: all of one size before any of the next
    # would never end; one of them followed down is soon too narrow to split.
    _serial: itertools.count[int] = field(default_factory=lambda: itertools.count(0, -1))

    def __post_init__(self) -> None:
        box = whole(self.problem)
        self._open.append((-box.bound, next(self._serial), box))

    @property
    def bound(self) -> float:
        """No setting in the range has a higher mean."""
        highest = -self._open[0][0] if self._open else 0.0
        return max(highest, self._closed, self._floor, self.best)

    @property
    def undecided(self) -> list[tuple[Sides, float]]:
        """The boxes whose bounds exceed `best`, with their bounds: nothing better is elsewhere."""
        boxes = [box for _, _, box in self._open] + self._in_hand
        known = self._kept + [(box.sides, box.bound) for box in boxes]
        return [(sides, bound) for sides, bound in known if bound > self.best]

    def run(self, record: Callable[[], None]) -> bool:
        """Split boxes until the bound is within the tolerance of the best, or cannot fall.

        Parameters
        ----------
        record : callable
            Called after each batch.

        Returns
        -------
        bool
            False where time ran out first.
        """
        while self._open and self.bound > max(self._closed, self.best + self.tolerance):
            if time.monotonic() >= self.deadline:
                return False
            self._step()
            record()
        return True

    def _step(self) -> None:
        # Holds whatever interrupts what follows: boxes in hand have no higher bound.
        self._floor = self.bound
        parents = self._pop()
        jobs = [(parent, sides) for parent in parents for sides in parts_of(self.problem, parent, self.boxes)]
        children: list[Box | None] = [None] * len(jobs)

        def work(part: slice) -> None:
            for place in range(part.start, part.stop):
                if time.monotonic() < self.deadline:
                    children[place] = bound_part(self.problem, *jobs[place])

        try:
            over_slices(work, len(jobs), threads=self.workers)
        except BaseException:
            self.deadline = -math.inf  # for workers that are still running
            raise
        born = [child for child in children if child is not None]
        self.boxes += len(born)
        self._look(born)
        for child in born:
            self._push(child)
        if len(born) == len(jobs):
            self._floor = 0.0
            self._in_hand = []

    def _pop(self) -> list[Box]:
        """Take the boxes with the highest bounds; the newest ones where memory is short."""
        # Whatever interrupts this, each box is in one list at least.
        taken: list[tuple[float, int, Box]] = []
        if self._held > _MEMORY:
            taken = sorted(self._open, key=lambda entry: entry[1])[:_BATCH]
            self._in_hand = [box for _, _, box in taken]
            chosen = {entry[1] for entry in taken}
            self._open = [entry for entry in self._open if entry[1] not in chosen]
            heapq.heapify(self._open)
        while self._open and len(taken) < _BATCH:
            taken.append(self._open[0])
            self._in_hand.append(taken[-1][2])
            heapq.heappop(self._open)
        self._held -= sum(box.owned for _, _, box in taken)
        return [box for _, _, box in taken]

    def _push(self, box: Box) -> None:
        if box.final or box.bound <= self.best + self.tolerance:
            self._closed = max(self._closed, box.bound)
            if box.bound > self.best:
                self._kept.append((box.sides, box.bound))
        else:
            heapq.heappush(self._open, (-box.bound, next(self._serial), box))
            self._held += box.owned

    def _look(self, boxes: list[Box]) -> None:
        """Measure the centres that promise to be better than the best."""
        for box in sorted(boxes, key=lambda box: -box.centre):
            if box.centre <= self.best:
                break
            self.best = max(self.best, self.measure(*self.problem.proof.to_setting(*box.middle)))
            if not box.final:
                break


def whole(problem: Problem) -> Box:
    """Return the whole range as one box, with the bounds that need no look at scores."""
    bound = _mean(problem.ceiling, problem.topics)
    return Box(problem.sides, problem.state, problem.ceiling, bound, 0.0, (0.0, 0.0), 0)


def bound_part(problem: Problem, parent: Box, sides: Sides) -> Box:
    """Bound a part of a box."""
    old = parent.state
    new = State(np.empty_like(old.docs), np.empty_like(old.doc_start), old.base.copy(), old.active.copy())
    bounds, centres = parent.bounds.copy(), parent.bounds.copy()
    spread = np.empty(2)
    bound_box(problem.columns, sides, old, new, bounds, centres, spread)
    listed = int(new.doc_start[-1])
    state, owned = old, parent.owned // 2
    if listed <= _SHARED * old.docs.size:
        state = new._replace(docs=new.docs[:listed].copy())
        owned = state.size
    return Box(
        sides,
        state,
        bounds,
        _mean(bounds, problem.topics),
        float(centres.sum()) / problem.topics,
        (float(spread[0]), float(spread[1])),
        owned,
    )


def _mean(bounds: Doubles, topics: int) -> float:
    """Return the mean over all topics, no lower than any order of summation makes it."""
    return float(bounds.sum()) / topics * (1.0 + topics * 2.0**-51)


def parts_of(problem: Problem, box: Box, boxes: int) -> Sequence[Sides]:
    """Split a box into halves; the whole range, before there are other boxes, into the first ones."""
    if boxes:
        return box.halves
    edges = []
    for (low, high), width in zip((box.sides[:2], box.sides[2:]), problem.proof.first_widths, strict=True):
        parts = max(1, math.ceil((high - low) / width))
        edges.append(np.linspace(low, high, parts + 1).tolist())
    return [
        (*s_side, *u_side)
        for s_side in itertools.pairwise(edges[0])
        for u_side in itertools.pairwise(edges[1])
    ]
