"""A baseline's values by topic in a file, to compare later runs with it without its run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lmtune.arrays import Doubles
from lmtune.errors import InputError, PathLike
from lmtune.io.digests import sealed_text, unsealed
from lmtune.io.files import atomic_write, read_bytes
from lmtune.measures.from_files import EvaluationOptions, evaluations, for_judgments
from lmtune.measures.measure import MeasuresLike, parse_measures
from lmtune.measures.residual_bounds import JUDGED
from lmtune.strict_json import parse_json

SUFFIX = ".json"
_FEW = 10  # names in a message
_KINDS = {"judgments": str, "topics": list[str], "values": dict[str, list[float]]}


class StoredBaseline(NamedTuple):
    """Values by topic and measure.

    Attributes
    ----------
    file : path-like
        Where they are stored.
    topics : list of str
        Identifiers.
    values : dict of str to list of float
        One value a topic, by measure.
    """

    file: PathLike
    topics: list[str]
    values: dict[str, list[float]]

    def of(self, topics: Sequence[str], measures: Sequence[str]) -> Doubles:
        """Return values in shape (topics, measures); raise InputError if some are not stored."""
        _check_stored(self.file, "measure", measures, self.values)
        _check_stored(self.file, "topic", topics, self.topics)
        position = {topic: row for row, topic in enumerate(self.topics)}
        rows = [position[topic] for topic in topics]
        return np.array([[self.values[name][row] for row in rows] for name in measures], np.float64).T


def _check_stored(file: PathLike, what: str, wanted: Sequence[str], stored: Collection[str]) -> None:
    for name in wanted:
        if name not in stored:
            shown = ", ".join([*stored][:_FEW]) + (", ..." if len(stored) > _FEW else "")
            raise InputError(f"this {what} is not stored", file=file, value=name, accepted=shown)


def store_baseline(
    path: PathLike, qrels: PathLike, run: PathLike, measures: MeasuresLike, *, only: str | None = None
) -> None:
    """Store a run's values of all judged topics, or some, with a digest of the judgments, atomically.

    Parameters
    ----------
    path : path-like
        The file to write, ending in ``.json``.
    qrels, run : path-like
        Files of judgments and of the run; a topic that the run misses counts 0.
    measures, only
        As for `lmtune.measures.compare_runs`.

    Raises
    ------
    InputError
        If the name ends otherwise, or an input cannot be read.
    """
    if Path(path).suffix.lower() != SUFFIX:
        raise InputError("bad name for a stored baseline", file=path, accepted=f"a name ending in {SUFFIX}")
    labels = [*map(str, parse_measures(measures)), JUDGED]
    settings = for_judgments(EvaluationOptions(complete=True, topics=only), qrels)
    (evaluation,) = evaluations(qrels, [run], labels, settings=settings)
    values = {label: [*map(float, evaluation.column(label).values)] for label in labels}
    content = {"judgments": _digest(qrels), "topics": [*evaluation.topics], "values": values}
    with atomic_write(path) as stream:
        stream.write(sealed_text(content, indent=None))


def read_baseline(path: Any, qrels: Any) -> StoredBaseline | None:
    """Read what `store_baseline` wrote; return None for other runs.

    Raises
    ------
    InputError
        If the file is damaged, or was stored with other judgments.
    """
    if not isinstance(path, str | os.PathLike) or Path(path).suffix.lower() != SUFFIX:
        return None
    try:
        content = parse_json(read_bytes(path))
    except ValueError:
        return None
    if not isinstance(content, dict) or not isinstance(content.get("judgments"), str):
        return None
    try:
        content = unsealed(content, kinds=_KINDS)
    except ValueError as error:
        accepted = "the file as --store wrote it"
        raise InputError(f"damaged: {error}", file=path, accepted=accepted) from None
    if not isinstance(qrels, str | os.PathLike):
        raise InputError(
            "a stored baseline needs the file of judgments", file=path, value=type(qrels).__name__
        )
    if content["judgments"] != _digest(qrels):
        accepted = "the same file of judgments, or store the baseline again"
        raise InputError(f"stored with other judgments than {qrels}", file=path, accepted=accepted)
    return StoredBaseline(path, content["topics"], content["values"])


def _digest(qrels: PathLike) -> str:
    """Return the SHA-256 of a file's decompressed content."""
    return hashlib.sha256(read_bytes(qrels)).hexdigest()
