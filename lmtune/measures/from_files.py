"""Evaluate run files against a judgments file, as trec_eval does; without numpy, for speed."""

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
from lmtune.showing import Shown

if TYPE_CHECKING:
    import pandas as pd


_ACCEPTED = (
    "official, all_trec, set, trec_eval's names with parameters (map, P.5,10, ndcg_cut_20, "
    "iprec_at_recall.0.1), ir_measures' (AP, nDCG@10, 'AP(rel=2)@100')"
)


def parse_families(given: MeasuresLike, version: str = VERSIONS[0]) -> tuple[Family, ...]:
    """Read names of measures.

    Parameters
    ----------
    given : str, Measure, MeasureKind, an object of ir_measures, or an iterable of these
        trec_eval's names, with parameters behind a dot or an underscore, and its nicknames
        ``official``, ``all_trec`` and ``set``; or ir_measures' names. A text may hold several,
        with blanks or commas between.
    version : str
        trec_eval's, one of `lmtune.measures.trec_names.VERSIONS`.

    Returns
    -------
    tuple of Family
        trec_eval's measures in its order, then the others as they are named; those that
        ir_measures computes last.

    Raises
    ------
    InputError
        One that lists all names that are unknown, or have parameters that they cannot have.
    """
    names = split_names(given)
    if not names:
        raise InputError("no measures", accepted=_ACCEPTED)
    trec: list[tuple[str, str]] = []
    own: list[Measure] = []
    wrong: list[InputError] = []
    for name in names:
        try:
            if not isinstance(name, str):
                own.append(parse_measure(name))
            elif name in NICKNAMES:
                trec += [(family, "") for family in members(name, version)]
            elif (split := split_name(name)) is not None:
                families([split])
                trec.append(split)
            else:
                own.append(parse_measure(name))
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
        raise InputError("measures that do not go together", value=names, accepted=str(error)) from None
    unique = sorted(dict.fromkeys(own), key=lambda measure: measure.declared.value is None)
    return (*made, *(_family(measure) for measure in unique))


def _family(measure: Measure) -> Family:
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
_SMALLEST_GEOMETRIC = 1e-5  # what trec_eval takes for smaller values in a geometric mean
_TAKEN_BACK = ("num_ret", "utility", "relstring", "rbp_resid")


class MeasureColumn(NamedTuple):
    """One measure of one run.

    Attributes
    ----------
    label : str
        The measure's name.
    summary : Summary
        How `mean` comes from `values`.
    values : tuple of float, int or str
        One a topic; empty for what only the run has (``runid``, ``num_q``).
    mean : float, int, str or None
        The run's value: a mean, for counts the sum, for gm_map the geometric mean; None for
        ``relstring``.
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
        Its last line's tag.
    topics : tuple of str
        The topics averaged over, sorted as trec_eval sorts them (by bytes).
    retrieved : frozenset of str
        Those of `topics` that the run has documents for. The others' values are 0.
    missed : tuple of str
        The judged topics that the run has no documents for, averaged over or not.
    unjudged : int
        The number of topics in the run that have no judgments; they play no part.
    columns : tuple of MeasureColumn
        The measures, in the order of the output.
    passed : mapping of str to int
        Numbers of lines that were skipped or let pass, by kind.
    version : str
        trec_eval's, which the values agree with.
    reversed_ranks : bool
        Whether the run's scores rise with its ranks, as distances do.
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
        """Yield places and names of the topics that trec_eval prints one by one."""
        for place, topic in enumerate(self.topics):
            if topic in self.retrieved or self.version == VERSIONS[1]:
                yield place, topic

    def column(self, label: str) -> MeasureColumn:
        """Return the column of a measure by its label."""
        for column in self.columns:
            if column.label == label:
                return column
        raise KeyError(label)


@dataclass(frozen=True)
class EvaluationOptions:
    """How runs are evaluated.

    Attributes
    ----------
    complete : bool
        Average over all judged topics, so that a topic which the run misses counts as 0; else
        over those that the run has, as trec_eval does.
    level : int
        The smallest gain that is relevant to measures with trec_eval's names; ir_measures' names
        say it themselves, ``AP(rel=2)``.
    depth : int or None
        Drop documents ranked below it.
    judged_only : bool
        Drop documents without judgments before anything else (where none is left trec_eval
        prints nan; here it is 0).
    documents : int
        The size of the collection, for what ``utility`` has from documents not retrieved.
    version : {"9.0.8", "10.0"}
        The trec_eval to agree with.
    lenient : bool
        Skip bad lines of runs.
    exclude_self : bool or None
        Whether each topic's own document, whose docno is the topic's identifier, is left out of runs; None
        as `lmtune.collections.names.excludes_self` says of the folder that the judgments are in.
    topics : str or None
        The judged topics that count, as `lmtune.collections.folds.select_topics` reads them; the
        runs' others are as if they were not there.
    """

    complete: bool = usual(
        False, "Average over all judged topics; one that the run misses counts 0.", flag="--complete -c"
    )
    level: int = usual(1, "The smallest relevant gain, for trec_eval's names.", low=0, flag="--level -l")
    depth: int | None = usual(None, "Documents of a topic that count.", low=1, flag="--depth -M")
    judged_only: bool = option(False, "Drop documents without judgments.", flag="--judged-only -J")
    documents: int = option(
        0, "Documents in the collection, for utility's fourth weight.", low=0, flag="--documents -N"
    )
    version: str = usual(
        VERSIONS[0], "The version to agree with, 9.0.8 or 10.0.", flag="--trec-eval", choices=VERSIONS
    )
    lenient: bool = option(False, "Skip bad lines of runs, and count them.")
    exclude_self: bool | None = option(
        None,
        "Leave out of runs each topic's own document, whose docno is the topic's identifier; default: with "
        "judgments in a folder of BEIR's ArguAna or Quora.",
    )
    topics: str | None = usual(None, "Of the judged topics these alone: 401-450, a list 51,52 or @FILE.")


def evaluate(
    qrels: QrelsLike,
    runs: RunsLike,
    measures: MeasuresLike = "official",
    *,
    settings: EvaluationOptions | None = None,
) -> pd.DataFrame:
    """Evaluate runs: a row for each run.

    Parameters
    ----------
    qrels, runs, measures, settings
        As for `evaluations`.

    Returns
    -------
    pandas.DataFrame
        Means (of counts the sums), a column for each measure, by the runs' names: those given, or
        files' tags as `run_names` has them. Topics' values are what `topic_values` returns.

    Raises
    ------
    InputError
        As `evaluations`.

    Examples
    --------
    >>> print(evaluate({"1": {"a": 1}}, {"mine": {"1": {"b": 2.0, "a": 1.0}}}, ["AP", "P@1"]))
           AP  P@1
    run
    mine  0.5  0.0
    """
    import pandas as pd

    found = list(evaluations(qrels, runs, measures, settings=settings))
    rows = [{own.label: own.mean for own in one.columns if own.mean is not None} for one in found]
    return pd.DataFrame(rows, index=pd.Index(run_names(found), name="run"))


def evaluations(
    qrels: QrelsLike,
    runs: RunsLike,
    measures: MeasuresLike = "official",
    *,
    settings: EvaluationOptions | None = None,
) -> Iterator[Evaluation]:
    """Evaluate runs one after another, one file in memory at a time: `evaluate` in full.

    Parameters
    ----------
    qrels : path-like, or others
        Judgments; a file, a frame, named rows, a dictionary, as `lmtune.io.frames` has it.
    runs : path-like, or others; an iterable of these; or a mapping of names to these
        Runs, likewise; files are read by `lmtune.io.columns.read_run_columns`.
    measures : str, Measure, MeasureKind, an object of ir_measures, or an iterable of these
        Names as trec_eval or ir_measures spell them; see `parse_families`.
    settings : EvaluationOptions, optional
        Topics averaged over, relevant gains, depth, version.

    Yields
    ------
    Evaluation
        One a run.

    Raises
    ------
    InputError
        For unknown measures, files that cannot be read, and a run without a judged topic.
    """
    settings = for_judgments(settings, qrels)
    check(settings)
    families = parse_families(measures, settings.version)
    reads = _read_beside_gains(families)
    if reads == STRATA and settings.judged_only:
        raise InputError(
            "estimates from a sample of the pool, which judged-only drops", accepted="one of the two"
        )
    judgments = as_judgments(qrels, settings.topics, reads)
    for file, run in read_runs(runs, judgments, settings):
        found = evaluate_run(judgments, run, families, settings, file=file)
        del run  # before the next one is read
        yield found


def evaluate_by_each(
    judgment_sets: Sequence[Judgments], runs: RunsLike, measures: Sequence[str]
) -> Iterator[list[Evaluation]]:
    """Evaluate each run by several sets of judgments; topics that it misses count 0."""
    families, settings = parse_families(measures), EvaluationOptions(complete=True)
    for file, run in read_runs(runs, judgment_sets[0], settings):
        yield [evaluate_run(own, run, families, settings, file=file) for own in judgment_sets]


def _read_beside_gains(families: Sequence[Family]) -> str | None:
    """Return what measures read of judgments beside gains; subtopics only by themselves, and Judged."""
    reads = {family.labels[0]: family.reads for family in families}
    diverse = next((label for label, own in reads.items() if own == SUBTOPICS), None)
    for label, own in reads.items():
        if diverse is not None and own != SUBTOPICS and label.partition("@")[0] != "Judged":
            raise InputError(
                f"{diverse} reads judgments of subtopics, {label} does not", accepted="one kind at a time"
            )
    return next(filter(None, reads.values()), None)


def read_runs(
    runs: RunsLike, judgments: Judgments, settings: EvaluationOptions
) -> Iterator[tuple[str, RunColumns]]:
    """Read the runs that `evaluations` takes one by one, each with its file, of the topics that count."""
    for name, given in _named(runs):
        file = os.fspath(given) if isinstance(given, _PATH) else name
        run = _columns_of(name, given, settings)
        if isinstance(runs, Mapping):
            run = run._replace(tag=name)
        if settings.topics is not None:
            run = run._replace(topics={topic: own for topic, own in run.topics.items() if topic in judgments})
            if not run.topics:
                raise InputError("the run has none of the topics", file=file, value=settings.topics)
        if settings.exclude_self:
            run = run._replace(topics=dict(_without_self(run.topics)))
            if not run.topics:
                raise InputError("the run has no document but each topic's own", file=file)
        yield file, run
        del run


def _without_self(
    topics: Mapping[bytes, tuple[Sequence[bytes], Sequence[float]]],
) -> Iterator[tuple[bytes, tuple[list[bytes], list[float]]]]:
    """Yield the topics that have documents beside their own, with these."""
    for topic, (docnos, scores) in topics.items():
        kept = [at for at, docno in enumerate(docnos) if docno != topic]
        if kept:
            yield topic, ([docnos[at] for at in kept], [scores[at] for at in kept])


def for_judgments(settings: EvaluationOptions | None, qrels: QrelsLike) -> EvaluationOptions:
    """Return settings that say whether topics' own documents are left out, by where judgments are from."""
    from lmtune.collections.names import excludes_self

    settings = EvaluationOptions() if settings is None else settings
    if settings.exclude_self is not None or not isinstance(qrels, _PATH):
        return settings
    folder = Path(qrels).parent
    found = excludes_self(folder.parent if folder.name == "qrels" else folder)
    if found:
        note(
            f"{os.fspath(qrels)}: each topic's own document is left out of runs, as usual for this collection"
        )
    return replace(settings, exclude_self=found)


def run_names(evaluated: Sequence[Evaluation]) -> list[str]:
    """Name runs by their tags, or by their files where a tag comes twice."""
    tags = [evaluation.tag for evaluation in evaluated]
    if len(set(tags)) == len(tags):
        return tags
    files = [as_text(evaluation.file) for evaluation in evaluated]
    stems = [Path(file).name for file in files]
    return stems if len(set(stems)) == len(stems) else files


def as_judgments(qrels: QrelsLike, topics: str | None = None, reads: str | None = None) -> Judgments:
    """Take judgments in any form that `evaluations` takes, of the topics that are asked for."""
    if isinstance(qrels, _PATH):
        return _selected(read_judgments(qrels, reads), topics)
    from lmtune.io.frames import as_qrels

    found = as_qrels(qrels)
    if not found:
        raise InputError("no judgments", accepted="one at least")
    judgments = {
        topic.encode(): {docno.encode(): gain for docno, gain in judged.items()}
        for topic, judged in found.items()
    }
    return _selected(judgments, topics)


def _named(runs: RunsLike) -> Iterable[tuple[str, Any]]:
    """Name the runs; files are known without what reads the rest."""
    listed = [runs] if isinstance(runs, _PATH) else runs
    if isinstance(listed, list | tuple) and all(isinstance(run, _PATH) for run in listed):
        return [(os.fspath(run), run) for run in listed]
    from lmtune.io.frames import named_runs

    return named_runs(runs)


def _columns_of(name: str, run: Any, settings: EvaluationOptions) -> RunColumns:
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
    """Keep the judgments of the topics that are asked for."""
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
    """Evaluate one run that has been read; see `evaluations`."""
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
    nothing = [b""] if double else []  # 10.0 ranks one unjudged document for a topic that is missing
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
    columns = _columns(families, judged, present, settings, run.tag)
    others = {family.labels[0]: family.summary for family in families if family.values is None}
    if others:
        shown = {topic: _kept(rankings[topic], judgments[topic], settings) for topic in rankings}
        for label, values in _from_ir_measures(judgments, shown, topics, [*others]).items():
            kept = tuple(map(int, values)) if others[label] is Summary.SUM else values
            columns.append(MeasureColumn(label, others[label], kept, _sum_up(kept, others[label])))
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
    """Measure rankings with ir_measures: by name, one value a topic; 0 where it gives none."""
    judged = {
        topic.decode(): {docno.decode(): gain for docno, gain in judgments[topic].items()} for topic in topics
    }
    ranked = {topic.decode(): list(map(bytes.decode, docnos)) for topic, docnos in rankings.items()}
    subtopics = {
        topic.decode(): {
            (own.decode(), docno.decode()): gain for (own, docno), gain in found.by_subtopic.items()
        }
        for topic in topics
        if isinstance(found := judgments[topic], SubtopicJudgments)
    }
    values = {name: dict.fromkeys(judged, 0.0) for name in names}
    for topic, name, value in values_by_topic(names, judged, ranked, subtopics):
        values[name][topic] = value
    return {name: tuple(found.values()) for name, found in values.items()}


def topic_values(
    qrels: QrelsLike, run: RunLike, measures: MeasuresLike, *, complete: bool = True
) -> pd.DataFrame:
    """Evaluate one run topic by topic.

    Parameters
    ----------
    qrels, run, measures
        As for `evaluations`; each measure has to be a number of a topic.
    complete : bool
        All judged topics, with 0 where the run misses one; else those that the run has.

    Returns
    -------
    pandas.DataFrame
        A row for each topic, sorted by bytes; columns in the order of the names, of one with several
        cutoffs a column for each, ascending.

    Raises
    ------
    InputError
        As `evaluations`.
    """
    import pandas as pd

    names = split_names(measures)
    (found,) = evaluations(qrels, run, names, settings=EvaluationOptions(complete=complete))
    for column in found.columns:
        if column.summary in (Summary.NONE, Summary.RUN):
            raise InputError("not a number of each topic", value=column.label, accepted="such as map")
    order = dict.fromkeys(
        label for name in names for family in parse_families(name) for label in family.labels
    )
    values = {label: list(map(float, found.column(label).values)) for label in order}
    return pd.DataFrame(values, index=pd.Index(found.topics, name="topic"))


def _columns(
    families: Sequence[Family],
    judged: list[JudgedRanking],
    present: list[bool],
    settings: EvaluationOptions,
    tag: str,
) -> list[MeasureColumn]:
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
            kept = tuple(
                value if is_present else _missed(label, value, settings.version)
                for value, is_present in zip(values, present, strict=True)
            )
            mean = _sum_up(kept, family.summary)
            if label == "num_rel" and settings.complete:  # trec_eval forgets the level
                mean = sum(count for of in judged for gain, count in of.judged.items() if gain > 0)
            columns.append(MeasureColumn(label, family.summary, kept, mean))
    return columns


def _missed(label: str, value: Value, version: str) -> Value:
    """Return the value of a topic that the run misses: 0, as far as trec_eval makes it so."""
    if label == "num_rel":
        return value
    # 10.0 has measured a ranking of one unjudged document, and takes some of what it found back.
    if version == VERSIONS[1] and label not in _TAKEN_BACK and not label.startswith("unj"):
        return value
    return "''" if isinstance(value, str) else type(value)()


def _sum_up(values: tuple[Value, ...], summary: Summary) -> Value | None:
    if summary is Summary.NONE:
        return None
    if summary is Summary.SUM:
        return sum(int(value) for value in values)
    if summary is Summary.GEOMETRIC:
        logarithms = [math.log(max(float(value), _SMALLEST_GEOMETRIC)) for value in values]
        return math.exp(_mean(logarithms))
    return _mean([float(value) for value in values])


def _mean(values: Iterable[float]) -> float:
    # Not sum(), which newer Pythons compensate: trec_eval adds as it goes.
    total, count = 0.0, 0
    for value in values:
        total += value
        count += 1
    return total / count


def _kept(docnos: list[bytes], judgments: Mapping[bytes, int], settings: EvaluationOptions) -> list[bytes]:
    kept = docnos if settings.depth is None else docnos[: settings.depth]
    if settings.judged_only:
        kept = [docno for docno in kept if judgments.get(docno, -1) >= 0]
    return kept
