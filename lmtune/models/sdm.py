r"""The sequential dependence model, and its analytic gradient.

.. math:: g(Q;D) = \lambda_T \sum_{w \in Q} \log P(w|D)
    + \lambda_O \sum_{i} \log P(\#1(q_i\, q_{i+1})|D)
    + \lambda_U \sum_{i} \log P(\#uw8(q_i\, q_{i+1})|D)

after Metzler and Croft, "A Markov Random Field Model for Term Dependencies" (SIGIR 2005), section 3.3. The
features are query terms, and pairs of adjacent query terms, as phrases and in windows of 8 tokens. Each P has
two-stage smoothing with its own lambda and mu, for windows as for terms,

.. math:: P(c|D) = (1 - \lambda) \frac{tf_{c,D} + \mu\, cf_c / |C|}{\mu + |D|} + \lambda\, cf_c / |C| .

`lmtune.index.windows` defines the counts. Adjacent terms are those of the analysed query, as in Anserini: in
queries, stopwords are removed first; in documents, they occupy a position. Windows without an occurrence in
the collection are left out, like query terms without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from lmtune.arrays import Doubles
from lmtune.errors import InputError
from lmtune.index.protocol import Index, Postings
from lmtune.index.windows import Window, count_windows, windows_of
from lmtune.models.formula import CompiledFormula, Kernels, QueryColumn
from lmtune.models.parameter import ANSERINI, Parameter
from lmtune.models.sdm_kernels import GROUPS, differentiate_sdm, rank_sdm, sdm_likelihoods
from lmtune.models.two_stage import LAMBDA, MU, check_parameters

TERMS, ORDERED, UNORDERED = range(GROUPS)
"""The groups of columns."""

_WEIGHTS = (
    Parameter(
        "ordered", 0.0, 0.5, "linear", 0.1, "the weight of phrases of two query terms", source=ANSERINI
    ),
    Parameter(
        "unordered",
        0.0,
        0.5,
        "linear",
        0.05,
        "the weight of two query terms within 8 tokens",
        source=ANSERINI,
    ),
)


class SequentialDependence(CompiledFormula):
    r"""The sequential dependence model over terms, ordered windows and unordered windows.

    The weights sum to 1; that of the terms is 1 - ``ordered`` - ``unordered``. At fixed smoothing the score
    is linear in the weights, so that RankNet's cost is convex in them. Because weights are not negative, no
    score falls if a frequency of a term or window rises, or the length falls.
    """

    name = "sdm"
    parameters = (
        *_WEIGHTS,
        LAMBDA,
        MU,
        *(
            replace(each, name=f"{each.name}_{windows}", what=f"{each.what} of {windows} windows")
            for windows in ("ordered", "unordered")
            for each in (LAMBDA, MU)
        ),
    )
    dominance = "tf"
    needs_positions = True
    group_names = ("", "ordered", "unordered")
    kernels = Kernels(rank_sdm, differentiate_sdm, sdm_likelihoods)

    def columns(self, query: Sequence[str]) -> list[QueryColumn]:
        """Return the distinct terms, phrases and unordered windows of adjacent terms."""
        windows = {group: windows_of(query, ordered=group == ORDERED) for group in (ORDERED, UNORDERED)}
        return [QueryColumn(term, TERMS, times) for term, times in Counter(query).items()] + [
            QueryColumn(f"{window.first} {window.second}", group, times)
            for group, counts in windows.items()
            for window, times in counts.items()
        ]

    def look_up(self, index: Index, columns: Sequence[QueryColumn]) -> list[Postings | None]:
        """Return the postings of terms, and those of windows, which are counted in the index.

        Raises
        ------
        InputError
            If the index has no positions.
        """
        windows = []
        for column in columns:
            if column.group != TERMS:
                first, second = column.term.split(" ")
                windows.append(Window(first, second, column.group == ORDERED))
        terms = [index.postings(column.term) for column in columns if column.group == TERMS]
        return [*terms, *count_windows(index, windows)]

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless weights are >= 0 with sum <= 1, and lambda and mu are valid."""
        for ordered, unordered, *smoothing in settings.tolist():
            # The tolerance allows for rounding in sums of decimals.
            if not (ordered >= 0.0 and unordered >= 0.0 and ordered + unordered <= 1.0 + 1e-12):
                raise InputError(
                    "the weights of windows are outside their domain",
                    value=(ordered, unordered),
                    accepted="ordered >= 0, unordered >= 0, ordered + unordered <= 1",
                )
            for at in range(0, len(smoothing), 2):
                check_parameters(smoothing[at], smoothing[at + 1])
        super().check(settings)


SDM = SequentialDependence()
