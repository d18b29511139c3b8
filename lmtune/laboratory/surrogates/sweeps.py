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
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Experiment, Tables, Unit
from lmtune.laboratory.surrogates.findings import LEVEL, compared, mean_of
from lmtune.laboratory.surrogates.pictures import course_picture, value_picture
from lmtune.measures.measure import exponential_ndcg
from lmtune.options import option
from lmtune.reporting.figures.style import short

if TYPE_CHECKING:
    import pandas as pd

    from lmtune.reporting.figures.style import Picture

QUERIES = ("validation", "test")

CHOSEN_AT = 5
"""The cutoff of the validation nDCG that chooses the epoch, for short lists."""

Pair = tuple[str, str]
_COURSES = ("objective", "training", "validation")


@dataclass(frozen=True)
class Case:
    """One value of a sweep.

    Attributes
    ----------
    label : str
        How tables and pictures name it.
    function : callable
        A function of `lmtune.laboratory.surrogates.trainings`.
    arguments : mapping
        Its arguments; ``settings`` are completed by each trial's seed.
    """

    label: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]


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

    def network_case(self, label: str, trained: Mapping[str, Any], **more: Any) -> Case:
        """Make a case that trains a network.

        Parameters
        ----------
        label : str
            The case's.
        trained : mapping
            Fields of `lmtune.reranking.settings.Settings`, besides this sweep's own options.
        **more
            Further arguments of `lmtune.laboratory.surrogates.trainings.train`.

        Raises
        ------
        InputError
            For settings out of range, or an unknown network.
        """
        from lmtune.laboratory.surrogates.trainings import train
        from lmtune.reranking.learners.networks import parse_network
        from lmtune.reranking.settings import Settings

        own = {"epochs": self.epochs, "batch_size": self.batch_size, "measure": f"ndcg@{self.main_cutoff}"}
        settings = {**own, **trained}
        parse_network(Settings.from_record(settings).network)
        return self.case(label, train, settings, **more)

    def case(self, label: str, function: Callable[..., Any], trained: Mapping[str, Any], **more: Any) -> Case:
        """Make a case that trains on this sweep's data, and measures at its cutoffs."""
        common = {"data": self.data, "data_seed": self.seed, "cutoffs": list(self.measured_at)}
        return Case(label, function, {**common, "settings": trained, **more})

    def units(self) -> list[Unit]:
        """Make a unit of each case and trial.

        Raises
        ------
        InputError
            For a value that comes twice.
        """
        cases = self.cases()
        keys = [key(case.label, 0) for case in cases]
        for place, own in enumerate(keys):
            if own in keys[:place]:
                raise InputError("a value comes twice", value=cases[place].label)
        return [
            Unit(
                key(case.label, trial),
                case.function,
                {**case.arguments, "settings": {**case.arguments["settings"], "seed": self.seed + trial}},
            )
            for case in cases
            for trial in range(self.trials)
        ]

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Gather the trials of all cases, and compare them."""
        return self.gathered([case.label for case in self.cases()], results, self.comparisons())

    def gathered(
        self, labels: Sequence[str], results: Mapping[str, Any], comparisons: Sequence[Sequence[Pair]]
    ) -> Tables:
        """Put trials in tables.

        Parameters
        ----------
        labels : sequence of str
            The cases that count, in order.
        results : mapping
            What the units gave, by key.
        comparisons : sequence of sequences of (str, str)
            Families of labels to compare.

        Returns
        -------
        dict of pandas.DataFrame
            ``trials``: one row a value, trial, part of the queries and cutoff. ``summary``: means
            with 95% intervals. ``differences``: of the comparisons. ``courses``: one row a value, trial,
            epoch.
        """
        import pandas as pd

        rows, courses = [], []
        for label in labels:
            for trial in range(self.trials):
                result = results[key(label, trial)]
                rows += [
                    (label, trial + 1, queries, cutoff, ndcg, result["best_epoch"])
                    for queries in QUERIES
                    for cutoff, ndcg in zip(self.measured_at, result[queries], strict=True)
                ]
                kinds = [kind for kind in _COURSES if kind in result["courses"]]
                courses += [
                    {"value": label, "trial": trial + 1, "epoch": epoch, **dict(zip(kinds, at, strict=True))}
                    for epoch, at in enumerate(zip(*map(result["courses"].get, kinds), strict=True), 1)
                ]
        trials = pd.DataFrame(rows, columns=["value", "trial", "queries", "cutoff", "ndcg", "best_epoch"])
        made: Tables = {"trials": trials, "summary": summary(trials)}
        compared = [differences(trials, pairs) for pairs in comparisons if pairs]
        if compared:
            made["differences"] = pd.concat(compared, ignore_index=True)
        if courses:
            made["courses"] = pd.DataFrame(courses)
        return made

    def pictures(self, found: Tables) -> list[Picture]:
        """Draw the courses and what they reach."""
        drawn = []
        if self.course_title:
            drawn.append(
                course_picture(
                    found["courses"],
                    name=f"{self.name}-courses" if self.value_title else self.name,
                    title=self.course_title,
                    axis=self.axis,
                    courses=self.courses,
                    cutoff=self.main_cutoff,
                )
            )
        if self.value_title:
            drawn.append(
                value_picture(
                    found["summary"],
                    name=self.name,
                    title=self.value_title,
                    axis=self.axis,
                    cutoffs=self.measured_at,
                    queries=QUERIES,
                    over=self.repeated,
                )
            )
        return drawn

    def conclusions(self, found: Tables) -> list[str]:
        """Say what the cases reach, and by how much those that are compared differ."""
        said = []
        for queries in QUERIES:
            for cutoff in self.told_at:
                measure = f"{exponential_ndcg(cutoff)} on the {queries} queries"
                means = ", ".join(
                    f"{value} {short(mean_of(found, value, cutoff, queries))}"
                    for value in found["summary"]["value"].unique()
                )
                said.append(f"{measure}: {means}.")
                said += [
                    f"{measure}, {a} minus {b}: {compared(found, a, b, cutoff, queries)}."
                    for family in self.comparisons()
                    for a, b in family
                ]
            p_values = found["differences"].query(f"queries == '{queries}'")["p_holm"]
            said.append(
                f"{(p_values < LEVEL).sum()} of {len(p_values)} comparisons at nDCG@"
                f"{', '.join(map(str, self.measured_at))} on the {queries} queries are significant."
            )
        return said


def summary(trials: pd.DataFrame) -> pd.DataFrame:
    """Average trials: mean and half the 95% interval by value, part of the queries and cutoff."""
    import pandas as pd

    from lmtune.measures.significance.effects import confidence_interval

    keys = ["value", "queries", "cutoff"]
    rows = [
        (*own_keys, *confidence_interval(own["ndcg"].tolist()), len(own))
        for own_keys, own in trials.groupby(keys, sort=False)
    ]
    return pd.DataFrame(rows, columns=[*keys, "mean", "half", "trials"])


def differences(trials: pd.DataFrame, pairs: Sequence[Pair]) -> pd.DataFrame:
    """Compare values trial by trial.

    Returns
    -------
    pandas.DataFrame
        One row a pair, part of the queries and cutoff: the mean of a minus b, its 95% interval,
        the p-value of the paired t-test, and that value corrected by Holm for all pairs at the
        same queries and cutoff.
    """
    import pandas as pd

    from lmtune.measures.significance.effects import mean_interval
    from lmtune.measures.significance.tests import adjusted, paired_t_test

    rows = []
    for (queries, cutoff), own in trials.groupby(["queries", "cutoff"], sort=False):
        table = own.pivot(index="trial", columns="value", values="ndcg")
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
