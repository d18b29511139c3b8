"""The losses' kernels for a GPU: in Triton's interpreter, compiled without a GPU, and on one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
pytest.importorskip("triton", reason="Triton is not installed")

from test_loss_kernels import every_loss, made, run  # noqa: E402

_INTERPRETED = """
import pytest, sys, torch
from lmtune.reranking.losses.pair_sums import is_fused
assert is_fused(torch.zeros(1, 1))
sys.exit(pytest.main(sys.argv[1:]))
"""


def _interpreted(file: Path, chosen: str) -> subprocess.CompletedProcess[str]:
    """Run some of a file's tests in Triton's interpreter."""
    return subprocess.run(
        [sys.executable, "-c", _INTERPRETED, file, "-k", chosen, "-n", "0", "-q", "-p", "no:cacheprovider"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_interpreted_kernels_equal_those_of_the_cpu() -> None:
    """What the CPU's kernels are held against is then no plain PyTorch but Triton's kernels."""
    pairs = "agree_with_torch and 37 and (ranknet or lambdarank or ndcgloss or approxndcg)"
    file = Path(__file__).with_name("test_loss_kernels.py")
    done = _interpreted(file, pairs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "32 passed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("kind", ["*fp32", "*fp64"])
def test_kernels_compile_without_a_gpu(
    capability: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from lmtune.reranking.losses import fused
    from lmtune.reranking.song import fused_thresholds

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    lists = {"scores": kind, "real": "*i32", "out": kind, "items": "i32"}
    swaps = {"runs": "*i32", "swaps": kind, "tightness": kind}
    weighed = {"weights": kind, "numbers": kind, "unknown": "*i1"}
    cases: list[tuple[Any, dict[str, str], dict[str, float]]] = [
        (fused.pair_costs_kernel, swaps, {"weighted": True, "tight": True}),
        (fused.ranks_kernel, {"slopes": kind}, {"gradient": True}),
        (
            fused_thresholds.threshold_kernel,
            weighed,
            {"block": 128, "most_steps": 80, "rounding": 1e-15, "near": 1e-14},
        ),
    ]
    for kernel, types, flags in cases:
        signature = lists | types | dict.fromkeys(flags, "constexpr")
        ordered = {name: signature[name] for name in kernel.arg_names}
        made = triton.compile(ASTSource(kernel, ordered, flags), target=GPUTarget("cuda", capability, 32))
        assert f"sm_{capability}" in made.asm["ptx"]


def test_interpreted_thresholds_equal_those_of_the_cpu() -> None:
    done = _interpreted(Path(__file__).parents[1] / "song" / "test_thresholds.py", "roots")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@every_loss
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 1e-12)])
@pytest.mark.parametrize("items", [1, 37, 600, 3000])
def test_a_gpu_agrees_with_the_cpu(loss: Any, dtype: str, tolerance: float, items: int) -> None:
    scores, labels, mask = made(6, items, tied=True)
    scores = scores.to(getattr(torch, dtype))
    value, gradient = run(loss, scores, labels, mask, backend="kernels")
    given = scores.cuda().requires_grad_()
    found = loss(given, labels.cuda(), mask=mask.cuda(), reduce="none")
    (slope,) = torch.autograd.grad(found.sum(), given)
    np.testing.assert_allclose(found.detach().cpu().numpy(), value, rtol=tolerance, atol=tolerance / 100)
    largest = np.abs(gradient).max(axis=1, keepdims=True) + 1e-30
    assert (np.abs(slope.cpu().numpy() - gradient) / largest).max() < tolerance
