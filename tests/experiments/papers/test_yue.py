"""A linear net trained on NDCG by SPSA, at a size for tests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from same_results import assert_same_results

pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from scipy import stats

from experiments.data import load_split
from experiments.papers import yue
from experiments.running import Result, run
from lmtune.errors import InputError
from lmtune.measures.lists import ndcg
from lmtune.reranking.learners.feature_networks import fit
from lmtune.reranking.losses.names import parse_loss
from lmtune.reranking.settings import Settings as Training

SETTINGS = yue.SpsaOnNdcg(
    data="artificial:20x10",
    seeds=2,
    evaluations=200,
    per_step=4,
    rates=(0.3,),
    widths=(0.03, 0.1),
    learning_rates=(0.01, 0.1),
    epochs=2,
    cutoff=5,
    seed=3,
)


@pytest.fixture(scope="module")
def found() -> Result:
    return run(SETTINGS)


def test_the_same_bytes_again(found: Result) -> None:
    again = run(SETTINGS)
    assert_same_results(found, again)


def test_a_loss_is_trained_as_on_the_command_line(found: Result) -> None:
    fold = load_split(SETTINGS.data, 3)
    tried = found.tables["tried"].query("method == 'RankNet'")
    values = []
    for rate in SETTINGS.learning_rates:
        trained = fit(
            fold.train,
            fold.validation,
            Training(
                loss=parse_loss("ranknet"),
                network="linear",
                learning_rate=rate,
                epochs=2,
                measure="ndcg@5",
                schedule="cosine",
                batch_size=16,
                seed=3,
            ),
        )
        values.append(trained.validation)
        if trained.validation == max(values):
            scores = trained.score(fold.test)
    assert tried["validation"].to_numpy() == pytest.approx(values, abs=1e-6)
    assert list(tried["chosen"]) == [value == max(values) for value in values]
    [row] = found.tables["runs"].query("method == 'RankNet' and seed == 3").to_dict("records")
    assert row["test"] == pytest.approx(np.nanmean(ndcg(scores, fold.test, [5])), abs=1e-6)
    assert row["evaluations"] in (1, 2)


def test_spsa_climbs_the_measure_and_counts(found: Result) -> None:
    courses = found.tables["courses"]
    assert courses["train"].iloc[-1] > courses["train"].iloc[0] + 0.05
    steps = courses["evaluations"].diff().dropna()
    assert (steps.iloc[:-1] == 4).all()
    assert steps.iloc[-1] == 2  # what is left of the budget
    runs = found.tables["runs"].query("method == 'SPSA:4'")
    assert list(runs["seed"]) == [3, 4]
    assert runs["evaluations"].isin(courses["evaluations"]).all()
    for run_ in runs.to_dict("records"):
        row = courses[courses["evaluations"] == run_["evaluations"]].to_dict("records")[0]
        assert row["lowest"] - 1e-9 <= run_["train"] <= row["highest"] + 1e-9
    rows = found.tables["table"].query("method == 'SPSA:4'").set_index("column")["mean"]
    for part in yue.PARTS:
        assert rows[part.title()] == pytest.approx(runs[part].mean(), rel=1e-12)


def test_comparisons_are_paired_over_queries() -> None:
    rng = np.random.default_rng(0)

    def result(extra: float) -> dict[str, Any]:
        runs = []
        for _ in range(2):
            queries = rng.uniform(size=30) + extra
            queries[4] = math.nan
            runs.append(
                {
                    "train": 0.5,
                    "validation": 0.5,
                    "test": float(np.nanmean(queries)),
                    "queries": queries.tolist(),
                    "evaluations": 7,
                    "course": {"evaluations": [1, 5], "train": [0.1, 0.2]},
                }
            )
        tried = [{"rate": 1.0, "width": 0.1, "validation": 0.5, "train": 0.5, "chosen": True}]
        return {"tried": tried, "runs": runs}

    results = {"spsa": result(0.0), "lambdarank": result(0.3), "ranknet": result(0.0)}
    tables = SETTINGS.tables(results)
    by_query = {
        name: np.mean([run["queries"] for run in own["runs"]], axis=0)[np.arange(30) != 4]
        for name, own in results.items()
    }
    pairs = [("lambdarank", "spsa"), ("ranknet", "spsa"), ("lambdarank", "ranknet")]
    p_values = np.array([stats.ttest_rel(by_query[a], by_query[b]).pvalue for a, b in pairs])
    order = np.argsort(p_values)
    holm = np.empty(3)
    holm[order] = np.minimum(1.0, np.maximum.accumulate(p_values[order] * [3, 2, 1]))
    rows = {(row["a"], row["b"]): row for row in tables["differences"].to_dict("records")}
    names = {"lambdarank": "LambdaRank", "ranknet": "RankNet", "spsa": "SPSA:4"}
    for (a, b), p in zip(pairs, holm, strict=True):
        row = rows[names[a], names[b]]
        assert row["difference"] == pytest.approx((by_query[a] - by_query[b]).mean())
        assert row["p_holm"] == pytest.approx(p)
        assert row["low"] < row["difference"] < row["high"]
        assert rows[names[b], names[a]]["low"] == -row["high"]
    said = " ".join(SETTINGS.conclusions(tables))
    assert "NDCG@5, first minus second, significantly better, LambdaRank: SPSA:4 difference 0.3" in said
    assert "significantly better: holds in 1 of 2." in said
    assert "SPSA:4 evaluations 7;" in said
    assert SETTINGS.table(tables).text().splitlines()[1].endswith("ᵇᶜ")


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": 0},
        {"evaluations": 3},
        {"per_step": 3},
        {"per_step": 0},
        {"rates": ()},
        {"widths": (-1.0,)},
        {"learning_rates": (math.nan,)},
        {"epochs": 0},
        {"cutoff": 0},
        {"seed": -1},
        {"batch_size": 0},
    ],
)
def test_bad_settings(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        yue.SpsaOnNdcg(**changes)
