"""Which topics parameters are chosen on, and which they are reported on."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lmtune.errors import InputError


@dataclass(frozen=True)
class Fold:
    """Training topics and the test topics held out from them, both in the topics' order."""

    train: tuple[str, ...]
    test: tuple[str, ...]


def cross_validation(topics: Sequence[str], folds: int, *, seed: int = 0) -> list[Fold]:
    """Deal topics into folds after a seeded shuffle; each is the test set of the others.

    Parameters
    ----------
    topics : sequence of str
        Topic identifiers.
    folds : int
        From 2 to the number of topics.
    seed : int
        Of the shuffle.

    Returns
    -------
    list of Fold

    Raises
    ------
    InputError
        For an impossible number of folds.
    """
    if not 2 <= folds <= len(topics):
        raise InputError(
            "impossible number of folds", value=folds, accepted=f"2 to {len(topics)}, the topics"
        )
    order = np.random.default_rng(seed).permutation(len(topics))
    return from_parts(topics, [[topics[i] for i in order[first::folds]] for first in range(folds)])


def from_parts(topics: Sequence[str], parts: Sequence[Sequence[str]]) -> list[Fold]:
    """Make cross-validation folds of given parts; topics in no part are left out."""
    folds = []
    for part in parts:
        held_out = set(part)
        others = {topic for other in parts for topic in other} - held_out
        folds.append(
            Fold(
                train=tuple(topic for topic in topics if topic in others),
                test=tuple(topic for topic in topics if topic in held_out),
            )
        )
    return folds


def read_parts(path: str | os.PathLike[str]) -> list[list[str]]:
    """Read a partition: a JSON list of lists of topic identifiers, as Anserini's folds are.

    Raises
    ------
    InputError
        For another shape, a topic in two parts, or fewer than two parts.
    """
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            parts = json.load(file)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read folds ({error})", file=path, accepted="a JSON list of lists of topics"
        ) from None
    if (
        not isinstance(parts, list)
        or len(parts) < 2
        or not all(isinstance(part, list) and part for part in parts)
    ):
        raise InputError(
            "not a partition", file=path, accepted="a JSON list of two or more lists of topics"
        )
    named = [[str(topic) for topic in part] for part in parts]
    seen: set[str] = set()
    for part in named:
        for topic in part:
            if topic in seen:
                raise InputError("topic stands twice in the folds", file=path, value=topic)
            seen.add(topic)
    return named
