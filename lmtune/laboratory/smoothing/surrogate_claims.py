"""What the comparison of surrogates with direct search says, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from lmtune.measures.measure import parse_measure
from lmtune.measures.significance.effects import equivalence_test, mean_interval
from lmtune.tuning.experiment.result import DIRECT, OPTIMAL

if TYPE_CHECKING:
    import pandas as pd

_LEVEL = 0.05


def say_level(table: pd.DataFrame, margin: float) -> Iterator[str]:
    """Say of each measure and method how far it is from Direct, and where that is within the margin.

    Parameters
    ----------
    table : pandas.DataFrame
        The table ``equivalence``.
    margin : float
        What does not matter.
    """
    judged = table[~table["method"].isin([DIRECT, OPTIMAL])]
    for (measure, method), own in judged.groupby(["measure", "method"], sort=False):
        order = np.argsort(own["difference"].to_numpy(), kind="stable")
        within = int((own["difference"].abs() < margin).sum())
        counts = {
            what: int((own[column] < _LEVEL).sum())
            for what, column in (
                ("by the corrected test", "p_equivalent"),
                ("with topics and sets crossed", "p_equivalent_crossed"),
            )
        }
        proven = ", ".join(f"{count} {what}" for what, count in counts.items())
        worse = int(((own["p_value_crossed"] < _LEVEL) & (own["difference"] < 0.0)).sum())
        better = int(((own["p_value_crossed"] < _LEVEL) & (own["difference"] > 0.0)).sum())
        yield (
            f"{parse_measure(str(measure)).title}, {method} minus Direct on {len(own)} collections and "
            f"sizes: {own['difference'].mean():+.4f} on average, from {_at(own, order[0])} to "
            f"{_at(own, order[-1])}; {within} differ by less than {margin:g}, which is significant of "
            f"{proven}; {worse} are significantly below Direct and {better} above (crossed, 5%)."
        )


def over_collections(table: pd.DataFrame, margin: float) -> Iterator[dict[str, Any]]:
    """Take collections as drawn at random: yield a row a measure, method and size of two or more.

    Parameters
    ----------
    table : pandas.DataFrame
        The table ``equivalence``.
    margin : float
        What does not matter.

    Yields
    ------
    dict
        With the mean of the collections' differences, its 90% interval by Student's t, and the p-values
        of `lmtune.measures.significance.effects.equivalence_test`.
    """
    judged = table[~table["method"].isin([DIRECT, OPTIMAL])]
    for (measure, method, size), own in judged.groupby(["measure", "method", "size"], sort=False):
        differences = own["difference"].to_numpy()
        if differences.size < 2:
            continue
        low, high = mean_interval(differences, 0.0, 0.9)
        tested = equivalence_test(differences, 0.0, margin)
        yield {
            "measure": measure,
            "method": method,
            "size": size,
            "collections": differences.size,
            "within": int((np.abs(differences) < margin).sum()),
            "difference": float(differences.mean()),
            "low": low,
            "high": high,
            "p_not_worse": tested.not_worse,
            "p_equivalent": tested.equivalent,
        }


def say_over_collections(table: pd.DataFrame, margin: float) -> Iterator[str]:
    """Say at which sizes a method is equivalent to Direct over collections.

    Parameters
    ----------
    table : pandas.DataFrame
        The rows of `over_collections`.
    margin : float
        What does not matter.
    """
    for (measure, method), own in table.groupby(["measure", "method"], sort=False):
        shown = "; ".join(
            f"{row['size'] or 'half'}: {row['difference']:+.4f} ({row['low']:+.4f} to {row['high']:+.4f}, "
            f"p {row['p_equivalent']:.3f}) over {row['collections']}"
            for row in own.to_dict("records")
        )
        yield (
            f"{parse_measure(str(measure)).title}, {method} minus Direct over collections, by training "
            f"topics, with the interval of 90% and the p-value of its lying within {margin:g}: {shown}."
        )


def say_work(table: pd.DataFrame) -> Iterator[str]:
    """Say what the methods take, against Direct.

    Parameters
    ----------
    table : pandas.DataFrame
        The table ``work``.
    """
    keys = ["dataset", "size", "measure"]
    direct = table[table["method"] == DIRECT].set_index(keys)
    for method, own in table[table["method"] != DIRECT].groupby("method", sort=False):
        against = direct.loc[list(own[keys].itertuples(index=False, name=None))]
        ratios = {
            column: own[column].to_numpy() / against[column].to_numpy()
            for column in ("evaluations", "documents", "seconds")
        }
        shares = ", ".join(
            f"{column} {values.min():.2f} to {values.max():.2f}" for column, values in ratios.items()
        )
        yield f"{method}, of what Direct takes by collection and size: {shares}."


def _at(table: pd.DataFrame, row: int) -> str:
    """Name a row's difference and where it is."""
    found = table.iloc[row]
    size = found["size"] or "half"
    return f"{found['difference']:+.4f} ({found['dataset']}, {size})"
