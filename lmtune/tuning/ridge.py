"""Selection of the regularisation strength for term weights and run weights, by cross-validation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np

from lmtune.arrays import Columns, Doubles, Integers
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_least
from lmtune.measures.evaluate import measure_settings
from lmtune.models.formula import Formula
from lmtune.models.parameter import Setting
from lmtune.progress import Count
from lmtune.showing import Framed
from lmtune.tuning.gradient import LOOSE_TOLERANCE, GradientTuner
from lmtune.tuning.space import ParameterSpace, space_for
from lmtune.tuning.surrogate import SurrogateTuner
from lmtune.tuning.tuner import FitProgress, Tuner

RIDGES = (0.1, 0.01, 0.001, 0.0001)
"""The default regularisation strengths, tried after the simpler formulas."""

_Step = tuple[str, ParameterSpace, float]
"""A step of the regularisation path: its name, the search space, and the regularisation strength."""


@dataclass(eq=False, repr=False)
class RidgeTuner(Tuner):
    """Fit term weights or run weights with a regularisation strength selected by cross-validation.

    The regularisation path begins with the formula's simpler forms (plain query, feedback without term
    weights, equal weights of runs) and continues with ever weaker penalties. Cross-validation within the
    training topics evaluates each step. The first step within `within` standard errors of the best one is
    selected (Breiman et al., Classification and Regression Trees, 1984, use one standard error), and then
    fitted on all training topics.

    Parameters
    ----------
    tuner : GradientTuner
        A `SurrogateTuner` or a `RankNetTuner`. Held-out topics are evaluated by the surrogate's measure, or
        AP for RankNet. The path sets the tuner's ``starts`` and ``ridge``.
    ridges : sequence of float
        Regularisation strengths, falling.
    folds : int
        Folds of the training topics; 2 or more, but at most one per topic.
    within : float
        Standard errors of the selection rule; 0 or more. On five collections, 0, 1/4, 1/2, 3/4 and 1 were
        about equally good for term weights.
    warm : bool
        Whether each fit starts at the result of the previous one (warm start).

    Attributes
    ----------
    step_ : str
        The selected step: ``"plain"`` or ``"feedback"`` for term weights, ``"equal"`` for run weights, or
        the regularisation strength.
    path_columns_ : dict of str to numpy.ndarray
        One row per step: its mean over held-out topics, the difference from the best step, and the standard
        error of the difference.
    path_ : pandas.DataFrame
        The same as a data frame.
    fitted_ : GradientTuner
        The tuner that was fitted with the selected step. Its attributes are also attributes of this object.
    converged_ : bool
        Whether that fit converged.
    """

    step_: str = field(init=False)
    path_columns_: Columns = field(init=False)
    path_ = Framed("path_columns_")
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
        **data: Any,
    ) -> Self:
        """Fit on topics of a pool (all judged ones by default), with the tuner's lists or pairs, if any.

        Raises
        ------
        InputError
            As for the tuner's `fit`; also if the pool's formula has no weights, or there are fewer than two
            topics.
        """
        check_least("too few folds", self.folds, 2)
        check_least("bad number of standard errors", self.within, 0)
        positions = pool.judged_positions(topics)
        if not pool.formula.simpler:
            raise InputError(
                "no weights to fit", value=pool.formula.name, accepted="a formula with term or run weights"
            )
        if positions.size < 2:
            raise InputError("too few topics to choose a ridge", value=positions.size, accepted="2 or more")
        report = self._report(progress)
        space = space_for(self.tuner.space, pool, positions)
        data = data or self.tuner.build_data(pool, space)
        steps = list(_steps(pool.formula, space, self.ridges))
        held_out = self._measure_held_out(pool, data, positions, steps, report)
        means = pool.mean(held_out.T, positions)
        best = int(means.argmax())
        differences = held_out[best] - held_out
        mean_differences = pool.mean(differences.T, positions)
        # The standard error of a weighted mean; with equal weights it is that of a paired t-test.
        shares = pool.weights(positions) / pool.weights(positions).mean()
        squares = shares**2 * (differences - mean_differences[:, None]) ** 2
        deviations = np.sqrt(squares.sum(axis=1) / (positions.size - 1))
        errors = deviations / math.sqrt(positions.size)
        chosen = int(np.argmax(mean_differences <= self.within * errors))
        first = 0 if self.warm else chosen  # Without warm starts, earlier steps have no effect.
        *earlier, tuner = self._fit_path(pool, data, positions, steps[first : chosen + 1])
        attributes = {name: value for name, value in vars(tuner).items() if name.endswith("_")}
        self.__dict__.update(attributes)
        self.step_, self.fitted_ = steps[chosen][0], tuner
        self.n_evaluations_ += self._held_out_evaluations + sum(fit.n_evaluations_ for fit in earlier)
        self._store_path([name for name, *_ in steps], means, errors, best)
        return self

    def refit(
        self, pool: CandidatePool, start: Setting, *, topics: Sequence[str] | None = None
    ) -> GradientTuner:
        """Fit the selected step to another pool of the same collection, starting at a setting."""
        fitted = self.fitted_
        space = space_for(fitted.space, pool).starting(start)
        changes = {"space": space, "measures": ()} | fitted.warm_start_params()
        return type(fitted)(**fitted.get_params() | changes).fit(pool, topics=topics)

    def _measure_held_out(
        self,
        pool: CandidatePool,
        data: dict[str, Any],
        positions: Integers,
        steps: Sequence[_Step],
        report: Count,
    ) -> Doubles:
        """Return the measure of each step on held-out topics, shape (steps, topics)."""
        values = np.empty((len(steps), positions.size))
        order = np.random.default_rng(self.tuner.seed).permutation(positions.size)
        self._held_out_evaluations = 0
        folds = min(self.folds, positions.size)
        for fold in range(folds):
            test = order[fold::folds]
            train = np.delete(positions, test)
            for step, tuner in enumerate(self._fit_path(pool, data, train, steps, LOOSE_TOLERANCE)):
                self._held_out_evaluations += tuner.n_evaluations_
                depth = self.tuner.depth
                test_values = measure_settings(
                    pool, tuner.best_params_, [tuner.selection_measure], topics=positions[test], depth=depth
                )
                values[step, test] = test_values[:, 0, 0]
            report(fold + 1, folds)
        return values

    def _fit_path(
        self,
        pool: CandidatePool,
        data: dict[str, Any],
        positions: Integers,
        steps: Sequence[_Step],
        tolerance: float | None = None,
    ) -> Iterator[GradientTuner]:
        """Fit the steps in order on topics, by position, and yield the fitted tuner of each.

        With warm starts, each fit begins at the result of the previous one. `tolerance` replaces the tuner's
        convergence tolerance, for fits that are only compared.
        """
        topics = [pool.topics[position] for position in positions.tolist()]
        start: dict[str, float] = {}
        is_first = True
        for number, (_, space, ridge) in enumerate(steps):
            changes: dict[str, Any] = {"space": space.starting(start) if self.warm else space}
            changes |= {"starts": 1, "ridge": ridge} | ({} if number == len(steps) - 1 else {"measures": ()})
            changes |= self.tuner.warm_start_params() if self.warm and not is_first else {}
            tuner = type(self.tuner)(**self.tuner.get_params() | changes)
            tuner.tolerance = tolerance or tuner.tolerance
            fitted = tuner.fit(pool, topics=topics, **data).best_params_
            # Gradients vanish at values that a simpler form fixes, so these are no initial values.
            start |= {parameter.name: fitted[parameter.name] for parameter in space.free}
            # The first fit with a free parameter is not a warm start.
            is_first = is_first and not space.free
            yield tuner

    def _store_path(self, names: Sequence[str], means: Doubles, errors: Doubles, best: int) -> None:
        """Set `path_columns_`; `best` is the position of the best step."""
        self.path_columns_ = {
            "step": np.array(names, object),
            "held out": means,
            "from the best": means - means[best],
            "standard error": errors,
        }


def _steps(formula: Formula, space: ParameterSpace, ridges: Sequence[float]) -> Iterator[_Step]:
    """Yield the path's steps: the simpler formulas, then penalties unless the last is the whole one."""
    if not all(a > b for a, b in itertools.pairwise((*ridges, 0.0))):
        raise InputError("bad ridges", value=list(ridges), accepted="falling strengths above 0")
    for name, fixed in formula.simpler:
        yield name, space.fixing(fixed), 0.0
    if formula.simpler[-1][1]:
        yield from ((f"{ridge:g}", space, ridge) for ridge in ridges)
