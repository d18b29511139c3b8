"""The generator's arithmetic against published numbers, scipy and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from synthetic import kernels
from synthetic.drawing import _best

KEY = np.uint64(1234567)


def test_uniform_numbers_are_splitmix64s() -> None:
    """The first outputs of SplitMix64 seeded with 1234567, as Vigna's C program prints them."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    for place, output in enumerate(published):
        assert kernels.uniform(KEY, place) == ((output >> 11) + 0.5) / 2**53


def test_numbers_are_uniform() -> None:
    numbers = np.array([kernels.uniform(KEY, place) for place in range(20_000)])
    assert stats.kstest(numbers, "uniform").pvalue > 0.001
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.03


@pytest.mark.parametrize(("rate", "shape"), [(0.001, 0.05), (0.004, 0.4), (0.02, 50.0)])
def test_background_frequencies_are_negative_binomial(rate: float, shape: float) -> None:
    """By scipy's inverse of the distribution function, at the same uniform numbers."""
    lengths = np.random.default_rng(5).integers(1, 2000, 3000).astype(np.int32)
    tf = np.empty(lengths.size, np.int32)
    kernels.draw_background(KEY, lengths, rate, shape, tf)
    u = np.array([kernels.uniform(KEY, place) for place in range(lengths.size)])
    expected = np.minimum(stats.nbinom.ppf(u, shape, 1 / (1 + lengths * rate / shape)), lengths)
    # At a step of the distribution function rounding decides.
    assert (tf == expected).mean() > 0.999
    assert abs(tf - expected).max() <= 1


def test_topical_frequencies_are_added() -> None:
    docs, mean = np.arange(0, 4000, 2, dtype=np.int32), np.linspace(0.01, 30, 2000)
    tf = np.full(4000, 7, np.int32)
    most = np.full(2000, 25, np.int32)
    kernels.add_topical(KEY, docs, mean, 0.8, most, tf)
    assert (tf[1::2] == 7).all()
    u = np.array([kernels.uniform(KEY, doc) for doc in docs])
    expected = np.minimum(stats.nbinom.ppf(u, 0.8, 1 / (1 + mean / 0.8)), 25)
    assert (tf[::2] - 7 == expected).mean() > 0.999


@pytest.mark.parametrize("share", [0.001, 0.05, 0.25])
def test_the_shape_gives_the_document_frequency(share: float) -> None:
    lengths = np.random.default_rng(6).lognormal(5.4, 0.75, 400)
    rate = 1.8 * share / lengths.mean()
    shape = kernels.solve_shape(lengths, rate, share, 1e-3, 50.0)
    absent = stats.nbinom.pmf(0, shape, 1 / (1 + lengths * rate / shape))
    assert 1 - absent.mean() == pytest.approx(share, rel=1e-6)


def test_affinities_are_weibull_and_areas_are_as_large_as_they_should_be() -> None:
    chance = np.where(np.arange(50_000) < 25_000, 0.05, 0.2)
    docs, affinity = np.empty(50_000, np.int32), np.empty(50_000)
    count = kernels.draw_area(KEY, chance, 1.25, 0.53, docs, affinity)
    docs, affinity = docs[:count], affinity[:count]
    assert (docs < 25_000).sum() == pytest.approx(1250, abs=150)
    assert (docs >= 25_000).sum() == pytest.approx(5000, abs=280)
    assert stats.kstest(affinity, "weibull_min", (1 / 1.25, 0, 0.53)).pvalue > 0.001


def test_common_words_leave_nothing_over() -> None:
    free = np.random.default_rng(7).integers(0, 50, 5000).astype(np.int32)
    left, tf = free.copy(), np.empty(5000, np.int32)
    for step, share in enumerate((0.4, 0.4, 0.4, 1.0)):
        before = left.copy()
        kernels.draw_common(np.uint64(step), share, free, left, tf)
        np.testing.assert_array_equal(left, before - tf)
        assert (tf >= 0).all()
        assert (left >= 0).all()
        if step < 2:
            assert tf.mean() == pytest.approx(0.4 * free.mean(), rel=0.01)
    assert (left == 0).all()


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(1, 12))
def test_the_best_are_the_first_of_equals(values: list[int], depth: int) -> None:
    score = np.array(values, np.float64)
    ranked = sorted(range(len(values)), key=lambda i: (-values[i], i))
    assert sorted(_best(score, depth).tolist()) == sorted(ranked[:depth])
