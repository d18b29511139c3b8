"""Losses on other devices than the CPU: steps that wait for nothing, and their values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from host_trips import DEVICES, launches  # noqa: E402
from test_loss_kernels import VARIANTS, every_loss, made, run  # noqa: E402

from lmtune.losses import (  # noqa: E402
    approx_ndcg,
    binary_cross_entropy,
    k_song,
    lambdarank,
    margin_mse,
    ranknet,
    song,
    stochastic,
)
from lmtune.losses import evaluation as padded_lists  # noqa: E402
from lmtune.losses.songs import k_song as thresholds  # noqa: E402
from lmtune.losses.songs import songs  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

ALL: dict[str, Callable[..., Any]] = {
    **{name: loss for name, loss in VARIANTS.items() if "listmle" not in name},
    "listmle": partial(VARIANTS["listmle"], seed=None),
    "listmle, shared": VARIANTS["listmle, shared"],
    "approxndcg, noise": stochastic(approx_ndcg, 2),
    "binary-cross-entropy": binary_cross_entropy,
    "binary-cross-entropy, smoothed": partial(binary_cross_entropy, smoothing=0.2),
    "margin-mse": margin_mse,
    "ranknet, all": partial(ranknet, pairs="all", sigma=1.5),
}
MEANS: dict[str, Callable[..., Any]] = {"song": song, "k-song": partial(k_song, cutoff=5)}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets tensors of the CPU be taken as those of a device that is to be waited for."""
    monkeypatch.setattr(padded_lists, "on_cpu", lambda _values: False)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [*ALL, *MEANS])
@pytest.mark.parametrize("padding", ["mask", "labels"])
def test_a_step_waits_for_nothing(
    name: str, padding: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "_MAX_STEPS", 3)  # which are all alike
    scores, labels, mask = (values.to(device) for values in made(6, 37, tied=True))
    scores.requires_grad_()
    if padding == "labels":
        labels = torch.where(mask, labels, -1)
    given = {"mask": mask} if padding == "mask" else {}
    launches(lambda: (ALL | MEANS)[name](scores, labels, **given).backward(), device)


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        *[("ranknet", 2), ("ranknet, sum, steep", 1), ("lambdarank", 2), ("ndcgloss2++@10", 2)],
        *[("lambdarank, mrr", 2), ("lambdarank, precision@10", 2), ("lambdarank, arp@10", 1)],
        *[("approxndcg", 2), ("neuralndcg", 5), ("song", 2), ("k-song", 3)],
    ],
)
def test_nor_do_steps_of_kernels(name: str, kernels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from lmtune.losses import fused, fused_song, fused_sort

    started = []
    monkeypatch.setattr(padded_lists, "is_fused", lambda _scores: True)
    monkeypatch.setattr(songs, "is_fused", lambda _scores: True)

    def fill(out: Any, kernel: Any, *_inputs: Any, **_options: Any) -> Any:
        started.append(kernel)
        return out

    for module in (fused, fused_song, fused_sort):
        monkeypatch.setattr(module, "fill", fill)
    scores, labels, mask = (values.to("meta") for values in made(6, 37, tied=True))
    scores = scores.float().requires_grad_()
    assert launches(lambda: (ALL | MEANS)[name](scores, labels, mask=mask).backward(), "meta") <= 18
    assert len(started) == kernels


@pytest.mark.parametrize(
    ("name", "on_device", "on_cpu"),
    [
        *[("binary-cross-entropy", 36, 10), ("margin-mse", 45, 10), ("listnet", 39, 10), ("listmle", 79, 12)],
        *[("ranknet", 63, 10), ("approxndcg", 82, 20)],
    ],
)
def test_a_step_has_few_operations(name: str, on_device: int, on_cpu: int) -> None:
    for device, most in (("meta", on_device), ("cpu", on_cpu)):
        scores = torch.zeros(4, 20, device=device, requires_grad=True)
        labels = torch.ones(4, 20, device=device)
        assert launches(lambda: (ALL | MEANS)[name](scores, labels).backward(), device) <= most  # noqa: B023


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("listmle", "approxndcg, noise")])
def test_values_are_the_cpus(name: str, request: pytest.FixtureRequest) -> None:
    scores, labels, mask = made(6, 37, tied=True)
    labels[2] = 0
    wanted, mean = run(ALL[name], scores, labels, mask), ALL[name](scores, labels, mask=mask)
    request.getfixturevalue("elsewhere")
    found = run(ALL[name], scores, labels, mask)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-10, atol=1e-14)
    assert ALL[name](scores, labels, mask=mask).item() == pytest.approx(mean.item(), rel=1e-12)


@pytest.mark.parametrize("name", MEANS)
def test_bounds_are_the_cpus(name: str, request: pytest.FixtureRequest) -> None:
    scores, labels, mask = made(6, 37, tied=True)
    labels[2], mask[3] = 0, False
    values, slopes = [], []
    for _ in range(2):
        given = scores.clone().requires_grad_()
        values.append(MEANS[name](given, labels, mask=mask))
        slopes.append(torch.autograd.grad(values[-1], given)[0])
        request.getfixturevalue("elsewhere")
    torch.testing.assert_close(*values, rtol=1e-12, atol=0)
    torch.testing.assert_close(*slopes, rtol=1e-10, atol=1e-14)
    labels[1, 4], mask[1, 4] = -2, True
    assert MEANS[name](scores, labels, mask=mask).isnan()


@pytest.mark.usefixtures("elsewhere")
@every_loss
@pytest.mark.parametrize("label", [-2.0, np.nan, -np.inf])
def test_a_wrong_label_spoils_its_querys_loss(loss: Any, label: float) -> None:
    scores, labels, mask = made(3, 20, tied=False)
    labels, mask[1, 4] = labels.double(), True
    labels[1, 4] = label
    value, _ = run(loss, scores, labels, mask)
    assert np.isnan(value).tolist() == [False, True, False]
    assert loss(scores, labels, mask=mask).isnan()


@pytest.mark.usefixtures("elsewhere")
def test_a_label_too_large_for_its_gain_spoils_its_querys_loss() -> None:
    scores, labels, mask = made(3, 20, tied=False)
    labels[1, 4], mask[1, 4] = 101, True
    assert np.isnan(run(lambdarank, scores, labels, mask)[0]).tolist() == [False, True, False]
