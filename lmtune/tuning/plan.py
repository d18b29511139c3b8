"""How an experiment searches."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from lmtune.errors import InputError
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.measure import Measure
from lmtune.models.model import find_model
from lmtune.tuning.certificate.optimum import check_tolerance
from lmtune.tuning.certificate.problem import Problem
from lmtune.tuning.ranknet import OPTIMIZERS
from lmtune.tuning.result import ALSO
from lmtune.tuning.space import ParameterSpace
from lmtune.tuning.spsa import EVALUATIONS, FEWEST

_LEAST = {
    "ascents": 1,
    "restarts": 0,
    "starts": 1,
    "rel": 1,
    "negatives_depth": 1,
    "seed": 0,
    "depth": 1,
    "evaluations": FEWEST,
}


@dataclass(frozen=True)
class Plan:
    """How an experiment searches.

    Attributes
    ----------
    measures : tuple of Measure
        The table's measures.
    model : str
        A name in `lmtune.models.model.MODELS`.
    space : ParameterSpace
        The range of lambda and mu for every method: for a model that fixes one of them,
        ``ParameterSpace.of(model)``.
    grid : tuple of int
        Grid points along lambda and mu.
    ascents, restarts : int
        Coordinate ascents from the best grid points, and from random ones.
    optimizer : str
        RankNet's; see `RankNetTuner`.
    starts : int
        RankNet's starts.
    validation : float
        The share of training topics held back to stop RankNet on, 0 for none; adds the row
        ``RankNet-val``.
    rel : int
        The smallest gain that is relevant to RankNet.
    negatives_depth : int
        See `RankNetTuner`.
    seed : int
        Of every random choice.
    depth : int
        Run depth.
    also : tuple of str
        Further methods, ``"spsa"`` and ``"fdsa"``, each a row of the table.
    evaluations : int
        Their budget, a fold and measure; see `SPSA`.
    certify : float or None
        Prove Optimal to be this near the best possible; see `CertifiedOptimum`.
    """

    measures: tuple[Measure, ...]
    model: str = "two-stage"
    space: ParameterSpace = field(default_factory=ParameterSpace)
    grid: tuple[int, int] = (20, 26)
    ascents: int = 3
    restarts: int = 2
    optimizer: str = "coordinate-descent"
    starts: int = 4
    validation: float = 0.0
    rel: int = 1
    negatives_depth: int = 100
    seed: int = 0
    depth: int = DEPTH
    also: tuple[str, ...] = ()
    evaluations: int = EVALUATIONS
    certify: float | None = None

    def __post_init__(self) -> None:
        self.space.require(find_model(self.model))
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise InputError(
                    f"{name.replace('_', ' ')} is outside its domain",
                    value=getattr(self, name),
                    accepted=f"{least} or more",
                )
        if self.optimizer not in OPTIMIZERS:
            raise InputError("unknown optimizer", value=self.optimizer, accepted=", ".join(OPTIMIZERS))
        for name in self.also:
            if name not in ALSO or self.also.count(name) > 1:
                raise InputError(
                    "no such further method, or one named twice", value=name, accepted=", ".join(ALSO)
                )
        if not 0.0 <= self.validation < 1.0:
            raise InputError(
                "the validation share is outside its domain",
                value=self.validation,
                accepted="0 (none) to below 1",
            )

        if self.certify is not None:
            check_tolerance(self.certify)
            find_model(self.model).formula.require_two_stage("the certificate's proof")
            for measure in self.measures:
                Problem.check(measure)

    def as_record(self) -> dict[str, Any]:
        """Return the plan as JSON has it."""
        names = [str(measure) for measure in self.measures]
        return {**asdict(self), "measures": names}

    @property
    def steps(self) -> tuple[Measure | None, ...]:
        """What a fold takes: RankNet, which knows no measure, then the measures."""
        return None, *self.measures
