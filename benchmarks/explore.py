"""Measure the latency of dragging a slider on the page of ``lmtune explore``, in a real browser.

python benchmarks/explore.py pydocs FOLDER
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import lmtune

DRAG = """
const slider = document.querySelector("#slider-mu");
slider.value = arguments[0];
slider.dispatchEvent(new Event("input"));
"""
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking")


def latencies(address: str, drags: int) -> list[float]:
    """Drag the slider of mu step by step, waiting for each response; return the latencies in ms."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ARGUMENTS:
        options.add_argument(argument)
    with tempfile.TemporaryDirectory() as profile:
        options.add_argument(f"--user-data-dir={profile}")
        browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            browser.get(address)
            # Wait until the surface is complete, so that only drags are measured.
            shown = "return document.querySelector('[data-part=progress]')?.hidden && !!window.lmtune"
            while not browser.execute_script(shown):
                time.sleep(0.2)
            answered = "return window.lmtune.latencies.length"
            before = int(browser.execute_script(answered))
            for step in range(drags):
                browser.execute_script(DRAG, 300 + step)
                while int(browser.execute_script(answered)) <= before + step:
                    time.sleep(0.005)
            return list(browser.execute_script(f"return window.lmtune.latencies.slice({before})"))
        finally:
            browser.quit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--drags", type=int, default=100)
    arguments = parser.parse_args()
    environment = {**os.environ, "PYTHONPATH": str(Path(lmtune.__file__).parents[1])}
    for name in arguments.collections:
        command = [sys.executable, "-m", "lmtune", "explore", name, "--no-browser", "--quiet"]
        running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert running.stdout is not None
        found = latencies(running.stdout.readline().strip(), arguments.drags)
        half, most = np.percentile(found, [50, 95])
        print(f"{name}: {len(found)} drags, median {half:.0f} ms, 95th percentile {most:.0f} ms")
        running.send_signal(signal.SIGINT)
        running.wait()


if __name__ == "__main__":
    main()
