"""Direct search along one parameter at a time, with restarts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.models.parameter import Setting
from lmtune.tuning.space import ParameterSpace, space_for

if TYPE_CHECKING:
    import pandas as pd

_Point = tuple[float, ...]

# Steps in units of the current step size; measures are step functions with plateaus, which a
# single step would not see across.
_STEPS = (-2, -1, 1, 2)
_HALVINGS = 5


class CoordinateAscent:
    """Climb a measure along each parameter in turn.

    From each start, each coordinate tries one and two steps both ways and moves to the best
    strictly better setting; where no coordinate improves, the steps halve, five times. The first
    steps are `lmtune.models.parameter.Parameter.step`.

    Parameters
    ----------
    measure : str
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

    Attributes
    ----------
    best_params_ : dict of str to float
        The best setting, such as ``{"lambda": 0.5, "mu": 100.0}``
    best_score_ : float
        The measure's mean there.
    results_ : pandas.DataFrame
        One row an evaluation, in order: the start that asked first, the parameters and the mean.
    n_evaluations_ : int
        Distinct settings measured.
    seconds_ : list of float
        When each evaluation was known, since the start of the fit.
    """

    best_params_: dict[str, float]
    best_score_: float
    results_: pd.DataFrame
    n_evaluations_: int
    seconds_: list[float]

    def __init__(
        self,
        measure: str = "AP",
        *,
        space: ParameterSpace | None = None,
        starts: Sequence[Setting] | None = None,
        restarts: int = 4,
        steps: Mapping[str, float] | None = None,
        seed: int = 0,
        depth: int = DEPTH,
    ) -> None:
        self.measure = parse_measure(measure)
        self.space = space
        self.starts = starts
        self.restarts = restarts
        self.steps = steps
        self.seed = seed
        self.depth = depth

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> CoordinateAscent:
        """Search on topics of a pool (all by default).

        Raises
        ------
        InputError
            For unknown topics.
        """
        import pandas as pd

        first = time.monotonic()
        self.seconds_ = []
        places = pool.positions(topics)
        rng = np.random.default_rng(self.seed)
        space = space_for(self.space, pool)
        given = [space.start] if self.starts is None else map(space.vector, self.starts)
        begins = [space.clip(setting) for setting in given]
        begins += [space.random(rng) for _ in range(self.restarts)]
        sizes = {parameter.name: parameter.step for parameter in space.parameters} | dict(self.steps or {})
        known: dict[_Point, float] = {}
        rows: list[tuple[float, ...]] = []
        # All climbs ask at once, because measuring many settings in a call is much cheaper.
        asking = {}
        for start, begin in enumerate(begins):
            climb = _climb(space, begin, sizes)
            asking[start] = (climb, next(climb))
        while asking:
            new: dict[_Point, int] = {}
            for start, (_, line) in asking.items():
                for setting in line:
                    if setting not in known:
                        new.setdefault(setting, start)
            if new:
                values = measure_settings(
                    pool, np.array(list(new)), [self.measure], topics=places, depth=self.depth
                )
                for (setting, start), mean in zip(new.items(), values[:, :, 0].mean(axis=0), strict=True):
                    known[setting] = float(mean)
                    rows.append((start, *setting, float(mean)))
                self.seconds_ += [time.monotonic() - first] * len(new)
            answered = {}
            for start, (climb, line) in asking.items():
                with contextlib.suppress(StopIteration):
                    answered[start] = (climb, climb.send([known[setting] for setting in line]))
            asking = answered
            if progress is not None:
                progress(len(begins) - len(asking), len(begins))

        best = max(known, key=known.__getitem__)
        self.best_params_ = space.named(best)
        self.best_score_ = known[best]
        self.results_ = pd.DataFrame(rows, columns=["start", *space.names, str(self.measure)])
        self.n_evaluations_ = len(known)
        return self


def _climb(
    space: ParameterSpace, begin: NDArray[np.float64], sizes: Mapping[str, float]
) -> Generator[list[_Point], list[float], None]:
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
