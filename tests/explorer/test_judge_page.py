"""``lmtune judge --page`` as a person has it: in a real browser, by keys, saved as one goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_explore_page import NASTY, look, part, run, wait

import lmtune

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.slow
WHERE = "to-judge.txt"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "c").mkdir()
    rows = [{"id": f"d{d}", "contents": f"Firsts, number{d} {'long ' * 200}{NASTY}"} for d in range(9)]
    (tmp_path / "c/docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "c/topics.tsv").write_text(f"1\tthe first {NASTY}\n2\tthe second\n")
    qrels = "1 0 d0 1\n2 0 d1 1\n"
    (tmp_path / "c/qrels.txt").write_text(qrels)
    (tmp_path / "qrels.txt").write_text(qrels)
    lines = [f"{t} Q0 d{d} {d + 1} {9 - d} up\n" for t in (1, 2) for d in range(6)]
    (tmp_path / "up.run").write_text("".join(lines))
    return tmp_path


@contextmanager
def served(home: Path, *words: str) -> Iterator[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(lmtune.__file__).parents[1])}
    command = [sys.executable, "-m", "lmtune", "judge", "qrels.txt", "up.run", "--output", WHERE, "-n", "4"]
    running = subprocess.Popen(
        [*command, "--page", "--no-browser", *words],
        cwd=home,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    yield next(line.strip() for line in running.stdout if line.startswith("http://"))
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert said.splitlines()[-1].endswith(f"of 4 pairs of {WHERE} are judged")


def labels(home: Path) -> list[str]:
    return [line.split()[3] for line in (home / WHERE).read_text().splitlines()]


def until(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.05)


def begin(browser: Chrome, address: str) -> None:
    look(browser)
    browser.get(address)
    wait(browser, f"{part('text')}?.textContent")


def press(browser: Chrome, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def test_keys_label_move_and_undo_and_it_is_gone_on_with(browser: Chrome, home: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    progress = f"{part('progress')}.textContent"
    with served(home, "--collection", "c") as address:
        begin(browser, address)
        docnos = [line.split()[2] for line in (home / WHERE).read_text().splitlines()]
        assert f"number{docnos[0][1:]} " in run(browser, f"return {part('text')}.textContent")
        assert "the first" in run(browser, f"return {part('topic')}.textContent")
        assert not run(browser, "return document.querySelectorAll('img').length")
        assert browser.title == f"Judge pairs: {WHERE} · lmtune judge"
        assert run(browser, "return document.querySelector('h1').textContent") == f"Judge pairs: {WHERE}"
        marks = f"[...{part('text')}.querySelectorAll('mark')].map((own) => own.textContent)"
        assert "Firsts" in run(browser, f"return {marks}")  # the topic's "first", stemmed
        assert "long" not in run(browser, f"return {marks}")
        press(browser, "3", "0", "2")  # at once: none is overtaken
        until(lambda: labels(home) == ["3", "0", "2", "?"])
        assert run(browser, f"return {progress}") == "Pair 4 · 3 of 4 judged"
        press(browser, "u")
        until(lambda: labels(home) == ["3", "0", "?", "?"])
        assert run(browser, f"return {progress}") == "Pair 3 · 2 of 4 judged"
        press(browser, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
        assert run(browser, f"return {progress}") == "Pair 1 · 2 of 4 judged"
        pressed = "return document.querySelector('[aria-pressed=true]').textContent"
        assert run(browser, pressed) == "3 perfectly relevant"
        press(browser, "7", "x", "1")
        until(lambda: labels(home) == ["1", "0", "?", "?"])
    with served(home) as address:
        begin(browser, address)
        assert run(browser, f"return {progress}") == "Pair 3 · 2 of 4 judged"
        assert "--collection" in run(browser, f"return {part('text')}.textContent")
        press(browser, "2", "2")
        until(lambda: labels(home) == ["1", "0", "2", "2"])
        assert run(browser, f"return {progress}").endswith("4 of 4 judged · all judged")
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def test_what_cannot_be_saved_is_said(browser: Chrome, home: Path) -> None:
    with served(home) as address:
        begin(browser, address)
        whole = (home / WHERE).read_text()
        (home / WHERE).write_text("9 0 other ?\n")
        press(browser, "1")
        said = wait(browser, f"!{part('problem')}.hidden && {part('problem')}.textContent")
        assert said.startswith("not saved: ")
        assert "no such pair" in said
        assert "0 of 4 judged" in run(browser, f"return {part('progress')}.textContent")
        (home / WHERE).write_text(whole)
    browser.get_log("browser")  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_by_day_and_night(browser: Chrome, home: Path, width: int, scheme: str) -> None:
    with served(home, "--collection", "c") as address:
        begin(browser, address)
        look(browser, width=width, scheme=scheme)
        assert run(browser, "return document.documentElement.scrollWidth") <= width
        if shots := os.environ.get("SHOTS"):
            browser.save_screenshot(f"{shots}/judge-{width}-{scheme}.png")
        button = browser.find_elements("css selector", "[data-part=labels] button")[1]
        button.click()
        until(lambda: labels(home)[0] == "1")
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]
