"""Exported files score as lmtune does, by readers that are not lmtune's scorers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from made_lists import made_lists

from lmtune.errors import InputError
from lmtune.rerank.data import RankingData
from lmtune.rerank.exchange.engine_features import (
    ENGINES,
    Source,
    choose_features,
    identifier,
    vespa_expressions,
)
from lmtune.rerank.exchange.exporting import check_export, readme
from lmtune.rerank.exchange.readers import SLACK, read_elasticsearch, read_solr
from lmtune.rerank.exchange.targets import TARGETS, exported
from lmtune.rerank.normalisation import Normalisation
from lmtune.rerank.rankers import parse_ranker
from lmtune.rerank.reranker import Reranker, learn
from lmtune.rerank.settings import Settings

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
pytest.importorskip("lightgbm", reason="the extra 'neural' is not installed")
torch.set_num_threads(1)

NAMES = ("bm25", "title_bm25", "log_length", "3", "#1_bm25", "run_score")
TREES = Settings(ranker=parse_ranker("lambdamart:rounds=20:threads=1:min_rows=2:min_hessian=0.001"))
TEST = made_lists(2)


def whole(data: RankingData) -> RankingData:
    """Round features, so that many are equal to a tree's threshold."""
    return replace(data, features=np.round(data.features, 1))


def trained(settings: Settings, normalisation: Normalisation | None = None) -> Reranker:
    parts = made_lists(0), made_lists(1)
    facts = {"fields": ["title", "#1"]}
    return learn(*parts, settings, normalisation=normalisation, names=NAMES, facts=facts)


def network(name: str, *, log1p: bool = True, method: Any = "z-score") -> Reranker:
    return trained(Settings(network=name, epochs=2, batch_size=8), Normalisation(method, log1p))


@pytest.fixture(scope="module")
def trees() -> Reranker:
    return trained(TREES)


def agree(model: Reranker, target: str, data: RankingData = TEST) -> None:
    if target in ("onnx", "vespa"):
        pytest.importorskip("onnx", reason="the extra 'export' is not installed")
        pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")
    converted = exported(model, name="lmtune", field="contents")
    files = TARGETS[target].write(converted)
    checked = check_export(TARGETS[target], converted, files, model, data)
    assert checked.is_match
    assert checked.rows == data.labels.size


@pytest.mark.parametrize("target", ["lightgbm", "elasticsearch", "opensearch", "solr", "vespa"])
def test_trees_score_the_same(trees: Reranker, target: str) -> None:
    agree(trees, target)
    agree(trees, target, whole(TEST))


@pytest.mark.parametrize("target", ["elasticsearch", "solr", "vespa"])
def test_trees_of_yetirank_score_the_same(target: str) -> None:
    pytest.importorskip("catboost", reason="the extra 'catboost' is not installed")
    yeti = trained(Settings(ranker=parse_ranker("yetirank:rounds=20:depth=4")))
    agree(yeti, target)
    agree(yeti, target, whole(TEST))


@pytest.mark.parametrize("target", ["onnx", "solr", "vespa"])
@pytest.mark.parametrize("name", ["linear", "two-layer", "mlp:8-4", "b64"])
@pytest.mark.parametrize("log1p", [True, False])
def test_networks_score_the_same(name: str, target: str, log1p: bool) -> None:
    agree(network(name, log1p=log1p), target)


@pytest.mark.parametrize("method", ["none", "z-score"])
@pytest.mark.parametrize("log1p", [True, False])
def test_linear_models_score_the_same_in_the_plugins(method: str, log1p: bool) -> None:
    agree(network("linear", log1p=log1p, method=method), "elasticsearch")


def test_a_constant_feature_has_no_weight() -> None:
    train, validation, test = (made_lists(seed) for seed in range(3))
    train.features[:, 1] = validation.features[:, 1] = 7.0
    model = learn(train, validation, Settings(network="linear", epochs=2), names=NAMES)
    test.features[:, 1] = 5.0
    agree(model, "solr", test)
    converted = exported(model, name="lmtune", field="contents")
    assert "title_bm25" not in json.dumps(TARGETS["solr"].write(converted)["model.json"].decode())


@pytest.mark.parametrize(
    ("model", "target", "message"),
    [
        ("attention:8-1-1", "onnx", "scores a query's documents together: 'attention:8-1-1'"),
        ("mlp:8", "elasticsearch", "no networks with hidden layers: 'a network'; accepted: trees"),
        ("mlp:8", "lightgbm", "LightGBM's text holds only its own trees"),
        ("trees", "onnx", "ONNX takes networks only: 'trees'"),
        ("query-z-score", "solr", "features normalised by query: 'query-z-score'; accepted: --normalise"),
    ],
)
def test_refuse_what_a_target_cannot_express(trees: Reranker, model: str, target: str, message: str) -> None:
    made = (
        trees if model == "trees" else network("linear", method=model) if "query" in model else network(model)
    )
    with pytest.raises(InputError, match=re.escape(message)):
        TARGETS[target].write(exported(made, name="lmtune", field="contents"))


def test_other_scores_are_noticed(trees: Reranker) -> None:
    converted = exported(trees, name="lmtune", field="contents")
    checked = check_export(
        TARGETS["solr"], converted, TARGETS["solr"].write(converted), network("linear"), TEST
    )
    assert not checked.is_match
    assert checked.differing > 20
    assert str(checked).endswith(f"; {checked.differing} of 24 rankings differ")


def test_names_are_in_the_trees(trees: Reranker) -> None:
    text = trees.scorer.text  # type: ignore[attr-defined]
    assert f"\nfeature_names={' '.join(NAMES)}\n" in text
    assert re.search(r"^bm25=\d+$", text, re.MULTILINE)
    assert "Column_" not in text


def test_names_of_other_tools() -> None:
    assert [identifier(name) for name in NAMES[3:]] == ["f3", "f_1_bm25", "run_score"]
    with pytest.raises(InputError, match="become equal in engines: 'a-b'"):
        exported(trained(TREES), name="m", field="f", names=("a-b", "a_b", "c", "d", "e", "g"))


def test_features_of_engines(trees: Reranker) -> None:
    converted = exported(trees, name="lmtune", field="body")
    assert converted.used == list(NAMES)
    missing = {
        name: TARGETS[name].missing(converted) for name in ("elasticsearch", "solr", "vespa", "lightgbm")
    }
    assert missing["elasticsearch"] == ["3", "#1_bm25", "run_score"]
    assert missing["solr"] == missing["vespa"] == ["3", "#1_bm25"]
    assert missing["lightgbm"] == []
    assert "run_score: the run's score\n" in readme(TARGETS["elasticsearch"], converted, ("title",))
    entries = json.loads(TARGETS["elasticsearch"].write(converted)["featureset.json"])["featureset"][
        "features"
    ]
    assert [entry["name"] for entry in entries] == ["bm25", "title_bm25", "length", "log_length"]
    assert entries[0]["template"] == {"match": {"body": {"query": "{{keywords}}", "boost": 1 / 1.9}}}
    assert entries[3]["template"] == "ln(1 + length)"


def test_engines_that_multiply_bm25_divide_by_it(trees: Reranker) -> None:
    sources = {"bm25": Source("match", "body"), "bm25_classic": Source("match", "body_classic")}
    queries = {
        engine: [
            entry["template"]["match"][sources[entry["name"]].field].get("boost")
            for entry in cast("Any", ENGINES[engine]([*sources], sources))
        ]
        for engine in ("elasticsearch", "opensearch")
    }
    assert queries == {"elasticsearch": [1 / 1.9, 1 / 2.2], "opensearch": [None, None]}
    assert vespa_expressions([*sources], sources) == {"bm25": "bm25(body) / 1.9"}
    classic = replace(trees, names=("bm25_classic", *NAMES[1:]))
    converted = exported(classic, name="lmtune", field="body")
    profile = TARGETS["vespa"].write(converted)["lmtune.profile"].decode()
    assert "body_classic" not in profile


@pytest.mark.parametrize("net", ["linear", "mlp:8"])
def test_a_network_finds_its_features_in_solr_or_in_the_readme(net: str) -> None:
    converted = exported(network(net, log1p=True), name="lmtune", field="body")
    files = TARGETS["solr"].write(converted)
    used = {feature["name"] for feature in json.loads(files["model.json"])["features"]}
    defined = {entry["name"] for entry in json.loads(files["features.json"])}
    missing = {f"log1p_{identifier(name)}" for name in TARGETS["solr"].missing(converted)}
    assert used == defined | missing
    assert "log1p_run_score" in missing


def test_the_readme_names_requests_and_fields(trees: Reranker) -> None:
    converted = exported(trees, name="mine", field="body")
    text = readme(TARGETS["solr"], converted, ())
    assert "rq={!ltr model=mine " in text
    assert "\n  body: text, or a copy of it, ranked by BM25 with k1 = 0.9 and b = 0.4\n" in text
    assert "\n  body_length: the number of tokens of body\n" in text
    assert "run_score is the score of the search that is reranked" in text


@pytest.mark.parametrize("engine", ENGINES)
def test_chosen_features_are_those_that_the_files_define(trees: Reranker, engine: str) -> None:
    converted = exported(trees, name="lmtune", field="body")
    missing = TARGETS[engine].missing(converted)
    assert choose_features(engine, NAMES, ["title", "#1"]) == [name for name in NAMES if name not in missing]


class TestReaders:
    """The evaluators follow the engines' documents: cases by hand, and XGBoost's own dump."""

    features = np.array([[1.0], [2.0], [3.0]], np.float32)

    def test_the_plugin_sends_values_below_the_threshold_to_the_left(self) -> None:
        split = {
            "nodeid": 0,
            "depth": 0,
            "split": "x",
            "split_condition": 2.0,
            "yes": 1,
            "no": 2,
            "missing": 1,
        }
        tree = {**split, "children": [{"nodeid": 1, "leaf": -1.0}, {"nodeid": 2, "leaf": 1.0}]}
        files = plugin("model/xgboost+json", [tree])
        assert read_elasticsearch(files, ["x"])(self.features).tolist() == [-1.0, 1.0, 1.0]

    def test_the_plugin_reads_the_dump_of_xgboost(self) -> None:
        xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
        matrix = xgboost.DMatrix(TEST.features, TEST.labels, feature_names=[*"abcdef"])
        booster = xgboost.train({"nthread": 1, "base_score": 0.0}, matrix, 10)
        dump = [json.loads(tree) for tree in booster.get_dump(dump_format="json")]
        scores = read_elasticsearch(plugin("model/xgboost+json", dump), [*"abcdef"])(TEST.features)
        np.testing.assert_allclose(scores, booster.predict(matrix), atol=1e-6)

    def test_the_plugin_normalises(self) -> None:
        norm = {"x": {"standard": {"mean": 2.0, "standard_deviation": 0.5}}}
        files = plugin("model/linear", {"x": 3.0}, feature_normalizers=norm)
        assert read_elasticsearch(files, ["x"])(self.features).tolist() == [-6.0, 0.0, 6.0]

    def test_solr_adds_a_slack_to_thresholds(self) -> None:
        tree = {"feature": "x", "threshold": "2", "left": {"value": "-1"}, "right": {"value": "1"}}
        parameters = {"trees": [{"weight": "1", "root": tree}]}
        files = solr("MultipleAdditiveTreesModel", parameters)
        features = np.array([[2.0], [np.float32(2) + SLACK], [2.00001]], np.float32)
        assert read_solr(files, ["x"])(features).tolist() == [-1.0, -1.0, 1.0]

    def test_solr_reads_layers(self) -> None:
        first = {"matrix": [[1.0], [-1.0]], "bias": [-2.0, 2.0], "activation": "relu"}
        last = {"matrix": [[1.0, 10.0]], "bias": [0.5], "activation": "identity"}
        files = solr("NeuralNetworkModel", {"layers": [first, last]})
        assert read_solr(files, ["x"])(self.features).tolist() == [10.5, 0.5, 1.5]


def plugin(kind: str, definition: Any, **more: Any) -> dict[str, bytes]:
    model = {"type": kind, "definition": json.dumps(definition), **more}
    return {
        "featureset.json": b'{"featureset": {"features": []}}',
        "model.json": json.dumps({"model": {"model": model}}).encode(),
    }


def solr(kind: str, parameters: Any) -> dict[str, bytes]:
    model = {"class": f"org.apache.solr.ltr.model.{kind}", "features": [{"name": "x"}], "params": parameters}
    return {"model.json": json.dumps(model).encode()}
