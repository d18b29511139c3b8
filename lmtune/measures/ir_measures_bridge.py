"""Measures that ir_measures computes: names, requirements and values."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lmtune.errors import InputError, MissingExtraError
from lmtune.io.rows import Qrels

_LARGEST_GAIN = 1_000_000  # pytrec_eval allocates eight bytes for each gain up to the largest
_EXTRAS = {"pyndeval": "diversity"}
_PACKAGES = {"cwl_eval": "cwl-eval"}
_EXAMPLES = {"cutoff": 10, "max_rel": 3, "recall": 0.1}
# pyndeval needs a cutoff for these.
_NEED_CUTOFF = ("ERR_IA", "nERR_IA", "alpha_DCG", "alpha_nDCG", "P_IA", "StRecall")

_Subtopics = Mapping[str, Mapping[tuple[str, str], int]]


def find_measure(name: str) -> Any | None:
    """Return the measure of ir_measures with this name there or in trec_eval; None if there is none.

    Raises
    ------
    InputError
        If parameters are missing or wrong, or the measure needs a package that is not installed.
    """
    import ir_measures

    parsed = []
    # The parsers raise various exceptions for unknown names.
    with contextlib.suppress(Exception):
        parsed = ir_measures.parse_trec_measure(name)
    with contextlib.suppress(Exception):
        parsed = parsed or [ir_measures.parse_measure(name)]
    if len(parsed) != 1:
        return None
    _check_parameters(parsed[0], name)
    _check_provider(parsed[0], name)
    return parsed[0]


def needs_subtopics(measure: Any) -> bool:
    """Return whether a measure of ir_measures needs judgments with subtopics."""
    import ir_measures

    return any(measure.NAME == known.NAME for known in ir_measures.pyndeval.SUPPORTED_MEASURES)


def is_sum(name: str) -> bool:
    """Return whether ir_measures sums the measure over topics, as it does for counts."""
    import ir_measures

    return isinstance(ir_measures.parse_measure(name).aggregator(), ir_measures.SumAgg)


def values_by_topic(
    names: Sequence[str],
    judgments: Qrels,
    rankings: Mapping[str, Sequence[str]],
    subtopics: _Subtopics | None = None,
) -> Iterator[tuple[str, str, float]]:
    """Compute measures with ir_measures.

    Parameters
    ----------
    names : sequence of str
        Names of measures in ir_measures.
    judgments : mapping of str to mapping of str to int
        Gains by topic and docno.
    rankings : mapping of str to sequence of str
        Docnos by topic, best first.
    subtopics : mapping of str to mapping of (str, str) to int, optional
        Gains by topic, then by subtopic and docno, for diversity measures.

    Yields
    ------
    tuple of str, str and float
        A topic, a name and a value; nothing if ir_measures returns no value.

    Raises
    ------
    InputError
        If a gain is too large, subtopics are missing, or the computation in ir_measures fails.
    """
    import ir_measures

    measures = {ir_measures.parse_measure(name): name for name in names}
    _check_gains(judgments, names)
    qrels: Any = (
        _diverse_qrels(subtopics or {}, names)
        if any(map(needs_subtopics, measures))
        # trec_eval treats all negative gains alike; pytrec_eval crashes if all are below -1.
        else {
            topic: {docno: max(gain, -1) for docno, gain in gains.items()}
            for topic, gains in judgments.items()
        }
    )
    # Distinct positive scores that reproduce the order; Compat scores missing documents 0.
    run = {
        topic: {docno: float(len(docnos) - place) for place, docno in enumerate(docnos)}
        for topic, docnos in rankings.items()
        if docnos
    }
    try:
        for value in ir_measures.iter_calc(list(measures), qrels, run):
            yield value.query_id, measures[value.measure], float(value.value)
    except (ArithmeticError, AssertionError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        raise InputError(
            f"ir_measures cannot compute the measures ({type(error).__name__}: {error})",
            value=[*names],
            accepted="judgments and parameters that the measures support",
        ) from error


def _check_gains(judgments: Qrels, names: Sequence[str]) -> None:
    largest = max((gain for gains in judgments.values() for gain in gains.values()), default=0)
    if largest > _LARGEST_GAIN:
        raise InputError(
            f"a gain is too large for {', '.join(names)}",
            value=largest,
            accepted=f"gains up to {_LARGEST_GAIN:,}",
        )


def _diverse_qrels(subtopics: _Subtopics, names: Sequence[str]) -> list[Any]:
    """Convert judgments of subtopics to ir_measures' records; raise InputError if there are none."""
    import ir_measures

    rows = [
        ir_measures.Qrel(topic, docno, gain, subtopic)
        for topic, gains in subtopics.items()
        for (subtopic, docno), gain in gains.items()
    ]
    if len({(row.query_id, row.iteration) for row in rows}) <= len(subtopics):
        raise InputError(
            f"the judgments have no subtopics for {', '.join(names)}",
            accepted="with `evaluate` and `compare`, a file with the subtopic in column 2",
        )
    return rows


def _check_parameters(measure: Any, name: str) -> None:
    missing = [
        key
        for key, info in measure.SUPPORTED_PARAMS.items()
        if (info.required or (measure.NAME in _NEED_CUTOFF and key == "cutoff")) and key not in measure.params
    ]
    if missing:
        example = measure(**{key: _EXAMPLES[key] for key in missing})
        raise InputError(
            f"the measure needs {' and '.join(missing)}", value=name, accepted=f"such as {example}"
        )
    try:
        measure.validate_params()
    except AssertionError as error:
        known = ", ".join(measure.SUPPORTED_PARAMS) or "none"
        raise InputError(
            f"wrong parameters of the measure ({error})", value=name, accepted=f"parameters: {known}"
        ) from None


def _check_provider(measure: Any, name: str) -> None:
    """Raise InputError unless an installed package computes the measure."""
    import ir_measures

    pipeline: Any = ir_measures.DefaultPipeline
    if pipeline.supports(measure):
        return
    for provider in pipeline.providers:
        if provider.supports(measure) and provider.NAME in _EXTRAS:
            raise MissingExtraError(str(measure), _EXTRAS[provider.NAME])
        if provider.supports(measure) and provider.NAME in _PACKAGES:
            package = _PACKAGES[provider.NAME]
            raise InputError(
                f"the measure needs {package}, which is not installed",
                value=name,
                accepted=f"pip install {package}",
            )
    raise InputError("ir_measures does not compute the measure with these parameters", value=name)
