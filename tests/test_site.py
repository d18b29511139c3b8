"""The documentation site: built strictly, whole, and without a word to another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from typer.testing import CliRunner

import lmtune
from lmtune.cli.main import app

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
PAGES = ["index.html", "howto/tune.html", "commands/tune.html", "python/lmtune.html", "findings.html"]


class Page(HTMLParser):
    """What a page fetches, where its links lead, and the names in it that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.fetched, self.links, self.names = path, list[str](), list[str](), set[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        targets = [given[name] for name in ("href", "src", "srcset", "data") if name in given]
        (self.links if tag == "a" else self.fetched).extend(targets)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    pytest.importorskip("material", reason="the extra docs is not installed")
    pytest.importorskip("mkdocstrings_handlers.python", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site").resolve()
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return {path: Page(path) for path in folder.rglob("*.html") if path.name != "404.html"}


def test_it_has_its_pages_and_every_link_leads_somewhere(site: dict[Path, Page]) -> None:
    folder = Path(os.path.commonpath(site))
    assert {folder / name for name in PAGES} <= set(site)
    dead = []
    for page in site.values():
        for link in (*page.links, *page.fetched):
            parts = urlsplit(link)
            path = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
            there = site[path].names if path in site else {""}
            if not parts.scheme and not (path.exists() and unquote(parts.fragment) in {"", *there}):
                dead.append((page.path.name, link))
    assert dead == []


def test_no_page_fetches_anything_from_another_host(site: dict[Path, Page]) -> None:
    folder = Path(os.path.commonpath(site))
    assert len(site) > 30
    for page in site.values():
        assert page.fetched
        assert [target for target in page.fetched if urlsplit(target).netloc] == [], page.path
    styles = [path.read_text(encoding="utf-8") for path in folder.rglob("*.css")]
    assert styles
    for style in styles:
        assert re.findall(r"(?:url\(|@import)\s*[\"']?\s*(?:https?:)?//[^)]*", style) == []


def test_each_command_and_each_public_name_has_its_place(site: dict[Path, Page]) -> None:
    folder = Path(os.path.commonpath(site))
    shown = CliRunner().invoke(app, ["--help"]).stdout
    commands = re.findall(r"^[^\w-]*([a-z]+)  ", shown, re.MULTILINE)
    assert {"tune", "rerank", "fuse"} <= set(commands)
    for command in commands:
        text = (folder / "commands" / f"{command}.html").read_text(encoding="utf-8")
        assert f"lmtune {command}" in text
    headings = {name.rpartition(".")[2] for name in site[folder / "python" / "lmtune.html"].names}
    assert {name for name in dir(lmtune) if name[0] != "_"} <= headings
