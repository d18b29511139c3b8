"""How smooth a measure is: in a net's weights and in a model's parameters, against brute force."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.common import call
from experiments.datasets import load_pool, load_split
from experiments.landscape import roughness
from experiments.smoothness import __main__ as nets
from experiments.smoothness import retrieval
from lmtune import measure
from lmtune.measures.lists import mean_over_lists, ndcg

DATASET = "synthetic:1000x40"
POINTS = 51


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("index"))
        return retrieval.experiment(
            dataset=DATASET,
            measures=("AP", "P@10"),
            topics=(5, 20, 1000),
            samples=3,
            points=POINTS,
            zoom_points=11,
        )


@pytest.mark.slow
def test_curves_are_of_the_trained_net() -> None:
    pytest.importorskip("torch")
    from lmtune.rerank import Settings, fit, parse_loss

    small: dict[str, Any] = {"epochs": 8, "batch_size": 20, "seed": 3}
    asked = dict(
        data="artificial:60x20", networks=("linear",), queries=(10, 60, 500), weights=2, points=41, **small
    )
    tables = call(nets.experiment, asked)
    data = load_split("artificial:60x20", 3).train
    settings = Settings(
        loss=parse_loss("lambdarank:k=10"), network="linear", learning_rate=0.03, schedule="cosine", **small
    )
    weights = fit(data, None, settings).weights["body.0.weight"].numpy()[0].astype(np.float64)
    curves = tables["curves"].query("queries == 60 and part == 'shift'")
    top = np.argsort(-np.abs(weights))[:2]
    assert list(dict.fromkeys(curves["weight"])) == [f"feature {w + 1}" for w in top]
    own = curves[curves["weight"] == f"feature {top[1] + 1}"]
    assert own["shift"].tolist() == np.linspace(-100, 100, 41).tolist()
    for place in (0, 7, 20, 40):
        moved = weights.copy()
        moved[top[1]] *= 1 + own["shift"].iloc[place] / 100
        expected = mean_over_lists(ndcg(data.features.astype(np.float64) @ moved, data, [10]))[0]
        assert own["value"].iloc[place] == pytest.approx(expected, rel=1e-12)
    assert set(tables["roughness"]["queries"]) == {10, 60}
    assert (tables["nets"]["gradient"] < tables["nets"]["first_gradient"]).all()


@pytest.mark.slow
def test_curves_are_means_of_nested_samples(found: Any) -> None:
    pool = load_pool(DATASET)
    every = len(pool.topics)
    order = np.random.default_rng(0).permutation(every)
    for name, line in (("AP", "lambda"), ("P@10", "mu")):
        whole = found["curves"].query("measure == @name and line == @line and part == 'whole'")
        assert len(whole) == POINTS
        best = found["best"].set_index("measure").loc[name]
        for row in whole.iloc[[0, 20, 50]].to_dict("records"):
            setting = {"lambda": best["lambda"], "mu": best["mu"]} | {line: row["position"]}
            for size in (5, 20, every):
                topics = [pool.topics[t] for t in order[:size]]
                values = measure(pool, setting, measures=[name], topics=topics)
                assert row[f"topics_{size}"] == pytest.approx(values.mean().item(), rel=1e-12)


def test_roughness_is_the_curves(found: Any) -> None:
    every = len(load_pool(DATASET).topics)
    whole = found["curves"].query("measure == 'AP' and line == 'mu' and part == 'whole'")
    curve = whole[f"topics_{every}"].to_numpy()
    own = found["roughness"].query("measure == 'AP' and line == 'mu' and topics == @every")
    width = math.log(100_000.0)
    assert own["step"].tolist() == pytest.approx([width * s / 50 for s in (1, 2, 5, 10, 25, 50)])
    for stride, row in zip((1, 2, 5, 10, 25, 50), own.to_dict("records"), strict=True):
        expected = roughness(curve[::stride])
        assert row["samples"] == 1
        assert row["excess"] == pytest.approx(expected.excess)
        assert row["maxima"] == expected.maxima


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=6), st.floats(0.01, 1.0))
def test_smooth_from_is_between_rough_and_smooth(excess: list[float], smooth: float) -> None:
    topics = [10 * 3**place for place in range(len(excess))]
    found = retrieval.smooth_from(topics, excess, smooth)
    if excess[-1] > smooth:
        assert found == math.inf
        return
    after = [n for n, value in zip(topics, excess, strict=True) if n >= found * (1 + 1e-9)]
    assert all(excess[topics.index(n)] <= smooth for n in after)
    rough = [n for n, value in zip(topics, excess, strict=True) if value > smooth]
    assert found >= max(rough, default=topics[0]) * (1 - 1e-9)
