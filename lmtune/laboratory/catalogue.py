"""The laboratory's experiments by name."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lmtune.errors import InputError, MissingExtraError
from lmtune.laboratory.experiment import Experiment

# Modules of `lmtune.laboratory.experiments`, imported when asked for; whether they need torch.
_MODULES: dict[str, tuple[str, bool]] = {
    "map-smoothness": ("map_smoothness", False),
    "map-optimality": ("map_optimality", False),
    "estimators": ("estimators", False),
    "spsa": ("spsa", False),
    "spsa-ndcg": ("spsa_ndcg", True),
    "smoothness": ("smoothness", True),
    "optimality": ("optimality", True),
    "lambdas": ("lambdas", False),
    "alpha": ("alpha", True),
    "depth": ("depth", True),
    "losses": ("losses", True),
    "gamma": ("gamma", True),
    "warm-up": ("warm_up", True),
    "k-song": ("k_song", True),
    "full-items": ("full_items", True),
}

NAMES = tuple(_MODULES)
"""All experiments, in the order in which they are run together."""


def find_experiment(name: str) -> Experiment[Any]:
    """Return an experiment.

    Parameters
    ----------
    name : str
        One of `NAMES`.

    Raises
    ------
    InputError
        For another name, or where the extra ``neural`` is needed and not installed.
    """
    if name not in _MODULES:
        raise InputError("no such experiment", value=name, accepted=", ".join(NAMES))
    module, neural = _MODULES[name]
    if neural and any(find_spec(needed) is None for needed in ("torch", "safetensors")):
        raise MissingExtraError(f"lab {name}", "neural")
    found: Experiment[Any] = import_module(f"lmtune.laboratory.experiments.{module}").EXPERIMENT
    return found


def summary(name: str) -> str:
    """Say what an experiment shows: the first line of its module, which is not imported for it."""
    source = find_spec(f"lmtune.laboratory.experiments.{_MODULES[name][0]}")
    assert source is not None
    assert source.origin is not None
    text = ast.get_docstring(ast.parse(Path(source.origin).read_text(encoding="utf-8")))
    return (text or "").partition("\n")[0].rstrip(".")
