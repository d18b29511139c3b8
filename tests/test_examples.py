"""What ``examples/`` and ``docs/`` show runs, and does what it says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.usefixtures("one_thread")
def test_a_network_learns_by_lambdarank(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "train_with_lambdarank.py"))
    shown = [float(value) for value in re.findall(r"nDCG@10 (.*)", capsys.readouterr().out)]
    assert len(shown) == 20
    assert shown[0] < 0.8 < 0.93 < shown[-1]


@pytest.mark.parametrize("page", DOCS, ids=[page.name for page in DOCS])
@pytest.mark.usefixtures("one_thread")
def test_the_pages_run(page: Path) -> None:
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        exec(block, scope)
    if page.name == "losses.md":
        loss, same, bound = (float(str(scope[name].item())) for name in ("loss", "same", "bound"))  # type: ignore[attr-defined]
        assert same == pytest.approx(loss, rel=1e-6)
        assert -1 <= bound <= 0
