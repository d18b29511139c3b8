"""What holds for every loss, whatever the lists."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support import SAMPLED

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.losses import (  # noqa: E402
    LOSSES,
    approx_ndcg,
    binary_cross_entropy,
    k_song,
    lambdarank,
    listmle,
    listnet,
    ndcg_loss2pp,
    neural_ndcg,
    ranknet,
    sl_at_k,
    song,
)
from lmtune.losses.derived import lambda_loss  # noqa: E402
from lmtune.losses.songs import KSong, ListwiseCrossEntropy, RelevantPairs, Song  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

Loss = Callable[..., Any]

VARIANTS: dict[str, Loss] = {
    **LOSSES,
    "listmle": partial(listmle, ties="shared"),
    "listnet, in torch": partial(listnet, backend="torch"),
    "listmle, in torch": partial(listmle, ties="shared", backend="torch"),
    "ranknet, in torch": partial(ranknet, backend="torch"),
    "ranknet, steep, in torch": partial(ranknet, sigma=3, backend="torch"),
    "lambdarank@2": partial(lambdarank, k=2),
    "ndcgloss2++@2, in torch": partial(ndcg_loss2pp, k=2, backend="torch"),
    "approxndcg@2": partial(approx_ndcg, k=2, alpha=1),
    "approxndcg@2, in torch": partial(approx_ndcg, k=2, alpha=1, backend="torch"),
    "approxndcg, in torch": partial(approx_ndcg, backend="torch"),
    "neuralndcg, in torch": partial(neural_ndcg, sinkhorn=10, backend="torch"),
    "neuralndcg@2": partial(neural_ndcg, k=2, sinkhorn=0),
    "neuralndcg, steep": partial(neural_ndcg, tau=0.7, sinkhorn=10),
}
BOUNDS: dict[str, Loss] = {"song": song, "k-song": partial(k_song, cutoff=3)}
every_loss = pytest.mark.parametrize("loss", VARIANTS.values(), ids=VARIANTS.keys())

# Ties of scores, of labels and of both are common; scores of +-1e4 too.
score = st.sampled_from([-1e4, -1.5, -0.25, 0.0, 0.25, 0.5, 3.0, 1e4]) | st.floats(-20, 20)
label = st.integers(0, 4) | st.sampled_from([0.0, 0.5])
items = st.lists(st.tuples(score, label), min_size=1, max_size=12)


def run(loss: Loss, s: Any, y: Any, mask: Any = None, **options: Any) -> tuple[Any, Any]:
    s = torch.as_tensor(s, dtype=torch.float64).clone().requires_grad_()
    value = loss(s, torch.as_tensor(y, dtype=torch.float64), mask=mask, **options)
    (gradient,) = torch.autograd.grad(value.sum(), s)
    return value.detach().numpy(), gradient.numpy()


def columns(pairs: list[tuple[float, float]]) -> tuple[Any, Any]:
    array = torch.tensor(pairs, dtype=torch.float64)
    return array[None, :, 0], array[None, :, 1]


@every_loss
@settings(max_examples=20, deadline=None)
@given(items, st.randoms(use_true_random=False))
def test_order_of_items_does_not_matter(loss: Loss, pairs: Any, random: Any) -> None:
    order = list(range(len(pairs)))
    random.shuffle(order)
    value, gradient = run(loss, *columns(pairs))
    other, moved = run(loss, *columns([pairs[i] for i in order]))
    np.testing.assert_allclose(other, value, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(moved, gradient[:, order], rtol=1e-8, atol=1e-11)


@pytest.mark.first_case
@every_loss
@settings(max_examples=5 if SAMPLED else 20, deadline=None)
@given(items, st.lists(st.tuples(st.floats(), st.floats()), min_size=1, max_size=5), st.data())
def test_padding_changes_nothing(loss: Loss, pairs: Any, junk: Any, data: Any) -> None:
    value, gradient = run(loss, *columns(pairs))
    mixed = [(pair, True) for pair in pairs] + [(pair, False) for pair in junk]
    mixed = data.draw(st.permutations(mixed))
    mask = torch.tensor([[real for _, real in mixed]])
    s, y = columns([pair for pair, _ in mixed])
    other, padded = run(loss, s, y, mask)
    real = mask.numpy()
    assert (padded[~real] == 0).all()
    np.testing.assert_allclose(other, value, rtol=1e-10, atol=1e-13)
    # The items stand in another order, so only their values can be held against each other.
    np.testing.assert_allclose(np.sort(padded[real]), np.sort(gradient[0]), rtol=1e-8, atol=1e-11)


@pytest.mark.first_case
@every_loss
@settings(max_examples=20, deadline=None)
@given(st.lists(items, min_size=1, max_size=4), st.sampled_from([torch.float32, torch.float64]))
def test_all_is_finite_and_the_mean_is_over_counted_queries(loss: Loss, queries: Any, dtype: Any) -> None:
    shape = (len(queries), max(len(pairs) for pairs in queries))
    s, y = torch.zeros(shape, dtype=dtype), torch.zeros(shape)
    mask = torch.zeros(shape, dtype=torch.bool)
    for row, pairs in enumerate(queries):
        s[row, : len(pairs)] = torch.tensor([a for a, _ in pairs], dtype=dtype)
        y[row, : len(pairs)] = torch.tensor([b for _, b in pairs])
        mask[row, : len(pairs)] = True
    s.requires_grad_()
    each = loss(s, y, mask=mask, reduce="none")
    (gradient,) = torch.autograd.grad(each.sum(), s)
    assert each.dtype == dtype
    assert each.isfinite().all()
    assert gradient.isfinite().all()
    counted = (y > 0).any(dim=1)
    assert (each[~counted] == 0).all()
    assert (gradient[~counted] == 0).all()
    assert (gradient[~mask] == 0).all()
    mean = loss(s, y, mask=mask)
    want = each[counted].mean() if counted.any() else torch.zeros(())
    torch.testing.assert_close(mean, want.to(dtype))
    mean.backward()
    torch.testing.assert_close(s.grad, gradient / max(1, int(counted.sum())))


@every_loss
@pytest.mark.parametrize("empty", [(0, 5), (3, 0)])
def test_batches_of_nothing(loss: Loss, empty: tuple[int, int]) -> None:
    s = torch.zeros(empty, requires_grad=True)
    value = loss(s, torch.zeros(empty))
    value.backward()
    assert value.item() == 0
    assert loss(s, torch.zeros(empty), reduce="none").shape == empty[:1]


@pytest.mark.first_case
@every_loss
@settings(max_examples=20, deadline=None)
@given(items)
def test_a_step_down_the_gradient_helps(loss: Loss, pairs: Any) -> None:
    if loss is sl_at_k:  # its gradient leaves out the weights' change
        loss = partial(sl_at_k, weight_temperature=1e12)
    s, y = columns(pairs)
    value, gradient = run(loss, s / 100, y)
    assume(np.abs(gradient).max() > 1e-6)
    # LambdaRank's weights change with ranks: a step too small to change any.
    step = 1e-9 / np.abs(gradient).max()
    ranked = s / 100 + torch.arange(s.shape[1]) * 1e-5
    assume((np.diff(np.sort(ranked.numpy()[0])) > 1e-6).all())
    value, gradient = run(loss, ranked, y)
    after, _ = run(loss, ranked - step * torch.from_numpy(gradient), y)
    assert after[()] <= value[()] + 1e-15


@every_loss
def test_equal_scores_push_relevant_items_up(loss: Loss) -> None:
    _, gradient = run(loss, torch.zeros(1, 4), torch.tensor([[0, 3, 0, 1]]))
    assert gradient[0, 1] < 0
    # Two losses know no grades.
    others = [0, 2] if loss in (binary_cross_entropy, sl_at_k) else [0, 2, 3]
    assert gradient[0, 1] < gradient[0, others].min()
    assert gradient[0, 0] == pytest.approx(gradient[0, 2], rel=1e-12)


@every_loss
def test_half_precision_is_computed_in_single(loss: Loss) -> None:
    generator = torch.Generator().manual_seed(1)
    s = torch.randn(3, 20, generator=generator).bfloat16().requires_grad_()
    y = torch.randint(0, 4, (3, 20), generator=generator)
    value = loss(s, y)
    value.backward()
    single = s.detach().float().requires_grad_()
    want = loss(single, y)
    want.backward()
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, want, rtol=0, atol=0)
    assert s.grad is not None
    assert single.grad is not None
    torch.testing.assert_close(s.grad, single.grad.bfloat16(), rtol=0, atol=0)


@every_loss
def test_nothing_is_kept_where_no_gradient_is_wanted(loss: Loss) -> None:
    s, y = torch.randn(2, 9), torch.randint(0, 4, (2, 9))
    with torch.no_grad():
        value = loss(s.requires_grad_(), y)
    assert not value.requires_grad
    torch.testing.assert_close(value, loss(s, y).detach())


def module(kind: Any) -> Loss:
    """Let a loss that knows its training data be called as the others are."""

    def call(s: Any, y: Any) -> Any:
        starts = np.arange(len(y) + 1) * y.shape[1]
        items = torch.arange(y.numel()).reshape(y.shape)
        own = kind(RelevantPairs.from_lists(starts, y.flatten().numpy()))
        return own(s, y, queries=torch.arange(len(y)), items=items)

    return call


ALL_MEANS: dict[str, Loss] = {
    **LOSSES,
    **BOUNDS,
    "lambdas": lambda_loss(lambda scores, labels: labels - scores),
    "Song": module(Song),
    "KSong": module(partial(KSong, cutoff=3)),
    "ListwiseCrossEntropy": module(ListwiseCrossEntropy),
}
every_mean = pytest.mark.parametrize("loss", ALL_MEANS.values(), ids=ALL_MEANS.keys())


@every_mean
def test_second_derivatives_are_refused(loss: Loss) -> None:
    s = torch.randn(2, 9, requires_grad=True)
    y = torch.arange(18).reshape(2, 9) % 4
    (gradient,) = torch.autograd.grad(loss(s, y), s, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        gradient.sum().backward()


@every_mean
def test_a_gradient_is_scaled_before_it_is_rounded(loss: Loss) -> None:
    """As `torch.amp.GradScaler` has it: a gradient too small for float16 is not once it is scaled."""
    s = torch.randn(3, 300, generator=torch.Generator().manual_seed(4)).half().requires_grad_()
    single = s.detach().float().requires_grad_()
    y = torch.arange(900).reshape(3, 300) % 7 % 4
    scale = 2.0**14
    slopes = []
    for scores in (s, single):
        torch.manual_seed(0)
        (slope,) = torch.autograd.grad(scale * loss(scores, y), scores)
        slopes.append(slope)
    assert slopes[0].dtype == torch.float16
    torch.testing.assert_close(slopes[0], slopes[1].half(), rtol=0, atol=0)


@pytest.mark.parametrize("loss", [*VARIANTS.values(), *BOUNDS.values()], ids=[*VARIANTS, *BOUNDS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layout_changes_nothing(loss: Loss, dtype: Any) -> None:
    generator = torch.Generator().manual_seed(5)
    shape = (3 if SAMPLED else 7), 11
    s = torch.randn(shape, generator=generator, dtype=dtype)
    y, mask = (torch.randint(0, most, shape, generator=generator) for most in (4, 5))
    wanted = found = None
    for transposed in (False, True):
        given = [own.T.contiguous().T if transposed else own for own in (s, y, mask > 0)]
        given[0] = given[0].detach().requires_grad_()
        value = loss(given[0], given[1], mask=given[2])
        wanted, found = found, (value.detach(), torch.autograd.grad(value, given[0])[0])
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


# K-SONG's threshold is drawn to 0, and binary cross-entropy is about the scores themselves.
SHIFTED = {
    name: loss for name, loss in (VARIANTS | {"song": song}).items() if loss is not binary_cross_entropy
}


@pytest.mark.parametrize("loss", SHIFTED.values(), ids=SHIFTED)
@pytest.mark.parametrize(
    ("dtype", "steps", "tolerance"), [(torch.float32, 8, 1e-6), (torch.float64, 1024, 1e-11)]
)
@pytest.mark.parametrize("far", [2.0**10, 2.0**17, 2.0**20, -(2.0**20)])
def test_adding_to_all_scores_changes_nothing(
    loss: Loss, dtype: Any, steps: int, tolerance: float, far: float
) -> None:
    """Scores are multiples of what the largest of them are rounded by, so that they are shifted exactly."""
    generator = torch.Generator().manual_seed(6)
    shape = (2, 40) if SAMPLED else (3, 70)
    s = torch.randint(-3 * steps, 3 * steps, shape, generator=generator).double() / steps
    y = torch.randint(0, 4, shape, generator=generator)
    shifted = (s + far).to(dtype)
    assert torch.equal(shifted.double() - far, s)
    (value, gradient), (found, slope) = (_value_and_slope(loss, own, y) for own in (s.to(dtype), shifted))
    assert found == pytest.approx(value, rel=tolerance)
    assert (slope - gradient).abs().max() <= tolerance * gradient.abs().max()


def _value_and_slope(loss: Loss, s: Any, y: Any) -> tuple[float, Any]:
    value = loss(s.requires_grad_(), y)
    return value.item(), torch.autograd.grad(value, s)[0]


@every_loss
def test_autocast_changes_nothing(loss: Loss) -> None:
    y = torch.arange(30).reshape(3, 10) % 4
    s = torch.randn(3, 10, generator=torch.Generator().manual_seed(3), requires_grad=True)
    want = loss(s, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(s, y)
    assert value.dtype == torch.float32
    assert value.item() == want.item()


@pytest.mark.parametrize("name", LOSSES)
def test_nothing_is_mixed_up_with_the_cpu_on_another_device(name: str) -> None:
    """The "meta" device has shapes and types without numbers, and refuses the CPU's tensors."""
    s = torch.randn(3, 7, device="meta", requires_grad=True)
    y = torch.ones(3, 7, device="meta", dtype=torch.long)
    value = LOSSES[name](s, y, mask=torch.ones(3, 7, device="meta", dtype=torch.bool))
    (gradient,) = torch.autograd.grad(value, s)
    assert (gradient.shape, gradient.dtype, gradient.device) == (s.shape, s.dtype, s.device)
