"""Experiments: options, independent pieces of work, tables, pictures, claims that are data, and studies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from lmtune.options import check

if TYPE_CHECKING:
    from lmtune.reporting.figures.style import Picture
    from lmtune.reporting.table import Table

Tables = dict[str, "pd.DataFrame"]
"""Named tables of numbers; a name becomes a file's."""


Statistic = Callable[[Tables], "pd.DataFrame"]
"""From an experiment's tables to figures: a column each, a row a case, whose name is the index."""


class Claim(NamedTuple):
    """Something that an experiment's tables are asked for.

    Attributes
    ----------
    text : str
        What it is about.
    statistic : callable
        Its figures. Cases that differ in the last level of the index alone stand in one sentence.
    test : callable, optional
        From the figures to whether it holds, a case each.
    """

    text: str
    statistic: Statistic
    test: Callable[[pd.DataFrame], pd.Series[bool]] | None = None

    def sentences(self, tables: Tables) -> Iterator[str]:
        """Yield a sentence a group of cases, and in how many cases the claim holds."""
        figures = self.statistic(tables)
        groups: dict[tuple[str, ...], list[str]] = {}
        for case, row in zip(figures.index, figures.to_dict("records"), strict=True):
            *group, name = map(written, case if isinstance(case, tuple) else (case,))
            known = {key: value for key, value in row.items() if value == value and value != ""}
            shown = ", ".join(f"{key} {written(value)}".replace("_", " ") for key, value in known.items())
            groups.setdefault(tuple(group), []).append(f"{name} {shown}".strip())
        for keys, cases in groups.items():
            yield f"{', '.join([self.text, *keys])}: {'; '.join(cases).rstrip('.')}."
        if self.test is not None and len(figures):
            yield f"{self.text}: holds in {int(self.test(figures).sum())} of {len(figures)}."


def figures(
    table: str, case: str, shown: str = "", how: Any = "first", where: str = "", **more: tuple[str, Any]
) -> Statistic:
    """Make a statistic of a table's rows.

    Parameters
    ----------
    table : str
        Its name.
    case : str
        The columns, with spaces between, whose values name a case.
    shown : str
        The figures: columns, or ``NAME=COLUMN``, with spaces between.
    how : str or callable
        How a case's rows are summed up in them, as pandas aggregates.
    where : str
        Which rows, as `pandas.DataFrame.query` takes it; all by default.
    **more
        Figures that are summed up otherwise: each one's column, and how.
    """
    parts = (word.rpartition("=") for word in shown.split())
    columns = {name or column: (column, how) for name, _, column in parts} | more

    def statistic(tables: Tables) -> pd.DataFrame:
        rows = tables[table].query(where) if where and len(tables[table]) else tables[table]
        if not len(rows) or not columns:
            return rows.set_index(case.split())[[]] if len(rows) else rows
        return rows.groupby(case.split(), sort=False, dropna=False).agg(**columns)

    return statistic


def written(value: Any) -> str:
    """Write a figure or a name down."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, float) and abs(value) < 1000.0:
        return f"{value:.4g}"
    return f"{value:,.0f}" if isinstance(value, (int, float, np.integer)) else str(value)


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

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Make tables of the units' results by key: by default, of their rows by the name of a table."""
        names = dict.fromkeys(name for result in results.values() for name in result)
        together = {
            name: [row for result in results.values() for row in result.get(name, ())] for name in names
        }
        return {name: pd.DataFrame(rows) for name, rows in together.items()}

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw the tables; without pictures if there is nothing to see."""
        del tables
        return []

    def table(self, tables: Tables) -> Table | None:
        """Lay the numbers out as a table to print, where the experiment has one."""
        del tables
        return None

    def claims(self) -> Sequence[Claim]:
        """Return the claims that the tables are asked for."""
        return ()

    def conclusions(self, tables: Tables) -> list[str]:
        """Say in sentences what the tables show, with figures: by default, of each claim."""
        return [sentence for claim in self.claims() for sentence in claim.sentences(tables)]


class Run(NamedTuple):
    """One training of a study.

    Attributes
    ----------
    fold, case, option, trial : int
        Counted from 0: the data, the case, its option, the trial.
    """

    fold: int
    case: int
    option: int
    trial: int


@dataclass(frozen=True)
class Study:
    """A training of every case with each of its options, on every fold, in every trial.

    Attributes
    ----------
    cases : mapping of str to sequence
        By the name of a case the options that validation chooses from.
    trials : int
        Trials with seeds that follow each other.
    unit : callable
        From a run to its unit of work, whose result is a mapping; with ``validation`` where there is
        something to choose.
    folds : sequence of str
        Names of the data.
    """

    cases: Mapping[str, Sequence[Any]]
    trials: int
    unit: Callable[[Run], Unit]
    folds: Sequence[str] = ("",)

    def runs(self) -> Iterator[Run]:
        """Yield all runs, fold by fold, case by case."""
        for fold in range(len(self.folds)):
            for case, options in enumerate(self.cases.values()):
                for option in range(len(options)):
                    yield from (Run(fold, case, option, trial) for trial in range(self.trials))

    def units(self) -> list[Unit]:
        """Return all units."""
        return [self.unit(run) for run in self.runs()]

    def table(self, results: Mapping[str, Any]) -> pd.DataFrame:
        """Return a row a run: fold, case, option, trial from 1, ``chosen``, and the unit's result.

        The chosen option of a case has the largest mean of ``validation`` over folds and trials; a case
        of which a run ``failed`` has none.
        """
        names = list(self.cases)
        rows = [
            {
                "fold": self.folds[run.fold],
                "case": names[run.case],
                "option": run.option,
                "trial": run.trial + 1,
                **results[self.unit(run).key],
            }
            for run in self.runs()
        ]
        table = pd.DataFrame(rows)
        table["chosen"] = table["option"] == 0
        for case, options in self.cases.items():
            if len(options) > 1 and "validation" in table:
                mine = table[table["case"] == case]
                means = [float(np.mean(runs["validation"].tolist())) for _, runs in mine.groupby("option")]
                table.loc[mine.index, "chosen"] = mine["option"] == int(np.argmax(means))
        return table


def choose_by_first(
    run: Callable[..., dict[str, Any]],
    options: Sequence[Mapping[str, Any]],
    trials: Sequence[int],
    value: str,
    shown: Sequence[str],
    *,
    lowest: bool = False,
) -> dict[str, Any]:
    """Choose the option whose first trial is best, and run the other trials with it.

    Parameters
    ----------
    run : callable
        Of a trial and an option's fields; its result is a mapping.
    options : sequence of mapping
        Fields by name.
    trials : sequence of int
        At least one.
    value : str
        What of a result chooses: the largest, or the lowest.
    shown : sequence of str
        What of the options' first results is kept.

    Returns
    -------
    dict
        ``tried``, a row an option: its fields, what is shown, and whether it is ``chosen``; ``runs``, the
        results of the chosen.
    """
    firsts = [run(trials[0], **option) for option in options]
    values = [first[value] for first in firsts]
    best = int(np.argmin(values) if lowest else np.argmax(values))
    tried = [
        {**option, **{name: first[name] for name in shown}, "chosen": number == best}
        for number, (option, first) in enumerate(zip(options, firsts, strict=True))
    ]
    return {"tried": tried, "runs": [firsts[best], *(run(trial, **options[best]) for trial in trials[1:])]}
