"""Compare runs with a baseline: files, or whatever `evaluate` takes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lmtune.errors import InputError, PathLike, as_text
from lmtune.io.frames import named_runs
from lmtune.io.given import QrelsLike, RunsLike
from lmtune.measures.from_files import EvaluationOptions, evaluations, for_judgements
from lmtune.measures.measure import MeasuresLike, parse_measures
from lmtune.measures.residual_bounds import JUDGED, check_bounded, difference_bounds
from lmtune.measures.significance.comparison import Comparison, ComparisonOptions, compare
from lmtune.progress import Progress, note, silent

_COMPRESSED = (".gz", ".bz2", ".zst")
_RUN_SUFFIXES = (".run", ".txt", ".trec", ".res")


def compare_runs(
    qrels: QrelsLike,
    runs: RunsLike,
    measures: MeasuresLike,
    options: ComparisonOptions | None = None,
    *,
    only: str | None = None,
    residuals: bool = False,
    progress: Progress = silent,
) -> Comparison:
    """Compare runs topic by topic; a judged topic that a run misses counts 0.

    Parameters
    ----------
    qrels : path-like, or others
        Judgements; a file, a frame, named rows, a dictionary, as `lmtune.io.frames` has it.
    runs : sequence, or mapping of names to runs
        Of such, likewise: the baseline, then the others; a file that is given again is left out.
    measures : str, an object of ir_measures, or an iterable of these
        See `lmtune.measures.measure.parse_measures`.
    options : ComparisonOptions, optional
        Tests, correction, confidence and the rest.
    only : str, optional
        The judged topics that count, as `lmtune.collections.folds.select_topics` reads them.
    residuals : bool
        Bound each difference over all ways to judge what either run ranks without a judgement.
    progress : Progress
        Called after each run.

    Raises
    ------
    InputError
        For unknown names, files that cannot be read, fewer than two judged topics, and bounds of
        measures that have none.
    """
    options = ComparisonOptions() if options is None else options
    _check_options(options)
    parsed = parse_measures(measures)
    if residuals:
        check_bounded(parsed)
    labels = list(map(str, parsed))
    named = labelled_runs(runs)
    names = list(named)
    values, judged = [], []
    topics: tuple[str, ...] = ()
    settings = for_judgements(EvaluationOptions(complete=True, topics=only), qrels)
    for name, found in zip(
        names, evaluations(qrels, named, [*labels, JUDGED], settings=settings), strict=True
    ):
        topics = found.topics
        if len(topics) < 2:
            raise InputError(
                "a comparison needs two topics or more",
                file=qrels if isinstance(qrels, str | os.PathLike) else None,
                value=list(topics),
                accepted="judgements of two topics or more",
            )
        values.append(np.array([found.column(label).values for label in labels], np.float64).T)
        judged.append(float(np.mean(np.array(found.column(JUDGED).values, np.float64))))
        progress("reading runs", len(values), len(names), name)
        missed = len(topics) - len(found.retrieved)
        if missed:
            note(f"{name} misses {missed} of {len(topics)} judged topics: 0")
    others = dict(zip(names[1:], values[1:], strict=True))
    compared = compare(values[0], others, options, baseline=names[0], measures=labels, topics=topics)
    contrasts = compared.contrasts
    if residuals:
        pairs = dict.fromkeys((one.system, one.against) for one in contrasts)
        possible = difference_bounds(qrels, named, list(pairs), labels, settings)
        contrasts = tuple(
            replace(
                one, possible=tuple(possible[one.system, one.against][labels.index(one.measure)].tolist())
            )
            for one in contrasts
        )
    return replace(compared, contrasts=contrasts, judged=tuple(judged))


def _check_options(options: object) -> None:
    """Raise InputError for options that are wrong, or something else, such as measures behind two runs."""
    if not isinstance(options, ComparisonOptions):
        accepted = "compare_runs(qrels, [baseline, run, ...], measures, ComparisonOptions(...))"
        raise InputError("not ComparisonOptions", value=options, accepted=accepted)
    options.check()


def labelled_runs(runs: RunsLike) -> dict[str, Any]:
    """Give runs names, files as `named_files` does, each of them once.

    A test of a run against itself only weakens the others.
    """
    pairs = list(named_runs(runs))
    if not isinstance(runs, Mapping) and all(isinstance(run, str | os.PathLike) for _, run in pairs):
        kept: dict[Path, str] = {}
        for given, _ in pairs:
            file = _name_and_file(given)[1]
            if file.resolve() in kept:
                note(f"{file} is given again: left out, and not counted by the correction")
            kept.setdefault(file.resolve(), given)
        return dict(named_files(list(kept.values())))
    named = dict(pairs)
    if len(named) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError("two runs have one name", value=names, accepted="a mapping of names to runs")
    return named


def named_files(given: Sequence[PathLike]) -> dict[str, Path]:
    """Name files: NAME=FILE as it says, others by `run_labels`.

    Raises
    ------
    InputError
        For a file that is given twice, and two of one name.

    Examples
    --------
    >>> named_files(["LM=runs/lm.run", "bm25.run"])
    {'LM': PosixPath('runs/lm.run'), 'bm25': PosixPath('bm25.run')}
    """
    pairs = [_name_and_file(one) for one in given]
    if len({file.resolve() for _, file in pairs}) < len(pairs):
        raise InputError(
            "a file is given twice", value=[os.fspath(one) for one in given], accepted="each once"
        )
    labels = iter(run_labels([file for name, file in pairs if not name]))
    names = [name or next(labels) for name, _ in pairs]
    if len(set(names)) < len(names):
        raise InputError("two files have one name", value=names, accepted="NAME=FILE with a name for each")
    return dict(zip(names, [file for _, file in pairs], strict=True))


def _name_and_file(given: PathLike) -> tuple[str, Path]:
    """Split NAME=FILE; a file whose own name holds = has no other."""
    name, _, file = os.fspath(given).partition("=")
    if not file or "/" in name or Path(given).exists():
        return "", Path(given)
    return name, Path(file)


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
