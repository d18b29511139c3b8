"""A results folder, written and read back, and the ways in which one can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reported import made_results, write_made

from lmtune.errors import InputError
from lmtune.io.digests import sealed
from lmtune.io.result_folders import StoredFolder, file_name
from lmtune.report.table import STYLES
from lmtune.report.tuning_tables import tuning_table
from lmtune.tuning.experiment import stored
from lmtune.tuning.experiment.result import NearOptimal, Row
from lmtune.tuning.experiment.stored import read_results


def test_what_was_written_is_read_back_to_the_last_bit(tmp_path: Path) -> None:
    results = made_results(
        names=("plain", 'a,"b" <c>'),
        topics=["1", "2", "</script><img src=x onerror=alert(1)>", 'q,"3"', "4\n5", "6\r7"],
        measures=("AP", "nDCG(dcg='exp-log2')@10", "P(rel=2,judged_only=True)@5"),
        bound=0.75,
    )
    grid = np.array([(0.25, 1 / 3), (0.25, 7.0), (0.5, 1 / 3), (0.5, 7.0)])
    near = NearOptimal(("lambda", "mu"), grid, np.array([0.02, 0.1 / 3, 0.005, 0.0]))
    results[1] = replace(results[1], near=near)
    kept = read_results(write_made(tmp_path / "kept", results))
    [none, read] = [got.near for got in kept.results]
    assert none is None and read is not None and (read.names, read.margin) == (near.names, near.margin)
    np.testing.assert_array_equal(read.settings, grid)
    np.testing.assert_array_equal(read.bounds, near.bounds)
    for style in STYLES:
        assert tuning_table(kept.results, style) == tuning_table(results, style)
    for got, expected in zip(kept.results, results, strict=True):
        assert (got.name, got.folds, got.notes) == (expected.name, expected.folds, expected.notes)
        assert {*got.traces} == {*map(file_name, expected.traces)}
        for name, trace in expected.traces.items():
            np.testing.assert_equal(got.traces[file_name(name)], trace)
        for row, wanted in zip(got.rows, expected.rows, strict=True):
            for name in ("measure", "method", "topics", "fits", "final", "cautions"):
                assert getattr(row, name) == getattr(wanted, name)
            np.testing.assert_array_equal(row.values, wanted.values)
    assert kept.record["command"] == "lmtune tune plain"


def test_traces_and_runs_may_be_missing(tmp_path: Path) -> None:
    folder = write_made(tmp_path / "kept", made_results())
    for path in (folder / "traces").rglob("*.csv"):
        path.unlink()
    (result,) = read_results(folder).results
    assert result.traces == {}


def test_a_folder_replaced_during_reading_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_made(tmp_path / "kept", made_results())
    read_rows = stored._rows

    def rows_of_another(kept: StoredFolder) -> dict[str, list[Row]]:
        write_made(folder, made_results(seed=1))
        return read_rows(kept)

    monkeypatch.setattr(stored, "_rows", rows_of_another)
    with pytest.raises(InputError, match=r"\.csv: damaged: the checksum differs"):
        read_results(folder)


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


def _record(**changes: object) -> Callable[[Path], None]:
    """Write other values into the record, as lmtune would write them."""

    def change(folder: Path) -> None:
        made = json.loads((folder / "made.json").read_text())
        made.pop("crc32")
        (folder / "made.json").write_text(json.dumps(sealed({**made, **changes})))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_remove("made.json"), "not a results folder: made.json is missing; accepted: a folder"),
        *(
            (_remove(name), f"not a results folder: {name} is missing")
            for name in ("topics.csv", "parameters.csv", "final.csv", "folds.json", "table.json")
        ),
        (_write("made.json", b"[]"), "made.json: damaged: no checksum; accepted: a folder that lmtune tune"),
        (_replace("made.json", "lmtune tune", "lmtune tuna"), "made.json: damaged: the checksum differs"),
        (_cut("made.json"), "made.json: damaged"),
        (_write("made.json", b"\xff"), "made.json: damaged"),
        (_record(command=1), "made.json: damaged: bad or missing command: 1"),
        (_record(collections=[1]), r"made.json: damaged: bad or missing collections: \[1\]"),
        (_record(notes={"plain": "one"}), "made.json: damaged: bad or missing notes: {'plain': 'one'}"),
        (_record(files={"topics.csv": "x"}), "made.json: damaged: bad or missing files"),
        (_record(files={}), "made.json: damaged: folds.json is not listed"),
        *(
            (_cut(name), f"{name}: damaged: the checksum differs")
            for name in ("topics.csv", "parameters.csv")
        ),
        (_write("folds.json", b"{}"), "folds.json: damaged: the checksum differs; accepted: the file as"),
        (_replace("topics.csv", "plain,AP,Direct,1,0", "plain,AP,Direct,1,1"), "topics.csv: damaged"),
        (_replace("parameters.csv", ",522,", ",523,"), "parameters.csv: damaged"),
        (_replace("final.csv", ",522,", ",523,"), "final.csv: damaged"),
        (_write("near.csv", b"collection,mu,bound\nplain,1.0,0.1\n"), "near.csv: damaged"),
        (_replace("table.json", '"mean": 0', '"mean": 1'), "table.json: damaged"),
        (_write("traces/plain/ranknet-fold1.csv", b"a,b\n1,2\n1\n"), "ranknet-fold1.csv: damaged"),
    ],
)
def test_changed_files_are_named(tmp_path: Path, change: Callable[[Path], None], message: str) -> None:
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
