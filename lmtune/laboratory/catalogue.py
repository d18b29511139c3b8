"""The laboratory's experiments by name."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lmtune.errors import InputError, MissingExtraError
from lmtune.laboratory.experiment import Experiment

# Modules of `lmtune.laboratory`, imported when asked for; whether they need torch.
_MODULES: dict[str, tuple[str, bool]] = {
    "map-smoothness": ("smoothing.map_smoothness", False),
    "map-optimality": ("smoothing.map_optimality", False),
    "estimators": ("smoothing.estimators", False),
    "spsa": ("spsa.spsa", False),
    "spsa-ndcg": ("spsa.spsa_ndcg", True),
    "smoothness": ("spsa.smoothness", True),
    "optimality": ("spsa.optimality", True),
    "lambdas": ("lambdas.experiment", False),
    "alpha": ("surrogates.alpha", True),
    "depth": ("surrogates.depth", True),
    "losses": ("surrogates.losses", True),
    "gamma": ("surrogates.gamma", True),
    "warm-up": ("surrogates.warm_up", True),
    "k-song": ("surrogates.k_song", True),
    "full-items": ("surrogates.full_items", True),
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
    found: Experiment[Any] = import_module(f"lmtune.laboratory.{module}").EXPERIMENT
    return found


def summary(name: str) -> str:
    """Say what an experiment shows: the first line of its module, which is not imported for it."""
    source = Path(__file__).parent / f"{_MODULES[name][0].replace('.', '/')}.py"
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
    return (text or "").partition("\n")[0].rstrip(".")
