"""What `evaluate` computes, by trec_eval's and ir_measures' names, and what only ir_measures computes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lmtune.errors import InputError
from lmtune.measures.measure import Measure, parse_measure, perhaps_measure, split_names
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
    import ir_measures

    measures = {ir_measures.parse_measure(name): name for name in names}
    qrels = {
        topic.decode(): {docno.decode(): gain for docno, gain in judgements[topic].items()}
        for topic in topics
    }
    # The order stands; scores only say it again, without ties and exact in 32 bits.
    run = {
        topic.decode(): {docno.decode(): float(-rank) for rank, docno in enumerate(docnos)}
        for topic, docnos in rankings.items()
        if docnos
    }
    place = {topic.decode(): t for t, topic in enumerate(topics)}
    values = {name: [0.0] * len(topics) for name in names}
    for value in calculated(list(measures), qrels, run):
        values[measures[value.measure]][place[value.query_id]] = float(value.value)
    return {name: tuple(found) for name, found in values.items()}


def calculated(
    measures: Sequence[Any], qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]]
) -> Iterator[Any]:
    """Yield ir_measures' values of topics.

    Raises
    ------
    InputError
        Where one of the programs behind it fails, as some do on gains that they do not expect.
    """
    import ir_measures

    try:
        yield from ir_measures.iter_calc(measures, qrels, run)
    except (ArithmeticError, AssertionError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        raise InputError(
            f"ir_measures cannot compute the measures ({type(error).__name__}: {error})",
            value=[str(measure) for measure in measures],
            accepted="judgements and parameters that they are made for",
        ) from error


ACCEPTED = (
    "official, all_trec, set, trec_eval's names with parameters (map, P.5,10, ndcg_cut_20, "
    "iprec_at_recall.0.1), ir_measures' (AP, nDCG@10, 'AP(rel=2)@100')"
)


def parse_families(given: object, version: str = VERSIONS[0]) -> tuple[Family, ...]:
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
            accepted = perhaps_measure(name, ACCEPTED) if "unknown" in error.message else ACCEPTED
            wrong.append(InputError(error.message, value=name, accepted=accepted))
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
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
        return Family((str(measure),), None)
    strata = measure.declared.needs_strata
    return Family(
        (str(measure),), lambda ranking: (value(ranking, measure),), Summary.MEAN, measure.rel, strata
    )
