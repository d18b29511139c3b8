"""Sweeps: the same training at several values of one option, some trials each.

All trials are on the same data and differ by the seed alone, as in Bruch et al. (2019, section
3.2), so that intervals say what another seed would give, not other data. Trial t of every value
has the same seed, and differences between values are taken trial by trial.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Claim, Experiment, Tables, Unit, figures
from lmtune.laboratory.pictures import VALUE, Chart, intervals, stacked
from lmtune.laboratory.study import Run, Study
from lmtune.measures.measure import exponential_ndcg
from lmtune.measures.significance.effects import mean_interval
from lmtune.measures.significance.tests import adjusted, paired_t_test
from lmtune.options import option
from lmtune.reporting.figures.style import Picture

LEVEL = 0.05
"""A difference with a smaller p-value, corrected by Holm, is called significant."""

QUERIES = ("validation", "test")

CHOSEN_AT = 5
"""The cutoff of the validation nDCG that chooses the epoch, for short lists."""

Pair = tuple[str, str]
_TITLES = {
    "objective": "objective, all training items",
    "training": "{}, training queries",
    "validation": "{}, validation",
}


Case = tuple[str, dict[str, Any]]
"""A value's label, and the fields of `lmtune.reranking.settings.Settings` that it is trained with."""


@dataclass(frozen=True)
class Sweep(Experiment):
    """An experiment that trains at several values of one option.

    Attributes
    ----------
    axis : str
        What the values are, for pictures; empty where they speak for themselves.
    value_title, course_title : str
        Titles of the pictures of what the values reach, and of their courses by epoch; empty for
        no such picture.
    courses : tuple of str
        The courses that are drawn.
    repeated : str
        What intervals are over.
    """

    axis: ClassVar[str] = ""
    value_title: ClassVar[str] = ""
    course_title: ClassVar[str] = ""
    courses: ClassVar[tuple[str, ...]] = ()
    repeated: ClassVar[str] = "trials"

    data: str = option("artificial:300", "artificial:QUERIES[xDOCUMENTS], or a LETOR folder")
    trials: int = option(10, "trials a value, with seeds that follow each other; 2 or more", low=2)
    epochs: int = option(20, "passes over the training queries, warm-up included", low=1)
    batch_size: int = option(32, "queries a step", low=1)
    seed: int = option(0, "draws artificial data; the first trial's seed", low=0)

    @abstractmethod
    def cases(self) -> list[Case]:
        """Return what is trained, one case a value."""

    @abstractmethod
    def comparisons(self) -> list[list[Pair]]:
        """Return families of labels to compare; p-values are corrected for a family's number."""

    @property
    def measured_at(self) -> tuple[int, ...]:
        """The cutoffs of the NDCG, of which the courses have `main_cutoff`."""
        return (1, CHOSEN_AT, 10)

    @property
    def main_cutoff(self) -> int:
        """The cutoff that chooses the epoch."""
        return CHOSEN_AT

    @property
    def told_at(self) -> tuple[int, ...]:
        """The cutoffs of which sentences tell."""
        return (self.main_cutoff,)

    def work(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function of `lmtune.laboratory.sweeps.trainings` that trains, and its arguments."""
        from lmtune.laboratory.sweeps.trainings import train

        return train, {"data": self.data, "data_seed": self.seed, "cutoffs": list(self.measured_at)}

    def settings(self, trained: Mapping[str, Any]) -> dict[str, Any]:
        """Complete a case's settings by this sweep's own options, and check them.

        Raises
        ------
        InputError
            For settings out of range, or an unknown network.
        """
        from lmtune.reranking.learners.networks import parse_network
        from lmtune.reranking.settings import Settings

        common = {"epochs": self.epochs, "batch_size": self.batch_size, "measure": f"ndcg@{self.main_cutoff}"}
        parse_network(Settings.from_record(common | dict(trained)).network)
        return common | dict(trained)

    @property
    def folds(self) -> Sequence[str]:
        """The data, one after the other."""
        return (self.data,)

    def study(self) -> Study:
        """Return the training of each case on each fold.

        Raises
        ------
        InputError
            For a value that comes twice.
        """
        cases = {label: [self.settings(trained)] for label, trained in self.cases()}
        labels = [label for label, _ in self.cases()]
        keys = [key(label, 0) for label in labels]
        twice = [label for number, label in enumerate(labels) if keys[number] in keys[:number]]
        if twice:
            raise InputError("a value comes twice", value=twice[0])
        function, common = self.work()

        def unit(run: Run) -> Unit:
            name = key(labels[run.case], run.trial)
            settings = {**cases[labels[run.case]][0], "seed": self.seed + run.trial}
            arguments = {**common, "settings": settings}
            if len(self.folds) > 1:
                name, arguments["data"] = f"set{run.fold + 1}-{name}", self.folds[run.fold]
            return Unit(name, function, arguments)

        return Study(cases, self.trials, unit, self.folds)

    def units(self) -> list[Unit]:
        """Make a unit of each case and trial."""
        return self.study().units()

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Put trials in tables.

        Returns
        -------
        dict of pandas.DataFrame
            ``trials``: one row a value, trial, part of the queries and cutoff. ``summary``: means
            with 95% intervals. ``differences``: of the comparisons. ``courses``: one row a value, trial,
            epoch.
        """
        runs = self.study().table(results).to_dict("records")
        rows = [
            (run["case"], run["trial"], queries, cutoff, ndcg, run["best_epoch"])
            for run in runs
            for queries in QUERIES
            for cutoff, ndcg in zip(self.measured_at, run[queries], strict=True)
        ]
        courses = [
            {"value": run["case"], "trial": run["trial"], "epoch": epoch, **dict(zip(kinds, at, strict=True))}
            for run in runs
            for kinds in [[kind for kind in _TITLES if kind in run["courses"]]]
            for epoch, at in enumerate(zip(*map(run["courses"].get, kinds), strict=True), 1)
        ]
        trials = pd.DataFrame(rows, columns=["value", "trial", "queries", "cutoff", "ndcg", "best_epoch"])
        return {
            "trials": trials,
            **self.compared(trials),
            **({"courses": pd.DataFrame(courses)} if courses else {}),
        }

    def compared(self, trials: pd.DataFrame) -> Tables:
        """Return the tables ``summary`` and, where there are comparisons, ``differences`` of trials."""
        families = [differences(trials, pairs) for pairs in self.comparisons() if pairs]
        together = {"differences": pd.concat(families, ignore_index=True)} if families else {}
        return {"summary": summary(trials), **together}

    def pictures(self, tables: Tables) -> list[Picture]:
        """Draw the courses and what they reach."""
        drawn = []
        measure = exponential_ndcg
        if self.course_title:
            at = measure(self.main_cutoff)
            kinds = {kind: title.format(at) for kind, title in _TITLES.items() if kind in self.courses}
            keys = ["panel", "value", "epoch"]
            courses = intervals(stacked(tables["courses"], keys[1:], kinds), keys, VALUE)
            chart = Chart("epoch", "mean", "value", "panel", "low", "high", late=True)
            name = f"{self.name}-courses" if self.value_title else self.name
            drawn.append(chart.draw(courses, name, f"{self.course_title}: means with 95% intervals"))
        if self.value_title:
            means = tables["summary"].assign(panel=lambda rows: rows["cutoff"].map(lambda k: str(measure(k))))
            means["line"] = means["queries"] + " queries"
            means = means.assign(low=means["mean"] - means["half"], high=means["mean"] + means["half"])
            chart = Chart(self.axis, "mean", "line", "panel", "low", "high", dots=True)
            caption = f"{self.value_title}: means with 95% intervals over {self.repeated}"
            drawn.append(chart.draw(means.rename(columns={"value": self.axis}), self.name, caption))
        return drawn

    def claims(self) -> Sequence[Claim]:
        """Return what the cases reach, and by how much those that are compared differ."""
        told = f"cutoff in {self.told_at}"
        shown = figures("differences", "queries cutoff a b", "difference low high p_holm", where=told)
        return (
            Claim("nDCG by cutoff", figures("summary", "queries cutoff value", "mean half", where=told)),
            Claim(
                f"First minus second, significant (Holm, p < {LEVEL:g})",
                shown,
                lambda rows: rows["p_holm"] < LEVEL,
            ),
        )


def summary(trials: pd.DataFrame) -> pd.DataFrame:
    """Average trials: mean and half the 95% interval by value, part of the queries and cutoff."""
    means = intervals(trials, ["value", "queries", "cutoff"], "ndcg").drop(columns=["low", "high"])
    return means.rename(columns={"count": "trials"})


def differences(trials: pd.DataFrame, pairs: Sequence[Pair]) -> pd.DataFrame:
    """Compare values trial by trial.

    Returns
    -------
    pandas.DataFrame
        One row a pair, part of the queries and cutoff: the mean of a minus b, its 95% interval,
        the p-value of the paired t-test, and that value corrected by Holm for all pairs at the
        same queries and cutoff.
    """
    rows = []
    for (queries, cutoff), part in trials.groupby(["queries", "cutoff"], sort=False):
        table = part.pivot(index="trial", columns="value", values="ndcg")
        both = [(table[a].to_numpy(), table[b].to_numpy()) for a, b in pairs]
        p_values = [paired_t_test(*values) for values in both]
        rows += [
            (*pair, queries, cutoff, float(np.mean(one - other)), *mean_interval(one, other), p, p_holm)
            for pair, (one, other), p, p_holm in zip(pairs, both, p_values, adjusted(p_values), strict=True)
        ]
    columns = ["a", "b", "queries", "cutoff", "difference", "low", "high", "p", "p_holm"]
    return pd.DataFrame(rows, columns=columns)


def number(value: float) -> str:
    """Print an option's value as a label."""
    return f"{value:g}"


def key(label: str, trial: int) -> str:
    """Return the unit's key of a case's trial, counted from 0."""
    plain = re.sub(r"[^a-z0-9.+-]+", "-", label.lower()).strip("-")
    return f"{plain}-run{trial + 1}"
