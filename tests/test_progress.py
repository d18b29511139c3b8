"""What long work tells."""

from __future__ import annotations

import re

import pytest

from lmtune.progress import note, silent, timed


def test_notes_and_times_go_to_the_package_s_logger(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lmtune")
    note("100% done")
    with timed("sorted"):
        silent("sorting", 1, 2)
    assert [record.name for record in caplog.records] == ["lmtune", "lmtune"]
    first, second = caplog.messages
    assert first == "100% done"
    assert re.fullmatch(r"sorted in \d+\.\d s", second)


def test_what_fails_is_not_timed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lmtune")
    with pytest.raises(ValueError, match="wrong"), timed("sorted"):
        raise ValueError("wrong")
    assert caplog.messages == []
