"""Sets of labels against judgements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from lmtune.errors import InputError
from lmtune.judging.judges import JudgeOptions, compare_judges
from lmtune.measures.from_files import topic_values

Labels = dict[str, dict[str, int]]
DATA = Path(__file__).parents[3] / "shared" / "data" / "llmjudge"


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
    with pytest.raises(InputError, match="no pair has a label and a judgement: 'none'"):
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
