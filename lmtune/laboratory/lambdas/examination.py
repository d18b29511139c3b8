"""What an examination of a lambda-function came to: evidence by test, and the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lmtune.laboratory.lambdas.evidence import Evidence, Place

Verdict = Literal["yes", "no", "undecided", "no cost"]

COST_TESTS = ("symmetry", "jumps", "loops", "trios", "paths")
CONVEXITY_TESTS = ("curvature", "kinks", "midpoints")
TESTS = (*COST_TESTS, *CONVEXITY_TESTS, "sum")
"""What they are: see `lmtune.laboratory.lambdas.examine`."""


@dataclass(frozen=True)
class Examination:
    """What was found about a lambda-function.

    Attributes
    ----------
    name : str
        The function's.
    evidence : dict of str to Evidence
        By test, as `TESTS` names them; "trios" have no tests where no query has three documents.
    largest_slope : float
        The largest entry of J met, with its sign taken off: 0 for piecewise constant lambdas.
    lowest : Place
        Where the smallest eigenvalue of -(J + J') / 2 was met; its violation is minus that one.
    """

    name: str
    evidence: dict[str, Evidence]
    largest_slope: float
    lowest: Place | None

    @property
    def has_cost(self) -> Verdict:
        """``"no"`` if a test refutes it, ``"undecided"`` where tests cannot tell, or ``"yes"``."""
        return self._verdict(COST_TESTS)

    @property
    def convex(self) -> Verdict:
        """The same of convexity; ``"no cost"`` where there is nothing to be convex."""
        if self.has_cost == "no":
            return "no cost"
        found = self._verdict(CONVEXITY_TESTS)
        return "undecided" if found == "yes" and self.has_cost == "undecided" else found

    @property
    def sums_to_zero(self) -> Verdict:
        """Whether the lambdas of a query add up to 0."""
        return self._verdict(("sum",))

    @property
    def smallest_eigenvalue(self) -> float:
        """Of -(J + J') / 2, over all places."""
        return float("nan") if self.lowest is None else -self.lowest.violation

    def refuting(self) -> list[str]:
        """Return the names of the tests that are violated."""
        return [name for name, own in self.evidence.items() if own.outcome == "violated"]

    def _verdict(self, names: Sequence[str]) -> Verdict:
        outcomes = {self.evidence[name].outcome for name in names if self.evidence[name].tests}
        if "violated" in outcomes:
            return "no"
        return "undecided" if "unclear" in outcomes else "yes"


def in_words(has_cost: str, convex: str) -> str:
    """Say both verdicts in a few words."""
    if has_cost != "yes":
        return "no cost" if has_cost == "no" else "cost or none, undecided"
    return {"yes": "a convex cost", "no": "a cost that is not convex"}.get(convex, "a cost, convex or not")
