"""Compare run files with a baseline's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lmtune.errors import InputError, as_text
from lmtune.measures.from_files import EvaluationOptions, Judgements, evaluate
from lmtune.measures.measure import parse_measures
from lmtune.measures.significance.comparison import compare
from lmtune.measures.significance.contrasts import Comparison
from lmtune.measures.significance.options import ComparisonOptions
from lmtune.progress import Progress, note, silent

_COMPRESSED = (".gz", ".bz2", ".zst")
_RUN_SUFFIXES = (".run", ".txt", ".trec", ".res")


def compare_files(
    qrels: Path | Judgements,
    runs: Sequence[Path],
    measures: Sequence[str],
    options: ComparisonOptions | None = None,
    *,
    only: str | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Compare runs topic by topic; a judged topic that a run misses counts 0.

    Parameters
    ----------
    qrels : path, or mapping of bytes to mapping of bytes to int
        Judgements, as `lmtune.measures.from_files.evaluate` takes them.
    runs : sequence of path
        The baseline, then the others; one that is given again is left out.
    measures : sequence of str
        See `lmtune.measures.measure.parse_measures`.
    options : ComparisonOptions, optional
        Tests, correction, confidence and the rest.
    only : str, optional
        The judged topics that count, as `lmtune.datasets.selection.select_topics` reads them.
    progress : Progress
        Called after each run.

    Raises
    ------
    InputError
        For unknown names, files that cannot be read, fewer than two judged topics.
    """
    options = ComparisonOptions() if options is None else options
    options.check()
    labels = [str(measure) for measure in parse_measures(measures)]
    runs = _different(runs)
    names = run_labels(runs)
    values = []
    topics: tuple[str, ...] = ()
    settings = EvaluationOptions(complete=True, topics=only)
    for name, found in zip(names, evaluate(qrels, runs, labels, settings=settings), strict=True):
        topics = found.topics
        if len(topics) < 2:
            raise InputError(
                "a comparison needs two topics or more",
                file=None if isinstance(qrels, Mapping) else qrels,
                value=list(topics),
                accepted="judgements of two topics or more",
            )
        values.append(np.array([column.values for column in found.columns], np.float64).T)
        progress("reading runs", len(values), len(runs), name)
        missed = len(topics) - len(found.retrieved)
        if missed:
            note(f"{name} misses {missed} of {len(topics)} judged topics: 0")
    others = dict(zip(names[1:], values[1:], strict=True))
    return compare(values[0], others, options, baseline=names[0], measures=labels, topics=topics)


def _different(runs: Sequence[Path]) -> list[Path]:
    """Leave out runs that are given again: a test of a run against itself only weakens the others."""
    kept: dict[Path, Path] = {}
    for path in runs:
        if path.resolve() in kept:
            note(f"{path} is given again: left out, and not counted by the correction")
        kept.setdefault(path.resolve(), path)
    return list(kept.values())


def run_labels(paths: Sequence[Path]) -> list[str]:
    """Name runs, each of another path, after their files, with as much of the path as tells them apart.

    Examples
    --------
    >>> run_labels([Path("x.run.gz"), Path("y.run"), Path("y.txt"), Path("a/z"), Path("b/z")])
    ['x', 'y.run', 'y.txt', 'a/z', 'b/z']
    """
    ladders = [_ladder(path) for path in paths]
    steps = [0] * len(ladders)
    while True:
        names = [ladder[step] for ladder, step in zip(ladders, steps, strict=True)]
        short = [
            place
            for place, name in enumerate(names)
            if names.count(name) > 1 and steps[place] + 1 < len(ladders[place])
        ]
        if not short:
            return names
        for place in short:
            steps[place] += 1


def _ladder(path: Path) -> list[str]:
    """List a file's possible names, from the shortest to the whole path."""
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    shortest = plain.stem if plain.suffix.lower() in _RUN_SUFFIXES else plain.name
    parts = path.parts
    longer = (Path(*parts[-depth:]).as_posix() for depth in range(1, len(parts) + 1))
    return [as_text(name) for name in (shortest, *longer)]
