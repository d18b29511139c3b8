"""SONG's and K-SONG's kernels against plain PyTorch: on a GPU, or in Triton's interpreter (test_fused)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.reranking.losses import k_song, song  # noqa: E402
from lmtune.reranking.losses.evaluation import is_fused  # noqa: E402
from lmtune.reranking.song import k_song as thresholds  # noqa: E402
from lmtune.reranking.song.songs import Song  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

BOUNDS: dict[str, Callable[..., Any]] = {
    "song": song,
    "song@10": partial(song, cutoff=10),
    "song, a share": partial(song, cutoff=0.13, margin=1.0),
    "k-song": partial(k_song, cutoff=5),
    "k-song, practical": partial(k_song, cutoff=5, theoretical=False),
    "k-song, a share": partial(k_song, cutoff=0.1, margin=2.0),
}
TOLERANCES = {"float64": 1e-10, "float32": 3e-6, "bfloat16": 1e-2, "float16": 2e-3}


def _lists(items: int, *, tied: bool) -> tuple[Any, Any, Any]:
    """Make ragged lists, one without a relevant item, one without any."""
    random = torch.Generator().manual_seed(items)
    scores = 3 * torch.randn(5, items, generator=random).double()
    labels = torch.randint(0, 4, scores.shape, generator=random)
    mask = (
        torch.arange(items) < torch.tensor([items, max(1, items // 2), items, 0, max(1, items - 3)])[:, None]
    )
    labels[2] = 0
    return (scores.round() if tied else scores), labels, mask


def _evaluate(loss: Any, scores: Any, labels: Any, mask: Any) -> tuple[Any, Any]:
    given = scores.detach().requires_grad_()
    value = loss(given, labels, mask=mask)
    return value.detach(), torch.autograd.grad(value, given)[0]


@pytest.mark.skipif(not is_fused(torch.zeros(1, 1, device=DEVICE)), reason="no CUDA device, nor interpreter")
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("items", [1, 3, 37, 300])
@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_in_kernels(name: str, items: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of transposed lists, permuted ones, with ties or far apart, and the same at each call."""
    tolerance, loss = TOLERANCES[dtype], BOUNDS[name]
    scores, labels, mask = (values.to(DEVICE) for values in _lists(items, tied=items == 37))
    scores = (scores * (30 if items == 3 else 1)).to(getattr(torch, dtype))
    lists = [values.t().contiguous().t() for values in (scores, labels, mask)]
    value, slope = _evaluate(loss, *lists)
    again = _evaluate(loss, *lists)
    assert torch.equal(value, again[0])
    assert torch.equal(slope, again[1])
    order = torch.randperm(items, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    moved, moved_slope = _evaluate(loss, *(values[:, order] for values in lists))
    torch.testing.assert_close(moved, value, rtol=tolerance, atol=0)
    with monkeypatch.context() as patch:
        patch.setattr(Song, "sums_pairs", staticmethod(lambda _scores: False))
        patch.setattr(thresholds, "is_fused", lambda _scores: False)
        wanted, steep = _evaluate(loss, scores.double(), labels, mask)
    torch.testing.assert_close(value.double(), wanted, rtol=min(tolerance, 3e-6), atol=0)
    largest = tolerance * float(steep.abs().max()) + 1e-12
    torch.testing.assert_close(slope.double(), steep, rtol=0, atol=largest)
    torch.testing.assert_close(moved_slope, slope[:, order], rtol=0, atol=largest)
    assert (slope[~mask] == 0).all()
    labels[0, 0] = -2
    assert loss(scores, labels, mask=mask).isnan()
