"""Evaluate runs as trec_eval does. This module does not import numpy, so that commands start fast."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lmtune.errors import InputError, as_text
from lmtune.io.columns import RunColumns, read_run_columns
from lmtune.io.qrels import STRATA, SUBTOPICS, SubtopicJudgments, read_judgments
from lmtune.io.rows import QrelsLike, RunLike, RunsLike
from lmtune.measures.ir_measures_bridge import is_sum, values_by_topic
from lmtune.measures.judged_ranking import JudgedRanking, judge, trec_eval_order
from lmtune.measures.measure import ACCEPTED as _MEASURE_NAMES
from lmtune.measures.measure import Measure, MeasuresLike, parse_measure, split_names
from lmtune.measures.trec_names import (
    NICKNAMES,
    VERSIONS,
    Family,
    ParameterError,
    Summary,
    Value,
    families,
    members,
    split_name,
)
from lmtune.options import check, option, usual
from lmtune.progress import note
from lmtune.showing import Shown, data_frame

if TYPE_CHECKING:
    import pandas as pd


_ACCEPTED = (
    "official, all_trec, set, trec_eval's names with parameters (map, P.5,10, ndcg_cut_20, "
    "iprec_at_recall.0.1), ir_measures' (AP, nDCG@10, 'AP(rel=2)@100')"
)


def parse_families(measures: MeasuresLike, version: str = VERSIONS[0]) -> tuple[Family, ...]:
    """Parse names of measures of trec_eval and ir_measures.

    Parameters
    ----------
    measures : str, Measure, MeasureKind, an object of ir_measures, or an iterable of these
        trec_eval's names, with parameters after a dot or an underscore, its nicknames ``official``,
        ``all_trec`` and ``set``, or ir_measures' names. A string may contain several, separated by
        spaces or commas.
    version : str
        The version of trec_eval, one of `lmtune.measures.trec_names.VERSIONS`.

    Returns
    -------
    tuple of Family
        trec_eval's measures in its order, then the others in the order of their names; measures that
        ir_measures computes are last.

    Raises
    ------
    InputError
        If a name is unknown or has invalid parameters; the message lists all unknown names.
    """
    names = split_names(measures)
    if not names:
        raise InputError("no measures", accepted=_ACCEPTED)
    trec: list[tuple[str, str]] = []
    others: list[Measure] = []
    wrong: list[InputError] = []
    for name in names:
        try:
            if not isinstance(name, str):
                others.append(parse_measure(name))
            elif name in NICKNAMES:
                trec += [(family, "") for family in members(name, version)]
            elif (split := split_name(name)) is not None:
                families([split])
                trec.append(split)
            else:
                others.append(parse_measure(name))
        except ParameterError as error:
            wrong.append(InputError("unknown measure", value=name, accepted=str(error)))
        except InputError as error:
            if error.accepted is not None:
                error.accepted = error.accepted.replace(_MEASURE_NAMES, _ACCEPTED)
            wrong.append(error)
    if wrong:
        if len(wrong) == 1 or "unknown" not in wrong[0].message:
            raise wrong[0]
        raise InputError("unknown measures", value=[error.value for error in wrong], accepted=_ACCEPTED)
    try:
        made = families(trec, version)
    except ParameterError as error:
        raise InputError("measures that cannot be combined", value=names, accepted=str(error)) from None
    unique = sorted(dict.fromkeys(others), key=lambda measure: measure.declared.value is None)
    return (*made, *(_family(measure) for measure in unique))


def _family(measure: Measure) -> Family:
    """Return a measure of ir_measures as a family of one; without `values` if ir_measures computes it."""
    value = measure.declared.value
    if value is None:
        summary = Summary.SUM if is_sum(str(measure)) else Summary.MEAN
        return Family((str(measure),), None, summary, reads=measure.declared.reads)
    return Family(
        (str(measure),),
        lambda ranking: (value(ranking, measure),),
        Summary.MEAN,
        measure.rel,
        measure.declared.reads,
    )


Judgments = Mapping[bytes, Mapping[bytes, int]]

_PATH = (str, os.PathLike)
_SMALLEST_GEOMETRIC = 1e-5  # trec_eval raises smaller values to this one in geometric means
_RESET_TO_ZERO = ("num_ret", "utility", "relstring", "rbp_resid")


class MeasureColumn(NamedTuple):
    """One measure of one run.

    Attributes
    ----------
    label : str
        The measure's name.
    summary : Summary
        How `mean` is computed from `values`.
    values : tuple of float, int or str
        One value per topic; empty for properties of the run (``runid``, ``num_q``).
    mean : float, int, str or None
        The run's value: a mean, a sum for counts, a geometric mean for gm_map; None for ``relstring``.
    """

    label: str
    summary: Summary
    values: tuple[Value, ...]
    mean: Value | None


@dataclass(frozen=True, repr=False)
class Evaluation(Shown, by="run_tables.evaluation"):
    """The values of one run.

    Attributes
    ----------
    file : str
        The run's file.
    tag : str
        The tag in the last line of the run.
    topics : tuple of str
        The topics in the means, sorted by bytes as in trec_eval.
    retrieved : frozenset of str
        The topics in `topics` for which the run has documents. Others have the value 0.
    missed : tuple of str
        All judged topics for which the run has no documents, in `topics` or not.
    unjudged : int
        The number of the run's topics without judgments, which are ignored.
    columns : tuple of MeasureColumn
        The measures, in the order of the output.
    passed : mapping of str to int
        The numbers of lines that were skipped or accepted in spite of a problem, by kind of problem.
    version : str
        The version of trec_eval that the values agree with.
    reversed_ranks : bool
        Whether the run's scores increase with its ranks, as distances do.
    """

    file: str
    tag: str
    topics: tuple[str, ...]
    retrieved: frozenset[str]
    missed: tuple[str, ...]
    unjudged: int
    columns: tuple[MeasureColumn, ...]
    passed: Mapping[str, int]
    version: str
    reversed_ranks: bool = False

    def listed(self) -> Iterator[tuple[int, str]]:
        """Yield positions and identifiers of the topics that ``trec_eval -q`` prints."""
        for position, topic in enumerate(self.topics):
            if topic in self.retrieved or self.version == VERSIONS[1]:
                yield position, topic

    def column(self, label: str) -> MeasureColumn:
        """Return the measure with this label; raise KeyError if there is none."""
        for column in self.columns:
            if column.label == label:
                return column
        raise KeyError(label)


@dataclass(frozen=True)
class EvaluationOptions:
    """Evaluation: which topics and documents count, mostly as in trec_eval.

    Attributes
    ----------
    complete : bool
        Average over all judged topics; a topic that is missing from the run counts 0. Otherwise average
        over the run's judged topics, the default of trec_eval.
    level : int
        The smallest relevant gain for measures with trec_eval's names. ir_measures' names set their own:
        ``AP(rel=2)``.
    depth : int or None
        Ignore documents ranked below it.
    judged_only : bool
        Remove unjudged documents first. If none are left, values are 0, where trec_eval prints nan.
    documents : int
        The size of the collection, for the fourth weight of ``utility``.
    version : {"9.0.8", "10.0"}
        The version of trec_eval that values agree with.
    lenient : bool
        Skip invalid lines of runs.
    exclude_self : bool or None
        Whether to remove from runs each topic's own document, whose docno is the topic's identifier. With
        None, `lmtune.collections.names.excludes_self` decides by the folder of the judgments.
    topics : str or None
        The judged topics to evaluate, as `lmtune.collections.folds.select_topics` reads them; others are
        ignored in runs, too.
    """

    complete: bool = usual(
        False, "Average over all judged topics; those missing from the run count 0.", flag="--complete -c"
    )
    level: int = usual(
        1, "The smallest relevant gain, for measures with trec_eval's names.", low=0, flag="--level -l"
    )
    depth: int | None = usual(None, "Number of top documents per topic that count.", low=1, flag="--depth -M")
    judged_only: bool = option(False, "Remove unjudged documents from runs.", flag="--judged-only -J")
    documents: int = option(
        0,
        "Number of documents in the collection, for the fourth weight of utility.",
        low=0,
        flag="--documents -N",
    )
    version: str = usual(
        VERSIONS[0],
        "The version of trec_eval to agree with, 9.0.8 or 10.0.",
        flag="--trec-eval",
        choices=VERSIONS,
    )
    lenient: bool = option(False, "Skip invalid lines of runs and report their number.")
    exclude_self: bool | None = option(
        None,
        "Remove each topic's own document, whose docno is the topic's identifier, from runs; default: if "
        "the judgments are in a folder of BEIR's ArguAna or Quora.",
    )
    topics: str | None = usual(None, "Use only these judged topics: 401-450, a list 51,52 or @FILE.")


def evaluate(
    qrels: QrelsLike,
    runs: RunsLike,
    measures: MeasuresLike = "official",
    *,
    settings: EvaluationOptions | None = None,
) -> pd.DataFrame:
    """Compute measures of runs, averaged over topics.

    Parameters
    ----------
    qrels, runs, measures, settings
        As for `evaluations`.

    Returns
    -------
    pandas.DataFrame
        Means, or sums for counts: one row per run, one column per measure. Rows have the names passed
        for runs, or for files those of `run_names`. See `topic_values` for values of topics.

    Raises
    ------
    InputError
        As for `evaluations`.

    Examples
    --------
    >>> print(evaluate({"1": {"a": 1}}, {"mine": {"1": {"b": 2.0, "a": 1.0}}}, ["AP", "P@1"]))
           AP  P@1
    run
    mine  0.5  0.0
    """
    evaluated = list(evaluations(qrels, runs, measures, settings=settings))
    rows = [
        {column.label: column.mean for column in run.columns if column.mean is not None} for run in evaluated
    ]
    return data_frame(rows, index=run_names(evaluated)).rename_axis("run")


def evaluations(
    qrels: QrelsLike,
    runs: RunsLike,
    measures: MeasuresLike = "official",
    *,
    settings: EvaluationOptions | None = None,
) -> Iterator[Evaluation]:
    """Evaluate runs one after another, topic by topic, with one file in memory at a time.

    Parameters
    ----------
    qrels : path-like, or others
        Judgments: a file, a frame, named rows or a dictionary; see `lmtune.io.frames`.
    runs : path-like, or others; an iterable of these; or a mapping of names to these
        Runs in the same forms; `lmtune.io.columns.read_run_columns` reads files.
    measures : str, Measure, MeasureKind, an object of ir_measures, or an iterable of these
        Measures or their names in trec_eval or ir_measures; see `parse_families`.
    settings : EvaluationOptions, optional
        Topics in the means, relevant gains, depth and version.

    Yields
    ------
    Evaluation
        One per run.

    Raises
    ------
    InputError
        If a measure is unknown, a file cannot be read, or a run has no judged topic.
    """
    settings = for_judgments(settings, qrels)
    check(settings)
    families = parse_families(measures, settings.version)
    reads = needed_besides_gains(families)
    if reads == STRATA and settings.judged_only:
        accepted = "no --judged-only, or other measures"
        raise InputError("estimates from sampled judgments need the unjudged documents", accepted=accepted)
    judgments = as_judgments(qrels, settings.topics, reads)
    for file, run in read_runs(runs, judgments, settings):
        evaluation = evaluate_run(judgments, run, families, settings, file=file)
        del run  # free memory before the next run is read
        yield evaluation


def evaluate_by_each(
    judgment_sets: Sequence[Judgments], runs: RunsLike, measures: Sequence[str]
) -> Iterator[list[Evaluation]]:
    """Evaluate each run with several sets of judgments; topics missing from the run count 0."""
    families, settings = parse_families(measures), EvaluationOptions(complete=True)
    for file, run in read_runs(runs, judgment_sets[0], settings):
        yield [evaluate_run(judgments, run, families, settings, file=file) for judgments in judgment_sets]


def needed_besides_gains(families: Sequence[Family]) -> str | None:
    """Return what the measures need from judgments besides gains: `STRATA`, `SUBTOPICS` or None.

    Measures of subtopics can only be combined with each other and with Judged.
    """
    reads = {family.labels[0]: family.reads for family in families}
    diverse = next((label for label, needed in reads.items() if needed == SUBTOPICS), None)
    for label, needed in reads.items():
        if diverse is not None and needed != SUBTOPICS and label.partition("@")[0] != "Judged":
            raise InputError(
                f"{diverse} reads judgments of subtopics, {label} does not", accepted="one kind at a time"
            )
    return next(filter(None, reads.values()), None)


def read_runs(
    runs: RunsLike, judgments: Judgments, settings: EvaluationOptions
) -> Iterator[tuple[str, RunColumns]]:
    """Yield each run's file and its columns for the selected topics; runs as for `evaluations`."""
    for name, source in _named(runs):
        file = os.fspath(source) if isinstance(source, _PATH) else name
        run = _columns_of(name, source, settings)
        if isinstance(runs, Mapping):
            run = run._replace(tag=name)
        if settings.topics is not None:
            topics = {topic: ranked for topic, ranked in run.topics.items() if topic in judgments}
            run = run._replace(topics=topics)
            if not run.topics:
                raise InputError("the run has none of the topics", file=file, value=settings.topics)
        if settings.exclude_self:
            run = run._replace(topics=dict(_without_self(run.topics)))
            if not run.topics:
                raise InputError("the run has only each topic's own document, which is excluded", file=file)
        yield file, run
        del run


def _without_self(
    topics: Mapping[bytes, tuple[Sequence[bytes], Sequence[float]]],
) -> Iterator[tuple[bytes, tuple[list[bytes], list[float]]]]:
    """Yield topics with their documents, except their own; skip topics without other documents."""
    for topic, (docnos, scores) in topics.items():
        others = [i for i, docno in enumerate(docnos) if docno != topic]
        if others:
            yield topic, ([docnos[i] for i in others], [scores[i] for i in others])


def for_judgments(settings: EvaluationOptions | None, qrels: QrelsLike) -> EvaluationOptions:
    """Return settings with `exclude_self` set, by default from the folder of the judgments."""
    from lmtune.collections.names import excludes_self

    settings = EvaluationOptions() if settings is None else settings
    if settings.exclude_self is not None or not isinstance(qrels, _PATH):
        return settings
    folder = Path(qrels).parent
    excluded = excludes_self(folder.parent if folder.name == "qrels" else folder)
    if excluded:
        note(
            f"{os.fspath(qrels)}: each topic's own document is left out of runs, as usual for this collection"
        )
    return replace(settings, exclude_self=excluded)


def run_names(evaluated: Sequence[Evaluation]) -> list[str]:
    """Return the runs' tags, or their files' names if two runs have the same tag."""
    tags = [evaluation.tag for evaluation in evaluated]
    if len(set(tags)) == len(tags):
        return tags
    files = [as_text(evaluation.file) for evaluation in evaluated]
    stems = [Path(file).name for file in files]
    return stems if len(set(stems)) == len(stems) else files


def as_judgments(qrels: QrelsLike, topics: str | None = None, reads: str | None = None) -> Judgments:
    """Convert judgments in any form that `evaluations` accepts, for the selected topics."""
    if isinstance(qrels, _PATH):
        return _selected(read_judgments(qrels, reads), topics)
    from lmtune.io.frames import as_qrels

    rows = as_qrels(qrels)
    if not rows:
        raise InputError("no judgments", accepted="one judgment or more")
    judgments = {
        topic.encode(): {docno.encode(): gain for docno, gain in judged.items()}
        for topic, judged in rows.items()
    }
    return _selected(judgments, topics)


def _named(runs: RunsLike) -> Iterable[tuple[str, Any]]:
    """Return names and sources of runs; paths do not need the import of `lmtune.io.frames`."""
    listed = [runs] if isinstance(runs, _PATH) else runs
    if isinstance(listed, list | tuple) and all(isinstance(run, _PATH) for run in listed):
        return [(os.fspath(run), run) for run in listed]
    from lmtune.io.frames import named_runs

    return named_runs(runs)


def _columns_of(name: str, run: Any, settings: EvaluationOptions) -> RunColumns:
    """Read a run's file, or convert a run that is in memory."""
    if isinstance(run, _PATH):
        return read_run_columns(run, lenient=settings.lenient, like_trec_eval=True)
    if isinstance(run, RunColumns):
        return run
    from lmtune.io.frames import as_run

    topics = {
        topic.encode(): ([docno.encode() for docno in scores], list(scores.values()))
        for topic, scores in as_run(run, name=name).items()
    }
    return RunColumns(name, topics, {})


def _selected(judgments: Judgments, spec: str | None) -> Judgments:
    """Return the judgments of the topics in `spec`; of all topics if it is None."""
    if spec is None:
        return judgments
    from lmtune.collections.folds import select_topics

    chosen = select_topics(spec, [topic.decode() for topic in judgments])
    return {topic.encode(): judgments[topic.encode()] for topic in chosen}


def evaluate_run(
    judgments: Judgments,
    run: RunColumns,
    families: Sequence[Family],
    settings: EvaluationOptions,
    *,
    file: str,
) -> Evaluation:
    """Evaluate one run that is in memory; see `evaluations`."""
    retrieved = judgments.keys() & run.topics.keys()
    if not retrieved:
        raise InputError(
            "no topic of the run has judgments",
            file=file,
            value=next(iter(run.topics)).decode(),
            accepted=f"topics of the judgments, such as {next(iter(judgments)).decode()}",
        )
    topics = sorted(judgments if settings.complete else retrieved)
    double = settings.version == VERSIONS[1]
    rankings = {topic: trec_eval_order(*run.topics[topic], double=double) for topic in retrieved}
    nothing = [b""] if double else []  # 10.0 ranks one unjudged document for a missing topic
    largest = max(max(gains.values(), default=0) for gains in judgments.values())
    judged = [
        judge(
            rankings.get(topic, nothing),
            judgments[topic],
            level=settings.level,
            depth=settings.depth,
            judged_only=settings.judged_only,
            documents=settings.documents,
            largest=largest,
        )
        for topic in topics
    ]
    present = [topic in retrieved for topic in topics]
    columns = _trec_eval_columns(families, judged, present, settings, run.tag)
    others = {family.labels[0]: family.summary for family in families if family.values is None}
    if others:
        counted = {
            topic: _counted_documents(rankings[topic], judgments[topic], settings) for topic in rankings
        }
        for label, floats in _from_ir_measures(judgments, counted, topics, [*others]).items():
            values = tuple(map(int, floats)) if others[label] is Summary.SUM else floats
            columns.append(MeasureColumn(label, others[label], values, _summarise(values, others[label])))
    return Evaluation(
        file=file,
        tag=run.tag,
        topics=tuple(topic.decode() for topic in topics),
        retrieved=frozenset(topic.decode() for topic in retrieved),
        missed=tuple(topic.decode() for topic in sorted(judgments.keys() - retrieved)),
        unjudged=len(run.topics) - len(retrieved),
        columns=tuple(columns),
        passed=run.passed,
        version=settings.version,
        reversed_ranks=run.reversed_ranks,
    )


def _from_ir_measures(
    judgments: Judgments,
    rankings: Mapping[bytes, Sequence[bytes]],
    topics: Sequence[bytes],
    names: Sequence[str],
) -> dict[str, tuple[float, ...]]:
    """Compute measures with ir_measures; return one value per topic by name, 0 if it returns none."""
    judged = {
        topic.decode(): {docno.decode(): gain for docno, gain in judgments[topic].items()} for topic in topics
    }
    ranked = {topic.decode(): list(map(bytes.decode, docnos)) for topic, docnos in rankings.items()}
    subtopics = {
        topic.decode(): {
            (subtopic.decode(), docno.decode()): gain
            for (subtopic, docno), gain in judged_topic.by_subtopic.items()
        }
        for topic in topics
        if isinstance(judged_topic := judgments[topic], SubtopicJudgments)
    }
    values = {name: dict.fromkeys(judged, 0.0) for name in names}
    for topic, name, value in values_by_topic(names, judged, ranked, subtopics):
        values[name][topic] = value
    return {name: tuple(by_topic.values()) for name, by_topic in values.items()}


def topic_values(
    qrels: QrelsLike, run: RunLike, measures: MeasuresLike, *, complete: bool = True
) -> pd.DataFrame:
    """Evaluate one run topic by topic.

    Parameters
    ----------
    qrels, run, measures
        As for `evaluations`; each measure must have a number for each topic.
    complete : bool
        Include all judged topics, with 0 for those missing from the run; otherwise only the run's.

    Returns
    -------
    pandas.DataFrame
        One row per topic, sorted by bytes. Columns are in the order of the names; a name with several
        cutoffs has one column for each, in ascending order.

    Raises
    ------
    InputError
        As for `evaluations`, or if a measure has no number for each topic.
    """
    names = split_names(measures)
    (evaluation,) = evaluations(qrels, run, names, settings=EvaluationOptions(complete=complete))
    for column in evaluation.columns:
        if column.summary in (Summary.NONE, Summary.RUN):
            raise InputError("not a number of each topic", value=column.label, accepted="such as map")
    order = dict.fromkeys(
        label for name in names for family in parse_families(name) for label in family.labels
    )
    values = {label: list(map(float, evaluation.column(label).values)) for label in order}
    return data_frame(values, index=evaluation.topics).rename_axis("topic")


def _trec_eval_columns(
    families: Sequence[Family],
    judged: list[JudgedRanking],
    present: list[bool],
    settings: EvaluationOptions,
    tag: str,
) -> list[MeasureColumn]:
    """Compute the columns of the measures that ir_measures does not compute.

    Parameters
    ----------
    families : sequence of Family
        The measures; those without `values` are skipped.
    judged : list of JudgedRanking
        Each topic's ranking with gains, in the order of the columns' values.
    present : list of bool
        Whether the run has documents for each topic.
    settings : EvaluationOptions
        The version of trec_eval, and whether all judged topics count.
    tag : str
        The run's tag, the value of ``runid``.
    """
    by_level = {judged[0].level: judged}
    columns = []
    for family in families:
        if family.values is None:
            continue
        level = family.level or judged[0].level
        if level not in by_level:
            by_level[level] = [ranking.at_level(level) for ranking in judged]
        if family.summary is Summary.RUN:
            value = tag if family.labels == ("runid",) else len(judged)
            columns.append(MeasureColumn(family.labels[0], family.summary, (), value))
            continue
        rows = [family.values(ranking) for ranking in by_level[level]]
        for label, values in zip(family.labels, zip(*rows, strict=True), strict=True):
            completed = tuple(
                value if is_present else _value_of_missing(label, value, settings.version)
                for value, is_present in zip(values, present, strict=True)
            )
            mean = _summarise(completed, family.summary)
            if label == "num_rel" and settings.complete:  # trec_eval ignores the level here
                mean = sum(count for of in judged for gain, count in of.judged.items() if gain > 0)
            columns.append(MeasureColumn(label, family.summary, completed, mean))
    return columns


def _value_of_missing(label: str, value: Value, version: str) -> Value:
    """Return the value of a topic that is missing from the run: 0, with trec_eval's exceptions."""
    if label == "num_rel":
        return value
    # 10.0 measures a ranking of one unjudged document, and then resets only these measures to 0.
    if version == VERSIONS[1] and label not in _RESET_TO_ZERO and not label.startswith("unj"):
        return value
    return "''" if isinstance(value, str) else type(value)()


def _summarise(values: tuple[Value, ...], summary: Summary) -> Value | None:
    if summary is Summary.NONE:
        return None
    if summary is Summary.SUM:
        return sum(int(value) for value in values)
    if summary is Summary.GEOMETRIC:
        logarithms = [math.log(max(float(value), _SMALLEST_GEOMETRIC)) for value in values]
        return math.exp(_mean(logarithms))
    return _mean([float(value) for value in values])


def _mean(values: Iterable[float]) -> float:
    # Like trec_eval, and unlike sum() of newer Pythons, without compensation of rounding errors.
    total, count = 0.0, 0
    for value in values:
        total += value
        count += 1
    return total / count


def _counted_documents(
    docnos: list[bytes], judgments: Mapping[bytes, int], settings: EvaluationOptions
) -> list[bytes]:
    """Return the ranked documents that count: the first `depth`, and only judged ones with `judged_only`."""
    counted = docnos if settings.depth is None else docnos[: settings.depth]
    if settings.judged_only:
        counted = [docno for docno in counted if judgments.get(docno, -1) >= 0]
    return counted
