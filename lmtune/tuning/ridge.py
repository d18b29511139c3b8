"""How much of a query model to believe in: chosen inside the fitting topics, and none is an answer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_least
from lmtune.measures.evaluate import measure_settings
from lmtune.models.weighted import ORIGINAL, SHARPNESS, Weighted
from lmtune.progress import Count, counted
from lmtune.tuning.lists import Lists
from lmtune.tuning.objectives import parse_objective
from lmtune.tuning.space import ParameterSpace, space_for
from lmtune.tuning.surrogate import LOOSE, SurrogateTuner
from lmtune.tuning.tuner import Progress

if TYPE_CHECKING:
    import pandas as pd

RIDGES = (0.1, 0.01, 0.001, 0.0001)
"""Strengths that are tried, after none of the features at all."""

PLAIN = "plain"
"""The query as it is: neither feedback nor weights."""


class _Loose(SurrogateTuner):
    """A fit for comparison alone."""

    _flat = LOOSE


@dataclass(eq=False, repr=False)
class RidgeTuner(SurrogateTuner):
    """Fit weights of terms as far as held-out topics bear them out.

    The path goes from the plain formula by feedback alone to ever weaker ridges, each fit beginning
    where the one before ended. Folds of the fitting topics say what each step is worth; the earliest
    step within a standard error of the best is taken (Breiman et al., Classification and Regression
    Trees, 1984), and all fitting topics are then fitted with it.

    Parameters
    ----------
    objective, alpha, optimizer, space, seed, list_depth, measures, depth
        As of `SurrogateTuner`; ``starts`` and ``ridge`` follow from the path.
    ridges : sequence of float
        Strengths of the ridge, falling.
    folds : int
        Of the fitting topics; 2 or more.

    Attributes
    ----------
    step_ : str
        What was taken: ``"plain"``, ``"feedback"``, or the strength of a ridge.
    path_ : pandas.DataFrame
        Of each step its mean over held-out topics, its difference from the best step, and the standard
        error of that.
    """

    step_: str = field(init=False)
    path_: pd.DataFrame = field(init=False)

    ridges: Sequence[float] = RIDGES
    folds: int = 5

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        lists: Lists | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit on topics of a pool (all by default); see `SurrogateTuner.fit`.

        Raises
        ------
        InputError
            As `SurrogateTuner.fit`; for a pool of a formula without weights, or fewer topics than folds.
        """
        check_least("too few folds", self.folds, 2)
        places = pool.positions(topics)
        if not isinstance(pool.formula, Weighted):
            raise InputError("no weights to fit", value=pool.formula.name, accepted="a QueryModel's pool")
        if places.size < self.folds:
            raise InputError("too few topics", value=places.size, accepted=f"{self.folds}, one a fold")
        report = counted(progress, type(self).__name__)
        lists = lists or self._lists(pool, space_for(self.space, pool))
        steps = list(_steps(space_for(self.space, pool), self.ridges))
        held_out = self._held_out(pool, lists, places, steps, report)
        means = held_out.mean(axis=1)
        best = int(means.argmax())
        losses = held_out[best] - held_out
        errors = losses.std(axis=1, ddof=1) / math.sqrt(places.size)
        chosen = int(np.argmax(losses.mean(axis=1) <= errors))
        self.step_ = steps[chosen][0]
        *before, tuner = self._along(pool, lists, places, steps[: chosen + 1], SurrogateTuner)
        spent = self._spent + sum(own.n_evaluations_ for own in before)
        for name in (
            "results_",
            "best_params_",
            "best_value_",
            "at_edge_",
            "seconds_",
            "objective_",
            "converged_",
        ):
            setattr(self, name, getattr(tuner, name))
        self.n_evaluations_ = spent + tuner.n_evaluations_
        self._keep_path([name for name, *_ in steps], means, errors, best)
        return self

    def _held_out(
        self,
        pool: CandidatePool,
        lists: Lists,
        places: NDArray[np.int64],
        steps: Sequence[_Step],
        report: Count | None,
    ) -> NDArray[np.float64]:
        """Return the held-out values of each step, shape (steps, topics)."""
        values = np.empty((len(steps), places.size))
        order = np.random.default_rng(self.seed).permutation(places.size)
        self._spent = 0
        for fold in range(self.folds):
            out = order[fold :: self.folds]
            fitting = np.delete(places, out)
            for step, tuner in enumerate(self._along(pool, lists, fitting, steps, _Loose)):
                self._spent += tuner.n_evaluations_
                measure = tuner.objective_.measure
                found = measure_settings(
                    pool, tuner.best_params_, [measure], topics=places[out], depth=self.depth
                )
                values[step, out] = found[:, 0, 0]
            if report is not None:
                report(fold + 1, self.folds)
        return values

    def _along(
        self,
        pool: CandidatePool,
        lists: Lists,
        places: NDArray[np.int64],
        steps: Sequence[_Step],
        kind: type[SurrogateTuner],
    ) -> Iterator[SurrogateTuner]:
        """Fit step after step, each from the end of the one before."""
        topics = [pool.topics[place] for place in places.tolist()]
        here: dict[str, float] = {}
        for at, (_, space, ridge) in enumerate(steps):
            last = at == len(steps) - 1
            tuner = kind(
                self.objective,
                alpha=self.alpha if at == 0 else self._alphas(parse_objective(self.objective))[-1:],
                optimizer=self.optimizer,
                space=space.starting(here),
                starts=1,
                seed=self.seed,
                ridge=ridge,
                measures=self.measures if last else (),
                depth=self.depth,
            ).fit(pool, topics=topics, lists=lists)
            here = tuner.best_params_
            yield tuner

    def _keep_path(
        self, names: Sequence[str], means: NDArray[np.float64], errors: NDArray[np.float64], best: int
    ) -> None:
        import pandas as pd

        self.path_ = pd.DataFrame(
            {"step": names, "held out": means, "from the best": means - means[best], "standard error": errors}
        )


_Step = tuple[str, ParameterSpace, float]


def _steps(space: ParameterSpace, ridges: Sequence[float]) -> Iterator[_Step]:
    """Yield the path's steps: what is free in each, and its ridge."""
    if not all(a > b for a, b in itertools.pairwise((*ridges, 0.0))):
        raise InputError("bad ridges", value=list(ridges), accepted="strengths above 0, falling")
    feedback = (
        {ORIGINAL.name: ORIGINAL.high, SHARPNESS.name: SHARPNESS.default}
        if ORIGINAL.name in space.names
        else {}
    )
    theta = {name: 0.0 for name in space.names if name.startswith("theta_")}
    yield PLAIN, space.fixing(feedback | theta), 0.0
    if feedback:
        yield "feedback", space.fixing(theta), 0.0
    if theta:
        yield from ((f"{ridge:g}", space, ridge) for ridge in ridges)
