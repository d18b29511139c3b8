"""The pictures that README.md and FINDINGS.md keep, made by the very commands of their captions.

``make pictures`` makes all of them, ``python docs/pictures/make.py NAME...`` some.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from lmtune.formats.files import atomic_write

FOLDER = Path(__file__).parent
WIDTH, COLOURS = 1400, 48  # twice the width of a page's column, and few enough for a small file


class Kept(NamedTuple):
    """What makes a picture: commands, in which DIR is a new folder, and the file they leave there."""

    commands: tuple[str, ...]
    file: str


KEPT = {
    "metzler": Kept(("lmtune lab estimators --output DIR",), "losses-small.png"),
    "yue": Kept(("lmtune lab smoothness --networks linear --output DIR",), "smoothness.png"),
    "burges": Kept(("lmtune lab lambdas --quick --output DIR",), "walk.png"),
    "bruch": Kept(("lmtune lab alpha --output DIR",), "alpha.png"),
    "qiu": Kept(("lmtune lab full-items --quick --output DIR",), "full-items.png"),
}


def make(name: str, target: Path) -> None:
    """Make a picture and keep it.

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
    with tempfile.TemporaryDirectory() as folder:
        for command in KEPT[name].commands:
            words = [word.replace("DIR", f"{folder}/made") for word in command.split()[1:]]
            subprocess.run([sys.executable, "-m", "lmtune", *words], check=True)
        keep(Path(folder, "made", KEPT[name].file), target)


def keep(drawn: Path, target: Path) -> None:
    """Write a picture small."""
    with Image.open(drawn) as image:
        size = WIDTH, round(image.height * WIDTH / image.width)
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        out, "PNG", optimize=True
    )
    with atomic_write(target, mode="binary") as stream:
        stream.write(out.getvalue())


if __name__ == "__main__":
    for wanted in sys.argv[1:] or KEPT:
        make(wanted, FOLDER / f"{wanted}.png")
