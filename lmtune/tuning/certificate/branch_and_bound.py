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

# Boxes split per batch. It is constant, so that the result does not depend on the number of workers.
_BATCH = 16
# Sides below this width are not split: only rounding is undecided in such a box.
_NARROWEST = 1e-9
# A box uses its parent's lists unless its own are shorter than this share of them.
_SHARED = 0.9
# Bytes of open boxes above which the search goes depth-first.
_MEMORY = 1 << 30


@dataclass(frozen=True, eq=False)
class Box:
    """A box of settings with its bounds.

    Attributes
    ----------
    sides : tuple of float
        Low and high of s, low and high of u, the coordinates of the formula's proof.
    state : State
        The undecided pairs of the box, or of its parent, which include them.
    bounds : numpy.ndarray of float64, shape (problem's topics,)
        Upper bounds of the measure in the box, per topic.
    bound, centre : float
        The mean of the bounds over all topics, rounded up; the approximate mean at the box's centre.
    spread : tuple of float
        The differences of undecided pairs along s and u, which choose the side to split.
    owned : int
        Bytes of the state; half of the parent's value if the state is the parent's.
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
        """Whether splitting cannot lower the bound: the box is too narrow, or nothing is undecided."""
        narrow = all(high - low <= _NARROWEST for low, high in (self.sides[:2], self.sides[2:]))
        return narrow or self.state.docs.size == 0

    @property
    def halves(self) -> tuple[Sides, Sides]:
        """The sides of the box's two halves."""
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
        """The coordinates of the box's centre."""
        s_low, s_high, u_low, u_high = self.sides
        return 0.5 * (s_low + s_high), 0.5 * (u_low + u_high)


@dataclass
class BranchAndBound:
    """A branch and bound search; `bound` is valid at any time, also after an interruption.

    Parameters
    ----------
    problem : Problem
        Topics, documents and space.
    tolerance : float
        A box is split only if its bound exceeds `best` by more than this.
    best : float
        The best measured mean.
    measure : callable
        Takes the two parameters of a setting, clips them to the range and returns the mean there.
    workers : int, optional
        Threads over boxes; the number of cores by default.
    deadline : float
        Time on `time.monotonic`'s clock after which no box is started.
    """

    problem: Problem
    tolerance: float
    best: float
    measure: Callable[[float, float], float]
    workers: int | None = None
    deadline: float = math.inf
    boxes: int = 0
    _open: list[tuple[float, int, Box]] = field(default_factory=list)
    _taken: list[Box] = field(default_factory=list)
    _undecided: list[tuple[Sides, float]] = field(default_factory=list)
    _closed: float = 0.0
    _floor: float = 0.0
    _bytes: int = 0
    # Serial numbers fall, so that the newest box comes first among equal bounds. If only rounding is
    # undecided, children have their parent's bound. Oldest first would then split all boxes of one size
    # before the next, without end; newest first soon reaches boxes that are too narrow to split.
    _serial: itertools.count[int] = field(default_factory=lambda: itertools.count(0, -1))

    def __post_init__(self) -> None:
        box = whole(self.problem)
        self._open.append((-box.bound, next(self._serial), box))

    @property
    def bound(self) -> float:
        """The upper bound of the mean over the range."""
        highest = -self._open[0][0] if self._open else 0.0
        return max(highest, self._closed, self._floor, self.best)

    @property
    def undecided(self) -> list[tuple[Sides, float]]:
        """The boxes whose bounds exceed `best`, with their bounds; no setting outside them is better."""
        boxes = [box for _, _, box in self._open] + self._taken
        known = self._undecided + [(box.sides, box.bound) for box in boxes]
        return [(sides, bound) for sides, bound in known if bound > self.best]

    def run(self, record: Callable[[], None]) -> bool:
        """Split boxes until the bound is within the tolerance of the best mean, or cannot fall.

        Parameters
        ----------
        record : callable
            Called after each batch.

        Returns
        -------
        bool
            False if the deadline passed first.
        """
        while self._open and self.bound > max(self._closed, self.best + self.tolerance):
            if time.monotonic() >= self.deadline:
                return False
            self._step()
            record()
        return True

    def _step(self) -> None:
        # Keeps `bound` valid if this step is interrupted: the boxes that it splits have no higher bound.
        self._floor = self.bound
        parents = self._pop()
        jobs = [(parent, sides) for parent in parents for sides in parts_of(self.problem, parent, self.boxes)]
        children: list[Box | None] = [None] * len(jobs)

        def work(part: slice) -> None:
            for number in range(part.start, part.stop):
                if time.monotonic() < self.deadline:
                    children[number] = bound_part(self.problem, *jobs[number])

        try:
            over_slices(work, len(jobs), threads=self.workers)
        except BaseException:
            self.deadline = -math.inf  # Stops workers that are still running.
            raise
        born = [child for child in children if child is not None]
        self.boxes += len(born)
        self._measure_centres(born)
        for child in born:
            self._push(child)
        if len(born) == len(jobs):
            self._floor = 0.0
            self._taken = []

    def _pop(self) -> list[Box]:
        """Remove the boxes with the highest bounds, or the newest ones if memory is short."""
        # Each box is in at least one list at any time, in case of an interruption.
        taken: list[tuple[float, int, Box]] = []
        if self._bytes > _MEMORY:
            taken = sorted(self._open, key=lambda entry: entry[1])[:_BATCH]
            self._taken = [box for _, _, box in taken]
            chosen = {entry[1] for entry in taken}
            self._open = [entry for entry in self._open if entry[1] not in chosen]
            heapq.heapify(self._open)
        while self._open and len(taken) < _BATCH:
            taken.append(self._open[0])
            self._taken.append(taken[-1][2])
            heapq.heappop(self._open)
        self._bytes -= sum(box.owned for _, _, box in taken)
        return [box for _, _, box in taken]

    def _push(self, box: Box) -> None:
        if box.final or box.bound <= self.best + self.tolerance:
            self._closed = max(self._closed, box.bound)
            if box.bound > self.best:
                self._undecided.append((box.sides, box.bound))
        else:
            heapq.heappush(self._open, (-box.bound, next(self._serial), box))
            self._bytes += box.owned

    def _measure_centres(self, boxes: list[Box]) -> None:
        """Measure the centres of boxes that may be better than the best setting."""
        for box in sorted(boxes, key=lambda box: -box.centre):
            if box.centre <= self.best:
                break
            self.best = max(self.best, self.measure(*self.problem.proof.to_setting(*box.middle)))
            if not box.final:
                break


def whole(problem: Problem) -> Box:
    """Return the whole range as one box, bounded by the ideal rankings."""
    bound = _mean(problem.ceiling, problem.topics)
    return Box(problem.sides, problem.state, problem.ceiling, bound, 0.0, (0.0, 0.0), 0)


def bound_part(problem: Problem, parent: Box, sides: Sides) -> Box:
    """Bound a part of a box, given by its sides."""
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
    """Return the mean over all topics, rounded up to cover any order of summation."""
    return float(bounds.sum()) / topics * (1.0 + topics * 2.0**-51)


def parts_of(problem: Problem, box: Box, boxes: int) -> Sequence[Sides]:
    """Return a box's halves, or if no box has been bounded yet, the first boxes of the range."""
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
