"""The page as a reader has it: in a real browser, by mouse and keyboard, on phones and on paper."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image
from reported import made_picture, made_results, write_made

from lmtune.report.figures.style import COLUMN, PAGE
from lmtune.report.page import page
from lmtune.tuning.experiment.result import DIRECT, RANKNET, CollectionResult
from lmtune.tuning.experiment.stored import read_results

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

NASTY = "</script><img src=x onerror=alert(1)>"
MOST_ROWS = 25
RESULTS = [
    *made_results(topics=[str(t) for t in range(30)]),
    *made_results(
        names=[f"a collection with a very long name and {NASTY}"],
        topics=["q10", NASTY, "q9", "Q100", "a" * 90, "q1"],
        seed=1,
    ),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    stored = read_results(write_made(folder / "kept", RESULTS))
    pictures = [
        made_picture(NASTY, "A rectangle", "plain"),
        made_picture("Another", "A point", "plain", "Fold 2", width=COLUMN),
    ]
    (folder / "page.html").write_text(
        page(stored, pictures, most_rows=MOST_ROWS), encoding="utf-8", newline="\n"
    )
    return (folder / "page.html").as_uri()


@pytest.fixture
def opened(browser: Chrome, address: str) -> Iterator[Chrome]:
    """Open the page afresh at 1,280 pixels; afterwards the console has to be empty."""
    look(browser, width=1280)
    browser.get(address)
    yield browser
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def look(browser: Chrome, *, width: int = 1280, media: str = "", scheme: str = "light") -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def script(browser: Chrome, text: str, *arguments: object) -> Any:
    return browser.execute_script(text, *arguments)


def column(browser: Chrome, place: int) -> list[str]:
    """Return the texts of a column of the topic table."""
    cells = "[...document.querySelectorAll('#topic-table tbody tr')].map(r => r.cells[{}].innerText)"
    return list(script(browser, f"return {cells.format(place)}"))


def header(browser: Chrome, name: str) -> Any:
    found = f"//table[@id='topic-table']//th[normalize-space(button)='{name}']"
    return browser.find_element("xpath", found)


def shown(browser: Chrome) -> str:
    return str(browser.find_element("id", "shown").text)


def choose(browser: Chrome, id_: str, text: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element("id", id_)).select_by_visible_text(text)


def values(result: CollectionResult, measure: str, method: str) -> dict[str, float]:
    row = next(r for r in result.rows if (r.measure.title, r.method) == (measure, method))
    return dict(zip(row.topics, row.values.tolist(), strict=True))


def test_a_click_sorts_up_then_down(opened: Chrome) -> None:
    direct = values(RESULTS[0], "MAP", DIRECT)
    assert column(opened, 0) == [str(t) for t in range(MOST_ROWS)]
    assert header(opened, "Topic").get_attribute("aria-sort") == "ascending"
    head = header(opened, "Direct")
    for direction, sign in (("ascending", 1), ("descending", -1)):
        head.find_element("tag name", "button").click()
        assert head.get_attribute("aria-sort") == direction
        assert header(opened, "Topic").get_attribute("aria-sort") is None
        expected = sorted(direct, key=lambda topic: sign * direct[topic])[:MOST_ROWS]
        assert column(opened, 0) == expected
        assert column(opened, 2) == [f"{direct[topic]:.4f}" for topic in expected]


def test_ties_stay_in_the_order_of_the_sort_before(opened: Chrome) -> None:
    ranknet = values(RESULTS[0], "MAP", RANKNET)
    fold = {topic: n for n, f in enumerate(RESULTS[0].folds, 1) for topic in f.test}
    for name in ("RankNet", "Fold"):
        header(opened, name).find_element("tag name", "button").click()
    expected = sorted(ranknet, key=lambda topic: (fold[topic], ranknet[topic]))
    assert column(opened, 0) == expected[:MOST_ROWS]


def test_the_filters_keep_what_they_say(opened: Chrome) -> None:
    direct, ranknet = (values(RESULTS[0], "P@10", method) for method in (DIRECT, RANKNET))
    choose(opened, "measure", "P@10")
    opened.find_element("id", "filter").send_keys("2")
    kept = [topic for topic in map(str, range(30)) if "2" in topic]
    assert column(opened, 0) == kept
    assert shown(opened) == f"{len(kept)} of 30 topics"
    choose(opened, "sign", "RankNet above Direct")
    kept = [topic for topic in kept if ranknet[topic] > direct[topic]]
    assert column(opened, 0) == kept
    mean = sum(ranknet[topic] for topic in kept) / len(kept)
    foot = opened.find_element("css selector", "#topic-table tfoot").text.split()
    assert foot[:3] == ["Mean", "of", "these"]
    assert foot[4] == f"{mean:.4f}"
    opened.find_element("id", "filter").clear()
    choose(opened, "sign", "RankNet equal to Direct")
    assert column(opened, 0) == [t for t in map(str, range(30)) if ranknet[t] == direct[t]]
    opened.find_element("id", "filter").send_keys("no such topic")
    assert shown(opened) == "0 of 30 topics"
    assert column(opened, 0) == []


def test_any_identifier_stays_text_and_sorts_as_a_reader_would(opened: Chrome) -> None:
    choose(opened, "collection", RESULTS[1].name)
    assert column(opened, 0) == [NASTY, "a" * 90, "q1", "q9", "q10", "Q100"]
    assert len(opened.find_elements("tag name", "img")) == 2
    choose(opened, "collection", "plain")
    assert shown(opened) == "30 of 30 topics, the first 25 in the table"


def test_the_keyboard_suffices(opened: Chrome) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys: str) -> None:
        ActionChains(opened).send_keys(*keys).perform()

    active = "return document.activeElement"
    press(Keys.TAB)
    assert script(opened, f"{active}.innerText") == "Skip to the results"
    assert script(opened, f"{active}.getBoundingClientRect().top") >= 0
    press(Keys.ENTER)
    assert script(opened, f"{active}.id") == "comparison"
    script(opened, "document.getElementById('measure').focus()")
    press(Keys.TAB, "1")
    assert shown(opened) == f"{sum('1' in str(t) for t in range(30))} of 30 topics"
    press(Keys.TAB, Keys.TAB, Keys.TAB, Keys.ENTER)
    assert header(opened, "Topic").get_attribute("aria-sort") == "descending"
    assert column(opened, 0)[:2] == ["21", "19"]
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert script(opened, outline) == "solid"
    press(Keys.TAB, Keys.TAB, Keys.SPACE)
    assert header(opened, "Direct").get_attribute("aria-sort") == "ascending"
    script(opened, "document.getElementById('filter').focus()")
    press(Keys.BACKSPACE)
    assert shown(opened) == "30 of 30 topics, the first 25 in the table"
    script(opened, "document.getElementById('all').focus()")
    press(Keys.ENTER)
    assert len(column(opened, 0)) == 30
    assert script(opened, f"{active}.id") == "topic-box"


@pytest.mark.parametrize("width", [360, 1400])
def test_the_page_never_scrolls_sideways(opened: Chrome, width: int) -> None:
    look(opened, width=width)
    for collection in RESULTS:
        choose(opened, "collection", collection.name)
        assert script(opened, "return document.documentElement.scrollWidth") <= width
    wide = "return [...document.querySelectorAll('table')].every(t => t.closest('.box'))"
    assert script(opened, wide)


def test_every_picture_loads_and_has_words(opened: Chrome) -> None:
    pictures = script(opened, "return [...document.images].map((i) => [i.alt, i.complete, i.naturalWidth])")
    # An inch of a picture, 96 pixels of the screen, is drawn 1.6 times as large there.
    pixels = {"A rectangle": int(1.6 * 96 * PAGE), "A point": int(1.6 * 96 * COLUMN)}
    assert pictures == [[alt, True, width] for alt, width in pixels.items()]
    named = "svg => svg.getAttribute('role') === 'img' && svg.getAttribute('aria-label')"
    assert script(opened, f"return [...document.querySelectorAll('svg')].every({named})")
    loaded = script(opened, "return performance.getEntriesByType('resource').map((e) => e.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []
    # The page's policy must not keep a picture from its own style: without it, the point is black.
    colours = script(
        opened,
        "const c = document.createElement('canvas').getContext('2d');"
        "const picture = document.querySelector('img');"
        "c.canvas.width = picture.naturalWidth; c.canvas.height = picture.naturalHeight;"
        "c.drawImage(picture, 0, 0);"
        "const data = c.getImageData(0, 0, c.canvas.width, c.canvas.height).data, found = new Set();"
        "for (let i = 0; i < data.length; i += 4) found.add(`${data.slice(i, i + 3)}`);"
        "return [...found]",
    )
    line = made_picture("", "", "").figure.axes[0].lines[0]
    assert ",".join(str(round(255 * part)) for part in to_rgb(line.get_color())) in colours


def _luminance(color: str) -> float:
    """Return the relative luminance of ``rgb(...)`` by WCAG 2.2."""
    channels = [int(text) / 255 for text in re.findall(r"\d+", color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_by_day_and_by_night(opened: Chrome, scheme: str) -> None:
    look(opened, scheme=scheme)
    pairs = script(
        opened,
        """
        const solid = (e) => {
          const color = getComputedStyle(e).backgroundColor;
          return color === 'rgba(0, 0, 0, 0)' && e.parentElement ? solid(e.parentElement) : color;
        };
        const own = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        return [...document.body.querySelectorAll('*')]
          .filter((e) => own(e) && !/^(SCRIPT|NOSCRIPT|OPTION)$/.test(e.tagName))
          .map((e) => [e.tagName + '.' + e.className, getComputedStyle(e).color, solid(e)]);
        """,
    )
    assert len(pairs) > 200
    page_is_dark = _luminance(script(opened, "return getComputedStyle(document.body).color")) > 0.5
    assert page_is_dark == (scheme == "dark")
    for name, *colors in pairs:
        low, high = sorted(_luminance(color) for color in colors)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (name, colors)


def test_paper_gets_every_row_that_is_shown_and_no_controls(opened: Chrome) -> None:
    opened.find_element("id", "all").click()
    pdf = opened.execute_cdp_cmd("Page.printToPDF", {})["data"]
    assert base64.b64decode(pdf).startswith(b"%PDF")
    assert len(column(opened, 0)) == 30
    look(opened, width=720, media="print", scheme="dark")
    assert not opened.find_element("id", "controls").is_displayed()
    assert not opened.find_element("tag name", "nav").is_displayed()
    assert opened.find_element("id", "topic-table").is_displayed()
    cut = "(b) => b.scrollHeight > b.clientHeight + 1"
    assert not script(opened, f"return [...document.querySelectorAll('.box')].some({cut})")
    assert all(image.is_displayed() for image in opened.find_elements("tag name", "img"))
    assert script(opened, "return document.documentElement.scrollWidth") <= 720
    ink = script(opened, "return getComputedStyle(document.body).color")
    assert ink == "rgb(0, 0, 0)"


def test_without_scripts_the_page_says_so_and_shows_the_rest(browser: Chrome, address: str) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(address)
        assert "This table needs JavaScript" in browser.find_element("id", "topics").text
        assert not browser.find_element("id", "controls").is_displayed()
        assert "RankNet" in browser.find_element("id", "comparison").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_pictures_are_dark_by_night(opened: Chrome) -> None:
    shades = []
    for scheme in ("light", "dark"):
        look(opened, scheme=scheme)
        picture = opened.find_element("css selector", "figure img")
        with Image.open(io.BytesIO(picture.screenshot_as_png)) as image:
            pixels = np.asarray(image.convert("L"), np.float64)
        shades.append((float(np.median(pixels)), float(np.abs(pixels - np.median(pixels)).max())))
    (day, ink), (night, chalk) = shades
    assert day > 240
    assert night < 60
    assert min(ink, chalk) > 150


LONG = [str(topic) for topic in range(400)]


@pytest.mark.slow
def test_topics_are_found_by_text_and_four_hundred_fit_on_few_sheets(browser: Chrome, tmp_path: Path) -> None:
    texts = [{topic: f"who asked for {topic} and why" for topic in LONG}]
    stored = read_results(write_made(tmp_path / "kept", made_results(topics=LONG), texts=texts))
    pictures = [made_picture(f"picture {n}", "A point", "plain", f"Fold {n}") for n in range(12)]
    (tmp_path / "page.html").write_text(page(stored, pictures), encoding="utf-8")
    look(browser, width=390)
    browser.get((tmp_path / "page.html").as_uri())
    assert script(browser, "return document.documentElement.scrollWidth") <= 390
    assert column(browser, 0)[3].split("\n") == ["3", "who asked for 3 and why"]
    browser.find_element("id", "filter").send_keys("for 37")
    assert len(column(browser, 0)) == 11
    browser.find_element("id", "filter").clear()
    browser.find_element("id", "filter").send_keys(" ")
    assert len(column(browser, 0)) == 400
    assert "Printed are the first" not in browser.find_element("id", "topics").text
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf)) <= 6
    look(browser, width=720, media="print")
    assert "Printed are the first" in browser.find_element("id", "topics").text
