"""Comparisons of several systems: figures, corrections, marks, degenerate data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import lmtune
from lmtune.errors import InputError
from lmtune.measures.significance.comparison import ComparisonOptions
from lmtune.measures.significance.tukey import randomized_hsd, tukey_hsd

RNG = np.random.default_rng(7)
BASE = RNG.random((40, 2))
_STATSMODELS = {"holm": "holm", "bonferroni": "bonferroni", "bh": "fdr_bh"}
RUNS = {f"r{i}": np.clip(BASE + RNG.normal(0.02 * i, 0.1, BASE.shape), 0, 1) for i in range(4)}


def test_each_figure_is_the_librarys() -> None:
    found = lmtune.compare(
        BASE,
        RUNS,
        ComparisonOptions(tests=("t", "wilcoxon", "randomization"), margin=0.05, permutations=2000),
        measures=["AP", "P@10"],
    )
    assert found.systems == ("baseline", "r0", "r1", "r2", "r3")
    assert found.family == 4
    assert [(c.measure, c.system) for c in found.contrasts] == [(m, r) for m in ("AP", "P@10") for r in RUNS]
    for contrast in found.contrasts:
        m = ("AP", "P@10").index(contrast.measure)
        a, b = RUNS[contrast.system][:, m], BASE[:, m]
        t = stats.ttest_rel(a, b)
        assert contrast.mean == pytest.approx(a.mean(), rel=1e-12)
        assert contrast.against_mean == pytest.approx(b.mean(), rel=1e-12)
        assert contrast.difference == pytest.approx((a - b).mean(), rel=1e-12)
        assert contrast.relative == pytest.approx((a - b).mean() / b.mean(), rel=1e-12)
        assert contrast.wins == (a > b).sum()
        assert contrast.wins + contrast.ties + contrast.losses == 40
        assert contrast.tested["t"].p_value == pytest.approx(t.pvalue, rel=1e-10)
        expected = stats.wilcoxon(a, b)
        assert contrast.tested["wilcoxon"].p_value == pytest.approx(expected.pvalue, rel=1e-10)
        # Four contrasts hold together: each interval is Bonferroni's.
        low, high = t.confidence_interval(1 - 0.05 / 4)
        assert contrast.interval == pytest.approx((low, high), rel=1e-10)
        assert contrast.effect_size == pytest.approx(t.statistic / math.sqrt(40), rel=1e-10)
        assert set(contrast.adjusted) == {"t", "wilcoxon", "randomization", "not worse", "equivalent"}


@pytest.mark.parametrize("correction", ["holm", "bonferroni", "bh"])
def test_p_values_are_corrected_measure_by_measure(correction: str) -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    found = lmtune.compare(BASE, RUNS, ComparisonOptions(correction=correction), measures=["AP", "P@10"])
    for measure in ("AP", "P@10"):
        family = [c for c in found.contrasts if c.measure == measure]
        p_values = [c.tested["t"].p_value for c in family]
        expected = multitest.multipletests(p_values, method=_STATSMODELS[correction])[1]
        assert [c.adjusted["t"] for c in family] == pytest.approx(list(expected), rel=1e-12)


def test_intervals_hold_together_where_p_values_are_corrected() -> None:
    for correction, level in (("holm", 0.01 / 4), ("bonferroni", 0.01 / 4), ("none", 0.01)):
        options = ComparisonOptions(correction=correction, confidence=0.99)
        found = lmtune.compare(BASE, RUNS, options, measures=["AP", "P@10"])
        for contrast in found.contrasts:
            assert contrast.interval_confidence == pytest.approx(1 - level)
            # An interval holds 0 where the p-value, multiplied as Bonferroni's, reaches the level.
            low, high = contrast.interval
            assert (low <= 0.0 <= high) == (contrast.tested["t"].p_value >= level)


@pytest.mark.parametrize("pairwise", [False, True])
def test_intervals_and_p_values_of_a_correction_agree(pairwise: bool) -> None:
    rng = np.random.default_rng(8)
    significant = 0
    for correction in ("bh", "hsd"):
        for confidence in (0.8, 0.95):
            runs = {f"r{i}": BASE + rng.normal(0.02 * i, 0.1, BASE.shape) for i in range(6)}
            options = ComparisonOptions(correction=correction, confidence=confidence, pairwise=pairwise)
            for contrast in lmtune.compare(BASE, runs, options).contrasts:
                low, high = contrast.interval
                assert (low <= 0.0 <= high) == (contrast.adjusted["t"] >= options.level)
                significant += contrast.adjusted["t"] < options.level
    assert significant > 20


@pytest.mark.slow
def test_the_false_coverage_rate_of_the_significant_differences() -> None:
    rng = np.random.default_rng(4)
    truth = np.array([0.0] * 5 + [0.8] * 5)
    rates: dict[str, list[float]] = {"bh": [], "none": []}
    for _ in range(200):
        runs = {f"r{i}": rng.normal(mean, 1.0, 20) for i, mean in enumerate(truth)}
        for correction, own in rates.items():
            found = lmtune.compare(np.zeros(20), runs, ComparisonOptions(correction=correction)).contrasts
            chosen = [(c, t) for c, t in zip(found, truth, strict=True) if c.adjusted["t"] < 0.05]
            missed = [not c.interval[0] <= t <= c.interval[1] for c, t in chosen]
            own.append(float(np.mean(missed)) if missed else 0.0)
    assert np.mean(rates["bh"]) < 0.05 < np.mean(rates["none"])


def test_hsd_is_over_all_pairs_of_systems() -> None:
    options = ComparisonOptions(correction="hsd", tests=("t", "randomization"), permutations=2000)
    found = lmtune.compare(BASE, RUNS, options, measures=["AP", "P@10"])
    assert (found.family, len(found.contrasts)) == (10, 8)
    values = found.values[:, :, 1].T
    hsd, drawn = tukey_hsd(values), randomized_hsd(values, permutations=2000)
    for i, contrast in enumerate(found.contrasts[4:], 1):
        assert contrast.adjusted["t"] == contrast.tested["t"].p_value == hsd.p_values[i, 0]
        assert contrast.adjusted["randomization"] == drawn.p_values[i, 0]
        assert contrast.interval[1] - contrast.difference == pytest.approx(hsd.half)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"tests": ("wilcoxon",)}, "this test.*wilcoxon.*t or randomization"),
        ({"alternative": "greater"}, "this alternative.*greater"),
        ({"margin": 0.01}, "this margin"),
    ],
)
def test_what_hsd_cannot_test(options: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        lmtune.compare(BASE, RUNS, ComparisonOptions(correction="hsd", **options))


@pytest.mark.slow
def test_bonferroni_intervals_cover_all_differences_at_once() -> None:
    rng = np.random.default_rng(3)
    missed = {"holm": 0, "none": 0}
    for _ in range(300):
        runs = {f"r{i}": rng.normal(0.0, 1.0, 12) for i in range(5)}
        for correction in missed:
            found = lmtune.compare(np.zeros(12), runs, ComparisonOptions(correction=correction))
            missed[correction] += any(
                not low <= 0.0 <= high for low, high in (c.interval for c in found.contrasts)
            )
    # Independent: 1 - .99^5 = .049 and 1 - .95^5 = .226, with a standard error of .012 and .024.
    assert missed["holm"] / 300 < 0.085
    assert missed["none"] / 300 > 0.15


def test_all_pairs() -> None:
    found = lmtune.compare(
        BASE[:, 0], {k: v[:, 0] for k, v in RUNS.items()}, ComparisonOptions(pairwise=True)
    )
    assert found.family == 10
    assert {(c.against, c.system) for c in found.contrasts} >= {("baseline", "r3"), ("r0", "r1")}
    for a in found.systems:
        for b in found.systems:
            assert not (found.beats("value", a, b) and found.beats("value", b, a))
    assert found.beats("value", "r3", "baseline")
    assert not found.beats("value", "baseline", "r3")
    assert not found.beats("value", "r3", "r3")


def test_a_side_can_be_asked_for() -> None:
    two = lmtune.compare(BASE, RUNS).contrasts[-1].tested["t"].p_value
    one = (
        lmtune.compare(BASE, RUNS, ComparisonOptions(alternative="greater")).contrasts[-1].tested["t"].p_value
    )
    assert one == pytest.approx(two / 2, rel=1e-12)


def test_frames_name_topics_and_measures() -> None:
    frame = pd.DataFrame(BASE[:3], index=["51", "52", "53"], columns=["AP", "P@10"])
    found = lmtune.compare(frame, {"mine": frame + np.array([0.0, 0.1])})
    assert (found.topics, found.measures) == (("51", "52", "53"), ("AP", "P@10"))
    with pytest.raises(InputError, match="mine: the index labels differ"):
        lmtune.compare(frame, {"mine": frame[::-1]})
    assert lmtune.compare(BASE[:3].tolist(), {"mine": frame}).topics == ("1", "2", "3")


def test_what_cannot_be_tested_is_said() -> None:
    values = np.array([0.0, 0.0, 0.0])
    found = lmtune.compare(values, {"same": values, "shifted": values + 0.1}, ComparisonOptions(margin=0.01))
    same, shifted = found.contrasts
    assert found.notes == (
        "value: same and baseline are equal on every topic: p is 1",
        "value: shifted and baseline differ by 0.1 on every topic: without variance there is no "
        "t-test, effect size or interval",
        "value: shifted and baseline: no relative difference, because the second mean is 0",
    )
    assert (same.tested["t"].p_value, same.effect_size, same.interval) == (1.0, 0.0, (0.0, 0.0))
    assert (same.wins, same.ties, same.losses) == (0, 3, 0)
    assert math.isnan(shifted.effect_size) and not found.beats("value", "shifted", "baseline")
    assert all(np.isnan([*shifted.adjusted.values(), *shifted.interval]))
    assert shifted.relative is None


@pytest.mark.parametrize(
    ("arguments", "options", "part"),
    [
        (([0.5], {"a": [0.5]}), {}, "two topics"),
        (([], {"a": []}), {}, "two topics"),
        (([0.5, 0.5], {}), {}, "nothing to compare"),
        (([0.5, 0.5], {"a": [0.5, 0.5, 0.5]}), {}, "a: the shape of values differs"),
        (([0.5, 0.5], {"a": [0.5, math.nan]}), {}, "a: a value is not finite: nan"),
        (([0.5, 0.5], {"baseline": [0.5, 0.5]}), {}, "baseline's name"),
        (([0.5, 0.5], {"a": [0.5, 0.5]}), {"tests": ("sign",)}, "'sign'.*wilcoxon"),
        (([0.5, 0.5], {"a": [0.5, 0.5]}), {"tests": ("t", "t")}, "each at most once"),
        (([0.5, 0.5], {"a": [0.5, 0.5]}), {"correction": "fdr"}, "'fdr'.*holm"),
        (([0.5, 0.5], {"a": [0.5, 0.5]}), {"confidence": math.nan}, "confidence"),
        (([0.5, 0.5], {"a": [0.5, 0.5]}), {"margin": -1.0}, "margin"),
        (
            ([0.5, 0.5], {"a": [0.5, 0.5]}),
            {"alternative": "less", "pairwise": True},
            "two-sided alternative: 'less'",
        ),
    ],
)
def test_what_a_comparison_refuses(arguments: Any, options: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        lmtune.compare(arguments[0], arguments[1], ComparisonOptions(**options))


def test_a_topic_has_one_name() -> None:
    with pytest.raises(InputError, match="topics are not named uniquely"):
        lmtune.compare([0.5, 0.5], {"a": [0.5, 0.5]}, topics=["1", "1"])
