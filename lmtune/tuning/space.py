"""The range of parameters that every tuner searches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.models.two_stage import check_parameters

_SMALLEST_LOGIT_LAMBDA = 1e-4


@dataclass(frozen=True)
class ParameterSpace:
    """A box of (lambda, mu), lambda on a linear scale and mu on a logarithmic one.

    Attributes
    ----------
    lambda_low, lambda_high : float
        0 <= lambda_low <= lambda_high < 1.
    mu_low, mu_high : float
        0 < mu_low <= mu_high, in tokens.

    Raises
    ------
    InputError
        For an empty range or one outside the model's domain.
    """

    lambda_low: float = 0.0
    lambda_high: float = 0.95
    mu_low: float = 1.0
    mu_high: float = 100_000.0

    def __post_init__(self) -> None:
        check_parameters(self.lambda_low, 1.0)
        check_parameters(self.lambda_high, 1.0)
        check_parameters(0.0, self.mu_low)
        check_parameters(0.0, self.mu_high)
        for name in ("lambda", "mu"):
            low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
            if low > high:
                raise InputError(
                    f"the {name} range is empty", value=(low, high), accepted="LOW,HIGH"
                )

    def grid(self, lambdas: int, mus: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return every setting of a full grid, lambda varying slowest.

        Parameters
        ----------
        lambdas, mus : int
            Points along each axis, ends included; at least 1 each.

        Returns
        -------
        lambdas, mus : numpy.ndarray of float64, shape (lambdas * mus,)
        """
        if lambdas < 1 or mus < 1:
            raise InputError("a grid needs points", value=f"{lambdas}x{mus}", accepted="1x1 and up")
        lambda_axis = np.linspace(self.lambda_low, self.lambda_high, lambdas).round(12)
        mu_axis = np.geomspace(self.mu_low, self.mu_high, mus)
        # Round to what a person would type, where that does not leave the range.
        mu_axis = np.clip([float(f"{mu:.4g}") for mu in mu_axis], self.mu_low, self.mu_high)
        first, second = np.meshgrid(lambda_axis, mu_axis, indexing="ij")
        return first.ravel(), second.ravel()

    def clip(self, lambda_: float, mu: float) -> tuple[float, float]:
        """Return the nearest setting inside the box."""
        return (
            min(max(lambda_, self.lambda_low), self.lambda_high),
            min(max(mu, self.mu_low), self.mu_high),
        )

    def random(self, rng: np.random.Generator) -> tuple[float, float]:
        """Draw a setting, lambda uniform and mu log-uniform."""
        lambda_ = rng.uniform(self.lambda_low, self.lambda_high)
        mu = math.exp(rng.uniform(math.log(self.mu_low), math.log(self.mu_high)))
        return self.clip(lambda_, mu)

    @property
    def unbounded_box(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The box in (logit lambda, log mu); lambda below 1e-4 counts as 1e-4."""
        lambda_low = max(self.lambda_low, _SMALLEST_LOGIT_LAMBDA)
        lambda_high = max(self.lambda_high, _SMALLEST_LOGIT_LAMBDA)
        return (
            (logit(lambda_low), logit(lambda_high)),
            (math.log(self.mu_low), math.log(self.mu_high)),
        )

    def at_edge(self, lambda_: float, mu: float) -> list[str]:
        """Name the bounds that a setting lies on, such as ``"mu = 100000"``."""
        edges = [
            ("lambda", lambda_, self.lambda_low),
            ("lambda", lambda_, self.lambda_high),
            ("mu", mu, self.mu_low),
            ("mu", mu, self.mu_high),
        ]
        return [
            f"{name} = {bound:g}"
            for name, value, bound in edges
            if abs(value - bound) <= 1e-4 * max(bound, 1.0)
        ]


def logit(x: float) -> float:
    """Return log(x / (1 - x))."""
    return math.log(x) - math.log1p(-x)


def expit(x: float) -> float:
    """Return 1 / (1 + exp(-x)), the inverse of `logit`."""
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))
