r"""BM25 as in Lucene, its analytic gradient, and the variants of other engines.

.. math:: g(Q;D) = \sum_{w \in Q} idf_w \frac{tf_{w,D}}{tf_{w,D} + n_D}, \qquad
    n_D = k_1 \Big(1 - b + b \frac{|D|}{L}\Big), \qquad
    idf_w = \log\Big(1 + \frac{N - df_w + 1/2}{df_w + 1/2}\Big),

where N is the number of non-empty documents and L is their mean length. This is the BM25 of Robertson and
Zaragoza (Foundations and Trends in Information Retrieval, 2009, section 3.5) with two changes. The factor
:math:`k_1 + 1` is omitted, which changes no ranking, and the idf is never negative. A query term that
occurs c times counts c times.

Other engines use another idf, round lengths to a byte, or count other documents (Kamphuis, de Vries, Boytsov
and Lin, "Which BM25 do you mean?", ECIR 2020). BM25L and BM25+ raise the score of each matching term (Lv and
Zhai, CIKM and SIGIR 2011). With :math:`s = 1 - b + b |D| / L`, a matching term's score is

.. math:: idf_w \Big((k_1 + 1) \frac{tf + \delta_l s}{tf + (k_1 + \delta_l) s} + \delta_+\Big).

The factor :math:`k_1 + 1` can be omitted only if :math:`\delta_+ = 0`. `VARIANTS` lists all variants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lmtune.arrays import Doubles, Integers32
from lmtune.errors import InputError, check_choice
from lmtune.index.protocol import CollectionSize, Index, TermCounts
from lmtune.index.quantised import quantised_lengths
from lmtune.models.bm25_kernels import LEAST_ROOM, bm25_likelihoods, differentiate_bm25, rank_bm25
from lmtune.models.formula import CompiledFormula, Factor, Formula, Kernels, QueryColumn, TermOccurrence
from lmtune.models.kernels import TopicDocuments
from lmtune.models.parameter import ANSERINI, Parameter

K1 = Parameter("k1", 0.01, 5.0, "log", 0.9, "how slowly term frequencies saturate", source=ANSERINI)
B = Parameter("b", 0.0, 1.0, "linear", 0.4, "how much a document's length counts", source=ANSERINI)


def idf(df: int, documents: int) -> float:
    """Return log(1 + (N - df + 1/2) / (df + 1/2)) for a term in `df` of N documents."""
    return math.log1p((documents - df + 0.5) / (df + 0.5))


def require_b(values: Doubles) -> None:
    """Raise `InputError` unless each b is in [0, 1]."""
    for b in values.ravel().tolist():
        if not 0.0 <= b <= 1.0:
            raise InputError("b is outside its domain", value=b, accepted="0 <= b <= 1")


def _odds(df: int, documents: int) -> float:
    return (documents - df + 0.5) / (df + 0.5)


class Variant(NamedTuple):
    """A variant of BM25, as computed by an engine.

    Attributes
    ----------
    what : str
        A short description.
    idf : callable
        Computes the idf from df and N.
    idf_text : str
        The formula of the idf.
    rounded : bool
        Whether lengths are stored in a byte (`lmtune.index.quantised`); their mean is exact.
    empty : bool
        Whether N and the mean length include documents without terms.
    once : bool
        Whether repeated query terms count once.
    shift, bonus : float
        The delta_l and delta_+ of the formula.
    negative : bool
        Whether an idf can be negative, which rules out pruning and certificates.
    """

    what: str
    idf: Callable[[int, int], float] = idf
    idf_text: str = "log(1 + (N - df + 0.5) / (df + 0.5))"
    rounded: bool = False
    empty: bool = True
    once: bool = False
    shift: float = 0.0
    bonus: float = 0.0
    negative: bool = False

    def differences(self, other: Variant) -> list[str]:
        """Describe how another variant differs from this one, as far as rankings can differ."""
        return [
            text
            for differs, text in (
                (self.idf is not other.idf, f"its idf is {other.idf_text}"),
                (self.rounded < other.rounded, "it stores each length in a byte, exact up to 40"),
                (self.rounded > other.rounded, "it has exact lengths"),
                (self.empty < other.empty, "documents without a term count in N and in the mean length"),
                (self.empty > other.empty, "documents without a term do not count"),
                (self.once < other.once, "repeated query terms count once"),
                (self.once > other.once, "repeated query terms count each time"),
                (self.shift != other.shift, f"its delta in the term frequency is {other.shift:g}"),
                (self.bonus != other.bonus, f"each matching term adds {other.bonus:g} idf"),
            )
            if differs
        ]


def _robertson(df: int, documents: int) -> float:
    return math.log(_odds(df, documents))


def _fts5(df: int, documents: int) -> float:
    return max(_robertson(df, documents), 0.0) or 1e-6


def _xapian(df: int, documents: int) -> float:
    odds = _odds(df, documents)
    return math.log(odds if odds >= 2.0 else 1.0 + 0.5 * odds)


def _lv_zhai_l(df: int, documents: int) -> float:
    return math.log((documents + 1.0) / (df + 0.5))


def _lv_zhai(df: int, documents: int) -> float:
    return math.log((documents + 1.0) / df)


_ODDS = "log((N - df + 0.5) / (df + 0.5))"
_XAPIAN = "log x, x = (N - df + 0.5) / (df + 0.5), or 1 + x / 2 for x < 2"
_EXACT = Variant("BM25 with exact document lengths", empty=False)
"""The variant of the model ``bm25``."""
LUCENE = Variant("Lucene's BM25Similarity", rounded=True, empty=False)
_ALL_COUNT = Variant("BM25 in which empty documents count")

VARIANTS = {
    "lucene": LUCENE,
    "tantivy": LUCENE._replace(what="BM25 as in tantivy", empty=True),
    **{name: _ALL_COUNT._replace(what=f"BM25 as in {name}") for name in ("bm25s", "vespa")},
    "duckdb": _ALL_COUNT._replace(what="BM25 as in DuckDB", once=True),
    "sqlite": Variant("BM25 as in SQLite FTS5", _fts5, f"{_ODDS}, or 1e-6 if that is not positive"),
    "xapian": Variant("BM25 as in Xapian", _xapian, _XAPIAN),
    "terrier": Variant("BM25 as in Terrier", _robertson, _ODDS, negative=True),
    "robertson": Variant("BM25 of Robertson et al. (1994)", _robertson, _ODDS, empty=False, negative=True),
    "atire": Variant("BM25 as in ATIRE", lambda df, n: math.log(n / df), "log(N / df)", empty=False),
    "l": Variant("BM25L", _lv_zhai_l, "log((N + 1) / (df + 0.5))", empty=False, shift=0.5),
    "plus": Variant("BM25+", _lv_zhai, "log((N + 1) / df)", empty=False, bonus=1.0),
}
"""Variants by name, as in ``--model bm25:NAME``."""
BM25_PREFIX = "bm25:"


class BM25(CompiledFormula):
    r"""BM25, with its gradient.

    Parameters
    ----------
    variant : Variant
        The variant, without deltas.
    name : str
        Name of the model.

    Notes
    -----
    A term's score is idf tf / (tf + n), so that

    .. math:: \frac{\partial g}{\partial k_1} = -\sum_w idf_w \frac{tf}{(tf + n)^2}
        \Big(1 - b + b \frac{|D|}{L}\Big), \qquad
        \frac{\partial g}{\partial b} = -\sum_w idf_w \frac{tf}{(tf + n)^2}
        k_1 \Big(\frac{|D|}{L} - 1\Big).
    """

    parameters = (K1, B)
    value_name = "idf"
    kernels = Kernels(rank_bm25, differentiate_bm25, bm25_likelihoods)

    def __init__(self, variant: Variant = _EXACT, name: str = "bm25") -> None:
        self.variant, self.name = variant, name
        self.dominance = None if variant.negative or variant.shift or variant.bonus else "tf"

    def __reduce__(self) -> tuple[Callable[[str], BM25], tuple[str]]:
        """Pickle by name."""
        return bm25_formula, (self.name,)

    @property
    def bounds(self) -> str:
        """The name "bm25" if no idf is negative and there are no deltas, else this variant's name."""
        return "bm25" if self.dominance else self.name

    def term_value(self, term: TermCounts) -> float:
        """Return a term's idf."""
        return self.variant.idf(term.df, term.size.documents)

    def score_factors(self, occurrence: TermOccurrence, setting: Doubles) -> list[Factor]:
        """Return idf and tf, with Lucene's names."""
        k1, b = setting.tolist()
        term, tf, length, mean_length = occurrence
        share = (1.0 - b) + b * length / mean_length
        inputs = {"freq": tf, "k1": k1, "b": b, "dl": length, "avgdl": mean_length}
        return [
            Factor(
                "idf", self.term_value(term), self.variant.idf_text, {"df": term.df, "N": term.size.documents}
            ),
            self._saturation(tf, max(k1 * share, LEAST_ROOM), share, inputs),
        ]

    def _saturation(self, tf: int, room: float, share: float, inputs: dict[str, float]) -> Factor:  # noqa: ARG002
        return Factor("tf", tf / (tf + room), "freq / (freq + k1 (1 - b + b dl / avgdl))", inputs)

    def size(self, index: Index) -> CollectionSize:
        """Return the number of tokens, and of all documents or only the non-empty ones."""
        return (
            CollectionSize(index.total_terms, index.num_docs) if self.variant.empty else super().size(index)
        )

    def lengths(self, index: Index) -> Integers32:
        """Return the lengths of all documents, rounded as in Lucene if the variant rounds."""
        exact = super().lengths(index)
        return quantised_lengths(exact) if self.variant.rounded else exact

    def columns(self, query: Sequence[str]) -> list[QueryColumn]:
        """Return the distinct terms, each with count 1 if the variant ignores repetitions."""
        columns = super().columns(query)
        return [column._replace(times=1) for column in columns] if self.variant.once else columns

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless 0 <= b <= 1 and k1 >= 0."""
        super().check(settings)
        require_b(settings[:, 1])

    def parts(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score and differentiate each term separately."""
        k1, b = setting.tolist()
        relative = topic.length / topic.mean_length
        share = (1.0 - b) + b * relative
        whole = topic.tf + np.maximum(k1 * share, LEAST_ROOM)
        parts = topic.tf / whole
        parts *= topic.value[:, None]
        slopes = np.divide(parts, whole, out=whole)
        gradients = np.empty((2, *parts.shape))
        np.multiply(slopes, -share, out=gradients[0])
        np.multiply(slopes, k1 * (1.0 - relative), out=gradients[1])
        return parts, gradients


class LowerBoundedBM25(BM25):
    """BM25L and BM25+: a matching term's score has a positive lower bound for documents of any length.

    There is no pruning and no certificate, because the effect of rounding on these scores is not proved.
    """

    def _saturation(self, tf: int, room: float, share: float, inputs: dict[str, float]) -> Factor:
        shift, bonus, k1 = self.variant.shift, self.variant.bonus, inputs["k1"]
        formula = "(k1 + 1) (freq + d s) / (freq + (k1 + d) s) + e, s = 1 - b + b dl / avgdl"
        value = (k1 + 1.0) * (tf + shift * share) / (tf + room + shift * share) + bonus if tf else 0.0
        return Factor("tf", value, formula, {**inputs, "d": shift, "e": bonus})

    def parts(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score and differentiate each term separately."""
        k1, b = setting.tolist()
        relative, shift = topic.length / topic.mean_length, self.variant.shift
        share = np.maximum((1.0 - b) + b * relative, LEAST_ROOM)
        idf_matched = np.where(topic.tf > 0, topic.value[:, None], 0.0)
        whole = topic.tf + np.maximum((k1 + shift) * share, LEAST_ROOM)
        upper = topic.tf + shift * share
        parts = idf_matched * ((k1 + 1.0) * upper / whole + self.variant.bonus)
        # With u = tf + d s and v = tf + (k1 + d) s, the derivatives in s give u' v - u v' = -k1 tf.
        # Dividing by v twice avoids its square, which underflows to 0 for an empty document at b = 1.
        in_k1 = idf_matched * (upper / whole - (k1 + 1.0) * (upper / whole) * (share / whole))
        in_b = idf_matched * (-(k1 + 1.0) * k1 * (topic.tf / whole / whole)) * (relative - 1.0)
        return parts, np.stack((in_k1, in_b))

    def differentiate(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score one topic's documents and differentiate the scores in k1 and b."""
        parts, gradients = self.parts(topic, setting)
        counts = np.asarray(topic.counts, np.float64)
        return counts @ parts, np.einsum("t,ptd->pd", counts, gradients)

    rank_scores = Formula.rank_scores
    likelihoods = Formula.likelihoods


def bm25_formula(name: str) -> BM25:
    """Return a BM25 formula by name: ``bm25``, ``lucene-bm25``, or a variant such as ``bm25:atire``.

    Raises
    ------
    InputError
        If the variant is unknown; the message lists all variants.
    """
    if name == "bm25":
        return BM25()
    if name == "lucene-bm25":
        return BM25(LUCENE, name)
    key = name.removeprefix(BM25_PREFIX)
    check_choice("unknown variant of BM25", key, VARIANTS)
    kind = LowerBoundedBM25 if VARIANTS[key].shift or VARIANTS[key].bonus else BM25
    return kind(VARIANTS[key], name)
