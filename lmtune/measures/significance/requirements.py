"""Requirements on the differences from a baseline, for a gate in continuous integration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lmtune.arrays import Doubles
from lmtune.errors import InputError, check_choice
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.comparison import NOISE, NOT_WORSE, Comparison
from lmtune.measures.significance.tests import check_margin, non_inferiority_tests, paired_differences
from lmtune.progress import quantity

LEAST = ">="
EACH = "each slice"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_FORM = re.compile(
    r"\s*(?P<measure>.*?\S)\s*"
    rf"(?:>=\s*(?P<least>{_NUMBER})|not\s+worse(?:\s+by\s+(?P<margin>{_NUMBER}))?)"
    r"(?:\s+in\s+(?P<place>.*\S))?\s*"
)
FORMS = (
    "'MEASURE >= DIFFERENCE' or 'MEASURE not worse by MARGIN', and if wanted 'in SLICE' or 'in each slice'"
)


class Requirement(NamedTuple):
    """A requirement on each run's mean difference from the baseline.

    Attributes
    ----------
    measure : str
        The measure's name.
    rule : {">=", "not worse"}
        Whether the observed difference, or its lower confidence bound, must reach the limit.
    limit : float
        The smallest observed difference that is accepted, or minus the margin of non-inferiority, which the
        bound must exceed.
    place : str
        A slice of topics, ``"each slice"``, or empty for all topics.
    """

    measure: str
    rule: str
    limit: float
    place: str = ""

    @classmethod
    def parse(cls, text: str, margin: float | None = None) -> Requirement:
        """Parse one of `FORMS`; `margin` is that of ``not worse`` without a number.

        Raises
        ------
        InputError
            If the text has another form, the measure is unknown or a cost, or the margin is missing or not
            positive.

        Examples
        --------
        >>> Requirement.parse("nDCG@10 >= -0.01")
        Requirement(measure='nDCG@10', rule='>=', limit=-0.01, place='')
        >>> Requirement.parse("AP not worse by 0.02 in short queries")
        Requirement(measure='AP', rule='not worse', limit=-0.02, place='short queries')
        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise InputError("bad requirement", value=text, accepted=FORMS)
        measure = parse_measure(found["measure"])
        if not measure.higher_is_better:
            accepted = "a measure whose higher values are better"
            raise InputError("the measure of a requirement is a cost", value=text, accepted=accepted)
        place = found["place"] or ""
        if found["least"]:
            return cls(str(measure), LEAST, float(found["least"]), place)
        margin = float(found["margin"]) if found["margin"] else margin
        if margin is None:
            accepted = "--margin 0.01, or 'not worse by 0.01'"
            raise InputError("a requirement without a margin", value=text, accepted=accepted)
        check_margin(margin)
        return cls(str(measure), NOT_WORSE, -margin, place)

    def __str__(self) -> str:
        rule = f"{LEAST} {self.limit:g}" if self.rule == LEAST else f"{NOT_WORSE} by {-self.limit:g}"
        return f"{self.measure} {rule}" + (f" in {self.place}" if self.place else "")


class Check(NamedTuple):
    """A requirement of one run on one set of topics, and whether it is met.

    Attributes
    ----------
    requirement : Requirement
        What is required; its place is the slice that was checked, or empty for all topics.
    system, baseline : str
        Names.
    topics : int
        The number of topics.
    difference : float
        The mean difference from the baseline.
    is_met : bool
        Whether the requirement is met.
    bound, confidence, power : float or None
        For ``not worse``, the one-sided lower confidence bound of the difference, its confidence after
        correction, and the probability that a run equal to the baseline passes.
    """

    requirement: Requirement
    system: str
    baseline: str
    topics: int
    difference: float
    is_met: bool
    bound: float | None = None
    confidence: float | None = None
    power: float | None = None

    def __str__(self) -> str:
        bound = "" if self.bound is None else f", lower bound {self.bound:+z.4f}"
        return (
            f"{'passed' if self.is_met else 'failed'}: {self.system}: {self.requirement}: difference "
            f"{self.difference:+z.4f}{bound}, required {'>=' if self.bound is None else '>'} "
            f"{self.requirement.limit:+.4f}, {quantity(self.topics, 'topic')}"
            + ("" if self.power is None else f", power {self.power:.2f}")
        )

    def record(self) -> dict[str, object]:
        """Return the fields as JSON values, at full precision."""
        return self._asdict() | {"requirement": str(self.requirement)} | self.requirement._asdict()


def check_requirements(
    comparison: Comparison,
    requirements: Iterable[str | Requirement],
    slices: Mapping[str, Comparison] | None = None,
) -> list[Check]:
    """Check requirements on the differences of all runs from the baseline.

    A run is not worse if the lower confidence bound of its mean difference exceeds minus the margin.
    All bounds are corrected together, over requirements, slices and runs, with the confidence and the
    correction of the comparison (`lmtune.measures.significance.tests.non_inferiority_tests`).

    Parameters
    ----------
    comparison : Comparison
        What `lmtune.compare` or `lmtune.compare_runs` returns, with the required measures.
    requirements : iterable of str or Requirement
        For texts see `Requirement.parse`; their default margin is that of the comparison.
    slices : mapping of str to Comparison, optional
        The comparisons of slices (`lmtune.measures.significance.comparison.compare_slices`).

    Returns
    -------
    list of Check
        By requirement, slice and run.

    Raises
    ------
    InputError
        If a requirement is invalid, its measure was not compared, its slice is unknown, or a test of
        non-inferiority has too few topics or another correction than Holm's or Bonferroni's.

    Examples
    --------
    >>> from lmtune import compare
    >>> compared = compare([0.1, 0.2, 0.5], {"new": [0.2, 0.4, 0.5]}, measures=["AP"])
    >>> [observed, bound] = check_requirements(compared, ["AP >= 0", "AP not worse by 0.01"])
    >>> print(observed)
    passed: new: AP >= 0: difference +0.1000, required >= +0.0000, 3 topics
    >>> bound.is_met, round(bound.bound, 4)
    (False, -0.0686)
    """
    options, places = comparison.options, {"": comparison} | dict(slices or {})
    checks, sides = list[Check](), list[tuple[Doubles, Doubles]]()
    for given in dict.fromkeys(requirements):
        required = Requirement.parse(given, options.margin) if isinstance(given, str) else given
        check_choice("a requirement on a measure that is not compared", required.measure, comparison.measures)
        if required.place and not slices:
            raise InputError("no slices for a requirement", value=str(required), accepted="--slices TSV")
        if required.place:
            check_choice("a requirement on an unknown slice", required.place, [*places, EACH][1:])
        column = comparison.measures.index(required.measure)
        for place in [*places][1:] if required.place == EACH else [required.place]:
            own, (baseline, *runs) = required._replace(place=place), places[place].values[..., column]
            for system, values in zip(comparison.systems[1:], runs, strict=True):
                difference = float(paired_differences(values, baseline).values.mean())
                is_met = difference >= own.limit - NOISE
                checks.append(Check(own, system, comparison.systems[0], baseline.size, difference, is_met))
                sides.append((values, baseline))
    strict = [i for i, check in enumerate(checks) if check.requirement.rule == NOT_WORSE]
    if not strict:
        return checks
    margins = [-checks[i].requirement.limit for i in strict]
    tests = non_inferiority_tests([sides[i] for i in strict], margins, options.confidence, options.correction)
    for i, test in zip(strict, tests, strict=True):
        figures = {name: getattr(test, name) for name in ("bound", "confidence", "power")}
        checks[i] = checks[i]._replace(is_met=test.is_shown, **figures)
    return checks
