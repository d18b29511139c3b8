"""Measures of ranked labels: P@k and nDCG@k, and both scored by labels' propensities.

Source: Jain, Prabhu and Varma, Extreme Multi-label Loss Functions for Recommendation, Tagging, Ranking
and Other Missing Label Applications, KDD 2016, with the extreme-classification repository's
normalisation: the propensity-scored sums over all examples, divided by the largest that any ranking
reaches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.measures.kinds import KINDS
from lmtune.measures.lists import gains_of_ranks
from lmtune.measures.measure import Measure

_KINDS = {kind.name.lower(): kind for kind in KINDS.values() if kind.of_labels}


def parse_label_measure(name: str) -> Measure:
    """Read the name of a measure: ``p@5``, ``ndcg@5``, ``psp@5`` or ``psndcg@5``, in either case.

    Raises
    ------
    InputError
        For another name.
    """
    kind, _, cutoff = name.strip().lower().partition("@")
    if kind not in _KINDS or not re.fullmatch(r"[1-9][0-9]{0,4}", cutoff):
        raise InputError("unknown measure of labels", value=name, accepted="p@5, ndcg@5, psp@5, psndcg@5")
    return Measure(_KINDS[kind].name, int(cutoff))


def inverse_propensities(
    counts: NDArray[np.int64], examples: int, *, a: float = 0.55, b: float = 1.5
) -> NDArray[np.float64]:
    r"""Compute what each label weighs in propensity-scored measures, the rare ones more.

    .. math:: 1 / p_l = 1 + (\ln N - 1) (B + 1)^A e^{-A \ln(N_l + B)}

    Parameters
    ----------
    counts : numpy.ndarray of int64, shape (labels,)
        N_l, how many training examples have each label.
    examples : int
        N, the training examples.
    a, b : float
        A and B: 0.5 and 0.4 for Wikipedia's sets, 0.6 and 2.6 for Amazon's, the defaults for others.
    """
    weights: NDArray[np.float64] = 1.0 + (math.log(examples) - 1.0) * (b + 1.0) ** a * (counts + b) ** -a
    return weights


def values_of_ranks(
    lists: NDArray[np.int64],
    weights: NDArray[np.float64],
    above: NDArray[np.int64],
    tied: NDArray[np.int64],
    measures: Sequence[Measure],
) -> NDArray[np.float64]:
    """Compute measures of examples of which only their own labels are known, with their ranks.

    Parameters
    ----------
    lists, above, tied
        As for `lmtune.measures.lists.gains_of_ranks`.
    weights : numpy.ndarray of float64, shape (labels,)
        Inverse propensities of the examples' labels.
    measures : sequence of Measure
        As `parse_label_measure` reads them.

    Returns
    -------
    numpy.ndarray of float64, shape (lists, measures)
        Each example's share of the mean; of propensity-scored measures it may be above 1.
    """
    ones = np.ones(len(lists))
    out = np.empty((int(lists.max()) + 1, len(measures)))
    for column, measure in enumerate(measures):
        scored, flat = measure.kind.startswith("PS"), measure.kind.endswith("P")
        ranks = np.arange(1, (measure.cutoff or 0) + 1)
        discounts = np.ones(len(ranks)) if flat else 1.0 / np.log2(ranks + 1.0)
        reached, most = gains_of_ranks(lists, weights if scored else ones, above, tied, discounts)
        ideal = len(ranks) if flat else gains_of_ranks(lists, ones, above, tied, discounts)[1]
        out[:, column] = reached / ideal
        if scored:
            out[:, column] /= np.mean(most / ideal)
    return out
