"""How much of many weights to believe in: chosen inside the fitting topics, and none is an answer."""

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
from lmtune.models.formula import Formula
from lmtune.progress import Count, counted
from lmtune.tuning.lists import Lists
from lmtune.tuning.objectives import parse_objective
from lmtune.tuning.space import ParameterSpace, space_for
from lmtune.tuning.surrogate import LOOSE, SurrogateTuner
from lmtune.tuning.tuner import Progress

if TYPE_CHECKING:
    import pandas as pd

RIDGES = (0.1, 0.01, 0.001, 0.0001)
"""Strengths that are tried, after the simpler formulas."""


class _Loose(SurrogateTuner):
    """A fit for comparison alone."""

    _flat = LOOSE


@dataclass(eq=False, repr=False)
class RidgeTuner(SurrogateTuner):
    """Fit weights of terms, or of runs, as far as held-out topics bear them out.

    The path goes from the formula's simpler forms, the plain query by feedback alone or equal weights of
    runs, to ever weaker ridges. Folds of the fitting
    topics say what each step is worth; the earliest step within a standard error of the best is taken
    (Breiman et al., Classification and Regression Trees, 1984), and all fitting topics are then fitted
    with it.

    Parameters
    ----------
    objective, alpha, optimizer, space, seed, list_depth, measures, depth
        As of `SurrogateTuner`; ``starts`` and ``ridge`` follow from the path.
    ridges : sequence of float
        Strengths of the ridge, falling.
    folds : int
        Of the fitting topics; 2 or more.
    warm : bool
        Whether a fit begins where the one before ended, or from afar.

    Attributes
    ----------
    step_ : str
        What was taken: of weights of terms ``"plain"`` or ``"feedback"``, of runs ``"equal"``; or the
        strength of a ridge.
    path_ : pandas.DataFrame
        Of each step its mean over held-out topics, its difference from the best step, and the standard
        error of that.
    """

    step_: str = field(init=False)
    path_: pd.DataFrame = field(init=False)

    ridges: Sequence[float] = RIDGES
    folds: int = 5
    warm: bool = True

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
        if not pool.formula.simpler:
            raise InputError(
                "no weights to fit", value=pool.formula.name, accepted="weights of terms or runs"
            )
        if places.size < self.folds:
            raise InputError("too few topics", value=places.size, accepted=f"{self.folds}, one a fold")
        report = counted(progress, type(self).__name__)
        space = space_for(self.space, pool, places)
        lists = lists or self._lists(pool, space)
        steps = list(_steps(pool.formula, space, self.ridges))
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
        is_first = True
        for at, (_, space, ridge) in enumerate(steps):
            last = at == len(steps) - 1
            tuner = kind(
                self.objective,
                alpha=self.alpha
                if is_first or not self.warm
                else self._alphas(parse_objective(self.objective))[-1:],
                optimizer=self.optimizer,
                space=space.starting(here) if self.warm else space,
                starts=1,
                seed=self.seed,
                ridge=ridge,
                measures=self.measures if last else (),
                depth=self.depth,
            ).fit(pool, topics=topics, lists=lists)
            here = tuner.best_params_
            # The first fit with anything to fit comes from afar.
            is_first = is_first and not space.free
            yield tuner

    def _keep_path(
        self, names: Sequence[str], means: NDArray[np.float64], errors: NDArray[np.float64], best: int
    ) -> None:
        import pandas as pd

        self.path_ = pd.DataFrame(
            {"step": names, "held out": means, "from the best": means - means[best], "standard error": errors}
        )


_Step = tuple[str, ParameterSpace, float]


def _steps(formula: Formula, space: ParameterSpace, ridges: Sequence[float]) -> Iterator[_Step]:
    """Yield the path's steps: what is free in each, and its ridge."""
    if not all(a > b for a, b in itertools.pairwise((*ridges, 0.0))):
        raise InputError("bad ridges", value=list(ridges), accepted="strengths above 0, falling")
    for name, fixed in formula.simpler:
        yield name, space.fixing(fixed), 0.0
    if formula.simpler[-1][1]:
        yield from ((f"{ridge:g}", space, ridge) for ridge in ridges)
