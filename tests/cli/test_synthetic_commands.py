"""Commands on a synthetic collection, which has neither files nor text."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lmtune.cli.main import app


def command(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.slow
def test_index_search_and_tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("index", "synthetic:2000x8", "--output", "kept").exit_code == 0
    for name, options in {"own": [], "named": ["--index", "kept"]}.items():
        result = command("search", "synthetic:2000x8", *options, "--output", f"{name}.run")
        assert result.exit_code == 0, result.output
    run = (tmp_path / "own.run").read_bytes()
    assert run == (tmp_path / "named.run").read_bytes()
    assert len({line.split()[0] for line in run.splitlines()}) == 8
    [path] = (tmp_path / "indexes").iterdir()
    assert path.name.startswith("synthetic_2000x8.porter.lucene.")
    result = command("tune", "synthetic:2000x8", "--grid", "3x3", "--output", "results", "--verbose")
    assert result.exit_code == 0, result.output
    assert "2,000 documents, 8 topics" in result.output
    assert "outside the collection" not in result.output
    assert '"synthetic": "1"' in (tmp_path / "results" / "made.json").read_text()


def test_another_collections_index_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("index", "synthetic:1000x2", "--output", "kept").exit_code == 0
    result = command("search", "synthetic:1000x3", "--index", "kept")
    assert result.exit_code == 2
