"""A paper's protocol as data: what it trains, on what, by which settings, and what it prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmtune.measures.lists import Empty
from lmtune.reranking.normalisation import Normalisation


@dataclass(frozen=True)
class PaperSet:
    """A set of data that a paper reports on.

    Attributes
    ----------
    name : str
        The paper's.
    pattern : str
        What the last two parts of its path look like, as it is distributed; a regular expression.
    printed : mapping of str to tuple of str
        The table's cells by method.
    settings : mapping
        Of `lmtune.reranking.settings.Settings`, those that the paper sets for these data alone.
    """

    name: str
    pattern: str
    printed: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Protocol:
    """How a paper compares losses.

    Attributes
    ----------
    source : str
        The paper, and the number of its table.
    methods : mapping of str to str
        By the table's names, losses as `lmtune.reranking.losses.names.parse_losses` takes them; empty for
        what cannot be run here.
    cutoffs : tuple of int
        The columns, of nDCG.
    settings : mapping
        Of `lmtune.reranking.settings.Settings`, for all methods.
    falls : float or None
        The share of the epochs, warm-up aside, after which the rate falls to a tenth.
    normalisation : Normalisation
        Of a network's features.
    empty : {"skip", "zero", "one"}
        What test queries without a relevant document count.
    claims : tuple of (str, str)
        What the paper says is better than what.
    sets : tuple of PaperSet
        The data with their figures.
    differences : tuple of str
        What is done otherwise, or had to be assumed.
    """

    source: str
    methods: Mapping[str, str]
    cutoffs: tuple[int, ...]
    settings: Mapping[str, Any]
    falls: float | None
    normalisation: Normalisation
    empty: Empty
    claims: tuple[tuple[str, str], ...]
    sets: tuple[PaperSet, ...]
    differences: tuple[str, ...]

    def set_of(self, data: str) -> PaperSet | None:
        """Return the set whose files these are, by their path; None for another's."""
        path = "/".join(Path(data).absolute().parts[-2:])
        return next((own for own in self.sets if re.search(own.pattern, path, re.IGNORECASE)), None)
