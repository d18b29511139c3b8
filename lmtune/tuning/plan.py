"""How an experiment searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from lmtune.errors import InputError
from lmtune.measures.evaluate import DEPTH
from lmtune.measures.measure import Measure
from lmtune.models.model import find_model
from lmtune.models.two_stage import require_two_stage
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
    ranges : mapping of str to (low, high)
        Where to look for parameters, by name, where that differs from the model's own ranges.
    grid : tuple of int
        Grid points along each parameter.
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
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    grid: tuple[int, ...] = (20, 26)
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
        _ = self.space  # the ranges are the model's
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
            require_two_stage(find_model(self.model).formula, "the certificate's proof")
            for measure in self.measures:
                Problem.check(measure)

    def as_record(self) -> dict[str, Any]:
        """Return the plan as JSON has it."""
        record = asdict(self)
        record.pop("ranges")
        space = {
            f"{name}_{end}": bound
            for name, bounds in self.space.ranges.items()
            for end, bound in zip(("low", "high"), bounds, strict=True)
        }
        names = [str(measure) for measure in self.measures]
        return {**record, "measures": names, "space": space}

    @cached_property
    def space(self) -> ParameterSpace:
        """The range of each parameter for every method."""
        return ParameterSpace.of(self.model, self.ranges)

    @property
    def steps(self) -> tuple[Measure | None, ...]:
        """What a fold takes: RankNet, which knows no measure, then the measures."""
        return None, *self.measures
