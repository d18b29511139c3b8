"""The kept pictures: small, described, shown with the commands that make them, and made by these."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
MAKER = runpy.run_path(str(FOLDER / "make.py"))
RESULTS = [ROOT / "FINDINGS.md", *ROOT.glob("experiments/*/README.md")]
SHOWN = re.compile(r"!\[([^\]]+)\]\([^)]*?pictures/([^)]+)\)")
IN_HTML = re.compile(r'<img .*?src="docs/pictures/([^"]+)" alt="([^"]+)">')
CAPTION = re.compile(r"^!\[[^\]]+\]\([^)]*?pictures/([^).]+)\.png\)\n\n(\*[^*]+\*)$", re.M)


def test_each_picture_is_small_and_shown_with_its_commands() -> None:
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in [ROOT / "README.md", ROOT / "docs/speed.md", *RESULTS]
    }
    shown = {name: alt for text in texts.values() for alt, name in SHOWN.findall(text)}
    shown |= dict(IN_HTML.findall(texts[ROOT / "README.md"]))
    kept = {name + Path(own.file).suffix for name, own in MAKER["KEPT"].items()}
    assert shown.keys() == kept == {path.name for path in FOLDER.iterdir() if path.suffix in (".png", ".svg")}
    for name, alt in shown.items():
        assert len(alt) > 40, name
        assert (FOLDER / name).stat().st_size < 80_000, name
    for path in RESULTS:
        captions = CAPTION.findall(texts[path])
        assert len(captions) == len(SHOWN.findall(texts[path])), path
        for name, caption in captions:
            for command in MAKER["KEPT"][name].commands:
                assert f"`{command}`" in " ".join(caption.split()), name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["growth", "fusion-topics", "burges"])
def test_a_picture_made_again_is_the_same(name: str, tmp_path: Path) -> None:
    if name == "burges" and "LMTUNE_TWICE" not in os.environ:
        pytest.skip("its experiment takes as long as the other pictures together: make attack")
    MAKER["make"](name, tmp_path / "again.png")
    pixels = []
    for path in (tmp_path / "again.png", FOLDER / f"{name}.png"):
        with Image.open(path) as image:
            pixels.append(np.asarray(image.convert("RGB"), np.float64))
    assert np.abs(pixels[0] - pixels[1]).mean() < 0.5
