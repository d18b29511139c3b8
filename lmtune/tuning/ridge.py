"""How much of many weights to believe in: chosen inside the fitting topics, and none is an answer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lmtune.arrays import Doubles, Integers
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_least
from lmtune.measures.evaluate import measure_settings
from lmtune.models.formula import Formula
from lmtune.models.parameter import Setting
from lmtune.progress import Count
from lmtune.tuning.gradient import LOOSE, GradientTuner
from lmtune.tuning.space import ParameterSpace, space_for
from lmtune.tuning.surrogate import SurrogateTuner
from lmtune.tuning.tuner import FitProgress, Tuner

if TYPE_CHECKING:
    import pandas as pd

RIDGES = (0.1, 0.01, 0.001, 0.0001)
"""Strengths that are tried, after the simpler formulas."""


@dataclass(eq=False, repr=False)
class RidgeTuner(Tuner):
    """Fit weights of terms, or of runs, as far as held-out topics bear them out.

    The path goes from the formula's simpler forms, the plain query by feedback alone or equal weights of
    runs, to ever weaker ridges. Folds of the fitting
    topics say what each step is worth; the earliest step within some standard errors of the best is taken
    (Breiman et al., Classification and Regression Trees, 1984, who take one), and all fitting topics are
    then fitted with it.

    Parameters
    ----------
    tuner : GradientTuner
        A `SurrogateTuner`, whose measure the held-out topics are judged by, or a `RankNetTuner`: AP. Its
        ``starts`` and ``ridge`` follow from the path.
    ridges : sequence of float
        Strengths of the ridge, falling.
    folds : int
        Of the fitting topics; 2 or more, and as many as topics where these are fewer.
    within : float
        How many standard errors; 0 or more. Of 0, 1/4, 1/2, 3/4 and 1 the default held up as well as any for
        weights of terms on five collections, and asks a little of the weaker ridge.
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
    fitted_ : GradientTuner
        What fitted the step that was taken.
    converged_ : bool
        As of the tuner, whose other attributes are here too.
    """

    step_: str = field(init=False)
    path_: pd.DataFrame = field(init=False)
    fitted_: GradientTuner = field(init=False)
    converged_: bool = field(init=False)

    tuner: GradientTuner = field(default_factory=SurrogateTuner)
    _: KW_ONLY
    ridges: Sequence[float] = RIDGES
    folds: int = 5
    within: float = 0.25
    warm: bool = True

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        progress: FitProgress = None,
        **ready: Any,
    ) -> Self:
        """Fit on topics of a pool (all judged ones by default), with the tuner's lists or pairs, if any.

        Raises
        ------
        InputError
            As the tuner's `fit`; for a pool of a formula without weights, or fewer than two topics.
        """
        check_least("too few folds", self.folds, 2)
        check_least("bad standard errors", self.within, 0)
        places = pool.judged_positions(topics)
        if not pool.formula.simpler:
            raise InputError(
                "no weights to fit", value=pool.formula.name, accepted="weights of terms or runs"
            )
        if places.size < 2:
            raise InputError("too few topics to choose a ridge", value=places.size, accepted="2 or more")
        report = self._report(progress)
        space = space_for(self.tuner.space, pool, places)
        ready = ready or self.tuner.ready(pool, space)
        steps = list(_steps(pool.formula, space, self.ridges))
        held_out = self._held_out(pool, ready, places, steps, report)
        means = pool.mean(held_out.T, places)
        best = int(means.argmax())
        losses = held_out[best] - held_out
        lost, shares = pool.mean(losses.T, places), pool.weights(places) / pool.weights(places).mean()
        spread = np.sqrt((shares**2 * (losses - lost[:, None]) ** 2).sum(axis=1) / (places.size - 1))
        errors = spread / math.sqrt(places.size)
        chosen = int(np.argmax(lost <= self.within * errors))
        first = 0 if self.warm else chosen  # from afar it does not matter what came before
        *before, tuner = self._along(pool, ready, places, steps[first : chosen + 1])
        found = {name: value for name, value in vars(tuner).items() if name.endswith("_")}
        self.__dict__.update(found)
        self.step_, self.fitted_ = steps[chosen][0], tuner
        self.n_evaluations_ += self._spent + sum(own.n_evaluations_ for own in before)
        self._keep_path([name for name, *_ in steps], means, errors, best)
        return self

    def refit(
        self, pool: CandidatePool, start: Setting, *, topics: Sequence[str] | None = None
    ) -> GradientTuner:
        """Return a fit of the step that was taken to a pool drawn anew, from a setting."""
        fitted = self.fitted_
        space = space_for(fitted.space, pool).starting(start)
        changes = {"space": space, "measures": ()} | fitted.again()
        return type(fitted)(**fitted.get_params() | changes).fit(pool, topics=topics)

    def _held_out(
        self,
        pool: CandidatePool,
        ready: dict[str, Any],
        places: Integers,
        steps: Sequence[_Step],
        report: Count,
    ) -> Doubles:
        """Return the held-out values of each step, shape (steps, topics)."""
        values = np.empty((len(steps), places.size))
        order = np.random.default_rng(self.tuner.seed).permutation(places.size)
        self._spent = 0
        folds = min(self.folds, places.size)
        for fold in range(folds):
            out = order[fold::folds]
            fitting = np.delete(places, out)
            for step, tuner in enumerate(self._along(pool, ready, fitting, steps, LOOSE)):
                self._spent += tuner.n_evaluations_
                depth = self.tuner.depth
                found = measure_settings(
                    pool, tuner.best_params_, [tuner.judge], topics=places[out], depth=depth
                )
                values[step, out] = found[:, 0, 0]
            report(fold + 1, folds)
        return values

    def _along(
        self,
        pool: CandidatePool,
        ready: dict[str, Any],
        places: Integers,
        steps: Sequence[_Step],
        flat: float | None = None,
    ) -> Iterator[GradientTuner]:
        """Fit step after step, each from the end of the one before; to `flat`, for comparison alone."""
        topics = [pool.topics[place] for place in places.tolist()]
        here: dict[str, float] = {}
        is_first = True
        for at, (_, space, ridge) in enumerate(steps):
            changes: dict[str, Any] = {"space": space.starting(here) if self.warm else space}
            changes |= {"starts": 1, "ridge": ridge} | ({} if at == len(steps) - 1 else {"measures": ()})
            changes |= self.tuner.again() if self.warm and not is_first else {}
            tuner = type(self.tuner)(**self.tuner.get_params() | changes)
            tuner.flat = flat or tuner.flat
            fitted = tuner.fit(pool, topics=topics, **ready).best_params_
            # What a simpler form holds fixed is where gradients vanish: no place to begin.
            here |= {parameter.name: fitted[parameter.name] for parameter in space.free}
            # The first fit with anything to fit comes from afar.
            is_first = is_first and not space.free
            yield tuner

    def _keep_path(self, names: Sequence[str], means: Doubles, errors: Doubles, best: int) -> None:
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
