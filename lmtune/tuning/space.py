"""The range of parameters that every tuner searches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.models.model import Model, find_model
from lmtune.models.two_stage import check_parameters

# Logit lambda has no 0. Below this the cost is as good as flat.
_SMALLEST_LAMBDA = 1e-4
_EDGE = 1e-6


@dataclass(frozen=True)
class ParameterSpace:
    """A box of (lambda, mu), lambda on a linear scale and mu on a logarithmic one.

    Attributes
    ----------
    lambda_low, lambda_high : float
        0 <= lambda_low <= lambda_high < 1.
    mu_low, mu_high : float
        0 < mu_low <= mu_high, in tokens; or both 0, which is Jelinek-Mercer smoothing and needs
        lambda_low > 0.

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
        if self.mu_low == self.mu_high == 0.0:
            check_parameters(self.lambda_low, 0.0)
        else:
            for mu in (self.mu_low, self.mu_high):
                if not (math.isfinite(mu) and mu > 0.0):
                    raise InputError(
                        "mu is outside its range",
                        value=mu,
                        accepted="mu > 0, in tokens; or 0 for both its bounds",
                    )
        for name in ("lambda", "mu"):
            low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
            if low > high:
                raise InputError(f"the {name} range is empty", value=(low, high), accepted="LOW,HIGH")

    @classmethod
    def of(
        cls,
        model: Model | str,
        *,
        lambdas: tuple[float, float] | None = None,
        mus: tuple[float, float] | None = None,
    ) -> ParameterSpace:
        """Return a model's space.

        Parameters
        ----------
        model : Model or str
            One of `lmtune.models.model.MODELS`.
        lambdas, mus : tuple of float, optional
            Another range (low, high) than the model's own.

        Raises
        ------
        InputError
            For an unknown model, or another range of a parameter that the model fixes.
        """
        model = find_model(model) if isinstance(model, str) else model
        for name, wanted in (("lambda", lambdas), ("mu", mus)):
            value = model.fixed.get(name)
            if value is not None and wanted not in (None, (value, value)):
                raise InputError(
                    f"{model.name} has no {name} to look for", value=wanted, accepted=f"{name} = {value:g}"
                )
        return cls(*(lambdas or model.lambdas), *(mus or model.mus))

    def require(self, model: Model) -> None:
        """Raise `InputError` unless a parameter that a model fixes is fixed here, at its value."""
        for name, value in model.fixed.items():
            low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
            if (low, high) != (value, value):
                raise InputError(
                    f"{model.name} has no {name} to look for",
                    value=(low, high),
                    accepted=f"{name} = {value:g}, as in ParameterSpace.of({model.name!r})",
                )

    def grid(self, lambdas: int, mus: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return every setting of a full grid, lambda varying slowest.

        Parameters
        ----------
        lambdas, mus : int
            Points along each axis, ends included; at least 1 each.

        Returns
        -------
        lambdas, mus : numpy.ndarray of float64, shape (settings,)
            Distinct settings: fewer than ``lambdas * mus`` where a range is a single point.
        """
        if lambdas < 1 or mus < 1:
            raise InputError("a grid needs points", value=f"{lambdas}x{mus}", accepted="1x1 and up")
        lambda_axis = np.unique(np.linspace(self.lambda_low, self.lambda_high, lambdas).round(12))
        mu_axis = np.unique(np.geomspace(*self._mu_logarithmic, mus))
        mu_axis = np.zeros(1) if self.mu_high == 0.0 else mu_axis
        # Round to what a person would type, where that keeps the points apart and inside.
        typed = np.unique([float(f"{mu:.4g}") for mu in mu_axis])
        if typed.size == mu_axis.size:
            mu_axis = np.clip(typed, self.mu_low, self.mu_high)
        first, second = np.meshgrid(lambda_axis, mu_axis, indexing="ij")
        return first.ravel(), second.ravel()

    def clip(self, lambda_: float, mu: float) -> tuple[float, float]:
        """Return the nearest setting inside the box."""
        return (min(max(lambda_, self.lambda_low), self.lambda_high), min(max(mu, self.mu_low), self.mu_high))

    def random(self, rng: np.random.Generator) -> tuple[float, float]:
        """Draw a setting, lambda uniform and mu log-uniform."""
        lambda_ = rng.uniform(self.lambda_low, self.lambda_high)
        low, high = self._mu_logarithmic
        mu = math.exp(rng.uniform(math.log(low), math.log(high)))
        return self.clip(lambda_, mu)

    @property
    def _mu_logarithmic(self) -> tuple[float, float]:
        """Bounds of mu that have logarithms; any will do where mu is 0, for `clip` sets it."""
        return (1.0, 1.0) if self.mu_high == 0.0 else (self.mu_low, self.mu_high)

    @property
    def unbounded_box(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The box in (logit lambda, log mu); where lambda_low is 0, it begins at 1e-4 or less.

        Where mu is 0, its coordinate stays at 0.
        """
        smallest = min(_SMALLEST_LAMBDA, self.lambda_high / 2.0) or _SMALLEST_LAMBDA
        low = logit(max(self.lambda_low, smallest))
        high = low if self.lambda_low == self.lambda_high else logit(self.lambda_high)
        mu_low, mu_high = map(math.log, self._mu_logarithmic)
        return (low, high), (mu_low, mu_high)

    def to_unbounded(self, lambda_: float, mu: float) -> NDArray[np.float64]:
        """Return the point of `unbounded_box` next to a setting."""
        at = np.array([logit(max(lambda_, 1e-9)), math.log(mu) if mu > 0.0 else 0.0])
        low, high = np.array(self.unbounded_box).T
        inside: NDArray[np.float64] = np.clip(at, low, high)
        return inside

    def from_unbounded(self, x: NDArray[np.float64]) -> tuple[float, float]:
        """Return the (lambda, mu) of a point of `unbounded_box`."""
        if self.lambda_low == self.lambda_high:
            return self.lambda_low, self.clip(0.0, math.exp(x[1]))[1]
        return self.clip(expit(x[0]), math.exp(x[1]))

    def at_edge(self, lambda_: float, mu: float) -> list[str]:
        """Name the bounds that a setting lies on, such as ``"mu = 100000"``.

        A parameter that the space fixes is on no edge; a lambda at the beginning of
        `unbounded_box` is on the lower one.
        """
        (lambda_low, lambda_high), (mu_low, mu_high) = self.unbounded_box
        edges = []
        if self.lambda_low < self.lambda_high:
            at = logit(lambda_) if lambda_ > 0.0 else -math.inf
            if at <= lambda_low + _EDGE or at >= lambda_high - _EDGE:
                edges.append(f"lambda = {lambda_:g}")
        if self.mu_low < self.mu_high and not mu_low + _EDGE < math.log(mu) < mu_high - _EDGE:
            edges.append(f"mu = {mu:g}")
        return edges


def logit(x: float) -> float:
    """Return log(x / (1 - x))."""
    return math.log(x) - math.log1p(-x)


def expit(x: float) -> float:
    """Return 1 / (1 + exp(-x)), the inverse of `logit`."""
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))
