"""Named models: a formula, which of its parameters are free, and where to look for them."""

from __future__ import annotations

from dataclasses import dataclass

from lmtune.candidates.formula import LUCENE_DIRICHLET, TWO_STAGE, Formula
from lmtune.errors import InputError


@dataclass(frozen=True)
class Model:
    """A formula and the parameters that it leaves free.

    Attributes
    ----------
    name : str
        What ``--model`` says.
    what : str
        The same for a reader who does not know the name.
    formula : Formula
        What candidates are extracted and ranked by.
    lambdas, mus : tuple of float
        The range (low, high) in which to look for each parameter by default; equal where the
        model fixes it.
    default : tuple of float
        The (lambda, mu) to search with where none is given.
    """

    name: str
    what: str
    formula: Formula
    lambdas: tuple[float, float] = (0.0, 0.95)
    mus: tuple[float, float] = (1.0, 100_000.0)
    default: tuple[float, float] = (0.0, 1000.0)

    @property
    def fixed(self) -> dict[str, float]:
        """The parameters that the model fixes, ``"lambda"`` and ``"mu"``, with their values."""
        ranges = {"lambda": self.lambdas, "mu": self.mus}
        return {name: low for name, (low, high) in ranges.items() if low == high}

    def describe(self, lambda_: float, mu: float) -> str:
        """Name a setting: ``lambda0.4-mu2500``, ``dirichlet-mu1000``."""
        values = {"lambda": lambda_, "mu": mu}
        free = [f"{name}{value:g}" for name, value in values.items() if name not in self.fixed]
        return self.label("-".join(free))

    def label(self, text: str) -> str:
        """Put the model's name before a text, but for two-stage smoothing, the usual one."""
        return text if self is MODELS[TWO_STAGE.name] else f"{self.name}-{text}"


_NO_LAMBDA, _NO_MU = (0.0, 0.0), (0.0, 0.0)

# Jelinek-Mercer's default is what Zhai and Lafferty (TOIS 2004) found best for title queries;
# 0.7 for long ones.
MODELS = {
    model.name: model
    for model in (
        Model("two-stage", "Zhai and Lafferty's two-stage smoothing", TWO_STAGE),
        Model("dirichlet", "two-stage smoothing with lambda = 0", TWO_STAGE, lambdas=_NO_LAMBDA),
        Model(
            "jelinek-mercer",
            "two-stage smoothing with mu = 0",
            TWO_STAGE,
            lambdas=(0.01, 0.99),
            mus=_NO_MU,
            default=(0.1, 0.0),
        ),
        Model("lucene-dirichlet", "Lucene's LMDirichletSimilarity", LUCENE_DIRICHLET, lambdas=_NO_LAMBDA),
    )
}
"""All models by name."""


def find_model(name: str) -> Model:
    """Return the model of a name.

    Raises
    ------
    InputError
        Naming the models there are.
    """
    if name not in MODELS:
        raise InputError("unknown model", value=name, accepted=", ".join(MODELS))
    return MODELS[name]


def described(name: str) -> list[str]:
    """Say which model a result is of, for its reader; nothing of two-stage smoothing."""
    return [] if name == TWO_STAGE.name else [f"model: {name}, {find_model(name).what}"]
