"""Tables of a comparison whose marks are known."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest
from support import read_answer

import lmtune
from lmtune.measures.significance.comparison import Comparison, ComparisonOptions
from lmtune.measures.significance.tests import detectable_difference
from lmtune.report.comparison_tables import comparison_legend, comparison_table, letters

BASE = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
NOISE = np.array([0.01, 0.02, 0.01, 0.03, 0.01, 0.02, 0.01, 0.02])


def known(*, pairwise: bool = False, test: str = "t", margin: float | None = None) -> Comparison:
    """Make worse < base < better < best, each significantly; mixed differs from none."""
    mixed = BASE + np.array([0.1, -0.1] * 4)
    return lmtune.compare(
        BASE,
        {"worse_%": BASE - NOISE, "better": BASE + NOISE, "mixed": mixed, "best": BASE + NOISE + NOISE[::-1]},
        ComparisonOptions(pairwise=pairwise, tests=(test,), margin=margin),
        baseline="base",
        measures=["AP"],
        topics=[str(t) for t in range(51, 59)],
    )


def test_daggers_mark_what_differs_from_the_baseline() -> None:
    title, answer = read_answer(comparison_table(known()))
    assert title == "4 runs compared with base, 8 topics"
    assert answer["Best"] == "best, AP 0.4825" and answer["Verdict"] == "significantly better than base"
    lines = comparison_table(known()).splitlines()[7:]
    assert [line.split() for line in lines[:6]] == [
        ["System", "AP"],
        ["base", "0.4500"],
        ["worse_%", "0.4337‡"],
        ["better", "0.4663†"],
        ["mixed", "0.4500"],
        ["best", "0.4825†"],
    ]
    assert lines[6] == (
        "† significantly better than base, ‡ significantly worse (two-sided paired t-test over 8 topics, "
        "Holm's correction over 4 comparisons for each measure, adjusted p < 0.05)"
    )
    assert lines[-1] == "95% CIs: simultaneous, Bonferroni"
    better = next(line for line in lines[8:] if line.split()[0] == "better").split()
    assert better[1:4] == ["+0.0163", "+3.6%", "8/0/0"]


def test_letters_mark_what_a_system_beats() -> None:
    found = known(pairwise=True)
    assert "all pairs compared" in comparison_table(found)
    lines = [line.split() for line in comparison_table(found).splitlines()[4:]]
    assert lines[1:6] == [
        ["a", "base", "0.4500ᵇ"],
        ["b", "worse_%", "0.4337"],
        ["c", "better", "0.4663ᵃᵇ"],
        ["d", "mixed", "0.4500"],
        ["e", "best", "0.4825ᵃᵇᶜ"],
    ]
    assert "10 comparisons for each measure" in comparison_legend(found)
    markdown = comparison_table(found, "markdown").splitlines()
    assert markdown[0] == "|  | System | AP |"
    assert markdown[4] == "| c | better | 0.4663<sup>ab</sup> |"
    latex = comparison_table(found, "latex")
    assert r"e & best & 0.4825$^{abc}$ \\" in latex
    assert r"b & worse\_\% & 0.4337 \\" in latex
    assert r"$^{\dagger}$" in comparison_table(known(), "latex")
    assert r"$^{\ddagger}$" in comparison_table(known(), "latex")


def test_letters_go_on_after_z() -> None:
    names = letters(60)
    assert [names[i] for i in (0, 25, 26, 27, 51, 52)] == ["a", "z", "aa", "ab", "az", "ba"]
    assert len(set(names)) == 60
    many = {f"s{i}": BASE + NOISE * (i + 1) for i in range(30)}
    text = comparison_table(
        lmtune.compare(BASE, many, ComparisonOptions(pairwise=True, correction="none")), "latex"
    )
    assert "$^{a,b,c}$" in text


def test_the_line_below_says_how() -> None:
    exact = comparison_table(known(test="randomization", margin=0.02))
    assert "95% CIs: simultaneous, Bonferroni; not worse, equivalent: one-sided" in exact
    alone = lmtune.compare(BASE, {"a": BASE, "b": BASE}, ComparisonOptions(correction="none"))
    assert "95% CIs: each by itself, no correction" in comparison_table(alone)
    assert "paired randomization test (exact) over 8 topics" in exact
    assert "margin 0.02" in exact
    rng = np.random.default_rng(0)
    values = rng.random(30)
    drawn = lmtune.compare(
        values,
        {"a": rng.random(30)},
        ComparisonOptions(
            tests=("randomization", "wilcoxon"), seed=9, permutations=1000, correction="none", confidence=0.99
        ),
    )
    assert comparison_legend(drawn).endswith(
        "paired randomization test (1,000 random sign patterns, seed 9) over 30 topics, p < 0.01)\n"
        "Also tested: Wilcoxon signed-rank test (exact)"
    )


def test_each_correction_is_named_with_its_intervals() -> None:
    runs = {"worse": BASE - NOISE, "better": BASE + NOISE[::-1], "mixed": BASE + np.array([0.1, -0.1] * 4)}
    for correction, test, kind in (
        ("bh", "over 8 topics, Benjamini-Hochberg correction over 3 comparisons", "false coverage"),
        ("hsd", "Tukey's HSD over 8 topics, 6 pairs for each measure", "simultaneous, Tukey's HSD"),
        ("none", "paired t-test over 8 topics, no correction over 3 comparisons", "each by itself"),
    ):
        found = lmtune.compare(BASE, runs, ComparisonOptions(correction=correction))
        text, content = comparison_table(found), json.loads(comparison_table(found, "json"))
        assert test in text and f"95% CIs: {kind}" in text
        assert content["correction"] == correction and content["intervals"].startswith(kind)
        assert content["comparisons"] == (6 if correction == "hsd" else 3)
        assert ("adjusted p  " in text or "adjusted p\n" in text) == (correction == "bh")
        assert ("HSD p (t)" in text) == (correction == "hsd")
    drawn = ComparisonOptions(correction="hsd", tests=("randomization", "t"), permutations=500, seed=2)
    legend = comparison_legend(lmtune.compare(BASE, {**runs, "more": BASE + 2 * NOISE}, drawn))
    assert "randomized Tukey's HSD (500 random permutations, seed 2) over 8 topics, 10 pairs" in legend
    assert legend.endswith("Also tested: Tukey's HSD")


def test_the_detectable_difference_has_the_correction() -> None:
    rng = np.random.default_rng(0)
    runs = {f"r{i}": BASE + rng.normal(0.0, 0.1, 8) for i in range(4)}
    for correction, level in (("none", 0.05), ("holm", 0.05 / 4)):
        found = lmtune.compare(BASE, runs, ComparisonOptions(correction=correction))
        best = max(found.contrasts, key=lambda one: one.difference)
        deviation = float((runs[best.system] - BASE).std(ddof=1))
        least = detectable_difference(deviation, 8, level=level)
        assert f"detect differences of {least:.4f} or more" in comparison_table(found)


def test_csv_and_json_have_every_figure() -> None:
    found = known(margin=0.01)
    rows = list(csv.DictReader(io.StringIO(comparison_table(found, "csv"))))
    content = json.loads(comparison_table(found, "json"))
    better = ("better", "best")
    assert len(rows) == len(content["contrasts"]) == len(found.contrasts) == 4
    for row, record, contrast in zip(rows, content["contrasts"], found.contrasts, strict=True):
        assert float(row["p_t"]) == record["p_t"] == contrast.tested["t"].p_value
        assert float(row["adjusted_p_not_worse"]) == contrast.adjusted["not worse"]
        assert float(row["interval_confidence"]) == record["interval_confidence"] == 1 - 0.05 / 4
        assert float(row["interval_low"]) == record["interval_low"] == contrast.interval[0]
        assert (row["better"] == "True") == record["better"] == (contrast.system in better)
    assert content["means"]["base"]["AP"] == pytest.approx(0.45)
    assert content["seed"] == 0


def test_what_has_no_variance_has_dashes_and_null() -> None:
    values = np.array([0.1, 0.2, 0.4])
    found = lmtune.compare(values, {"up": values + 0.25, "same": values})
    content = json.loads(comparison_table(found, "json"))
    assert content["contrasts"][0]["effect_size"] is None
    assert [content["contrasts"][0][name] for name in ("p_t", "adjusted_p_t", "interval_low")] == [None] * 3
    assert not content["contrasts"][0]["better"]
    assert "without variance there is no t-test" in content["notes"][0]
    [row] = [line.split() for line in comparison_table(found).splitlines() if "up" in line.split()[:2]][1:]
    assert row[-4:] == ["–", "–", "–", "–"]
    for style in ("table", "markdown", "latex", "csv", "json"):
        shown = comparison_table(found, style)
        assert "nan" not in shown.lower()
        assert not [line for line in shown.splitlines() if "up" in line and "†" in line]


def test_two_topics_are_no_test() -> None:
    found = lmtune.compare([0.1, 0.2], {"up": [0.3, 0.5]})
    assert math.isnan(found.contrasts[0].tested["t"].p_value)
    assert found.notes == ("2 topics: a t-test needs 3",)


@pytest.mark.parametrize("style", ["table", "markdown", "latex", "csv", "json"])
def test_topics_go_from_gain_to_loss(style: str) -> None:
    found = known()
    text = comparison_table(found, style, per_topic=True)
    mixed = [
        c
        for c in json.loads(comparison_table(found, "json", per_topic=True))["differences"]
        if c["system"] == "mixed"
    ]
    assert [record["topic"] for record in mixed] == ["51", "53", "55", "57", "52", "54", "56", "58"]
    assert all(
        record["difference"] == pytest.approx(record["value"] - record["against_value"]) for record in mixed
    )
    if style != "json":
        places = [i for i, line in enumerate(text.splitlines()) if "mixed" in line]
        assert len(places) == (8 if style == "csv" else 10)
        assert "51" in text.splitlines()[places[-8]]
