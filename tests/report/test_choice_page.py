"""`lmtune report` of a folder of choices: what was printed and kept is what the page shows."""

from __future__ import annotations

import csv
import html
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_choices import write_collection
from scripts import refusal, run_command

TUNE = "tune c --folds 3 -m AP -m P@5 --grid 4x4 --restarts 0 --ranknet-starts 1 --output kept"
CHOOSE = "--choose stemmer=none,porter --choose model=bm25,two-stage"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("choices")
    write_collection(home / "c")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        run_command(f"{TUNE} {CHOOSE}")
        run_command("report kept")
        return home / "kept"


def test_the_page_opens_with_the_answer_and_has_the_tables(kept: Path) -> None:
    made = (kept / "report.html").read_text()
    page, shown = html.unescape(made), html.unescape(re.sub(r"<[^>]*>", " ", made))
    title, _, *lines = (kept / "table.txt").read_text().splitlines()
    assert page.index(title) < page.index("<main>")
    for line in filter(None, lines):
        assert " ".join(line.split()) in " ".join(shown.split())
    titles = re.findall(r"<h2[^>]*>([^<]*)", page)
    sections = ["Comparison", "Combinations", "Effects", "Pictures", "Topic by topic", "Notes"]
    assert titles == [*sections, "How it was made"]
    assert "By stemmer and model: none, bm25 0." in page
    assert "<dt>stemmer</dt><dd>none, porter</dd>" in page
    assert "<dt>model</dt><dd>bm25, two-stage</dd>" in page


def test_topic_by_topic_are_the_first_case_and_what_was_chosen(kept: Path) -> None:
    data = re.search(r'<script id="data"[^>]*>(.*?)</script>', (kept / "report.html").read_text())
    assert data is not None
    [content] = json.loads(data[1])
    method = json.loads((kept / "tables.json").read_text())["method"]
    values: dict[tuple[str, str], dict[str, float]] = {}
    with (kept / "topics.csv").open() as file:
        for row in csv.DictReader(file):
            if row["method"] == method:
                values.setdefault((row["measure"], row["case"]), {})[row["topic"]] = float(row["value"])
    folds = json.loads((kept / "chosen/folds.json").read_text())["c"]
    assert content["topics"] == [topic for fold in folds for topic in fold["test"]]
    for measure, shown in zip(("AP", "P@5"), content["measures"], strict=True):
        cases = "stemmer = none, model = bm25", "chosen"
        expected = [[values[measure, case][topic] for topic in content["topics"]] for case in cases]
        assert shown["values"] == expected
    assert content["measures"][0]["values"][0] != content["measures"][0]["values"][1]
    assert "the bord" in content["texts"][0]


def test_the_interactions_are_drawn_of_a_full_search(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kept.parent)
    run_command("plot kept")
    pictures = {f"c-{name}-{what}.svg" for name in ("AP", "P@5") for what in ("gains", "interactions")}
    assert {file.name for file in (kept / "pictures").glob("*.svg")} == pictures
    drawn = [(kept / name).read_text() for name in ("interactions.svg", "pictures/c-AP-interactions.svg")]
    said = [re.search(r"Means of [^<]*", text) for text in drawn]
    assert said[0] is not None
    assert said[1] is not None
    assert said[0][0] == said[1][0]


@pytest.mark.slow
def test_the_page_is_replaced_and_another_file_is_not(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kept.parent)
    run_command("report kept/chosen")
    before = (kept / "report.html").read_bytes()
    run_command("report kept")
    assert (kept / "report.html").read_bytes() == before
    race = f"{TUNE.replace('kept', 'raced')} {CHOOSE} --no-approx --race"
    shutil.copytree(kept, "raced")
    for line in (race, "report raced", "plot raced", "report raced"):
        run_command(line)
    assert {file.name for file in Path("raced/pictures").glob("*.svg")} == {
        "c-AP-gains.svg",
        "c-P@5-gains.svg",
    }
    assert not Path("raced/interactions.svg").exists()
    page = Path("raced/report.html").read_text()
    assert "dropped by successive halving" in page
    assert 'href="#effects"' not in page


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "tables.json").unlink(), "tables.json is missing"),
        (lambda folder: (folder / "tables.json").write_text("{}"), "damaged"),
        (lambda folder: (folder / "topics.csv").write_text(""), "damaged"),
        (lambda folder: (folder / "chosen/folds.json").unlink(), "folds.json is missing"),
    ],
    ids=["missing", "other", "empty", "chosen"],
)
def test_changed_folders(kept: Path, tmp_path: Path, spoil: Callable[[Path], object], said: str) -> None:
    copy = Path(shutil.copytree(kept, tmp_path / "copy"))
    spoil(copy)
    (copy / "report.html").unlink()
    assert said in refusal("report", copy)
    assert not (copy / "report.html").exists()
