"""What the processes of one training tell each other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.rerank.training import distributed  # noqa: E402


def test_what_no_process_reaches_does_not_decay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads stand for two processes; each reaches some of three parameters."""
    messages: list[Any] = []
    together = threading.Barrier(2)

    def all_reduce(values: Any) -> None:
        messages.append(values.clone())
        together.wait()
        values.copy_(messages[-1] + messages[-2])

    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)

    def trained(own: list[float | None]) -> list[Any]:
        weights = [torch.nn.Parameter(torch.ones(2)) for _ in own]
        for weight, slope in zip(weights, own, strict=True):
            weight.grad = None if slope is None else torch.full((2,), slope)
        table = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        distributed.add_gradients([*weights, table])
        grads = [None if weight.grad is None else weight.grad.tolist() for weight in weights]
        torch.optim.AdamW([*weights, table], lr=0.1, weight_decay=0.5).step()
        return [grads, weights[2].tolist(), table.tolist()]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(trained, [[1.0, None, None], [2.0, 4.0, None]])
    assert first == second == [[[3.0, 3.0], [4.0, 4.0], None], [1.0, 1.0], [1.0, 1.0, 1.0]]
