"""Pages of the site for the course's notebooks: cells and outputs."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from math_extension import drawn
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

COURSE = Path(__file__).resolve().parents[1] / "course"
NOTEBOOKS = sorted(COURSE.glob("*.ipynb"))

_FORMULA = re.compile(r"\$([^$]+)\$")
# Of pandas' tables; without it the site's own style holds for them, which lets wide ones scroll.
_STYLE = re.compile(r"<style.*?</style>\s*|(?<=<table) border=\"1\" class=\"dataframe\"", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, their pictures, and the notebooks for download."""
    for path in NOTEBOOKS:
        pictures: list[bytes] = []
        text = "\n\n".join(blocks(path, pictures))
        files.append(File.generated(config, f"course/{path.stem}.md", content=text))
        files.append(File.generated(config, f"course/{path.name}", abs_src_path=str(path)))
        for number, picture in enumerate(pictures, 1):
            files.append(File.generated(config, f"course/{path.stem}-{number}.png", content=picture))
    return files


def blocks(path: Path, pictures: list[bytes]) -> Iterator[str]:
    """Yield a notebook's cells as Markdown, with answers folded; collect their pictures."""
    heading, notebook = "", nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            heading = (re.findall(r"^#+ (.+)$", cell.source, re.M) or [heading])[-1]
            text = _FORMULA.sub(lambda match: drawn(match[1], "inline"), cell.source)
            yield text.replace("<details>", '<details markdown="1">')
        else:
            shown = [f"```python\n{cell.source}\n```"]
            shown += [block(output, path.stem, heading, pictures) for output in cell.outputs]
            if "answer" in cell.metadata.get("tags", []):
                title, _, shown[0] = shown[0].partition("\n")[2].partition("\n")
                shown[0] = f"```python\n{shown[0]}"
                summary = title.removeprefix("# @title ")
                shown = [f'<details markdown="1">\n<summary>{summary}</summary>', *shown, "</details>"]
            yield "\n\n".join(shown)
        if not place:
            yield f'<a href="{path.name}">This notebook</a>, to run it yourself.'


def block(output: Any, stem: str, heading: str, pictures: list[bytes]) -> str:
    """Return an output as Markdown."""
    data = output.get("data", {})
    if "image/png" in data:
        pictures.append(base64.b64decode(data["image/png"]))
        return f"![{heading}]({stem}-{len(pictures)}.png)"
    if "text/html" in data:
        return _STYLE.sub("", data["text/html"])
    return f"```text\n{(output.get('text') or data['text/plain']).rstrip()}\n```"
