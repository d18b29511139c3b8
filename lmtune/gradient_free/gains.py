"""Spall's gain sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lmtune.errors import InputError, check_least
from lmtune.gradient_free.estimates import check_even, checked_width, differences, random_signs
from lmtune.gradient_free.points import Box, Counted, Objective, generator, inside

_ALPHA = 0.602


@dataclass(frozen=True)
class Gains:
    r"""Spall's gain sequences, for the steps k = 0, 1, ...

    .. math:: a_k = \frac{a}{(A + k + 1)^\alpha}, \qquad c_k = \frac{c}{(k + 1)^\gamma}

    with a_k the rate of step k and c_k half the distance between the points that are compared.

    Attributes
    ----------
    a, c : float
        Above 0.
    stability : float
        A, 0 or more: about a tenth of the steps keeps a large rate from being unstable at first.
    alpha, gamma : float
        Spall's 0.602 and 0.101 are about the smallest that theory allows; 1 and 1/6 are the best
        in the limit. 0 keeps a gain as it is.

    Raises
    ------
    InputError
        For a number outside its domain.
    """

    a: float
    c: float
    stability: float = 0.0
    alpha: float = _ALPHA
    gamma: float = 0.101

    def __post_init__(self) -> None:
        for name in ("a", "c"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise InputError(f"bad gain {name}", value=value, accepted="a positive number")
        for name in ("stability", "alpha", "gamma"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise InputError(f"bad {name} of the gains", value=value, accepted="0 or more")

    def rate(self, k: int) -> float:
        """Return a_k."""
        return float(self.a / (self.stability + k + 1.0) ** self.alpha)

    def width(self, k: int) -> float:
        """Return c_k."""
        return float(self.c / (k + 1.0) ** self.gamma)

    @classmethod
    def practical(
        cls,
        objective: Objective,
        start: ArrayLike,
        *,
        steps: int,
        first_step: float,
        c: float,
        evaluations: int = 20,
        seed: int = 0,
        box: Box | None = None,
        together: bool = False,
    ) -> Gains:
        r"""Choose the gains by Spall's practical guideline (1998).

        A is a tenth of the steps; c is given, and should be about the standard deviation of the
        objective's noise (where there is none, small; for a measure, wide enough to see across its
        steps); and a is such that the first step changes a coordinate by about `first_step`:

        .. math:: a = \mathrm{first\ step} \cdot (A + 1)^\alpha / \mathrm{mean}\,|\hat g_i(x_0)|

        with the mean over coordinates and over estimates at the start.

        Parameters
        ----------
        objective, start, seed, box, together
            As of `minimise`.
        steps : int
            How many steps there will be; 1 or more.
        first_step : float
            The wanted change of a coordinate in the first steps; above 0.
        c : float
            Above 0.
        evaluations : int
            How many to spend at the start; even, 2 or more. They are the caller's to count.

        Returns
        -------
        Gains
            Where the objective is flat at the start, as though its slope were 1.

        Raises
        ------
        InputError
            For numbers outside their domain, or an objective that is not finite.
        """
        check_least("bad number of steps", steps, 1)
        if not (math.isfinite(first_step) and first_step > 0.0):
            raise InputError("bad first step", value=first_step, accepted="a positive number")
        check_even(evaluations)
        x, low, high = inside(start, box)
        signs = random_signs(generator(seed, 1), evaluations // 2, x.size)
        slopes = differences(Counted(objective, together), x, checked_width(c), signs, low, high)
        stability = 0.1 * steps
        slope = float(np.abs(slopes).mean()) or 1.0
        return cls(first_step * (stability + 1.0) ** _ALPHA / slope, c, stability)
