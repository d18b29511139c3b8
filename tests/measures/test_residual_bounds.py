"""Bounds over unjudged documents against every way to judge them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.measures.judged_ranking import judge
from lmtune.measures.measure import Measure, parse_measure
from lmtune.measures.residual_bounds import OpenTopic, bounds, check_bounded, is_exact

NAMES = [
    *(
        "AP",
        "AP@3",
        "AP(rel=2)",
        "Bpref",
        "Bpref(rel=2)",
        "P@3",
        "P(rel=2)@5",
        "R@2",
        "R(rel=3)@4",
        "RR",
        "RR@2",
    ),
    *("nDCG", "nDCG@3", "nDCG(dcg='exp-log2')@4", "nDCG(dcg='exp-log2')", "RBP", "RBP(p=0.5, rel=2)@4"),
    *("Success@2", "Success(rel=2)@3"),
]
Topic = tuple[dict[bytes, int], list[bytes], list[bytes], int]


def value(measure: Measure, ranking: list[bytes], judgements: dict[bytes, int]) -> float:
    compute = measure.declared.value
    assert compute is not None
    return compute(judge(ranking, judgements, level=measure.rel), measure)


def every_way(measure: Measure, topic: Topic) -> tuple[float, float]:
    judgements, one, other, largest = topic
    unjudged = [docno for docno in dict.fromkeys((*one, *other)) if judgements.get(docno, -1) < 0]
    found = []
    for gains in product(range(largest + 1), repeat=len(unjudged)):
        whole = judgements | dict(zip(unjudged, gains, strict=True))
        found.append(value(measure, one, whole) - (value(measure, other, whole) if other else 0.0))
    return min(found), max(found)


def made(seed: int, *, pair: bool) -> Topic:
    rng = np.random.default_rng(seed)
    largest = int(rng.integers(1, 4))
    documents = [b"%d" % i for i in range(int(rng.integers(2, 9)))]
    most = 5 if largest == 3 else 6
    judged = rng.permutation(documents)[: max(0, len(documents) - int(rng.integers(0, most + 1)))]
    judgements = {
        bytes(docno): int(rng.integers(-1 if rng.random() < 0.2 else 0, largest + 1)) for docno in judged
    }
    one, other = (
        list(map(bytes, rng.permutation(documents)[: int(rng.integers(1, len(documents) + 1))])) for _ in "ab"
    )
    return judgements, one, other if pair else [], largest


def opened(topic: Topic) -> OpenTopic:
    return OpenTopic.of(*topic)


@pytest.mark.parametrize("name", NAMES)
def test_bounds_of_a_run_are_those_of_all_ways_to_judge(name: str) -> None:
    measure = parse_measure(name)
    assert is_exact(measure, difference=False)
    for seed in range(150):
        topic = made(seed, pair=False)
        assert bounds(measure, opened(topic)) == pytest.approx(every_way(measure, topic), abs=1e-12), seed


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


def test_judging_a_low_document_relevant_lowers_ap() -> None:
    topic: Topic = ({b"a": 1}, [b"a", b"x", b"y", b"z"], [], 1)
    low, high = bounds(parse_measure("AP"), opened(topic))
    assert (low, high) == pytest.approx((min((1 + 2 / 4) / 2, (1 + 2 / 3 + 3 / 4) / 3), 1.0))


def test_an_intermediate_gain_may_be_best() -> None:
    topic: Topic = ({b"a": 1}, [b"a", b"x"], [], 3)
    assert bounds(parse_measure("nDCG"), opened(topic))[1] == 1.0


def test_what_has_no_bounds_is_refused() -> None:
    with pytest.raises(InputError, match=r"no bounds over unjudged documents are known: 'ERR@10'.*nDCG"):
        check_bounded([parse_measure("AP"), parse_measure("ERR@10")])
