"""What long work tells."""

from __future__ import annotations

import re

import pytest

from lmtune.progress import count_callback, note, silent, stage_callback, timed


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


def test_true_draws_bars(capsys: pytest.CaptureFixture[str]) -> None:
    report = count_callback(True, "reading")
    assert report is not None
    for done in (1, 2, 3):
        report(done, 3)
    assert re.search(r"reading: 100%.*3/3", capsys.readouterr().err)
    stages = stage_callback(True)
    stages("one", 0, 0, "begun")
    stages("two", 1, 2)
    stages("one", 5, 10, "under way")
    shown = capsys.readouterr().err
    assert "one" in shown
    assert "two" in shown


def test_false_and_functions_stay_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    def own(done: int, total: int) -> None:
        """Show nothing."""

    assert count_callback(own, "x") is own
    assert count_callback(False, "x") is count_callback(None, "x") is None
    assert stage_callback(False) is stage_callback(silent) is silent
    assert capsys.readouterr().err == ""
