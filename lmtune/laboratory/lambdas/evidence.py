"""Results of the tests of a lambda-function: by point, by test, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["holds", "violated", "unclear"]

SAFETY = 10.0
"""A violation counts if it is more than so many times its estimated error."""

RESOLUTION = 1e-3
"""A test that finds none counts if its error is less than this share of the numbers' scale."""


@dataclass(frozen=True)
class Place:
    """One test's result, and where.

    Attributes
    ----------
    violation : float
        0 where the property holds exactly; signed where the sign has a meaning.
    error : float
        An estimate of how wrong the violation may be.
    scale : float
        How large the numbers are that it is made of.
    labels, scores : tuple of float
        The place.
    documents : tuple of int
        Those that matter, from 1.
    note : str
        The numbers, in words.
    """

    violation: float
    error: float
    scale: float
    labels: tuple[float, ...]
    scores: tuple[float, ...]
    documents: tuple[int, ...] = ()
    note: str = ""

    @property
    def relative(self) -> float:
        """The violation in units of the scale; 0 where all is 0."""
        return self.violation / self.scale if self.scale > 0.0 else 0.0

    @property
    def tolerance(self) -> float:
        """The relative violation that the error estimate explains."""
        return SAFETY * self.error / self.scale if self.scale > 0.0 else 0.0

    @property
    def outcome(self) -> Outcome:
        """The verdict of this one test."""
        if self.violation > SAFETY * self.error:
            return "violated"
        # Where all numbers are 0 nothing can be violated.
        return "holds" if SAFETY * self.error <= RESOLUTION * self.scale or self.scale == 0.0 else ("unclear")

    def where(self) -> str:
        """Write the place down."""
        parts = [f"labels {in_brackets(self.labels)}", f"scores {in_brackets(self.scores)}"]
        if self.documents:
            parts.append("documents " + ", ".join(map(str, self.documents)))
        return "; ".join([*parts, *([self.note] if self.note else [])])


@dataclass
class Evidence:
    """All results of one kind of test.

    Attributes
    ----------
    name : str
        What is tested.
    tests, violated, unclear : int
        How many, and how they came out.
    worst : Place, optional
        Of the significant violations the one that is largest relative to its scale; without any,
        the largest of the clear tests, or of all.
    """

    name: str
    tests: int = 0
    violated: int = 0
    unclear: int = 0
    worst: Place | None = None
    _key: tuple[int, float] = field(default=(-1, 0.0), repr=False)

    def add(self, result: Place) -> None:
        """Count one test."""
        outcome = result.outcome
        self.tests += 1
        self.violated += outcome == "violated"
        self.unclear += outcome == "unclear"
        key = ({"unclear": 0, "holds": 1, "violated": 2}[outcome], result.relative)
        if self.worst is None or key > self._key:
            self.worst, self._key = result, key

    @property
    def outcome(self) -> Outcome:
        """``"violated"`` if any test is; else ``"unclear"`` if more than half could not tell."""
        if self.violated:
            return "violated"
        return "unclear" if 2 * self.unclear > self.tests else "holds"


def in_brackets(values: Iterable[float]) -> str:
    """Write numbers down."""
    return "(" + ", ".join(f"{value:.6g}" for value in values) + ")"


Verdict = Literal["yes", "no", "undecided", "no cost"]

COST_TESTS = ("symmetry", "jumps", "loops", "trios", "paths")
CONVEXITY_TESTS = ("curvature", "kinks", "midpoints")
TESTS = (*COST_TESTS, *CONVEXITY_TESTS, "sum")
"""All tests; see `lmtune.laboratory.lambdas.examine`."""


@dataclass(frozen=True)
class Examination:
    """Results of the examination of a lambda-function.

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
        verdict = self._verdict(CONVEXITY_TESTS)
        return "undecided" if verdict == "yes" and self.has_cost == "undecided" else verdict

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
        return [name for name, evidence in self.evidence.items() if evidence.outcome == "violated"]

    def _verdict(self, names: Sequence[str]) -> Verdict:
        outcomes = {self.evidence[name].outcome for name in names if self.evidence[name].tests}
        if "violated" in outcomes:
            return "no"
        return "undecided" if "unclear" in outcomes else "yes"
