"""What an experiment is: settings, independent pieces of work, tables, pictures, conclusions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lmtune.options import option as option

if TYPE_CHECKING:
    import pandas as pd

    from lmtune.reporting.figures.style import Picture

Tables = dict[str, "pd.DataFrame"]
"""Named tables of numbers; a name becomes a file's."""

S = TypeVar("S")


@dataclass(frozen=True)
class Unit:
    """A piece of work that depends on nothing but its arguments.

    Attributes
    ----------
    key : str
        Its name within the experiment, fit for a file name.
    function : callable
        A module's function, called with the arguments by keyword. The same arguments give the
        same result, bit for bit. A result consists of what JSON has: dict, list, str, int, float
        (NaN and infinities too), bool and None.
    arguments : mapping of str
        What travels to another process by pickle, so it should be small: data by name.
    """

    key: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Experiment(Generic[S]):
    """An experiment of the laboratory.

    Attributes
    ----------
    name : str
        The word for it on the command line, which shows the first line of its module's text.
    settings : type
        A frozen dataclass whose fields, made by `option`, are the experiment's options; each has
        a default. ``seed`` is among them.
    quick : mapping of str
        The fields that ``--quick`` sets, for a small run of the same shape.
    units : callable
        From settings to the pieces of work; raises InputError for settings that make no sense.
    tables : callable
        From settings and the units' results by key to tables.
    pictures : callable
        From settings and tables to pictures.
    conclusions : callable
        From settings and tables to sentences that say what was found, with figures.
    """

    name: str
    settings: type[S]
    quick: Mapping[str, Any]
    units: Callable[[S], list[Unit]]
    tables: Callable[[S, Mapping[str, Any]], Tables]
    pictures: Callable[[S, Tables], list[Picture]]
    conclusions: Callable[[S, Tables], list[str]]
