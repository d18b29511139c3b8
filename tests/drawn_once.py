"""Once imported, pictures of equal results are drawn once; where `make attack` sets ``LMTUNE_KILLS``, anew.

For commands that are tried for what becomes of their files; that drawing repeats itself others test.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lmtune.report import figures, page
from lmtune.report.figures import drawing, style

_draw = drawing.draw
_drawn: dict[tuple[bytes, ...], list[Any]] = {}


def _once(path: Path, results: Any) -> Iterator[Any]:
    tables = tuple(file.read_bytes() for file in sorted(path.rglob("*.csv")))
    if tables not in _drawn:
        _drawn[tables] = list(_draw(path, results))
    yield from _drawn[tables]


if "LMTUNE_KILLS" not in os.environ:
    render = functools.cache(style.render)
    for module, name, changed in (
        (figures, "draw", _once),
        (page, "draw", _once),
        (page, "render", render),
        (style, "render", render),
    ):
        setattr(module, name, changed)
