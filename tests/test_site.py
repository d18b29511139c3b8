"""The documentation site: built strictly, whole, and without a word to another host."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner

import lmtune
from lmtune.cli.main import app

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "index.html howto/tune.html commands/tune.html python/tune.html findings.html concepts/song.html "
    "start.html howto/trec.html course/1-smoothing.html course/3-fusion-and-testing.html"
).split()


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


def test_formulas_are_drawn_and_the_picture_has_each_term(site: dict[Path, Page]) -> None:
    folder = Path(os.path.commonpath(site))
    assert [page.path for page in site.values() if "math:" in page.path.read_text(encoding="utf-8")] == []
    assert "<mi>ψ</mi>" in html.unescape((folder / "concepts" / "song.html").read_text(encoding="utf-8"))
    picture = (folder / "concepts" / "terms-little.svg").read_text(encoding="utf-8")
    for term in ("return", "ham", "window", "sum"):
        assert f">{term}</text>" in picture


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
    commands = re.findall(r"^  ([a-z]+)  +[A-Z]", shown, re.MULTILINE)
    assert {"tune", "rerank", "fuse"} <= set(commands)
    for command in commands:
        text = (folder / "commands" / f"{command}.html").read_text(encoding="utf-8")
        assert f"lmtune {command}" in text
    text = re.sub("<[^>]+>", " ", (folder / "commands" / "tune.html").read_text(encoding="utf-8"))
    restarts = "--restarts N Random restarts of the coordinate ascent. Default: 2 . Accepts 0 or more."
    shown = " ".join(text.split())
    assert shown.rindex("Measures, model and search") < shown.index(restarts)
    assert shown.index(restarts) < shown.rindex("Parameter ranges")
    pages = [page for path, page in site.items() if path.parent == folder / "python"]
    headings = {name.rpartition(".")[2] for page in pages for name in page.names}
    assert {name for name in dir(lmtune) if name[0] != "_"} <= headings


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing on standard error."""


@pytest.fixture
def address(site: dict[Path, Page]) -> Iterator[str]:
    folder = os.path.commonpath(site)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def found(selector: str, browser: Chrome) -> bool:
    return bool(browser.find_elements("css selector", selector))


def test_a_browser_searches_it_and_a_phone_shows_it_whole(browser: Chrome, address: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    metrics = {"width": 390, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    for name in (*PAGES, "python/losses.html", "concepts/certificate.html"):
        browser.get(address + name)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390, name
        assert browser.execute_script("return document.body.dataset.mdColorScheme") == "slate"
        fetched = browser.execute_script("return performance.getEntriesByType('resource').map(r => r.name)")
        assert fetched
        assert [url for url in fetched if not url.startswith(address)] == []
    for query, page in (
        ("--certify", "commands/tune.html"),
        ("--normalise", "commands/fuse.html"),
        ("significance", "howto/evaluate.html"),
    ):
        browser.get(address + "index.html")
        browser.execute_script("document.getElementById('__search').click()")
        browser.find_element("css selector", ".md-search__input").send_keys(query)
        results = f"a.md-search-result__link[href*='{page}']"
        WebDriverWait(browser, 20).until(partial(found, results))
        if query == "--certify":  # an option of tune and of fuse
            first = browser.find_element("css selector", "a.md-search-result__link")
            assert "commands/" in str(first.get_attribute("href"))
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def test_the_first_screen_has_a_command_its_answer_and_a_picture(browser: Chrome, address: str) -> None:
    metrics = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(address + "index.html")
    shown = browser.execute_script(
        "return [...document.querySelectorAll('.md-content :is(p, pre, img, h2)')].filter("
        "(own) => own.getBoundingClientRect().bottom < 900).map((own) => own.tagName)"
    )
    assert shown[:5] == ["P", "PRE", "P", "PRE", "P"]
    assert shown.count("IMG") == 2
    boxes = "[...document.querySelectorAll('.md-content pre')].slice(0, 2)"
    wide = f"return {boxes}.map((own) => own.scrollWidth - own.clientWidth)"
    assert browser.execute_script(wide) == [0, 0]
    # The sidebar names its parts; pages are behind them.
    links = "return [...document.querySelectorAll('.md-sidebar--primary a.md-nav__link')]"
    seen = browser.execute_script(
        f"{links}.filter((own) => own.checkVisibility()).map((own) => own.innerText)"
    )
    assert "Home" in seen
    assert "Fuse runs" not in seen


def test_a_page_opened_as_a_file_says_how_to(browser: Chrome, address: str, site: dict[Path, Page]) -> None:
    said = "return [...document.querySelectorAll('.from-file')].map((own) => own.textContent).join('')"
    browser.get((Path(os.path.commonpath(site)) / "howto" / "tune.html").as_uri())
    assert "python -m http.server --directory site" in browser.execute_script(said)
    browser.get(address + "howto/tune.html")
    assert browser.execute_script(said) == ""


SEEN = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const light = (css) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = css;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(
    (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
const style = (own) => getComputedStyle(own);
const header = document.querySelector(".md-header");
const links = [...document.querySelectorAll(".md-typeset p > a:not(:has(img)), .md-typeset li > a")];
const wide = [...document.querySelectorAll(".md-content *")].filter((own) => own.offsetParent
  && own.scrollWidth > own.clientWidth + 1 && ["auto", "scroll"].includes(style(own).overflowX));
return [
  contrast(style(header).color, style(header).backgroundColor),
  Math.min(...links.map((own) => contrast(style(own).color, style(document.body).backgroundColor))),
  links.filter((own) => !style(own).textDecorationLine.includes("underline")).length,
  wide.length, wide.filter((own) => !own.matches("[tabindex='0']")).map((own) => own.outerHTML.slice(0, 90))];
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_and_reached_by_keyboard(scheme: str, browser: Chrome, address: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    metrics = {"width": 390, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    scrolling = 0
    for name in ("start.html", "howto/tune.html", "course/1-smoothing.html"):
        browser.get(address + name)
        browser.execute_script("localStorage.clear()")  # the colours that were seen first
        browser.refresh()
        header, links, bare, wide, unreached = browser.execute_script(SEEN)
        assert header >= 4.5, name
        assert links >= 4.5, name
        assert (bare, unreached) == (0, []), name
        scrolling += wide
    assert scrolling > 0
