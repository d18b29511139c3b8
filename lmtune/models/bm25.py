r"""BM25 as Lucene has it, its analytic gradient, and the variants that other engines compute.

.. math:: g(Q;D) = \sum_{w \in Q} idf_w \frac{tf_{w,D}}{tf_{w,D} + n_D}, \qquad
    n_D = k_1 \Big(1 - b + b \frac{|D|}{L}\Big), \qquad
    idf_w = \log\Big(1 + \frac{N - df_w + 1/2}{df_w + 1/2}\Big),

L the mean length of the N documents that hold a term. It is Robertson and Zaragoza's (Foundations
and Trends in Information Retrieval, 2009, section 3.5) without the factor :math:`k_1 + 1`, which
changes no ranking, and with an idf that is never negative. A query term occurring c times counts
c times.

What other engines compute (Kamphuis, de Vries, Boytsov and Lin, ECIR 2020, "Which BM25 do you mean?") is
the same with another idf, lengths rounded to a byte, other documents counted, or with a bonus for a term that
the document holds (Lv and Zhai, CIKM and SIGIR 2011): with :math:`s = 1 - b + b |D| / L`, a term's part is

.. math:: (k_1 + 1) \frac{tf + \delta_l s}{tf + (k_1 + \delta_l) s} + \delta_+,

where the factor may be left out unless :math:`\delta_+` is added. Each is a row of `VARIANTS`.
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
from lmtune.models.formula import CompiledFormula, Factor, Formula, Held, Kernels, QueryColumn
from lmtune.models.kernels import TopicDocuments
from lmtune.models.parameter import ANSERINI, Parameter

K1 = Parameter("k1", 0.01, 5.0, "log", 0.9, "how slowly term frequencies saturate", source=ANSERINI)
B = Parameter("b", 0.0, 1.0, "linear", 0.4, "how much a document's length counts", source=ANSERINI)


def idf(df: int, documents: int) -> float:
    """Return log(1 + (N - df + 1/2) / (df + 1/2)) of a term that `df` of N documents hold."""
    return math.log1p((documents - df + 0.5) / (df + 0.5))


def require_b(values: Doubles) -> None:
    """Raise `InputError` unless each b is from 0 to 1."""
    for b in values.ravel().tolist():
        if not 0.0 <= b <= 1.0:
            raise InputError("b is outside its domain", value=b, accepted="0 <= b <= 1")


def _odds(df: int, documents: int) -> float:
    return (documents - df + 0.5) / (df + 0.5)


class Variant(NamedTuple):
    """What of BM25 differs between engines.

    Attributes
    ----------
    what : str
        Whose it is.
    idf : callable
        A term's weight, given df and N.
    idf_text : str
        The same as a text.
    rounded : bool
        Whether lengths are kept in a byte, as `lmtune.index.quantised` has it; their mean is exact.
    empty : bool
        Whether documents without a term count in N and in the mean length.
    once : bool
        Whether a term counts once however often the query has it.
    shift, bonus : float
        The delta_l and delta_+ of the formula.
    negative : bool
        Whether an idf may be below 0, so that no pruning and no certificate holds.
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
        """Say what another variant has that this one has not, of what changes rankings."""
        return [
            text
            for differs, text in (
                (self.idf is not other.idf, f"its idf is {other.idf_text}"),
                (self.rounded < other.rounded, "it keeps each length in a byte, exact up to 40"),
                (self.rounded > other.rounded, "it has exact lengths"),
                (self.empty < other.empty, "documents without a term count in N and in the mean length"),
                (self.empty > other.empty, "documents without a term do not count"),
                (self.once < other.once, "a word counts once however often the query has it"),
                (self.once > other.once, "a word counts as often as the query has it"),
                (self.shift != other.shift, f"its delta in the term frequency is {other.shift:g}"),
                (self.bonus != other.bonus, f"a term that is held adds {other.bonus:g} idf"),
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
_EXACT = Variant("BM25 with exact document lengths", empty=False)
"""What ``bm25`` is."""
LUCENE = Variant("Lucene's BM25Similarity", rounded=True, empty=False)
_ALL_COUNT = Variant("BM25 in which empty documents count")

VARIANTS = {
    "lucene": LUCENE,
    "tantivy": LUCENE._replace(what="tantivy's", empty=True),
    **{name: _ALL_COUNT._replace(what=f"{name}'s") for name in ("bm25s", "vespa")},
    "duckdb": _ALL_COUNT._replace(what="DuckDB's", once=True),
    "sqlite": Variant("SQLite FTS5's", _fts5, f"{_ODDS}, 1e-6 where that is not positive"),
    "xapian": Variant("Xapian's", _xapian, "log x, x = (N - df + 0.5) / (df + 0.5), or 1 + x / 2 for x < 2"),
    "terrier": Variant("Terrier's", _robertson, _ODDS, negative=True),
    "robertson": Variant("Robertson et al.'s (1994)", _robertson, _ODDS, empty=False, negative=True),
    "atire": Variant("ATIRE's", lambda df, n: math.log(n / df), "log(N / df)", empty=False),
    "l": Variant("BM25L", _lv_zhai_l, "log((N + 1) / (df + 0.5))", empty=False, shift=0.5),
    "plus": Variant("BM25+", _lv_zhai, "log((N + 1) / df)", empty=False, bonus=1.0),
}
"""The variants by what ``--model`` has after ``bm25:``."""
BM25_PREFIX = "bm25:"


class BM25(CompiledFormula):
    r"""BM25, with its gradient.

    Parameters
    ----------
    variant : Variant
        What it computes otherwise; one without deltas.
    name : str
        What it is called.

    A term's part is idf tf / (tf + n), so that

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
        """Travel to other processes by name."""
        return bm25_formula, (self.name,)

    @property
    def bounds(self) -> str:
        """BM25's, where no idf is negative and nothing is added."""
        return "bm25" if self.dominance else self.name

    def term_value(self, term: TermCounts) -> float:
        """Return a term's idf."""
        return self.variant.idf(term.df, term.size.documents)

    def account(self, held: Held, setting: Doubles) -> list[Factor]:
        """Return idf and tf, named as Lucene does."""
        k1, b = setting.tolist()
        df, documents = held.term.df, held.term.size.documents
        share = (1.0 - b) + b * held.length / held.mean_length
        of = {"freq": held.tf, "k1": k1, "b": b, "dl": held.length, "avgdl": held.mean_length}
        return [
            Factor("idf", self.term_value(held.term), self.variant.idf_text, {"df": df, "N": documents}),
            self._saturation(held.tf, max(k1 * share, LEAST_ROOM), share, of),
        ]

    def _saturation(self, tf: int, room: float, share: float, of: dict[str, float]) -> Factor:  # noqa: ARG002
        return Factor("tf", tf / (tf + room), "freq / (freq + k1 (1 - b + b dl / avgdl))", of)

    def size(self, index: Index) -> CollectionSize:
        """Count the collection: all documents, or those that hold a term."""
        return (
            CollectionSize(index.total_terms, index.num_docs) if self.variant.empty else super().size(index)
        )

    def lengths(self, index: Index) -> Integers32:
        """Return the lengths of all documents, as Lucene rounds them where the variant does."""
        exact = super().lengths(index)
        return quantised_lengths(exact) if self.variant.rounded else exact

    def columns(self, query: Sequence[str]) -> list[QueryColumn]:
        """Return each distinct term, counted once where the variant does so."""
        columns = super().columns(query)
        return [own._replace(times=1) for own in columns] if self.variant.once else columns

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless 0 <= b <= 1, and k1 is 0 or more."""
        super().check(settings)
        require_b(settings[:, 1])

    def parts(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score and differentiate each term by itself."""
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
    """BM25L and BM25+: a term that is held adds something however long the document is.

    Neither pruned nor certified: nothing is proved of its rounding.
    """

    def _saturation(self, tf: int, room: float, share: float, of: dict[str, float]) -> Factor:
        shift, bonus, k1 = self.variant.shift, self.variant.bonus, of["k1"]
        formula = "(k1 + 1) (freq + d s) / (freq + (k1 + d) s) + e, s = 1 - b + b dl / avgdl"
        value = (k1 + 1.0) * (tf + shift * share) / (tf + room + shift * share) + bonus if tf else 0.0
        return Factor("tf", value, formula, {**of, "d": shift, "e": bonus})

    def parts(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score and differentiate each term by itself."""
        k1, b = setting.tolist()
        relative, shift = topic.length / topic.mean_length, self.variant.shift
        share = np.maximum((1.0 - b) + b * relative, LEAST_ROOM)
        idf_held = np.where(topic.tf > 0, topic.value[:, None], 0.0)
        whole = topic.tf + np.maximum((k1 + shift) * share, LEAST_ROOM)
        upper = topic.tf + shift * share
        parts = idf_held * ((k1 + 1.0) * upper / whole + self.variant.bonus)
        # With u = tf + d s and v = tf + (k1 + d) s: u' v - u v' in s is -k1 tf.
        # Divided twice: the square of an empty document's room at b = 1 is 0.
        in_k1 = idf_held * (upper / whole - (k1 + 1.0) * (upper / whole) * (share / whole))
        in_b = idf_held * (-(k1 + 1.0) * k1 * (topic.tf / whole / whole)) * (relative - 1.0)
        return parts, np.stack((in_k1, in_b))

    def differentiate(self, topic: TopicDocuments, setting: Doubles) -> tuple[Doubles, Doubles]:
        """Score one topic's documents and differentiate the scores in k1 and b."""
        parts, gradients = self.parts(topic, setting)
        counts = np.asarray(topic.counts, np.float64)
        return counts @ parts, np.einsum("t,ptd->pd", counts, gradients)

    rank_scores = Formula.rank_scores
    likelihoods = Formula.likelihoods


def bm25_formula(name: str) -> BM25:
    """Return BM25 by what it is called: ``bm25``, ``lucene-bm25``, or a variant, ``bm25:atire``.

    Raises
    ------
    InputError
        Naming the variants there are.
    """
    if name == "bm25":
        return BM25()
    if name == "lucene-bm25":
        return BM25(LUCENE, name)
    key = name.removeprefix(BM25_PREFIX)
    check_choice("unknown variant of BM25", key, VARIANTS)
    kind = LowerBoundedBM25 if VARIANTS[key].shift or VARIANTS[key].bonus else BM25
    return kind(VARIANTS[key], name)
