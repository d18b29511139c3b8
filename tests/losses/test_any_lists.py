"""Losses in other people's training loops: lists of many shapes are the padded lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

import song_brute as brute  # noqa: E402

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses import LOSSES, k_song, lambdarank, song  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

ALL: dict[str, Callable[..., Any]] = {**LOSSES, "song": song, "k-song": k_song}
SCORES = [[0.3, -1.0, 2.0, 0.5], [1.0, 0.0], [0.1, 0.2, 0.4]]
LABELS = [[0, 2, 1, 0], [0, 1], [3, 0, 0]]
PADDED = [[0, 2, 1, 0], [0, 1, -1, -1], [3, 0, 0, -1]]


def padded(fill: float) -> Any:
    return torch.tensor([row + [fill] * (4 - len(row)) for row in SCORES])


def gradients(loss: Callable[..., Any], scores: Any, *rest: Any, **options: Any) -> tuple[float, list[float]]:
    """Return a loss and its gradient at the real items, in order."""
    leaves = [scores] if isinstance(scores, torch.Tensor) else scores
    for leaf in leaves:
        leaf.requires_grad_()
    value = loss(scores, *rest, **options)
    value.backward()
    rows = leaves[0].grad.reshape(3, 4) if len(leaves) == 1 else [leaf.grad.flatten() for leaf in leaves]
    return value.item(), [g for row, own in zip(rows, LABELS, strict=True) for g in row[: len(own)].tolist()]


@pytest.mark.parametrize("name", ALL)
def test_all_forms_are_the_same_lists(name: str) -> None:
    loss = ALL[name]
    options: dict[str, Any] = {"seed": 0} if name == "listmle" else {}
    mask = torch.tensor(PADDED) >= 0
    wanted = gradients(loss, padded(0.0), torch.tensor(PADDED).clamp(min=0), mask=mask, **options)
    ragged = [torch.tensor(row) for row in SCORES]
    columns = [torch.tensor(row)[:, None] for row in SCORES]
    for scores, labels in [
        (padded(7.0), torch.tensor(PADDED)),
        (padded(7.0), np.array(PADDED)),
        (padded(float("nan")), PADDED),
        (padded(7.0)[:, :, None], np.array(PADDED, np.float32)[:, :, None]),
        (padded(7.0)[:, :, None], PADDED),
        (ragged, [np.array(row) for row in LABELS]),
        (columns, [torch.tensor(row) for row in LABELS]),
    ]:
        found = gradients(loss, scores, labels, **options)
        assert found[0] == pytest.approx(wanted[0], rel=1e-6)
        assert found[1] == pytest.approx(wanted[1], rel=1e-5, abs=1e-7)


def test_one_list_and_nested_tensors() -> None:
    one = lambdarank(torch.tensor(SCORES[:1]), torch.tensor(LABELS[:1]))
    assert lambdarank(torch.tensor(SCORES[0]), LABELS[0]) == one
    assert lambdarank(torch.tensor(SCORES[0])[:, None], np.array(LABELS[0])) == one
    nested = torch.nested.nested_tensor([torch.tensor(row) for row in SCORES], layout=torch.jagged)
    assert lambdarank(nested, LABELS) == lambdarank([torch.tensor(row) for row in SCORES], LABELS)


@pytest.mark.parametrize(
    ("scores", "labels", "mask", "said"),
    [
        ([torch.zeros(2)], [[1]], None, "lists of scores and labels differ in length.*a tensor"),
        ([torch.zeros(2)], [[1, 0], [1]], None, "lists of scores and labels differ in length"),
        ([], [], None, "lists of scores and labels differ in length"),
        ([torch.zeros(2)], [[1, 0]], [[True, True]], "a mask was passed with lists"),
        (torch.zeros(2, 3), [[1, 0], [1]], None, "labels or mask cannot be converted to a tensor.*list of"),
        (torch.zeros(2, 3), ["a", "b"], None, "labels or mask cannot be converted to a tensor"),
        (torch.zeros(2, 3, 4), torch.zeros(2, 3), None, "scores have the wrong shape.*items, 1"),
        (torch.zeros(4), torch.zeros(2, 2), None, "scores have the wrong shape"),
        (torch.zeros(2, 2), -3 * torch.ones(2, 2), None, "negative or NaN.*-1 marks padding"),
    ],
)
@pytest.mark.parametrize("loss", [lambdarank, song])
def test_what_fits_nowhere_is_named(loss: Any, scores: Any, labels: Any, mask: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        loss(scores, labels, mask=mask)


def test_song_of_whole_lists_is_the_papers_formula() -> None:
    scores = [torch.tensor(row).double() for row in SCORES]
    labels = [torch.tensor(row).double() for row in LABELS]
    lists = list(zip(scores, labels, strict=True))
    assert song(scores, labels, margin=2.0).item() == pytest.approx(brute.song(lists, 2.0).item(), rel=1e-13)
    found = k_song(scores, labels, margin=2.0, cutoff=2)
    wanted = brute.k_song(lists, 2, scale=1.0, epsilon=0.5, tau1=0.2, tau2=1e-4, margin=2.0)
    assert found.item() == pytest.approx(wanted, rel=1e-10)
    nothing = song(torch.ones(1, 2, requires_grad=True), [[-1, -1]])
    nothing.backward()  # type: ignore[no-untyped-call]
    assert nothing.item() == 0
