"""``lmtune explore`` as a person has it: in a real browser, by mouse and keyboard, on a phone, at night."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import lmtune

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.slow
NASTY = "</script><img src=x onerror=alert(1)>"
WORDS = [f"word{i}" for i in range(30)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a small collection with a docno and a topic that are no friends of HTML."""
    folder = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(5)
    names = [NASTY.replace(" ", "_"), *(f"d{d}" for d in range(1, 90))]
    (folder / "c").mkdir()
    documents = [
        json.dumps({"id": name, "contents": " ".join(rng.choice(WORDS, rng.integers(3, 80))) + f" {NASTY}"})
        for name in names
    ]
    (folder / "c/docs.jsonl").write_text("\n".join(documents) + "\n")
    topics = [f"{t}\t{' '.join(rng.choice(WORDS, 3))} {NASTY}\n" for t in range(1, 9)]
    (folder / "c/topics.tsv").write_text("".join(topics))
    judged = [
        f"{t} 0 {name} {rng.integers(0, 2)}\n" for t in range(1, 9) for name in rng.permutation(names)[:30]
    ]
    (folder / "c/qrels.txt").write_text("".join(judged))
    return folder


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    """Start the command, and end it by Ctrl-C afterwards."""
    with served(home) as address:
        yield address


@contextmanager
def served(home: Path, *words: str, sources: Sequence[str] = ("c",)) -> Iterator[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(lmtune.__file__).parents[1])}
    command = [sys.executable, "-m", "lmtune", "explore", *sources, "--measure", "AP,P@5", "--no-browser"]
    running = subprocess.Popen(
        [*command, *words],
        cwd=home,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    yield running.stdout.readline().strip()
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert said.splitlines()[-1] == "stopped serving the page"
    assert "Traceback" not in said


def look(browser: Chrome, *, width: int = 1280, scheme: str = "light") -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def run(browser: Chrome, text: str, *arguments: object) -> Any:
    return browser.execute_script(text, *arguments)


def part(name: str) -> str:
    return f"document.querySelector('[data-part={name}]')"


def wait(browser: Chrome, what: str, is_so: Callable[[Any], bool] = bool) -> Any:
    for _ in range(600):
        found = run(browser, f"return {what}")
        if is_so(found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: {found!r}")


AS_DEFAULT = "#measure=AP"  # an address that says anything at all begins with the default


@pytest.fixture
def opened(browser: Chrome, address: str) -> Iterator[Chrome]:
    """Open the page afresh; afterwards the console has to be empty, and nobody's script has run."""
    look(browser)
    browser.get("about:blank")
    browser.get(address + AS_DEFAULT)
    wait(browser, f"{part('comparison')}?.querySelectorAll('tbody tr').length", lambda rows: rows == 2)
    yield browser
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]
    assert not run(browser, "return document.querySelectorAll('img').length")


def command_of(browser: Chrome) -> str:
    return str(run(browser, f"return {part('command')}.textContent"))


def test_sliders_by_keyboard(opened: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    before = command_of(opened)
    slider = opened.find_element("id", "slider-mu")
    slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert str(slider.get_attribute("aria-valuetext")).startswith("mu ")
    wait(opened, f"{part('command')}.textContent", lambda text: text != before)
    mu = float(command_of(opened).split("mu=")[1])
    assert 1000 < mu < 1100
    assert f"mu={mu:g}"[:6] in run(opened, "return location.hash")
    assert run(opened, "return window.lmtune.latencies.length") >= 2


def test_the_picture_is_dragged_by_mouse_and_keys(opened: Chrome) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    wait(opened, f"{part('progress')}.hidden")
    picture = opened.find_element("css selector", "svg.surface")
    before = command_of(opened)
    mouse = ActionChains(opened).move_to_element(picture).click_and_hold().move_by_offset(40, -60).release()
    mouse.perform()
    wait(opened, f"{part('command')}.textContent", lambda text: text != before)
    before = command_of(opened)
    handle = opened.find_element("css selector", ".handle")
    run(opened, "arguments[0].focus()", handle)
    for _ in range(3):
        opened.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    wait(opened, f"{part('command')}.textContent", lambda text: text != before)
    assert run(opened, "return document.activeElement.classList.contains('handle')")
    # What can be reached is no part of a picture, whose insides are hidden from readers of the screen.
    assert not run(opened, "return document.querySelectorAll('[role=img] [tabindex]').length")
    said = run(
        opened, "return [...document.querySelectorAll('svg.surface text')].map((own) => own.textContent)"
    )
    assert sum(text.startswith(("0.", "≤0.")) for text in said) >= 5  # of the bar of colours


def test_a_pin_a_topic_and_a_document(opened: Chrome) -> None:
    run(opened, f"{part('sliders')}.querySelector('input').value = 700")
    run(opened, f"{part('sliders')}.querySelector('input').dispatchEvent(new Event('input'))")
    difference = f"{part('comparison')}.querySelector('tbody tr').cells[3].textContent"
    wait(opened, difference, lambda text: text != "0.0000")
    run(opened, f"{part('topics')}.querySelector('tbody button').click()")
    wait(
        opened,
        f"!{part('rankings')}.hidden && {part('rankings')}.querySelectorAll('ol').length",
        lambda n: n == 2,
    )
    assert NASTY in run(opened, f"return {part('rankings')}.querySelector('h3').textContent")
    run(opened, f"{part('rankings')}.querySelectorAll('ol')[1].querySelector('button').click()")
    wait(opened, f"!{part('explained')}.hidden && {part('explained')}.querySelectorAll('tbody tr').length")
    said = run(opened, f"return {part('explained')}.textContent")
    assert "the sum of the terms" in said
    terms = f"{part('explained')}.querySelectorAll('tbody tr').length"
    bars = f"{part('explained')}.querySelectorAll('.part').length"
    assert run(opened, f"return {bars} === 2 * {terms}")
    links = run(
        opened, "return [...document.querySelectorAll('.links path')].map((p) => p.getAttribute('d'))"
    )
    listed = "[...own.children].map((row) => row.children[1].textContent)"
    docnos = f"[...document.querySelectorAll('.sides ol')].map((own) => {listed})"
    then, now = run(opened, f"return {docnos}")
    assert len(links) == len(set(then) & set(now)) > 5
    aligned = """
      const table = document.querySelector('[data-part=explained] table');
      const sides = (row) => [...row.cells].map((own) => getComputedStyle(own).textAlign);
      return [sides(table.tHead.rows[0]), sides(table.tBodies[0].rows[0]),
        [...table.querySelectorAll('.part')].map((own) => own.getBoundingClientRect().width)];
    """
    heads, cells, bars = run(opened, aligned)
    assert heads == cells
    assert max(bars) > 50
    assert run(opened, f"return {part('explained')}.querySelectorAll('mark').length") >= 1
    kept = run(opened, "return location.href")
    run(opened, f"{part('pin')}.click()")
    wait(opened, difference, lambda text: text == "0.0000")
    # The address brings all of it back.
    opened.get("about:blank")
    opened.get(kept)
    wait(opened, f"{part('explained')} && !{part('explained')}.hidden")
    assert run(opened, "return location.href") == kept


def taken_away(browser: Chrome, *names: str) -> dict[str, str]:
    """Press buttons that save files, and return these by their types."""
    run(
        browser,
        """
        window.saved = {};
        HTMLAnchorElement.prototype.click = () => {};
        URL.createObjectURL = (blob) => {
          blob.text().then((text) => { window.saved[blob.type] = text; });
          return "blob:";
        };
        """,
    )
    for name in names:
        run(browser, f"{part(name)}.click()")
    return dict(wait(browser, "window.saved", lambda kept: len(kept) == len(names)))


def test_what_is_taken_away(opened: Chrome, browser: Chrome, home: Path) -> None:
    wait(opened, f"{part('progress')}.hidden")
    saved = taken_away(opened, "csv", "svg", "html")
    lines = saved["text/csv"].splitlines()
    assert lines[0] == "measure,mean,pinned,difference,low,high,p,better,equal,worse"
    assert [line.split(",")[0] for line in lines[1:]] == ["AP", "P@5"]
    assert saved["image/svg+xml"].startswith("<svg")
    assert "var(" not in saved["image/svg+xml"]
    copy = home / "copy.html"
    copy.write_text(saved["text/html"], encoding="utf-8")
    browser.get(copy.as_uri())
    wait(browser, f"{part('comparison')}?.querySelectorAll('tbody tr').length", lambda rows: rows == 2)
    difference = f"{part('comparison')}.querySelector('tbody tr').cells[3].textContent"
    field = f"{part('sliders')}.querySelector('input[type=number]')"
    run(browser, f"{field}.value = 0.37; {field}.dispatchEvent(new Event('change'))")
    wait(browser, difference, lambda text: text != "0.0000")
    # What stands in the fields is the setting whose numbers are shown.
    shown = float(run(browser, f"return {field}.value"))
    assert shown != 0.37
    assert float(command_of(browser).split("lambda=")[1].split()[0]) == pytest.approx(shown, rel=1e-5)
    slider = browser.find_element("id", "slider-lambda")
    slider.send_keys("\ue014")
    wait(browser, f"Number({field}.value)", lambda value: value > shown)
    dead = [f"{part(name)}.offsetParent" for name in ("pin", "copy", "html", "smooth-label")]
    assert run(browser, f"return [{', '.join(dead)}].every((own) => own === null)")
    assert not run(browser, f"return {part('topics')}.querySelectorAll('button').length")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_by_day_and_night(scheme: str, opened: Chrome) -> None:
    look(opened, width=360, scheme=scheme)
    run(opened, f"{part('sliders')}.querySelector('input').value = 700")
    run(opened, f"{part('sliders')}.querySelector('input').dispatchEvent(new Event('input'))")
    run(opened, f"{part('topics')}.querySelector('tbody button').click()")
    wait(opened, f"!{part('rankings')}.hidden")
    run(opened, f"{part('rankings')}.querySelectorAll('ol')[1].querySelector('button').click()")
    wait(opened, f"!{part('explained')}.hidden && {part('explained')}.querySelectorAll('tbody tr').length")
    assert run(opened, "return document.documentElement.scrollWidth") <= 360
    tables = "[...document.querySelectorAll('table')]"
    cut = f"{tables}.filter((own) => own.scrollWidth > own.parentNode.clientWidth)"
    assert run(opened, f"return {cut}.map((own) => own.textContent)") == []
    assert lowest_contrast(opened) >= 4.5


CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgb = (css) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = css;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const linear = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
const light = (css) => {
  const [r, g, b] = rgb(css).map(linear);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const hasText = (own) => [...own.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
const backOf = (own) => {
  const back = own ? getComputedStyle(own).backgroundColor : "white";
  return own && rgb(back)[3] === 0 ? backOf(own.parentElement) : back;
};
const shown = [...document.querySelectorAll("main *")].filter(
  (own) => !own.closest("svg") && own.offsetParent && hasText(own));
return Math.min(...shown.map((own) => {
  const pair = [light(getComputedStyle(own).color), light(backOf(own))];
  return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
}));
"""


def lowest_contrast(browser: Chrome) -> float:
    """Return the lowest contrast of a text with what it stands on, as WCAG 2 defines it."""
    return float(run(browser, CONTRAST))


def test_everything_has_a_name(opened: Chrome) -> None:
    nameless = run(
        opened,
        "return [...document.querySelectorAll('button, input, select, [role=slider], svg')].filter((own) => "
        "!own.hidden && !own.getAttribute('aria-label') && !own.labels?.length && !own.textContent.trim())"
        ".map((own) => own.outerHTML)",
    )
    assert nameless == []


def test_two_pages_at_once(opened: Chrome, address: str) -> None:
    first = opened.current_window_handle
    opened.switch_to.new_window("tab")
    opened.get(address + AS_DEFAULT)
    wait(opened, f"{part('comparison')}?.querySelectorAll('tbody tr').length", lambda rows: rows == 2)
    run(opened, f"{part('sliders')}.querySelector('input').value = 500")
    run(opened, f"{part('sliders')}.querySelector('input').dispatchEvent(new Event('input'))")
    wait(opened, f"{part('command')}.textContent", lambda text: "lambda=0.0 " not in text)
    opened.close()
    opened.switch_to.window(first)
    assert "lambda=0.0 " in command_of(opened)


def test_profiles_of_many_parameters_follow_a_drag_and_choose_axes(browser: Chrome, home: Path) -> None:
    with served(home, "--model", "sdm") as address:
        look(browser)
        browser.get(address)
        wait(browser, f"{part('progress')}?.hidden")
        slider = f"{part('sliders')}.querySelector('#slider-mu')"
        for place in (300, 600, 200, 450):
            run(browser, f"{slider}.value = {place}; {slider}.dispatchEvent(new Event('input'))")
            time.sleep(0.3)
        wait(browser, f"{part('progress')}.hidden")
        assert run(browser, f"return {part('problem')}.hidden")
        profiles = "[...document.querySelectorAll('.profile')].sort((a, b) => a.style.order - b.style.order)"
        length = "own.querySelector('.line:not(.wide)').getAttribute('d').length"
        assert run(browser, f"return {profiles}.filter((own) => {length} > 150).length") == 5
        names, ranges = (
            run(browser, f"return {profiles}.map((own) => own.querySelector('{kind}').textContent)")
            for kind in ("strong", "small")
        )
        assert sorted(names) == ["mu", "mu_ordered", "mu_unordered", "ordered", "unordered"]
        numbers = [float(text.removeprefix("range ")) for text in ranges]
        assert numbers == sorted(numbers, reverse=True)
        assert numbers[0] > numbers[-1]
        plane = "new URLSearchParams(location.hash.slice(1)).get('plane').split(',')"
        assert len(run(browser, f"return {plane}")) == 2
        run(browser, f"{profiles}[4].click()")
        assert names[4] in run(browser, f"return {plane}")
        wait(browser, f"!{part('progress')}.hidden")
        wait(browser, f"{part('progress')}.hidden")
        said = run(browser, "return document.querySelector('svg.surface').getAttribute('aria-label')")
        assert names[4] in said
        pressed = f"{profiles}.filter((own) => own.ariaPressed === 'true').length"
        assert run(browser, f"return {pressed}") == 2
        assert run(browser, "return document.querySelectorAll('.cell').length") == 17 * 17
        assert lowest_contrast(browser) >= 4.5
        copy = home / "many.html"
        copy.write_text(taken_away(browser, "html")["text/html"], encoding="utf-8")
        fills = "[...document.querySelectorAll('.cell')].map((own) => own.getAttribute('fill')).join()"
        cells = run(browser, f"return {fills}")
        browser.get(copy.as_uri())
        wait(browser, fills, lambda found: found == cells)
        assert run(browser, f"return {profiles}.filter((own) => {length} > 60).length") == 5
        assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


HOLD = """
const real = window.fetch;
window.fetch = async (address, options) => {
  if (String(address).endsWith("ask/surface")) await new Promise((go) => (window.goOn ??= go));
  return real(address, options);
};
"""


def test_before_the_first_values_there_are_axes_and_a_progress_bar(browser: Chrome, address: str) -> None:
    look(browser)
    browser.get("about:blank")
    source = {"source": HOLD}
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)
    browser.get(address)
    texts = "[...document.querySelectorAll('svg.surface text')].map((own) => own.textContent)"
    shown = wait(browser, f"window.goOn && {texts}")
    assert {"lambda", "mu", "no setting measured yet"} <= set(shown)
    said = run(browser, f"return {part('progress')}.innerText")
    assert said.strip() == "Measuring settings: 0 %"
    bar = f"{part('progress')}.querySelector('progress')"
    assert run(browser, f"return [{bar}.value, {bar}.position, {bar}.offsetHeight > 10]") == [0, 0, True]
    run(browser, "goOn()")
    wait(browser, f"{part('progress')}.hidden")
    assert "no setting measured yet" not in run(browser, f"return {texts}")
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def options(browser: Chrome) -> list[str]:
    return list(run(browser, f"return [...{part('marks')}.options].map((own) => own.textContent)"))


def test_it_begins_with_the_default_against_the_best_of_the_surface(browser: Chrome, address: str) -> None:
    look(browser)
    browser.get("about:blank")
    browser.get(address)
    wait(browser, f"{part('comparison')}?.querySelectorAll('tbody tr').length", lambda rows: rows == 2)
    difference = f"{part('comparison')}.querySelector('tbody tr').cells[3].textContent"
    wait(browser, difference, lambda text: text.startswith("+"))
    assert "best drawn for AP" in options(browser)
    cells = run(
        browser, f"return [...{part('comparison')}.querySelector('tbody tr').cells].map((c) => c.textContent)"
    )
    mean, pinned = (float(text) for text in cells[1:3])
    assert float(cells[3]) == pytest.approx(mean - pinned, abs=1.01e-4)
    caption = run(browser, f"return {part('comparison')}.querySelector('caption').textContent")
    assert "Exploratory" in caption
    assert "2 settings tried" in caption
    assert float(command_of(browser).split("mu=")[1]) != 1000
    near = run(browser, f"return {part('near')}.textContent")
    assert f"proven within 0.01 of the best point, {cells[1]}; the smallest bound is 0." in near
    outline = run(browser, "return document.querySelector('svg.surface .near').getAttribute('d').length")
    assert (outline > 20) == near.startswith("Outlined")
    assert run(browser, f"return {part('undo')}.disabled")
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def test_a_setting_is_not_tested_against_itself(opened: Chrome) -> None:
    row = "return [...arguments[0].cells].slice(3, 6).map((own) => own.textContent)"
    cells = run(opened, row, opened.find_element("css selector", "[data-part=comparison] tbody tr"))
    assert cells == ["0.0000", "–", "–"]


def test_the_pointer_reads_the_surface(opened: Chrome) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    wait(opened, f"{part('progress')}.hidden")
    picture = opened.find_element("css selector", "svg.surface")
    ActionChains(opened).move_to_element_with_offset(picture, -40, 20).perform()
    said = run(opened, f"return {part('under')}.textContent")
    assert re.fullmatch(
        r"lambda [\d.]+, mu [\d.,]+: 0\.\d{4}"
        r"(, the best|, 0\.\d{4} below the best(, proven within 0\.01)?)",
        said,
    ), said
    before = command_of(opened)
    ActionChains(opened).move_to_element_with_offset(picture, -60, 40).perform()
    assert run(opened, f"return {part('under')}.textContent") != said
    assert command_of(opened) == before


def test_topics_are_chosen_and_their_surface_is_shown(opened: Chrome) -> None:
    wait(opened, f"{part('progress')}.hidden")
    run(opened, f"{part('sliders')}.querySelector('input').value = 800")
    run(opened, f"{part('sliders')}.querySelector('input').dispatchEvent(new Event('input'))")
    wait(opened, f"{part('counts')}.textContent", lambda text: "better" in text and not text.startswith("0 "))
    rows = (
        f"[...{part('topics')}.querySelectorAll('tbody tr')].map((own) => Number(own.cells[3].textContent))"
    )
    differences = wait(opened, rows, lambda found: len(found) == 8)
    losing = [value for value in differences if value < 0]
    assert 0 < len(losing) < 8
    fills = (
        "[...document.querySelectorAll('svg.surface .cell')].map((own) => own.getAttribute('fill')).join()"
    )
    before = run(opened, f"return {fills}")
    run(opened, f"{part('losing')}.click()")
    assert run(opened, f"return {rows}") == losing
    wait(
        opened,
        f"{part('near')}.textContent",
        lambda text: f"of {len(losing)} of 8 topics" in text or len(losing) < 3,
    )
    wait(opened, fills, lambda found: len(found) > 1000 and found != before)
    run(opened, f"{part('everyone')}.click()")
    wait(opened, fills, lambda found: found == before)
    strip = opened.find_element("css selector", "svg.strip")
    from selenium.webdriver.common.action_chains import ActionChains

    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", strip)
    width = strip.size["width"]
    drag = ActionChains(opened).move_to_element_with_offset(strip, int(-0.49 * width), 0).click_and_hold()
    drag.move_by_offset(int(0.3 * width), 0).release().perform()
    chosen = run(opened, f"return {rows}")
    assert sorted(chosen) == sorted(differences)[-3:]


def test_one_half_chooses_and_the_other_checks(opened: Chrome) -> None:
    wait(opened, f"{part('progress')}.hidden")
    run(opened, f"{part('half')}.click()")
    caption = f"{part('comparison')}.querySelector('caption').textContent"
    wait(opened, caption, lambda text: "on the 4 topics not in the picture" in text)
    assert "Valid for one setting, chosen on the other topics" in run(opened, f"return {caption}")
    wait(opened, f"{part('near')}.textContent", lambda text: "of 4 of 8 topics" in text)
    assert "best of half for AP" in options(opened)  # and there it has gone
    assert not run(opened, f"return {part('undo')}.disabled")
    run(opened, f"{part('losing')}.click()")  # topics chosen by what was seen of them: no check any more
    assert not run(opened, f"return {part('half')}.checked")
    wait(opened, caption, lambda text: "Exploratory" in text)


def test_undo_goes_back_a_drag_and_a_pin_has_a_name(opened: Chrome) -> None:
    from selenium.webdriver.common.keys import Keys

    first = command_of(opened)
    opened.find_element("id", "slider-mu").send_keys(*[Keys.ARROW_RIGHT] * 5)
    second = wait(opened, f"{part('command')}.textContent", lambda text: text != first)
    opened.find_element("css selector", "[data-part=name]").send_keys("longer <b>")
    run(opened, f"{part('pin')}.click()")
    assert "longer <b>" in options(opened)
    pinned = "new URLSearchParams(location.hash.slice(1)).get('pinned.mu')"
    wait(opened, pinned, lambda mu: float(mu) > 1000)
    run(opened, f"{part('undo')}.click()")
    wait(opened, pinned, lambda mu: float(mu) == 1000)
    assert command_of(opened) == second
    run(opened, f"{part('undo')}.click()")
    wait(opened, f"{part('command')}.textContent", lambda text: text == first)
    assert run(opened, f"return {part('undo')}.disabled")


SPREAD = [(0.40, 47), (0.41, 48), (0.43, 47), (0.45, 60), (0.94, 9e4)]


def test_names_of_marks_do_not_overlap(opened: Chrome) -> None:
    overlaps = """
      const { makeSurface } = await import('explore/surface');
      const [lambda, mu] = [{ name: 'lambda', low: 0, high: 0.95, scale: 'linear' },
        { name: 'mu', low: 1, high: 1e5, scale: 'log' }];
      const parent = document.querySelector('[data-part=surface]');
      parent.replaceChildren();
      const marks = arguments[0].map(([lambda, mu], i) =>
        ({ name: 'Method' + i, measure: '', path: [], setting: { lambda, mu } }));
      const points = { shape: [2, 2], values: [0.1, 0.2, 0.3, 0.4] };
      makeSurface(parent, [lambda, mu], () => {}).draw(points, { measure: 'AP', label: 'AP', marks,
        setting: marks[0].setting, pinned: marks[0].setting, plane: ['lambda', 'mu'], isHere: () => true });
      const boxes = [...parent.querySelectorAll('text.name')].map((own) => own.getBoundingClientRect());
      return [boxes.length, boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => a.left < b.right - 1
        && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)).length];
    """
    begin, end = "const [settings, done] = arguments; (async () => {", "})().then(done, done);"
    script = begin + overlaps.replace("arguments[0]", "settings") + end
    assert opened.execute_async_script(script, SPREAD) == [5, 0]


@contextmanager
def of_runs(browser: Chrome, home: Path, names: str) -> Iterator[None]:
    """Open the page of as many runs as there are letters."""
    rng = np.random.default_rng(1)
    for name in names:
        lines = (f"{t} Q0 d{d} 0 {rng.random()} {name}\n" for t in range(1, 9) for d in range(1, 40))
        (home / f"{name}.run").write_text("".join(lines))
    with served(home, sources=("c/qrels.txt", *(f"{name}.run" for name in names))) as address:
        look(browser)
        browser.get(address)
        wait(browser, f"{part('progress')}?.hidden")
        yield
        assert run(browser, f"return {part('problem')}.hidden")
        browser.get("about:blank")  # or it asks on once nobody answers
        assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


FIELDS = "[...document.querySelectorAll('.parameter input[type=number]')].map((own) => Number(own.value))"


def test_weights_of_runs_are_shares_of_one(browser: Chrome, home: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    with of_runs(browser, home, "wxyz"):
        assert run(browser, f"return {FIELDS}") == [0.25] * 4
        slider = browser.find_element("id", "slider-x")
        slider.send_keys(*[Keys.PAGE_UP] * 3)
        moved = wait(browser, FIELDS, lambda found: found[1] > 0.25)
        assert sum(moved) == pytest.approx(1.0, abs=3e-6)
        assert moved[0] == pytest.approx(moved[2], abs=2e-6)
        slider.send_keys(Keys.END)
        assert wait(browser, FIELDS, lambda found: found[1] == 1.0) == [0.0, 1.0, 0.0, 0.0]
        slider.send_keys(Keys.HOME)  # what nobody else had goes to all in equal parts
        found = wait(browser, FIELDS, lambda found: found[1] == 0.0)
        assert found == pytest.approx([1 / 3, 0.0, 1 / 3, 1 / 3], abs=1e-6)
        wait(browser, f"{part('progress')}.hidden")
        assert run(browser, "return document.querySelectorAll('.profile').length") == 4
        corners = "[...document.querySelectorAll('.corner')].map((own) => own.textContent)"
        assert wait(browser, corners, lambda texts: len(texts) == 3)[2] == "2 others"
        assert lowest_contrast(browser) >= 4.5


def test_three_runs_are_a_triangle(browser: Chrome, home: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    with of_runs(browser, home, "wxy"):
        corners = run(
            browser, "return [...document.querySelectorAll('.corner')].map((own) => own.textContent)"
        )
        assert corners == ["w", "x", "y"]
        assert "best drawn for AP" in options(browser)
        # Dragged past a corner, a run is alone; a third of the way up from the base's middle, it is not.
        box = "const own = document.querySelector('svg.surface').getScreenCTM()"
        place = f"{box}; return [own.a, own.e, own.f]"
        scale, left, top = run(browser, place)
        corner = (left + scale * 30, top + scale * 330)
        inside = (left + scale * 227, top + scale * (34 + 286 * 2 / 3))
        for at, expected in ((corner, [1, 0, 0]), (inside, [1 / 3] * 3)):
            mouse = ActionChains(browser)
            mouse.w3c_actions.pointer_action.move_to_location(*map(round, at))  # type: ignore[no-untyped-call]
            mouse.click().perform()
            found = wait(
                browser, f"[{FIELDS}, {expected[0]}]", lambda pair: abs(pair[0][0] - pair[1]) < 0.01
            )[0]
            assert found == pytest.approx(expected, abs=0.01)
        assert re.fullmatch(
            r"w 0\.\d{3}, x 0\.\d{3}, y 0\.\d{3}: 0\.\d{4}, .*the best.*",
            run(browser, f"return {part('under')}.textContent"),
        )
        run(browser, "document.querySelector('.handle').focus()")
        browser.switch_to.active_element.send_keys(Keys.ARROW_UP)
        higher = wait(browser, FIELDS, lambda own: own[2] > found[2])
        assert higher[2] == pytest.approx(found[2] + 0.01, abs=1e-5)
        cells = "document.querySelectorAll('.cell').length"
        assert run(browser, f"return {cells}") == 33 * 34 / 2
        texts = "[...document.querySelectorAll('svg.surface text')].map((own) => own.getBoundingClientRect())"
        within = f"{texts}.every((own) => own.left >= 0 && own.right <= document.documentElement.clientWidth)"
        assert run(browser, f"return {within}")


def test_two_runs_are_a_line(browser: Chrome, home: Path) -> None:
    with of_runs(browser, home, "wx"):
        assert run(browser, "return document.querySelectorAll('.profile').length") == 1
        assert sum(run(browser, f"return {FIELDS}")) == pytest.approx(1.0)
        assert run(browser, "return document.querySelector('svg.surface').hasAttribute('hidden')")


def test_choices_are_menus_and_another_combination_is_opened(browser: Chrome, home: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(lmtune.__file__).parents[1])}
    line = "tune c -m AP --folds 2 --grid 4x4 --restarts 0 --no-approx --ranknet-starts 1 --output chosen"
    chosen = ["--choose", "stemmer=porter,none", "--choose", "model=two-stage,bm25"]
    command = [sys.executable, "-m", "lmtune", *line.split(), *chosen]
    subprocess.run(command, cwd=home, env=environment, check=True, capture_output=True)
    final = json.loads((home / "chosen/tables.json").read_text())["final"]
    cases = [
        {"stemmer": one, "model": other} for one in ("porter", "none") for other in ("two-stage", "bm25")
    ]
    with served(home, "--from", "chosen") as address:
        look(browser)
        browser.get(address)
        menus = f"[...{part('menus')}?.querySelectorAll('select') ?? []]"
        values = f"Object.fromEntries({menus}.map((own) => [own.name, own.value]))"
        assert wait(browser, values) == cases[final]
        wait(browser, f"{part('comparison')}?.querySelectorAll('tbody tr').length")
        assert "Direct" in run(browser, f"return {part('marks')}.textContent")
        wanted = {**cases[final], "model": "bm25" if cases[final]["model"] == "two-stage" else "two-stage"}
        change = f"const menu = {menus}.find((own) => own.name === 'model'); menu.value = arguments[0];"
        run(browser, f"{change} menu.dispatchEvent(new Event('change'))", wanted["model"])
        wait(browser, "location.pathname", lambda path: path.endswith(f"/case-{cases.index(wanted)}/"))
        wait(browser, f"{part('comparison')}?.querySelectorAll('tbody tr').length")
        assert run(browser, f"return {values}") == wanted
        assert f"--model {wanted['model']}" in command_of(browser)
        assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]
