"""Synthetic collections by name; `benchmarks.synthetic` generates them."""

from __future__ import annotations

from importlib import import_module

PREFIX = "synthetic:"


def folder_of(name: str) -> str:
    """Return the folder of a collection ``synthetic:NAME``, generating it if missing; return others as is."""
    if not name.startswith(PREFIX):
        return name
    # Imported by name because mypy checks the benchmarks as scripts, not as a package.
    made = import_module("benchmarks.synthetic").collection(name.removeprefix(PREFIX))
    return str(made)
