"""What tests of a lambda-function came to, and what that says."""

from __future__ import annotations

from collections.abc import Iterable
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
        """What this one test says."""
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

    def add(self, place: Place) -> None:
        """Count one test."""
        outcome = place.outcome
        self.tests += 1
        self.violated += outcome == "violated"
        self.unclear += outcome == "unclear"
        key = ({"unclear": 0, "holds": 1, "violated": 2}[outcome], place.relative)
        if self.worst is None or key > self._key:
            self.worst, self._key = place, key

    @property
    def outcome(self) -> Outcome:
        """``"violated"`` if any test is; else ``"unclear"`` if more than half could not tell."""
        if self.violated:
            return "violated"
        return "unclear" if 2 * self.unclear > self.tests else "holds"


def in_brackets(values: Iterable[float]) -> str:
    """Write numbers down."""
    return "(" + ", ".join(f"{value:.6g}" for value in values) + ")"
