"""Requirements: their grammar, and bounds and decisions against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lmtune import compare
from lmtune.errors import InputError
from lmtune.measures.significance.comparison import ComparisonOptions, compare_slices
from lmtune.measures.significance.requirements import Requirement, check_requirements
from lmtune.measures.significance.tests import non_inferiority_tests

MARGINS = st.sampled_from([0.01, 0.05, 0.2])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nDCG@10 >= -0.01", ("nDCG@10", ">=", -0.01, "")),
        ("ndcg@10>=+.5", ("nDCG@10", ">=", 0.5, "")),
        ("map >= 1e-3 in each slice", ("AP", ">=", 0.001, "each slice")),
        (" RBP(rel=2, p=0.9)  not  worse in a b ", ("RBP(rel=2, p=0.9)", "not worse", -0.03, "a b")),
        ("P@5 not worse by 0.02", ("P@5", "not worse", -0.02, "")),
        ("P@5 not worse by 0.02 in in", ("P@5", "not worse", -0.02, "in")),
    ],
)
def test_grammar(text: str, expected: tuple[object, ...]) -> None:
    parsed = Requirement.parse(text, margin=0.03)
    assert parsed == expected
    assert Requirement.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("nDCG@10", "accepted: 'MEASURE >= DIFFERENCE' or 'MEASURE not worse by MARGIN'"),
        ("nDCG@10 > 0", "bad requirement"),
        ("nDCG@10 >= much", "bad requirement"),
        ("nDCG@10 >= nan", "bad requirement"),
        ("nDCG@10 not worse by 0.01 on short", "bad requirement"),
        (">= 0", "bad requirement"),
        ("Magic@3 >= 0", "'Magic@3'"),
        ("nDCG@10 not worse", "accepted: --margin 0.01, or 'not worse by 0.01'"),
        ("nDCG@10 not worse by 0", "bad margin: 0.0"),
        ("nDCG@10 not worse by -0.01", "bad margin: -0.01"),
    ],
)
def test_refused_texts(text: str, part: str) -> None:
    with pytest.raises(InputError) as refused:
        Requirement.parse(text)
    assert part in str(refused.value)


def holm_by_hand(p_values: list[float], level: float) -> tuple[list[bool], list[float]]:
    """Step down from the smallest p-value; return what is rejected, and the level of each."""
    rejected, levels, stopped = [False] * len(p_values), [level] * len(p_values), 0.0
    for step, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        levels[i] = stopped or level / (len(p_values) - step)
        rejected[i] = not stopped and p_values[i] < levels[i]
        if not rejected[i]:
            stopped = levels[i]
    return rejected, levels


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(3, 40), st.lists(MARGINS, min_size=1, max_size=6))
def test_bounds_are_those_of_scipy(seed: int, topics: int, margins: list[float]) -> None:
    rng = np.random.default_rng(seed)
    differences = rng.normal(0.02, 0.1, (len(margins), topics))
    sides = [(0.5 + one, np.full(topics, 0.5)) for one in differences]
    tested = [
        stats.ttest_1samp(one, -margin, alternative="greater")
        for one, margin in zip(differences, margins, strict=True)
    ]
    p = [float(one.pvalue) for one in tested]
    rejected, levels = holm_by_hand(p, 0.1)
    by_correction = {
        "holm": (rejected, levels),
        "bonferroni": ([one < 0.1 / len(p) for one in p], [0.1 / len(p)] * len(p)),
        "none": ([one < 0.1 for one in p], [0.1] * len(p)),
    }
    for correction, (shown, own_levels) in by_correction.items():
        found = non_inferiority_tests(sides, margins, 0.9, correction)
        assert [one.is_shown for one in found] == shown
        assert [one.is_shown for one in found] == [
            one.bound > -margin for one, margin in zip(found, margins, strict=True)
        ]
        for one, margin, own, level in zip(found, margins, differences, own_levels, strict=True):
            shift = margin / (own.std(ddof=1) / np.sqrt(topics))
            power = stats.nct.sf(stats.t.isf(level, topics - 1), topics - 1, shift)
            assert one.power == pytest.approx(power, abs=1e-6)
        for one, test, level in zip(found, tested, own_levels, strict=True):
            assert one.confidence == pytest.approx(1.0 - level)
            assert one.bound == pytest.approx(test.confidence_interval(1.0 - level).low, abs=1e-12)


def test_equal_differences() -> None:
    baseline = np.array([0.1, 0.4, 0.7, 0.2])
    found = non_inferiority_tests([(baseline + shift, baseline) for shift in (0.0, -0.01, -0.02)], [0.01] * 3)
    assert [one.is_shown for one in found] == [True, False, False]
    assert [one.bound for one in found] == pytest.approx([0.0, -0.01, -0.02])


@pytest.fixture
def compared() -> object:
    rng = np.random.default_rng(3)
    baseline = rng.random((12, 2))
    runs = {"better": baseline + rng.random((12, 2)) * 0.1, "worse": baseline - rng.random((12, 2)) * 0.2}
    topics = [str(t) for t in range(12)]
    return compare(baseline, runs, baseline="old", measures=["AP", "P@5"], topics=topics)


def test_checks_by_slice(compared) -> None:  # type: ignore[no-untyped-def]
    slices = {"low": ["0", "1", "2", "99"], "high": [str(t) for t in range(5, 12)]}
    parts = compare_slices(compared, slices)
    texts = ["AP >= -0.05 in each slice", "P@5 not worse by 0.01", "AP not worse by 0.3 in high"]
    checks = check_requirements(compared, [*texts, texts[0]], parts)
    assert [(check.requirement.place, check.system, check.topics) for check in checks] == [
        *[
            (place, system, size)
            for place, size in (("low", 3), ("high", 7))
            for system in ("better", "worse")
        ],
        *[("", "better", 12), ("", "worse", 12), ("high", "better", 7), ("high", "worse", 7)],
    ]
    assert [check.is_met for check in checks] == [True, False, True, False, True, False, True, True]
    high = compared.values[:, 5:, 0]
    assert checks[-1].difference == pytest.approx((high[2] - high[0]).mean())
    # Four bounds: the smallest two p-values are tested at 0.05 / 4 and 0.05 / 3, and so on.
    assert sorted(check.confidence for check in checks[4:]) == pytest.approx(  # type: ignore[type-var]
        [0.95, 1 - 0.05 / 2, 1 - 0.05 / 3, 1 - 0.05 / 4]
    )
    alone = compare_slices(compared, {"low": ["0", "1", "2"]})["low"].contrasts[0]
    for part in parts.values():  # intervals hold for both slices and both runs
        assert part.contrasts[0].interval_confidence == pytest.approx(1 - 0.05 / 4)
    assert alone.interval_confidence == pytest.approx(1 - 0.05 / 2)


def test_the_limit_itself_is_accepted() -> None:
    compared = compare([0.3, 0.3], {"new": [0.2, 0.4 - 0.02]}, measures=["AP"])
    assert compared.contrasts[0].difference != -0.01  # by rounding
    assert [check.is_met for check in check_requirements(compared, ["AP >= -0.01"])] == [True]
    assert [check.is_met for check in check_requirements(compared, ["AP >= -0.0099"])] == [False]


def test_refusals(compared) -> None:  # type: ignore[no-untyped-def]
    parts = compare_slices(compared, {"low": ["0", "1", "2"]})
    for text, slices, part in (
        ("RR >= 0", parts, "not compared: 'RR'; accepted: AP, P@5"),
        ("AP >= 0 in high", parts, "unknown slice: 'high'; accepted: low, each slice"),
        ("AP >= 0 in each slice", None, "no slices for a requirement: 'AP >= 0 in each slice'"),
    ):
        with pytest.raises(InputError) as refused:
            check_requirements(compared, [text], slices)
        assert part in str(refused.value)
    with pytest.raises(InputError, match="too few topics in slice 'low': 2"):
        compare_slices(compared, {"low": ["0", "1"]})
    with pytest.raises(InputError, match="no slice has a compared topic"):
        compare_slices(compared, {"low": ["77"]})
    options = ComparisonOptions(correction="bh")
    other = compare([0.1, 0.2, 0.3], {"new": [0.2, 0.1, 0.3]}, options, measures=["AP"])
    with pytest.raises(InputError, match="no lower bounds with this correction: 'bh'"):
        check_requirements(other, ["AP not worse by 0.01"])
