"""Minimising an objective by its values alone: SPSA, and finite differences (FDSA) beside it.

Sources: J. C. Spall, Multivariate stochastic approximation using a simultaneous perturbation
gradient approximation, IEEE Transactions on Automatic Control 37, 1992; J. C. Spall,
Implementation of the simultaneous perturbation algorithm for stochastic optimization, IEEE
Transactions on Aerospace and Electronic Systems 34, 1998; for ranking, Yue and Burges, 2007.
"""

from __future__ import annotations

from lmtune.gradient_free.descent import METHODS, Minimisation, minimise
from lmtune.gradient_free.estimates import Gains, fdsa_gradient, random_signs, spsa_gradient

__all__ = ["METHODS", "Gains", "Minimisation", "fdsa_gradient", "minimise", "random_signs", "spsa_gradient"]
