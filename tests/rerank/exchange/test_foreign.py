"""Models of LightGBM, XGBoost, CatBoost and RankLib score as in their own programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.rerank.data import RankingData
from lmtune.rerank.exchange.foreign import ForeignModel, catboost_trees
from lmtune.rerank.reranker import load_model


def lists(width: int = 5) -> RankingData:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(600, width)).astype(np.float32)
    # Whole numbers are thresholds too: "below" and "at most" differ there.
    features[:, 2] = np.round(2 * features[:, 2])
    wanted = features[:, 0] * features[:, 1] + features[:, 2]
    return RankingData.from_lengths(features, np.clip(np.round(wanted), 0, 4), [20] * 30)


DATA = lists()


def boosted(file: Path, data: RankingData = DATA, **parameters: Any) -> np.ndarray:
    """Train XGBoost, save it and return its scores."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    labels = data.labels > 0 if "binary" in parameters["objective"] else data.labels
    matrix = xgboost.DMatrix(data.features, labels, feature_names=parameters.pop("names", None))
    matrix.set_group(data.lengths)
    booster = xgboost.train({"nthread": 1, **parameters}, matrix, 12)
    booster.save_model(file)
    return np.asarray(booster.predict(matrix, output_margin=True))


class TestXgboost:
    @pytest.mark.parametrize("suffix", ["json", "ubj"])
    @pytest.mark.parametrize("objective", ["rank:ndcg", "binary:logistic", "count:poisson"])
    def test_trees_score_the_same(self, tmp_path: Path, objective: str, suffix: str) -> None:
        expected = boosted(tmp_path / f"model.{suffix}", objective=objective)
        scores = load_model(tmp_path / f"model.{suffix}").score(DATA)
        np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)
        if objective == "rank:ndcg":  # a base score that needs no conversion
            assert (scores == expected).all()

    def test_dart_scores_the_same(self, tmp_path: Path) -> None:
        how: dict[str, Any] = {"booster": "dart", "rate_drop": 0.4}
        expected = boosted(tmp_path / "model.json", objective="reg:squarederror", **how)
        np.testing.assert_allclose(load_model(tmp_path / "model.json").score(DATA), expected, atol=1e-6)

    def test_linear_scores_the_same(self, tmp_path: Path) -> None:
        expected = boosted(tmp_path / "model.ubj", objective="reg:squarederror", booster="gblinear")
        np.testing.assert_allclose(load_model(tmp_path / "model.ubj").score(DATA), expected, atol=1e-6)

    def test_features_are_named_if_the_file_names_them(self, tmp_path: Path) -> None:
        names = ["bm25", "length", "a", "b", "c"]
        boosted(tmp_path / "model.json", objective="rank:ndcg", names=names)
        model = load_model(tmp_path / "model.json")
        assert model.names == tuple(names)
        with pytest.raises(InputError, match="trained on other features"):
            model.check_features(["bm25", "length", "a", "b", "d"])

    def test_numbers_that_start_from_a_feature_0_that_no_row_has(self, tmp_path: Path) -> None:
        # LETOR files start at 1; XGBoost and LightGBM then have an empty feature 0.
        shifted = RankingData.from_lengths(np.pad(DATA.features, ((0, 0), (1, 0))), DATA.labels, [20] * 30)
        expected = boosted(tmp_path / "model.json", shifted, objective="rank:ndcg")
        assert (load_model(tmp_path / "model.json").score(DATA) == expected).all()

    def test_refuse_several_classes(self, tmp_path: Path) -> None:
        boosted(tmp_path / "model.json", objective="multi:softprob", num_class=5)
        with pytest.raises(InputError, match=r"model.json: cannot score several classes"):
            load_model(tmp_path / "model.json")


class TestLightgbm:
    @pytest.mark.parametrize("more", [{}, {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}])
    def test_score_the_same(self, tmp_path: Path, more: dict[str, Any]) -> None:
        lightgbm = pytest.importorskip("lightgbm", reason="the extra 'neural' is not installed")
        data = lightgbm.Dataset(DATA.features, DATA.labels)
        how = {"objective": "regression", "verbosity": -1, "num_threads": 1, **more}
        booster = lightgbm.train(how, data, 12)
        booster.save_model(tmp_path / "model.txt")
        scores = load_model(tmp_path / "model.txt").score(DATA)
        np.testing.assert_allclose(scores, booster.predict(DATA.features), rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("more", [{"zero_as_missing": True}, {"linear_tree": True}])
    def test_refuse_what_is_not_a_plain_tree(self, more: dict[str, Any]) -> None:
        lightgbm = pytest.importorskip("lightgbm", reason="the extra 'neural' is not installed")
        how = {"objective": "regression", "verbosity": -1, "num_threads": 1, **more}
        data = lightgbm.Dataset(DATA.features, DATA.labels, params=how)
        text = lightgbm.train(how, data, 2).model_to_string()
        with pytest.raises(InputError, match="cannot score"):
            ForeignModel.parse(text.encode())


class TestCatboost:
    @pytest.mark.parametrize("loss", ["RMSE", "YetiRank"])
    def test_score_the_same(self, tmp_path: Path, loss: str) -> None:
        catboost = pytest.importorskip("catboost", reason="the extra 'catboost' is not installed")
        pool = catboost.Pool(DATA.features, DATA.labels, group_id=DATA.query_of_row)
        how = {"loss_function": loss, "iterations": 12, "depth": 4, "allow_writing_files": False}
        model = catboost.CatBoost({**how, "verbose": False, "thread_count": 1})
        model.fit(pool)
        model.save_model(str(tmp_path / "model.json"), format="json")
        read = load_model(tmp_path / "model.json")
        np.testing.assert_allclose(read.score(DATA), model.predict(DATA.features), rtol=1e-12, atol=1e-12)
        assert read.scorer.label == "catboost"

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"scale_and_bias": [1, [0.0, 0.0]]}, "several outputs: '2 outputs'"),
            ({"oblivious_trees": None}, "not symmetric"),
            ({"oblivious_trees": [{"splits": [{"split_type": "OnlineCtr"}]}]}, "categories: 'OnlineCtr'"),
        ],
    )
    def test_refuse_what_is_not_a_symmetric_tree(self, change: dict[str, Any], message: str) -> None:
        leaf = {"splits": None, "leaf_values": [0.5]}
        features = {"float_features": [{"flat_feature_index": 0}]}
        plain = {"scale_and_bias": [2, [1.0]], "features_info": features, "oblivious_trees": [leaf]}
        assert catboost_trees(plain).score(np.zeros((1, 1))) == [2.0]
        trees = [{"leaf_values": [], **tree} for tree in change.get("oblivious_trees") or []]
        changed = {**plain, **change} | ({"oblivious_trees": trees} if trees else {})
        if changed["oblivious_trees"] is None:
            del changed["oblivious_trees"]
        with pytest.raises(InputError, match=message):
            catboost_trees(changed)


ENSEMBLE = """## LambdaMART
## No. of trees = 2
## Learning rate = 0.1

<ensemble>
  <tree id="1" weight="0.5">
    <split>
      <feature> 2 </feature>
      <threshold> 1.5 </threshold>
      <split pos="left"><output> -2.0 </output></split>
      <split pos="right">
        <feature> 1 </feature>
        <threshold> 0.0 </threshold>
        <split pos="left"><output> 1.0 </output></split>
        <split pos="right"><output> 4.0 </output></split>
      </split>
    </split>
  </tree>
  <tree id="2" weight="0.25">
    <split>
      <feature> 3 </feature>
      <threshold> 7 </threshold>
      <split pos="left"><output> 0.0 </output></split>
      <split pos="right"><output> 8.0 </output></split>
    </split>
  </tree>
</ensemble>
"""


class TestRanklib:
    """Scores by hand: a value up to the threshold goes left; outputs are multiplied by the tree's weight."""

    rows = RankingData.from_lengths(
        np.array([[0, 1.5, 7], [0, 2, 8], [1, 2, 7.5], [1, 1, 0]]), [0, 1, 0, 1], [4]
    )

    def test_lambdamart(self) -> None:
        model = ForeignModel.parse(ENSEMBLE.encode())
        assert model.score(self.rows).tolist() == [-1.0, 2.5, 4.0, -1.0]

    def test_coordinate_ascent(self) -> None:
        model = ForeignModel.parse(b"## Coordinate Ascent\n## Restart = 5\n1:0.5 3:-2.0\n")
        assert model.score(self.rows).tolist() == [-14.0, -16.0, -14.5, 0.5]

    def test_linear_regression_has_a_bias(self) -> None:
        model = ForeignModel.parse(b"## Linear Regression\n## Lambda = 1.0E-10\n0:10.0 1:0.5 3:-2.0\n")
        assert model.score(self.rows).tolist() == [-4.0, -6.0, -4.5, 10.5]

    def test_refuse_other_rankers(self) -> None:
        with pytest.raises(InputError, match="cannot score this RankLib model: 'RankNet'"):
            ForeignModel.parse(b"## RankNet\n## Epochs = 100\n")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"tree\nversion=v4\n", b'{"learner": 1}', b"## LambdaMART\n<x", b"[" * 5000, b'{"a":' * 5000],
)
def test_refuse_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(InputError, match=r"model: not a model.*; accepted: LightGBM's text, ") as caught:
        load_model(tmp_path / "model")
    assert ("no line 'end of trees'" in str(caught.value)) == content.startswith(b"tree")


def test_refuse_other_numbers_of_features() -> None:
    model = ForeignModel.parse(b"## Coordinate Ascent\n1:0.5 7:-2.0\n")
    with pytest.raises(InputError, match="wrong number of features: 5; accepted: 7"):
        model.score(DATA)
