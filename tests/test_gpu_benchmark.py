"""The benchmark of a GPU, tried on the CPU: where a GPU appears, it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.losses import LOSSES

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "gpu.py"


@pytest.mark.slow
def test_every_section_has_its_figures(tmp_path: Path) -> None:
    output = tmp_path / "gpu.md"
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--device", "cpu", "--quick", "--output", output],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = output.read_text(encoding="utf-8")
    for title in ("Agreement", "Steps of losses", "Training on 60", "SONG's step", "Training on text"):
        assert f"## {title}" in text
    assert text.count("| agrees |") == 2 * (len(LOSSES) + 2)
    rows = {line.split(" | ")[1]: line for line in text.splitlines() if line.startswith("| 8 x 30")}
    assert len(rows) == len(LOSSES) + 1
    assert all(float(row.split(" | ")[2]) > 0 for row in rows.values())
    assert float(rows["lambdarank"].split(" | ")[5]) > 0  # plain PyTorch


@pytest.mark.slow
def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--device", "cuda:99", "--output", tmp_path / "gpu.md"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "no such device: 'cuda:99'" in done.stderr
    assert not list(tmp_path.iterdir())
