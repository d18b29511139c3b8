"""The artificial data: shapes, shares, seeds, and what can be learnt from them."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.datasets import FEATURES, Polynomial, artificial_data, artificial_fold
from lmtune.errors import InputError


def test_shares_of_labels_and_range_of_features() -> None:
    data = artificial_data(400, seed=3)
    assert data.features.shape == (400 * 50, FEATURES)
    assert -1.0 <= data.features.min() < -0.999 < 0.999 < data.features.max() <= 1.0
    shares = np.bincount(data.labels.astype(int)) / data.labels.size
    np.testing.assert_allclose(shares, [0.52, 0.32, 0.13, 0.02, 0.01], atol=0.01)


def test_fewer_queries_are_the_first_ones() -> None:
    few, many = artificial_data(3, seed=1), artificial_data(5, seed=1)
    np.testing.assert_array_equal(few.features, many.features[: 3 * 50])
    np.testing.assert_array_equal(few.labels, many.labels[: 3 * 50])


@pytest.mark.slow
def test_parts_and_seeds_differ() -> None:
    fold = artificial_fold(4, documents=10)
    assert [len(part.queries) for part in (fold.train, fold.validation, fold.test)] == [4, 2, 4]
    assert (fold.train.features[:20] != fold.validation.features).mean() > 0.99
    assert (artificial_data(2).features != artificial_data(2, seed=1).features).mean() > 0.99


def test_the_polynomial_has_degree_three_and_no_constant() -> None:
    polynomial = Polynomial.draw(7, 5)
    point = np.random.default_rng(0).uniform(-1, 1, (1, 7))
    along = polynomial(np.arange(5.0)[:, None] * point)
    # Fourth differences of a cubic vanish, third ones do not.
    assert along[0] == 0.0
    assert abs(np.diff(along, 4)[0]) < 1e-12 * np.abs(along).max() < abs(np.diff(along, 3)[0])


@pytest.mark.slow
def test_shares_of_the_variance() -> None:
    polynomial = Polynomial.draw(FEATURES, 0)
    x = np.random.default_rng(9).uniform(-1, 1, (50_000, FEATURES))
    parts = [Polynomial((factors,))(x) for factors in polynomial.factors]
    np.testing.assert_allclose([part.var() for part in parts], [0.6, 0.3, 0.1], rtol=0.05)
    fitted = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), polynomial(x))[0]
    explained = 1.0 - np.var(polynomial(x) - x @ fitted[:-1] - fitted[-1])
    assert 0.55 < explained < 0.75


@pytest.mark.parametrize(("queries", "documents"), [(0, 50), (5, 1)])
def test_too_little(queries: int, documents: int) -> None:
    with pytest.raises(InputError, match="too few artificial queries or documents"):
        artificial_data(queries, documents=documents)
