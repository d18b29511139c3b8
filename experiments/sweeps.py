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
from itertools import combinations, pairwise
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from experiments.experiment import Claim, Experiment, Run, Study, Tables, Unit, figures
from experiments.pictures import VALUE, Chart, intervals, stacked
from lmtune.errors import InputError
from lmtune.measures.measure import exponential_ndcg
from lmtune.measures.significance.effects import mean_interval
from lmtune.measures.significance.tests import adjusted, paired_t_test
from lmtune.options import option
from lmtune.reporting.figures.style import Picture
from lmtune.reranking.losses.names import parse_loss

LEVEL = 0.05
"""A difference with a smaller p-value, corrected by Holm, is called significant."""

QUERIES = ("validation", "test")

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
    measured_at, main_cutoff : tuple of int, int
        The cutoffs of the NDCG, and that which chooses the epoch and which the courses have.
    told_at : tuple of int
        The cutoffs of which sentences tell; the main one by default.
    repeated : str
        What intervals are over.
    """

    axis: ClassVar[str] = ""
    value_title: ClassVar[str] = ""
    course_title: ClassVar[str] = ""
    courses: ClassVar[tuple[str, ...]] = ()
    measured_at: ClassVar[tuple[int, ...]] = (1, 5, 10)
    main_cutoff: ClassVar[int] = 5
    told_at: ClassVar[tuple[int, ...]] = ()
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
    def reported_at(self) -> tuple[int, ...]:
        """The cutoffs of the NDCG for these data."""
        return self.measured_at

    def work(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function of `experiments.trainings` that trains, and its arguments."""
        from experiments.trainings import train

        return train, {"data": self.data, "data_seed": self.seed, "cutoffs": list(self.reported_at)}

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
        trials = self.trials_table(results).drop(columns="set")
        courses = [
            {"value": run["case"], "trial": run["trial"], "epoch": epoch, **dict(zip(kinds, at, strict=True))}
            for run in self.study().table(results).to_dict("records")
            for kinds in [[kind for kind in _TITLES if kind in run["courses"]]]
            for epoch, at in enumerate(zip(*map(run["courses"].get, kinds), strict=True), 1)
        ]
        together = {"courses": pd.DataFrame(courses)} if courses else {}
        return {"trials": trials, **self.compared(trials), **together}

    def trials_table(self, results: Mapping[str, Any]) -> pd.DataFrame:
        """Return a row a value, set, trial, part of the queries and cutoff, with what they reach."""
        rows = [
            (run["case"], run["fold"], run["trial"], queries, cutoff, ndcg, run["best_epoch"])
            for run in self.study().table(results).to_dict("records")
            for queries in QUERIES
            for cutoff, ndcg in zip(self.reported_at, run[queries], strict=True)
        ]
        columns = ["value", "set", "trial", "queries", "cutoff", "ndcg", "best_epoch"]
        return pd.DataFrame(rows, columns=columns)

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
        told = f"cutoff in {self.told_at or (self.main_cutoff,)}"
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


def _mean(values: pd.Series[float]) -> float:
    return float(np.mean(values.tolist()))


def number(value: float) -> str:
    """Print an option's value as a label."""
    return f"{value:g}"


def key(label: str, trial: int) -> str:
    """Return the unit's key of a case's trial, counted from 0."""
    plain = re.sub(r"[^a-z0-9.+-]+", "-", label.lower()).strip("-")
    return f"{plain}-run{trial + 1}"


@dataclass(frozen=True)
class Alpha(Sweep):
    """Experiment.

    ApproxNDCG's alpha, how steep its sigmoids are (Bruch et al. 2019, section 3.3, figure 2).
    """

    name: ClassVar[str] = "alpha"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:200",
        "alphas": (0.1, 1.0, 10.0, 100.0),
        "alike": (10.0,),
        "trials": 3,
        "epochs": 15,
    }
    axis: ClassVar[str] = "alpha"
    value_title: ClassVar[str] = "nDCG by ApproxNDCG's alpha"

    alphas: tuple[float, ...] = option((0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 40.0, 100.0), "above 0", above=0)
    alike: tuple[float, ...] = option((5.0, 10.0, 20.0, 40.0), "those of which the paper finds none better")
    reference: float = option(10.0, "the one that the others are compared with")
    learning_rate: float = option(0.005, "Adam's rate; the paper's", above=0)
    network: str = option("b:64", "the scorer: one hidden layer, batch norm before and after")

    def cases(self) -> list[Case]:
        """Return one training an alpha."""
        for alpha in (*self.alike, self.reference):
            if alpha not in self.alphas:
                accepted = ", ".join(map(number, self.alphas))
                raise InputError("an alpha to compare is not swept", value=alpha, accepted=accepted)
        trained = {"loss": "approxndcg", "network": self.network, "learning_rate": self.learning_rate}
        return [(number(alpha), {**trained, "loss_options": {"alpha": alpha}}) for alpha in self.alphas]

    def comparisons(self) -> list[list[Pair]]:
        """Compare those said to be alike with each other, and the rest with the reference."""
        rest = [alpha for alpha in self.alphas if alpha not in (*self.alike, self.reference)]
        others = [(number(alpha), number(self.reference)) for alpha in rest]
        return [[*combinations(map(number, self.alike), 2), *others]]


@dataclass(frozen=True)
class Depth(Sweep):
    """Experiment.

    ApproxNDCG with deeper and wider networks (Bruch et al. 2019, section 3.4, figure 3).
    """

    name: ClassVar[str] = "depth"
    quick: ClassVar[Mapping[str, Any]] = {
        "data": "artificial:100",
        "networks": ("b64", "b256", "b512"),
        "trials": 3,
        "epochs": 8,
    }
    axis: ClassVar[str] = "network"
    value_title: ClassVar[str] = "nDCG by the network's depth"
    told_at: ClassVar[tuple[int, ...]] = Sweep.measured_at

    networks: tuple[str, ...] = option(
        ("b64", "b128", "b256", "b512", "b1024"), "from the shallowest to the deepest", fewest=2
    )
    learning_rate: float = option(0.005, "Adam's rate; the paper's", above=0)
    alpha: float = option(10.0, "approxNDCG's", above=0)

    def cases(self) -> list[Case]:
        """Return one training a network."""
        loss = {"loss": "approxndcg", "loss_options": {"alpha": self.alpha}}
        trained = {**loss, "learning_rate": self.learning_rate}
        return [(network.upper(), {**trained, "network": network}) for network in self.networks]

    def comparisons(self) -> list[list[Pair]]:
        """Compare each network with the shallowest and with the one before it."""
        first, *rest = names = [network.upper() for network in self.networks]
        # But for the first two neighbours, which are a pair already.
        previous = [(later, before) for before, later in pairwise(names[1:])]
        return [[*((network, first) for network in rest), *previous]]


_STEPS = 4
"""At least so many steps an epoch, however few queries a set has."""


@dataclass(frozen=True)
class Sets(Sweep):
    """Experiment.

    Losses, or options of one, on several sets, paired by set (defaults; Qiu et al. 2022, table 1).
    """

    name: ClassVar[str] = "sets"
    quick: ClassVar[Mapping[str, Any]] = {"data": "artificial:30,artificial:20x60", "epochs": 5}
    value_title: ClassVar[str] = "nDCG by loss, means over sets"
    measured_at: ClassVar[tuple[int, ...]] = (10,)
    main_cutoff: ClassVar[int] = 10
    repeated: ClassVar[str] = "sets"

    data: str = option(
        "artificial:60,artificial:100x20,artificial:20x300",
        "two or more, with commas between: artificial:QUERIES[xDOCUMENTS], LETOR folders",
    )
    losses: tuple[str, ...] = option(
        ("ranknet", "lambdarank", "listnet", "approxndcg", "song", "k-song"),
        "what to train by, each with options as NAME:OPTION=VALUE; the others are compared with the first",
        fewest=2,
    )
    network: str = option("b64", "the scorer of all but the trees")
    learning_rate: float = option(0.001, "Adam's rate", above=0)
    trials: int = option(2, "seeds a loss and set, which are averaged", low=1)
    epochs: int = option(30, "passes over the training queries", low=1)
    batch_size: int = option(64, "queries a step, at most a quarter of a set's", low=1)
    list_size: int = option(0, "documents of a query in a step, drawn anew each epoch; 0 takes all", low=0)

    @property
    def folds(self) -> list[str]:
        """The names of the sets."""
        names = [name.strip() for name in self.data.split(",")]
        if len(names) < 2 or len(set(names)) < len(names):
            raise InputError("bad sets", value=self.data, accepted="two or more, each once")
        return names

    def cases(self) -> list[Case]:
        """Return one training a loss."""
        fields = {"network": self.network, "learning_rate": self.learning_rate}
        fields |= {"list_size": self.list_size or None}
        losses = [(text, parse_loss(text)) for text in self.losses]
        return [
            (text, {"loss": loss.name, "loss_options": dict(loss.options), **fields}) for text, loss in losses
        ]

    def work(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return a training of so many steps an epoch at least."""
        train, common = super().work()
        return train, {**common, "least_steps": _STEPS}

    def comparisons(self) -> list[list[Pair]]:
        """Compare all losses with the first."""
        first, *others = self.losses
        return [[(loss, first) for loss in others]]

    def tables(self, results: Mapping[str, Any]) -> Tables:
        """Average each set's trials; the sets then stand where other sweeps have trials."""
        trials = self.trials_table(results)
        keys = ["value", "set", "queries", "cutoff"]
        reached = trials.groupby(keys, sort=False)[["ndcg", "best_epoch"]]
        sets = reached.agg(_mean).reset_index()
        sets = sets.sort_values("value", key=lambda value: value.map(self.losses.index), kind="stable")
        return {"sets": sets, **self.compared(sets.rename(columns={"set": "trial"}))}


QUICK: dict[str, Any] = {
    "data": "artificial:40x500",
    "trials": 3,
    "epochs": 30,
    "batch_size": 10,
    "learning_rate": 0.005,
}
"""Options of small runs."""

TRAINED = ("song", "k-song", "cross-entropy")
"""Losses to train by: the last is the warm-up's."""


@dataclass(frozen=True)
class LongLists(Sweep):
    """Sweeps over long lists."""

    main_cutoff: ClassVar[int] = 10

    data: str = option("artificial:100x1000", "artificial:QUERIES[xDOCUMENTS], or a LETOR folder")
    least: int = option(3, "labels below this one count as 0; 1 keeps all", low=1)
    network: str = option("mlp:64-32", "the scorer")
    trials: int = option(5, "trials a value, with seeds that follow each other; 2 or more", low=2)
    epochs: int = option(60, "passes over the training lists, warm-up included", low=1)
    warm_up: int = option(0, "epochs of cross-entropy first", low=0)
    sampled: int = option(20, "items a list and step, drawn anew each time", low=2)
    relevant: int = option(10, "how many of them are relevant", low=1)
    margin: float = option(1.0, "of the squared hinge; 1 gives the tightest bound", above=0)
    learning_rate: float = option(0.002, "Adam's rate", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relevant >= self.sampled:
            accepted = f"1 or more, fewer than the {self.sampled} sampled"
            raise InputError("bad number of relevant items", value=self.relevant, accepted=accepted)
        if self.warm_up >= self.epochs:
            accepted = f"fewer than the {self.epochs} epochs in all"
            raise InputError("no epoch is left after the warm-up", value=self.warm_up, accepted=accepted)

    def work(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return a training on labels of so much at least."""
        watched = bool({"objective", "training"} & set(self.courses))
        train, common = super().work()
        return train, {**common, "least": self.least, "watched": watched}

    def song(self, options: Mapping[str, Any], loss: str = "song", **fields: Any) -> dict[str, Any]:
        """Return the settings of a training by SONG or a relative of it.

        Parameters
        ----------
        options : mapping
            The loss's, besides the margin.
        loss : {"song", "k-song", "cross-entropy"}
            Which.
        **fields
            Settings that differ from the sweep's own.
        """
        return {
            "loss": loss,
            "loss_options": {**({} if loss == "cross-entropy" else {"margin": self.margin}), **options},
            "network": self.network,
            "warm_up": self.warm_up,
            "warm_up_loss": "cross-entropy",
            "list_size": self.sampled,
            "list_relevant": self.relevant,
            "learning_rate": self.learning_rate,
            **fields,
        }

    def claims(self) -> Sequence[Claim]:
        """Return where the objective ends, and the claims of `Sweep`."""
        ends = figures("courses", "value", "objective", "mean", "epoch == epoch.max()")
        title = f"Objective over all training items after {self.epochs} epochs, lower is better"
        return (*([Claim(title, ends)] if "objective" in self.courses else []), *super().claims())


@dataclass(frozen=True)
class Gamma(LongLists):
    """Experiment.

    Running estimates in SONG: gamma (Qiu et al. 2022, D.3, figure 11) and how u follows g (appendix F).
    """

    name: ClassVar[str] = "gamma"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "gammas": (0.3, 1.0)}
    axis: ClassVar[str] = "gamma"
    value_title: ClassVar[str] = "nDCG by the running estimates' gamma"
    course_title: ClassVar[str] = "Trainings by epoch at several gammas"
    courses: ClassVar[tuple[str, ...]] = ("objective", "validation")

    gammas: tuple[float, ...] = option(
        (0.1, 0.3, 0.5, 0.7, 0.9, 1.0), "in (0, 1]; two or more cases in all", above=0, high=1, fewest=1
    )
    estimators: tuple[str, ...] = option(
        ("moving-average",), "moving-average, storm, msvr, msvr-sp: how estimates move", fewest=1
    )
    loss: str = option("song", "song, k-song, or cross-entropy, the warm-up's", choices=TRAINED)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.gammas) * len(self.estimators) < 2:
            accepted = "two gammas or two estimators at least"
            raise InputError("nothing to compare", value=number(self.gammas[0]), accepted=accepted)

    def cases(self) -> list[Case]:
        """Return one training an estimator and gamma."""
        return [
            (self._label(estimator, gamma), self.song({"gamma": gamma} | how, self.loss))
            for estimator in self.estimators
            for how in [{} if estimator == "moving-average" else {"estimator": estimator}]
            for gamma in self.gammas
        ]

    def comparisons(self) -> list[list[Pair]]:
        """Compare every gamma with the largest, and at each gamma every estimator with the first."""
        last, first = max(self.gammas), self.estimators[0]
        by_gamma = [
            (self._label(estimator, gamma), self._label(estimator, last))
            for estimator in self.estimators
            for gamma in self.gammas
            if gamma != last
        ]
        by_estimator = [
            (self._label(estimator, gamma), self._label(first, gamma))
            for estimator in self.estimators[1:]
            for gamma in self.gammas
        ]
        return [by_gamma, by_estimator]

    def _label(self, estimator: str, gamma: float) -> str:
        return number(gamma) if len(self.estimators) == 1 else f"{number(gamma)}, {estimator}"


# By a loss's title: without and with warm-up.
_LABELS = {name: (f"{name}, cold", f"{name}, warm-up") for name in ("SONG", "K-SONG")}


@dataclass(frozen=True)
class WarmUp(LongLists):
    """Experiment.

    SONG and K-SONG with and without a warm-up by cross-entropy (Qiu et al. 2022, section 6).
    """

    name: ClassVar[str] = "warm-up"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "epochs": 18, "warm_up": 6}
    value_title: ClassVar[str] = "nDCG with and without warm-up"
    course_title: ClassVar[str] = "With and without warm-up, by epoch"
    courses: ClassVar[tuple[str, ...]] = ("training", "validation")

    trials: int = option(7, "trials a value, with seeds that follow each other; 2 or more", low=2)
    warm_up: int = option(20, "of all epochs, those of cross-entropy; 1 or more", low=1)
    gamma: float = option(0.3, "of both losses", above=0, high=1)
    cutoff: int = option(50, "K-SONG's K", low=1)

    def cases(self) -> list[Case]:
        """Return one training a loss, with and without warm-up."""
        options = {"SONG": {"gamma": self.gamma}, "K-SONG": {"gamma": self.gamma, "cutoff": self.cutoff}}
        return [
            (label, self.song(options[name], name.lower(), warm_up=epochs))
            for name, labels in _LABELS.items()
            for label, epochs in zip(labels, (0, self.warm_up), strict=True)
        ]

    def comparisons(self) -> list[list[Pair]]:
        """Compare both forms of each loss."""
        return [[(warm, cold) for cold, warm in _LABELS.values()]]


_FORMS: dict[str, dict[str, Any]] = {
    "theoretical": {"theoretical": True},
    "practical": {"theoretical": False},
    "by rank": {"inside": "rank"},
}


@dataclass(frozen=True)
class KSongForms(LongLists):
    """Experiment.

    K-SONG theoretical, practical, and bounding ranks instead (Qiu et al. 2022, 6, 7.3, figures 4, 5).
    """

    name: ClassVar[str] = "k-song"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "warm_up": 10, "cutoffs": (50,)}
    value_title: ClassVar[str] = "nDCG by the forms of K-SONG"
    course_title: ClassVar[str] = "The forms of K-SONG, by epoch"
    courses: ClassVar[tuple[str, ...]] = ("validation",)

    trials: int = option(10, "trials a value, with seeds that follow each other; 2 or more", low=2)
    warm_up: int = option(20, "of all epochs, those of cross-entropy", low=0)
    gamma: float = option(0.3, "of the running estimates", above=0, high=1)
    cutoffs: tuple[int, ...] = option((10, 50), "K-SONG's K; below the lists' length", low=1, fewest=1)

    def cases(self) -> list[Case]:
        """Return one training a form and K."""
        return [
            (_label(form, cutoff), self.song({"gamma": self.gamma, "cutoff": cutoff, **options}, "k-song"))
            for cutoff in self.cutoffs
            for form, options in _FORMS.items()
        ]

    def comparisons(self) -> list[list[Pair]]:
        """Compare the theoretical form with the others at each K."""
        first, *others = _FORMS
        return [[(_label(first, cutoff), _label(form, cutoff)) for cutoff in self.cutoffs for form in others]]


def _label(form: str, cutoff: int) -> str:
    return f"{form}, K = {cutoff}"


FULL = "all items"
BIASED = "biased mini-batch"


@dataclass(frozen=True)
class FullItems(LongLists):
    """Experiment.

    SONG or its warm-up on samples against all items (Qiu et al. 2022, section 7.3, figures 3, 12).
    """

    name: ClassVar[str] = "full-items"
    quick: ClassVar[Mapping[str, Any]] = {**QUICK, "gammas": (0.3,), "epochs": 20}
    course_title: ClassVar[str] = "Training on all items and on samples, by epoch"
    courses: ClassVar[tuple[str, ...]] = ("objective", "training", "validation")

    gammas: tuple[float, ...] = option(
        (0.1, 0.3), "of the running estimates, below 1; the best is taken", above=0, below=1, fewest=1
    )
    loss: str = option("song", "song, k-song, or cross-entropy, the warm-up's", choices=TRAINED)

    def cases(self) -> list[Case]:
        """Return one training a method."""
        return [
            (FULL, self.song({"gamma": 1.0}, self.loss, list_size=None, list_relevant=None)),
            (BIASED, self.song({"gamma": 1.0}, self.loss)),
            *((_estimated(gamma), self.song({"gamma": gamma}, self.loss)) for gamma in self.gammas),
        ]

    def comparisons(self) -> list[list[Pair]]:
        """Compare all methods."""
        ours = map(_estimated, self.gammas)
        return [[*((label, other) for label in ours for other in (BIASED, FULL)), (BIASED, FULL)]]

    def claims(self) -> Sequence[Claim]:
        """Return how near running estimates come to training on all items, and the claims of `LongLists`."""
        return (*super().claims(), Claim(f"Of the gap from the {BIASED} to {FULL} is closed", self._closed))

    def _closed(self, tables: Tables) -> pd.DataFrame:
        """Return the shares of the gap in the objective's last mean that running estimates close."""
        ends = figures("courses", "value", "objective", "mean", "epoch == epoch.max()")(tables)["objective"]
        shares = (ends[BIASED] - ends) / ((ends[BIASED] - ends[FULL]) or np.nan)
        return pd.DataFrame({"share": shares[[_estimated(gamma) for gamma in self.gammas]]})


def _estimated(gamma: float) -> str:
    return f"samples, gamma {number(gamma)}"
