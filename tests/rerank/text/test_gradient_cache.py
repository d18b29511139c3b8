"""The gradient of scores taken in pieces is that of scoring them once."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the extra 'neural' is not installed")

import torch

from lmtune.losses import approx_ndcg
from lmtune.rerank.text.cross_encoder import scores_in_pieces, split_by_count, split_by_tokens


class Watched(torch.nn.Module):
    """A network with dropout that counts how many rows it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(5, 8), torch.nn.Dropout(0.5), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        )
        self.rows = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows += len(x)
        found: torch.Tensor = self.layers(x)[:, 0]
        return found


@pytest.mark.parametrize("autocast", [False, True])
def test_dropout_is_the_same_in_the_second_pass(autocast: bool) -> None:
    torch.manual_seed(1)
    network, x, labels = Watched(), torch.randn(11, 5), torch.randint(0, 3, (1, 11))
    pieces = split_by_count([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], 4)

    def gradients(cached: bool) -> list[torch.Tensor]:
        network.zero_grad()
        torch.manual_seed(7)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            if cached:
                scores = scores_in_pieces(lambda places: network(x[places]), pieces)
            else:
                scores = torch.empty(11, dtype=torch.bfloat16 if autocast else torch.float32)
                for piece in pieces:
                    scores = scores.index_put((piece,), network(x[piece]))
        approx_ndcg(scores[None], labels).backward()  # type: ignore[no-untyped-call]
        return [own.grad.clone() for own in network.parameters() if own.grad is not None]

    cached, once = gradients(True), gradients(False)
    assert network.rows == 3 * 11 - len(pieces[-1])
    assert max(float(own.abs().max()) for own in once) > 1e-3
    for ours, theirs in zip(cached, once, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


def test_what_is_kept_does_not_grow_with_the_list() -> None:
    network, x = Watched(), torch.randn(64, 5)
    kept: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel())
        return tensor

    sizes = []
    for count in (64, 8):
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            scores_in_pieces(lambda places: network(x[places]), split_by_count([1] * 64, count))
        sizes.append(sum(kept))
    assert sizes[1] < sizes[0] / 5


def test_pieces_are_of_like_length_and_a_single_one_is_scored_once() -> None:
    pieces = split_by_count([3, 9, 1, 9], 3)
    assert [piece.tolist() for piece in pieces] == [[1, 3, 0], [2]]
    network = Watched().eval()
    x = torch.randn(4, 5)
    found = scores_in_pieces(lambda places: network(x[places]), pieces)
    torch.testing.assert_close(found, network(x))
    network.rows = 0
    scores_in_pieces(lambda places: network(x[places]), split_by_count([1, 2], 5)).sum().backward()  # type: ignore[no-untyped-call]
    assert network.rows == 2


@pytest.mark.parametrize("lengths", [[5], [3, 9, 4, 4, 100, 1], [7] * 20])
def test_pieces_hold_all_places_within_their_tokens(lengths: list[int]) -> None:
    pieces = split_by_tokens(lengths, 20)
    assert sorted(torch.cat(pieces).tolist()) == list(range(len(lengths)))
    for piece in pieces:
        assert len(piece) * max(lengths[place] for place in piece) <= 20 or len(piece) == 1
