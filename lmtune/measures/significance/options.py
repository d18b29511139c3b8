"""How systems are compared: tests, corrections, levels."""

from __future__ import annotations

from dataclasses import dataclass

from lmtune.errors import InputError
from lmtune.measures.significance.effects import check_margin
from lmtune.measures.significance.sign_patterns import Alternative
from lmtune.measures.significance.tests import adjusted, check_alternative, check_drawing

TESTS = ("t", "randomization", "wilcoxon")


@dataclass(frozen=True)
class ComparisonOptions:
    """How systems are compared.

    Attributes
    ----------
    tests : tuple of str
        Of ``"t"``, ``"randomization"`` and ``"wilcoxon"``; the first decides what counts as
        significant.
    correction : {"holm", "bonferroni", "none"}
        For the number of contrasts on each measure.
    alternative : {"two-sided", "greater", "less"}
        ``"greater"`` asks only whether runs are better than the baseline.
    confidence : float
        Of the intervals; 1 - confidence is the significance level.
    margin : float or None
        The smallest difference of means that matters: adds tests that a run is not worse than
        the baseline, and equivalent to it.
    pairwise : bool
        Compare all pairs of systems, not just each run with the baseline.
    permutations, seed : int
        Of the randomization test.
    hedges : bool
        Remove the bias of few topics from effect sizes.
    """

    tests: tuple[str, ...] = ("t",)
    correction: str = "holm"
    alternative: Alternative = "two-sided"
    confidence: float = 0.95
    margin: float | None = None
    pairwise: bool = False
    permutations: int = 100_000
    seed: int = 0
    hedges: bool = False

    @property
    def level(self) -> float:
        """The significance level, 1 - confidence."""
        return round(1.0 - self.confidence, 12)

    def check(self) -> None:
        """Raise InputError for unknown names and figures outside their domains."""
        check_alternative(self.alternative)
        adjusted([], self.correction)
        unknown = [name for name in self.tests if name not in TESTS]
        if unknown or not self.tests or len(set(self.tests)) < len(self.tests):
            raise InputError(
                "unknown test" if unknown else "bad tests",
                value=unknown[0] if unknown else self.tests,
                accepted=f"{', '.join(TESTS)}, each once",
            )
        if self.pairwise and self.alternative != "two-sided":
            raise InputError(
                "a one-sided alternative for all pairs", value=self.alternative, accepted="two-sided"
            )
        if not 0.0 < self.confidence < 1.0:
            raise InputError("bad confidence", value=self.confidence, accepted="between 0 and 1")
        if self.margin is not None:
            check_margin(self.margin)
        check_drawing(self.permutations, self.seed)
