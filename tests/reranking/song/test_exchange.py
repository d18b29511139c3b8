"""Two processes that see different queries, and one that sees all: the same state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.reranking.song import KSong, RelevantPairs  # noqa: E402

LABELS = [1.0, 0, 2, 0, 0, 1, 1, 0, 0, 3, 0, 0]


def k_song() -> KSong:
    pairs = RelevantPairs.from_lists([0, 3, 6, 9, 12], LABELS)
    return KSong(pairs, cutoff=2, theoretical=True, gamma=0.3)


def step(song: KSong, number: int, queries: list[int]) -> None:
    scores = torch.sin(torch.arange(12.0) * (number + 1)).reshape(4, 3)[queries]
    rows = torch.arange(12).reshape(4, 3)[queries]
    song(scores, torch.tensor(LABELS)[rows], queries=torch.tensor(queries), items=rows)


def work(rank: int, folder: str) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    song = k_song()
    for number in range(3):
        # Unequal shares, and a query without estimates to exchange, in turn.
        step(song, number, [[0, 1, 2], [3]][rank] if number % 2 else [[0], [1]][rank])
        song.exchange()
    torch.save(song.state_dict(), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_alone_it_does_nothing() -> None:
    song = k_song()
    step(song, 0, [0, 2])
    before = song.state.estimate.clone()
    song.exchange()
    torch.testing.assert_close(song.state.estimate, before, equal_nan=True)


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(work, (str(tmp_path),), nprocs=2)
    song = k_song()
    for number in range(3):
        step(song, number, [0, 1, 2, 3] if number % 2 else [0, 1])
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    whole: dict[str, Any] = song.state_dict()
    for name in whole:
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], whole[name], rtol=1e-6, atol=0)
