"""SPSA against finite differences, and NDCG trained by SPSA, at a size for tests."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.datasets import load_split
from experiments.spsa import __main__ as spsa
from experiments.spsa.linear import LinearRankNet, first_weights


@pytest.mark.slow
def test_costs_are_those_of_the_iterates_and_gradients_of_the_closed_form() -> None:
    tables = spsa.experiment(
        data="artificial:4x8", runs=2, evaluations=300, per_step=(2, 4), rates=(0.01, 0.3), features=(10, 30)
    )
    net = LinearRankNet(load_split("artificial:4x8", 0).train)
    starts = net.exact_costs(np.stack([first_weights(net.features, 0, run) for run in (1, 2)]))
    first = tables["costs"].query("evaluations == 0")
    assert first["cost"].tolist() == pytest.approx([starts.mean()] * 3, rel=1e-12)
    assert (tables["costs"]["cost"] >= tables["methods"]["minimum"][0] - 1e-9).all()
    assert (tables["methods"]["final"] < tables["methods"]["start"]).all()
    gradient = tables["gradient"].query("c < 0.001 and weights == 'start'")
    assert (gradient["largest_difference"] < 1e-6 * gradient["largest_slope"]).all()
    steps = tables["steps"].pivot(index="features", columns="method", values="evaluations")
    assert steps["FDSA"].tolist() == [20, 60]
    assert steps["SPSA:2"].tolist() == [2, 2]


@pytest.mark.slow
def test_yue_trains_a_loss_as_the_command_line_does() -> None:
    pytest.importorskip("torch")
    from experiments.yue import __main__ as yue
    from lmtune.measures import ndcg
    from lmtune.rerank import Settings, fit, parse_loss

    rates = (0.01, 0.1)
    tables = yue.experiment(
        data="artificial:20x10",
        seeds=2,
        evaluations=200,
        rates=(0.3,),
        widths=(0.03,),
        learning_rates=rates,
        epochs=2,
        cutoff=5,
        seed=3,
    )
    fold = load_split("artificial:20x10", 3)
    values = []
    for rate in rates:
        settings = Settings(
            loss=parse_loss("ranknet"),
            network="linear",
            learning_rate=rate,
            epochs=2,
            measure="ndcg@5",
            schedule="cosine",
            batch_size=16,
            seed=3,
        )
        trained = fit(fold.train, fold.validation, settings)
        values.append(float(np.nanmean(ndcg(trained.score(fold.validation), fold.validation, [5]))))
    tried = tables["tried"].query("method == 'RankNet'")
    assert tried["validation"].tolist() == pytest.approx(values, rel=1e-6)
    assert tried["chosen"].tolist() == [value == max(values) for value in values]
