"""Runs' measures with their bounds over unjudged documents, and those of differences of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, as_text
from lmtune.formats.columns import RunColumns
from lmtune.measures.families import parse_families
from lmtune.measures.from_files import (
    Evaluation,
    EvaluationOptions,
    Judgements,
    as_judgements,
    evaluate_run,
    read_runs,
    run_names,
)
from lmtune.measures.judged_ranking import trec_eval_order
from lmtune.measures.measure import Measure, parse_measures
from lmtune.measures.residual_bounds import OpenTopic, bounds, check_bounded
from lmtune.measures.trec_names import VERSIONS
from lmtune.options import check
from lmtune.showing import Shown

if TYPE_CHECKING:
    import pandas as pd

JUDGED = "Judged@10"
"""The measure that says how much of what readers look at was judged."""
MEASURES = ("AP", "P@10", "nDCG@10")
"""What is bounded where nobody says what."""

FIGURES = ("value", "lowest", "highest", JUDGED.lower())
"""What `residual_records` have of each run and measure."""

Rankings = Mapping[bytes, Sequence[bytes]]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Residuals(Shown):
    """What one run's measures are, and could be.

    Attributes
    ----------
    evaluation : Evaluation
        The values as judged, and last Judged@10.
    measures : tuple of str
        What was bounded.
    lowest, highest : numpy.ndarray of float64, shape (topics, measures)
        The bounds of each topic's value, over all ways to judge what the run ranks without a judgement.
    """

    evaluation: Evaluation
    measures: tuple[str, ...]
    lowest: Doubles
    highest: Doubles


def residuals(
    qrels: Any, runs: Any, measures: Any = MEASURES, *, settings: EvaluationOptions | None = None
) -> pd.DataFrame:
    """Bound runs' measures over all ways in which unjudged documents could be judged.

    A document that a run ranks without a judgement may have any gain from 0 to the largest of the
    judgements (1 at least); documents that the run does not rank stay as they are. Bpref takes all of
    them for judged, so that its value, which passes them over, may lie outside its bounds.

    Parameters
    ----------
    qrels, runs, settings
        As for `lmtune.measures.from_files.evaluations`.
    measures : str, Measure, an object of ir_measures, or an iterable of these
        AP, Bpref, P, R, nDCG, RBP, RR, Success, with cutoffs.

    Returns
    -------
    pandas.DataFrame
        A row for each run and measure: ``value``, ``lowest``, ``highest`` (means over topics, exact) and
        ``judged@10``, the part of its best ten documents that has a judgement.

    Raises
    ------
    InputError
        As `evaluations`; for other measures, and settings that drop documents or have levels.

    Examples
    --------
    >>> print(residuals({"1": {"a": 1}}, {"mine": {"1": {"a": 2.0, "b": 1.0}}}, "P@2"))
                  value  lowest  highest  judged@10
    run  measure
    mine P@2        0.5     0.5      1.0        0.5
    """
    import pandas as pd

    found = list(run_residuals(qrels, runs, measures, settings=settings))
    return pd.DataFrame(residual_records(found)).drop(columns="file").set_index(["run", "measure"])


def run_residuals(
    qrels: Any, runs: Any, measures: Any = MEASURES, *, settings: EvaluationOptions | None = None
) -> Iterator[Residuals]:
    """Bound runs' measures one run after another: `residuals` in full, topic by topic."""
    settings = EvaluationOptions() if settings is None else settings
    parsed = _checked(measures, settings)
    labels = tuple(map(str, parsed))
    judgements = as_judgements(qrels, settings.topics)
    for file, run in read_runs(runs, judgements, settings):
        found = evaluate_run(judgements, run, parse_families([*labels, JUDGED]), settings, file=file)
        topics = [topic.encode() for topic in found.topics]
        spread = ranking_bounds(parsed, judgements, topics, rankings(run, settings), {})
        yield Residuals(found, labels, spread[..., 0], spread[..., 1])


def residual_records(found: Sequence[Residuals], *, per_topic: bool = False) -> list[dict[str, object]]:
    """Return a record for each run and measure: means over topics; or for each topic."""
    records: list[dict[str, object]] = []
    for name, one in zip(run_names([one.evaluation for one in found]), found, strict=True):
        judged = one.evaluation.column(JUDGED)
        for m, measure in enumerate(one.measures):
            column = one.evaluation.column(measure)
            shared = {"run": name, "file": as_text(one.evaluation.file), "measure": measure}
            rows = [(column.mean, one.lowest[:, m].mean(), one.highest[:, m].mean(), judged.mean)]
            keys: list[dict[str, str]] = [{}]
            if per_topic:
                rows = list(
                    zip(column.values, one.lowest[:, m], one.highest[:, m], judged.values, strict=True)
                )
                keys = [{"topic": topic} for topic in one.evaluation.topics]
            for key, row in zip(keys, rows, strict=True):
                records.append(shared | key | dict(zip(FIGURES, map(float, row), strict=True)))
    return records


def difference_bounds(
    qrels: Any, runs: Any, pairs: Sequence[tuple[str, str]], measures: Any, settings: EvaluationOptions
) -> dict[tuple[str, str], Doubles]:
    """Bound mean differences of runs over all ways to judge what either ranks without a judgement.

    Parameters
    ----------
    qrels, runs, settings
        As for `residuals`; runs in a mapping of their names.
    pairs : sequence of tuple of str
        Two runs' names: the differences are the first's mean less the second's.
    measures : str, Measure, an object of ir_measures, or an iterable of these
        As for `residuals`.

    Returns
    -------
    dict of tuple of str to numpy.ndarray of float64, shape (measures, 2)
        By pair the lowest and the highest mean difference over all judged topics; see
        `lmtune.measures.residual_bounds.is_exact`.

    Raises
    ------
    InputError
        As `residuals`.
    """
    parsed = _checked(measures, settings)
    judgements = as_judgements(qrels, settings.topics)
    ranked = {run.tag: rankings(run, settings) for _, run in read_runs(runs, judgements, settings)}
    topics = sorted(judgements)
    return {
        (one, other): ranking_bounds(parsed, judgements, topics, ranked[one], ranked[other]).mean(axis=0)
        for one, other in pairs
    }


def rankings(run: RunColumns, settings: EvaluationOptions) -> Rankings:
    """Order a run's documents as trec_eval does, down to the depth."""
    double = settings.version == VERSIONS[1]
    return {
        topic: trec_eval_order(*ranked, double=double)[: settings.depth]
        for topic, ranked in run.topics.items()
    }


def _checked(measures: Any, settings: EvaluationOptions) -> list[Measure]:
    check(settings)
    if settings.judged_only:
        raise InputError("bounds over unjudged documents, which judged-only drops", accepted="one of the two")
    if settings.level != 1:
        accepted = "measures that say their level themselves, such as AP(rel=2)"
        raise InputError("bounds at another level", value=settings.level, accepted=accepted)
    parsed = parse_measures(measures)
    check_bounded(parsed)
    return parsed


def ranking_bounds(
    measures: Sequence[Measure],
    judgements: Judgements,
    topics: Sequence[bytes],
    one: Rankings,
    other: Rankings,
) -> Doubles:
    """Return lowest and highest values of one run minus another's, shape (topics, measures, 2).

    `other` ranks nothing where one run is bounded alone; measures are those that `check_bounded` lets pass.
    """
    largest = max(1, *(gain for judged in judgements.values() for gain in judged.values()))
    found = np.empty((len(topics), len(measures), 2))
    for t, topic in enumerate(topics):
        opened = OpenTopic.of(judgements[topic], one.get(topic, ()), other.get(topic, ()), largest)
        found[t] = [bounds(measure, opened) for measure in measures]
    return found + 0.0  # no -0
