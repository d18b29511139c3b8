"""Networks: shapes, padding, permutations, seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from torch import Tensor

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses.songs.songs import reinitialise_last_layer  # noqa: E402
from lmtune.rerank.learners.networks import ItemNorm, Pointwise, make_network  # noqa: E402

NAMES = ["linear", "two-layer", "b64", "b256", "mlp:32-16", "attention:16-2-2"]
FEATURES = 7


def some(seed: int = 0, lengths: tuple[int, ...] = (5, 3, 1)) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn((len(lengths), max(lengths), FEATURES), generator=generator)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return features, mask


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("training", [False, True])
def test_padding_changes_nothing(name: str, training: bool) -> None:
    features, mask = some()
    network = make_network(name, FEATURES, seed=3).train(training)
    state = {key: value.clone() for key, value in network.state_dict().items()}
    short = network(features, mask)
    (short * features[..., 0]).sum().backward()
    grads = [p.grad.clone() for p in network.parameters() if p.grad is not None]
    # The same lists with two more places and one more query, all of them rubbish.
    wide = torch.full((4, 7, FEATURES), torch.nan)
    wide[:3, :5] = torch.where(mask[..., None], features, torch.inf)
    wider = torch.zeros((4, 7), dtype=torch.bool)
    wider[:3, :5] = mask
    network.load_state_dict(state)
    network.zero_grad()
    long = network(wide, wider)
    assert torch.isfinite(long).all()
    assert (long[~wider] == 0).all()
    torch.testing.assert_close(long[:3, :5], short, rtol=1e-5, atol=1e-6)
    (long[:3, :5] * torch.where(mask, features[..., 0], 0.0)).sum().backward()
    for parameter, grad in zip(network.parameters(), grads, strict=True):
        torch.testing.assert_close(parameter.grad, grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_permuting_items_permutes_scores(name: str) -> None:
    features, mask = some(1, (6, 6))
    network = make_network(name, FEATURES, seed=0).eval()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(
        network(features[:, order], mask), network(features, mask)[:, order], rtol=1e-5, atol=1e-6
    )


def test_attention_sees_the_other_items_of_the_query_only() -> None:
    features, mask = some(2, (4, 4))
    network = make_network("attention", FEATURES, dropout=0.1, seed=0).eval()
    before = network(features, mask)
    features[1, 0] += 5.0
    after = network(features, mask)
    assert torch.equal(after[0], before[0])
    assert (after[1, 1:] != before[1, 1:]).all()


def test_batch_norm_is_that_of_the_valid_items() -> None:
    features, mask = some(4)
    network = make_network("b64", FEATURES, seed=0).train()
    network(features, mask)
    assert isinstance(network, Pointwise)
    norm = network.body[0]
    assert isinstance(norm, ItemNorm)
    valid = features[mask]
    torch.testing.assert_close(norm.running_mean, 0.1 * valid.mean(0))
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * valid.var(0))
    one, where = some(5, (1,))
    assert torch.isfinite(network(one, where)).all()  # one item has no variance


@pytest.mark.parametrize(
    ("name", "widths"),
    [
        ("linear", [1]),
        ("two-layer", [10, 1]),
        ("b64", [64, 32, 16, 1]),
        ("B1024", [1024, 512, 256, 128, 64, 32, 16, 1]),
        ("mlp:256-128-64", [256, 128, 64, 1]),
        ("b:48-8", [48, 8, 1]),
    ],
)
def test_layers(name: str, widths: list[int]) -> None:
    network = make_network(name, FEATURES, dropout=0.5, seed=0)
    linear = [m for m in network.modules() if isinstance(m, torch.nn.Linear)]
    assert [layer.out_features for layer in linear] == widths
    assert any(isinstance(m, ItemNorm) for m in network.modules()) == name.lower().startswith("b")
    drops = sum(isinstance(m, torch.nn.Dropout) for m in network.modules())
    assert drops == (0 if name in ("linear", "two-layer") else len(widths) - 1)


def test_seeds() -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first, again, other = (make_network("b64", 3, seed=s).state_dict() for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["body.1.weight"], other["body.1.weight"])
    network = make_network("b64", 3, seed=1)
    reinitialise_last_layer(network, seed=9, layer=network.last)
    changed = [n for n, v in network.state_dict().items() if not torch.equal(v, first[n])]
    assert changed == ["body.10.weight"]


UNKNOWN = "b65 b mlp mlp: mlp:0 mlp:8- attention:10-1-3 attention:8-1 attention:8-65-1"


@pytest.mark.parametrize("name", ["", *UNKNOWN.split()])
def test_unknown_names(name: str) -> None:
    with pytest.raises(InputError, match="network"):
        make_network(name, 3)


def test_bad_sizes() -> None:
    with pytest.raises(InputError, match="dropout"):
        make_network("b64", 3, dropout=1.0)
    with pytest.raises(InputError, match="features"):
        make_network("b64", 0)


@pytest.mark.parametrize("momentum", [0.9, 0.8, 0.99])
def test_batch_norms_momentum_is_keras(momentum: float) -> None:
    features = torch.randn((50, FEATURES), generator=torch.Generator().manual_seed(0)) + 2.0
    network = make_network("b:4", FEATURES, norm_momentum=momentum).train()
    network(features[None], torch.ones((1, 50), dtype=torch.bool))
    norms = [layer for layer in network.modules() if isinstance(layer, ItemNorm)]
    assert len(norms) == 2
    torch.testing.assert_close(norms[0].running_mean, (1.0 - momentum) * features.mean(0))
    assert {norm.momentum for norm in norms} == {round(1.0 - momentum, 12)}


@pytest.mark.parametrize("name", ["linear", "mlp:64-32", "b64", "attention:16-1-2"])
def test_bfloat16_makes_no_ties(name: str) -> None:
    """The last layer is in float32: different items keep different scores, which 8 bits would not."""
    features = torch.randn((8, 120, FEATURES), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(features.shape[:2], dtype=torch.bool)
    network = make_network(name, FEATURES).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        scores = network(features, mask)
        rounded = scores.bfloat16().float()
    exact = network(features, mask).detach()
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, exact, rtol=0.02, atol=0.02 * float(exact.abs().max()))
    distinct = [sum(own.unique().numel() for own in some) / exact.numel() for some in (scores, rounded)]
    assert distinct[0] > 0.99 > distinct[1]
