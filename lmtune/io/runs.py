"""TREC runs: read strictly, and written so that trec_eval ranks exactly as we did."""

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

_SIGN = np.int64(0x80000000)
_LARGEST = float(np.finfo(np.float32).max)
_SHOWN = 3


class Ranking(NamedTuple):
    """One topic's ranked documents.

    Attributes
    ----------
    topic : str
        The topic's identifier.
    docnos : list of str
        Docnos, best first, in exactly the order that a run shall give.
    scores : numpy.ndarray of float64, shape (len(docnos),)
        Their scores, finite, descending up to rounding.
    """

    topic: str
    docnos: list[str]
    scores: Doubles

    def __repr__(self) -> str:
        """Show the best documents alone."""
        best = ", ".join(self.docnos[:_SHOWN]) + (", ..." if len(self.docnos) > _SHOWN else "")
        return f"Ranking(topic {self.topic}, {quantity(len(self.docnos), 'document')}: {best})"

    def printed_rows(self) -> Iterator[tuple[str, str, float]]:
        """Yield the topic, a docno and the score that is printed of it, best first."""
        scores = printed_scores(self.docnos, self.scores).tolist()
        return zip(itertools.repeat(self.topic), self.docnos, scores)


def printed_scores(docnos: Sequence[str], scores: ArrayLike) -> Singles:
    """Return the scores to print, so that sorting by them gives the order of `docnos`.

    trec_eval ranks by score descending, then docno descending (code points); up to 9.0.8 it keeps
    scores as 32-bit floats, from 10.0 as doubles. The result p holds float32 values as close
    below ``scores`` as that order allows: p[i] = min(float32(scores[i]), p[i-1]) where docno i
    sorts before docno i-1, and where it does not, at least one float32 step below p[i-1].
    Nine significant digits identify a float32, so that both versions see the same order.

    Parameters
    ----------
    docnos : sequence of str, length n
        Distinct docnos in the order wanted.
    scores : array-like, shape (n,)
        Their scores, finite, within float32's range.

    Returns
    -------
    numpy.ndarray of float32, shape (n,)
        The scores to print with ``%.9g``.

    Raises
    ------
    InputError
        If a score is not finite, or outside float32's range (before or after the steps).
    """
    exact = np.asarray(scores, dtype=np.float64)
    if exact.shape != (len(docnos),):
        raise InputError(
            "docnos and scores differ in number",
            value=(len(docnos), exact.shape),
            accepted="one score a document",
        )
    outside = ~(np.abs(exact) <= _LARGEST)
    if outside.any():
        worst = int(np.argmax(outside))
        raise InputError(
            f"cannot write the score of document {docnos[worst]}",
            value=float(exact[worst]),
            accepted=f"a finite number between -{_LARGEST:.4g} and {_LARGEST:.4g}",
        )
    # Adding zero turns -0.0 into 0.0, which would print differently.
    rounded = exact.astype(np.float32) + np.float32(0)
    if bool(np.all(rounded[1:] < rounded[:-1])):
        return rounded
    # With k the place of a float32 among all, and d[i] in {0, 1} the steps wanted below the
    # neighbour, p[i] = min(k[i], p[i-1] - d[i]) unrolls to a running minimum of k + cumsum(d).
    places = _places(rounded)
    steps = np.zeros(len(docnos), dtype=np.int64)
    steps[1:] = [later >= earlier for earlier, later in itertools.pairwise(docnos)]
    total = np.cumsum(steps)
    lowered = np.minimum.accumulate(places + total) - total
    if lowered[-1] < _places(np.array([-_LARGEST], dtype=np.float32))[0]:
        raise InputError(
            "no float32 is left below the score of tied documents",
            value=float(rounded[-1]),
            accepted="scores above the smallest float32",
        )
    return _values(lowered)


def check_tag(tag: str) -> None:
    """Raise InputError unless `tag` can be a run's name: not empty, no white space."""
    if tag.split() != [tag]:
        raise InputError("bad run tag", value=tag, accepted="a name without white space, such as two-stage")


def write_run(target: PathLike | TextIO, rankings: Iterable[Ranking], *, tag: str) -> None:
    """Write a TREC run, one topic at a time, a file whole or not at all.

    Parameters
    ----------
    target : path-like or TextIO
        A file, compressed by its suffix; or a stream to write on.
    rankings : iterable of Ranking
        The topics' rankings; consumed once.
    tag : str
        The run's name: the sixth column.

    Raises
    ------
    InputError
        If the tag, a topic or a docno is empty or holds white space; a topic or a docno within a
        topic comes twice; a score cannot be written (see `printed_scores`).
    """
    check_tag(tag)
    written: set[str] = set()
    path = os.fspath(target) if isinstance(target, str | os.PathLike) else "the run"
    with _opened(target) as stream:
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
            middle, end = f"{topic} Q0 ", f" {tag}\n"
            stream.writelines(
                [
                    f"{middle}{docno} {rank} {score:.9g}{end}"
                    for rank, (docno, score) in enumerate(zip(docnos, printed.tolist(), strict=True), 1)
                ]
            )


def _opened(target: PathLike | TextIO) -> AbstractContextManager[TextIO]:
    if isinstance(target, str | os.PathLike):
        return atomic_write(target)
    return nullcontext(target)


def read_run(path: PathLike) -> dict[str, dict[str, float]]:
    """Read a TREC run.

    Parameters
    ----------
    path : path-like
        A UTF-8 file, plain or compressed: ``topic Q0 docno rank score tag``, separated by any
        ASCII white space. The second and the rank column are ignored, as trec_eval does, but the
        rank must be an integer.

    Returns
    -------
    dict of str to dict of str to float
        Scores by topic and docno, in the file's order.

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
    names = [topic, *docnos]
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


def _places(values: Singles) -> Integers:
    """Return each float32's place in ascending order, 0 for both zeros; neighbours differ by 1."""
    bits = values.view(np.uint32).astype(np.int64)
    return np.where(bits >= _SIGN, _SIGN - bits, bits)


def _values(places: Integers) -> Singles:
    bits = np.where(places < 0, _SIGN - places, places).astype(np.uint32)
    return bits.view(np.float32)
