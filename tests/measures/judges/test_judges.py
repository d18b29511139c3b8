"""Sets of labels against judgments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from lmtune.errors import InputError
from lmtune.measures.from_files import topic_values
from lmtune.measures.judges.agreement import JudgeOptions, compare_judges

Labels = dict[str, dict[str, int]]
DATA = Path(__file__).parents[4] / "shared" / "data" / "llmjudge"


def made(seed: int, topics: range, error: float, truth: Labels | None = None) -> Labels:
    rng = np.random.default_rng(seed)
    made: Labels = {}
    for t in map(str, topics):
        gains = list(truth[t].values()) if truth else rng.integers(0, 4, 30).tolist()
        wrong = np.clip(np.array(gains) + rng.integers(-2, 3, 30), 0, 3)
        chosen = np.where(rng.random(30) < error, wrong, gains)
        made[t] = {f"d{i}": int(gain) for i, gain in enumerate(chosen)}
    return made


def runs(topics: range) -> dict[str, dict[str, dict[str, float]]]:
    rng = np.random.default_rng(9)
    truth = made(0, topics, 0.0)
    return {
        f"r{skill}": {
            t: {docno: skill * gain + float(rng.normal()) for docno, gain in own.items()}
            for t, own in truth.items()
        }
        for skill in range(5)
    }


TRUTH = made(0, range(12), 0.0)
GOOD, BAD = made(1, range(12), 0.2, TRUTH), made(2, range(12), 0.9, TRUTH)


def test_the_best_judge_comes_first() -> None:
    found = compare_judges(TRUTH, {"bad": BAD, "good": GOOD})
    assert [judge.name for judge in found.judges] == ["good", "bad"]
    good = found.judges[0]
    both = [(gain, GOOD[t][d]) for t, own in TRUTH.items() for d, gain in own.items()]
    assert (good.pairs, good.topics) == (360, 12)
    assert good.kappa == pytest.approx(cohen_kappa_score(*zip(*both, strict=True)), rel=1e-12)
    assert good.shift == pytest.approx(np.mean([b - a for a, b in both]))
    assert good.alpha_interval[0] < good.alpha < good.alpha_interval[1]
    assert good.topic_kappas.shape == (12,)
    assert "good" in repr(found).splitlines()[1]
    assert found.to_frame().judge.to_list() == ["good", "bad"]


def test_pairs_that_one_left_out_do_not_count() -> None:
    part = {"0": {"d0": 1, "d1": -1, "other": 2}, "99": {"d0": 1}}
    found = compare_judges(TRUTH, {"part": part})
    assert (found.judges[0].pairs, found.judges[0].topics) == (1, 1)
    with pytest.raises(InputError, match="no pair has a label and a judgment: 'none'"):
        compare_judges(TRUTH, {"none": {"99": {"d0": 1}}})


def test_the_order_of_runs() -> None:
    found = compare_judges(TRUTH, {"good": GOOD, "same": TRUTH}, runs(range(12)), JudgeOptions(measure="P@5"))
    same, good = found.judges
    assert same.order is not None
    assert good.order is not None
    assert (same.order.tau, same.order.tau_interval, same.order.tau_ap) == (1.0, (1.0, 1.0), 1.0)
    np.testing.assert_allclose(same.order.favour, 0.0, atol=1e-15)
    means = [
        [topic_values(labels, run, "P@5")["P@5"].mean() for run in runs(range(12)).values()]
        for labels in (TRUTH, GOOD)
    ]
    assert good.order.tau == pytest.approx(stats.kendalltau(*means).statistic)
    added = np.subtract(means[1], means[0])
    np.testing.assert_allclose(good.order.favour, added - added.mean(), atol=1e-14)
    assert good.order.paired
    assert found.systems == ("r0", "r1", "r2", "r3", "r4")
    with pytest.raises(InputError, match="two runs or more"):
        compare_judges(TRUTH, {"good": GOOD}, {"one": runs(range(12))["r0"]})


def test_errors_given_the_judgments() -> None:
    options = JudgeOptions(samples=2000)
    (judge,) = compare_judges(TRUTH, {"bad": BAD}, options=options).judges
    both = [(gain, BAD[t][d]) for t, own in TRUTH.items() for d, gain in own.items()]
    for row in range(4):
        given = [label for gain, label in both if gain == row]
        np.testing.assert_allclose(
            judge.errors[row], np.bincount(given, minlength=4) / len(given), rtol=1e-12
        )
    # A ratio's spread over topics by linearisation, which draws come near to.
    share = judge.errors[0, 0]
    pairs = [
        [g for g in zip(own.values(), BAD[t].values(), strict=True) if g[0] == 0] for t, own in TRUTH.items()
    ]
    left = np.array([sum(label == 0 for _, label in some) - share * len(some) for some in pairs])
    half = 1.96 * (left**2).sum() ** 0.5 / sum(map(len, pairs))
    np.testing.assert_allclose(judge.errors_interval[0, 0], [share - half, share + half], atol=half / 5)
    assert (judge.errors_interval[..., 0] <= judge.errors).all()
    (same,) = compare_judges(TRUTH, {"same": TRUTH}).judges
    np.testing.assert_array_equal(same.errors, np.eye(4))
    np.testing.assert_array_equal(same.errors_interval, np.repeat(np.eye(4)[:, :, None], 2, axis=2))


def test_families_of_runs() -> None:
    """A judge who lifts what two runs rank first is told to favour them, by hand to the same figure."""
    given = runs(range(12))
    lifted = {
        t: {d: 3 if d in max_docs(given, t) else gain for d, gain in own.items()} for t, own in GOOD.items()
    }
    options = JudgeOptions(measure="P@5", samples=4000, families=("r[01]", "r2"))
    (judge,) = compare_judges(TRUTH, {"lifted": lifted}, given, options).judges
    assert judge.order is not None
    first, second = judge.order.families
    values = [
        np.array([topic_values(labels, run, "P@5")["P@5"] for run in given.values()])
        for labels in (TRUTH, lifted)
    ]
    by_topic = values[1] - values[0]
    favours = by_topic[:2].mean(axis=0) - by_topic[2:].mean(axis=0)
    assert (first.name, first.runs, second.runs) == ("r[01]", 2, 1)
    assert first.favour == pytest.approx(favours.mean(), abs=1e-12)
    half = 1.96 * favours.std() / 12**0.5
    np.testing.assert_allclose(
        first.favour_interval, favours.mean() + half * np.array([-1, 1]), atol=half / 5
    )
    assert first.favour_interval[0] > 0.0
    places = [stats.rankdata(own.mean(axis=1)) for own in values]
    assert first.places == pytest.approx((places[1] - places[0])[:2].mean())
    assert second.places == pytest.approx((places[1] - places[0])[2])
    assert first.places_interval[0] < first.places < first.places_interval[1]


def max_docs(given: dict[str, dict[str, dict[str, float]]], topic: str) -> set[str]:
    return {
        d
        for name in ("r0", "r1")
        for d in sorted(given[name][topic], key=given[name][topic].__getitem__)[-5:]
    }


@pytest.mark.parametrize(
    ("pattern", "given", "message"),
    [("x*", True, "contains no run"), ("*", True, "contains all runs"), ("r*", False, "family needs runs")],
)
def test_a_family_is_some_of_the_runs(pattern: str, given: bool, message: str) -> None:
    options = JudgeOptions(measure="P@5", families=(pattern,))
    with pytest.raises(InputError, match=message):
        compare_judges(TRUTH, {"good": GOOD}, runs(range(12)) if given else (), options)


def test_topics_apart() -> None:
    """A judge of other topics is compared by the order alone, its topics drawn apart."""
    everything = made(0, range(20), 0.0)
    first = {t: own for t, own in everything.items() if int(t) < 8}
    rest = {t: own for t, own in everything.items() if int(t) >= 8}
    (judge,) = compare_judges(first, {"rest": rest}, runs(range(20))).judges
    assert judge.order is not None
    assert (judge.pairs, judge.order.topics, judge.order.judge_topics, judge.order.paired) == (
        0,
        8,
        12,
        False,
    )
    assert judge.order.tau_interval[0] < judge.order.tau


@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data/llmjudge")
def test_a_known_set_of_labels() -> None:
    labels = {name: DATA / "labels" / f"{name}.txt" for name in ("Olz-gpt4o", "willia-umbrela1")}
    first, second = compare_judges(DATA / "qrels.nist.txt", labels).judges
    assert (first.name, first.pairs, first.topics) == ("Olz-gpt4o", 4423, 25)
    rows = [
        (DATA / name).read_text().split()[3::4] for name in ("qrels.nist.txt", "labels/willia-umbrela1.txt")
    ]
    keys = [(DATA / name).read_text().split() for name in ("qrels.nist.txt", "labels/willia-umbrela1.txt")]
    by_pair = [
        dict(zip(zip(k[::4], k[2::4], strict=True), row, strict=True))
        for k, row in zip(keys, rows, strict=True)
    ]
    expected = cohen_kappa_score(list(by_pair[0].values()), [by_pair[1][pair] for pair in by_pair[0]])
    assert second.kappa == pytest.approx(expected, rel=1e-12)


def test_weighted_kappa_uses_the_grades_of_the_labels() -> None:
    rng = np.random.default_rng(3)
    human = {"1": {f"d{n}": int(rng.choice([0, 1, 4])) for n in range(60)}}
    model = {"1": {docno: gain if rng.random() < 0.6 else 4 - gain for docno, gain in human["1"].items()}}
    [judge] = compare_judges(human, {"model": model}).judges
    pairs = list(human["1"].values()), list(model["1"].values())
    expected = cohen_kappa_score(*pairs, weights="quadratic", labels=range(5))
    assert judge.weighted_kappa == pytest.approx(expected, rel=1e-12)
    assert judge.topic_kappas == pytest.approx([expected], rel=1e-12)
