"""How far a table's judgements reach: what they cover of the first ranks, what they leave open, and whose."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from lmtune.candidates.pool import CandidatePool
from lmtune.errors import PathLike, visible
from lmtune.formats.columns import RunColumns
from lmtune.fusion.fusing import FusionResult
from lmtune.fusion.methods import Chosen, fused_pool
from lmtune.fusion.runs import RunSet
from lmtune.measures.from_files import EvaluationOptions, Judgements, as_judgements, read_runs
from lmtune.measures.judged_ranking import judge
from lmtune.measures.measure import Measure, parse_measure
from lmtune.measures.residual_bounds import is_bounded
from lmtune.measures.residual_runs import Rankings, ranking_bounds, rankings
from lmtune.measures.trec_measures import judged
from lmtune.models.parameter import Setting, as_settings
from lmtune.reporting.comparison_tables import signed
from lmtune.reporting.table import listed, short
from lmtune.tuning.choices.experiment import ChoiceResult
from lmtune.tuning.experiment.preparation import Prepared
from lmtune.tuning.experiment.result import DEFAULT, CollectionResult

_RANKS = 10
_COMPLETE = EvaluationOptions(complete=True)


def trust(
    qrels: Mapping[str, Mapping[str, int]],
    runs: Mapping[str, Any],
    measure: Measure | str,
    file: PathLike | None,
    *,
    ranks: int = _RANKS,
    remark: str = "",
) -> str:
    """Say how much of runs' first documents is judged, and where judging the rest could put a measure.

    Parameters
    ----------
    qrels : mapping of str to mapping of str to int
        Judgements of the topics that count, each alike.
    runs : mapping of str to path-like, or others
        One or two, by what the line calls them: what is recommended, and what it is held against.
    measure : Measure or str
        The measure of the table; its bounds are given where they are known and something is open.
    file : path-like or None
        Where the judgements were read from.
    ranks : int
        How many documents runs rank at least, where these are fewer than ten.
    remark : str
        What is to be added.
    """
    parsed, judgements = parse_measure(str(measure)), as_judgements(qrels)
    ranked = [rankings(run, _COMPLETE) for _, run in read_runs(runs, judgements, _COMPLETE)]
    shares = [f"{short(_judged(judgements, own))} by {name}" for name, own in zip(runs, ranked, strict=True)]
    parts = [f"Judged of the first {ranks}: {', '.join(shares)}"]
    if is_bounded(parsed):
        topics = sorted(judgements)
        found = [ranking_bounds([parsed], judgements, topics, own, {})[:, 0] for own in ranked]
        if any((ends[:, 0] < ends[:, 1]).any() for ends in found):
            spans = [_span(*ends.mean(axis=0).tolist()) for ends in found]
            told = [f"{name} {span}" for name, span in zip(runs, spans, strict=True)]
            if len(ranked) == 2:
                low, high = ranking_bounds([parsed], judgements, topics, *ranked).mean(axis=0)[0].tolist()
                told.append(f"their difference {signed(low)} to {signed(high)}")
            parts.append(f"judging what else they rank could leave {parsed.title} of {listed(told)}")
    parts += [] if file is None else [f"judgements: {visible(os.fspath(file))}"]
    return f"{'; '.join([*parts, *filter(None, [remark])])}\n"


def _judged(judgements: Judgements, ranked: Rankings) -> float:
    """Return Judged@10 of all judged topics, 0 where a run misses one."""
    tops = [judge(ranked.get(topic, ())[:_RANKS], own) for topic, own in sorted(judgements.items())]
    return float(np.mean([judged(top, [_RANKS]) for top in tops]))


def _span(low: float, high: float) -> str:
    return f"{short(low)} to {short(high)}"


def tuning_trust(prepared: Prepared, result: CollectionResult, depth: int) -> str:
    """Say it of the recommended setting and the default, to a run depth; nothing where there is none."""
    row = result.recommended
    if row is None or row.setting is None:
        return ""
    default = next((own for own in result.rows if own.method == DEFAULT), row)
    settings = {"the setting": row.setting.params, "the default": default.fits[0].params}
    return _of_settings({name: (prepared, own) for name, own in settings.items()}, row.measure, depth)


def choice_trust(result: ChoiceResult, chosen: Prepared, first: Prepared) -> str:
    """Say it of the choice made at last and of the first case's default; nothing where there is no choice."""
    one = result.recommended
    if one is None:
        return ""
    key = one.row.measure, one.row.method
    final = one.row.final or result.case_row(key, one.final).fits[0]
    default = result.case_row((one.row.measure, DEFAULT), 0).fits[0]
    settings = {
        "the choice": (chosen, final.params),
        f"{result.cases[0]} at its default": (first, default.params),
    }
    return _of_settings(settings, one.row.measure, result.cases[0].plan.depth)


def fusion_trust(
    fused: FusionResult, runs: RunSet, qrels: Mapping[str, Mapping[str, int]], file: PathLike
) -> str:
    """Say it of what is recommended for the first measure, and of reciprocal rank fusion."""
    written = {}
    for row in filter(None, (fused.recommended, fused.baselines(fused.rows[0].measure)["rrf"])):
        alone = Chosen("equal", {name: float(name == row.name) for name in runs.names})
        chosen = alone if row.is_single else row.chosen
        pool = fused_pool(runs, chosen, fused.options, qrels, fused.topics)
        written[row.name] = run_of(pool, chosen.setting, fused.options.depth)
    judged = {topic: qrels[topic] for topic in fused.topics}
    remark = weighted_remark(fused.options.topic_weights)
    return trust(judged, written, fused.rows[0].measure, file, remark=remark)


def _of_settings(settings: Mapping[str, tuple[Prepared, Setting]], measure: Measure, depth: int) -> str:
    runs = {name: run_of(own.pool.drawn_at(at), at, depth) for name, (own, at) in settings.items()}
    prepared, _ = next(iter(settings.values()))
    qrels = {topic: prepared.dataset.qrels[topic] for topic in prepared.pool.topics}
    remark = weighted_remark(prepared.pool.topic_weights)
    ranks = min(_RANKS, depth)
    return trust(qrels, runs, measure, prepared.dataset.qrels_file, ranks=ranks, remark=remark)


def run_of(pool: CandidatePool, setting: Setting, depth: int) -> RunColumns:
    """Return a setting's run, with scores that trec_eval ranks as the pool does."""
    [vector] = as_settings(pool.formula.parameters, setting)
    tops = [start + pool.top(t, vector, depth) for t, start in enumerate(pool.candidates.start[:-1].tolist())]
    docs, places = np.unique(pool.candidates.doc[np.concatenate(tops)], return_inverse=True)
    docnos = np.array([docno.encode() for docno in pool.index.docnos(docs)], object)[places]
    each = np.split(docnos, np.cumsum([len(top) for top in tops])[:-1])
    return RunColumns(
        "",
        {
            t.encode(): (own.tolist(), list(range(0, -own.size, -1)))
            for t, own in zip(pool.topics, each, strict=True)
        },
        {},
    )


def weighted_remark(weights: object) -> str:
    """Say that topics were weighted, where they were."""
    return "" if weights is None else "topics are weighted in fits, and count alike in means"
