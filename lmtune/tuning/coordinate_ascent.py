"""Direct search along one parameter at a time, with restarts."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.measure import parse_measure
from lmtune.models.parameter import Setting
from lmtune.progress import counted
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import Point, Progress, SearchRecord, Tuner

# Steps in units of the current step size; measures are step functions with plateaus, which a
# single step would not see across.
_STEPS = (-2, -1, 1, 2)
_HALVINGS = 5


class CoordinateAscent(Tuner):
    """Climb a measure along each parameter in turn.

    From each start, each coordinate tries one and two steps both ways and moves to the best
    strictly better setting; where no coordinate improves, the steps halve, five times. The first
    steps are `lmtune.models.parameter.Parameter.step`.

    Parameters
    ----------
    measure : str, or an object of ir_measures
        What to maximise, in ir_measures' or trec_eval's spelling.
    space : ParameterSpace
        The range of each parameter; the model's own by default.
    starts : sequence of mappings, optional
        Settings to start at; by default the space's `ParameterSpace.start`.
    restarts : int
        Further starts, drawn from the space.
    steps : mapping of str to float, optional
        Other first steps, by parameter.
    seed : int
        For the restarts.
    depth : int
        Run depth.
    """

    def __init__(
        self,
        measure: object = "AP",
        *,
        space: ParameterSpace | None = None,
        starts: Sequence[Setting] | None = None,
        restarts: int = 4,
        steps: Mapping[str, float] | None = None,
        seed: int = 0,
        depth: int = DEPTH,
    ) -> None:
        self.measure = measure
        self.space = space
        self.starts = starts
        self.restarts = restarts
        self.steps = steps
        self.seed = seed
        self.depth = depth

    def fit(
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: Progress | None = None
    ) -> Self:
        """Search on topics of a pool (all by default).

        Raises
        ------
        InputError
            For unknown topics.
        """
        report = counted(progress, type(self).__name__)
        record = SearchRecord(
            pool, parse_measure(self.measure), space=self.space, topics=topics, depth=self.depth
        )
        space, rng = record.space, np.random.default_rng(self.seed)
        given = [space.start] if self.starts is None else map(space.vector, self.starts)
        begins = [space.clip(setting) for setting in given]
        begins += [space.random(rng) for _ in range(self.restarts)]
        sizes = {parameter.name: parameter.step for parameter in space.parameters} | dict(self.steps or {})
        # All climbs ask at once, because measuring many settings in a call is much cheaper.
        asking = {}
        for start, begin in enumerate(begins):
            climb = _climb(space, begin, sizes)
            asking[start] = (climb, next(climb))
        step = 0
        while asking:
            new: dict[Point, int] = {}
            for start, (_, line) in asking.items():
                for point in line:
                    if point not in record:
                        new.setdefault(point, start)
            if new:
                record.measure(np.array(list(new)), starts=list(new.values()), step=step)
            answered = {}
            for start, (climb, line) in asking.items():
                with contextlib.suppress(StopIteration):
                    answered[start] = (climb, climb.send([record[point] for point in line]))
            asking = answered
            step += 1
            if report is not None:
                report(len(begins) - len(asking), len(begins))
        record.close(self)
        return self


def _climb(
    space: ParameterSpace, begin: NDArray[np.float64], sizes: Mapping[str, float]
) -> Generator[list[Point], list[float], None]:
    """Ask for lines of settings; be sent their means."""
    here = tuple(p.move(x, 0.0) for p, x in zip(space.parameters, begin.tolist(), strict=True))
    [value] = yield [here]
    for halving in range(_HALVINGS + 1):
        improved = True
        while improved:
            improved = False
            for axis, parameter in enumerate(space.parameters):
                size = sizes[parameter.name] * 0.5**halving
                moved = [parameter.move(here[axis], step * size) for step in _STEPS]
                line = [(*here[:axis], x, *here[axis + 1 :]) for x in moved]
                values = yield line
                best = int(np.argmax(values))
                if values[best] > value:
                    here, value, improved = line[best], values[best], True
