"""Reading and writing of TREC runs. trec_eval ranks the documents of a written run in the written order."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, TextIO

import numpy as np
from numpy.typing import ArrayLike

from lmtune.arrays import Doubles, Integers, Singles
from lmtune.errors import InputError, PathLike
from lmtune.io.columns import read_run_columns
from lmtune.io.files import atomic_write
from lmtune.progress import quantity

_SIGN_BIT = np.int64(0x80000000)
_LARGEST_SCORE = float(np.finfo(np.float32).max)
# Number of docnos in the text of a ranking.
_SHOWN_DOCNOS = 3


class Ranking(NamedTuple):
    """One topic's ranked documents.

    Attributes
    ----------
    topic : str
        The topic's identifier.
    docnos : list of str
        Docnos, best first, in the order that the run must have.
    scores : numpy.ndarray of float64, shape (len(docnos),)
        Their scores, finite, descending up to rounding.
    """

    topic: str
    docnos: list[str]
    scores: Doubles

    def __repr__(self) -> str:
        """Show the number of documents and the best ones."""
        best = ", ".join(self.docnos[:_SHOWN_DOCNOS]) + (", ..." if len(self.docnos) > _SHOWN_DOCNOS else "")
        return f"Ranking(topic {self.topic}, {quantity(len(self.docnos), 'document')}: {best})"

    def printed_rows(self) -> Iterator[tuple[str, str, float]]:
        """Yield (topic, docno, printed score) of each document, best first."""
        scores = printed_scores(self.docnos, self.scores).tolist()
        return zip(itertools.repeat(self.topic), self.docnos, scores)


def printed_scores(docnos: Sequence[str], scores: ArrayLike) -> Singles:
    """Return the scores to print, so that trec_eval sorts the documents in the order of `docnos`.

    trec_eval sorts by score descending, then by docno descending (code points). Up to version 9.0.8 it stores
    scores as 32-bit floats, from 10.0 as doubles. The result p consists of float32 values:

        p[i] = min(float32(scores[i]), p[i-1])         if docnos[i] < docnos[i-1]
        p[i] = min(float32(scores[i]), below(p[i-1]))  otherwise

    where below(x) is the next float32 below x. Nine significant digits identify a float32, so both versions
    of trec_eval read the same order.

    Parameters
    ----------
    docnos : sequence of str, length n
        Distinct docnos in the required order.
    scores : array-like, shape (n,)
        Their scores, finite, within the range of float32.

    Returns
    -------
    numpy.ndarray of float32, shape (n,)
        The scores to print with ``%.9g``.

    Raises
    ------
    InputError
        If a score is not finite, or it or its printed score is outside the range of float32.
    """
    exact = np.asarray(scores, dtype=np.float64)
    if exact.shape != (len(docnos),):
        raise InputError(
            "docnos and scores differ in number",
            value=(len(docnos), exact.shape),
            accepted="one score a document",
        )
    outside = ~(np.abs(exact) <= _LARGEST_SCORE)
    if outside.any():
        worst = int(np.argmax(outside))
        raise InputError(
            f"cannot write the score of document {docnos[worst]}",
            value=float(exact[worst]),
            accepted=f"a finite number between -{_LARGEST_SCORE:.4g} and {_LARGEST_SCORE:.4g}",
        )
    # Adding zero turns -0.0 into 0.0, which would print differently.
    rounded = exact.astype(np.float32) + np.float32(0)
    if bool(np.all(rounded[1:] < rounded[:-1])):
        return rounded
    # Let k[i] be the ordinal number of float32(scores[i]) among all float32 values, and d[i] (0 or 1) how far
    # p[i] must be below p[i-1]. In ordinal numbers, p[i] = min(k[i], p[i-1] - d[i]), so that p + cumsum(d) is
    # the running minimum of k + cumsum(d).
    ordinals = _ordinals(rounded)
    steps = np.zeros(len(docnos), dtype=np.int64)
    steps[1:] = [later >= earlier for earlier, later in itertools.pairwise(docnos)]
    total = np.cumsum(steps)
    lowered = np.minimum.accumulate(ordinals + total) - total
    if lowered[-1] < _ordinals(np.array([-_LARGEST_SCORE], dtype=np.float32))[0]:
        raise InputError(
            "no float32 is left below the score of tied documents",
            value=float(rounded[-1]),
            accepted="scores above the smallest float32",
        )
    return _float32_values(lowered)


def check_tag(tag: str) -> None:
    """Raise `InputError` if the tag of a run is empty or contains white space."""
    if tag.split() != [tag]:
        raise InputError("bad run tag", value=tag, accepted="a name without white space, such as two-stage")


def write_run(target: PathLike | TextIO, rankings: Iterable[Ranking], *, tag: str) -> None:
    """Write a TREC run, one topic at a time; a file is written atomically.

    Parameters
    ----------
    target : path-like or TextIO
        A file, compressed if its suffix names a compression, or an open text stream.
    rankings : iterable of Ranking
        One ranking for each topic; iterated once.
    tag : str
        The name of the run, written in the sixth column.

    Raises
    ------
    InputError
        If the tag, a topic or a docno is empty or contains white space, if a topic, or a docno of a topic, is
        repeated, or if a score cannot be written (see `printed_scores`).
    """
    check_tag(tag)
    written: set[str] = set()
    path = os.fspath(target) if isinstance(target, str | os.PathLike) else "the run"
    with _open_target(target) as stream:
        for topic, docnos, scores in rankings:
            _check_names(path, topic, docnos)
            if topic in written:
                raise InputError("topic ranked twice", file=path, value=topic)
            written.add(topic)
            try:
                printed = printed_scores(docnos, scores)
            except InputError as error:
                error.message = f"topic {topic}: {error.message}"
                error.file = path
                raise
            prefix, suffix = f"{topic} Q0 ", f" {tag}\n"
            lines = [
                f"{prefix}{docno} {rank} {score:.9g}{suffix}"
                for rank, (docno, score) in enumerate(zip(docnos, printed.tolist(), strict=True), 1)
            ]
            stream.write("".join(lines))


def _open_target(target: PathLike | TextIO) -> AbstractContextManager[TextIO]:
    """Open a file for atomic writing, or return an open stream that stays open."""
    if isinstance(target, str | os.PathLike):
        return atomic_write(target)
    return nullcontext(target)


def read_run(path: PathLike) -> dict[str, dict[str, float]]:
    """Read a TREC run.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed: ``topic Q0 docno rank score tag``, separated by ASCII white space;
        or another format of `lmtune.io.columns.read_run_columns`. The second and the rank column are ignored,
        as in trec_eval, but the rank must be an integer.

    Returns
    -------
    dict of str to dict of str to float
        Scores by topic and docno, in the order of the file.

    Raises
    ------
    InputError
        As `lmtune.io.columns.read_run_columns`.
    """
    return {
        topic.decode(): dict(zip(map(bytes.decode, docnos), scores, strict=True))
        for topic, (docnos, scores) in read_run_columns(path).topics.items()
    }


def _check_names(path: PathLike, topic: str, docnos: list[str]) -> None:
    """Raise `InputError` if a name is empty or contains white space, or a docno is repeated."""
    names = [topic, *docnos]
    # One split of all names is faster than one for each name.
    joined = "\n".join(names)
    if "\n".join(joined.split()) != joined:
        bad = next(name for name in names if name.split() != [name])
        raise InputError(
            "cannot write a topic or docno", file=path, value=bad, accepted="no white space in it"
        )
    if len(set(docnos)) != len(docnos):
        seen: set[str] = set()
        twice = next(docno for docno in docnos if docno in seen or seen.add(docno))  # type: ignore[func-returns-value]
        raise InputError(f"document ranked twice for topic {topic}", file=path, value=twice)


def _ordinals(values: Singles) -> Integers:
    """Return ordinal numbers of float32 values: 0 for both zeros, and 1 between neighbouring values."""
    bits = values.view(np.uint32).astype(np.int64)
    return np.where(bits >= _SIGN_BIT, _SIGN_BIT - bits, bits)


def _float32_values(ordinals: Integers) -> Singles:
    """Return the float32 values of ordinal numbers: the inverse of `_ordinals`."""
    bits = np.where(ordinals < 0, _SIGN_BIT - ordinals, ordinals).astype(np.uint32)
    return bits.view(np.float32)
