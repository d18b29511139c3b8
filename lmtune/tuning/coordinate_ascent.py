"""Direct search along one parameter at a time, with restarts."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lmtune.candidates.pool import CandidatePool
from lmtune.measures.evaluate import DEPTH, measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.tuning.space import ParameterSpace

if TYPE_CHECKING:
    import pandas as pd

Setting = tuple[float, float]

# Steps in units of the current step size; measures are step functions with plateaus, which a
# single step would not see across.
_STEPS = (-2, -1, 1, 2)
_HALVINGS = 5


class CoordinateAscent:
    """Climb a measure along lambda and log mu in turn.

    From each start, each coordinate tries one and two steps both ways and moves to the best
    strictly better setting; where neither coordinate improves, the steps halve, five times.

    Parameters
    ----------
    measure : str
        What to maximise, in ir_measures' or trec_eval's spelling.
    space : ParameterSpace
        The range of lambda and mu.
    starts : sequence of (lambda, mu)
        Where to start.
    restarts : int
        Further starts, drawn uniformly in lambda and log mu.
    steps : tuple of float
        First step sizes in lambda and in log mu.
    seed : int
        For the restarts.
    depth : int
        Run depth.

    Attributes
    ----------
    lambda_, mu_ : float
        The best parameters; also in `best_params_`.
    best_params_ : dict of str to float
        ``{"lambda": ..., "mu": ...}``
    best_score_ : float
        The measure's mean there.
    results_ : pandas.DataFrame
        One row an evaluation, in order: the start that asked first, lambda, mu and the mean.
    n_evaluations_ : int
        Distinct settings measured.
    seconds_ : list of float
        When each evaluation was known, since the start of the fit.
    """

    lambda_: float
    mu_: float
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
        starts: Sequence[Setting] = ((0.1, 1000.0),),
        restarts: int = 4,
        steps: tuple[float, float] = (0.1, 0.5),
        seed: int = 0,
        depth: int = DEPTH,
    ) -> None:
        self.measure = parse_measure(measure)
        self.space = space or ParameterSpace()
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
        begins = [self.space.clip(*setting) for setting in self.starts]
        begins += [self.space.random(rng) for _ in range(self.restarts)]
        known: dict[Setting, float] = {}
        rows: list[tuple[int, float, float, float]] = []
        # All climbs ask at once, because measuring many settings in a call is much cheaper.
        asking = {}
        for start, begin in enumerate(begins):
            climb = self._climb(begin)
            asking[start] = (climb, next(climb))
        while asking:
            new: dict[Setting, int] = {}
            for start, (_, line) in asking.items():
                for setting in line:
                    if setting not in known:
                        new.setdefault(setting, start)
            if new:
                lambdas, mus = zip(*new, strict=True)
                values = measure_settings(pool, lambdas, mus, [self.measure], topics=places, depth=self.depth)
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
        self.best_params_ = {"lambda": best[0], "mu": best[1]}
        self.lambda_, self.mu_ = best
        self.best_score_ = known[best]
        self.results_ = pd.DataFrame(rows, columns=["start", "lambda", "mu", str(self.measure)])
        self.n_evaluations_ = len(known)
        return self

    def _climb(self, begin: Setting) -> Generator[list[Setting], list[float], None]:
        """Ask for lines of settings; be sent their means."""
        here = self._settle(*begin)
        lambda_step, mu_step = self.steps
        [value] = yield [here]
        for _ in range(_HALVINGS + 1):
            improved = True
            while improved:
                improved = False
                for along_lambda in (True, False):
                    line = [
                        self._settle(here[0] + step * lambda_step, here[1])
                        if along_lambda
                        else self._settle(here[0], here[1] * math.exp(step * mu_step))
                        for step in _STEPS
                    ]
                    values = yield line
                    best = int(np.argmax(values))
                    if values[best] > value:
                        here, value, improved = line[best], values[best], True
            lambda_step /= 2
            mu_step /= 2

    def _settle(self, lambda_: float, mu: float) -> Setting:
        """Round, so that ways that lead to one setting do not differ in its last digits."""
        return self.space.clip(round(lambda_, 9), float(f"{mu:.9g}"))
