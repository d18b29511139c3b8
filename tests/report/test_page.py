"""The page as text: its parts, its policy, and that nothing in the results can break out of it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from reported import made_picture, made_results, write_made
from scipy import stats

from lmtune.cli.main import app
from lmtune.report.figures.style import COLUMN, PAGE, render
from lmtune.report.page import page
from lmtune.report.recommendation import tuning_answer
from lmtune.tuning.experiment.result import DEFAULT, DIRECT, RANKNET, CollectionResult
from lmtune.tuning.experiment.stored import read_results

NASTY = "</script><img src=x onerror=alert(1)>"


class _Page(HTMLParser):
    """Collects what the checks need of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open = tag
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open, []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    topics = ["1", "2", "3", NASTY, "q&a", "6"]
    results = [with_default(own) for own in made_results(("one", f"two {NASTY}"), topics, bound=0.75)]
    stored = read_results(write_made(tmp_path_factory.mktemp("made") / "kept", results))
    pictures = [
        made_picture(f"A title {NASTY}", f'An alternative "text" {NASTY}', "one"),
        made_picture("Another", "Points", "one", width=COLUMN),
    ]
    return page(stored, pictures)


def test_every_reference_stays_inside(made: str) -> None:
    parsed = _Page(made)
    for tag, attributes in parsed.tags:
        for name in ("src", "href", "action", "srcset", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, value)
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for attributes in parsed.all("a"):
        assert str(attributes["href"]).removeprefix("#") in ids
    for _, attributes in parsed.tags:
        assert attributes.get("aria-labelledby", ids[0]) in ids


def test_the_policy_allows_what_the_page_holds_and_nothing_else(made: str) -> None:
    parsed = _Page(made)
    policy = next(
        str(meta["content"])
        for meta in parsed.all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", made, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_what_stands_in_results_stays_text(made: str) -> None:
    parsed = _Page(made)
    assert NASTY not in made
    assert len(parsed.all("img")) == 2
    assert not [image for image in parsed.all("img") if "onerror" in image]
    assert len(parsed.all("script")) == 2
    assert "R&amp;D &lt;notes&gt; stay text" in made
    assert f"two {NASTY}" in "".join(parsed.texts["h1"])
    data = json.loads(re.findall(r'type="application/json">(.*?)</script>', made, re.DOTALL)[0])
    assert [one["name"] for one in data] == ["one", f"two {NASTY}"]
    assert NASTY in data[0]["topics"]


def test_the_structure_is_one_that_can_be_read_aloud(made: str) -> None:
    parsed = _Page(made)
    assert parsed.all("html")[0]["lang"] == "en"
    assert len(parsed.all("h1")) == 1
    assert len(parsed.all("caption")) == len(parsed.all("table")) == 7
    assert all(image["alt"] for image in parsed.all("img"))
    assert all(plot["role"] == "img" and plot["aria-label"] for plot in parsed.all("svg"))
    assert all(head.get("scope") for head in parsed.all("th"))
    levels = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for image, width in zip(parsed.all("img"), (PAGE, COLUMN), strict=True):
        drawn = render(made_picture("", str(image["alt"]), "", width=width).figure, "svg").decode()
        shown = base64.b64decode(str(image["src"]).removeprefix("data:image/svg+xml;base64,")).decode()
        # The same picture, and below its first tag how it looks by night.
        assert re.sub("<style>@media .*?</style>", "", shown, count=1) == drawn
        assert len(shown) > len(drawn)
    assert [figure.get("class") for figure in parsed.all("figure")] == ["wide", None]


def test_figures_are_those_of_scipy(tmp_path: Path) -> None:
    (result,) = results = [with_default(made_results(topics=[str(t) for t in range(40)])[0])]
    text = page(read_results(write_made(tmp_path / "kept", results)))
    values = {(row.measure.title, row.method): row.values for row in result.rows}
    differences = values["MAP", DIRECT] - values["MAP", DEFAULT]
    test = stats.ttest_rel(values["MAP", DIRECT], values["MAP", DEFAULT])
    low, high = test.confidence_interval(0.95)
    shown = f"Direct minus Default, MAP: [{low:+.4f}, {high:+.4f}]"
    assert f'aria-label="{shown}"' in text
    cells = re.findall(r'scope="row">Direct</th>(.*?)</tr>', text, re.DOTALL)
    plain = [re.sub(r"<[^>]*>", " ", cell).split() for cell in cells]
    counts = [int(np.sum(np.sign(differences) == sign)) for sign in (1, 0, -1)]
    assert any(cell[-4:] == [*map(str, counts), f"{test.pvalue:.4f}"] for cell in plain)
    assert f"{values['MAP', DEFAULT].mean():.4f}" in text


def with_default(result: CollectionResult) -> CollectionResult:
    """Call Direct the default, and RankNet Direct."""
    names = {DIRECT: DEFAULT, RANKNET: DIRECT}
    rows = tuple(replace(row, method=names.get(row.method, row.method)) for row in result.rows)
    return replace(result, rows=rows)


def test_what_is_worse_than_the_default_is_marked_and_read_aloud(tmp_path: Path) -> None:
    [given] = made_results(topics=[str(number) for number in range(20)])
    direct = {row.measure: row.values for row in given.rows if row.method == DIRECT}
    rows = []
    for row in with_default(given).rows:
        if row.method == DIRECT:
            values = direct[row.measure] - 0.05 - np.linspace(0.0, 0.01, 20)
            row = replace(row, values=values, cautions=())
        rows.append(row)
    made = page(read_results(write_made(tmp_path / "kept", [replace(given, rows=tuple(rows))])))
    assert made.count('>‡</span><span class="unseen"> significantly worse than Default') == 2
    assert "‡ significantly worse (" in made


def test_the_same_results_give_the_same_bytes_anywhere(tmp_path: Path) -> None:
    pages = [page(read_results(write_made(tmp_path / name, made_results()))) for name in ("a", "b/c")]
    assert pages[0] == pages[1]
    assert str(tmp_path) not in pages[0]


def _report(*arguments: str) -> int:
    return int(app(["report", *arguments], standalone_mode=False) or 0)


@pytest.mark.slow
def test_the_command_writes_beside_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_made(tmp_path / "kept", made_results())
    assert _report(str(folder)) == 0
    first = (folder / "report.html").read_bytes()
    assert first.startswith(b"<!DOCTYPE html>")
    assert str(folder / "report.html") in capsys.readouterr().err
    assert _report(str(folder), "--output", str(tmp_path / "new" / "page.html")) == 0
    assert (tmp_path / "new" / "page.html").read_bytes() == first
    write_made(folder, made_results(seed=1))
    assert not (folder / "report.html").exists()


def test_other_folders_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _report(str(tmp_path)) == 2
    assert "not a results folder: made.json is missing" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_page_opens_with_the_answer(tmp_path: Path) -> None:
    stored = read_results(write_made(tmp_path / "kept", made_results(topics=["1", "2", "3"])))
    [answer] = map(tuning_answer, stored.results)
    opening = page(stored).partition("<main>")[0]
    assert answer is not None and answer.title in opening
    for label, text in answer.lines:
        assert f"<dt>{label}</dt><dd>{html.escape(text)}</dd>" in opening


def test_the_answer_and_its_picture_open_the_page_and_figures_have_one_format(tmp_path: Path) -> None:
    stored = read_results(
        write_made(tmp_path / "kept", [with_default(own) for own in made_results(bound=0.75)])
    )
    lead = replace(made_picture("What to use", "A point", "plain", width=COLUMN), lead=True)
    made = page(stored, [made_picture("Other", "Points", "plain"), lead])
    places = [made.index(part) for part in ("Recommended", "What to use", "<nav", "Other")]
    assert places == sorted(places)
    figures = re.findall(r'<td class="num">([^<]*\d[^<]*)</td>', made)
    means = [text for text in figures if re.search(r"\d{4}$", text) and "," not in text]
    assert len(means) > 40
    row = stored.results[0].rows[1]
    assert f">{row.mean - stored.results[0].rows[0].mean:+.4f}<" in made
    assert [text for text in means if text.startswith((".", "-.", "+.", "\u2212"))] == []


def test_topics_have_their_text(tmp_path: Path) -> None:
    topics = {str(topic): f"what is {NASTY}\n{topic}" for topic in (1, 2, 10, 11, 20, 3)}
    made = page(read_results(write_made(tmp_path / "kept", made_results(), texts=[topics])))
    [data] = json.loads(re.findall(r'type="application/json">(.*?)</script>', made, re.DOTALL)[0])
    assert data["texts"] == [f"what is {NASTY} {topic}" for topic in data["topics"]]
    assert NASTY not in made
