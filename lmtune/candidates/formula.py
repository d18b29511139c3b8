r"""Which formula a pool's columns are for: what it reads off an index, and whether it is floored.

Both formulas rank by a product over query terms of a factor that rises with :math:`y = tf / p`
and falls with the document's length,

.. math:: x = (1 - \lambda) \frac{y + \mu}{\mu + |D|} + \lambda .

*two-stage* takes it as it is, with p = cf / \|C\| and exact lengths (or whatever lengths the index
gives). *lucene-dirichlet* is Lucene's LMDirichletSimilarity,

.. math:: \sum_w \max\Big(0, \log\big(1 + \frac{tf}{\mu p}\big) + \log\frac{\mu}{\mu + |D|}\Big)
    = \sum_w \log \max(1, x) \quad (\lambda = 0),

with p = (cf + 1) / (\|C\| + 1) and lengths rounded as in `lmtune.indexing.quantised`. A term that
the document lacks has x < 1, so that the floor leaves it out, as Lucene does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.indexing.index import Index
from lmtune.indexing.quantised import quantised_lengths


@dataclass(frozen=True)
class Formula:
    r"""What a formula takes from an index, and the range of its parameters.

    Attributes
    ----------
    name : str
        What `lmtune.candidates.pool.CandidatePool.model` says.
    add_one : bool
        Whether p = (cf + 1) / (\|C\| + 1), not cf / \|C\|.
    quantised : bool
        Whether lengths are rounded as Lucene rounds them.
    floored : bool
        Whether no factor counts less than 1.
    has_lambda : bool
        Whether lambda is a parameter; else it is 0.
    """

    name: str
    add_one: bool = False
    quantised: bool = False
    floored: bool = False
    has_lambda: bool = True

    def probability(self, cf: int, total_terms: int) -> float:
        """Return P(w|C) of a term that occurs `cf` times among `total_terms` tokens."""
        if self.add_one:
            return (cf + 1.0) / (total_terms + 1.0)
        return float(cf) / total_terms

    def lengths(self, index: Index) -> NDArray[np.int32]:
        """Return the lengths of all documents, shape (num_docs,)."""
        lengths = np.asarray(index.lengths)
        return quantised_lengths(lengths) if self.quantised else lengths

    def require_two_stage(self, what: str) -> None:
        """Raise `InputError` unless this is two-stage smoothing, for which `what` is proved."""
        if self.floored:
            raise InputError(
                f"{what} holds for two-stage smoothing alone, whose factors have no floor",
                value=self.name,
                accepted=TWO_STAGE.name,
            )


TWO_STAGE = Formula("two-stage")
LUCENE_DIRICHLET = Formula("lucene-dirichlet", add_one=True, quantised=True, floored=True, has_lambda=False)
FORMULAS = {formula.name: formula for formula in (TWO_STAGE, LUCENE_DIRICHLET)}


def find_formula(name: str) -> Formula:
    """Return the formula of a name.

    Raises
    ------
    InputError
        Naming the formulas there are.
    """
    if name not in FORMULAS:
        raise InputError(
            "candidates cannot be made for this model",
            value=name,
            accepted="two-stage (of which dirichlet and jelinek-mercer are cases), lucene-dirichlet",
        )
    return FORMULAS[name]
