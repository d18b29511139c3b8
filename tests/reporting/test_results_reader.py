"""A results folder, written and read back, and the ways in which one can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reported import made_results, write_made

from lmtune.errors import InputError
from lmtune.reporting.results_reader import read_results
from lmtune.reporting.table import STYLES
from lmtune.reporting.tuning_tables import tuning_table
from lmtune.storage.digests import sealed


def test_what_was_written_is_read_back_to_the_last_bit(tmp_path: Path) -> None:
    results = made_results(
        names=("plain", 'a,"b" <c>'),
        topics=["1", "2", "</script><img src=x onerror=alert(1)>", 'q,"3"', "4\n5", "6\r7"],
        measures=("AP", "nDCG(dcg='exp-log2')@10", "P(rel=2,judged_only=True)@5"),
        bound=0.75,
    )
    stored = read_results(write_made(tmp_path / "kept", results))
    for style in STYLES:
        assert tuning_table(stored.results, style) == tuning_table(results, style)
    for got, expected in zip(stored.results, results, strict=True):
        assert (got.name, got.folds, got.notes) == (expected.name, expected.folds, expected.notes)
        assert got.traces.keys() == expected.traces.keys()
        for name, trace in expected.traces.items():
            pd.testing.assert_frame_equal(got.traces[name], trace, check_exact=True)
        for row, wanted in zip(got.rows, expected.rows, strict=True):
            for name in ("measure", "method", "topics", "fits", "p_values", "final", "cautions"):
                assert getattr(row, name) == getattr(wanted, name)
            np.testing.assert_array_equal(row.values, wanted.values)
    assert stored.record["command"] == "lmtune tune plain"


def test_folders_without_bounds_and_traces_are_read(tmp_path: Path) -> None:
    folder = write_made(tmp_path / "kept", made_results())
    lines = (folder / "parameters.csv").read_text().splitlines()
    (folder / "parameters.csv").write_text("".join(f"{line.rpartition(',')[0]}\n" for line in lines))
    for path in (folder / "traces").rglob("*.csv"):
        path.unlink()
    made = json.loads((folder / "made.json").read_text())
    del made["crc32"]
    (folder / "made.json").write_text(json.dumps(sealed({**made, "files": {}})))
    (folder / "surfaces").mkdir()
    (folder / "final.csv").unlink()
    (result,) = read_results(folder).results
    assert {row.final for row in result.rows} == {None}
    assert result.traces == {}
    assert {fit.bound for row in result.rows for fit in row.fits} == {None}


def _replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _write(name: str, content: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return change


def _cut(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_remove("made.json"), "not a results folder: made.json is missing; accepted: a folder"),
        (_remove("topics.csv"), "not a results folder: topics.csv is missing"),
        (_write("made.json", b"[]"), "made.json: not an object"),
        (_write("made.json", b'{"command": 1}'), "made.json: bad or missing command: 1"),
        (_cut("made.json"), r"made.json:\d+: not JSON"),
        (_write("made.json", b"\xff"), "made.json: not JSON"),
        (_write("folds.json", b"{}"), "folds.json: no collection"),
        (_replace("folds.json", '"train"', '"trains"'), "folds.json: bad folds of plain"),
        (_replace("folds.json", '"plain"', '"other"'), "other collections than topics.csv"),
        (_write("topics.csv", b""), "topics.csv:1: a column is missing: 'collection'"),
        (_replace("topics.csv", "value", "values"), "topics.csv:1: a column is missing: 'value'"),
        (_replace("topics.csv", "plain,AP,Direct,1,", "plain,AP,Direct,1,x"), "csv:2: not a"),
        (_replace("topics.csv", "plain,AP,Direct,1,0", "plain,AP,Direct,1,nan,0"), "6 columns"),
        (_replace("topics.csv", "Direct,1,", "Direct,2,"), "topics.csv:3: a topic twice: '2'"),
        (_replace("topics.csv", "Direct,1,", "Direct,9,"), "other topics than folds.json"),
        (_replace("topics.csv", "AP", "AQ"), "topics.csv:2: unknown measure: 'AQ'"),
        (_replace("topics.csv", "Direct,1,0", 'Direct,"1,0'), "topics.csv:.*not CSV"),
        (_write("topics.csv", b"\xff\n"), "topics.csv:1: invalid UTF-8"),
        (_cut("topics.csv"), "topics.csv"),
        (_cut("parameters.csv"), "parameters.csv"),
        (_replace("parameters.csv", "Direct,2,", "Direct,3,"), "a fold out of order: '3'; acc"),
        (
            _replace("parameters.csv", ",522,", ",many,"),
            "parameters.csv:2: not a count in column evaluations: 'many'",
        ),
        (_replace("table.json", '"mean": 0', '"mean": 1'), "not the mean in topics.csv"),
        (_replace("table.json", '"mean"', '"median"'), "table.json: not a row of the table"),
        (_replace("table.json", '"RankNet"', '"Net"'), "table.json: other rows than topics.csv"),
        (_write("table.json", b"7"), "table.json: not a row"),
        (_write("traces/plain/ranknet-fold1.csv", b"a,b\n1,2\n1\n"), "fold1.csv:3: 1 columns: '1'"),
        (
            _write("traces/plain/ranknet-fold1.csv", b"iteration,cost\n0,1\n1,low\n"),
            "ranknet-fold1.csv:3: not a number in column cost: 'low'",
        ),
    ],
)
def test_each_defect_has_its_line(tmp_path: Path, change: Callable[[Path], None], message: str) -> None:
    folder = write_made(tmp_path / "kept", made_results())
    read_results(folder)
    change(folder)
    with pytest.raises(InputError, match=message) as caught:
        read_results(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder; accepted: a folder that lmtune tune"):
        read_results(tmp_path / "none")
    (tmp_path / "file").write_text(json.dumps({}))
    with pytest.raises(InputError, match="not a folder"):
        read_results(tmp_path / "file")
