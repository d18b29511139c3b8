"""Queries term by term: each term's weight at a setting, and what made it."""

from __future__ import annotations

from collections.abc import Iterator

from lmtune.candidates.pool import CandidatePool
from lmtune.models.parameter import Setting, as_settings
from lmtune.models.weighted import Weighted
from lmtune.storage.files import atomic_write

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
