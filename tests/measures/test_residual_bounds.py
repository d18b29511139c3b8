"""Bounds over unjudged documents against every way to judge them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.measures.from_files import EvaluationOptions, evaluate
from lmtune.measures.judged_ranking import judge
from lmtune.measures.measure import Measure, parse_measure
from lmtune.measures.residual_bounds import (
    OpenTopic,
    bounds,
    check_bounded,
    difference_bounds,
    is_exact,
    residuals,
    run_residuals,
)

NAMES = [
    *"AP AP@3 AP(rel=2) Bpref Bpref(rel=2) P@3 P(rel=2)@5 R@2 R(rel=3)@4 RR RR@2".split(),
    *("nDCG", "nDCG@3", "nDCG(dcg='exp-log2')@4", "nDCG(dcg='exp-log2')", "RBP", "RBP(p=0.5, rel=2)@4"),
    *("Success@2", "Success(rel=2)@3"),
]
Topic = tuple[dict[bytes, int], list[bytes], list[bytes], int]


def value(measure: Measure, ranking: list[bytes], judgments: dict[bytes, int]) -> float:
    compute = measure.declared.value
    assert compute is not None
    return compute(judge(ranking, judgments, level=measure.rel), measure)


def every_way(measure: Measure, topic: Topic) -> tuple[float, float]:
    judgments, one, other, largest = topic
    unjudged = [docno for docno in dict.fromkeys((*one, *other)) if judgments.get(docno, -1) < 0]
    found = []
    for gains in product(range(largest + 1), repeat=len(unjudged)):
        whole = judgments | dict(zip(unjudged, gains, strict=True))
        found.append(value(measure, one, whole) - (value(measure, other, whole) if other else 0.0))
    return min(found), max(found)


def made(seed: int, *, pair: bool) -> Topic:
    rng = np.random.default_rng(seed)
    largest = int(rng.integers(1, 4))
    documents = [b"%d" % i for i in range(int(rng.integers(2, 9)))]
    most = 5 if largest == 3 else 6
    judged = rng.permutation(documents)[: max(0, len(documents) - int(rng.integers(0, most + 1)))]
    judgments = {
        bytes(docno): int(rng.integers(-1 if rng.random() < 0.2 else 0, largest + 1)) for docno in judged
    }
    one, other = (
        list(map(bytes, rng.permutation(documents)[: int(rng.integers(1, len(documents) + 1))])) for _ in "ab"
    )
    return judgments, one, other if pair else [], largest


def opened(topic: Topic) -> OpenTopic:
    return OpenTopic.of(*topic)


@pytest.mark.first_case
@pytest.mark.parametrize("name", NAMES)
def test_bounds_of_a_run_are_those_of_all_ways_to_judge(name: str) -> None:
    measure = parse_measure(name)
    assert is_exact(measure, difference=False)
    for seed in range(150):
        topic = made(seed, pair=False)
        assert bounds(measure, opened(topic)) == pytest.approx(every_way(measure, topic), abs=1e-12), seed


@pytest.mark.first_case
@pytest.mark.parametrize("name", NAMES)
def test_bounds_of_a_difference(name: str) -> None:
    measure = parse_measure(name)
    reached = 0
    for seed in range(150):
        topic = made(seed, pair=True)
        (low, high), (lowest, highest) = bounds(measure, opened(topic)), every_way(measure, topic)
        if is_exact(measure, difference=True):
            assert (low, high) == pytest.approx((lowest, highest), abs=1e-12), seed
        assert low <= lowest + 1e-12, seed
        assert high >= highest - 1e-12, seed
        reached += abs(low - lowest) + abs(high - highest) < 1e-12
    assert reached > 50  # from outside, but not from afar


@pytest.mark.parametrize("name", NAMES)
def test_bounds_of_identical_rankings_are_zero(name: str) -> None:
    for seed in range(20):
        judgments, one, _, largest = made(seed, pair=False)
        assert bounds(parse_measure(name), opened((judgments, one, one, largest))) == (0.0, 0.0)


def test_bounds_of_ap_close_in_as_rankings_coincide() -> None:
    rng = np.random.default_rng(0)
    documents = [b"%d" % i for i in range(60)]
    judgments = dict.fromkeys(documents[::9], 1)
    widths = []
    for swapped in (0, 1, 5, 25):
        other = list(documents)
        for place in rng.choice(58, swapped, replace=False).tolist():
            other[place : place + 2] = other[place : place + 2][::-1]
        low, high = bounds(parse_measure("AP"), opened((judgments, documents, other, 1)))
        widths.append(high - low)
    assert widths == sorted(widths) and widths[0] == 0.0
    assert widths[1] < 0.1 and widths[3] < 1.2  # 1.4 with the best set of one and the worst of the other


def test_bounds_of_ap_are_close_to_those_of_all_ways_to_judge() -> None:
    measure, wider = parse_measure("AP"), []
    for seed in range(150):
        topic = made(seed, pair=True)
        (low, high), (lowest, highest) = bounds(measure, opened(topic)), every_way(measure, topic)
        wider.append(high - low - (highest - lowest))
    assert np.mean(wider) < 0.002 and np.mean(np.array(wider) < 1e-12) > 0.9


def test_judging_a_low_document_relevant_lowers_ap() -> None:
    topic: Topic = ({b"a": 1}, [b"a", b"x", b"y", b"z"], [], 1)
    low, high = bounds(parse_measure("AP"), opened(topic))
    assert (low, high) == pytest.approx((min((1 + 2 / 4) / 2, (1 + 2 / 3 + 3 / 4) / 3), 1.0))


def test_an_intermediate_gain_may_be_best() -> None:
    topic: Topic = ({b"a": 1}, [b"a", b"x"], [], 3)
    assert bounds(parse_measure("nDCG"), opened(topic))[1] == 1.0


def test_what_has_no_bounds_is_refused() -> None:
    with pytest.raises(InputError, match=r"no residual bounds for this measure: 'ERR@10'.*nDCG"):
        check_bounded([parse_measure("AP"), parse_measure("ERR@10")])


QRELS = {"1": {"a": 2, "b": 0, "z": 1}, "2": {"a": 1}, "3": {"c": 1}}
RUN = {"1": {"x": 3.0, "a": 2.0, "y": 1.0}, "2": {"y": 2.0, "a": 1.0}, "9": {"a": 1.0}}
OTHER = {"1": {"y": 3.0, "b": 2.0}, "2": {"a": 2.0, "w": 1.0}, "3": {"v": 1.0}}
COMPLETE = EvaluationOptions(complete=True)


def means(measure: str, run: dict[str, dict[str, float]]) -> list[float]:
    """Evaluate under every way to judge what a run or the other one ranks."""
    unjudged = [("1", "x"), ("1", "y"), ("2", "y"), ("2", "w"), ("3", "v")]
    found = []
    for gains in product(range(3), repeat=len(unjudged)):
        judged = {topic: dict(own) for topic, own in QRELS.items()}
        for (topic, docno), gain in zip(unjudged, gains, strict=True):
            judged[topic][docno] = gain
        found.append(evaluate(judged, {"one": run}, [measure], settings=COMPLETE).to_numpy()[0, 0])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["P@2", "nDCG@2", "R@1", "RR"])
def test_means_are_bounded_exactly(measure: str) -> None:
    one, other = np.array(means(measure, RUN)), np.array(means(measure, OTHER))
    frame = residuals(QRELS, {"one": RUN}, measure, settings=COMPLETE)
    own = frame.to_dict("index")["one", measure]
    assert own["value"] == evaluate(QRELS, {"one": RUN}, [measure], settings=COMPLETE).iloc[0, 0]
    # Documents of the other run alone move this run's measures too, but for those of its own documents.
    if measure in ("P@2", "RR"):
        assert (own["lowest"], own["highest"]) == pytest.approx((one.min(), one.max()), abs=1e-12)
    found = difference_bounds(QRELS, {"one": RUN, "two": OTHER}, [("one", "two")], measure, COMPLETE)
    assert found["one", "two"][0] == pytest.approx([(one - other).min(), (one - other).max()], abs=1e-12)


def test_a_frame_and_its_topics() -> None:
    frame = residuals(QRELS, {"one": RUN, "two": OTHER}, ["AP", "Bpref(rel=2)"])
    assert list(frame.columns) == ["value", "lowest", "highest", "judged@10"]
    assert frame.index.to_list() == [(r, m) for r in ("one", "two") for m in ("AP", "Bpref(rel=2)")]
    assert frame["judged@10"].to_list()[:2] == pytest.approx([(1 / 3 + 1 / 2) / 2] * 2)
    (found,) = run_residuals(QRELS, {"one": RUN}, "P@2", settings=COMPLETE)
    topics = found.to_frame(per_topic=True)
    assert topics.topic.to_list() == ["1", "2", "3"]
    assert topics[["value", "lowest", "highest"]].to_numpy().tolist() == [
        [0.5, 0.5, 1.0],
        [0.5, 0.5, 1],
        [0, 0, 0],
    ]
    assert "judged@10" in repr(found)


def test_the_depth_counts() -> None:
    found = residuals(QRELS, {"one": RUN}, "R@5", settings=EvaluationOptions(depth=1))
    assert found.to_numpy()[0].tolist() == pytest.approx([0.0, 0.0, (1 / 3 + 1 / 2) / 2, 0.0])


@pytest.mark.parametrize("settings", [EvaluationOptions(judged_only=True), EvaluationOptions(level=2)])
def test_settings_that_leave_no_bounds_are_refused(settings: EvaluationOptions) -> None:
    with pytest.raises(InputError, match="bounds"):
        residuals(QRELS, {"one": RUN}, "AP", settings=settings)


def test_bounds_of_gains_beyond_a_double_hold_the_value() -> None:
    qrels = {"1": {"a": 2000, "b": 1, "c": 0}, "2": {"a": 1, "b": 0}}
    run = {"1": {"b": 3.0, "a": 2.0, "c": 1.0}, "2": {"a": 2.0, "b": 1.0}}
    own = residuals(qrels, {"r": run}, "nDCG(dcg='exp-log2')@10").iloc[0]
    expected = (1 / np.log2(3) + 1) / 2  # 2^2000 leaves nothing of 2^1
    assert own[["value", "lowest", "highest"]].to_list() == pytest.approx([expected] * 3, abs=1e-12)
    run["2"]["unjudged"] = 3.0
    with pytest.raises(InputError, match=r"gains are too far apart.*\[1, 2000\]"):
        residuals(qrels, {"r": run}, "nDCG(dcg='exp-log2')@10")
    linear = residuals(qrels, {"r": run}, "nDCG@10").iloc[0]
    assert linear["lowest"] <= linear["value"] <= linear["highest"]
