"""Training to convergence: the gradient over all queries, and that it has gone."""

from __future__ import annotations

import numpy as np
import pytest
from made_lists import made_lists

torch = pytest.importorskip("torch")

from experiments.networks import (  # noqa: E402
    FlatNetwork,
    full_gradient,
    loss_for,
    train_to_convergence,
    without_idle_features,
)
from lmtune.losses import LOSSES  # noqa: E402
from lmtune.measures.measure import parse_list_measure  # noqa: E402
from lmtune.rerank.learners.networks import make_network  # noqa: E402
from lmtune.rerank.loss_names import parse_loss  # noqa: E402
from lmtune.rerank.settings import Settings  # noqa: E402

DATA = made_lists(3, queries=40, features=5, empty=0.2)


@pytest.mark.parametrize("name", [pytest.param("linear", marks=pytest.mark.slow), "two-layer"])
def test_the_full_gradient_is_that_of_the_loss(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_network(name, 5, seed=1)
    layout = FlatNetwork.from_weights(network.state_dict())

    def loss_at(point: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        from experiments.networks import NetworkMeasure

        scores = torch.tensor(NetworkMeasure(layout, DATA, "ndcg").scores(point))
        losses = [
            LOSSES["ranknet"](
                scores[None, DATA.rows(q)], torch.tensor(DATA.labels[DATA.rows(q)])[None]
            ).item()
            for q in range(len(DATA.queries))
            if DATA.labels[DATA.rows(q)].any()
        ]
        return float(np.mean(losses))

    found = full_gradient(network, DATA, Settings(loss=parse_loss("ranknet"), network=name))
    for weight in range(0, layout.point.size, 7):
        up, down = layout.point.copy(), layout.point.copy()
        up[weight] += 1e-4
        down[weight] -= 1e-4
        assert found[weight] == pytest.approx((loss_at(up) - loss_at(down)) / 2e-4, abs=2e-5)
    # Parts of all queries add up to the whole.
    monkeypatch.setattr("experiments.networks._QUERIES", 7)
    assert full_gradient(network, DATA, Settings(loss=parse_loss("ranknet"), network=name)) == pytest.approx(
        found, abs=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["lambdarank", "ranknet"])
def test_training_converges(loss: str) -> None:
    settings = Settings(loss=parse_loss(loss), network="linear", epochs=60, batch_size=40, learning_rate=0.1)
    converged = train_to_convergence(DATA, settings)
    assert converged.gradient < 0.1 * converged.first_gradient
    assert converged.network.point.size == 5
    again = train_to_convergence(DATA, settings)
    assert again.network.point.tobytes() == converged.network.point.tobytes()
    assert again.gradient == converged.gradient


def test_features_without_values_are_left_out() -> None:
    from dataclasses import replace

    features = DATA.features.copy()
    features[:, [1, 3]] = 0.0
    data, other = without_idle_features(replace(DATA, features=features), DATA)
    assert (data.features == DATA.features[:, [0, 2, 4]]).all()
    assert (other.features == DATA.features[:, [0, 2, 4]]).all()


def test_lambdarank_follows_the_measures_cutoff() -> None:
    assert loss_for("lambdarank", parse_list_measure("ndcg@7")) == parse_loss("lambdarank:k=7")
    for loss, measure in (("ranknet", "ndcg@7"), ("lambdarank", "ndcg"), ("lambdarank", "mrr@7")):
        assert loss_for(loss, parse_list_measure(measure)) == parse_loss(loss)
