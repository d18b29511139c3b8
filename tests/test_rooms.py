"""Imports go one way: from each room only to rooms above it in the map of the house."""

from __future__ import annotations

import ast
from pathlib import Path

import lmtune

ROOT = Path(lmtune.__file__).parent
ROOMS = [
    "errors",
    "options",
    "threads",
    "processes",
    "compiled",
    "gradient_free",
    "formats",
    "lucene",
    "datasets",
    "indexing",
    "candidates",
    "models",
    "measures",
    "tuning",
    "reranking",
    "reporting",
    "laboratory",
    "cli",
]


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lmtune."):
            names.add(node.module.split(".")[1])
    return names


def test_every_file_is_in_a_room() -> None:
    assert {room(path) for path in ROOT.rglob("*.py")} == {*ROOMS, "__init__"}


def test_imports_only_go_up() -> None:
    wrong = [
        (str(path.relative_to(ROOT)), name)
        for path in sorted(ROOT.rglob("*.py"))
        if room(path) != "__init__"
        for name in imported(path)
        if ROOMS.index(name) > ROOMS.index(room(path))
    ]
    assert wrong == []


def test_no_circle_within_a_room() -> None:
    for name in ROOMS:
        modules = {p.stem: p for p in (ROOT / name).glob("*.py") if p.stem != "__init__"}
        uses = {
            stem: {
                node.module.split(".")[2]
                for node in ast.parse(path.read_text(encoding="utf-8")).body
                if isinstance(node, ast.ImportFrom)
                and node.module is not None
                and node.module.startswith(f"lmtune.{name}.")
            }
            for stem, path in modules.items()
        }
        while free := [stem for stem, used in uses.items() if not used & uses.keys()]:
            for stem in free:
                del uses[stem]
        assert not uses, f"circle in lmtune/{name}: {sorted(uses)}"
