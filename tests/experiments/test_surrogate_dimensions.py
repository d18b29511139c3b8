"""Made-up models: their gradients, their hidden weights, and the searches on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.surrogates.made_up import HIDDEN, Evidence, made_up, search
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.measure import parse_measure
from lmtune.models.kernels import TopicDocuments
from lmtune.tuning.space import ParameterSpace

NAME = "synthetic:1000x40"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    place: Path = tmp_path_factory.getbasetemp() / "dimensions"
    place.mkdir(exist_ok=True)
    monkeypatch.chdir(place)


def test_the_features_are_the_scores_differences() -> None:
    rng = np.random.default_rng(0)
    tf, length = rng.integers(0, 9, (3, 12)), rng.integers(9, 400, 12)
    topic = TopicDocuments(
        tf, length, np.array([0.01, 0.002, 0.1]), np.array([1, 2, 1]), np.zeros(3, np.int8), 200.0
    )
    formula = Evidence(7)
    space = ParameterSpace.of(formula)
    setting = space.random(rng)
    scores, gradient = formula.differentiate(topic, setting)
    assert gradient.shape == (7, 12)
    for number, axis in enumerate(np.eye(7)):
        moved = formula.differentiate(topic, setting + 0.5 * axis)[0]
        np.testing.assert_allclose(gradient[number], 2.0 * (moved - scores), atol=1e-12)
    assert np.linalg.matrix_rank(gradient) == 7


def test_hidden_weights_are_near_the_best() -> None:
    pool, hidden = made_up(NAME, 5, 3)
    assert np.bincount(pool.candidates.gain + 1, minlength=3)[2] <= 10 * len(pool.topics)
    space = ParameterSpace.of(pool.formula)
    rng = np.random.default_rng(1)
    settings = np.array([hidden, *(space.random(rng) for _ in range(20))])
    means = measure_settings(pool, settings, [parse_measure("AP")])[:, :, 0].mean(axis=0)
    assert means[0] > 0.3
    assert (means[0] > means[1:]).mean() > 0.9
    again, same = made_up(NAME, 5, 3)
    np.testing.assert_array_equal(hidden, same)
    np.testing.assert_array_equal(pool.candidates.gain, again.candidates.gain)


@pytest.mark.slow
def test_searches_have_a_row_each() -> None:
    rows = search(NAME, 2, 0, 20)["parameters"]
    by_method = {row["method"]: row for row in rows}
    smooth = ("approx-AP", "approx-AP, one start")
    assert list(by_method) == [HIDDEN, "coordinate ascent", "FDSA", "SPSA", *smooth]
    pool, hidden = made_up(NAME, 2, 0)
    values = measure_settings(pool, hidden, [parse_measure("AP")])[:, 0, 0]
    assert by_method[HIDDEN]["train"] == pytest.approx(values[::2].mean())
    assert by_method[HIDDEN]["test"] == pytest.approx(values[1::2].mean())
    assert by_method["SPSA"]["evaluations"] == 20
    scored = np.diff(pool.candidates.start)[::2].sum()
    assert by_method["SPSA"]["documents"] == 20 * scored
    for name in ("coordinate ascent", *smooth):
        assert by_method[name]["train"] > 0.97 * by_method[HIDDEN]["train"]
        assert by_method[name]["documents"] > 0
