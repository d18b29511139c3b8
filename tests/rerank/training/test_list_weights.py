"""What queries count in training: one of weight 2 is two of weight 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from lmtune.errors import InputError
from lmtune.losses.table import LOSSES
from lmtune.rerank.data import RankingData
from lmtune.rerank.learners import feature_networks, trees
from lmtune.rerank.loss_names import Loss, parse_loss
from lmtune.rerank.rankers import TreeSettings
from lmtune.rerank.settings import Settings

LENGTHS = [8, 5, 9, 6]


def made(seed: int = 0) -> RankingData:
    rng, rows = np.random.default_rng(seed), sum(LENGTHS)
    features = rng.normal(size=(rows, 4))
    # No two of a list alike: ListMLE draws the order of those.
    labels = np.concatenate([rng.permutation(length) * 3.0 / length for length in LENGTHS])
    lists = RankingData.from_lengths(features, labels, LENGTHS)
    return replace(lists, teacher=rng.uniform(0.0, 3.0, rows).astype(np.float32))


def repeated(data: RankingData, times: list[int]) -> RankingData:
    parts = [data.take([q]) for q, count in enumerate(times) for _ in range(count)]
    features, labels, teacher = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("features", "labels", "teacher")
    )
    lists = RankingData.from_lengths(features, labels, [len(part.labels) for part in parts])
    return replace(lists, teacher=teacher)


DATA, VALIDATION, TIMES = made(), made(1), [3, 1, 2, 1]
WEIGHTED = replace(DATA, weights=np.array(TIMES, np.float64) / 7.0)


@pytest.mark.parametrize(
    "loss", [*LOSSES, "margin-mse@teacher", "listnet@teacher:weight=0.5:beside=lambdarank"]
)
def test_a_network_learns_as_of_repeated_lists(loss: str) -> None:
    settings = Settings(
        loss=parse_loss(loss), network="two-layer", optimizer="sgd", learning_rate=0.05, epochs=4
    )
    weighted, plain = (
        feature_networks.fit(data, None, settings) for data in (WEIGHTED, repeated(DATA, TIMES))
    )
    alike = feature_networks.fit(DATA, None, settings)
    for name, expected in plain.weights.items():
        np.testing.assert_allclose(weighted.weights[name], expected, rtol=2e-4, atol=2e-6)
    assert weighted.history[-1].loss == pytest.approx(plain.history[-1].loss, rel=1e-4)
    assert any(not np.allclose(alike.weights[name], own, atol=1e-4) for name, own in weighted.weights.items())


def test_equal_weights_are_none() -> None:
    settings = Settings(network="two-layer", batch_size=2, epochs=3)
    same = replace(DATA, weights=np.full(4, 0.25))
    first, second = (feature_networks.fit(data, VALIDATION, settings) for data in (DATA, same))
    for name, own in first.weights.items():
        np.testing.assert_allclose(second.weights[name], own, rtol=1e-5, atol=1e-7)


def test_a_light_batch_makes_a_small_step() -> None:
    """With a list a step, as with all in one: weights are of gradients, and not within their batch."""
    settings = Settings(
        loss=parse_loss("ranknet"),
        network="linear",
        optimizer="sgd",
        learning_rate=0.1,
        epochs=1,
        batch_size=1,
    )
    light = replace(DATA.take([0, 1]), weights=np.array([1e-9, 1.0]))
    trained = feature_networks.fit(light, None, settings)
    alone = feature_networks.fit(DATA.take([1]), None, replace(settings, learning_rate=0.2))
    for name, own in alone.weights.items():
        np.testing.assert_allclose(trained.weights[name], own, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_trees_follow_the_heavy_lists() -> None:
    """Half of the lists rank by a feature upwards, half downwards: the tree goes with the heavier ones."""
    pytest.importorskip("lightgbm")
    feature = np.tile(np.arange(20.0), 10)[:, None]
    labels = np.concatenate([np.tile(np.arange(20) >= 15, 5), np.tile(np.arange(20) < 5, 5)])
    lists = RankingData.from_lengths(feature, labels, [20] * 10)
    settings = TreeSettings(rounds=5, min_rows=1)
    for up, down in ((9.0, 1.0), (1.0, 9.0)):
        weighted = replace(lists, weights=np.repeat([up, down], 5))
        validation = lists.take([0] if up > down else [5])
        low, high = trees.fit(weighted, validation, settings).score(lists.take([0]))[[2, 17]]
        assert (high > low) == (up > down)
    text = [
        trees.fit(replace(lists, weights=scale * weights), lists, settings).text
        for scale in (1.0, 4.0)
        for weights in [np.arange(1.0, 11.0)]
    ]
    assert text[0] == text[1]


def test_what_takes_no_weights_says_so() -> None:
    settings = Settings(loss=parse_loss("song"), network="linear", epochs=1)
    with pytest.raises(InputError, match="does not support topic weights: "):
        feature_networks.fit(WEIGHTED, None, settings)

    def own(scores, labels, *, mask):  # type: ignore[no-untyped-def]
        return (scores * labels * mask).sum()

    settings = Settings(loss=Loss.of(own), network="linear", epochs=1)
    with pytest.raises(InputError, match="does not support topic weights: 'own'"):
        feature_networks.fit(WEIGHTED, None, settings)
    for weights in ([1.0, 0.0, 1.0, 1.0], [1.0, np.inf, 1.0, 1.0]):
        with pytest.raises(InputError, match="weight is out of range"):
            replace(DATA, weights=np.array(weights))
    with pytest.raises(InputError, match="shapes do not fit"):
        replace(DATA, weights=np.ones(3))
    assert replace(DATA, weights=np.arange(1.0, 5.0)).select(["2", "0"]).weights.tolist() == [3.0, 1.0]  # type: ignore[union-attr]
