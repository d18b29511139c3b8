"""Training by SPSA and FDSA: exact counts, the formula, resuming, measures as losses."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from made_lists import made_lists  # noqa: E402

from lmtune.errors import InputError  # noqa: E402
from lmtune.measures.lists import Measurer, ndcg  # noqa: E402
from lmtune.reranking.data import RankingData, batches  # noqa: E402
from lmtune.reranking.learners.feature_networks import Feed, ListTask, Trained, fit  # noqa: E402
from lmtune.reranking.learners.networks import Pointwise, make_network  # noqa: E402
from lmtune.reranking.losses.names import FUNCTION, MEASURE, make_loss, parse_loss  # noqa: E402
from lmtune.reranking.settings import Settings  # noqa: E402
from lmtune.reranking.training import loop  # noqa: E402
from lmtune.reranking.training.loop import Perturbing  # noqa: E402
from lmtune.reranking.training.objectives import BatchLabels, make_objective  # noqa: E402

torch.set_num_threads(1)

EXAMPLES = Path(__file__).resolve().parents[3] / "experiments" / "lambdas" / "examples.py"
TRAIN, VALIDATION = made_lists(0), made_lists(1, queries=10)
SMALL = Settings(
    loss=parse_loss("ranknet"), network="linear", optimizer="spsa", epochs=3, batch_size=5, learning_rate=0.1
)


def same(first: Trained, second: Trained) -> bool:
    equal = all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)
    return equal and first.history == second.history and first.best_epoch == second.best_epoch


def count_passes(monkeypatch: pytest.MonkeyPatch, data: RankingData, settings: Settings) -> int:
    """Count the forward passes of training, one step an epoch and no validation."""
    passes = 0
    forward = Pointwise.forward

    def counted(self: Pointwise, *inputs: Any) -> Any:
        nonlocal passes
        assert not torch.is_grad_enabled()
        passes += 1
        return forward(self, *inputs)

    monkeypatch.setattr(Pointwise, "forward", counted)
    fit(data, None, replace(settings, batch_size=len(data.queries)))
    return passes


def wide(features: int) -> RankingData:
    rng = np.random.default_rng(features)
    return RankingData.from_lengths(rng.normal(size=(6, features)), [0, 1, 2, 0, 0, 1], [3, 3])


@pytest.mark.parametrize("features", [10, 10_000])
@pytest.mark.parametrize("evaluations", [2, 4, 8])
def test_a_step_of_spsa_takes_so_many_passes_whatever_the_weights(
    monkeypatch: pytest.MonkeyPatch, features: int, evaluations: int
) -> None:
    settings = replace(SMALL, evaluations_per_step=evaluations)
    assert count_passes(monkeypatch, wide(features), settings) == 3 * evaluations


@pytest.mark.parametrize("features", [3, 40])
def test_a_step_of_fdsa_takes_two_passes_a_weight(monkeypatch: pytest.MonkeyPatch, features: int) -> None:
    settings = replace(SMALL, optimizer="fdsa")
    assert count_passes(monkeypatch, wide(features), settings) == 3 * 2 * features


def test_fdsa_steps_along_the_gradient() -> None:
    """In the limit of small differences: SGD without momentum, at Spall's rates."""
    network: Any = make_network("two-layer", 8, dropout=0.0, seed=3)
    x = torch.tensor(np.random.default_rng(0).normal(size=(9, 8)), dtype=torch.float32)
    settings = replace(SMALL, optimizer="fdsa", perturbation=1e-3)
    optimizer = Perturbing(network, settings, 100)
    loss = (network.items(x) ** 2).mean()
    loss.backward()
    weights = list(network.parameters())
    gradient = np.concatenate([np.asarray(w.grad).ravel() for w in weights])
    before = np.concatenate([w.detach().numpy().ravel() for w in weights])
    for k in (0, 9):
        for weight, kept in zip(
            weights, np.split(before, np.cumsum([w.numel() for w in weights])[:-1]), strict=True
        ):
            weight.data = torch.tensor(kept, dtype=torch.float32).view_as(weight)
        mean = optimizer.descend(lambda: float((network.items(x) ** 2).mean()), 0.5, k, 0)
        after = np.concatenate([w.detach().numpy().ravel() for w in weights])
        rate = 0.5 * (11.0 / (11.0 + k)) ** 0.602
        np.testing.assert_allclose(after - before, -rate * gradient, rtol=0.01, atol=2e-4)
        assert mean == pytest.approx(loss.item(), rel=1e-2)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(rate)


def test_it_learns() -> None:
    for optimizer in ("spsa", "fdsa"):
        settings = replace(SMALL, optimizer=optimizer, epochs=8, learning_rate=0.3)
        trained = fit(TRAIN, VALIDATION, settings)
        assert trained.history[-1].loss < trained.history[0].loss - 0.01
        assert trained.validation > trained.history[0].validation
        assert trained.history[-1].rate < trained.history[0].rate <= 0.3


@pytest.mark.parametrize(
    "changes",
    [
        {"network": "b64", "loss": parse_loss("listmle"), "dropout": 0.2},
        {"network": "attention:8-1-2", "loss": parse_loss("ndcg@10"), "evaluations_per_step": 2},
        {"loss": parse_loss("pairwise-error"), "optimizer": "fdsa", "warm_up": 1, "schedule": "cosine"},
    ],
)
def test_one_seed_gives_one_network(changes: dict[str, Any]) -> None:
    settings = replace(SMALL, **changes)
    first = fit(TRAIN, VALIDATION, settings)
    assert same(first, fit(TRAIN, VALIDATION, settings))
    assert not same(first, fit(TRAIN, VALIDATION, replace(settings, seed=1)))


@pytest.mark.parametrize("network", ["linear", "b64"])
def test_interrupted_at_any_step_it_ends_the_same(tmp_path: Path, network: str) -> None:
    settings = replace(SMALL, network=network, loss=parse_loss("ndcg@5"), dropout=0.1)
    whole = fit(TRAIN, VALIDATION, settings)

    class Stop(Exception):  # noqa: N818
        pass

    for at in (2, 5, 7):

        def stop(done: int, total: int, words: str, at: int = at) -> None:
            del total, words
            if done == at:
                raise Stop

        with pytest.raises(Stop):
            fit(TRAIN, VALIDATION, settings, checkpoint=tmp_path, checkpoint_every=1, progress=stop)
    assert any(os.scandir(tmp_path))
    assert same(whole, fit(TRAIN, VALIDATION, settings, checkpoint=tmp_path, checkpoint_every=1))


def test_running_statistics_move_once_a_step() -> None:
    def moved(evaluations: int) -> np.ndarray[Any, Any]:
        settings = replace(
            SMALL,
            network="b64",
            epochs=1,
            batch_size=100,
            evaluations_per_step=evaluations,
            perturbation=1e-6,
            learning_rate=1e-9,
        )
        weights = fit(TRAIN, None, settings).weights
        return np.concatenate([v.numpy().ravel() for k, v in weights.items() if "running" in k])

    np.testing.assert_allclose(moved(2), moved(8), atol=1e-4)


@pytest.mark.parametrize("name", ["ndcg@10", "ndcg", "pairwise-error", "mrr", "mrr@3", "wta"])
def test_a_measure_as_a_loss_is_its_mean(name: str) -> None:
    data = made_lists(5, empty=0.3)
    settings = replace(SMALL, loss=parse_loss(name))
    network = make_network(settings.network, data.features.shape[1])
    task = ListTask(data, None, settings, network, partial(Feed, device="cpu"))
    run = loop.TrainingRun(task, settings, "cpu")
    objective = make_objective(settings.loss, task.pairs, "cpu")
    for batch in batches(data, size=7, seed=0, epoch=0):
        rng = np.random.default_rng(0)
        scores = rng.integers(0, 5, batch.mask.shape).astype(np.float32)
        lists = BatchLabels.of(batch, 0, "cpu")
        found, value = objective(lists, torch.from_numpy(scores))
        assert found.item() == value.item()
        own = data.take(batch.queries)
        values = Measurer(name, own).values(scores[batch.mask])
        if np.isnan(values).all():
            assert found.item() == 0.0
            continue
        mean = float(np.nanmean(values))
        cost = mean if name in ("pairwise-error", "wta") else 1.0 - mean
        assert found.item() == pytest.approx(cost, rel=1e-12)
    run.train_epoch(lambda: None, None, None)
    assert 0.0 <= run.history[0].loss <= 1.0


def test_it_improves_the_measure_itself() -> None:
    data = made_lists(8, queries=60)
    settings = Settings(
        loss=parse_loss("ndcg@10"),
        network="linear",
        optimizer="spsa",
        epochs=60,
        batch_size=60,
        learning_rate=3.0,
        perturbation=0.1,
        seed=1,
    )
    first, last = (
        float(np.nanmean(ndcg(trained.score(data), data, [10])))
        for trained in (
            fit(data, None, replace(settings, epochs=e, learning_rate=r)) for e, r in ((1, 1e-9), (60, 3.0))
        )
    )
    assert last > first + 0.03


def test_names_of_measures() -> None:
    assert parse_loss("ndcg@10").family is MEASURE
    assert parse_loss("wta").family is MEASURE
    assert parse_loss("ranknet").family is FUNCTION


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"optimizer": "adam", "loss": parse_loss("ndcg@10")},
            "the measure ndcg@10 has no gradient for the optimizer: 'adam'; accepted: spsa, fdsa",
        ),
        ({"loss": parse_loss("song")}, "spsa cannot minimise a loss that remembers earlier scores: 'song'"),
        (
            {"loss": make_loss("lambdas", {"function": f"{EXAMPLES}:winner"})},
            "spsa cannot minimise a loss that has no value: 'lambdas'",
        ),
        ({"warm_up": 1, "warm_up_loss": parse_loss("cross-entropy")}, "remembers earlier scores"),
        ({"evaluations_per_step": 3}, "bad evaluations per step: 3; accepted: 2, 4, 6"),
        ({"evaluations_per_step": 0}, "bad evaluations per step: 0"),
        ({"perturbation": 0.0}, "bad perturbation: 0.0; accepted: a positive number"),
    ],
)
def test_bad_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        fit(TRAIN, VALIDATION, replace(SMALL, **changes))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_divergence_is_told() -> None:
    broken = replace(SMALL, learning_rate=1e38, network="mlp:8-8", epochs=5)
    with pytest.raises(InputError, match="no longer finite in epoch"):
        fit(TRAIN, VALIDATION, broken)
