"""Minimise the RankNet cost of a formula by its analytic gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.measure import Measure
from lmtune.progress import counted
from lmtune.tuning.descent import Point
from lmtune.tuning.gradient import OPTIMIZERS, Evaluations, GradientTuner
from lmtune.tuning.pairs import STAND_INS, Pairs
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.tuner import Progress, SearchRecord


@dataclass(eq=False, repr=False)
class RankNetTuner(GradientTuner):
    """Fit a formula's parameters to preference pairs (Metzler, SIGIR 2007).

    The cost is minimised in unbounded coordinates from several starts; the lowest end wins.

    Parameters
    ----------
    optimizer, space, starts, seed, ridge, measures, depth
        As of `lmtune.tuning.gradient.GradientTuner`.
    rel : int
        The smallest gain that is relevant.
    stand_ins : int
        Where no document is judged nonrelevant: how many unjudged ones of each topic stand in.

    Attributes
    ----------
    n_pairs_ : int
        Pairs in the cost.
    pairs_rule_ : str
        Where the nonrelevant documents came from.

    Notes
    -----
    Costs are sums over pairs; the lowest end of all starts wins.

    Examples
    --------
    >>> tuner = RankNetTuner(seed=0).fit(pool, topics=train)  # doctest: +SKIP
    >>> tuner.best_params_  # doctest: +SKIP
    """

    n_pairs_: int = field(init=False)
    pairs_rule_: str = field(init=False)

    _: KW_ONLY
    optimizer: str = "coordinate-descent"
    space: ParameterSpace | None = None
    starts: int = 4
    seed: int = 0
    ridge: float = 0.0
    rel: int = 1
    stand_ins: int = STAND_INS
    measures: Sequence[str | Measure] = ()
    depth: int = DEPTH

    def fit(
        self,
        pool: CandidatePool,
        *,
        topics: Sequence[str] | None = None,
        pairs: Pairs | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit on topics of a pool (all by default).

        Parameters
        ----------
        pool : CandidatePool
            The collection.
        topics : sequence of str, optional
            Topics to fit on.
        pairs : Pairs, optional
            Pairs of this pool, built before with this tuner's `rel` and `stand_ins`.
        progress : callable or bool, optional
            Called with (starts done, starts in all); True draws a bar.

        Raises
        ------
        InputError
            For unknown topics, topics without a pair, pairs built otherwise, or a constructor
            argument outside its domain.
        """
        measures = self._check()
        report = counted(progress, type(self).__name__)
        record = SearchRecord(pool, None, space=self.space, topics=topics, repeats=True)
        places, space = record.places, record.space
        pairs = pairs or self.ready(pool, space)["pairs"]
        if (pairs.rel, pairs.stand_ins) != (self.rel, self.stand_ins) or pairs.pool is not pool:
            raise InputError(
                "the pairs were built otherwise",
                value={"rel": pairs.rel, "stand_ins": pairs.stand_ins},
                accepted=f"this pool's, with rel={self.rel} and stand_ins={self.stand_ins}",
            )
        n_pairs = int(pairs.per_topic[places].sum())
        if n_pairs == 0:
            raise InputError(
                "RankNet has no pair to fit on",
                value=[pool.topics[place] for place in places[:3]],
                accepted="a topic with a relevant and a nonrelevant document",
            )

        penalty = self._penalty(pool, places)

        def objective(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            setting = space.from_unbounded(x)
            cost, (pull, pulled) = pairs.cost(setting, topics=places), penalty.at(setting)
            return cost.value / n_pairs + pull, space.chain(cost.gradient / n_pairs + pulled, setting)

        evaluations = Evaluations(objective, record.begin)
        converged = []
        minima: list[Point] = []
        for start, x in enumerate(self._starts(space)):
            box = space.unbounded_box
            found = OPTIMIZERS[self.optimizer](evaluations, x, box, minima, flat=self.flat)
            minima += found.points[-1:] if found.converged else []
            evaluations.record(record, start, found.points, scale=n_pairs)
            converged.append(found.converged)
            if report is not None:
                report(start + 1, self.starts)
        self._close(record, measures)
        self.converged_ = converged[record.starts[record.best]]
        self.n_pairs_ = n_pairs
        self.n_evaluations_ = len(evaluations)
        self.pairs_rule_ = pairs.rule
        return self

    def ready(self, pool: CandidatePool, space: ParameterSpace) -> dict[str, Any]:  # noqa: ARG002
        """Return the pairs."""
        return {"pairs": Pairs.build(pool, rel=self.rel, stand_ins=self.stand_ins)}

    @property
    def judge(self) -> Measure:
        """AP, for the pairs know no measure."""
        return Measure("AP", rel=self.rel)

    def _starts(self, space: ParameterSpace) -> list[NDArray[np.float64]]:
        rng = np.random.default_rng(self.seed)
        settings = [space.start, *(space.random(rng) for _ in range(self.starts - 1))]
        return [space.to_unbounded(setting) for setting in settings]
