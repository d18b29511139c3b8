"""Settings of the tests of losses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Spare small tensors the cost of waking other threads."""
    torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
