r"""Pictures of the concept pages, drawn from the built-in collection when the site is built, and formulas.

A page writes a formula as LaTeX, between ``\(`` and ``\)`` in a line, ``\[`` and ``\]`` as a block.
"""

from __future__ import annotations

import re

import certificate_pictures
import gradients_pictures
import smoothing_pictures
import song_pictures
from math_extension import drawn
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from lmtune.report.figures import render

_FORMULA = re.compile(r"\\([\[(])(.+?)\\[\])]", re.DOTALL)
PAGES = smoothing_pictures, gradients_pictures, certificate_pictures, song_pictures


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add them."""
    for page in PAGES:
        for name, figure in page.pictures().items():
            path = f"concepts/{name}.svg"
            files.append(File.generated(config, path, content=render(figure, "svg")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turn the concept pages' formulas into MathML."""
    if not page.file.src_uri.startswith("concepts/"):
        return markdown
    return _FORMULA.sub(lambda match: drawn(match[2], "inline" if match[1] == "(" else "block"), markdown)
