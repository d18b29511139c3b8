"""Certificates of BM25: models of its scores in 50 digits, and settings against every bound."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import COLLECTIONS, random_collection

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.skyband import skyband
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.models.taylor_kernels import ERROR, ROWS, SS, SU, UU, VALUE, S, U, bm25_models, half_width
from lmtune.tuning.certificate.branch_and_bound import bound_part, whole
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.certificate.problem import Problem
from lmtune.tuning.space import ParameterSpace

mpmath.mp.dps = 50
mpf = mpmath.mpf
unit = st.floats(0.0, 1.0)


@settings(deadline=None, max_examples=COLLECTIONS)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.floats(1e-4, 15.0)), min_size=1, max_size=4),
    st.floats(1e-3, 60.0),
    st.floats(-5.0, 3.0),
    st.floats(0.0, 1.0),
    st.tuples(unit, unit),
    st.lists(st.tuples(unit, unit), min_size=1, max_size=4),
)
def test_scores_stay_within_the_error_of_their_model(
    terms: list[tuple[int, float]],
    length: float,
    s_low: float,
    width: float,
    ends: tuple[float, float],
    inside: list[tuple[float, float]],
) -> None:
    box = (s_low, s_low + width, min(ends), max(ends))
    tf, weight = (np.array(part, np.float64) for part in zip(*terms, strict=True))
    out = np.empty((ROWS, 1))
    slack = 1e-11  # of values alone
    bm25_models(tf[:, None], np.array([length]), np.zeros(1, np.int32), weight, slack, box, out)
    row = [mpf(float(value)) for value in out[:, 0]]
    hs, hb = half_width(*box[:2]), half_width(*box[2:])
    for along, across in [*inside, (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]:
        s = min(box[0] + along * (box[1] - box[0]), box[1])
        b = min(box[2] + across * (box[3] - box[2]), box[3])
        x = (mpf(s) - 0.5 * (box[0] + box[1])) / hs if hs else mpf(0)
        z = (mpf(b) - 0.5 * (box[2] + box[3])) / hb if hb else mpf(0)
        room = mpmath.exp(s) * (1 - mpf(b) + mpf(b) * mpf(length))
        true = mpmath.fsum(mpf(w) * mpf(t) / (mpf(t) + room) for t, w in terms)
        model = row[VALUE] + row[S] * x + row[U] * z + row[SS] * x**2 + row[SU] * x * z + row[UU] * z**2
        assert abs(true - model) <= row[ERROR]


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 10**6), st.sampled_from(["AP", "P@5", "Bpref", "RR", "AP(rel=2)", "nDCG", "nDCG@5"]))
def test_no_topic_exceeds_its_bound_in_any_box(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    measure = parse_measure(name)
    index, topics, qrels = random_collection(seed, documents=int(rng.integers(5, 120)), topics=8)
    pool = CandidatePool.build(index, topics, qrels, model="bm25")
    space = ParameterSpace.of("bm25", {"b": tuple(np.sort(rng.choice([0.0, 0.3, 0.7, 1.0], 2)))})
    problem = Problem.build(pool, measure, space=space, topics=pool.positions(), depth=12)
    gain = pool.candidates.gain
    chosen = [t for t in pool.positions() if (gain[pool.candidates.rows(t)] >= measure.rel).any()]
    box, (s_low, s_high, b_low, b_high) = whole(problem), problem.sides
    target = problem.proof.to_point(*space.random(rng))
    for _ in range(7):
        a, b, c, d = rng.uniform(0.0, 1.0, 4)
        s_low, s_high = s_low + a * (target[0] - s_low), s_high - b * (s_high - target[0])
        b_low, b_high = b_low + c * (target[1] - b_low), b_high - d * (b_high - target[1])
        box = bound_part(problem, box, (s_low, s_high, b_low, b_high))
        points = np.stack((rng.uniform(s_low, s_high, 30), rng.uniform(b_low, b_high, 30)), axis=1)
        inside = [space.clip(problem.proof.to_setting(*point)) for point in points.tolist()]
        kept = [setting for setting in inside if s_low <= problem.proof.to_point(*setting)[0] <= s_high]
        if kept:
            values = measure_settings(pool, np.array(kept), [measure], depth=12)[:, :, 0]
            assert (values[chosen] <= box.bounds[:, None]).all()


@pytest.mark.first_case
@pytest.mark.parametrize("model", ["bm25", "lucene-bm25"])
@pytest.mark.parametrize("name", ["AP", "P@5", "Bpref", "nDCG@10"])
def test_certificates_hold_and_reach_their_tolerance(model: str, name: str) -> None:
    index, topics, qrels = random_collection(3, documents=150, topics=20, vocabulary=14)
    # Lengths that are no multiples of each other: where b is 1, proportional documents would tie.
    index.lengths = (index.lengths * 29 + np.arange(150)).astype(np.int32)
    index.total_terms = int(index.lengths.sum())
    pool = CandidatePool.build(index, topics, qrels, model=model)
    space = ParameterSpace.of(model, {"b": (0.0, 0.95)})
    optimum = CertifiedOptimum(name, tolerance=0.004, space=space, depth=30, max_seconds=60)
    optimum.fit(skyband(pool, depth=30))
    assert optimum.certified_
    assert list(optimum.boxes_) == ["k1_low", "k1_high", "b_low", "b_high", "bound"]
    rng = np.random.default_rng(0)
    settings = np.concatenate((space.grid((40, 40)), [space.random(rng) for _ in range(3000)]))
    values = measure_settings(pool, settings, [parse_measure(name)], depth=30)[:, :, 0].mean(axis=0)
    assert values.max() <= optimum.bound_
    assert values.max() >= optimum.best_value_ - 0.02
    low, high = (optimum.boxes_[[f"k1_{end}", f"b_{end}"]].to_numpy() for end in ("low", "high"))
    for setting, value in zip(settings, values, strict=True):
        around = ((low <= setting) & (high >= setting)).all(axis=1)
        assert value <= max([optimum.best_value_ + 1e-12, *optimum.boxes_["bound"].to_numpy()[around]])


@pytest.mark.parametrize("ranges", [{"b": (0.0, 0.0)}, {"k1": (0.0, 0.0)}, {"k1": (2.0, 2.0)}])
def test_thin_ranges(ranges: dict[str, tuple[float, float]]) -> None:
    # Where b is 0 or k1 is 0, many documents score alike and their places decide.
    pool = CandidatePool.build(*random_collection(9, documents=200, topics=15), model="bm25")
    space = ParameterSpace.of("bm25", ranges)
    optimum = CertifiedOptimum("AP", tolerance=0.002, space=space).fit(pool)
    assert optimum.certified_
    rng = np.random.default_rng(0)
    settings = np.array([space.random(rng) for _ in range(1000)])
    values = measure_settings(pool, settings, [parse_measure("AP")])[:, :, 0].mean(axis=0)
    assert values.max() <= optimum.bound_
