"""What is recorded of how a result was made."""

from __future__ import annotations

import pytest

from lmtune.collections.provenance import command_line, installed, library_versions


@pytest.mark.parametrize("given", [["--output", "x", "--workers", "2"], ["--output=x", "--cluster", "y"]])
def test_recorded_commands_lack_idle_options(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["lmtune", "tune", "c", *given, "--quick", "--seed", "1"])
    assert command_line() == "lmtune tune c --quick --seed 1"


def test_optional_libraries_count_where_they_are() -> None:
    assert installed("numpy", "no-such-library") == {"numpy": library_versions()["numpy"]}
