r"""Models of documents with several fields: a mixture of language models, and BM25.

The mixture of a language model of each field is

.. math:: g(Q;D) = \sum_{w \in Q} \log \sum_f \omega_f \Big((1-\lambda)
    \frac{tf_{w,f} + \mu_f p_{w,f}}{\mu_f + |D|_f} + \lambda p_{w,f}\Big), \qquad
    p_{w,f} = \frac{cf_{w,f}}{|C|_f},

Ogilvie and Callan's (SIGIR 2003) with two-stage smoothing in each field. A field in which no
document holds a term has no part in it. A query term occurring c times counts c times.

BM25 is computed of the fields' summed frequencies, or summed over the fields. With
:math:`s_f = 1 - b_f + b_f |D|_f / L_f` of F fields, L the mean length,

.. math:: g(Q;D) = \sum_{w \in Q} idf_w \frac{x_w}{k_1 + x_w}, \qquad
    x_w = F \sum_f \omega_f \frac{tf_{w,f}}{s_f}

is BM25F (Zaragoza, Craswell, Taylor, Saria and Robertson, TREC 2004), and

.. math:: g(Q;D) = \sum_f \omega_f \sum_{w \in Q} idf_{w,f} \frac{tf_{w,f}}{tf_{w,f} + k_1 s_f}

is what a query of several fields is in most engines: Elasticsearch's ``most_fields``, Anserini's ``fields``.
The weights add up to 1, so that BM25F at equal weights adds up frequencies as they are; a sum keeps its order
whatever all weights are multiplied by.
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

_MOST = 100


class FieldFormula(CompiledFormula):
    """A formula of the documents' fields: of each a weight and a parameter, and one parameter of all.

    Weights are shares of 1, which a search moves in a box, evenly in their logarithm, and divides by their
    sum (`Parameter.share`): softmax coordinates, one a field. Dropping one of them would make the others'
    steps depend on which.

    Attributes
    ----------
    kind : str
        What the model's name begins with; the fields follow, after a colon and with commas between.
    what : str
        The same for a reader.
    of_field, of_all : Parameter
        What each field has besides its weight, and what all have together.

    Parameters
    ----------
    fields : sequence of str
        Their names, as `lmtune index --fields` has them.

    Raises
    ------
    InputError
        For no fields, or names that no field has.
    """

    kind: str
    what: str
    of_field: Parameter
    of_all: Parameter
    dominance = "tf"

    def __init__(self, fields: Sequence[str]) -> None:
        check_fields(fields)
        if not 0 < len(fields) <= _MOST:
            raise InputError(
                "no fields to mix, or too many", value=fields, accepted="--fields title,contents"
            )
        self.fields = self.group_names = tuple(fields)
        self.name = f"{self.kind}:{','.join(fields)}"
        share = 1.0 / len(fields)
        low, high = (0.001, 0.999) if len(fields) > 1 else (1.0, 1.0)
        weights = [
            Parameter(f"w_{field}", low, high, "log", share, f"the weight of {field}", share="w")
            for field in fields
        ]
        own, what = self.of_field.name, self.of_field.what
        each = [replace(self.of_field, name=f"{own}_{field}", what=f"{what} of {field}") for field in fields]
        self.parameters: tuple[Parameter, ...] = (*weights, *each, self.of_all)

    def columns(self, query: Sequence[str]) -> list[QueryColumn]:
        """Return each distinct term in each field, the fields of a term in a row."""
        return [
            QueryColumn(term, group, count)
            for term, count in Counter(query).items()
            for group in range(len(self.fields))
        ]

    def look_up(self, index: Index, columns: Sequence[QueryColumn]) -> list[Postings | None]:
        """Return no documents of a field that lacks the term, and None where all fields do."""
        found, none = super().look_up(index, columns), np.empty(0, np.int32)
        known = {column.term for column, own in zip(columns, found, strict=True) if own is not None}
        return [
            own or Postings(none, none) if column.term in known else None
            for column, own in zip(columns, found, strict=True)
        ]

    def part(self, index: Index, group: int) -> Index:
        """Return the index of a field."""
        return field_index(index, self.fields[group])

    def field_lengths(self, index: Index, docs: NDArray[np.integer]) -> Integers32:
        """Return each field's length of documents, shape (fields, documents)."""
        return np.array([field_index(index, field).lengths[docs] for field in self.fields], np.int32)

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless weights are above 0 and add up to 1, and the rest is in its domain."""
        self._check_above_0(settings, len(self.fields))
        super().check(settings)

    def _check_above_0(self, settings: Doubles, parameters: int) -> None:
        for parameter, values in zip(self.parameters[:parameters], settings.T, strict=False):
            if (values == 0.0).any():
                raise InputError(
                    f"{parameter.name} is outside its domain", value=0.0, accepted=f"{parameter.name} > 0"
                )


class Fields(FieldFormula):
    r"""The mixture of some fields' language models; its parameters are weights, a mu each, and lambda.

    With x the sum over fields, m its summand without the weight,

    .. math::
        \frac{\partial g}{\partial \omega_f} &= \sum_w \frac{m_{w,f}}{x_w}, \qquad
        \frac{\partial g}{\partial \mu_f} = \sum_w \frac{\omega_f (1-\lambda)
            (p_{w,f} |D|_f - tf_{w,f})}{x_w (\mu_f + |D|_f)^2} \\
        \frac{\partial g}{\partial \lambda} &= \sum_w \frac{1}{x_w} \sum_f \omega_f
            \frac{p_{w,f} |D|_f - tf_{w,f}}{\mu_f + |D|_f}

    A common factor of all weights changes no order.
    """

    kind, what = "fields", "a mixture of the fields' language models"
    of_field, of_all = MU, LAMBDA
    is_likelihood = True
    kernels = Kernels(rank_mixture, differentiate_mixture)

    def check(self, settings: Doubles) -> None:
        """Raise `InputError` unless weights and mus are above 0, weights add up to 1, and 0 <= lambda < 1."""
        self._check_above_0(settings, 2 * len(self.fields))
        super().check(settings)


class SummedBM25(FieldFormula):
    r"""The weighted sum of some fields' BM25; its parameters are weights, a b each, and k1.

    A field's idf counts the documents that have the field, and so does its mean length. Where a field of
    a document is as long as the mean, or all b are 0, with one weight of 1 it is `lmtune.models.bm25`'s.
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
