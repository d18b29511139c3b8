"""The page itself: its files, what it may load, and a copy that needs no server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from lmtune.errors import check_choice
from lmtune.exploring import answers
from lmtune.exploring.background import Turns, plan
from lmtune.exploring.view import View

MODULES = ("main", "source", "sliders", "surface", "topics", "document", "share")
"""The page's scripts; they import each other as ``explore/NAME``."""

FILES = {f"{name}.js": "text/javascript" for name in MODULES} | {"explore.css": "text/css"}
"""What the page loads, with its type."""

_NAMES = json.dumps({"imports": {f"explore/{name}": f"./{name}.js" for name in MODULES}})
_KEPT = 17
"""Settings along each parameter that a copy keeps, beside those of marks."""


def policy() -> str:
    """Return the content security policy of the page that a server shows: its own files alone."""
    names = base64.b64encode(hashlib.sha256(_NAMES.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{names}'; style-src 'self'; "
        "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def page() -> str:
    """Return the page that a server shows, which loads `FILES` from beside it."""
    return _render(names=_NAMES, style="", policy="", kept="")


def exported(view: View, turns: Turns, state: Mapping[str, Any]) -> str:
    """Return the page with what it shows of a fixed set of settings, as one file.

    Parameters
    ----------
    view : View
        What is shown.
    turns : Turns
        Settings are measured one by one, so that open pages are answered meanwhile.
    state : mapping
        The page's: ``setting``, ``pinned`` and ``measure``.

    Raises
    ------
    InputError
        For a setting outside the ranges, and a measure that is not shown.
    """
    check_choice("not among the page's measures", state["measure"], [str(own) for own in view.measures])
    setting, pinned = view.vector(state["setting"]), view.vector(state["pinned"])
    points, shape = plan(view, setting, _KEPT)
    marks = [view.vector(mark.setting) for mark in view.marks]
    kept = []
    for vector in np.vstack([setting, pinned, *marks, points]):
        named = view.space.named(vector)
        answer = turns.between(lambda named=named: answers.measured(view, named))  # type: ignore[misc]
        versus = turns.between(lambda named=named: answers.compared(view, named, state["pinned"]))  # type: ignore[misc]
        kept.append({"measured": answer, "compared": versus})
    content = {
        "description": answers.description(view) | {"hasTexts": False},
        "state": dict(state),
        "shape": list(shape),
        "answers": kept,
    }
    sources = {name: _site(f"{name}.js").encode() for name in MODULES}
    named_sources = {
        f"explore/{name}": f"data:text/javascript;base64,{base64.b64encode(source).decode()}"
        for name, source in sources.items()
    }
    return _render(
        names=json.dumps({"imports": named_sources}),
        style=_site("explore.css"),
        policy="default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'",
        kept=json.dumps(content).replace("<", "\\u003c"),
    )


@cache
def _site(name: str) -> str:
    return (files("lmtune.exploring") / "site" / name).read_text(encoding="utf-8")


def _render(**parts: str) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    safe = {name: Markup(part) if name != "policy" else part for name, part in parts.items()}
    return environment.from_string(_site("explore.html.j2")).render(**safe)
