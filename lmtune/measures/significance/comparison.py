"""Compare systems topic by topic: differences, tests, corrections, effect sizes, equivalence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmtune.errors import InputError
from lmtune.measures.significance.contrasts import EQUIVALENT, NOT_WORSE, Comparison, Contrast
from lmtune.measures.significance.differences import paired_differences, wins_ties_losses
from lmtune.measures.significance.effects import effect_size, equivalence_test, mean_interval
from lmtune.measures.significance.options import ComparisonOptions
from lmtune.measures.significance.tests import (
    FEWEST,
    Tested,
    adjusted,
    adjusted_confidence,
    paired_t_test,
    randomization_tests,
    wilcoxon_test,
)
from lmtune.progress import quantity

_STUDENT = "t distribution"
_Side = tuple[NDArray[np.float64], NDArray[np.float64]]


def compare(
    baseline_values: ArrayLike,
    values_by_run: Mapping[str, ArrayLike],
    options: ComparisonOptions | None = None,
    *,
    baseline: str = "baseline",
    measures: Sequence[str] | None = None,
    topics: Sequence[str] | None = None,
) -> Comparison:
    """Compare runs with a baseline, or with each other, topic by topic.

    Parameters
    ----------
    baseline_values : array_like of float, shape (topics,) or (topics, measures)
        The baseline's values, higher is better; or a DataFrame as `lmtune.measure` returns it,
        whose labels then name topics and measures.
    values_by_run : mapping of str to array_like
        The runs' values on the same topics and measures, by name.
    options : ComparisonOptions, optional
        Tests, correction, confidence and the rest; by default t-tests with Holm's correction.
    baseline : str
        The baseline's name.
    measures, topics : sequence of str, optional
        Names; by default those of a DataFrame, or ``"value"`` and numbers from 1.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        For fewer than two topics, no runs, values that do not pair up or are not finite, unknown
        tests, corrections or alternatives, figures outside their domains.

    Examples
    --------
    >>> found = compare([0.1, 0.2, 0.5], {"mine": [0.2, 0.4, 0.6]})
    >>> round(found.contrasts[0].tested["t"].p_value, 4)
    0.0572
    """
    options = ComparisonOptions() if options is None else options
    options.check()
    if not values_by_run:
        raise InputError("nothing to compare with the baseline", accepted="one run or more")
    if baseline in values_by_run:
        raise InputError("a run has the baseline's name", value=baseline, accepted="another name")
    given = {baseline: baseline_values, **values_by_run}
    values = np.stack([_values(name, v, baseline_values) for name, v in given.items()])
    names = _labels(measures, _labels_of(baseline_values, "columns"), values.shape[2], "measures")
    topics = _labels(topics, _labels_of(baseline_values, "index"), values.shape[1], "topics")
    if len(topics) < 2:
        raise InputError(
            "a comparison needs two topics or more",
            value=len(topics),
            accepted="judgements of two topics or more",
        )
    systems = tuple(given)
    pairs = list(combinations(range(len(systems)), 2))
    notes: list[str] = []
    if len(topics) < FEWEST:
        notes.append(f"{quantity(len(topics), 'topic')}: a t-test needs {FEWEST}")
    contrasts: list[Contrast] = []
    for m, measure in enumerate(names):
        sides = {
            (systems[system], systems[against]): (values[system, :, m], values[against, :, m])
            for against, system in pairs
            if options.pairwise or against == 0
        }
        contrasts += _contrasts(measure, sides, options)
        for (system, against), (a, b) in sides.items():
            notes += _remarks(a, b, f"{measure}: {system} and {against}")
    return Comparison(systems, names, topics, values, tuple(contrasts), options, tuple(notes))


def _contrasts(
    measure: str, sides: Mapping[tuple[str, str], _Side], options: ComparisonOptions
) -> Iterator[Contrast]:
    tested = _tested(list(sides.values()), options)
    corrected = {
        name: adjusted([one.p_value for one in found], options.correction) for name, found in tested.items()
    }
    confidence = adjusted_confidence(options.confidence, len(sides), options.correction)
    for i, ((system, against), (a, b)) in enumerate(sides.items()):
        difference, against_mean = float(paired_differences(a, b).values.mean()), float(b.mean())
        wins, ties, losses = wins_ties_losses(a, b)
        yield Contrast(
            measure=measure,
            system=system,
            against=against,
            mean=float(a.mean()),
            against_mean=against_mean,
            difference=difference,
            relative=difference / abs(against_mean) if against_mean else None,
            wins=wins,
            ties=ties,
            losses=losses,
            tested={name: found[i] for name, found in tested.items()},
            adjusted={name: p[i] for name, p in corrected.items()},
            effect_size=effect_size(a, b, hedges=options.hedges),
            interval=mean_interval(a, b, confidence),
        )


def _tested(sides: Sequence[_Side], options: ComparisonOptions) -> dict[str, list[Tested]]:
    found: dict[str, list[Tested]] = {}
    side = options.alternative
    for name in options.tests:
        if name == "t":
            found[name] = [Tested(paired_t_test(a, b, side), _STUDENT) for a, b in sides]
        elif name == "wilcoxon":
            found[name] = [wilcoxon_test(a, b, side) for a, b in sides]
        else:
            found[name] = randomization_tests(
                sides, side, permutations=options.permutations, seed=options.seed
            )
    if options.margin is not None:
        both = [equivalence_test(a, b, options.margin) for a, b in sides]
        found[NOT_WORSE] = [Tested(one.not_worse, _STUDENT) for one in both]
        found[EQUIVALENT] = [Tested(one.equivalent, _STUDENT) for one in both]
    return found


def _remarks(a: NDArray[np.float64], b: NDArray[np.float64], names: str) -> list[str]:
    difference = paired_differences(a, b)
    remarks = []
    if not difference.values.any():
        remarks.append(f"{names} are equal on every topic: p is 1")
    elif difference.is_constant:
        remarks.append(
            f"{names} differ by {difference.values.mean():.4g} on every topic: without variance there is no "
            "t-test, effect size or interval"
        )
    if b.mean() == 0.0 and difference.values.any():
        remarks.append(f"{names}: no relative difference, the second's mean is 0")
    return remarks


def _values(name: str, given: Any, like: Any) -> NDArray[np.float64]:
    """Check one system's values and give them the shape (topics, measures)."""
    for labels in ("index", "columns"):
        own, wanted = _labels_of(given, labels), _labels_of(like, labels)
        if own is not None and wanted is not None and own != wanted:
            raise InputError(f"{name}: other {labels} than the baseline's", accepted="the same, in one order")
    values = np.asarray(given, np.float64)
    if values.ndim not in (1, 2) or values.shape != np.shape(like) or values.shape[1:] == (0,):
        raise InputError(
            f"{name}: values do not pair up with the baseline's",
            value=(values.shape, np.shape(like)),
            accepted="the same shape: (topics,) or (topics, measures)",
        )
    if not np.isfinite(values).all():
        raise InputError(
            f"{name}: a value is not finite",
            value=float(values[~np.isfinite(values)][0]),
            accepted="finite values",
        )
    return values[:, np.newaxis] if values.ndim == 1 else values


def _labels_of(values: Any, which: str) -> list[str] | None:
    """Give a DataFrame's labels; None for anything else (a list's index is a method)."""
    labels = getattr(values, which, None)
    return None if labels is None or callable(labels) else [str(label) for label in labels]


def _labels(
    given: Sequence[str] | None, own: Sequence[str] | None, number: int, what: str
) -> tuple[str, ...]:
    """Take the names given, or a DataFrame's, or make some."""
    given = own if given is None else given
    if given is None:
        numbers = tuple(str(i) for i in range(1, number + 1))
        return ("value",) if what == "measures" and number == 1 else numbers
    if len(given) != number or len(set(given)) != number:
        raise InputError(f"{what} are not named each once", value=len(given), accepted=f"{number} names")
    return tuple(given)
