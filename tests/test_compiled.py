"""Kernels are compiled afresh when any kernel's source has changed, and where nothing is cached."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lmtune


@pytest.mark.slow
def test_a_change_in_a_called_kernel_is_seen(tmp_path: Path) -> None:
    shutil.copytree(Path(lmtune.__file__).parent, tmp_path / "lmtune")
    code = (
        "import numpy as np; from lmtune.models.kernels import topic_rank_scores as f; "
        "print(f(np.array([[3]], np.int32), np.array([6], np.int32), np.array([0.5]), "
        "np.array([1]), 6, 0.0, 6.0)[0])"
    )

    def run() -> float:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    assert run() == 1.0
    source = tmp_path / "lmtune" / "models" / "kernels.py"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("scale = 1.0 / p[w]", "scale = 2.0 / p[w]"), encoding="utf-8")
    assert run() == 1.5


@pytest.mark.slow
def test_kernels_work_where_nothing_can_be_cached(tmp_path: Path) -> None:
    shutil.copytree(Path(lmtune.__file__).parent, tmp_path / "lmtune")
    code = (
        "import numba.core.caching as c; c.CacheImpl._locator_classes = []; "
        "import lmtune; print(lmtune.score([[1]], [2], [0.5], lambda_=0.0, mu=2.0)[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert float(done.stdout) == pytest.approx(-0.6931471805599453)
