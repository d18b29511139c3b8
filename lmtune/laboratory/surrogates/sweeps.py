"""Sweeps: the same training at several values of one setting, some trials each.

All trials are on the same data and differ by the seed alone, as in Bruch et al. (2019, section
3.2), so that intervals say what another seed would give, not other data. Trial t of every value
has the same seed, and differences between values are taken trial by trial.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lmtune.errors import InputError
from lmtune.laboratory.experiment import Experiment, Tables, Unit
from lmtune.options import option

if TYPE_CHECKING:
    import pandas as pd

QUERIES = ("validation", "test")

CHOSEN_AT = 5
"""The cutoff of the validation nDCG that chooses the epoch, for short lists."""

_COURSES = ("objective", "training", "validation")


@dataclass(frozen=True)
class Common(Experiment):
    """What every sweep's settings have."""

    data: str = option("artificial:300", "artificial:QUERIES[xDOCUMENTS], or a LETOR folder")
    trials: int = option(10, "trials a value, with seeds that follow each other; 2 or more")
    epochs: int = option(20, "passes over the training queries, warm-up included")
    batch_size: int = option(32, "queries a step")
    seed: int = option(0, "draws artificial data; the first trial's seed")


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


def network_case(
    settings: Common,
    label: str,
    network: str,
    loss: str,
    loss_options: Mapping[str, Any],
    *,
    cutoffs: Sequence[int],
    learning_rate: float,
    **more: Any,
) -> Case:
    """Make a case that trains a network on whole lists.

    Parameters
    ----------
    settings : Common
        Of the experiment.
    label, network, loss, loss_options
        The case's.
    cutoffs : sequence of int
        To measure at; the epoch is chosen at nDCG@5, as Bruch et al. (2019) do.
    learning_rate : float
        Adam's.
    **more
        Further fields of `lmtune.reranking.settings.Settings`.

    Raises
    ------
    InputError
        For settings out of range, or an unknown network.
    """
    from lmtune.laboratory.surrogates.trainings import train
    from lmtune.reranking.networks import parse_network
    from lmtune.reranking.settings import Settings

    trained = {
        "loss": loss,
        "loss_options": dict(loss_options),
        "network": network,
        "epochs": settings.epochs,
        "batch_size": settings.batch_size,
        "learning_rate": learning_rate,
        "measure": CHOSEN_AT,
        **more,
    }
    Settings.from_record(trained)
    parse_network(network)
    where = {"data": settings.data, "data_seed": settings.seed}
    return Case(label, train, {**where, "settings": trained, "cutoffs": list(cutoffs)})


def units(cases: Sequence[Case], trials: int, seed: int) -> list[Unit]:
    """Make a unit of each case and trial.

    Raises
    ------
    InputError
        For fewer than two trials, or a value that comes twice.
    """
    if trials < 2:
        raise InputError("too few trials", value=trials, accepted="2 or more, for intervals")
    if seed < 0:
        raise InputError("bad seed", value=seed, accepted="0 or more")
    keys = [key(case.label, 0) for case in cases]
    for place, own in enumerate(keys):
        if own in keys[:place]:
            raise InputError("a value comes twice", value=cases[place].label)
    return [
        Unit(
            key(case.label, trial),
            case.function,
            {**case.arguments, "settings": {**case.arguments["settings"], "seed": seed + trial}},
        )
        for case in cases
        for trial in range(trials)
    ]


def tables(
    labels: Sequence[str],
    results: Mapping[str, Any],
    *,
    trials: int,
    cutoffs: Sequence[int],
    pairs: Sequence[tuple[str, str]],
) -> Tables:
    """Gather the units' results.

    Parameters
    ----------
    labels : sequence of str
        The cases' that count, in order.
    results : mapping
        What the units gave, by key.
    trials : int
        How many each case has.
    cutoffs : sequence of int
        As the units had them.
    pairs : sequence of (str, str)
        Labels to compare; p-values are corrected for as many comparisons.

    Returns
    -------
    dict of pandas.DataFrame
        ``trials``: one row a value, trial, part of the queries and cutoff. ``summary``: means with
        95% intervals. ``differences``: of the pairs. ``courses``: one row a value, trial, epoch.
    """
    import pandas as pd

    rows, courses = [], []
    for label in labels:
        for trial in range(trials):
            result = results[key(label, trial)]
            rows += [
                {
                    "value": label,
                    "trial": trial + 1,
                    "queries": queries,
                    "cutoff": cutoff,
                    "ndcg": ndcg,
                    "best_epoch": result["best_epoch"],
                }
                for queries in QUERIES
                for cutoff, ndcg in zip(cutoffs, result[queries], strict=True)
            ]
            kinds = [kind for kind in _COURSES if kind in result["courses"]]
            courses += [
                {"value": label, "trial": trial + 1, "epoch": epoch, **dict(zip(kinds, at, strict=True))}
                for epoch, at in enumerate(zip(*(result["courses"][kind] for kind in kinds), strict=True), 1)
            ]
    found = pd.DataFrame(rows)
    made: Tables = {"trials": found, "summary": summary(found)}
    if pairs:
        made["differences"] = differences(found, pairs)
    if courses:
        made["courses"] = pd.DataFrame(courses)
    return made


def summary(trials: pd.DataFrame) -> pd.DataFrame:
    """Average trials: mean and half the 95% interval by value, part of the queries and cutoff."""
    import pandas as pd

    from lmtune.measures.significance.effects import confidence_interval

    rows = []
    for (value, queries, cutoff), own in trials.groupby(["value", "queries", "cutoff"], sort=False):
        mean, half = confidence_interval(own["ndcg"].tolist())
        rows.append(
            {
                "value": value,
                "queries": queries,
                "cutoff": cutoff,
                "mean": mean,
                "half": half,
                "trials": len(own),
            }
        )
    return pd.DataFrame(rows)


def differences(trials: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
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
        p_values = []
        table = own.pivot(index="trial", columns="value", values="ndcg")
        found = []
        for a, b in pairs:
            one, other = table[a].to_numpy(), table[b].to_numpy()
            low, high = mean_interval(one, other)
            p_values.append(paired_t_test(one, other))
            found.append(
                {
                    "a": a,
                    "b": b,
                    "queries": queries,
                    "cutoff": cutoff,
                    "difference": float(np.mean(one - other)),
                    "low": low,
                    "high": high,
                    "p": p_values[-1],
                }
            )
        corrected = adjusted(p_values)
        rows += [row | {"p_holm": p} for row, p in zip(found, corrected, strict=True)]
    return pd.DataFrame(rows)


def number(value: float) -> str:
    """Print a setting as a label."""
    return f"{value:g}"


def key(label: str, trial: int) -> str:
    """Return the unit's key of a case's trial, counted from 0."""
    plain = re.sub(r"[^a-z0-9.+-]+", "-", label.lower()).strip("-")
    return f"{plain}-run{trial + 1}"
