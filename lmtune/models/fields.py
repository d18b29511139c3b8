r"""Models of documents with several fields: a mixture of language models, and BM25.

The mixture of the fields' language models is

.. math:: g(Q;D) = \sum_{w \in Q} \log \sum_f \omega_f \Big((1-\lambda)
    \frac{tf_{w,f} + \mu_f p_{w,f}}{\mu_f + |D|_f} + \lambda p_{w,f}\Big), \qquad
    p_{w,f} = \frac{cf_{w,f}}{|C|_f},

after Ogilvie and Callan (SIGIR 2003), with two-stage smoothing in each field. The sum leaves out fields in
which no document has the term. A query term that occurs c times counts c times.

BM25 either uses the summed frequencies of the fields, or is summed over the fields. With F fields, their mean
lengths L_f and :math:`s_f = 1 - b_f + b_f |D|_f / L_f`,

.. math:: g(Q;D) = \sum_{w \in Q} idf_w \frac{x_w}{k_1 + x_w}, \qquad
    x_w = F \sum_f \omega_f \frac{tf_{w,f}}{s_f}

is BM25F (Zaragoza, Craswell, Taylor, Saria and Robertson, TREC 2004), and

.. math:: g(Q;D) = \sum_f \omega_f \sum_{w \in Q} idf_{w,f} \frac{tf_{w,f}}{tf_{w,f} + k_1 s_f}

is the score of most engines for a query on several fields: ``most_fields`` in Elasticsearch, ``fields`` in
Anserini. The weights add up to 1. At equal weights BM25F adds up unweighted frequencies, because of the
factor F. For the sum, a common factor of all weights changes no ranking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Doubles, Integers32
from lmtune.errors import InputError
from lmtune.index.protocol import CollectionSize, Index, Postings, TermCounts, field_index
from lmtune.io.documents import check_fields
from lmtune.models.bm25 import K1, B, idf, require_b
from lmtune.models.fields_kernels import (
    differentiate_bm25_fields,
    differentiate_mixture,
    rank_bm25_fields,
    rank_mixture,
)
from lmtune.models.formula import CompiledFormula, Kernels, QueryColumn
from lmtune.models.parameter import Parameter
from lmtune.models.two_stage import LAMBDA, MU

_MOST_FIELDS = 100


class FieldFormula(CompiledFormula):
    """A formula with a weight and a parameter per field, and one common parameter.

    Weights are shares that add up to 1. A search varies their logarithms independently and divides by their
    sum (`Parameter.share`), which is a softmax with one coordinate per field. One coordinate is redundant,
    but without it the other fields' steps would depend on which field was dropped.

    Attributes
    ----------
    kind : str
        Prefix of the model's name; a colon and the fields, separated by commas, follow.
    what : str
        A short description.
    of_field, of_all : Parameter
        The additional parameter of each field, and the common parameter.

    Parameters
    ----------
    fields : sequence of str
        Names of the fields, as in ``lmtune index --fields``.

    Raises
    ------
    InputError
        If there are no fields, more than 100, or invalid names.
    """

    kind: str
    what: str
    of_field: Parameter
    of_all: Parameter
    dominance = "tf"

    def __init__(self, fields: Sequence[str]) -> None:
        check_fields(fields)
        if not 0 < len(fields) <= _MOST_FIELDS:
            raise InputError(
                "bad number of fields",
                value=fields,
                accepted=f"1 to {_MOST_FIELDS} fields: --fields title,contents",
            )
        self.fields = self.group_names = tuple(fields)
        self.name = f"{self.kind}:{','.join(fields)}"
        share = 1.0 / len(fields)
        low, high = (0.001, 0.999) if len(fields) > 1 else (1.0, 1.0)
        weights = [
            Parameter(f"w_{field}", low, high, "log", share, f"the weight of {field}", share="w")
            for field in fields
        ]
        name, what = self.of_field.name, self.of_field.what
        each = [replace(self.of_field, name=f"{name}_{field}", what=f"{what} of {field}") for field in fields]
        self.parameters: tuple[Parameter, ...] = (*weights, *each, self.of_all)

    def columns(self, query: Sequence[str]) -> list[QueryColumn]:
        """Return a column for each distinct term and field, the fields of a term next to each other."""
        return [
            QueryColumn(term, group, count)
            for term, count in Counter(query).items()
            for group in range(len(self.fields))
        ]

    def look_up(self, index: Index, columns: Sequence[QueryColumn]) -> list[Postings | None]:
        """Return postings; empty ones if only other fields have the term, and None if no field has it."""
        postings, none = super().look_up(index, columns), np.empty(0, np.int32)
        known = {column.term for column, one in zip(columns, postings, strict=True) if one is not None}
        return [
            one or Postings(none, none) if column.term in known else None
            for column, one in zip(columns, postings, strict=True)
        ]

    def group_index(self, index: Index, group: int) -> Index:
        """Return the index of a field."""
        return field_index(index, self.fields[group])

    def field_lengths(self, index: Index, docs: NDArray[np.integer]) -> Integers32:
        """Return the lengths of documents in each field, shape (fields, documents)."""
        return np.array([field_index(index, field).lengths[docs] for field in self.fields], np.int32)

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless weights are positive with sum 1, and the other parameters are valid."""
        self._check_above_0(settings, len(self.fields))
        super().check(settings)

    def _check_above_0(self, settings: Doubles, parameters: int) -> None:
        for parameter, values in zip(self.parameters[:parameters], settings.T, strict=False):
            if (values == 0.0).any():
                raise InputError(
                    f"{parameter.name} is outside its domain", value=0.0, accepted=f"{parameter.name} > 0"
                )


class Fields(FieldFormula):
    r"""Mixture of the fields' language models, with parameters weight and mu per field, and lambda.

    With x the sum over fields, and m its summand without the weight,

    .. math::
        \frac{\partial g}{\partial \omega_f} &= \sum_w \frac{m_{w,f}}{x_w}, \qquad
        \frac{\partial g}{\partial \mu_f} = \sum_w \frac{\omega_f (1-\lambda)
            (p_{w,f} |D|_f - tf_{w,f})}{x_w (\mu_f + |D|_f)^2} \\
        \frac{\partial g}{\partial \lambda} &= \sum_w \frac{1}{x_w} \sum_f \omega_f
            \frac{p_{w,f} |D|_f - tf_{w,f}}{\mu_f + |D|_f}

    A common factor of all weights changes no ranking.
    """

    kind, what = "fields", "a mixture of the fields' language models"
    of_field, of_all = MU, LAMBDA
    is_likelihood = True
    kernels = Kernels(rank_mixture, differentiate_mixture)

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless weights and mus are positive, weights sum to 1, and 0 <= lambda < 1."""
        self._check_above_0(settings, 2 * len(self.fields))
        super().check(settings)


class SummedBM25(FieldFormula):
    r"""Weighted sum of the fields' BM25 scores, with parameters weight and b per field, and k1.

    A field's idf and mean length are computed from the documents that have the field. With a single field
    of weight 1, the score is that of `lmtune.models.bm25`.
    """

    kind, what = "bm25-fields", "a weighted sum of the fields' BM25"
    of_field, of_all = B, K1
    value_name = "idf"
    kernels = Kernels(rank_bm25_fields, differentiate_bm25_fields)
    switches: tuple[bool, ...] = (True,)

    def term_value(self, term: TermCounts) -> float:
        """Return a term's idf in a field."""
        return idf(term.df, term.size.documents)

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless weights are positive with sum 1, 0 <= b <= 1, and k1 >= 0."""
        super().check(settings)
        require_b(settings[:, len(self.fields) : -1])


class BM25F(SummedBM25):
    """BM25F: BM25 of weighted, length-normalised frequencies summed over fields; parameters as `SummedBM25`.

    A term's df is the largest of its df in the fields, as in Lucene's CombinedFieldQuery. N and mean lengths
    include all documents.
    """

    kind, what = "bm25f", "BM25F: BM25 of frequencies summed over fields"
    switches = (False,)

    def size(self, index: Index) -> CollectionSize:
        """Return the size with all documents: with one N, a term's least idf belongs to its largest df."""
        return CollectionSize(index.total_terms, index.num_docs)
