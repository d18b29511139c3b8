r"""Lucene's Dirichlet-smoothed score (LMDirichletSimilarity) and its derivative.

.. math:: g(Q;D) = \sum_{w \in Q} \max\Big(0, \log\big(1 + \frac{tf}{\mu P(w|C)}\big)
    + \log\frac{\mu}{\mu + |D|}\Big)

Lucene computes each term in single precision; here it is double.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lmtune.arrays import Booleans, Doubles, Integers32
from lmtune.index.protocol import Index, TermCounts
from lmtune.index.quantised import quantised_lengths
from lmtune.models.formula import Factor, Formula, Held
from lmtune.models.kernels import Documents
from lmtune.models.two_stage import LAMBDA, MU, TwoStage


class LuceneDirichlet(TwoStage):
    r"""Lucene's Dirichlet smoothing: two-stage smoothing's product with no factor below 1.

    .. math:: \sum_w \max\Big(0, \log\big(1 + \frac{tf}{\mu p}\big) + \log\frac{\mu}{\mu + |D|}\Big)
        = \sum_w \log \max(1, x) \quad (\lambda = 0),

    with p = (cf + 1) / (\|C\| + 1) and lengths rounded as in `lmtune.index.quantised`. A term
    that the document lacks has x < 1, so that the floor leaves it out, as Lucene does.
    """

    name = "lucene-dirichlet"
    parameters = (replace(LAMBDA, low=0.0, high=0.0), MU)
    dominance = "tf"
    is_likelihood = False
    switches = (True,)

    def term_value(self, term: TermCounts) -> float:
        """Return P(w|C), smoothed by one occurrence."""
        return (term.cf + 1.0) / (term.size.terms + 1.0)

    def account(self, held: Held, setting: Doubles) -> list[Factor]:
        """Return the score of a term, of Lucene's termWeight and norm."""
        mu, p = float(setting[1]), self.term_value(held.term)
        value = max(0.0, math.log1p(held.tf / (mu * p)) + math.log(mu / (held.length + mu)))
        formula = "max(0, log(1 + freq / (mu P)) + log(mu / (dl + mu))), P = (cf + 1) / (|C| + 1)"
        of = {"freq": held.tf, "dl": held.length, "P": p, "cf": held.term.cf, "|C|": held.term.size.terms}
        return [Factor("score", value, formula, {**of, "mu": mu})]

    def lengths(self, index: Index) -> Integers32:
        """Return the lengths of all documents as Lucene rounds them."""
        return quantised_lengths(np.asarray(index.lengths))

    parts = Formula.parts

    def likelihoods(
        self,
        documents: Documents,
        setting: Doubles,
        likelihood: Doubles,
        gradient: Doubles,
        product: Booleans,
    ) -> None:
        """Fill products of max(1, x) where they are safe, and derivatives: none in lambda."""
        super().likelihoods(documents, setting, likelihood, gradient, product)
        gradient[0] = 0.0


LUCENE_DIRICHLET = LuceneDirichlet()
