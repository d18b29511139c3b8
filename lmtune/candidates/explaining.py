"""Explanations of the terms' weights at a setting, and of a document's score."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError
from lmtune.index.protocol import TermCounts
from lmtune.io.files import atomic_write
from lmtune.models.formula import Factor, TermOccurrence
from lmtune.models.parameter import Setting, as_settings
from lmtune.models.weighted import Weighted

Explained = dict[str, float]


def explain_terms(pool: CandidatePool, setting: Setting) -> Iterator[tuple[str, str, Explained]]:
    """Yield each topic's terms in the collection, with their weights and the weights' parts.

    Parameters
    ----------
    pool : CandidatePool
        The topics. The columns of its formula must be terms.
    setting : mapping of str to float
        The formula's parameters by name.

    Yields
    ------
    tuple of str, str and dict of str to float
        The topic, the term (by decreasing weight) and its ``weight``. For a formula with term weights, the
        dictionary also has the parts of `lmtune.models.weighted.Weighted.origins`: those of the original
        query and of its expansion, and the factor of each feature. Other formulas have the term's count as
        weight.
    """
    [vector] = as_settings(pool.formula.parameters, setting)
    for t, topic in enumerate(pool.topics):
        rows = pool.count[..., pool.term_rows(t)]
        parts = {"weight": rows}
        if isinstance(pool.formula, Weighted):
            parts = {"weight": pool.formula.weights(rows, vector)[0], **pool.formula.origins(rows, vector)}
        explained = {
            term: {name: float(values[at]) for name, values in parts.items()}
            for at, term in reversed([*enumerate(pool.terms[t])])
        }
        for term in sorted(explained, key=lambda word: (-explained[word]["weight"], word)):
            yield topic, term, explained[term]


def write_explained(path: str, pool: CandidatePool, setting: Setting) -> None:
    """Write the explained terms as tab-separated values with a header."""
    with atomic_write(path) as stream:
        names: list[str] = []
        for topic, term, parts in explain_terms(pool, setting):
            if not names:
                names = list(parts)
                stream.write("\t".join(["topic", "term", *names]) + "\n")
            stream.write("\t".join([topic, term, *(f"{parts[name]:.6g}" for name in names)]) + "\n")


def term_parts(pool: CandidatePool, t: int, candidate: int, setting: Doubles) -> dict[str, float]:
    """Return the contribution of each term of topic t to the score of its candidate at a position."""
    terms, at, formula = pool.terms[t], np.array([candidate]), pool.formula
    if isinstance(formula, Weighted):
        added = formula.contributions(pool.topic_documents(t, at), setting)
        return dict(zip(dict.fromkeys(terms), added[:, 0].tolist(), strict=True))
    rows = {term: [row for row, other in enumerate(terms) if other == term] for term in terms}
    parts = {
        term: formula.differentiate(pool.topic_documents(t, at, columns), setting)
        for term, columns in rows.items()
    }
    return {term: float(scores[0]) for term, (scores, _) in parts.items()}


class TermExplanation(NamedTuple):
    """A term's contribution to a document's score.

    Attributes
    ----------
    term : str
    part : float
        The contribution.
    times : float
        Occurrences of the term in the query, or its weight there.
    factors : list of Factor
        Factors of the contribution, in addition to `times`; empty if the model's contribution is not a
        product.
    freq : list of int
        Frequencies in the document, in each field or kind of window that the model counts.
    """

    term: str
    part: float
    times: float
    factors: list[Factor]
    freq: list[int]


class DocumentExplanation(NamedTuple):
    """The score of a document, by query terms.

    Attributes
    ----------
    docno : str
    score : float
    terms : list of TermExplanation
        Terms with a contribution other than 0, the largest contribution first.
    """

    docno: str
    score: float
    terms: list[TermExplanation]

    def lines(self) -> Iterator[str]:
        """Yield lines of text: the score, each term's contribution, and its factors with their inputs."""
        yield f"{self.docno}: {self.score:.6g}, the sum of"
        for word in self.terms:
            factors = "".join(f" x {factor.name} {factor.value:.6g}" for factor in word.factors)
            freq = " and ".join(map(str, word.freq))
            factors = factors or f" x freq {freq}, by the model"
            yield f"  {word.part:.6g}  {word.term}: {word.times:.6g}{factors}"
            for factor in word.factors:
                numbers = ", ".join(f"{name} = {value:.6g}" for name, value in factor.inputs.items())
                yield f"      {factor.name} = {factor.formula}; {numbers}"


def explain_document(pool: CandidatePool, topic: str, docno: str, setting: Setting) -> DocumentExplanation:
    """Explain a document's score term by term, with the factors' names in Lucene.

    Parameters
    ----------
    pool : CandidatePool
        A pool with the topic, of a model of text.
    topic, docno : str
    setting : mapping of str to float
        The model's parameters by name.

    Raises
    ------
    InputError
        If the document is not among the topic's candidates.
    """
    [vector] = as_settings(pool.formula.parameters, setting)
    [t] = pool.positions([topic]).tolist()
    documents = pool.candidates.doc[pool.candidates.rows(t)]
    [number] = pool.index.doc_numbers([docno]).tolist()
    [positions] = np.nonzero(documents == number)
    if number < 0 or not positions.size:
        accepted = "a document with a query term, among the best (--hits)"
        raise InputError("no such document among the candidates", value=docno, accepted=accepted)
    position = int(positions[0])
    [score] = pool.formula.differentiate(pool.topic_documents(t, positions[:1]), vector)[0].tolist()
    weights, base = pool.count[..., pool.term_rows(t)], pool.formula
    if isinstance(base, Weighted):
        weights, base = base.weights(weights, vector)[0], base.base
    base_setting = vector[: len(base.parameters)]
    length = int(pool.candidates.length[pool.candidates.rows(t)][position])
    frequencies = pool.tf_block(pool.candidates, t)[:, position].tolist()
    details: dict[str, tuple[float, list[Factor], list[int]]] = {}
    for row, (column, postings) in enumerate(
        zip(pool.columns[t], base.look_up(pool.index, pool.columns[t]), strict=True)
    ):
        assert postings is not None  # pools have only columns that occur in the collection
        size = base.size(base.group_index(pool.index, column.group))
        counts = TermCounts(int(postings.tfs.sum(dtype=np.int64)), postings.docs.size, size)
        occurrence = TermOccurrence(counts, frequencies[row], length, pool.mean_length)
        factors = base.score_factors(occurrence, base_setting)
        details.setdefault(column.term, (float(weights[row]), factors, []))[2].append(frequencies[row])
    parts = term_parts(pool, t, position, vector)
    terms = [TermExplanation(term, part, *details[term]) for term, part in parts.items() if part]
    return DocumentExplanation(docno, score, sorted(terms, key=lambda word: -word.part))
