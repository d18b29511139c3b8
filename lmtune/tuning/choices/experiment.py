"""Choose analysis and model within each fold, as the parameters are; prove the best of all cases."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.datasets.folds import Fold, cross_validation
from lmtune.errors import InputError
from lmtune.measures.measure import Measure
from lmtune.measures.significance.tests import paired_t_test
from lmtune.models.model import find_model
from lmtune.progress import Progress, silent, timed
from lmtune.showing import Shown
from lmtune.tuning.certificate.optimum import CertifiedOptimum
from lmtune.tuning.certificate.problem import Problem
from lmtune.tuning.certificate.proofs import proof_of
from lmtune.tuning.choices.cases import Case, Choice
from lmtune.tuning.experiment.preparation import Prepared, Split, prepare
from lmtune.tuning.experiment.result import DEFAULT, OPTIMAL, CollectionResult, Row
from lmtune.tuning.experiment.run import run_experiment

Key = tuple[Measure, str]
"""A measure and a method."""


class Proof(NamedTuple):
    """What branch and bound over the union of all cases shows of one of them, on all topics.

    Attributes
    ----------
    value : float
        The best mean measured of it.
    bound : float
        No setting in its range has a higher mean. Of a case that is discarded it is only as low as that
        takes.
    boxes : int
        How many were bounded.
    """

    value: float
    bound: float
    boxes: int


@dataclass(frozen=True)
class ChosenRow:
    """The whole procedure, by one method for one measure: the choice on training topics is part of it.

    Attributes
    ----------
    row : Row
        Its values are those of each fold's choice on test topics, its fits those choices'; p-values are
        against the first case tuned in the same way, ``"Tuned"``, and untuned, ``"Default"``.
    picks : tuple of int
        The case chosen on each fold, by its number.
    final : int
        The case chosen on the topics of all folds.
    score : float
        The mean over folds, weighted by test topics, of what the chosen case had on training topics.
    """

    row: Row
    picks: tuple[int, ...]
    final: int
    score: float


@dataclass(frozen=True, repr=False)
class ChoiceResult(Shown):
    """What choosing among cases gave on a collection.

    Attributes
    ----------
    name : str
        The collection.
    choices : tuple of Choice
        What was chosen from.
    cases : tuple of Case
        Every combination, the usual one first.
    results : tuple of CollectionResult
        The experiment on each.
    rows : tuple of ChosenRow
        The procedure, measure by measure and method by method.
    proofs : dict of (Measure, int) to Proof
        Of cases by their number, where they were asked for and the model has one.
    seconds : tuple of float
        How long each case took.
    inner : int
        Inner folds that cases were compared on; 0 where it was their training value.
    """

    name: str
    choices: tuple[Choice, ...]
    cases: tuple[Case, ...]
    results: tuple[CollectionResult, ...]
    rows: tuple[ChosenRow, ...]
    proofs: dict[tuple[Measure, int], Proof]
    seconds: tuple[float, ...]
    inner: int = 0

    def case_row(self, key: Key, case: int) -> Row:
        """Return a case's row of a measure and method."""
        return next(row for row in self.results[case].rows if (row.measure, row.method) == key)

    @cached_property
    def recommended(self) -> ChosenRow | None:
        """The row of the first defined measure with the best mean held out, the choice made in each fold."""
        return _best(self.rows)

    @cached_property
    def tuned(self) -> ChosenRow | None:
        """The best row of a method that tunes, by the same rule."""
        return _best([one for one in self.rows if one.row.method != DEFAULT])

    def best_value(self, measure: Measure) -> float:
        """Return the best mean on all topics that any case's proof measured."""
        return max(proof.value for (own, _), proof in self.proofs.items() if own == measure)

    def bound(self, measure: Measure) -> float | None:
        """Return what no case and setting exceeds on all topics; None unless all cases have a proof."""
        bounds = [proof.bound for (own, _), proof in self.proofs.items() if own == measure]
        return max(bounds) if len(bounds) == len(self.cases) else None


def _best(rows: Sequence[ChosenRow]) -> ChosenRow | None:
    rows = [one for one in rows if one.row.measure == rows[0].row.measure]
    return max(rows, key=lambda one: (round(one.row.mean, 4), -one.row.evaluations), default=None)


def tune_choices(
    choices: Sequence[Choice],
    cases: Sequence[Case],
    split: Split,
    *,
    inner: int = 0,
    certify: float | None = None,
    progress: Progress | bool = silent,
) -> tuple[ChoiceResult, Prepared]:
    """Tune every case; choose among them on each fold's training topics, and on all at last.

    So held-out means estimate the whole procedure, the choice included. By each method a fold takes the
    case with the best mean on its training topics, or, with inner folds of these, with the best mean held
    out there, which does not favour models of many parameters.

    Parameters
    ----------
    choices : sequence of Choice
        What is chosen from.
    cases : sequence of Case
        As `lmtune.tuning.choices.cases.make_cases` makes them.
    split : Split
        Training and test topics.
    inner : int
        Inner folds, 0 or 2 and more.
    certify : float, optional
        Prove on all topics, over the union of all cases, that no setting is better than the best by more.
    progress : Progress or bool
        Called with (stage, done, total).

    Returns
    -------
    ChoiceResult, and Prepared
        The latter of the case that the recommended row chose at last.

    Raises
    ------
    InputError
        For one inner fold, a certificate of a measure without one, and what the experiment refuses.
    """
    if inner == 1 or inner < 0:
        raise InputError("bad --inner-folds", value=inner, accepted="0, or 2 and more")
    if certify is not None:
        for measure in cases[0].plan.measures:
            Problem.check(measure)
    report = progress if callable(progress) else silent
    results, scores, seconds = [], [], []
    for number, case in enumerate(cases):
        begin = time.monotonic()
        with timed(f"{case}: tuned"):
            ready = prepare(case.collection, split, case.plan, progress=report)
            told = _told(report, f"case {number + 1} of {len(cases)}")
            result = run_experiment(
                ready.pool, ready.folds, case.plan, notes=ready.notes, progress=told, traced=False
            )
        results.append(result)
        scores.append(_scores(result, ready, case, inner))
        seconds.append(time.monotonic() - begin)
    rows = tuple(_rows(results, scores))
    proofs = {} if certify is None else dict(_prove(cases, results, split, certify, report))
    found = ChoiceResult(
        results[0].name, tuple(choices), tuple(cases), tuple(results), rows, proofs, tuple(seconds), inner
    )
    used = cases[found.recommended.final if found.recommended else 0]
    return found, prepare(used.collection, split, used.plan, progress=report)


def _told(progress: Progress, case: str) -> Progress:
    """Put a case's number before what its experiment tells."""
    return lambda stage, done, total, detail="": progress(f"{case}, {stage}", done, total, detail)


def _scores(
    result: CollectionResult, ready: Prepared, case: Case, inner: int
) -> dict[Key, NDArray[np.float64]]:
    """Return what a case is chosen by: a figure a fold, and one of all topics."""
    rows = [row for row in result.rows if row.method != OPTIMAL]
    if not inner:
        return {
            (row.measure, row.method): np.array(
                [*(fit.train_value for fit in row.fits), _all_topics(row)], np.float64
            )
            for row in rows
        }
    everything = Fold(tuple(topic for fold in result.folds for topic in fold.test), ())
    plan = replace(case.plan, final=False)
    found: dict[Key, list[float]] = {(row.measure, row.method): [] for row in rows}
    for fold in (*result.folds, everything):
        parts = cross_validation(fold.train, inner, seed=plan.seed)
        for row in run_experiment(ready.pool, parts, plan, traced=False).rows:
            if row.method != OPTIMAL:
                found[row.measure, row.method].append(row.mean)
    return {key: np.array(means) for key, means in found.items()}


def _all_topics(row: Row) -> float:
    """Return a method's mean on all topics: of its final fit, or of the default, whose setting is one."""
    if row.method == DEFAULT:
        return row.mean
    return math.nan if row.final is None else row.final.train_value


def _rows(
    results: Sequence[CollectionResult], scores: Sequence[dict[Key, NDArray[np.float64]]]
) -> Iterator[ChosenRow]:
    """Choose, for each measure and method."""
    sizes = [len(fold.test) for fold in results[0].folds]
    parts = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    for key in scores[0]:
        own = [next(row for row in result.rows if (row.measure, row.method) == key) for result in results]
        table = np.stack([score[key] for score in scores])
        *picks, final = np.argmax(np.nan_to_num(table, nan=-1.0), axis=0).tolist()
        values = np.concatenate([own[pick].values[part] for pick, part in zip(picks, parts, strict=True)])
        default = next(row for row in results[0].rows if row.measure == key[0])
        others = {"Tuned": own[0], DEFAULT: default}
        tested = {name: paired_t_test(values, other.values) for name, other in others.items()}
        row = replace(
            own[0],
            values=values,
            fits=tuple(own[pick].fits[number] for number, pick in enumerate(picks)),
            p_values={name: p for name, p in tested.items() if not math.isnan(p)},
            final=own[final].final and replace(own[final].final, test_value=float(values.mean())),
            cautions=tuple(sorted({caution for pick in picks for caution in own[pick].cautions})),
        )
        trained = [table[pick, number] for number, pick in enumerate(picks)]
        yield ChosenRow(row, tuple(picks), final, float(np.average(trained, weights=sizes)))


def _prove(
    cases: Sequence[Case],
    results: Sequence[CollectionResult],
    split: Split,
    tolerance: float,
    progress: Progress,
) -> Iterator[tuple[tuple[Measure, int], Proof]]:
    """Bound every case's best on all topics; the best first, which lets others be discarded early."""
    known: dict[tuple[Measure, int], list[dict[str, float]]] = {}
    values: dict[tuple[Measure, int], float] = {}
    for number, result in enumerate(results):
        rows = [row for row in result.rows if row.final is not None]
        for measure, group in groupby(rows, key=lambda row: row.measure):
            finals = [row.final for row in group if row.final is not None]
            known[measure, number] = [fit.params for fit in finals]
            values[measure, number] = max(fit.train_value for fit in finals)
    best: dict[Measure, float] = {}
    order = sorted(
        range(len(cases)), key=lambda number: -max(values.get((m, number), 0.0) for m, _ in values)
    )
    for done, number in enumerate(order):
        case = cases[number]
        progress("proving cases", done, len(cases))
        with timed(f"{case}: bounded"):
            try:
                proof_of(find_model(case.plan.model).formula)
            except InputError:
                continue
            ready = prepare(case.collection, split, case.plan)
            for measure in case.plan.measures:
                if (measure, number) not in values:
                    continue
                beat = max(best.get(measure, 0.0), max(v for (m, _), v in values.items() if m == measure))
                optimum = CertifiedOptimum(
                    measure,
                    tolerance=tolerance,
                    space=case.plan.space,
                    starts=known[measure, number],
                    depth=case.plan.depth,
                    beat=beat,
                ).fit(ready.pool)
                best[measure] = max(beat, optimum.best_value_)
                yield (measure, number), Proof(optimum.best_value_, optimum.bound_, optimum.n_boxes_)
                if optimum.stopped_ is not None:
                    return
    progress("proving cases", len(cases), len(cases))
