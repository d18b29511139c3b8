"""The losses' kernels for a GPU: in Triton's interpreter, compiled without a GPU, and on one.

`make attack`, which sets ``LMTUNE_EACH_LOSS``, interprets more and longer lists, and compiles
each kernel for each device and type of scores.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
triton = pytest.importorskip("triton", reason="Triton is not installed")

from test_loss_kernels import every_loss, made, run  # noqa: E402

EVERY = "LMTUNE_EACH_LOSS" in os.environ

HOME = Path(__file__).parent
INTERPRETED = {
    # The CPU's kernels are compared with Triton's kernels there, not with plain PyTorch.
    "test_loss_kernels.py": "agree_with_torch and 37 and (ranknet or lambdarank or ndcg)",
    "test_loss_properties.py": "layout and (torch or k-song) or adding and torch",
    "songs/test_songs.py": "not (long_lists or tracked or drift or converges)",
    "songs/test_song_kernels.py": "in_kernels",
    "songs/test_thresholds.py": "roots",
}
"""Tests of other files that are repeated in Triton's interpreter."""

if not EVERY:
    INTERPRETED["test_loss_kernels.py"] += " and True"
    INTERPRETED["test_loss_properties.py"] += " and (padding or 131072) and not dtype1"
    INTERPRETED["songs/test_songs.py"] += " and (not TestSamples or 2-4 or 3-2)"
    INTERPRETED["songs/test_song_kernels.py"] += (
        " and (37-float32 and share or 3-float64 or wrong or twice"
        " or steps and True and float64 and (anew or gamma))"
    )

# At each call of a function the interpreter looks through all of the language for what it replaces.
_PROGRAM = """
import pytest, sys, torch
from triton.runtime import interpreter
from lmtune.losses.evaluation import is_fused

replace, replaced = interpreter._patch_lang, set()

class Stays:
    def restore(self):
        pass

def replace_once(function):
    seen = id(function.__globals__)
    if seen not in replaced:
        replaced.add(seen)
        replace(function)
    return Stays()

interpreter._patch_lang = replace_once
assert is_fused(torch.zeros(1, 1))
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def interpreted() -> str:
    """Run some of the files' tests in Triton's interpreter, and return what that says."""
    if triton.__version__ < "3.7" and np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        pytest.skip("the interpreter of Triton before 3.7 fails with NumPy 2.4 and newer")
    chosen = " or ".join(f"{Path(file).stem} and ({tests})" for file, tests in INTERPRETED.items())
    options = ["-k", chosen, "-m", "slow or not slow", "-n", "0", "-q", "-rA", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *(str(HOME / file) for file in INTERPRETED), *options],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "count"),
    list(zip(INTERPRETED, (52, 90, 138, 136, 6) if EVERY else (26, 34, 108, 14, 6), strict=True)),
)
def test_interpreted_kernels(file: str, count: int, interpreted: str) -> None:
    ended = [line.split()[0] for line in interpreted.splitlines() if f"{file}::" in line]
    assert ended.count("PASSED") >= count, interpreted
    assert not {"FAILED", "ERROR"} & set(ended), interpreted


class _Started(NamedTuple):
    kernel: str
    current: Any


def _started(monkeypatch: pytest.MonkeyPatch) -> list[_Started]:
    """Have kernels and devices only noted."""
    from lmtune.losses import fused, fused_song, fused_sort
    from lmtune.losses.songs import fused_memory

    started: list[_Started] = []
    current: list[Any] = [None]

    class Kernel:
        def __init__(self, name: str) -> None:
            self.name = name

        def __getitem__(self, _programs: Any) -> Any:
            return lambda *_inputs, **_rest: started.append(_Started(self.name, current[-1]))

    @contextmanager
    def device(which: Any) -> Iterator[None]:
        current.append(which)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "device", device)
    for module in (fused, fused_song, fused_sort, fused_memory):
        for name in [name for name in vars(module) if name.endswith("_kernel")]:
            monkeypatch.setattr(module, name, Kernel(name))
    return started


def test_kernels_start_on_the_scores_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors are taken for those of a second GPU, which need not be here; where there is one, for its."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from lmtune.losses import fused, fused_song, fused_sort
    from lmtune.losses.songs import KSong, RelevantPairs, fused_memory

    device = torch.device("cuda", torch.cuda.device_count() - 1 if torch.cuda.is_available() else 1)
    started = _started(monkeypatch)
    pairs = RelevantPairs.from_rows([0, 1, 2, 3], [0, 0, 0, 0], [1, 1, 1, 1], lengths=9)
    known = KSong(pairs, cutoff=5)
    with FakeTensorMode():
        for module in known.modules():
            for name, kept in list(module.named_buffers(recurse=False)):
                setattr(module, name, torch.empty(kept.shape, dtype=kept.dtype, device=device))
        s = torch.ones(4, 9, device=device)
        lists = s, s, s > 0
        fused.pair_costs(*lists, sigma=1.0)
        fused.pair_costs(*lists, sigma=1.0, measure="ndcg", mu=10.0)
        fused.pair_costs(*lists, sigma=1.0, measure="arp", gains="linear")
        fused.approx_ndcg(*lists, alpha=1.0, k=None, alpha_k=1.0, gains="exponential")
        fused_sort.neural_ndcg(*lists, tau=1.0, sinkhorn=3, k=5, gains="linear")
        fused_memory.roots(s, s, torch.ones(4, 1, device=device), tau1=0.1, tau2=1e-4)
        fused_song.bound(*lists, margin=5.0, cutoff=None)
        fused_song.bound(*lists, margin=5.0, cutoff=0.1, scale=1.0, epsilon=0.5, tau2=1e-4)
        queries, items = (torch.zeros(shape, dtype=torch.int64, device=device) for shape in ((4,), (4, 9)))
        fused_memory.bound(*lists, module=known, queries=queries, items=items)
    assert [one.kernel.removesuffix("_kernel") for one in started] == [
        *["pair_costs", "sides", "pair_costs", "pair_costs", "sides", "approx"],
        *["sides", "sinkhorn", "sinkhorn_slopes", "neural_sort_slopes", "neural_ndcg"],
        *["root", "sides", "song", "sides", "threshold", "song"],
        *["look_up", "estimate", "threshold", "keep", "song"],
    ]
    assert {one.current for one in started} == {device}


class _NoCompiler:
    def __getitem__(self, _programs: Any) -> Any:
        raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.\nOr else.")


@pytest.mark.parametrize("why", ["no compiler", "no GPU"])
def test_without_a_use_for_triton_losses_are_computed_in_torch(
    why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from lmtune.losses import evaluation, fused, k_song, ranknet

    evaluation._triton_runs.cache_clear()
    scores, labels, mask = made(6, 37, tied=False)
    wanted = run(ranknet, scores, labels, mask, backend="torch")
    monkeypatch.setattr(evaluation, "_INTERPRETED", True)  # which it is not: Triton finds numbers of the CPU
    if why == "no compiler":
        monkeypatch.setattr(fused, "pair_costs_kernel", _NoCompiler())
    with caplog.at_level("INFO", "lmtune"):
        for _ in range(2):
            found = run(ranknet, scores, labels, mask, backend="torch")
            bound = k_song(scores, labels, mask=mask, cutoff=5)
    evaluation._triton_runs.cache_clear()
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])
    assert -1 < bound.item() < 0
    [note] = caplog.messages
    assert note.startswith("Triton cannot be used on cpu (")
    assert "\n" not in note
    if why == "no compiler":
        assert "(Failed to find C compiler. Please specify via CC environment variable.)" in note


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("kind", ["*fp32", "*fp64"])
def test_kernels_compile(capability: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make check` compiles each for one capability and type, in turn."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from lmtune.losses import fused, fused_song, fused_sort
    from lmtune.losses.songs import fused_memory

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    lists = {"scores": kind, "labels": "*i64", "mask": "*i1", "out": kind, "items": "i32"}
    planes = dict.fromkeys(("sides", "spreads", "steps", "slopes", "losses"), kind) | {"iterations": "i32"}
    planes |= dict.fromkeys(("threshold", "curvature", "estimates", "ideal"), "*fp32")
    planes |= {"thresholds": "*fp64", "compared": kind, "weights": kind, "targets": kind, "active": "fp32"}
    planes |= dict.fromkeys(("lookup", "fault", "numbers", "queries", "query_ids", "keys", "sizes"), "*i64")
    planes |= dict.fromkeys(("width", "known", "pairs", "none"), "i32") | {"stride": "i64"}
    places = {"k": 10, "gains": "exponential"}
    tracked = {"block": 64, "k": 0.1, "scale": 0.4, "epsilon": 0.5, "tau1": 0.5, "tau2": 1e-4}
    matrix = {"tau": 0.5, "gains": "linear", "block": 64, "rows": 32}
    cases: list[tuple[Any, dict[str, Any]]] = [
        *(
            (fused.sides_kernel, {"alpha": 2.0, "quantity": one, **places})
            for one in ("rank", "smooth", "pairs")
        ),
        *(
            (fused.pair_costs_kernel, {"sigma": 0.7, "measure": one, "mu": mu, "shared": mu > 0, **places})
            for one, mu in (("ndcg", 10.0), ("", 0.0), ("mrr", 0.0), ("precision", 0.0), ("arp", 0.0))
        ),
        (fused.approx_kernel, {"alpha": 2.0, "alpha_k": 0.1, **places}),
        *(
            (fused_memory.estimate_kernel, {"margin": 5.0, "gamma": gamma, "trained": trained})
            for gamma, trained in ((0.0, True), (0.5, False))
        ),
        (fused.sides_kernel, {"alpha": 5.0, "quantity": "hinge", "k": 0.1, "gains": "exponential"}),
        *(
            (fused_song.threshold_kernel, {"solve": solve, "step": step, "gamma": gamma, **tracked})
            for solve, step, gamma in (("", 0.0, 0.0), ("whole", 0.05, 0.9), ("unknown", 0.1, 0.0))
        ),
        *(
            (fused_song.song_kernel, bound | {"has_state": has_state})
            for bound in (
                {"margin": 5.0, "scale": 0.4, "tau1": 0.5, "theoretical": True},
                {"margin": 5.0, "scale": 0.0, "tau1": 1.0, "theoretical": False},
            )
            for has_state in (False, True)
        ),
        (fused_memory.look_up_kernel, {"halvings": 20, "block": 64}),
        *(
            (fused_memory.keep_kernel, {"block": 64, "trained": trained, "tracked": tracked})
            for trained, tracked in ((True, 0), (True, 2), (False, 1))
        ),
        (fused_memory.root_kernel, {"block": 128, "tau1": 0.1, "tau2": 1e-4}),
    ]
    turn, turns = (2 * (kind == "*fp64") + (capability == 90), 4) if not EVERY else (0, 1)
    cases = cases[turn::turns]
    if kind == "*fp64":  # NeuralNDCG's alone
        neural: list[tuple[Any, dict[str, Any]]] = [
            (fused.sides_kernel, {"alpha": 0.0, "quantity": "spread", **places}),
            (fused_sort.sinkhorn_kernel, matrix),
            (fused_sort.sinkhorn_slopes_kernel, {"k": 10, **matrix}),
            (fused_sort.neural_sort_slopes_kernel, matrix),
            (fused_sort.neural_ndcg_kernel, {"tau": 0.5}),
        ]
        cases += neural[turn % 2 :: min(turns, 2)]
    for kernel, flags in cases:
        signature = lists | planes | dict.fromkeys(flags, "constexpr")
        if kernel in (fused_memory.look_up_kernel, fused_memory.keep_kernel):
            signature["out"] = "*i64"
        ordered = {name: signature[name] for name in kernel.arg_names}
        made = triton.compile(ASTSource(kernel, ordered, flags), target=GPUTarget("cuda", capability, 32))
        assert f"sm_{capability}" in made.asm["ptx"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@every_loss
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 1e-12)])
@pytest.mark.parametrize("items", [1, 37, 600, 3000])
def test_a_gpu_agrees_with_the_cpu(
    loss: Any, dtype: str, tolerance: float, items: int, request: pytest.FixtureRequest
) -> None:
    scores, labels, mask = made(6, items, tied=True)
    scores = scores.to(getattr(torch, dtype))
    if getattr(loss, "keywords", {}).get("seed") is not None:
        labels = torch.rand(labels.shape)  # a GPU draws another order of equal labels
    if "neuralndcg" in request.node.callspec.id:
        # Its exponents are sums of as many products as items, each rounded.
        tolerance += 2 * float(np.finfo(dtype).eps) * items * float(scores.abs().max()) * (dtype == "float64")
    value, gradient = run(loss, scores, labels, mask, backend="kernels")
    given = scores.cuda().requires_grad_()
    found = loss(given, labels.cuda(), mask=mask.cuda(), reduce="none")
    (slope,) = torch.autograd.grad(found.sum(), given)
    np.testing.assert_allclose(found.detach().cpu().numpy(), value, rtol=tolerance, atol=tolerance / 100)
    largest = np.abs(gradient).max(axis=1, keepdims=True) + 1e-30
    assert (np.abs(slope.cpu().numpy() - gradient) / largest).max() < tolerance


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@every_loss
def test_a_step_is_captured_as_a_graph(loss: Any) -> None:
    """Replayed on other scores, it gives their loss and gradient; a loss that draws would draw the same."""
    if getattr(loss, "keywords", {}).get("seed") is not None:
        pytest.skip("a seed makes a generator anew, which no graph can hold")
    scores, labels, mask = (values.cuda() for values in made(6, 37, tied=True))
    given = scores.clone().requires_grad_()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):  # compiles, before anything is captured
        for _ in range(3):
            torch.autograd.grad(loss(given, labels, mask=mask), given)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = loss(given, labels, mask=mask)
        (slope,) = torch.autograd.grad(value, given)
    with torch.no_grad():
        given.copy_(scores.flip(0))
    graph.replay()
    wanted = scores.flip(0).requires_grad_()
    found = loss(wanted, labels, mask=mask)
    torch.testing.assert_close(value, found)
    torch.testing.assert_close(slope, torch.autograd.grad(found, wanted)[0])


def test_lists_too_long_to_compile_are_computed_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    from lmtune.losses import evaluation, listwise, neural_ndcg

    fused: list[int] = []

    def by_triton(scores: Any, *_: Any) -> Any:
        fused.append(scores.shape[1])
        return scores.sum()

    monkeypatch.setattr(listwise, "_LONGEST_FUSED", 8)
    monkeypatch.setattr(evaluation, "is_fused", lambda _: True)
    monkeypatch.setattr(evaluation, "by_triton", by_triton)
    for items in (8, 9):
        neural_ndcg(torch.zeros(1, items), torch.ones(1, items), backend="torch")
    assert fused == [8]
