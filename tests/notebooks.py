"""Notebooks executed, and kept with what they show: ``python tests/notebooks.py course/*.ipynb``."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any


def read(path: Path) -> Any:
    """Return a notebook."""
    import nbformat

    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def execute(notebook: Any, folder: Path) -> None:
    """Run all cells in a folder, and put what they show into the notebook."""
    import nbclient

    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", record_timing=False, resources=resources
    ).execute()


def digest(notebook: Any) -> str:
    """Return what tells whether a notebook's code has changed since it was executed."""
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\0".join(sources).encode()).hexdigest()[:16]


def keep(path: Path) -> None:
    """Execute a notebook at full size and write it with its outputs, and nothing of this machine."""
    import nbformat

    notebook = read(path)
    with tempfile.TemporaryDirectory() as folder:
        execute(notebook, Path(folder))
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "executed": digest(notebook),
    }
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        keep(Path(name))
