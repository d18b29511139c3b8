from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lmtune.cli.main import app


def run(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Result:
    monkeypatch.chdir(folder)
    return CliRunner().invoke(app, ["datasets"])


def test_it_lists_what_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for role, name in (("topics", "[robust04]"), ("topics", "wt10g"), ("qrels", "wt10g")):
        (tmp_path / role).mkdir(exist_ok=True)
        (tmp_path / role / f"{role}.{name}.txt").write_text("")
    result = run(monkeypatch, tmp_path)
    assert result.exit_code == 0
    for name in ("pydocs", "FOLDER", "irds:ID", "--documents PATH"):
        assert name in result.output
    assert "--topics names in this folder: [robust04], wt10g" in result.output
    assert "--qrels names in this folder: wt10g" in result.output
    assert "\x1b" not in result.output


def test_it_says_how_a_file_gets_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = run(monkeypatch, tmp_path)
    assert "--qrels names in this folder: none; qrels/qrels.NAME.txt gives a name" in result.output
