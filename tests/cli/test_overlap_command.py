"""``lmtune compare --overlap``: rankings compared without judgments, documents side by side."""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path

import pytest
from scripts import refusal, run_command

from lmtune.measures.overlap import rank_biased_overlap

RANKED = {
    "base": {"1": "abcd", "2": "abcd", "3": "wxyz"},
    "new": {"1": "abcd", "2": "bacd", "3": "abcd"},
    "other": {"1": "abcd", "2": "abcd"},
}


overlap = partial(run_command, "compare --overlap")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, topics in RANKED.items():
        rows = (
            f"{t} Q0 {d} {rank} {9 - rank} tag\n"
            for t, docnos in topics.items()
            for rank, d in enumerate(docnos, 1)
        )
        (tmp_path / f"{name}.run").write_text("".join(rows))
    (tmp_path / "qrels.txt").write_text("".join(f"{t} 0 a 1\n" for t in (1, 2, 3)))
    documents = (json.dumps({"id": d, "contents": f"text of {d} " * 9}) for d in "abcdwxyz")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/docs.jsonl").write_text("\n".join(documents))
    (tmp_path / "mine/topics.tsv").write_text("1\tfirst\n2\tsecond\n3\tthird query\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_tables() -> None:
    out, err = overlap("base.run new.run OLD=other.run")
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "2 runs compared with base, 3 topics, without judgments"
    assert lines[2:4] == ["  Least similar   new, mean RBO 0.6333", "  Moved most      topic 3, RBO 0.0000"]
    rows = [line.split() for line in lines[5:8]]
    assert rows[0] == ["System", "RBO", "Jaccard@10", "tau", "identical"]
    # tau of topic 2: one of six pairs in opposite order; of topic 3: 16 opposite pairs and 12 ties of 28.
    tau = (1.0 + (1 - 2 / 6) + (1 - 2 * 22 / 28)) / 3
    assert rows[1] == ["new", "0.6333", "0.6667", f"{tau:.4f}", "1/3"]
    assert rows[2] == ["OLD", "0.6667", "0.6667", "0.6667", "2/3"]
    assert [line.split()[:2] for line in lines[13:19]] == [
        [run, topic] for run, topics in (("new", "321"), ("OLD", "312")) for topic in topics
    ]


def test_records_and_options() -> None:
    out = overlap("base.run new.run --topics 2 --persistence 0.5 --cutoff 1 --format json").out
    [record] = json.loads(out)
    expected = rank_biased_overlap(
        dict(zip("abcd", range(1, 5), strict=True)), {"b": 1, "a": 2, "c": 3, "d": 4}, 0.5
    )
    assert (record["topic"], record["jaccard"], record["rbo"]) == ("2", 0.0, pytest.approx(expected))
    assert (record["against"], record["ranking"]) == (list("abcd"), list("bacd"))
    out = overlap("base.run new.run --format csv").out
    assert [row["topic"] for row in csv.DictReader(io.StringIO(out))] == ["3", "2", "1"]


def test_side_by_side() -> None:
    out = overlap("base.run new.run --side-by-side 2 --cutoff 3 --format markdown").out
    first, second = out.split("| Rank | base | other rank | new | other rank |\n")[1:]
    assert first.splitlines()[1:4] == [
        f"| {n} | {b} | – | {d} | – |" for n, (b, d) in enumerate(zip("wxy", "abc", strict=True), 1)
    ]
    assert second.splitlines()[1:4] == [
        "| 1 | a | 2 | b | 2 |",
        "| 2 | b | 1 | a | 1 |",
        "| 3 | c | 3 | c | 3 |",
    ]
    assert "topic 3." in first and "topic 2." in second


def test_texts_of_a_collection() -> None:
    out = overlap("base.run new.run --collection mine").out
    lines = out.splitlines()
    assert lines[-1] == "topic 3: third query"
    row = next(line for line in lines if line.startswith("1     w"))
    assert "w     –           text of w text" in row and "a    –           text of a text" in row
    assert row.count(" ...") == 2


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("qrels.txt", "base.run", "new.run"), "without QRELS"),
        (("base.run", "qrels.txt"), "these are judgments, not a run; accepted: lmtune compare --overlap"),
        (("base.run", "base.run"), "nothing to compare with the baseline"),
        (("base.run", "new.run", "-m", "AP"), "an option conflicts with --overlap; accepted: --topics"),
        (("base.run", "new.run", "--correction", "bh"), "an option conflicts with --overlap"),
        (("base.run", "new.run", "--require", "AP >= 0"), "an option conflicts with --overlap"),
        (("base.run", "new.run", "--format", "github"), "an option conflicts with --overlap"),
        (("base.run", "new.run", "--persistence", "1"), "--persistence"),
        (("base.run", "new.run", "--topics", "7"), "no such topic: '7'"),
    ],
)
def test_refusals_are_one_line(arguments: tuple[str, ...], part: str) -> None:
    assert part in refusal("compare --overlap", arguments)


@pytest.mark.parametrize(
    "option", ["--cutoff=5", "--persistence=0.8", "--side-by-side=1", "--collection=mine"]
)
def test_its_options_need_it(option: str) -> None:
    assert "an option of --overlap without it; accepted: lmtune compare --overlap BASELINE" in refusal(
        "compare qrels.txt base.run new.run", option
    )
