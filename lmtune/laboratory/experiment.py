"""What an experiment is: options, independent pieces of work, tables, pictures, conclusions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lmtune.options import check

if TYPE_CHECKING:
    import pandas as pd

    from lmtune.reporting.figures.style import Picture
    from lmtune.reporting.table import Table

Tables = dict[str, "pd.DataFrame"]
"""Named tables of numbers; a name becomes a file's."""


@dataclass(frozen=True)
class Unit:
    """A piece of work that depends on nothing but its arguments.

    Attributes
    ----------
    key : str
        Its name within the experiment, fit for a file name.
    function : callable
        A module's function or an experiment's method, called with the arguments by keyword. The
        same arguments give the same result, bit for bit. A result consists of what JSON has: dict,
        list, str, int, float (NaN and infinities too), bool and None.
    arguments : mapping of str
        What travels to another process by pickle, so it should be small: data by name.
    reports : bool
        Whether, in this process, the function takes ``progress`` as well.
    """

    key: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    reports: bool = False


@dataclass(frozen=True)
class Experiment(ABC):
    """An experiment of the laboratory: a dataclass whose fields are its options.

    Attributes
    ----------
    name : str
        The word for it on the command line, which shows the first line of its module's text.
    quick : mapping of str
        The options that ``--quick`` sets, for a small run of the same shape.

    Raises
    ------
    InputError
        For an option outside its bounds. All fields are made by `lmtune.options.option` and have
        a default; ``seed`` is among them.
    """

    name: ClassVar[str]
    quick: ClassVar[Mapping[str, Any]]

    def __post_init__(self) -> None:
        check(self)

    @abstractmethod
    def units(self) -> list[Unit]:
        """Return the pieces of work; raise InputError for options that make no sense together."""

    @abstractmethod
    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Make tables of the units' results by key."""

    def pictures(self, found: Tables) -> list[Picture]:
        """Draw the tables; without pictures if there is nothing to see."""
        del found
        return []

    def table(self, found: Tables) -> Table | None:
        """Lay the numbers out as a table to print, where the experiment has one."""
        del found
        return None

    @abstractmethod
    def conclusions(self, found: Tables) -> list[str]:
        """Say in sentences what was found, with figures."""
