"""The recommended setting and its sentence, against figures worked out apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from lmtune.collections.folds import Fold
from lmtune.fusion.fusing import FusedRow, FusionResult
from lmtune.fusion.methods import Chosen, FusionOptions
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.comparison import compare
from lmtune.report.fusion_tables import fusion_table
from lmtune.report.loss_tables import loss_table
from lmtune.report.recommendation import answer, default_remark, fusion_answer, loss_answer, reranking_answer
from lmtune.report.tuning_tables import tuning_table
from lmtune.rerank.comparison import Outcome
from lmtune.tuning.experiment.result import (
    APPROX,
    DEFAULT,
    DIRECT,
    OPTIMAL,
    RANKNET,
    CollectionResult,
    Fit,
    Row,
)

TOPICS = tuple(str(t) for t in range(1, 9))
BASE = np.linspace(0.1, 0.8, 8)
GAIN = np.array([0.01, 0.02, 0.01, 0.03, 0.01, 0.02, 0.01, 0.02])


def row(method: str, values: NDArray[np.float64], evaluations: int, measure: str = "AP") -> Row:
    """Make a row whose final setting tells its method."""
    params = {"k1": 0.9, "b": 0.4} if method == DEFAULT else {"k1": 2.6789, "b": 0.04321 * len(method)}
    fit = Fit(params, 0.3, float(values.mean()), evaluations, ())
    final = None if method in (DEFAULT, OPTIMAL) else fit
    return Row(parse_measure(measure), method, TOPICS, values, (fit,), {}, final)


def result(*rows: Row) -> CollectionResult:
    return CollectionResult("made", (Fold(TOPICS, TOPICS),), rows, {}, (), "bm25")


def made() -> CollectionResult:
    """Make Approx the best but for Optimal, which is chosen on test topics."""
    return result(
        row(DEFAULT, BASE, 0),
        row(DIRECT, BASE + GAIN / 2, 500),
        row(APPROX, BASE + GAIN, 90),
        row(OPTIMAL, BASE + 5 * GAIN, 500),
    )


def test_the_answer_says_setting_gain_and_doubt() -> None:
    tested = stats.ttest_rel(BASE + GAIN, BASE)
    low, high = tested.confidence_interval(0.95)
    power = pytest.importorskip("statsmodels.stats.power").TTestPower()
    size = power.solve_power(nobs=8, alpha=0.05, power=0.8, alternative="two-sided")
    least = size * GAIN.std(ddof=1)
    expected = (
        "made: use k1 = 2.68, b = .259 (Approx). MAP .4663 held out, +.0163 over the default k1 = .9, b = .4 "
        f"(95% +{low:.4f} to +{high:.4f}, p = {tested.pvalue:.4f}, 8 topics, paired t-test). "
        f"With 8 topics it misses a difference below {least:.4f} more often than once in five."
    )
    assert answer(made()) == expected.replace("0.0", ".0").replace("0.4", ".4")
    assert tuning_table([made()]).startswith(
        f"{answer(made())}\n\nMetric  Method   made\nMAP     Default  .4500"
    )
    assert default_remark(made()) == "Default: k1 = .9, b = .4 (Anserini's), without any fitting"


def test_settings_that_are_not_significantly_worse_are_named() -> None:
    said = answer(replace(made(), near={"k1": (1.9, 3.4), "b": (0.7, 0.95)}))
    assert said.endswith(
        " Not significantly worse at the grid's points, on all topics: k1 1.9 to 3.4 and b .7 to .95."
    )


def test_of_equal_means_the_one_with_fewer_evaluations_is_recommended() -> None:
    few, many = row(RANKNET, BASE + GAIN, 90), row(DIRECT, BASE + GAIN + 1e-6, 500)
    for rows in ((few, many), (many, few)):
        assert result(*rows).recommended is few
    better = row(DIRECT, BASE + GAIN + 1e-3, 500)
    assert result(few, better).recommended is better
    best = row(OPTIMAL, BASE + 1.0, 1)
    assert result(best, few, many).recommended is few


def test_the_default_is_kept_where_nothing_beats_it() -> None:
    said = answer(result(row(DEFAULT, BASE + GAIN, 0), row(DIRECT, BASE, 500)))
    assert said.startswith(
        "made: keep the default k1 = .9, b = .4. MAP .4663 held out; the best tuned, Direct,"
    )
    assert "gives -.0163 (95% -.0" in said
    assert "misses" not in said


@pytest.mark.parametrize("size", [1, 2])
def test_few_topics_have_no_test(size: int) -> None:
    short = [replace(own, topics=TOPICS[:size], values=own.values[:size]) for own in made().rows]
    assert "no test of so few" in answer(result(*short))
    assert "misses" not in answer(result(*short))


def test_what_is_asked_for_is_told_from_what_is_usual() -> None:
    own = row(DEFAULT, BASE, 0)
    given = replace(own, fits=(replace(own.fits[0], params={"k1": 1.2, "b": 0.4}),))
    assert default_remark(result(given)).startswith("Default: k1 = 1.2 (as given); b = .4 (Anserini's)")


def test_a_setting_on_the_edge_is_told() -> None:
    own = row(DIRECT, BASE, 9)
    assert own.final is not None
    edged = replace(own, final=replace(own.final, at_edge=("b = 1",)))
    assert answer(result(edged)).endswith("held out. It lies on the edge of the range: b = 1.")


def doubt(values: NDArray[np.float64], others: NDArray[np.float64], units: str = "topics") -> str:
    """Say what scipy says of a difference."""
    tested = stats.ttest_rel(values, others)
    low, high = tested.confidence_interval(0.95)
    text = f"95% {low:+.4f} to {high:+.4f}, p = {tested.pvalue:.4f}, 8 {units}, paired t-test"
    return f"{np.mean(values - others):+.4f} ({text})".replace("0.", ".")


def fused(**values: NDArray[np.float64]) -> FusionResult:
    """Make a fusion of runs a and b; methods have as many evaluations as letters."""
    rows = []
    for name, own in values.items():
        single = name in ("a", "b")
        chosen = Chosen("single" if single else name, {name: 1.0} if single else {"a": 1.0, "b": 3.0})
        count = 0 if single or name in ("rrf", "equal") else 100
        rows.append(FusedRow(parse_measure("AP"), chosen, 0.9, own, evaluations=count))
    return FusionResult(("a", "b"), TOPICS, FusionOptions(method=("linear",)), "2 folds", tuple(rows))


def test_fusion_says_which_weights_and_what_they_gain_over_the_best_run_and_rrf() -> None:
    a, b, linear = BASE - GAIN, BASE - GAIN**2, BASE + GAIN
    found = fused(a=a, b=b, linear=linear, rrf=BASE)
    assert fusion_answer(found) == (
        "Use linear (a .2500, b .7500). MAP .4663 held out, "
        f"{doubt(linear, b)[:6]} over the best single run, b{doubt(linear, b)[6:]} and "
        f"{doubt(linear, BASE)[:6]} over rrf{doubt(linear, BASE)[6:]}."
    )
    assert fusion_table(found).startswith(f"{fusion_answer(found)}\n\nMeasure")
    for style in ("markdown", "latex", "csv", "json"):
        assert "held out, " not in fusion_table(found, style)
    chosen = replace(found, options=replace(found.options, in_sample=True))
    assert fusion_answer(chosen) == ""


def test_fusion_prefers_what_needs_no_choice_and_keeps_a_run_that_nothing_beats() -> None:
    a, best = BASE - GAIN, BASE + GAIN
    assert fusion_answer(fused(a=a, b=BASE, linear=best + 1e-6, rrf=best)).startswith("Use rrf. MAP .4663")
    kept = fusion_answer(fused(a=a, b=best, linear=BASE, rrf=a))
    assert kept == (
        "Keep b alone. MAP .4663 held out; the best fused, linear, gives " + doubt(BASE, best) + "."
    )


def outcome(label: str, values: NDArray[np.float64], rate: float) -> Outcome:
    """Make two trials, apart by the same on all queries, with these means."""
    trials = np.stack([values - 0.01, values + 0.01])[:, :, None]
    return Outcome(label, rate, (parse_measure("nDCG@10"),), trials)


def test_losses_are_held_against_the_first() -> None:
    first, second = outcome("ranknet", BASE, 0.01), outcome("song", BASE + GAIN, 0.001)
    gain = doubt(BASE + GAIN, BASE, "queries")
    said = f"Use song (rate 0.001). nDCG@10 .4663 held out, {gain[:6]} over ranknet{gain[6:]}."
    assert loss_answer([first, second], "skip") == said
    assert loss_table([first, second]).startswith(f"{said}\n\n")
    loss = doubt(BASE, BASE + GAIN, "queries")
    assert loss_answer([second, first], "skip").endswith(f"; the best other, ranknet, gives {loss}.")
    assert loss_answer([first], "skip") == ""


def test_reranking_is_advised_where_it_gains() -> None:
    better = compare(BASE, {"new": BASE + GAIN}, baseline="bm25", measures=["AP"])
    gain = doubt(BASE + GAIN, BASE)
    assert reranking_answer(better) == f"Rerank. AP .4663 held out, {gain[:6]} over bm25{gain[6:]}."
    worse = compare(BASE + GAIN, {"new": BASE}, baseline="bm25", measures=["AP"])
    assert reranking_answer(worse) == f"Keep bm25. AP .4663; reranked, held out, {doubt(BASE, BASE + GAIN)}."
