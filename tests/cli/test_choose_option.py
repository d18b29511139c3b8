"""``lmtune tune --choose``: what it prints, keeps and refuses."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from made_choices import write_collection
from scripts import refusal, run_command
from support import read_answer

QUICK = "--folds 3 -m AP --grid 16 --restarts 0 --ranknet-starts 1"
CHOOSE = f"tune c {QUICK} --choose stemmer=none,porter --choose model=bm25,two-stage"


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_collection(tmp_path / "c")
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_the_answer_comes_first_and_its_command_searches() -> None:
    out, said = run_command(f"{CHOOSE} --certify 0.01 --output kept")
    assert "results written to kept in " in said
    title, answer = read_answer(out)
    assert title.startswith("c: 4 combinations, ") and title.endswith(", 3-fold cross-validation")
    assert answer["Recommended"].startswith("stemmer = porter, model = ")
    assert "in all 3 folds" in answer["Chosen"] or "in 3 folds" in answer["Chosen"]
    assert "in hindsight" in answer["Selection"] and "exceeds" in answer["Bound"]
    assert "interactions" in out
    assert re.search(r"^Judged@10: 0\.\d{4} \(recommended\), 0\.\d{4} \(default\)$", out, re.M)
    [command] = [line for line in out.splitlines() if line.startswith("  lmtune search ")]
    assert command.endswith("--from kept")
    run_command(f"{command.split('lmtune ', 1)[1]} --output own.run")
    assert Path("own.run").read_text().split()[0] == "1"


@pytest.mark.slow
def test_the_folder_keeps_what_the_table_shows() -> None:
    out = run_command(f"{CHOOSE} --output kept --format json").out
    assert json.loads(Path("kept/table.json").read_text()) == json.loads(out)
    cases = [record for record in json.loads(out) if record["stemmer"] != "chosen"]
    assert len(cases) == 4 * 4  # cases, methods
    chosen = {r["method"]: r for r in json.loads(out) if r["stemmer"] == "chosen"}
    by_method: dict[str, list[float]] = {}
    with Path("kept/topics.csv").open() as file:
        for row in csv.DictReader(file):
            if row["case"] == "chosen":
                by_method.setdefault(row["method"], []).append(float(row["value"]))
    for method, values in by_method.items():
        assert chosen[method]["held_out"] == pytest.approx(sum(values) / len(values), rel=1e-12)
    picked = [r for r in json.loads(Path("kept/choices.json").read_text()) if r["method"] == "Direct"]
    assert [r["fold"] for r in picked] == ["1", "2", "3", "all"]
    notes = json.loads(Path("kept/chosen/made.json").read_text())["notes"]["c"]
    assert any("the means here are too high" in note for note in notes)
    run_command(f"{CHOOSE} --output kept")  # ours to replace
    Path("kept/mine.txt").write_text("mine")
    assert "will not replace" in run_command(f"{CHOOSE} --output kept", status=2).err


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("more", "why"), [("", "dropped by successive halving"), ("--certify 0.01", "its bound excludes it")]
)
def test_a_race_says_what_is_not_tuned_and_why(more: str, why: str) -> None:
    out = run_command(f"{CHOOSE} --race {more} --output kept").out
    assert " tuned); best combination in hindsight" in out
    assert why in out
    assert "interactions" not in out  # an analysis of variance takes all
    records = json.loads(Path("kept/table.json").read_text())
    untuned = [r for r in records if r["stemmer"] != "chosen" and r["held_out"] is None]
    assert {r["method"] for r in untuned} == {"Direct", "RankNet", "Approx"}
    assert all((r["bound"] is not None) == bool(more) for r in untuned)
    with Path("kept/topics.csv").open() as file:
        cases = {(row["case"], row["method"]) for row in csv.DictReader(file)}
    assert not {(f"stemmer = {r['stemmer']}, model = {r['model']}", r["method"]) for r in untuned} & cases


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--choose stemmer=porter,snow", "unknown stemmer"),
        ("--choose stemmer", "bad choice of stemmer"),
        ("--choose stem=none,porter", "no such choice"),
        ("--choose stemmer=none,porter --stemmer porter", "is given twice"),
        ("--choose model=bm25,sdm --model bm25", "is given twice"),
        ("--choose model=bm25,two-stage --range k1=0.1,2", "two-stage has no such parameter"),
        ("--choose model=bm25,two-stage --certify 0.01 -m RBP", "RBP"),
        ("--choose stemmer=none,porter --inner-folds 1", "inner-folds"),
        ("--choose stemmer=none,porter --inner-folds 2 --race", "--race with --inner-folds"),
        ("--choose stemmer=none,porter --choose stopwords=none,missing.txt", "missing.txt"),
    ],
)
def test_what_it_cannot_do_is_one_line_and_nothing_is_written(line: str, said: str) -> None:
    assert said in refusal(f"tune c {line} --output kept")
    assert not Path("kept").exists()
    assert not Path("indexes").exists()
