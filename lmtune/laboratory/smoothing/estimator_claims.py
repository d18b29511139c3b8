"""What the experiment `estimators` says of Metzler's claims, from its tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lmtune.laboratory.experiment import Tables
from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.tests import paired_t_test
from lmtune.tuning.experiment.result import DIRECT, OPTIMAL, RANKNET, SIGNIFICANCE, STOPPED, UNDEFINED

if TYPE_CHECKING:
    import pandas as pd

NEAR = 0.9
"""How near the best both ends of a pair are, for concavity near the top."""

SLACK = 0.01
"""A shortfall of this share of the range is hardly more than the steps of a measure."""

_WHAT = {"folds": "folds", "small": "small sets"}


def weigh(found: Tables) -> list[str]:
    """Weigh the paper's claims.

    Parameters
    ----------
    found : dict of str to pandas.DataFrame
        The experiment's tables.

    Returns
    -------
    list of str
        Sentences: significant differences, consistency, work, concavity, and what a reader must
        know of the collections.
    """
    return [
        *_significance(found["table1"]),
        *_small(found["small"]),
        *_verdicts(found),
        *_consistency(found["losses"]),
        *_scaling(found["work"]),
        *_concave(found["concavity"]),
        *(f"{row['dataset']}: {row['note']}." for row in found["notes"].to_dict("records")),
    ]


def _verdicts(found: Tables) -> Iterator[str]:
    """Say of each claim in how many cases it holds."""
    for sets, part in found["losses"].groupby("sets", sort=False):
        cases = part.pivot(index=["dataset", "measure"], columns="method")
        cases = cases[cases["folds", RANKNET] > 1]
        if not len(cases):
            continue
        figures = ("mean", "deviation", "worst")
        larger = [int((cases[name, RANKNET] > cases[name, DIRECT]).sum()) for name in figures]
        yield (
            f"RankNet is less consistent than Direct over {_WHAT[str(sets)]}: of {len(cases)} "
            f"collections and measures its loss is larger on average in {larger[0]}, varies more "
            f"in {larger[1]} and is larger at worst in {larger[2]}."
        )
        if ("mean", STOPPED) in cases:
            smaller = [int((cases[name, STOPPED] < cases[name, RANKNET]).sum()) for name in figures]
            yield (
                f"Stopped on validation topics, RankNet's loss over {_WHAT[str(sets)]} is smaller "
                f"than without on average in {smaller[0]}, varies less in {smaller[1]} and is "
                f"smaller at worst in {smaller[2]}."
            )
    uneven = found["concavity"][found["concavity"]["range"] > 0.0]
    for near, own in uneven.groupby("part", sort=False):
        where = "over the grid" if near == "whole" else "near the top"
        yield (
            f"Concave {where}: {(own['concave'] == 1.0).sum()} of {len(own)} surfaces that are "
            f"not constant, {(own['concave_within'] == 1.0).sum()} up to {SLACK:.0%} of the "
            f"range; one hill without side valleys: {(own['quasi_concave'] == 1.0).sum()}, "
            f"{(own['quasi_concave_within'] == 1.0).sum()} up to {SLACK:.0%}."
        )


def _significance(table: pd.DataFrame) -> Iterator[str]:
    """Say how often either is significantly better in the table."""
    cells = {(row["dataset"], row["measure"], row["method"]): row for row in table.to_dict("records")}
    said, above, below, apart = [], 0, 0, 0
    for (dataset, measure, method), row in cells.items():
        if method != RANKNET or UNDEFINED in row["cautions"].split():
            continue
        direct, optimal = (cells[dataset, measure, name] for name in (DIRECT, OPTIMAL))
        above += bool(row["beats_direct"])
        below += bool(direct["beats_ranknet"])
        apart += bool(optimal["beats_ranknet"])
        said.append(
            f"{dataset} {_title(measure)} {direct['mean']:.4f} Direct, {row['mean']:.4f} RankNet "
            f"(p = {row['p_value_direct']:.2g}), {optimal['mean']:.4f} Optimal"
        )
    yield "; ".join(said) + "."
    yield (
        f"Of {len(said)} cells RankNet is significantly better than Direct in {above}, "
        f"significantly worse in {below}, and significantly worse than Optimal in {apart} "
        f"(two-sided paired t-test, p < {SIGNIFICANCE:g})."
    )


def _small(small: pd.DataFrame) -> Iterator[str]:
    """Say how often either is significantly better on the small sets."""
    if not len(small):
        return
    for measure, own in small.groupby("measure", sort=False):
        direct, ranknet = (own[own["method"] == name] for name in (DIRECT, RANKNET))
        gain = ranknet["test"].to_numpy() - direct["test"].to_numpy()
        marked = ranknet["p_value_direct"].to_numpy() < SIGNIFICANCE
        yield (
            f"On {gain.size} small disjoint training and test sets RankNet's {_title(measure)} is "
            f"higher than Direct's on {(gain > 0).sum()} ({(marked & (gain > 0)).sum()} "
            f"significantly) and lower on {(gain < 0).sum()} ({(marked & (gain < 0)).sum()} "
            f"significantly); the mean difference is {gain.mean():+.4f} "
            f"(p = {paired_t_test(ranknet['test'], direct['test']):.2g} over the sets)."
        )


def _consistency(losses: pd.DataFrame) -> Iterator[str]:
    """Say what either loses, and how evenly."""
    for (sets, dataset, measure), part in losses.groupby(["sets", "dataset", "measure"], sort=False):
        rows = part.to_dict("records")
        said = [
            f"{row['method']} {row['mean']:.2%} on average, at worst {row['worst']:.2%}"
            + (f", deviation {row['deviation']:.2%}" if row["folds"] > 1 else "")
            for row in rows
        ]
        yield (
            f"{dataset} {_title(measure)}, loss against Optimal over {rows[0]['folds']} "
            f"{_WHAT[str(sets)]}: "
            f"{'; '.join(said)}."
        )


def _scaling(work: pd.DataFrame) -> Iterator[str]:
    """Say how much either computes."""
    for dataset, part in work.groupby("dataset", sort=False):
        direct, ranknet = (part[part["method"] == method] for method in (DIRECT, RANKNET))
        one, other = (
            own[["evaluations", "documents", "documents_scored", "pairs"]].mean() for own in (direct, ranknet)
        )
        yield (
            f"{dataset}, work of a fold: Direct measures {one['evaluations']:,.0f} settings for "
            f"each measure, each scoring {one['documents']:,.0f} documents; RankNet evaluates its "
            f"cost and gradient {other['evaluations']:,.0f} times, once for all measures, each on "
            f"{other['documents']:,.0f} documents in {other['pairs']:,.0f} pairs. RankNet scores "
            f"{one['documents_scored'] / other['documents_scored']:.1f} times fewer documents."
        )


def _concave(table: pd.DataFrame) -> Iterator[str]:
    """Say how concave the measures are."""
    for (dataset, measure), part in table.groupby(["dataset", "measure"], sort=False):
        whole, top = ({**row} for row in part.to_dict("records"))
        yield (
            f"{dataset} {_title(measure)} over the grid of lambda and log mu: of "
            f"{whole['pairs']:,} midpoints {whole['concave']:.1%} are concave, "
            f"{whole['concave_within']:.1%} up to {SLACK:.0%} of the range (worst short by "
            f"{whole['worst']:.1%}); {whole['quasi_concave']:.1%} quasi-concave, "
            f"{whole['quasi_concave_within']:.1%} up to {SLACK:.0%} (worst "
            f"{whole['quasi_worst']:.1%}); {whole['maxima']} local maxima. With both ends within "
            f"{1.0 - NEAR:.0%} of the best: {top['concave']:.1%} and "
            f"{top['concave_within']:.1%} of {top['pairs']:,} concave."
        )


def _title(measure: object) -> str:
    return parse_measure(str(measure)).title
