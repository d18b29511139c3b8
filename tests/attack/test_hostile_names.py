"""Names that other programs would obey, through every command: they stay names."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from made_folder import write_folder
from reported import made_results, write_made
from scripts import refusal, run_command

from lmtune.errors import as_text, visible
from lmtune.io.letor import read_letor
from lmtune.io.runs import read_run
from lmtune.report.page import page
from lmtune.report.table import latex_escape, markdown_escape
from lmtune.tuning.experiment.stored import read_results

TOPICS = [
    *("$x^{$", r"a$\frac{$b", "<script>alert(1)</script>", "\"><img/src='x'>", "&amp;", "--help", "=1+2"),
    *("@SUM(1)", "%s%n{0}", "../../x", "e\u0301\U0001f600\u05d0\u05d1", "x" * 300, "a,b;c", r"\input{x}"),
    *("|`*_~[]", "</textarea>-->"),
]
DOCNOS = [*TOPICS, "\x1b]0;owned\x07", "\u202eabc", "-1", "#d", "\x7f"]
MARKUP = "-<b>&\"'$x^{$%\\input{x},;|=\u05d0e\u0301\U0001f600"
CONTROL = "a\nb\x1b]0;t\x07\u202e"
NO_TEXT = os.fsdecode(b"caf\xe9")
FOLDERS = [MARKUP, CONTROL, NO_TEXT]
TUNED = [MARKUP, NO_TEXT]
TAG = "<script>$t$"


def make_collection(folder: Path) -> None:
    rng = np.random.default_rng(1)
    words = [f"w{number}" for number in range(12)]
    docnos = [*DOCNOS, *(f"d{number}" for number in range(25))]
    texts = {docno: " ".join(rng.choice(words, 5 + place)) for place, docno in enumerate(docnos)}
    queries = {topic: f"{' '.join(rng.choice(words, 3))} <script> $x$" for topic in TOPICS}
    gains = ((t, docno, int(rng.integers(4)) // 3) for t in TOPICS for docno in docnos)
    write_folder(folder, texts, queries, gains)


def run(*arguments: str | Path) -> str:
    out, err = run_command([str(argument) for argument in arguments])
    assert visible(err) == err
    return out


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder of collections, a run of each, and the results of tuning on two."""
    folder = tmp_path_factory.mktemp("home")
    before = Path.cwd()
    os.chdir(folder)
    try:
        for name in FOLDERS:
            make_collection(folder / name)
            run("search", "--output", f"{name}.run", "--run-tag", TAG, "--", name)
        few = ["--grid", "2x2", "-m", "AP", "--no-approx"]
        run("tune", *few, "--output", f"results {MARKUP}", "--", *TUNED)
    finally:
        os.chdir(before)
    return folder


class _Tags(HTMLParser):
    """Collects tags with the names of their attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def latex_text(typeset: str) -> str:
    """Undo LaTeX's escapes; fail where anything else would mean something to it."""
    known = {r"\textbackslash ": "\\", r"\^{}": "^", r"\~{}": "~"}
    known |= {rf"\{character}": character for character in "&%$#_{}"}
    known |= {f"${character}$": character for character in "<>|"}
    pieces = re.split("(" + "|".join(map(re.escape, sorted(known, key=len, reverse=True))) + ")", typeset)
    assert not re.search(r"[\\&%$#_{}^~<>|\x00-\x1f\x7f]", "".join(pieces[::2])), typeset
    return "".join(known.get(piece, piece) for piece in pieces)


def cells(line: str) -> list[str]:
    """Split a row of a Markdown table, and undo its escapes."""
    parts = re.split(r"(?<!\\)(?:\\\\)*\|", line.strip().strip("|"))
    return [re.sub(r"\\(\W|_)", r"\1", part).strip() for part in parts]


@pytest.mark.slow
def test_runs_and_tables_read_back_as_they_were_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    for name in FOLDERS:
        found = read_run(f"{name}.run")
        assert list(found) == TOPICS
        assert {docno for ranked in found.values() for docno in ranked} >= set(DOCNOS)
        json.loads(Path(f"{name}.run.made.json").read_text())
    kept = Path(f"results {MARKUP}")
    shown = [as_text(name) for name in TUNED]
    rows = list(csv.reader(io.StringIO((kept / "table.csv").read_text())))
    assert {row[0] for row in rows[1:]} == set(shown)
    assert {len(row) for row in rows} == {len(rows[0])}
    assert {row["collection"] for row in json.loads((kept / "table.json").read_text())} == set(shown)
    assert all(name in (kept / "table.txt").read_text() for name in shown)
    assert cells((kept / "table.md").read_text().split("\n")[0])[2:] == shown
    header = next(line for line in (kept / "table.tex").read_text().split("\n") if line.startswith("Measure"))
    parts = re.split(r" (?<!\\)& ", header.removesuffix(r" \\"))
    assert [latex_text(part) for part in parts[2:]] == shown


@pytest.mark.parametrize("name", [*DOCNOS, *FOLDERS], ids=ascii)
def test_escapes_keep_the_text(name: str) -> None:
    shown = visible(re.sub(r"\s+", " ", name))
    assert latex_text(latex_escape(name)) == shown
    [cell] = cells(f"| {markdown_escape(name)} |")
    assert cell == shown
    assert not re.search(r"(?<!\\)(?:\\\\)*[<&`*$]", markdown_escape(name))


@pytest.mark.parametrize("style", ["table", "markdown", "latex", "csv", "json"])
def test_runs_are_evaluated_and_compared(home: Path, monkeypatch: pytest.MonkeyPatch, style: str) -> None:
    monkeypatch.chdir(home)
    runs = [f"{name}.run" for name in FOLDERS]
    judged = f"{MARKUP}/qrels.txt"
    evaluated = run("evaluate", "-q", "-m", "map", "--format", style, "--", judged, *runs)
    compared = run("compare", "-q", "-m", "AP", "--format", style, "--", judged, *runs)
    for shown in (evaluated, compared):
        if style == "json":
            assert all(json.dumps(topic) in shown for topic in TOPICS)
        elif style == "csv":
            rows = list(csv.reader(io.StringIO(shown)))
            cells = {cell for row in rows for cell in row}
            assert not any(cell.startswith(("=", "@")) for cell in cells)  # formulas of spreadsheets
            assert set(TOPICS) <= cells | {cell[1:] for cell in cells if cell.startswith("'")}
            assert {len(row) for row in rows} == {len(rows[0])}
        else:
            names = {
                "table": TOPICS,
                "markdown": [markdown_escape(topic) for topic in TOPICS],
                "latex": [latex_escape(topic) for topic in TOPICS],
            }[style]
            assert all(name in shown for name in names)
            assert "\x1b" not in shown


def test_the_page_has_the_tags_of_one_with_plain_names(tmp_path: Path) -> None:
    names = [MARKUP, CONTROL]
    hostile = page(read_results(write_made(tmp_path / "a", made_results(names, TOPICS))))
    plain = [f"t{number:02d}" for number in range(len(TOPICS))]
    usual = page(read_results(write_made(tmp_path / "b", made_results(["one", "two"], plain))))
    assert _Tags(hostile).tags == _Tags(usual).tags
    for name in (MARKUP, "$x^{$"):
        assert name in _Tags(hostile).text
    assert "\x1b" not in hostile


@pytest.mark.slow
def test_a_result_is_reported_without_a_tag_too_many(home: Path, tmp_path: Path) -> None:
    run("report", "--output", tmp_path / "page.html", "--", home / f"results {MARKUP}")
    made = _Tags((tmp_path / "page.html").read_text())
    assert {tag for tag, _ in made.tags}.isdisjoint(("b", "textarea", "iframe", "object", "embed"))
    assert [tag for tag, _ in made.tags].count("script") == 2
    assert all(names == ("src", "alt") for tag, names in made.tags if tag == "img")
    assert not [name for _, names in made.tags for name in names if name.startswith("on")]
    assert as_text(NO_TEXT) in made.text


@pytest.mark.first_case
@pytest.mark.parametrize("style", ["svg", "pdf", "png"])
def test_pictures_are_drawn_without_mathematics(style: str, tmp_path: Path) -> None:
    folder = write_made(tmp_path / f"results {MARKUP}", made_results([MARKUP], TOPICS[:4], ["AP"]))
    run("plot", "--format", style, "--", folder)
    drawn = sorted((folder / "pictures").iterdir())
    assert drawn
    if style == "svg":
        svg = [path for path in drawn if path.suffix == ".svg"]
        texts = ["".join(ElementTree.parse(path).getroot().itertext()) for path in svg]
        assert any("$x^{$" in text for text in texts)


def test_other_commands_take_any_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    run("index", "--output", f"index {MARKUP}", "--", MARKUP)
    run("search", "--index", f"index {MARKUP}", "--topics", f"{MARKUP}/topics.tsv", "--output", "again.run")
    assert list(read_run("again.run")) == TOPICS
    assert run("datasets")
    line = refusal("search --", (CONTROL + "?",))
    assert visible(line) == line


@pytest.mark.slow
def test_runs_are_reranked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the extra 'neural' is not installed")
    monkeypatch.chdir(home)
    name = MARKUP
    given = ["--run", f"{name}.run", "--", name]
    run("rerank", "features", "--output", f"{name}.letor", *given)
    data = read_letor(f"{name}.letor", cache=False)
    assert list(data.queries) == TOPICS
    assert data.docnos is not None and set(DOCNOS) <= set(data.docnos)
    few = ["--loss", "listnet", "--net", "linear", "--epochs", "1"]
    run("rerank", "train", "--output", f"model {name}", *few, *given)
    run("rerank", "apply", "--all-topics", "--output", "new.run", *given[:3], f"model {name}", name)
    assert {topic: set(ranked) for topic, ranked in read_run("new.run").items()} == {
        topic: set(ranked) for topic, ranked in read_run(f"{name}.run").items()
    }
    letor = Path(f"folder {name}")
    letor.mkdir()
    for part in ("train", "vali", "test"):
        (letor / f"{part}.txt").write_bytes(Path(f"{name}.letor").read_bytes())
    compared: Sequence[str] = ["--losses", "listnet", "--trials", "1", "--epochs", "1", "--net", "linear"]
    run("rerank", "compare", *compared, "--output", f"compared {name}", "--", str(letor))
