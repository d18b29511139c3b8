r"""BM25 of documents with several fields: of their summed frequencies, and the sum of the fields' BM25.

With :math:`s_f = 1 - b_f + b_f |D|_f / L_f` of F fields, L the mean length,

.. math:: g(Q;D) = \sum_{w \in Q} idf_w \frac{x_w}{k_1 + x_w}, \qquad
    x_w = F \sum_f \omega_f \frac{tf_{w,f}}{s_f}

is BM25F (Zaragoza, Craswell, Taylor, Saria and Robertson, TREC 2004), and

.. math:: g(Q;D) = \sum_f \omega_f \sum_{w \in Q} idf_{w,f} \frac{tf_{w,f}}{tf_{w,f} + k_1 s_f}

what a query of several fields is in most engines: Elasticsearch's ``most_fields``, Anserini's ``fields``. The
weights add up to 1, so that BM25F at equal weights adds up frequencies as they are; a sum keeps its order
whatever all weights are multiplied by.
"""

from __future__ import annotations

from lmtune.arrays import Doubles
from lmtune.index.protocol import CollectionSize, Index, TermCounts
from lmtune.models import bm25_fields_kernels
from lmtune.models.bm25 import K1, B, idf, require_b
from lmtune.models.fields import FieldFormula


class SummedBM25(FieldFormula):
    r"""The weighted sum of some fields' BM25; its parameters are weights, a b each, and k1.

    A field's idf counts the documents that have the field, and so does its mean length. Where a field of
    a document is as long as the mean, or all b are 0, with one weight of 1 it is `lmtune.models.bm25`'s.
    """

    kind, what = "bm25-fields", "a weighted sum of the fields' BM25"
    of_field, of_all = B, K1
    value_name = "idf"
    kernels, switches = bm25_fields_kernels, (True,)

    def term_value(self, term: TermCounts) -> float:
        """Return a term's idf in a field."""
        return idf(term.df, term.size.documents)

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless weights are shares of 1 above 0, 0 <= b <= 1, and k1 is 0 or more."""
        super().check(settings)
        require_b(settings[:, len(self.fields) : -1])


class BM25F(SummedBM25):
    """BM25 of frequencies that are summed over fields, each by its weight and length; parameters alike.

    A term's df is its largest in any of the fields, as of Lucene's CombinedFieldQuery; N and mean lengths
    count all documents.
    """

    kind, what = "bm25f", "BM25F: BM25 of frequencies summed over fields"
    switches = (False,)

    def size(self, index: Index) -> CollectionSize:
        """Count all documents, so that the least idf of a term's fields is that of its largest df."""
        return CollectionSize(index.total_terms, index.num_docs)
