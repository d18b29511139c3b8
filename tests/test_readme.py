"""The README's promises: its Python example runs, its commands exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lmtune.cli.main import app
from lmtune.laboratory import collections

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FINDINGS = (ROOT / "FINDINGS.md").read_text(encoding="utf-8")


@pytest.fixture
def few_topics(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Show the laboratory the first 150 topics of a collection alone."""
    usable = collections._usable
    monkeypatch.setattr(collections, "_usable", lambda *given: usable(*given)[:150])
    collections.load_pool.cache_clear()
    yield
    collections.load_pool.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("few_topics")
def test_the_python_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", README, re.S):
        exec(block, scope)
    tuner = scope["tuner"]
    chosen = tuner.best_params_  # type: ignore[attr-defined]
    assert 0 < chosen["lambda"] < 1
    assert chosen["mu"] > 0
    assert scope["found"].conclusions  # type: ignore[attr-defined]


def test_the_commands_and_options_it_names_exist() -> None:
    groups = "rerank [a-z]+|paper [a-z]+|lab [a-z-]+"
    commands = f"tune|index|search|fuse|explore|datasets|evaluate|compare|report|plot|{groups}"
    shown = re.findall(rf"lmtune ({commands})([^\n`#]*)", README + FINDINGS)
    assert len(shown) >= 30
    for command, rest in shown:
        result = CliRunner().invoke(app, [*command.split(), "--help"])
        assert result.exit_code == 0
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in result.stdout, (command, option)


def test_its_targets_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make (\w+)", README):
        assert f"\n{target}:" in makefile
