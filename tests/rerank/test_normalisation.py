"""Normalisation against the formulas, query by query."""

from __future__ import annotations

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.rerank import normalisation
from lmtune.rerank.data import RankingData
from lmtune.rerank.normalisation import METHODS, Method, Normaliser


def made(seed: int, lengths: list[int]) -> RankingData:
    random = np.random.default_rng(seed)
    rows = sum(lengths)
    features = random.normal(size=(rows, 4)) * [1, 100, 1e-6, 1] + [0, 50, 3, 0]
    features[:, 3] = 0.1  # constant
    return RankingData.from_lengths(features, random.integers(0, 3, rows), lengths)


@pytest.mark.parametrize("log1p", [True, False])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("block", [1, 7, 1 << 16])
def test_formulas(method: Method, log1p: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalisation, "_BLOCK_ROWS", block)
    train, test = made(0, [5, 1, 9, 3]), made(1, [2, 8, 1])
    found = Normaliser.fit(train, method=method, log1p=log1p).transform(test)

    def prepared(data: RankingData) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        x = data.features.astype(np.float64)
        return np.sign(x) * np.log1p(np.abs(x)) if log1p else x

    expected = prepared(test)
    if method == "z-score":
        known = prepared(train)
        deviation = known.std(axis=0)
        expected = (expected - known.mean(axis=0)) / np.where(deviation > 1e-12, deviation, np.inf)
    elif method != "none":
        for q in range(len(test.queries)):
            x = expected[test.rows(q)]
            centre = x.min(axis=0) if "min" in method else x.mean(axis=0)
            unit = np.ptp(x, axis=0) if "min" in method else x.std(axis=0)
            expected[test.rows(q)] = (x - centre) / np.where(unit > 1e-12, unit, np.inf)
    assert found.features.dtype == np.float32
    # Values of 3 with a deviation of 1e-6 lose digits in float32 input, not here.
    np.testing.assert_allclose(found.features, expected, rtol=1e-6, atol=1e-6)
    assert found.queries == test.queries
    assert found.labels is test.labels


@pytest.mark.parametrize("method", METHODS[1:])
def test_features_without_spread_become_zero(method: Method) -> None:
    features = np.full((6, 3), np.float32(0.1))
    features[:3, 1] = 5e8
    data = RankingData.from_lengths(features, np.zeros(6), [3, 3])
    normaliser = Normaliser.fit(data, method=method)
    found = normaliser.transform(data).features
    assert (found[:, [0, 2]] == 0).all()
    other = RankingData.from_lengths(features * 7, np.zeros(6), [3, 3])
    assert (normaliser.transform(other).features[:, [0, 2]] == 0).all()
    one = RankingData.from_lengths([[3.0, 4.0, 5.0]], [1], [1])
    assert np.isfinite(normaliser.transform(one).features).all()


def test_only_training_data_counts() -> None:
    train, test = made(0, [5, 9]), made(1, [4])
    normaliser = Normaliser.fit(train)
    before = normaliser.transform(test).features
    normaliser.transform(made(2, [30]))
    assert (normaliser.transform(test).features == before).all()
    assert before[:, :3].mean() != pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_kept_as_arrays(method: Method) -> None:
    data = made(3, [4, 5])
    normaliser = Normaliser.fit(data, method=method, log1p=False)
    again = Normaliser.from_arrays(normaliser.to_arrays())
    assert (again.method, again.log1p) == (method, False)
    assert (again.transform(data).features == normaliser.transform(data).features).all()


def test_bad_input() -> None:
    data = made(0, [3])
    with pytest.raises(InputError, match="unknown normalise: 'max'; accepted: none, z-score, query-z-score"):
        Normaliser.fit(data, method="max")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no rows"):
        Normaliser.fit(data.select([]))
    narrow = RankingData.from_lengths(data.features[:, :2], data.labels, [3])
    with pytest.raises(InputError, match="wrong number of features: 2; accepted: 4"):
        Normaliser.fit(data).transform(narrow)
    arrays = Normaliser.fit(data).to_arrays()
    for wrong in ({"method": np.array([9])}, {"scale": np.ones(2)}, {"centre": np.ones((4, 1))}):
        with pytest.raises(InputError, match=r"bad .*normaliser"):
            Normaliser.from_arrays({**arrays, **wrong})
    with pytest.raises(InputError, match=r"bad .*normaliser"):
        Normaliser.from_arrays({})
