"""Direct search by estimated gradients: SPSA and FDSA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Self

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, check_least
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.measure import MeasureLike, parse_measure
from lmtune.models.parameter import Setting
from lmtune.progress import counted
from lmtune.tuning.gradient_free import Gains, check_even, minimise
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import EVALUATIONS, FEWEST, Progress, SearchRecord, Tuner

# In unbounded coordinates: wide enough to see across a measure's steps, and no step leaps over
# a hill.
_WIDTH, _FIRST_STEP, _LONGEST_STEP = 0.4, 0.8, 1.0
_MOST_FOR_GAINS = 20


@dataclass(eq=False, repr=False)
class _Search(Tuner):
    """What SPSA and FDSA share.

    They descend in the coordinates of `ParameterSpace.unbounded_box`, of which those that the space
    fixes are left out.
    """

    method: ClassVar[str]

    gains_: Gains | None = field(init=False)

    measure: MeasureLike = "AP"
    _: KW_ONLY
    space: ParameterSpace | None = None
    start: Setting | None = None
    evaluations: int = EVALUATIONS
    gains: Gains | None = None
    seed: int = 0
    depth: int = DEPTH

    @property
    def _per_step(self) -> int | None:
        return None

    def fit(
        self, pool: CandidatePool, *, topics: Sequence[str] | None = None, progress: Progress | None = None
    ) -> Self:
        """Search on topics of a pool (all judged ones by default).

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        topics : sequence of str, optional
            Topics to search on.
        progress : callable or bool, optional
            Called with (evaluations made, evaluations in all); True draws a bar.

        Raises
        ------
        InputError
            For unknown topics, or a constructor argument outside its domain.
        """
        if self.evaluations < FEWEST:
            raise InputError("too few evaluations", value=self.evaluations, accepted=f"{FEWEST} or more")
        check_least("bad seed", self.seed, 0)
        report = counted(progress, type(self).__name__)
        record = SearchRecord(
            pool, parse_measure(self.measure), space=self.space, topics=topics, depth=self.depth, repeats=True
        )
        space = record.space
        box = np.array(space.unbounded_box)
        free = np.flatnonzero(box[:, 0] < box[:, 1])
        at = space.to_unbounded(space.start if self.start is None else space.vector(self.start))

        def objective(points: Doubles) -> Doubles:
            """Return the measure's mean at each point, below 0: lower is better."""
            whole = np.repeat(at[None], len(points), axis=0)
            whole[:, free] = points
            found = record.measure(np.array([space.from_unbounded(x) for x in whole]))
            if report is not None:
                report(len(record.values), self.evaluations)
            return -np.array(found)

        record.steps = self._descend(objective, at[free], box[free])
        record.close(self)
        return self

    def _descend(self, objective: Callable[[Doubles], Doubles], start: Doubles, box: Doubles) -> list[int]:
        """Spend the budget; return the step that each evaluation was for, 0 before the first."""
        self.gains_ = self.gains
        if not start.size:  # The space is a single setting.
            objective(start[None])
            return [0]
        per_step = self._per_step or 2 * start.size
        bounds = box[:, 0], box[:, 1]
        spent = 0
        if self.gains_ is None:
            spent = max(2, min(_MOST_FOR_GAINS, self.evaluations // 20 * 2))
            self.gains_ = Gains.practical(
                objective,
                start,
                steps=-(-(self.evaluations - spent - 2) // per_step),
                first_step=_FIRST_STEP,
                c=_WIDTH,
                evaluations=spent,
                seed=self.seed,
                box=bounds,
                together=True,
            )
        found = minimise(
            objective,
            start,
            method=self.method,
            evaluations_per_step=per_step,
            budget=self.evaluations - spent,
            gains=self.gains_,
            seed=self.seed,
            box=bounds,
            longest_step=_LONGEST_STEP,
            together=True,
        )
        numbers = np.searchsorted(found.spent, np.arange(1, found.evaluations + 1))
        return [0] * spent + [min(int(number), found.steps) for number in numbers]


@dataclass(eq=False, repr=False)
class SPSA(_Search):
    """Climb a measure along gradients estimated by simultaneous perturbations.

    The measure is the objective itself; `lmtune.tuning.gradient_free.minimise` descends its negative in
    unbounded coordinates. What is returned is the best setting that was measured.

    Parameters
    ----------
    measure : str, or an object of ir_measures
        What to maximise, in ir_measures' or trec_eval's spelling.
    space : ParameterSpace
        The range of each parameter; the model's own by default.
    start : mapping of str to float, optional
        Moved into the range; by default the space's `ParameterSpace.start`.
    evaluations : int
        Settings to measure in all, 8 or more; an even number is spent to the last.
    gains : lmtune.tuning.gradient_free.Gains, optional
        By default `Gains.practical`, which spends up to 20 evaluations of the budget.
    seed : int
        For the perturbations.
    depth : int
        Run depth.
    evaluations_per_step : int
        F of SPSA:F, even: F/2 perturbations are averaged.

    Attributes
    ----------
    gains_ : Gains or None
        Those that were used; None where the space is a single setting, which is measured once.

    Examples
    --------
    >>> tuner = SPSA("AP", evaluations=100, seed=0).fit(pool, topics=train)  # doctest: +SKIP
    >>> tuner.best_params_  # doctest: +SKIP
    """

    method = "spsa"

    evaluations_per_step: int = field(default=2, kw_only=True)

    @property
    def _per_step(self) -> int:
        return check_even(self.evaluations_per_step)


class FDSA(_Search):
    """Climb a measure along gradients estimated one coordinate at a time.

    As `SPSA`, with two evaluations for each parameter that the space leaves free in a step, and
    the budget spent but for what no longer makes a step. Parameters and attributes are those of
    `SPSA`, without `evaluations_per_step`; the seed is the gains' alone.
    """

    method = "fdsa"


SEARCHES: dict[str, type[SPSA | FDSA]] = {"spsa": SPSA, "fdsa": FDSA}
"""By the names of the command line."""
