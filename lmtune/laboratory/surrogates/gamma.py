"""Running estimates in SONG: gamma (Qiu et al. 2022, D.3, figure 11) and how u follows g (appendix F)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lmtune.errors import InputError
from lmtune.laboratory.surrogates.long_lists import QUICK, TRAINED, LongLists
from lmtune.laboratory.surrogates.sweeps import Case, Pair, number
from lmtune.options import option


@dataclass(frozen=True)
class Gamma(LongLists):
    """What to sweep, and how."""

    name: ClassVar[str] = "gamma"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "gammas": (0.3, 1.0)}
    axis: ClassVar[str] = "gamma"
    value_title: ClassVar[str] = "nDCG by the running estimates' gamma"
    course_title: ClassVar[str] = "Trainings by epoch at several gammas"
    courses: ClassVar[tuple[str, ...]] = ("objective", "validation")

    gammas: tuple[float, ...] = option(
        (0.1, 0.3, 0.5, 0.7, 0.9, 1.0), "in (0, 1]; two or more cases in all", above=0, high=1, fewest=1
    )
    estimators: tuple[str, ...] = option(
        ("moving-average",), "moving-average, storm, msvr, msvr-sp: how estimates move", fewest=1
    )
    loss: str = option("song", "song, k-song, or cross-entropy, the warm-up's", choices=TRAINED)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.gammas) * len(self.estimators) < 2:
            accepted = "two gammas or two estimators at least"
            raise InputError("nothing to compare", value=number(self.gammas[0]), accepted=accepted)

    def cases(self) -> list[Case]:
        """Return one training an estimator and gamma."""
        return [
            self.song_case(
                self._label(own, gamma),
                {"gamma": gamma} | ({} if own == "moving-average" else {"estimator": own}),
                loss=self.loss,
            )
            for own in self.estimators
            for gamma in self.gammas
        ]

    def comparisons(self) -> list[list[Pair]]:
        """Compare every gamma with the largest, and at each gamma every estimator with the first."""
        last, first = max(self.gammas), self.estimators[0]
        by_gamma = [
            (self._label(own, gamma), self._label(own, last))
            for own in self.estimators
            for gamma in self.gammas
            if gamma != last
        ]
        by_estimator = [
            (self._label(own, gamma), self._label(first, gamma))
            for own in self.estimators[1:]
            for gamma in self.gammas
        ]
        return [by_gamma, by_estimator]

    def _label(self, estimator: str, gamma: float) -> str:
        return number(gamma) if len(self.estimators) == 1 else f"{number(gamma)}, {estimator}"
