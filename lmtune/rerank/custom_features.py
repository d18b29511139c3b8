"""Custom features of a run's documents: another run's scores, and values of documents such as priors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError
from lmtune.io.files import read_lines
from lmtune.io.runs import read_run
from lmtune.io.term_values import read_document_values
from lmtune.options import option
from lmtune.progress import note
from lmtune.rerank.data import RankingData

RUN, DOCUMENTS = "run", "documents"
"""Kinds of custom features."""

_RUN_COLUMNS = 6


def custom_features_option() -> Any:
    """Make the option for custom features; `parse_custom_features` reads its value."""
    return option(
        (),
        "A custom feature: the scores of a run, or lines of docno, value; repeat it for several.",
        flag="--feature",
        separator=None,
        metavar="NAME=FILE",
    )


class CustomFeature(NamedTuple):
    """A custom feature.

    Attributes
    ----------
    file : path
        A run, or a file of documents' values.
    kind : str
        ``run`` or ``documents``.
    """

    file: Path
    kind: str


def parse_custom_features(texts: Sequence[str], names: Sequence[str]) -> dict[str, CustomFeature]:
    """Parse NAME=FILE; the first line of a file shows its kind.

    Parameters
    ----------
    texts : sequence of str
    names : sequence of str
        The names of the other features.

    Raises
    ------
    InputError
        If a name is not of letters, digits and underscores, or occurs twice; or a file has neither form.
    """
    found: dict[str, CustomFeature] = {}
    for text in texts:
        name, _, file = text.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or not file:
            accepted = "NAME=FILE, with a name of letters, digits and underscores"
            raise InputError("bad --feature", value=text, accepted=accepted)
        if name in (*names, *found):
            raise InputError("a feature of this name exists", value=name, accepted="another name")
        first = next((line for _, line in read_lines(Path(file)) if line.strip()), "")
        is_run = len(first.split()) == _RUN_COLUMNS
        if not is_run and first.count("\t") != 1:
            accepted = "a run, or lines of docno<TAB>value"
            raise InputError("not a file of a feature", file=file, value=first, accepted=accepted)
        found[name] = CustomFeature(Path(file), RUN if is_run else DOCUMENTS)
    return found


def check_same(known: Mapping[str, str], features: Mapping[str, CustomFeature]) -> None:
    """Raise InputError if custom features differ from those in training, by name, kind or order."""
    kinds = {name: feature.kind for name, feature in features.items()}
    if list(known.items()) != list(kinds.items()):
        accepted = " ".join(f"--feature {name}=FILE ({kind})" for name, kind in known.items())
        problem = "the model was trained on other custom features"
        raise InputError(problem, value=", ".join(kinds) or None, accepted=accepted or "no --feature")


def with_custom_features(data: RankingData, features: Mapping[str, CustomFeature]) -> RankingData:
    """Add custom features to lists of a run's documents, after the other features.

    A document that a run lacks has the run's lowest score of the topic; one without a value has 0.

    Raises
    ------
    InputError
        If a run lacks a topic, or a file is invalid.
    """
    columns = [_column(data, name, *feature) for name, feature in features.items()]
    return replace(data, features=np.column_stack([data.features, *columns])) if columns else data


def _column(data: RankingData, name: str, file: Path, kind: str) -> NDArray[np.float32]:
    docnos = data.docnos or ()
    if kind == DOCUMENTS:
        values = read_document_values(file)
        missing = sum(docno not in values for docno in docnos)
        if missing:
            note(f"{missing} of {len(docnos)} documents have no value of {name} in {file}, and get 0")
        return np.array([values.get(docno, 0.0) for docno in docnos], np.float32)
    run, column = read_run(file), np.empty(len(docnos), np.float32)
    for q, topic in enumerate(data.queries):
        if not (scores := run.get(topic)):
            accepted = "a run with all topics"
            raise InputError(
                f"the run of feature {name} lacks a topic", file=file, value=topic, accepted=accepted
            )
        rows, lowest = data.rows(q), min(scores.values())
        column[rows] = [scores.get(docno, lowest) for docno in docnos[rows]]
    return column
