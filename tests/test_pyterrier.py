"""lmtune's transformers inside PyTerrier's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support import TinyIndex, random_collection

import lmtune
from lmtune.errors import InputError
from lmtune.measures import EvaluationOptions

pt = pytest.importorskip("pyterrier", reason="the extra 'pyterrier' is not installed")
pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.pyterrier import Rerank, Retriever, collection  # noqa: E402
from lmtune.rerank import Reranker, Settings, learn, parse_loss, run_data, save_model  # noqa: E402
from lmtune.rerank.features import FEATURES  # noqa: E402

SETTING: dict[str, Any] = {"lambda": 0.3, "mu": 20.0}


@pytest.fixture(scope="module")
def made() -> tuple[TinyIndex, lmtune.Dataset]:
    index, topics, qrels = random_collection(5, topics=10)
    topics["nothing"] = "absent"
    return index, lmtune.Dataset("made", None, topics, qrels)


@pytest.fixture(scope="module")
def model(made: tuple[TinyIndex, lmtune.Dataset]) -> Reranker:
    index, data = made
    run = lmtune.run_frame(lmtune.rank(lmtune.CandidatePool.build(index, data.topics), SETTING))
    rows = run_data(run, index, data.topics, data.qrels)
    settings = Settings(loss=parse_loss("lambdarank"), network="linear", epochs=2)
    return learn(rows, rows, settings, names=[feature.name for feature in FEATURES])


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_experiments_agree_with_lmtune(made: tuple[TinyIndex, lmtune.Dataset], model: Reranker) -> None:
    index, data = made
    topics, qrels = collection(data)
    first = Retriever(index, hits=20, **SETTING)
    pipeline = first >> Rerank(model, index)
    table = pt.Experiment(
        [first, pipeline, first % 5 >> Rerank(model, index)],
        topics,
        qrels,
        ["map", "recip_rank"],
        names=["first", "reranked", "cut"],
        plan="tree",
        validate="error",
    ).set_index("name")
    pool = lmtune.CandidatePool.build(index, data.topics, data.qrels)
    own = lmtune.measure(pool, SETTING, measures=["AP", "RR"], depth=20)
    judged = own.loc[[topic for topic in own.index if topic in data.qrels]]
    assert table.loc["first"].to_list() == pytest.approx(judged.mean().to_list(), abs=1e-7)
    runs = pipeline(topics)
    whole = EvaluationOptions(complete=True)
    found = lmtune.evaluate(data.qrels, runs, "AP", settings=whole)
    assert found["AP"].item() == pytest.approx(table.loc["reranked", "map"])
    assert not table.loc["first"].equals(table.loc["reranked"])


def test_parameters_are_keywords(made: tuple[TinyIndex, lmtune.Dataset]) -> None:
    index, data = made
    cases: list[tuple[str, dict[str, Any], dict[str, float]]] = [
        ("bm25", {"k1": 1.7, "b": 0.2}, {"k1": 1.7, "b": 0.2}),
        ("two-stage", {"lambda_": 0.3, "mu": 20.0}, SETTING),
        ("dirichlet", {"mu": 20.0}, {"lambda": 0.0, "mu": 20.0}),
    ]
    for model, given, setting in cases:
        found = Retriever(index, model, **given).transform(data.to_frame())
        wanted = lmtune.rank(lmtune.CandidatePool.build(index, data.topics, model=model), setting).to_frame()
        pd.testing.assert_frame_equal(found[list(wanted)], wanted)


@pytest.mark.usefixtures("one_thread")
def test_frames_keep_queries_and_further_columns(
    made: tuple[TinyIndex, lmtune.Dataset], model: Reranker, tmp_path: Path
) -> None:
    index, data = made
    topics = data.to_frame().assign(fold=1)
    results = Retriever(index, **SETTING).transform(topics)
    assert {"qid", "query", "docno", "score", "rank", "fold"} <= set(results)
    assert set(results["qid"]) == set(data.topics) - {"nothing"}
    assert (results["fold"] == 1).all()
    save_model(tmp_path / "model", model, record={})
    for own in (model, tmp_path / "model"):
        again = Rerank(own, index).transform(results)
        assert sorted(zip(again["qid"], again["docno"], strict=True)) == sorted(
            zip(results["qid"], results["docno"], strict=True)
        )
        assert again["query"].notna().all()
    nothing = Retriever(index, **SETTING).search("absent")
    assert len(nothing) == 0
    assert set(nothing) >= {"qid", "query", "docno", "score", "rank"}
    assert len(Retriever(index, **SETTING).search("w1")) > 5


def test_what_does_not_fit_is_refused(made: tuple[TinyIndex, lmtune.Dataset], model: Reranker) -> None:
    index, data = made
    other = Reranker(model.scorer, ("1", "2"))
    with pytest.raises(InputError, match="trained on other features"):
        Rerank(other, index)
    with pytest.raises(InputError, match="no judgments"):
        collection(lmtune.Dataset("made", None, data.topics, {}))
    for arguments, given, said in (
        (("bm25",), {"k1": 0.9}, "not an index: 'bm25'"),
        ((index, "bm25"), {"mu": 9.0}, "no such parameter: 'mu'"),
        ((index, "bm52"), {}, "unknown model"),
    ):
        with pytest.raises(InputError, match=said):
            Retriever(*arguments, **given)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="query"):
        Retriever(index, **SETTING).transform(pd.DataFrame({"qid": ["1"]}))


def test_grid_search_sets_the_models_parameters(made: tuple[TinyIndex, lmtune.Dataset]) -> None:
    index, data = made
    topics, qrels = collection(data)
    first = Retriever(index, "bm25", hits=20)
    grid = {"k1": [0.1, 1.5, 4.0], "b": [0.0, 1.0]}
    _, best, params = pt.GridSearch(first, {first: grid}, topics, qrels, "map", return_type="both")
    pool = lmtune.CandidatePool.build(index, data.topics, data.qrels, model="bm25")
    means = {
        (k1, b): lmtune.measure(pool, {"k1": k1, "b": b}, measures="AP", depth=20)["AP"]
        for k1 in grid["k1"]
        for b in grid["b"]
    }
    judged = [topic for topic in data.topics if topic in data.qrels]
    assert best == pytest.approx(max(own.loc[judged].mean() for own in means.values()))
    assert {name: value for _, name, value in params} == first.setting


def test_parameters_are_set_and_shown_by_name(made: tuple[TinyIndex, lmtune.Dataset]) -> None:
    index, _ = made
    first = Retriever(index, hits=7, **SETTING)
    assert repr(first) == f"Retriever({index.name}, 'two-stage', hits=7, lambda_=0.3, mu=20.0)"
    first.set_parameter("lambda_", 0.0)
    first.set_parameter("hits", 9)
    assert (first.get_parameter("lambda_"), first.get_parameter("lambda"), first.hits) == (0.0, 0.0, 9)
    for reach in (first.get_parameter, lambda name: first.set_parameter(name, 1.0)):
        with pytest.raises(ValueError, match="Invalid parameter name k1"):
            reach("k1")
