"""The pictures that README.md and FINDINGS.md keep, made by the very commands of their captions.

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

from lmtune.formats.files import atomic_write

FOLDER = Path(__file__).parent
WIDTH, COLOURS = 1400, 96  # twice the width of a page's column, and few enough for a small file
VIEW = "#lambda=0.41&mu=47&topic=126"  # about where direct search ends, and a topic that gains by it


class Kept(NamedTuple):
    """What makes a picture: commands, in which DIR is a new folder, and the file they leave there.

    Without a file the last command opens a page, and the picture is `VIEW` of that.
    """

    commands: tuple[str, ...]
    file: str | None = None

    @property
    def kind(self) -> str:
        """Return the picture's suffix."""
        return Path(self.file or "page.png").suffix


TUNE = "lmtune tune pydocs -m AP --output DIR"
KEPT = {
    "burges": Kept(("lmtune lab lambdas --quick --output DIR",), "walk.png"),
    "surface": Kept((TUNE, "lmtune plot DIR --format png"), "pictures/pydocs-AP-fold1-surface.png"),
    "weights": Kept(
        (
            "lmtune search pydocs --model bm25 --k1 0.9 --b 0.4 --hits 100 --output DIR-bm25",
            "lmtune search pydocs --lambda 0 --mu 50 --hits 100 --output DIR-dirichlet",
            "lmtune fuse qrels/qrels.pydocs.txt DIR-bm25 DIR-dirichlet --method linear,rrf --plot DIR",
        ),
        "nDCG@10-linear-weights.svg",
    ),
    "explore": Kept((TUNE, "lmtune explore pydocs --from DIR --no-browser")),
}


def make(name: str, target: Path) -> None:
    """Make a picture, small enough to be kept.

    Parameters
    ----------
    name : str
        Of `KEPT`.
    target : pathlib.Path
        Where to write it, a PNG or SVG.

    Raises
    ------
    subprocess.CalledProcessError
        Where a command fails.
    """
    kept = KEPT[name]
    with tempfile.TemporaryDirectory() as folder:
        split = [command.replace("DIR", f"{folder}/made").split()[1:] for command in kept.commands]
        *before, last = [[sys.executable, "-m", "lmtune", *words] for words in split]
        for command in before:
            subprocess.run(command, check=True)
        if kept.file is None:
            drawn = photographed(last)
        else:
            subprocess.run(last, check=True)
            drawn = Path(folder, "made", kept.file).read_bytes()
    with atomic_write(target, mode="binary") as stream:
        stream.write(drawn if kept.kind == ".svg" else smaller(drawn))


def smaller(drawn: bytes) -> bytes:
    """Return a PNG as one of `WIDTH` pixels and `COLOURS` colours."""
    with Image.open(io.BytesIO(drawn)) as image:
        height = round(image.height * WIDTH / image.width)
        small = image.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True
    )
    return out.getvalue()


def photographed(command: list[str]) -> bytes:
    """Return the page that a command opens and prints the address of, as a PNG."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService
    from selenium.webdriver.support.ui import WebDriverWait

    options = ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},1000"):
        options.add_argument(argument)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        address = serving.stdout.readline().strip()
        with Chrome(options, ChromeService(shutil.which("chromedriver"))) as browser:
            browser.get(address + VIEW)
            measured = "return document.querySelector('[data-part=progress]')?.hidden"
            WebDriverWait(browser, 600).until(lambda _: browser.execute_script(measured))
            drawn: bytes = browser.get_screenshot_as_png()
        serving.send_signal(signal.SIGINT)
    return drawn


if __name__ == "__main__":
    for wanted in sys.argv[1:] or KEPT:
        make(wanted, FOLDER / f"{wanted}{KEPT[wanted].kind}")
