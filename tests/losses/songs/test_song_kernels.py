"""SONG's and K-SONG's kernels against plain PyTorch: on a GPU, or in Triton's interpreter (test_fused)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from test_song_steps import MODULES, made_pairs, steps  # noqa: E402

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses import k_song, song  # noqa: E402
from lmtune.losses.evaluation import is_fused  # noqa: E402
from lmtune.losses.songs import KSong, Song, pairs  # noqa: E402
from lmtune.losses.songs import k_song as thresholds  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
in_kernels = pytest.mark.skipif(
    not is_fused(torch.zeros(1, 1, device=DEVICE)), reason="no CUDA device, nor interpreter"
)

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


@in_kernels
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
        patch.setattr(Song, "sums_pairs", lambda _module, _scores: False)
        patch.setattr(thresholds, "is_fused", lambda _scores: False)
        wanted, steep = _evaluate(loss, scores.double(), labels, mask)
    torch.testing.assert_close(value.double(), wanted, rtol=min(tolerance, 3e-6), atol=0)
    largest = tolerance * float(steep.abs().max()) + 1e-12
    torch.testing.assert_close(slope.double(), steep, rtol=0, atol=largest)
    torch.testing.assert_close(moved_slope, slope[:, order], rtol=0, atol=largest)
    assert (slope[~mask] == 0).all()
    labels[0, 0] = -2
    assert loss(scores, labels, mask=mask).isnan()


REMEMBERING: dict[str, Callable[..., Any]] = {
    **MODULES,
    "song, gamma": partial(Song, gamma=0.3, margin=1.3),
    "k-song, anew": partial(KSong, cutoff=5, eta="solve"),
    "k-song, a share": partial(KSong, cutoff=0.3),
    "k-song, whole": partial(KSong, cutoff=100),
}


@in_kernels
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("name", REMEMBERING)
def test_steps_in_kernels(name: str, trained: bool, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples, then whole lists: values, gradients and all that is kept."""
    kind = getattr(torch, dtype)
    found, wanted = (REMEMBERING[name](made_pairs()).double() for _ in range(2))
    outcomes = []
    for module in (found, wanted):
        if module is wanted:
            monkeypatch.setattr(Song, "sums_pairs", lambda _module, _scores: False)
            monkeypatch.setattr(thresholds, "is_fused", lambda _scores: False)
            monkeypatch.setattr(pairs, "is_fused", lambda _scores: False)
        outcome = []
        for number, step in enumerate(steps(module.to(DEVICE), DEVICE, dtype=kind)):
            module.train(trained or number == 0)
            outcome.append(step())
        outcomes.append(outcome)
    near: dict[str, Any] = {"rtol": 1e-11 if dtype == "float64" else 3e-6, "atol": 1e-13, "equal_nan": True}
    for (value, slope), (right, steep) in zip(*outcomes, strict=True):
        torch.testing.assert_close(value, right, **near)
        torch.testing.assert_close(slope, steep, rtol=0, atol=near["rtol"] * float(steep.abs().max()))
    torch.testing.assert_close(found.state_dict(), wanted.state_dict(), **near)
    assert found.state.padded_estimate[-1].isnan()


@in_kernels
def test_a_pair_twice_in_a_batch_moves_once_in_kernels() -> None:
    module, once = (KSong(made_pairs(), cutoff=2, eta=0.1, gamma=0.3).double().to(DEVICE) for _ in range(2))
    for own, scale in ((module, 1.0), (once, 1.0), (module, 1.5), (once, 1.5)):
        rows = [3, 3] if own is module and scale > 1 else [3]
        items = torch.arange(60, device=DEVICE).expand(len(rows), -1)
        known = own.state.keys[:-1]
        labels = torch.isin(3 * own.state.stride + items, known).double()
        scores = scale * torch.sin(items.double())
        own(scores, labels, queries=torch.tensor(rows, device=DEVICE), items=items)
    torch.testing.assert_close(module.state_dict(), once.state_dict(), equal_nan=True, rtol=0, atol=0)


@in_kernels
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"queries": torch.tensor([3, 77])}, "query id is not in the training data: 77"),
        ({"items": torch.arange(120).reshape(2, 60)}, r"not in the training data: \(4, \d+\)"),
        ({"labels": torch.zeros(2, 60)}, "too small for unbiased estimates: .0 of 4 relevant"),
    ],
)
def test_what_is_wrong_is_noticed_in_kernels(change: dict[str, Any], words: str) -> None:
    module, scores = Song(made_pairs()).to(DEVICE), torch.zeros(2, 60, device=DEVICE)
    items = torch.arange(60).expand(2, -1)
    keys = torch.tensor([[3], [4]]) * module.state.stride + items
    batch = {"queries": torch.tensor([3, 4]), "items": items}
    batch |= {"labels": torch.isin(keys, module.state.keys.cpu()).float(), **change}
    with pytest.raises(InputError, match=words):
        assert module(scores, **{name: values.to(DEVICE) for name, values in batch.items()}).isnan()
        module.state_dict()
