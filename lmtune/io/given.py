"""Types of what users give as runs, judgements, topics and documents; `lmtune.io.frames` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from lmtune.errors import PathLike


class Frame(Protocol):
    """A frame: pandas', polars'."""

    @property
    def columns(self) -> Any:
        """Names of its columns."""


class HasDict(Protocol):
    """A run or judgements of ranx."""

    def to_dict(self) -> Any:
        """Return values by topic and docno."""


class Scored(Protocol):
    """A collection of ir_datasets with a run."""

    def scoreddocs_iter(self) -> Any:
        """Yield rows."""


class Judged(Protocol):
    """A collection of ir_datasets with judgements."""

    def qrels_iter(self) -> Any:
        """Yield rows."""


class Asked(Protocol):
    """A collection of ir_datasets with topics."""

    def queries_iter(self) -> Any:
        """Yield rows."""


Rows: TypeAlias = Iterable[tuple[Any, ...]] | Iterable[Mapping[str, Any]]
"""Named tuples, or dictionaries."""

RunLike: TypeAlias = PathLike | Frame | Mapping[str, Mapping[str, float]] | Rows | HasDict | Scored
"""A run: a file's path, a frame, scores by topic and docno, rows, rankings, a run of ranx."""

RunsLike: TypeAlias = RunLike | Mapping[str, RunLike] | Iterable[RunLike]
"""A run, several, or several by name."""

QrelsLike: TypeAlias = PathLike | Frame | Mapping[str, Mapping[str, int]] | Rows | HasDict | Judged
"""Judgements, likewise, with gains."""

TopicsLike: TypeAlias = PathLike | Frame | Mapping[str, Any] | Rows | Asked
"""Topics: text, or weighted terms, by identifier."""
