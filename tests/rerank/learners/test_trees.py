"""LambdaMART: it learns, the same each time, and its file is LightGBM's own."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmtune.errors import InputError, MissingExtraError
from lmtune.measures.lists import mean_over_lists, ndcg
from lmtune.rerank.data import RankingData
from lmtune.rerank.learners.trees import fit
from lmtune.rerank.rankers import TreeSettings

QUICK = TreeSettings(leaves=7, rounds=40, patience=10, threads=1)


def made(seed: int, queries: int = 40) -> RankingData:
    """Make queries whose grades follow a product of two features, with noise."""
    random = np.random.default_rng(seed)
    lengths = random.integers(5, 25, queries)
    features = random.normal(size=(lengths.sum(), 6))
    value = features[:, 0] * features[:, 1] + features[:, 2] + random.normal(size=len(features)) / 3
    return RankingData.from_lengths(features, np.clip(np.round(value), 0, 4), lengths)


@pytest.fixture(scope="module")
def lightgbm() -> Any:
    return pytest.importorskip("lightgbm", reason="the extra 'neural' is not installed")


@pytest.mark.usefixtures("lightgbm")
class TestTrees:
    def test_learn(self) -> None:
        train, validation, test = made(0), made(1), made(2)
        seen: list[tuple[int, int]] = []
        grown = fit(train, validation, QUICK, progress=lambda n, of, _: seen.append((n, of)))
        before = mean_over_lists(ndcg(np.zeros(len(test.labels)), test, [10]))[0]
        after = mean_over_lists(ndcg(grown.score(test), test, [10]))[0]
        assert after > before + 0.2
        assert seen == [(n, 40) for n in range(1, len(grown.history) + 1)]
        assert grown.best_round == np.argmax(grown.history) + 1 == grown.trees
        # What is kept scores the validation data as the best round did.
        again = mean_over_lists(ndcg(grown.score(validation), validation, [10]))[0]
        assert again == pytest.approx(grown.validation, abs=1e-12)

    def test_stop_early(self) -> None:
        few = made(0, 10)
        settings = TreeSettings(leaves=7, patience=3, min_rows=5, min_hessian=0.0, threads=1)
        grown = fit(few, made(1, 10), settings)
        assert len(grown.history) == grown.best_round + 3 < 1000

    @pytest.mark.parametrize("wide", ["training", "validation"])
    def test_refuse_a_query_of_more_rows_than_lightgbm_takes(self, wide: str) -> None:
        data = RankingData.from_lengths(np.ones((10_001, 6)), np.arange(10_001) % 3, [10_001])
        train, validation = (data, made(1)) if wide == "training" else (made(1), data)
        with pytest.raises(
            InputError, match=rf"of a query in the {wide} data for LambdaMART: 10001; accepted: up to 10,000"
        ):
            fit(train, validation, QUICK)

    @pytest.mark.slow
    def test_are_the_same_each_time(self) -> None:
        train, validation = made(0), made(1)
        one, other, third = (
            fit(train, validation, TreeSettings(leaves=7, rounds=10, seed=seed, threads=threads))
            for seed, threads in [(1, 1), (1, 2), (2, 1)]
        )
        scores = [grown.score(train) for grown in (one, other, third)]
        assert (scores[0] == scores[1]).all()
        assert (scores[0] != scores[2]).any()

    def test_are_kept(self, tmp_path: Path, lightgbm: Any) -> None:
        data = made(0)
        model = fit(data, made(1), QUICK)
        (tmp_path / "trees.txt").write_text(model.text)
        again = replace(model, text=(tmp_path / "trees.txt").read_text())
        assert again.features == 6
        assert (again.score(data) == model.score(data)).all()
        theirs = lightgbm.Booster(model_file=str(tmp_path / "trees.txt")).predict(data.features)
        assert (model.score(data) == theirs).all()
        assert model.score(data.select([])).shape == (0,)
        for wrong in (model.text[:800], "hello", "tree\n\nend of trees"):
            with pytest.raises(InputError, match="LightGBM model"):
                replace(model, text=wrong).score(data)

    def test_take_data_that_fit(self) -> None:
        data = made(0, 10)
        narrow = RankingData(data.features[:, :3], data.labels, data.starts, data.queries)
        with pytest.raises(InputError, match="different features"):
            fit(data, narrow)
        half = RankingData(data.features, data.labels / np.float32(2), data.starts, data.queries)
        with pytest.raises(
            InputError, match=r"bad label in the training data for LambdaMART: 0\.5; accepted: integers"
        ):
            fit(half, data)
        nothing = RankingData(data.features, data.labels * 0, data.starts, data.queries)
        with pytest.raises(InputError, match="no validation query has a relevant document"):
            fit(data, nothing)
        with pytest.raises(InputError, match="too few training rows for a split"):
            fit(data, data, TreeSettings(min_rows=1000))
        model = fit(made(1), data, QUICK)
        with pytest.raises(InputError, match="wrong number of features: 3; accepted: 6"):
            model.score(narrow)


@pytest.mark.parametrize(
    "wrong",
    [
        {"leaves": 1},
        {"learning_rate": 0.0},
        {"row_share": 1.5},
        {"patience": 0},
        {"seed": -1},
        {"min_hessian": np.nan},
    ],
)
def test_bad_settings(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"bad {next(iter(wrong))}".replace("_", " ")):
        TreeSettings(**wrong)  # type: ignore[arg-type]


def test_without_lightgbm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingExtraError, match="LambdaMART needs the 'neural' extra"):
        fit(made(0), made(1))
