"""SONG on other devices than the CPU: steps that wait for nothing, their values, errors that come later."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from host_trips import DEVICES, launches  # noqa: E402

from lmtune.errors import InputError  # noqa: E402
from lmtune.losses import evaluation as padded_lists  # noqa: E402
from lmtune.losses.songs import KSong, ListSampler, ListwiseCrossEntropy, RelevantPairs, Song  # noqa: E402
from lmtune.losses.songs import k_song as thresholds  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

MODULES: dict[str, Callable[[RelevantPairs], Any]] = {
    "song": Song,
    "k-song": partial(KSong, cutoff=5),
    "k-song, steps": partial(KSong, cutoff=5, eta=0.1, theoretical=False),
    "k-song, by rank": partial(KSong, cutoff=5, inside="rank"),
    "cross-entropy": ListwiseCrossEntropy,
}
LISTS, ITEMS = 12, 60


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets tensors of the CPU be taken as those of a device that is to be waited for."""
    monkeypatch.setattr(padded_lists, "on_cpu", lambda _values: False)


def made_pairs() -> RelevantPairs:
    random = np.random.default_rng(0)
    rows = [(q, i, random.integers(1, 4)) for q in range(LISTS) for i in random.permutation(ITEMS)[: q + 1]]
    return RelevantPairs.from_rows(*np.array(rows).T, lengths=ITEMS)


def steps(
    module: Any, device: str = "cpu", count: int = 3, dtype: Any = torch.float64
) -> list[Callable[[], tuple[Any, Any]]]:
    """Make steps on samples and, last, on whole lists, each of six of the lists."""
    random = np.random.default_rng(1)
    sampler = ListSampler(made_pairs(), ITEMS, relevant=3, others=8, seed=0)

    def step(number: int) -> tuple[Any, Any]:
        chosen = random.permutation(LISTS)[:6]
        whole = number == count - 1
        sample = sampler.all_items(chosen) if whole else sampler.draw(chosen, epoch=0, step=number)
        scores = torch.from_numpy(random.normal(size=sample.items.shape)).to(device, dtype).requires_grad_()
        batch = {"queries": chosen, "items": sample.items, "labels": sample.labels}
        given = {name: torch.from_numpy(values).to(device) for name, values in batch.items()}
        made = partial(module, scores, **given)

        def run() -> tuple[Any, Any]:
            value = made()
            return value.detach(), torch.autograd.grad(value, scores)[0]

        return run  # type: ignore[return-value]

    return [step(number) for number in range(count)]  # type: ignore[misc]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODULES)
def test_a_step_waits_for_nothing(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "_MAX_STEPS", 3)  # which are all alike
    for step in steps(MODULES[name](made_pairs()).to(device), device):
        launches(step, device)


@pytest.mark.parametrize(
    "name", [name for name in MODULES if name not in ("cross-entropy", "k-song, by rank")]
)
def test_nor_do_those_of_kernels_which_launch_little_else(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    from lmtune.losses import fused, fused_song
    from lmtune.losses.songs import fused_memory, songs

    started = []

    def fill(out: Any, kernel: Any, *_inputs: Any, **_options: Any) -> Any:
        started.append(kernel)
        return out

    monkeypatch.setattr(songs, "is_fused", lambda _scores: True)
    for module in (fused, fused_song, fused_memory):
        monkeypatch.setattr(module, "fill", fill)
    for step in steps(MODULES[name](made_pairs()).to("meta"), "meta"):
        started.clear()
        assert launches(step, "meta") <= 18
        assert len(started) == 4 + name.startswith("k-song")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODULES)
def test_values_are_the_cpus(name: str, device: str, request: pytest.FixtureRequest) -> None:
    module, twin = (MODULES[name](made_pairs()).double() for _ in range(2))
    wanted = [step() for step in steps(module)]
    if device == "meta":  # which has no values
        request.getfixturevalue("elsewhere")
        device = "cpu"
    found = [step() for step in steps(twin.to(device), device)]
    near: dict[str, Any] = {"rtol": 1e-12 if device == "cpu" else 1e-9, "atol": 1e-14, "check_device": False}
    torch.testing.assert_close(found, wanted, **near)
    torch.testing.assert_close(twin.state_dict(), module.state_dict(), equal_nan=True, **near)
    assert twin.state.padded_estimate[-1].isnan()


def test_a_module_is_pickled_with_what_it_keeps() -> None:
    module = Song(made_pairs())
    steps(module, count=1)[0]()
    again = pickle.loads(pickle.dumps(module))
    torch.testing.assert_close(again.state_dict(), module.state_dict(), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("module", [Song, KSong, ListwiseCrossEntropy])
def test_lists_of_nothing_are_refused(module: Any) -> None:
    nothing = torch.zeros(1, 0)
    with pytest.raises(InputError, match="0 of 4 relevant items, 0 of 56 others"):
        module(made_pairs())(nothing, nothing, queries=torch.tensor([3]), items=nothing.long())


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", ["song", "k-song", "cross-entropy"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"queries": torch.tensor([3, 77])}, "query id is not in the training data: 77"),
        ({"items": torch.arange(120).reshape(2, 60)}, r"not in the training data: \(4, \d+\)"),
        ({"labels": torch.zeros(2, 60)}, "too small for unbiased estimates: .0 of 4 relevant"),
    ],
)
def test_what_is_wrong_is_said_when_asked(name: str, change: dict[str, Any], words: str) -> None:
    sampler = ListSampler(made_pairs(), ITEMS, seed=0)
    sample = sampler.all_items(np.array([3, 4]))
    batch = {"queries": torch.tensor([3, 4]), "items": torch.from_numpy(sample.items)}
    batch |= {"labels": torch.from_numpy(sample.labels)}
    module, scores = MODULES[name](made_pairs()), torch.zeros(2, ITEMS)
    assert not module(scores, **batch).isnan()
    module.state_dict()
    before = module.state.estimate.clone()
    assert module(scores, **{**batch, **change}).isnan()
    assert module(scores, **batch).isnan()  # it is not forgotten
    with pytest.raises(InputError, match=words):
        module.state_dict()
    assert not module(scores, **batch).isnan()  # but said once
    if "queries" not in change:
        torch.testing.assert_close(module.state.estimate, before, equal_nan=True)
