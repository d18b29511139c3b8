"""What `evaluate` computes, by trec_eval's and ir_measures' names, and what only ir_measures computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lmtune.errors import InputError
from lmtune.io.qrels import SubtopicJudgements
from lmtune.measures.ir_measures_bridge import is_sum, values_by_topic
from lmtune.measures.measure import ACCEPTED as MEASURE_NAMES
from lmtune.measures.measure import Measure, MeasuresLike, parse_measure, split_names
from lmtune.measures.trec_names import (
    NICKNAMES,
    VERSIONS,
    Family,
    ParameterError,
    Summary,
    families,
    members,
    split_name,
)


def from_ir_measures(
    judgements: Mapping[bytes, Mapping[bytes, int]],
    rankings: Mapping[bytes, Sequence[bytes]],
    topics: Sequence[bytes],
    names: Sequence[str],
) -> dict[str, tuple[float, ...]]:
    """Measure rankings with ir_measures.

    Parameters
    ----------
    judgements : mapping of bytes to mapping of bytes to int
        Gains by topic and docno.
    rankings : mapping of bytes to sequence of bytes
        Docnos by topic, best first.
    topics : sequence of bytes
        The topics to measure.
    names : sequence of str
        Measures as ir_measures spells them.

    Returns
    -------
    dict of str to tuple of float
        By name, one value a topic; 0 where ir_measures gives none.
    """
    judged = {
        topic.decode(): {docno.decode(): gain for docno, gain in judgements[topic].items()}
        for topic in topics
    }
    ranked = {topic.decode(): list(map(bytes.decode, docnos)) for topic, docnos in rankings.items()}
    subtopics = {
        topic.decode(): {
            (own.decode(), docno.decode()): gain for (own, docno), gain in found.by_subtopic.items()
        }
        for topic in topics
        if isinstance(found := judgements[topic], SubtopicJudgements)
    }
    values = {name: dict.fromkeys(judged, 0.0) for name in names}
    for topic, name, value in values_by_topic(names, judged, ranked, subtopics):
        values[name][topic] = value
    return {name: tuple(found.values()) for name, found in values.items()}


ACCEPTED = (
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
        raise InputError("no measures", accepted=ACCEPTED)
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
                error.accepted = error.accepted.replace(MEASURE_NAMES, ACCEPTED)
            wrong.append(error)
    if wrong:
        if len(wrong) == 1 or "unknown" not in wrong[0].message:
            raise wrong[0]
        raise InputError("unknown measures", value=[error.value for error in wrong], accepted=ACCEPTED)
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
