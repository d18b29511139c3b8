"""``lmtune judges`` end to end."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from scripts import refusal, run_command

judged = partial(run_command, "judges")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    gains = {"qrels": "0123012301", "close": "0122012301", "far": "3210001200"}
    for name, row in gains.items():
        lines = [f"{t} 0 d{i} {gain}\n" for t in (1, 2) for i, gain in enumerate(row[t:])]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    (tmp_path / "runs").mkdir()
    for name, order in (("up", range(8)), ("down", range(7, -1, -1)), ("mixed", (3, 1, 2, 0, 5, 4, 7, 6))):
        lines = [f"{t} Q0 d{i} 1 {-rank} {name}\n" for t in (1, 2) for rank, i in enumerate(order)]
        (tmp_path / "runs" / f"{name}.run").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_table_opens_with_the_answer() -> None:
    out = judged("qrels.txt far.txt close.txt --confusions").out
    assert out.startswith("2 judges compared with the judgments\n\n  Best judge   close\n  Alpha        0.9")
    assert [line.split()[0] for line in out.splitlines()[6:8]] == ["close", "far"]
    assert "close: judged  pairs " in out
    out = judged("qrels.txt close.txt --runs runs -m P@3 --format json").out
    (record,) = json.loads(out)
    assert set(record["favours"]) == {"up", "down", "mixed"}
    assert record["tau"] == 1.0
    assert sum(map(sum, record["confusion"])) == record["pairs"] == 17
    for counts, row in zip(record["confusion"], record["errors"], strict=True):
        assert row == pytest.approx([n / sum(counts) for n in counts])
    out = judged("qrels.txt close.txt --runs runs -m P@3 --family *d*").out
    assert ["close", "*d*", "2"] in [line.split()[:3] for line in out.splitlines()]
    assert out.splitlines()[-1].startswith("CIs over topics")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("qrels.txt", "close.txt", "close.txt"), "given twice"),
        (("qrels.txt", "close.txt", "--runs", "runs/up.run"), "two runs or more"),
        (("qrels.txt", "absent.txt"), "absent.txt"),
        (("qrels.txt", "close.txt", "--runs", "runs", "--family", "bm25*"), "no run: 'bm25*'; accepted"),
        (("qrels.txt", "close.txt", "--runs", "runs", "-m", "Magic"), "'Magic'"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], part: str) -> None:
    assert part in refusal("judges", *arguments)
