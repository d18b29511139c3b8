"""Make the pictures of README.md, FINDINGS.md and the experiments by the commands of their captions.

``make pictures`` makes all of them, ``python docs/pictures/make.py NAME...`` some.
"""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from lmtune.io.files import atomic_write

FOLDER = Path(__file__).parent
WIDTH, COLOURS = 1400, 96  # twice the width of a page's column, and few enough for a small file
# About where direct search ends, beside the default, and a topic that gains by it.
VIEW = "#lambda=0.41&mu=47&topic=126&pinned.lambda=0&pinned.mu=1000"
TUNE = "lmtune tune pydocs -m AP --output DIR"


class Kept(NamedTuple):
    """How to make a picture: commands, with DIR for a new folder, and the file that they write there.

    If the last command opens a page, the file is a screenshot of its `VIEW`.
    """

    commands: tuple[str, ...]
    file: str

    @property
    def page(self) -> bool:
        """Whether the last command opens a page."""
        return self.commands[-1].startswith("lmtune explore")


KEPT = {
    "estimation": Kept(
        (
            "python -m experiments.estimation.mixed_models docs/pictures/estimation.csv "
            "--draw DIR/estimation.png",
        ),
        "estimation.png",
    ),
    "growth": Kept(
        ("python benchmarks/growth.py docs/pictures/growth.csv --draw DIR/growth.png",), "growth.png"
    ),
    "power": Kept(("python -m experiments.estimation.power --output DIR",), "power.png"),
    "answer": Kept((TUNE, "lmtune plot DIR --format png"), "pictures/pydocs-answer.png"),
    "gains": Kept((TUNE, "lmtune plot DIR --format png"), "pictures/pydocs-AP-gains.png"),
    "weights": Kept(
        (
            "lmtune search pydocs --model bm25 --set k1=0.9 --set b=0.4 --hits 100 --output DIR/bm25.run",
            "lmtune search pydocs --set lambda=0 --set mu=50 --hits 100 --output DIR/dirichlet.run",
            "lmtune fuse qrels/qrels.pydocs.txt DIR/bm25.run DIR/dirichlet.run "
            "--method linear,rrf --plot DIR",
        ),
        "nDCG@10-linear-weights.svg",
    ),
    "explore": Kept((TUNE, "lmtune explore pydocs --from DIR --no-browser"), "page.png"),
    "yue": Kept(("python -m experiments.smoothness --networks linear --output DIR",), "smoothness.png"),
    "burges": Kept(("python -m experiments.lambdas --quick --output DIR",), "no-cost.png"),
    "bruch": Kept(("python -m experiments.approxndcg.alpha --output DIR",), "alpha.png"),
    "fusion-topics": Kept(
        (
            "python -m experiments.fusion.topics docs/pictures/DL19-nDCG@10.tsv "
            "docs/pictures/Robust04-AP.tsv --draw DIR/fusion-topics.png",
        ),
        "fusion-topics.png",
    ),
    "qiu": Kept(
        ("python -m experiments.song.full_items --gammas 0.3 --output DIR",), "full-items-courses.png"
    ),
}


def make(name: str, target: Path) -> None:
    """Make a picture and save it.

    Parameters
    ----------
    name : str
        Of `KEPT`.
    target : pathlib.Path
        Where to write it, a PNG.

    Raises
    ------
    subprocess.CalledProcessError
        Where a command fails.
    """
    kept = KEPT[name]
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder, "made", kept.file)
        words = [command.replace("DIR", f"{folder}/made").split() for command in kept.commands]
        program = {"lmtune": ["-m", "lmtune"], "python": []}
        *before, last = [[sys.executable, *program[first], *own] for first, *own in words]
        for command in before if kept.page else [*before, last]:
            subprocess.run(command, check=True)
        if kept.page:
            photograph(last, drawn)
        keep(drawn, target)


def photograph(command: list[str], target: Path) -> None:
    """Save a screenshot of the page whose address a command prints, after its surface is computed."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService
    from selenium.webdriver.support.ui import WebDriverWait

    options = ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},1000"):
        options.add_argument(argument)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        address = serving.stdout.readline().strip()
        try:
            with Chrome(options, ChromeService(shutil.which("chromedriver"))) as browser:
                browser.get(address + VIEW)
                measured = "return document.querySelector('[data-part=progress]')?.hidden"
                WebDriverWait(browser, 1800).until(lambda _: browser.execute_script(measured))
                browser.save_screenshot(str(target))
        finally:
            serving.send_signal(signal.SIGINT)


def keep(drawn: Path, target: Path) -> None:
    """Write a PNG in a small size; copy an SVG."""
    if drawn.suffix == ".svg":
        with atomic_write(target, mode="binary") as stream:
            stream.write(drawn.read_bytes())
        return
    with Image.open(drawn) as image:
        size = WIDTH, round(image.height * WIDTH / image.width)
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True
    )
    with atomic_write(target, mode="binary") as stream:
        stream.write(out.getvalue())


if __name__ == "__main__":
    for wanted in sys.argv[1:] or KEPT:
        make(wanted, FOLDER / (wanted + Path(KEPT[wanted].file).suffix))
