"""``lmtune compare``: which runs differ from a baseline by more than chance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from lmtune.cli import values
from lmtune.cli.screen import note, stages, utf8_output
from lmtune.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lmtune.measures.significance.sign_patterns import Alternative

_DEFAULT_MEASURES = ["AP", "P@10", "nDCG@10"]


def compare(
    qrels: Annotated[Path, typer.Argument(help="Judgements: TREC's or BEIR's format.")],
    baseline: Annotated[Path, typer.Argument(help="The run to compare with.")],
    runs: Annotated[list[Path], typer.Argument(help="The runs to compare.")],
    measure: Annotated[
        list[str] | None, typer.Option("--measure", "-m", help="As for tune; default AP P@10 nDCG@10.")
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(help="t (default), randomization or wilcoxon; several: the first decides."),
    ] = None,
    correction: Annotated[str, typer.Option(help="holm, bonferroni or none.")] = "holm",
    alternative: Annotated[str, typer.Option(help="two-sided, greater or less.")] = "two-sided",
    confidence: Annotated[
        float, typer.Option(help="Of intervals; 1 - confidence is the significance level.")
    ] = 0.95,
    margin: Annotated[
        float | None, typer.Option(help="A difference that does not matter: also test not worse, equivalent.")
    ] = None,
    pairwise: Annotated[
        bool, typer.Option("--pairwise", help="Compare all pairs, not just with the baseline.")
    ] = False,
    permutations: Annotated[
        int, typer.Option(help="Random sign patterns of the randomization test.")
    ] = 100_000,
    seed: Annotated[int, typer.Option(help="Of the randomization test.")] = 0,
    per_topic: Annotated[
        bool, typer.Option("--per-topic", "-q", help="Add every topic's difference, sorted.")
    ] = False,
    style: Annotated[str, typer.Option("--format", help="table, markdown, latex, csv or json.")] = "table",
) -> None:
    """Compare runs with a baseline, topic by topic; a judged topic that a run misses counts 0."""
    from lmtune.measures.measure import parse_measures
    from lmtune.measures.significance.comparison import compare as compare_values
    from lmtune.measures.significance.options import ComparisonOptions
    from lmtune.reporting.comparison_tables import comparison_table, legend
    from lmtune.reporting.table import STYLES

    if style not in STYLES:
        raise InputError("unknown --format", value=style, accepted=", ".join(STYLES))
    options = ComparisonOptions(
        tests=tuple(test or ["t"]),
        correction=correction,
        alternative=cast("Alternative", alternative),
        confidence=confidence,
        margin=margin,
        pairwise=pairwise,
        permutations=permutations,
        seed=seed,
    )
    options.check()
    measures = [str(m) for m in parse_measures(measure or _DEFAULT_MEASURES)]
    paths = [baseline, *runs]
    names = values.run_labels(paths)
    topics, measured, notes = _read(qrels, paths, names, measures)
    found = compare_values(
        measured[0],
        dict(zip(names[1:], measured[1:], strict=True)),
        options,
        baseline=names[0],
        measures=measures,
        topics=topics,
    )
    with utf8_output() as stream:
        stream.write(comparison_table(found, style, per_topic=per_topic))
    if style in ("csv", "json"):
        note(legend(found))
    for text in (*notes, *found.notes):
        note(text)


def _read(
    qrels: Path, paths: list[Path], names: list[str], measures: list[str]
) -> tuple[tuple[str, ...], NDArray[np.float64], list[str]]:
    """Measure every run on every judged topic; say which topics they miss."""
    import numpy as np

    from lmtune.measures.from_files import evaluate

    out, notes = [], []
    topics: tuple[str, ...] = ()
    with stages() as report:
        for name, found in zip(names, evaluate(qrels, paths, measures), strict=True):
            topics = found.topics
            if len(topics) < 2:
                raise InputError(
                    "a comparison needs two topics or more",
                    file=qrels,
                    value=list(topics),
                    accepted="judgements of two topics or more",
                )
            out.append(np.array([column.values for column in found.columns], np.float64).T)
            report("reading runs", len(out), len(paths), name)
            missed = len(topics) - len(found.retrieved)
            if missed:
                notes.append(f"{name} misses {missed} of {len(topics)} judged topics: 0")
    return topics, np.stack(out), notes
