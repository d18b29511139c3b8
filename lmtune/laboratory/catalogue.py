"""The laboratory's experiments by name."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from lmtune.errors import MissingExtraError, check_choice
from lmtune.laboratory.experiment import Experiment

# Modules of `lmtune.laboratory`, imported when asked for; their classes; whether they need torch.
_EXPERIMENTS: dict[str, tuple[str, str, bool]] = {
    "map-smoothness": ("smoothing.map_smoothness", "MapSmoothness", False),
    "map-optimality": ("smoothing.map_optimality", "MapOptimality", False),
    "estimators": ("smoothing.estimators", "Estimators", False),
    "parameters": ("smoothing.parameters", "Parameters", False),
    "surrogates": ("smoothing.surrogates", "Surrogates", False),
    "spsa": ("spsa.spsa", "SpsaVersusFdsa", False),
    "smoothness": ("spsa.smoothness", "Smoothness", True),
    "optimality": ("spsa.optimality", "Optimality", True),
    "lambdas": ("lambdas.experiment", "LambdaFunctions", False),
    "alpha": ("surrogates.alpha", "Alpha", True),
    "depth": ("surrogates.depth", "Depth", True),
    "sets": ("surrogates.sets", "Sets", True),
    "gamma": ("surrogates.gamma", "Gamma", True),
    "warm-up": ("surrogates.warm_up", "WarmUp", True),
    "k-song": ("surrogates.k_song", "KSongForms", True),
    "full-items": ("surrogates.full_items", "FullItems", True),
}

_PAPERS = {
    "bruch": ("papers.bruch", "Bruch", True),
    "qiu": ("papers.qiu", "Qiu", True),
    "yue": ("papers.yue", "SpsaOnNdcg", True),
    "metzler": ("papers.metzler", "Metzler", False),
}

NAMES = tuple(_EXPERIMENTS)
"""All experiments, in the order in which they are run together."""

PAPERS = tuple(_PAPERS)
"""Papers whose table there is, as an experiment each."""


_ALL = _EXPERIMENTS | _PAPERS


def find_experiment(name: str) -> type[Experiment]:
    """Return an experiment, whose arguments are its options.

    Parameters
    ----------
    name : str
        One of `NAMES` or `PAPERS`.

    Raises
    ------
    InputError
        For another name, or where the extra ``neural`` is needed and not installed.
    """
    check_choice("no such experiment", name, _ALL)
    module, kind, neural = _ALL[name]
    if neural and any(find_spec(needed) is None for needed in ("torch", "safetensors")):
        raise MissingExtraError(f"the experiment {name}", "neural")
    found: type[Experiment] = getattr(import_module(f"lmtune.laboratory.{module}"), kind)
    return found


def summary(name: str) -> str:
    """Say what an experiment shows: the first line of its module, which is not imported for it."""
    source = Path(__file__).parent / f"{_ALL[name][0].replace('.', '/')}.py"
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
    return (text or "").partition("\n")[0].rstrip(".")
