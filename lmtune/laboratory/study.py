"""Studies: cases trained with each of their options on folds in trials, of which validation chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lmtune.laboratory.experiment import Unit


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
