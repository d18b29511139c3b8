"""The recommendation of an experiment: what it gains, how sure that is, and how far the judgements reach.

One choice, its gain over the usual one, and what the judgements cover of the first ranks and leave open.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.arrays import Doubles
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import PathLike, visible
from lmtune.fusion.fusing import BEST_SINGLE, FusedRow, FusionResult
from lmtune.fusion.methods import FEW, METHODS, fused_pool
from lmtune.fusion.runs import RunSet
from lmtune.index.protocol import Index
from lmtune.io.rows import Qrels
from lmtune.measures.from_files import EvaluationOptions, as_judgements
from lmtune.measures.measure import Measure, parse_measure
from lmtune.measures.residual_bounds import OpenTopic, bounds, is_bounded, open_topics, read_rankings
from lmtune.measures.significance.comparison import compare
from lmtune.measures.significance.tests import FEWEST, detectable_difference
from lmtune.models.model import known_model
from lmtune.models.parameter import Setting, as_settings
from lmtune.progress import quantity
from lmtune.report.comparison_tables import p_text, signed
from lmtune.report.table import listed, short
from lmtune.tuning.choices.experiment import ChoiceResult
from lmtune.tuning.experiment.preparation import Prepared
from lmtune.tuning.experiment.result import DEFAULT, OPTIMAL, CollectionResult, setting_values

if TYPE_CHECKING:
    from lmtune.measures.lists import Empty
    from lmtune.measures.significance.comparison import Comparison
    from lmtune.rerank.comparison import Outcome


_QUERIES = ("query", "queries")


def answer(result: CollectionResult) -> str:
    """Say in a sentence or two which setting to use, and what it gains; nothing of undefined measures.

    The interval and the test are those of `lmtune.compare`: Student's t, of paired differences.
    """
    row = result.recommended
    if row is None:
        return ""
    others = [other for other in result.rows if other.measure == row.measure and other.method != OPTIMAL]
    default = next((other for other in others if other.method == DEFAULT), None)
    mean = f"{row.measure.title} {short(row.mean)} held out"
    if row is default:
        said = f"keep the default {setting_text(result, row.fits[0].params)}. {mean}"
        rivals = [other for other in others if other is not row]
        if rivals:
            best = max(rivals, key=lambda other: other.mean)
            said += f"; the best tuned, {best.method}, gives {gain_text(best.values, row.values)}"
    else:
        said = f"use {setting_text(result, row.setting.params)} ({row.method})" if row.setting else row.method
        said = f"{said}. {mean}" if row.setting else f"{said} is best, {mean}"
        if default is not None:
            usual = f"the default {setting_text(result, default.fits[0].params)}"
            said += f", {gain_text(row.values, default.values, usual)}{_missed(row.values - default.values)}"
    box = [
        f"{name} {low} to {high}"
        for name, ends in result.near.items()
        for low, high in [[setting_text(result, {name: end}).rpartition(" ")[2] for end in ends]]
    ]
    said += f". Not significantly worse at the grid's points, on all topics: {listed(box)}" if box else ""
    edges = row.final.at_edge if row.final else ()
    ended = f" It lies on the edge of the range: {listed(edges)}." if edges else ""
    return f"{result.name}: {said}.{ended}"


def _missed(differences: Doubles) -> str:
    """Say for which differences the topics are too few; nothing where there is no test."""
    if differences.size < FEWEST or not differences.std():
        return ""
    least = detectable_difference(float(differences.std(ddof=1)), differences.size)
    topics = quantity(differences.size, "topic", "topics")
    return f". With {topics} it misses a difference below {short(least)} more often than once in five"


def setting_text(result: CollectionResult, params: Mapping[str, float]) -> str:
    """Print a setting as papers do: lambda = .594, mu = 55.1."""
    values = setting_values(result, params)
    brief = {n: text.replace("0.", ".", 1) if abs(float(text)) < 1.0 else text for n, text in values.items()}
    return ", ".join(f"{name} = {text}" for name, text in brief.items())


def default_remark(result: CollectionResult) -> str:
    """Say what the row Default is, and whose; nothing where there is none."""
    row = next((row for row in result.rows if row.method == DEFAULT), None)
    if row is None:
        return ""
    known = known_model(result.model)
    declared = {p.name: p for p in known.parameters} if known else {}
    by_source: dict[str, dict[str, float]] = {}
    for name, value in row.fits[0].params.items():
        usual = name in declared and value == declared[name].default
        source = (declared[name].source or "where the model starts") if usual else "as given"
        by_source.setdefault(source, {})[name] = value
    said = [(setting_text(result, params), source) for source, params in by_source.items()]
    parts = [f"{setting} ({source})" for setting, source in said if setting]
    return f"{DEFAULT}: {'; '.join(parts)}, without any fitting"


def fusion_answer(result: FusionResult) -> str:
    """Say which method and weights to use; nothing where none were judged on topics held out."""
    row = result.recommended
    if row is None:
        return ""
    single, rrf = (result.baselines(row.measure)[name] for name in (BEST_SINGLE, "rrf"))
    mean = f"{row.measure.title} {short(row.mean)} held out"
    if row is single:
        others = [other for other in result.rows if other.measure == row.measure and not other.is_single]
        best = max(others, key=lambda other: other.mean)
        gain = gain_text(best.values, row.values)
        return f"Keep {row.name} alone. {mean}; the best fused, {best.name}, gives {gain}."
    gains = [gain_text(row.values, single.values, f"the best single run, {single.name}")]
    gains += [gain_text(row.values, rrf.values, "rrf")] if row is not rrf else []
    return f"Use {_fused_by(row, len(result.runs))}. {mean}, {listed(gains)}."


def _fused_by(row: FusedRow, runs: int) -> str:
    """Name a method, with its constant and weights if they were chosen and are few enough to read."""
    constant = row.chosen.said
    chosen = METHODS[row.chosen.method].fit is not None and runs <= FEW
    weights = [f"{run} {short(share)}" for run, share in row.chosen.shares.items()] if chosen else []
    return f"{row.name} ({', '.join([*constant, *weights])})" if constant or weights else row.name


def loss_answer(outcomes: Sequence[Outcome], empty: Empty) -> str:
    """Say which loss to use: the best mean of the measure to the most ranks; of equals the first.

    Equal are means of the same four digits. It is compared with the first loss, over queries, each with its
    mean over trials.
    """
    first, *others = outcomes
    if not others:
        return ""
    measures = [measure for measure in first.measures if measure.higher_is_better]
    measure = max(measures, key=lambda one: one.cutoff or math.inf)
    by_loss = {one.label: one.by_query(empty, measure) for one in outcomes}
    if not by_loss[first.label].size:
        return ""
    best = max(outcomes, key=lambda one: round(float(by_loss[one.label].mean()), 4))
    rival = max(others, key=lambda one: float(by_loss[one.label].mean()))
    rate = "" if math.isnan(best.rate) else f" (rate {best.rate:g})"
    mean = f"Use {best.label}{rate}. {measure.title} {short(by_loss[best.label].mean())} held out"
    if best is not first:
        return f"{mean}, {gain_text(by_loss[best.label], by_loss[first.label], first.label, _QUERIES)}."
    gain = gain_text(by_loss[rival.label], by_loss[best.label], units=_QUERIES)
    return f"{mean}; the best other, {rival.label}, gives {gain}."


def reranking_answer(comparison: Comparison) -> str:
    """Say whether to rerank: the first system is the run as it was, the second the same reranked."""
    before, after = comparison.values[:, :, 0]
    measure, run = comparison.measures[0], comparison.systems[0]
    if after.mean() > before.mean():
        return f"Rerank. {measure} {short(after.mean())} held out, {gain_text(after, before, run)}."
    return f"Keep {run}. {measure} {short(before.mean())}; reranked, held out, {gain_text(after, before)}."


def gain_text(
    values: Doubles, others: Doubles, over: str = "", units: tuple[str, str] = ("topic", "topics")
) -> str:
    """Give a mean difference, over what, with its interval and p-value, or say that there are none."""
    said = f"{signed(values.mean() - others.mean())}{over and f' over {over}'}"
    counted = quantity(values.size, *units)
    tested = gain_over(values, others)
    if tested.low is None or tested.high is None or tested.p_value is None:
        return f"{said} ({counted}: no test of so few, or of one difference on all)"
    low, high = signed(tested.low), signed(tested.high)
    p_said = p_text(tested.p_value) if tested.p_value < 0.0001 else f"= {p_text(tested.p_value)}"
    return f"{said} (95% {low} to {high}, p {p_said.replace('<', '< ')}, {counted}, paired t-test)"


class Gain(NamedTuple):
    """A mean difference over topics, its 95% confidence interval, and the p-value of a paired t-test.

    Interval and p-value are None for a single topic, or where all topics have one difference.
    """

    difference: float
    low: float | None = None
    high: float | None = None
    p_value: float | None = None


def gain_over(values: Doubles, others: Doubles) -> Gain:
    """Compare the values of topics with others of the same topics."""
    difference = float(values.mean() - others.mean())
    if values.size < 2:
        return Gain(difference)
    [contrast] = compare(others, {"compared": values}).contrasts
    p = contrast.tested["t"].p_value
    return Gain(difference) if math.isnan(p) else Gain(difference, *contrast.interval, p)


_RANKS = 10
_COMPLETE = EvaluationOptions(complete=True)


def trust(
    qrels: Qrels, runs: Mapping[str, Any], measure: Measure | str, file: PathLike | None, *, remark: str = ""
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
    remark : str
        What is to be added.
    """
    judgements = as_judgements(qrels)
    ranked = [own for _, own in read_rankings(runs, judgements, _COMPLETE)]
    opened = open_topics(judgements, sorted(judgements), *[*ranked, {}][:2])
    return _trust([*runs], opened, parse_measure(measure), file, remark=remark)


def _trust(
    runs: Sequence[str],
    topics: Iterable[OpenTopic],
    measure: Measure,
    file: PathLike | None,
    *,
    ranks: int = _RANKS,
    remark: str = "",
) -> str:
    shares, ends = [], []
    for topic in topics:
        sides = topic.alone(), topic.exchanged().alone()
        shares.append([side.judged_share(_RANKS) for side in sides])
        ends.append([bounds(measure, side) for side in (*sides, topic)] if is_bounded(measure) else [])
    judged = zip(map(short, np.mean(shares, axis=0).tolist()), runs, strict=False)
    parts = [f"Judged of the first {ranks}: {', '.join(map(' by '.join, judged))}"]
    spreads = np.array(ends)[:, : len(runs)]
    if (spreads[..., :1] < spreads[..., 1:]).any():
        means = (np.mean(ends, axis=0) + 0.0).tolist()  # no -0
        told = [f"{name} {' to '.join(map(short, own))}" for name, own in zip(runs, means, strict=False)]
        if len(runs) == 2:
            told.append(f"their difference {' to '.join(map(signed, means[-1]))}")
        parts.append(f"judging what else they rank could leave {measure.title} of {listed(told)}")
    parts += [] if file is None else [f"judgements: {visible(os.fspath(file))}"]
    return f"{'; '.join([*parts, *filter(None, [remark])])}\n"


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


def fusion_trust(fused: FusionResult, runs: RunSet, qrels: Qrels, file: PathLike) -> str:
    """Say it of what is recommended for the first measure, and of reciprocal rank fusion."""
    written = {}
    for row in filter(None, (fused.recommended, fused.baselines(fused.rows[0].measure)["rrf"])):
        pool = fused_pool(runs, row.chosen, fused.options, qrels, fused.topics)
        written[row.name] = pool, row.chosen.setting
    opened = _opened([*written.values()], fused.options.depth)
    remark = weighted_remark(fused.options.topic_weights)
    return _trust([*written], opened, fused.rows[0].measure, file, remark=remark)


def _of_settings(settings: Mapping[str, tuple[Prepared, Setting]], measure: Measure, depth: int) -> str:
    prepared, _ = next(iter(settings.values()))
    opened = _opened([(own.pool.drawn_at(at), at) for own, at in settings.values()], depth)
    remark = weighted_remark(prepared.pool.topic_weights)
    ranks, file = min(_RANKS, depth), prepared.dataset.qrels_file
    return _trust([*settings], opened, measure, file, ranks=ranks, remark=remark)


def _opened(settings: Sequence[tuple[CandidatePool, Setting]], depth: int) -> Iterator[OpenTopic]:
    """Rank each topic at settings of one or two pools, which have the same topics and judgements."""
    pool, _ = settings[0]
    runs = [_ranked(own, at, depth, pool.index) for own, at in settings]
    largest = max(1, int(pool.judgements.max(initial=1)))
    for t, ranked in enumerate(zip(*runs, strict=True)):
        rows = pool.judged.rows(t)
        opened = OpenTopic.of_numbers((pool.judged.doc[rows], pool.judged.gain[rows]), ranked, largest)
        # With those of documents that the collection lacks.
        gains = pool.judgements[pool.judgement_start[t] : pool.judgement_start[t + 1]]
        yield opened._replace(gains=gains.astype(np.int64))


def _ranked(pool: CandidatePool, setting: Setting, depth: int, index: Index) -> list[NDArray[np.integer]]:
    """Return each topic's ranking, of documents by their numbers in an index of the same collection."""
    [vector] = as_settings(pool.formula.parameters, setting)
    tops = [start + pool.top(t, vector, depth) for t, start in enumerate(pool.candidates.start[:-1].tolist())]
    docs = pool.candidates.doc[np.concatenate(tops)]
    if pool.index is not index:
        distinct, places = np.unique(docs, return_inverse=True)
        docs = index.doc_numbers(pool.index.docnos(distinct))[places]
    return np.split(docs, np.cumsum([len(top) for top in tops])[:-1])


def weighted_remark(weights: object) -> str:
    """Say that topics were weighted, where they were."""
    return "" if weights is None else "topics are weighted in fits, and count alike in means"
