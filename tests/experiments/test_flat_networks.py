"""Trained networks as points: the same scores as torch, and shortcuts that change nothing."""

from __future__ import annotations

import numpy as np
import pytest
from made_lists import made_lists

torch = pytest.importorskip("torch")

from experiments.networks import FlatNetwork, NetworkMeasure  # noqa: E402
from lmtune.errors import InputError  # noqa: E402
from lmtune.measures.lists import mean_over_lists, ndcg  # noqa: E402
from lmtune.rerank.learners.networks import make_network  # noqa: E402

DATA = made_lists(3, queries=30, features=5)


def flat(name: str, seed: int = 1) -> FlatNetwork:
    return FlatNetwork.from_weights(make_network(name, 5, seed=seed).state_dict())


@pytest.mark.parametrize("name", ["linear", "two-layer"])
def test_scores_are_those_of_the_network(name: str) -> None:
    network = make_network(name, 5, seed=1).double()
    layout = FlatNetwork.from_weights(network.state_dict())
    assert layout.point.size == sum(one.numel() for one in network.parameters())
    objective = NetworkMeasure(layout, DATA, "ndcg@10")
    with torch.no_grad():
        expected = network.get_submodule("body")(torch.tensor(DATA.features, dtype=torch.float64)).numpy()[
            :, 0
        ]
    found = objective.scores(layout.point)
    assert found == pytest.approx(expected, rel=1e-12)
    assert objective(layout.point) == pytest.approx(mean_over_lists(ndcg(found, DATA, [10]))[0])


@pytest.mark.parametrize("name", ["linear", "two-layer"])
@pytest.mark.parametrize("measure", ["ndcg@10", "pairwise-error"])
def test_lines_and_single_weights_are_shortcuts(name: str, measure: str) -> None:
    layout = flat(name)
    objective = NetworkMeasure(layout, DATA, measure)
    direction = np.random.default_rng(0).normal(size=layout.point.size)
    steps = np.array([-0.5, 0.0, 0.3, 2.0])
    found = objective.along(layout.point, direction, steps)
    expected = [objective(layout.point + step * direction) for step in steps]
    assert found == pytest.approx(expected, rel=1e-12)
    assert len(set(found.tolist())) > 1
    for weight in range(layout.point.size):
        values = objective.at_weight(layout.point, weight, steps)
        for value, step in zip(values, steps, strict=True):
            moved = layout.point.copy()
            moved[weight] = step
            assert value == pytest.approx(objective(moved), rel=1e-12)


def test_a_cost_is_negated() -> None:
    layout = flat("linear")
    assert NetworkMeasure(layout, DATA, "wta")(layout.point) <= 0


def test_the_scale_moves_each_layer_by_its_norm() -> None:
    layout = flat("two-layer")
    scale = layout.scale()
    directions = np.random.default_rng(0).normal(size=(4000, scale.size))
    directions /= np.sqrt((directions**2).sum(axis=1, keepdims=True))
    moves = (directions * scale) ** 2
    hidden = slice(0, layout.biases.stop)
    for layer in (hidden, layout.last):
        norm = (layout.point[layer] ** 2).sum()
        assert moves[:, layer].sum(axis=1).mean() == pytest.approx(norm, rel=0.03)
    linear = flat("linear")
    assert linear.scale() == pytest.approx(np.full(5, np.sqrt((linear.point**2).sum())))


def test_weights_have_names() -> None:
    layout = flat("two-layer")
    assert layout.point.size == 70
    names = [layout.name(weight) for weight in (0, 4, 5, 49, 50, 59, 60, 69)]
    assert names == [
        "unit 1 feature 1",
        "unit 1 feature 5",
        "unit 2 feature 1",
        "unit 10 feature 5",
        "bias 1",
        "bias 10",
        "output 1",
        "output 10",
    ]
    assert flat("linear").name(2) == "feature 3"


def test_other_networks_and_data_are_refused() -> None:
    with pytest.raises(InputError, match="unsupported network; accepted: linear, two-layer"):
        FlatNetwork.from_weights(make_network("mlp:4-3", 5).state_dict())
    with pytest.raises(InputError, match="unsupported network"):
        FlatNetwork.from_weights(make_network("b64", 5).state_dict())
    with pytest.raises(InputError, match="differ in their number of features"):
        NetworkMeasure(flat("linear"), made_lists(3, features=6), "ndcg")
    none = made_lists(3, features=5, empty=1.0)
    with pytest.raises(InputError, match=r"nDCG\(dcg='exp-log2'\)@3 is not defined"):
        NetworkMeasure(flat("linear"), none, "ndcg@3")
