"""Coverage of rankings by judgments: judged@k, and bounds over unjudged documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates.pool import CandidatePool
from lmtune.fusion.fusing import FusedRow, FusionResult
from lmtune.fusion.methods import ENGINE_DEFAULT, fused_pool
from lmtune.fusion.runs import RunSet
from lmtune.index.protocol import Index
from lmtune.io.rows import Qrels
from lmtune.measures.from_files import EvaluationOptions, as_judgments
from lmtune.measures.measure import Measure, parse_measure
from lmtune.measures.residual_bounds import (
    OpenTopic,
    bounds,
    is_bounded,
    lists_nonrelevant,
    open_topics,
    read_rankings,
)
from lmtune.models.parameter import Setting, as_settings
from lmtune.report.comparison_tables import interval_text, signed
from lmtune.report.table import short
from lmtune.tuning.choices.experiment import ChoiceResult
from lmtune.tuning.experiment.preparation import Prepared
from lmtune.tuning.experiment.result import DEFAULT, CollectionResult

_RANKS = 10
_WEIGHTS = "topic weights apply to fitting, not to means"
_COMPLETE = EvaluationOptions(complete=True)


def judgment_coverage(
    qrels: Qrels,
    runs: Mapping[str, Any],
    measure: Measure | str,
    *,
    with_bounds: bool = False,
    weights: object = None,
) -> str:
    """Return a line with judged@10 of each run; empty if the judgments list only relevant documents.

    Parameters
    ----------
    qrels : mapping of str to mapping of str to int
        Judgments; all topics have equal weight.
    runs : mapping of str to path-like, or others
        One or two runs by name: the recommended one and its baseline.
    measure : Measure or str
        The measure of the bounds.
    with_bounds : bool
        Whether to add the lowest and highest mean over all judgments of the unjudged documents.
    weights : object
        Topic weights of fits, or None. The line then notes that means do not use them.

    Returns
    -------
    str
        Ends with a newline.
    """
    judgments = as_judgments(qrels)
    ranked = [run for _, run in read_rankings(runs, judgments, _COMPLETE)]
    has_nonrelevant = lists_nonrelevant(judgments)
    topics = open_topics(judgments, sorted(judgments), *[*ranked, {}][:2]) if has_nonrelevant else ()
    return _coverage_line([*runs], topics, parse_measure(measure), with_bounds, weights)


def _coverage_line(
    runs: Sequence[str],
    topics: Iterable[OpenTopic],
    measure: Measure,
    with_bounds: bool,
    weights: object,
    ranks: int = _RANKS,
) -> str:
    """Return the line; without topics only the note on weights, if there are any."""
    shares, ends = [], []
    with_bounds = with_bounds and is_bounded(measure)
    for topic in topics:
        sides = topic.first_run_only(), topic.exchanged().first_run_only()
        shares.append([side.judged_share(_RANKS) for side in sides])
        ends.append([bounds(measure, side) for side in (*sides, topic)] if with_bounds else [])
    if not shares:
        return "" if weights is None else f"{_WEIGHTS.capitalize()}\n"
    judged = [f"{short(s)} ({run})" for s, run in zip(np.mean(shares, axis=0).tolist(), runs, strict=False)]
    parts = [f"Judged@{ranks}: {', '.join(judged)}"]
    if with_bounds:
        means = (np.mean(ends, axis=0) + 0.0).tolist()  # no -0
        texts = [f"{interval_text(mean)} ({run})" for run, mean in zip(runs, means, strict=False)]
        texts += [f"difference in {interval_text(means[-1], signed)}"] if len(runs) == 2 else []
        parts.append(f"unjudged documents: {measure.title} in {', '.join(texts)}")
    parts += [] if weights is None else [_WEIGHTS]
    return f"{'; '.join(parts)}\n"


def tuning_coverage(
    prepared: Prepared, result: CollectionResult, depth: int, *, with_bounds: bool = False
) -> str:
    """Return the line for the recommended setting and the default; empty without a setting."""
    row = result.recommended
    if row is None or row.setting is None:
        return ""
    default = next((other for other in result.rows if other.method == DEFAULT), row)
    settings = {"recommended": row.setting.params, "default": default.fits[0].params}
    chosen = {name: (prepared, params) for name, params in settings.items()}
    return _of_settings(chosen, row.measure, depth, with_bounds)


def choice_coverage(
    result: ChoiceResult, chosen: Prepared, first: Prepared, *, with_bounds: bool = False
) -> str:
    """Return the line for the recommended case and for the first case's default; empty without a case."""
    one = result.recommended
    if one is None:
        return ""
    key = one.row.measure, one.row.method
    final = one.row.final or result.case_row(key, one.final).fits[0]
    default = result.case_row((one.row.measure, DEFAULT), 0).fits[0]
    settings = {"recommended": (chosen, final.params), "default": (first, default.params)}
    return _of_settings(settings, one.row.measure, result.cases[0].plan.depth, with_bounds)


def _fixed_fusion(fused: FusionResult) -> list[FusedRow]:
    """Return the row of reciprocal rank fusion, or of an engine's default."""
    by_name = fused.baselines(fused.rows[0].measure)
    return [by_name[name] for name in ("rrf", ENGINE_DEFAULT) if name in by_name][:1]


def fusion_coverage(fused: FusionResult, runs: RunSet, qrels: Qrels, *, with_bounds: bool = False) -> str:
    """Return the line for the recommended method by the first measure and for reciprocal rank fusion."""
    settings = {}
    for row in filter(None, (fused.recommended, *_fixed_fusion(fused))):
        pool = fused_pool(runs, row.chosen, fused.options, qrels, fused.topics)
        settings[row.name] = pool, row.chosen.setting
    topics = _ranked_topics([*settings.values()], fused.options.depth)
    return _coverage_line(
        [*settings], topics, fused.rows[0].measure, with_bounds, fused.options.topic_weights
    )


def _of_settings(
    settings: Mapping[str, tuple[Prepared, Setting]], measure: Measure, depth: int, with_bounds: bool
) -> str:
    topics = _ranked_topics(
        [(case.pool.drawn_at(params), params) for case, params in settings.values()], depth
    )
    prepared, _ = next(iter(settings.values()))
    weights = prepared.pool.topic_weights
    return _coverage_line([*settings], topics, measure, with_bounds, weights, min(_RANKS, depth))


def _ranked_topics(settings: Sequence[tuple[CandidatePool, Setting]], depth: int) -> Iterator[OpenTopic]:
    """Yield each topic with its rankings by one or two pools, which have the same topics and judgments.

    Nothing if the judgments list only relevant documents.
    """
    pool, _ = settings[0]
    if (pool.judgments != 0).all():  # no judged non-relevant document
        return
    runs = [_rankings(other, setting, depth, pool.index) for other, setting in settings]
    largest = max(1, int(pool.judgments.max(initial=1)))
    for t, rankings in enumerate(zip(*runs, strict=True)):
        rows = pool.judged.rows(t)
        topic = OpenTopic.of_numbers((pool.judged.doc[rows], pool.judged.gain[rows]), rankings, largest)
        # These include judgments of documents that the collection lacks.
        gains = pool.judgments[pool.judgment_start[t] : pool.judgment_start[t + 1]]
        yield topic._replace(gains=gains.astype(np.int64))


def _rankings(pool: CandidatePool, setting: Setting, depth: int, index: Index) -> list[NDArray[np.integer]]:
    """Return each topic's ranking as document numbers of an index of the same collection."""
    [vector] = as_settings(pool.formula.parameters, setting)
    tops = [start + pool.top(t, vector, depth) for t, start in enumerate(pool.candidates.start[:-1].tolist())]
    docs = pool.candidates.doc[np.concatenate(tops)]
    if pool.index is not index:
        distinct, inverse = np.unique(docs, return_inverse=True)
        docs = index.doc_numbers(pool.index.docnos(distinct))[inverse]
    return np.split(docs, np.cumsum([len(top) for top in tops])[:-1])
