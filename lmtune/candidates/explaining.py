"""Queries term by term: each term's weight at a setting, what made it, and a document's score by terms."""

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
    """Yield each topic's terms that the collection holds, with the weight and what it is made of.

    Parameters
    ----------
    pool : CandidatePool
        The topics, of a formula whose columns are terms.
    setting : mapping of str to float
        The formula's parameters by name.

    Yields
    ------
    tuple of str, str and dict of str to float
        The topic; the term, heaviest first; its ``weight``, and of a formula with weights what
        `lmtune.models.weighted.Weighted.origins` says: the parts of the original query and of its
        expansion, and the factor of each feature. Other formulas have the term's count as weight.
    """
    [vector] = as_settings(pool.formula.parameters, setting)
    for t, topic in enumerate(pool.topics):
        rows = pool.count[..., pool.term_rows(t)]
        made = {"weight": rows}
        if isinstance(pool.formula, Weighted):
            made = {"weight": pool.formula.weights(rows, vector)[0], **pool.formula.origins(rows, vector)}
        known = {
            term: {name: float(values[at]) for name, values in made.items()}
            for at, term in reversed([*enumerate(pool.terms[t])])
        }
        for term in sorted(known, key=lambda own: (-known[own]["weight"], own)):
            yield topic, term, known[term]


def write_explained(path: str, pool: CandidatePool, setting: Setting) -> None:
    """Write what `explain_terms` yields as lines between tabs, under a line of names."""
    with atomic_write(path) as stream:
        names: list[str] = []
        for topic, term, made in explain_terms(pool, setting):
            if not names:
                names = list(made)
                stream.write("\t".join(["topic", "term", *names]) + "\n")
            stream.write("\t".join([topic, term, *(f"{made[name]:.6g}" for name in names)]) + "\n")


def term_parts(pool: CandidatePool, t: int, place: int, setting: Doubles) -> dict[str, float]:
    """Return what each term of topic t gives one of its candidates by itself."""
    terms, at, formula = pool.terms[t], np.array([place]), pool.formula
    if isinstance(formula, Weighted):
        added = formula.contributions(pool.topic_documents(t, at), setting)
        return dict(zip(dict.fromkeys(terms), added[:, 0].tolist(), strict=True))
    rows = {term: [row for row, other in enumerate(terms) if other == term] for term in terms}
    parts = {
        term: formula.differentiate(pool.topic_documents(t, at, own), setting) for term, own in rows.items()
    }
    return {term: float(scores[0]) for term, (scores, _) in parts.items()}


class TermAccount(NamedTuple):
    """A term's part of a document's score.

    Attributes
    ----------
    term : str
    part : float
        What it adds.
    times : float
        How often the query has it, or its weight there.
    factors : list of Factor
        Their product, `times` times, is the part; empty where the model's is no product.
    freq : list of int
        How often the document has it, in each field or kind of window that the model counts.
    """

    term: str
    part: float
    times: float
    factors: list[Factor]
    freq: list[int]


class DocumentAccount(NamedTuple):
    """How a document's score comes about.

    Attributes
    ----------
    docno : str
    score : float
    terms : list of TermAccount
        Those of the query that add something, the largest part first.
    """

    docno: str
    score: float
    terms: list[TermAccount]

    def lines(self) -> Iterator[str]:
        """Yield it as text: the score, each term's part, and below it the factors with their numbers."""
        yield f"{self.docno}: {self.score:.6g}, the sum of"
        for own in self.terms:
            factors = "".join(f" x {factor.name} {factor.value:.6g}" for factor in own.factors)
            freq = " and ".join(map(str, own.freq))
            yield f"  {own.part:.6g}  {own.term}: {own.times:.6g}{factors or f' x freq {freq}, by the model'}"
            for factor in own.factors:
                numbers = ", ".join(f"{name} = {value:.6g}" for name, value in factor.inputs.items())
                yield f"      {factor.name} = {factor.formula}; {numbers}"


def explain_document(pool: CandidatePool, topic: str, docno: str, setting: Setting) -> DocumentAccount:
    """Account for a document's score term by term, in the words of engines.

    Parameters
    ----------
    pool : CandidatePool
        With the topic, of a model of text.
    topic, docno : str
    setting : mapping of str to float
        The model's parameters by name.

    Raises
    ------
    InputError
        For a document that is not among the topic's candidates.
    """
    [vector] = as_settings(pool.formula.parameters, setting)
    [t] = pool.positions([topic]).tolist()
    documents = pool.candidates.doc[pool.candidates.rows(t)]
    [number] = pool.index.doc_numbers([docno]).tolist()
    [places] = np.nonzero(documents == number)
    if number < 0 or not places.size:
        accepted = "a document that holds a word of the query, among the best (--hits)"
        raise InputError("no such document among the candidates", value=docno, accepted=accepted)
    place = int(places[0])
    [score] = pool.formula.differentiate(pool.topic_documents(t, places[:1]), vector)[0].tolist()
    weights, base = pool.count[..., pool.term_rows(t)], pool.formula
    if isinstance(base, Weighted):
        weights, base = base.weights(weights, vector)[0], base.base
    own = vector[: len(base.parameters)]
    length = int(pool.candidates.length[pool.candidates.rows(t)][place])
    frequencies = pool.tf_block(pool.candidates, t)[:, place].tolist()
    held: dict[str, tuple[float, list[Factor], list[int]]] = {}
    for row, (column, postings) in enumerate(
        zip(pool.columns[t], base.look_up(pool.index, pool.columns[t]), strict=True)
    ):
        assert postings is not None  # a column is of a term that the collection holds
        size = base.size(base.group_index(pool.index, column.group))
        counts = TermCounts(int(postings.tfs.sum(dtype=np.int64)), postings.docs.size, size)
        factors = base.score_factors(TermOccurrence(counts, frequencies[row], length, pool.mean_length), own)
        held.setdefault(column.term, (float(weights[row]), factors, []))[2].append(frequencies[row])
    parts = term_parts(pool, t, place, vector)
    terms = [TermAccount(term, part, *held[term]) for term, part in parts.items() if part]
    return DocumentAccount(docno, score, sorted(terms, key=lambda own: -own.part))
