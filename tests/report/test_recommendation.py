"""The recommended setting and its sentence, against figures worked out apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from lmtune.collections.folds import Fold
from lmtune.fusion.fusing import FusedRow, FusionResult, add_gains
from lmtune.fusion.methods import Chosen, FusionOptions
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.comparison import compare
from lmtune.report.fusion_tables import fusion_table
from lmtune.report.loss_tables import loss_table
from lmtune.report.recommendation import (
    default_remark,
    fusion_answer,
    loss_answer,
    reranking_answer,
    tuning_answer,
)
from lmtune.report.table import Answer
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
    NearOptimal,
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
    return Row(parse_measure(measure), method, TOPICS, values, (fit,), final)


def result(*rows: Row) -> CollectionResult:
    return CollectionResult("made", (Fold(TOPICS, TOPICS),), rows, {}, (), "bm25")


def made() -> CollectionResult:
    """Make Approx better than Direct, which was fixed beforehand."""
    return result(
        row(DEFAULT, BASE, 0),
        row(DIRECT, BASE + GAIN, 500),
        row(APPROX, BASE + 2 * GAIN, 90),
        row(OPTIMAL, BASE + 5 * GAIN, 500),
    )


def test_the_answer_has_setting_difference_and_verdict() -> None:
    power = pytest.importorskip("statsmodels.stats.power").TTestPower()
    size = power.solve_power(nobs=8, alpha=0.05, power=0.8, alternative="two-sided")
    noisy = BASE + np.resize([0.1, -0.09], 8)
    least = size * (noisy - BASE).std(ddof=1)
    answer = tuning_answer(made())
    assert answer == Answer(
        "made: bm25, 8 training topics, 8 test topics",
        [
            ("Recommended", "k1 = 2.68, b = 0.259 (Direct)"),
            ("MAP", "0.4663; default (k1 = 0.9, b = 0.4) 0.4500"),
            ("Difference", difference(BASE + GAIN, BASE)),
            ("Verdict", "significantly better than default"),
        ],
    )
    text = (
        "made: bm25, 8 training topics, 8 test topics\n\n"
        "  Recommended   k1 = 2.68, b = 0.259 (Direct)\n"
        "  MAP           0.4663; default (k1 = 0.9, b = 0.4) 0.4500\n"
    )
    assert tuning_table([made()]).startswith(text)
    unsure = tuning_answer(result(row(DEFAULT, BASE, 0), row(DIRECT, noisy, 500)))
    assert unsure is not None and unsure.lines[:2] == [
        ("Recommended", "keep the default, k1 = 0.9, b = 0.4"),
        ("MAP", f"0.4500; tuned {noisy.mean():.4f} (Direct: k1 = 2.68, b = 0.259)"),
    ]
    detected = f"8 topics detect differences of {least:.4f} or more (80% power)"
    assert unsure.lines[-1] == ("Verdict", f"not significant; {detected}")
    assert default_remark(made()) == "Default: k1 = 0.9, b = 0.4 (Anserini's)"


def test_folds_are_named() -> None:
    folds = (Fold(TOPICS[:4], TOPICS[4:]), Fold(TOPICS[4:], TOPICS[:4]))
    answer = tuning_answer(replace(made(), folds=folds))
    assert answer is not None and answer.title.endswith(", 8 topics, 2-fold cross-validation")


@pytest.mark.parametrize(
    ("margin", "text"),
    [
        (0.01, "2 settings within 0.01 (95%): k1 in [1.9, 3.4], b in [0.7, 0.7]"),
        (0.005, "none within 0.005 (95%); k1 = 3.4, b = 0.7 within 0.0063"),
    ],
)
def test_the_near_optimal_region_or_the_closest_setting_is_named(margin: float, text: str) -> None:
    settings = np.array([(1.9, 0.7), (3.4, 0.7), (1.9, 0.9), (3.4, 0.9)])
    near = NearOptimal(("k1", "b"), settings, np.array([0.01, 0.00621, 0.02, 0.03]), margin)
    answer = tuning_answer(replace(made(), near=near))
    assert answer is not None and answer.lines[-1] == ("Near-optimal", text)


def test_only_the_fixed_method_can_be_recommended() -> None:
    fixed = made().recommended
    assert fixed is not None and fixed.method == DIRECT
    other = replace(made(), fixed_method=APPROX).recommended
    assert other is not None and other.method == APPROX
    chosen = replace(made(), selected=DEFAULT).recommended
    assert chosen is not None and chosen.method == DEFAULT


def test_other_methods_are_tested_after_the_fixed_one() -> None:
    """Holm's correction among the others by hand; no p-value is below the first one's."""
    weak = BASE + np.resize([0.05, -0.03], 8)
    values = {DIRECT: weak, RANKNET: BASE + GAIN, APPROX: BASE - GAIN / 2}
    found = result(row(DEFAULT, BASE, 0), *(row(name, own, 1) for name, own in values.items()))
    p = {name: stats.ttest_rel(own, BASE).pvalue for name, own in values.items()}
    gains = {method: gain.p_value for (_, method), gain in found.gains.items()}
    assert gains == pytest.approx(
        {**{name: max(p[DIRECT], 2 * own) for name, own in p.items()}, DIRECT: p[DIRECT]}
    )
    assert p[RANKNET] < 0.001 and [found.significance(own) for own in found.rows] == [0] * 4
    strong = replace(found, fixed_method=RANKNET)
    p_after = strong.gains[parse_measure("AP"), APPROX].p_value
    assert p_after == pytest.approx(2 * p[APPROX]) and strong.significance(strong.rows[3]) == -1
    low = strong.gains[parse_measure("AP"), APPROX].low
    wide = stats.ttest_rel(values[APPROX], BASE).confidence_interval(1 - 0.05 / 2)
    assert low == pytest.approx(wide.low)


def test_the_default_is_kept_where_nothing_beats_it() -> None:
    answer = tuning_answer(result(row(DEFAULT, BASE + GAIN, 0), row(DIRECT, BASE, 500)))
    assert answer is not None and answer.lines == [
        ("Recommended", "keep the default, k1 = 0.9, b = 0.4"),
        ("MAP", "0.4663; tuned 0.4500 (Direct: k1 = 2.68, b = 0.259)"),
        ("Difference", difference(BASE, BASE + GAIN)),
        ("Verdict", "significantly worse than default"),
    ]


@pytest.mark.parametrize("size", [1, 2])
def test_few_topics_have_no_test(size: int) -> None:
    short = [replace(own, topics=TOPICS[:size], values=own.values[:size]) for own in made().rows]
    answer = tuning_answer(result(*short))
    assert answer is not None and dict(answer.lines)["Verdict"].startswith("no test: ")
    assert "CI" not in dict(answer.lines)["Difference"]


def test_what_is_asked_for_is_told_from_what_is_usual() -> None:
    own = row(DEFAULT, BASE, 0)
    given = replace(own, fits=(replace(own.fits[0], params={"k1": 1.2, "b": 0.4}),))
    assert default_remark(result(given)).startswith("Default: k1 = 1.2 (as given); b = 0.4 (Anserini's)")


def test_a_setting_on_the_edge_is_named() -> None:
    own = row(DIRECT, BASE, 9)
    assert own.final is not None
    edged = replace(own, final=replace(own.final, at_edge=("b = 1",)))
    answer = tuning_answer(result(edged))
    assert answer is not None
    assert answer.lines[1:] == [("MAP", "0.4500"), ("Edge", "b = 1 on the edge of the range")]


def difference(values: NDArray[np.float64], others: NDArray[np.float64]) -> str:
    """Print a difference by scipy's figures."""
    tested = stats.ttest_rel(values, others)
    low, high = tested.confidence_interval(0.95)
    p = f"= {tested.pvalue:.3f}" if tested.pvalue >= 0.001 else "< 0.001"
    return f"{np.mean(values - others):+.4f}, 95% CI [{low:+.4f}, {high:+.4f}], p {p} (paired t-test)"


def fused(**values: NDArray[np.float64]) -> FusionResult:
    """Make a fusion of runs a and b; methods have as many evaluations as letters."""
    rows = []
    for name, own in values.items():
        single = name in ("a", "b")
        chosen = Chosen("single" if single else name, {name: 1.0} if single else {"a": 1.0, "b": 3.0})
        count = 0 if single or name in ("rrf", "equal") else 100
        rows.append(FusedRow(parse_measure("AP"), chosen, 0.9, own, evaluations=count))
    options = FusionOptions(method=("linear",))
    return FusionResult(("a", "b"), TOPICS, options, "2 folds", tuple(add_gains(rows, "linear")))


def test_fusion_has_weights_and_differences_from_the_best_run_and_rrf() -> None:
    a, b, linear = BASE - GAIN, BASE - GAIN**2, BASE + GAIN
    found = fused(a=a, b=b, linear=linear, rrf=BASE)
    answer = fusion_answer(found)
    assert answer == Answer(
        "2 runs, 8 topics, 2 folds",
        [
            ("Recommended", "linear (a 0.2500, b 0.7500)"),
            ("MAP", f"0.4663; best single run (b) {b.mean():.4f}"),
            ("Difference", difference(linear, b)),
            ("Verdict", "significantly better than b"),
            ("Over rrf", difference(linear, BASE)),
        ],
    )
    assert fusion_table(found).startswith(f"{answer.text()}Measure")
    for style in ("markdown", "latex", "csv", "json"):
        assert "Verdict" not in fusion_table(found, style)
    chosen = replace(found, options=replace(found.options, in_sample=True))
    assert fusion_answer(chosen) is None


def test_fusion_does_not_choose_its_method_by_means_and_keeps_a_run_that_is_level() -> None:
    a, best = BASE - GAIN, BASE + GAIN
    answer = fusion_answer(fused(a=a, b=BASE, linear=best, rrf=best + GAIN))
    assert answer is not None and answer.lines[0] == ("Recommended", "linear (a 0.2500, b 0.7500)")
    noisy = BASE + np.resize([0.1, -0.09], 8)
    answer = fusion_answer(fused(a=a, b=BASE, linear=noisy, rrf=best))
    assert answer is not None and answer.lines[0] == ("Recommended", "b alone")
    kept = fusion_answer(fused(a=a, b=best, linear=BASE, rrf=a))
    assert kept is not None and kept.lines == [
        ("Recommended", "b alone"),
        ("MAP", "0.4663; fused 0.4500 (linear: a 0.2500, b 0.7500)"),
        ("Difference", difference(BASE, best)),
        ("Verdict", "significantly worse than b"),
    ]


def outcome(label: str, values: NDArray[np.float64], rate: float) -> Outcome:
    """Make two trials, apart by the same on all queries, with these means."""
    trials = np.stack([values - 0.01, values + 0.01])[:, :, None]
    return Outcome(label, (rate,), (parse_measure("nDCG@10"),), trials)


def test_losses_are_compared_with_the_first() -> None:
    first, second = outcome("ranknet", BASE, 0.01), outcome("song", BASE + GAIN, 0.001)
    answer = loss_answer([first, second], "skip")
    lines = [
        ("nDCG@10", "song 0.4663; ranknet 0.4500"),
        ("Difference", f"song minus ranknet: {difference(BASE + GAIN, BASE)}"),
        ("Verdict", "significantly better than ranknet"),
    ]
    assert answer == Answer("2 systems, 8 queries", [("Recommended", "song (learning rate 0.001)"), *lines])
    assert loss_table([first, second]).startswith(answer.text())
    other = loss_answer([second, first], "skip")
    assert other is not None and other.lines[2][1] == f"ranknet minus song: {difference(BASE, BASE + GAIN)}"
    assert loss_answer([first], "skip") is None


def test_reranking_is_advised_where_it_gains() -> None:
    better = compare(BASE, {"new": BASE + GAIN}, baseline="bm25", measures=["AP"])
    answer = reranking_answer(better)
    assert answer.title == "new: 8 topics" and answer.lines[:3] == [
        ("Recommended", "rerank"),
        ("AP", "0.4663 reranked, held out; 0.4500 bm25"),
        ("Difference", difference(BASE + GAIN, BASE)),
    ]
    worse = compare(BASE + GAIN, {"new": BASE}, baseline="bm25", measures=["AP"])
    assert reranking_answer(worse).lines[0] == ("Recommended", "keep bm25")
