"""The laboratory's experiments by name."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from experiments.experiment import Experiment
from lmtune.errors import MissingExtraError, check_choice

# Modules of `experiments`, imported when asked for; their classes; whether they need torch.
_EXPERIMENTS: dict[str, tuple[str, str, bool]] = {
    "parameters": ("parameters", "Parameters", False),
    "estimation": ("estimation", "Estimation", False),
    "power": ("estimation", "Power", False),
    "surrogates": ("surrogates", "Surrogates", False),
}

_PAPERS = {"metzler": ("papers.metzler", "Metzler", False)}

NAMES = tuple(_EXPERIMENTS)
"""All experiments, in the order in which they are run together."""

PAPERS = tuple(_PAPERS)
"""Papers whose table there is, as an experiment each."""

ALL = _EXPERIMENTS | _PAPERS
"""The module, class and need of each."""


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
    check_choice("no such experiment", name, ALL)
    module, kind, neural = ALL[name]
    if neural and any(find_spec(needed) is None for needed in ("torch", "safetensors")):
        raise MissingExtraError(f"the experiment {name}", "neural")
    experiment: type[Experiment] = getattr(import_module(f"experiments.{module}"), kind)
    return experiment
