"""How systems are compared: tests, corrections, levels."""

from __future__ import annotations

from dataclasses import dataclass

from lmtune.errors import InputError
from lmtune.measures.significance.sign_patterns import Alternative
from lmtune.measures.significance.tests import ALTERNATIVES, CORRECTIONS
from lmtune.options import check as check_options
from lmtune.options import option, usual

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
        Of the intervals, all together where p-values are corrected; 1 - confidence is the
        significance level.
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

    tests: tuple[str, ...] = usual(
        ("t",),
        "t, randomization or wilcoxon; several: the first decides.",
        choices=TESTS,
        flag="--test",
        separator=None,
    )
    correction: str = usual("holm", "holm, bonferroni or none.", choices=CORRECTIONS)
    alternative: Alternative = option("two-sided", "two-sided, greater or less.", choices=ALTERNATIVES)
    confidence: float = option(
        0.95, "Of intervals; 1 - confidence is the significance level.", above=0, below=1
    )
    margin: float | None = option(
        None, "A difference that does not matter: also test not worse, equivalent.", above=0
    )
    pairwise: bool = usual(False, "Compare all pairs, not just with the baseline.")
    permutations: int = option(100_000, "Random sign patterns of the randomization test.", low=1)
    seed: int = option(0, "Of the randomization test.", low=0)
    hedges: bool = option(False, "Remove the bias of few topics from effect sizes.", flag="")

    @property
    def level(self) -> float:
        """The significance level, 1 - confidence."""
        return round(1.0 - self.confidence, 12)

    def check(self) -> None:
        """Raise InputError for unknown names and figures outside their domains."""
        check_options(self)
        if not self.tests or len(set(self.tests)) < len(self.tests):
            raise InputError("bad tests", value=self.tests, accepted=f"{', '.join(TESTS)}, each once")
        if self.pairwise and self.alternative != "two-sided":
            raise InputError(
                "a one-sided alternative for all pairs", value=self.alternative, accepted="two-sided"
            )
