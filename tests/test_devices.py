"""Devices: their names, batches made ahead, and steps that never wait for one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from host_trips import DEVICES, launches  # noqa: E402
from made_lists import made_lists  # noqa: E402

from lmtune import devices  # noqa: E402
from lmtune.devices import check_device, parse_devices, prefetch, repeatable, to_device  # noqa: E402
from lmtune.errors import InputError  # noqa: E402
from lmtune.rerank.learners.feature_networks import FeatureFeed  # noqa: E402
from lmtune.rerank.learners.networks import make_network  # noqa: E402
from lmtune.rerank.loss_names import parse_loss  # noqa: E402
from lmtune.rerank.settings import Settings  # noqa: E402
from lmtune.rerank.training.loop import ListTask, TrainingRun  # noqa: E402
from lmtune.rerank.training.objectives import make_objective  # noqa: E402

DATA = made_lists(0)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert parse_devices("cuda") == ["cuda:0", "cuda:1", "cuda:2"]
    assert parse_devices("cpu,cpu,cuda:2") == ["cpu", "cpu", "cuda:2"]
    check_device("cuda:1")
    for bad in ("cuda:3", "cuda:", "gpu", "cpu,", "cuda:01", ""):
        with pytest.raises(InputError, match=r"no such device.*cpu, cuda, cuda:0, cuda:1, cuda:2"):
            parse_devices(bad)
    with pytest.raises(InputError, match="several devices for one training"):
        check_device("cuda:0,cuda:1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(InputError, match="torch sees no CUDA device"):
        check_device("cuda")


def test_a_gpus_batches_are_made_prefetch_in_a_thread() -> None:
    made: list[int] = []

    def numbers() -> Iterator[tuple[int, int]]:
        for number in range(4):
            made.append(number)
            yield number, threading.get_ident()
        if not fine:
            raise InputError("bad data")

    fine = True
    assert [own for own, _ in prefetch(numbers(), "cpu")] == made == [0, 1, 2, 3]
    assert {thread for _, thread in prefetch(numbers(), "cpu")} == {threading.get_ident()}
    found = list(prefetch(numbers(), "cuda"))
    assert [own for own, _ in found] == [0, 1, 2, 3]
    assert {thread for _, thread in found}.isdisjoint({threading.get_ident()})
    made.clear()
    for number, _ in prefetch(numbers(), "cuda:0"):
        if number:
            break
    assert made in ([0, 1], [0, 1, 2])
    fine = False
    with pytest.raises(InputError, match="bad data"):
        list(prefetch(numbers(), "cuda"))


LOSSES = ["ranknet", "ndcgloss2++", "approxndcg", "neuralndcg", "listnet", "listmle", "song"]
LOSSES += ["cross-entropy"]


@pytest.mark.first_case
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("loss", "network"), [*((loss, "b64") for loss in LOSSES), ("lambdarank", "attention:8-1-2")]
)
def test_steps_wait_for_nothing(loss: str, network: str, device: str) -> None:
    settings = Settings(batch_size=5, clip=1.0)
    made = make_network(network, DATA.features.shape[1], dropout=0.2).to(device)
    task = ListTask(DATA, None, settings, made, partial(FeatureFeed, device=device))
    run = TrainingRun(task, settings, device)
    draws = device == "meta" and loss in ("approxndcg", "listmle")
    objective: Any = make_objective(parse_loss(loss), task.pairs, "cpu" if draws else device)
    if draws:
        objective.generator = None  # there is none on such a device
    for batch in run.staged_batches(0, 0, objective):
        launches(partial(run.train_step, batch, objective), device)


@pytest.mark.parametrize("network", ["b64", "attention:8-1-2"])
def test_features_that_do_not_fit_stay_where_they_are(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_network(network, DATA.features.shape[1])
    rows = np.array([[3, 1, -1], [7, -1, -1]])
    resident = FeatureFeed(DATA, "cpu")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (10 * DATA.features.nbytes, 0))
    assert devices.fits(6 * DATA.features.nbytes, torch.device("cuda"))
    assert not devices.fits(7 * DATA.features.nbytes, torch.device("cuda"))
    monkeypatch.setattr("lmtune.rerank.learners.feature_networks.fits", lambda *_: False)
    streamed = FeatureFeed(DATA, "cpu")
    for first, second in zip(resident.inputs(made, rows), streamed.inputs(made, rows), strict=True):
        assert torch.equal(first, second)
    assert torch.equal(resident.scores(made), streamed.scores(made))


@needs_cuda
def test_a_gpus_switches_are_put_back() -> None:
    torch.set_float32_matmul_precision("high")
    try:
        with repeatable("cuda:0"):
            assert torch.are_deterministic_algorithms_enabled()
            assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.are_deterministic_algorithms_enabled()
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


@needs_cuda
def test_copies_to_a_gpu_arrive() -> None:
    numbers = np.arange(1_000_000)
    assert (to_device(numbers, "cuda").cpu().numpy() == numbers).all()
