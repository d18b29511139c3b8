"""Synthetic collections by name, which the benchmarks make."""

from __future__ import annotations

from importlib import import_module

PREFIX = "synthetic:"


def folder_of(name: str) -> str:
    """Return the folder of a collection ``synthetic:NAME``, written where it is missing; else the name."""
    if not name.startswith(PREFIX):
        return name
    # By name: mypy knows the benchmarks, which are scripts, as modules of their own.
    made = import_module("benchmarks.synthetic").collection(name.removeprefix(PREFIX))
    return str(made)
