r"""The sequential dependence model, and its analytic gradient.

.. math:: g(Q;D) = \lambda_T \sum_{w \in Q} \log P(w|D)
    + \lambda_O \sum_{i} \log P(\#1(q_i\, q_{i+1})|D)
    + \lambda_U \sum_{i} \log P(\#uw8(q_i\, q_{i+1})|D)

after Metzler and Croft, "A Markov Random Field Model for Term Dependencies" (SIGIR 2005), section
3.3: query terms, and pairs of neighbouring ones as phrases and in windows of 8 tokens. Each P is
two-stage smoothing's with its own lambda and mu, over windows as over terms,

.. math:: P(c|D) = (1 - \lambda) \frac{tf_{c,D} + \mu\, cf_c / |C|}{\mu + |D|} + \lambda\, cf_c / |C| .

`lmtune.index.windows` says what is counted. Neighbours are those of the analysed query, as in
Anserini's model: stopwords between them are passed over, though in documents they take a place. A
window that the collection lacks is left out, as a query term is.
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
    r"""The sequential dependence model over terms, ordered and unordered windows.

    The weights sum to 1: the terms have what ``ordered`` and ``unordered`` leave. At fixed smoothing
    the score is linear in them, and RankNet's cost convex. No score falls as a frequency, also a
    window's, rises or the length falls, the weights being 0 or more.
    """

    name = "sdm"
    parameters = (
        *_WEIGHTS,
        LAMBDA,
        MU,
        *(
            replace(own, name=f"{own.name}_{windows}", what=f"{own.what} of {windows} windows")
            for windows in ("ordered", "unordered")
            for own in (LAMBDA, MU)
        ),
    )
    dominance = "tf"
    needs_positions = True
    group_names = ("", "ordered", "unordered")
    kernels = Kernels(rank_sdm, differentiate_sdm, sdm_likelihoods)

    def columns(self, query: Sequence[str]) -> list[QueryColumn]:
        """Return each distinct term, phrase and window of neighbours; a window in one order alone."""
        windows = {group: windows_of(query, ordered=group == ORDERED) for group in (ORDERED, UNORDERED)}
        return [QueryColumn(term, TERMS, times) for term, times in Counter(query).items()] + [
            QueryColumn(f"{window.first} {window.second}", group, times)
            for group, own in windows.items()
            for window, times in own.items()
        ]

    def look_up(self, index: Index, columns: Sequence[QueryColumn]) -> list[Postings | None]:
        """Return terms' postings and count windows.

        Raises
        ------
        InputError
            For an index without positions.
        """
        windows = []
        for column in columns:
            if column.group != TERMS:
                first, second = column.term.split(" ")
                windows.append(Window(first, second, column.group == ORDERED))
        terms = [index.postings(column.term) for column in columns if column.group == TERMS]
        return [*terms, *count_windows(index, windows)]

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless weights are 0 or more, and sum to 1 at most; smoothing as elsewhere."""
        for ordered, unordered, *smoothing in settings.tolist():
            # As people add decimals: 0.7 and 0.3 are no more than 1.
            if not (ordered >= 0.0 and unordered >= 0.0 and ordered + unordered <= 1.0 + 1e-12):
                raise InputError(
                    "the weights of windows are outside their domain",
                    value=(ordered, unordered),
                    accepted="ordered and unordered, each 0 or more, together 1 at most:"
                    " the terms have the rest",
                )
            for at in range(0, len(smoothing), 2):
                check_parameters(smoothing[at], smoothing[at + 1])
        super().check(settings)


SDM = SequentialDependence()
