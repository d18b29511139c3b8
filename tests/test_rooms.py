"""Imports go one way: down the map of the house, and never in a circle."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lmtune

ROOT = Path(lmtune.__file__).parent

# From the ground up: a room imports only from itself and from those before it.
ROOMS = (
    "_version _moved errors arrays showing options progress strict_json threads parallel compiled io "
    "devices index collections models candidates measures losses tuning fusion rerank report engines "
    "pyterrier explorer cli __main__"
).split()

# Whatever the order above may become.
NEVER = {
    "measures": {"rerank", "tuning"},
    "losses": {"rerank", "tuning"},
    "tuning": {"rerank"},
    "rerank": {"tuning"},
    "candidates": {"measures"},
    "models": {"tuning"},
    "io": {"collections"},
    "report": {"cli"},
}


def import_graph(root: Path) -> dict[str, set[str]]:
    """Return which modules of a package each one imports when it runs, in functions too."""
    files = {
        ".".join([root.name, *path.relative_to(root).with_suffix("").parts]).removesuffix(".__init__"): path
        for path in root.rglob("*.py")
    }
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in files.items()}
    return {name: set(_imports(tree, files.keys())) - {name} for name, tree in trees.items()}


def _imports(node: ast.AST, modules: Collection[str]) -> Iterator[str]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    names: list[str] = []
    if isinstance(node, ast.ImportFrom):
        assert node.module is not None, "imports name the package"
        parts = [f"{node.module}.{alias.name}" for alias in node.names]
        names = [part if part in modules else node.module for part in parts]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    yield from (name for name in names if name in modules)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, modules)


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def broken(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the imports between rooms that go up, or that are never allowed."""
    pairs = [(name, target) for name, targets in graph.items() for target in targets]
    between = [(a, b, room(a), room(b)) for a, b in pairs if room(a) and room(b) and room(a) != room(b)]
    return [
        (a, b)
        for a, b, above, below in between
        if ROOMS.index(below) > ROOMS.index(above) or below in NEVER.get(above, ())
    ]


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return one circle of modules, empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    return import_graph(ROOT)


def test_every_module_is_in_a_room(graph: dict[str, set[str]]) -> None:
    assert {room(module) for module in graph} == {*ROOMS, ""}
    assert set(ROOMS) > NEVER.keys() | set().union(*NEVER.values())


def test_imports_go_one_way(graph: dict[str, set[str]]) -> None:
    assert broken(graph) == []


def test_there_is_no_circle(graph: dict[str, set[str]]) -> None:
    assert circle(graph) == []


def test_the_wall_holds(tmp_path: Path) -> None:
    house = {
        "__init__.py": "",
        "errors.py": "",
        "io/__init__.py": "",
        "io/deep/__init__.py": "",
        "io/deep/one.py": "def f():\n    from house.io.deep import two\n",
        "io/deep/two.py": "import house.io.deep.one\nimport house.errors\n",
        "models/__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import house.cli\n",
        "models/wrong.py": "from house.tuning import grid\n",
        "tuning/grid.py": "from house.models import wrong as _\n",
        "cli.py": "from house import errors\n",
    }
    for name, text in house.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    found = import_graph(tmp_path / "house")
    assert found["house.cli"] == {"house.errors"}
    assert found["house.models"] == set()
    assert broken(found) == [("house.models.wrong", "house.tuning.grid")]
    assert circle(found)
    del found["house.io.deep.one"], found["house.tuning.grid"]
    assert circle(found) == []
