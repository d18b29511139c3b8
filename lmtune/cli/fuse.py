"""``lmtune fuse``: fuse runs and tune their weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import note, say, talk
from lmtune.cli.screen import draw_pictures, show_table, stages
from lmtune.errors import InputError
from lmtune.fusion.fusing import fuse_runs
from lmtune.fusion.methods import (
    CHOOSE,
    LOGISTIC,
    Chosen,
    FusionOptions,
    count_ties,
    fused_pool,
    match_runs,
    note_ties,
    rankings,
    read_fusion,
)
from lmtune.fusion.runs import RunSet
from lmtune.io.files import atomic_write
from lmtune.io.folders import check_file, check_writable
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import check_tag, read_run, write_run
from lmtune.measures.significance.comparison import named_files
from lmtune.options import read, usual
from lmtune.progress import Progress, quantity, silent
from lmtune.report.coverage import fusion_coverage
from lmtune.report.fusion_tables import formulas, fusion_legend, fusion_table
from lmtune.report.table import STYLES

_OF_WEIGHTS = ("measure", "normalise", "missing", "rrf_k", "depth", "leave_out", "pool_depth")


def _weights(text: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        if not name or name in weights:
            raise InputError("bad --weights", value=text, accepted="each RUN=X once, such as a=0.3,b=0.7")
        weights[name] = read(float, value, f"--weights {name}")
    if not (all(0.0 <= weight < math.inf for weight in weights.values()) and any(weights.values())):
        raise InputError("bad --weights", value=text, accepted="numbers from 0, not all 0")
    return weights


@dataclass(frozen=True)
class _FusionOutput:
    """Output."""

    style: str = usual("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)
    output: Path | None = usual(
        None, "Write the recommended fused run, or that of a single --method; .gz compresses."
    )
    run_tag: str | None = usual(None, "Tag of the run; default: lmtune-METHOD.")
    plot: Path | None = usual(
        None,
        "Draw the measure against each weight, and over all weights of three runs; write formulas.txt.",
        metavar="DIR",
    )
    source: Path | None = usual(
        None,
        "Do not tune: apply the fusion in this file (output of --format json) to runs of other topics.",
        flag="--from",
    )
    weights: dict[str, float] | None = usual(
        None,
        "Do not tune: evaluate and write the weighted sum with these weights, by run name or file.",
        read=_weights,
        metavar="RUN=X,...",
    )


def fuse(
    files: Annotated[
        list[Path],
        "Judgments, then two or more runs, as FILE or NAME=FILE; with --from only runs.",
        "QRELS RUN...",
    ],
    options: FusionOptions,
    output: _FusionOutput,
) -> None:
    """Fuse runs and tune their weights.

    Examples
    --------
    lmtune fuse qrels.txt bm25.run dense.run --output fused.run
    lmtune fuse qrels.txt bm25.run dense.run --engine opensearch
    """
    runs = named_files(files if output.source is not None else files[1:])
    if output.output is not None:
        check_file(output.output, reads=[files[0], *runs.values(), *filter(None, [output.source])])
    if output.run_tag is not None:
        check_tag(output.run_tag)
    if output.source is not None:
        if output.output is None:
            raise InputError("--from without --output", accepted="--output RUN")
        if output.plot is not None:
            raise InputError(
                "--plot conflicts with --from", value=str(output.plot), accepted="one of the two"
            )
        if options != FusionOptions() or output.weights is not None:
            raise InputError(
                "options of tuning conflict with --from",
                value=str(output.source),
                accepted="the measure, method and weights of that file",
            )
        _apply(output.source, runs, output)
        return
    qrels = files[0]
    if output.weights is not None:
        kept = {name: getattr(options, name) for name in _OF_WEIGHTS}
        is_chosen = options.normalise in (CHOOSE, LOGISTIC)
        if options != FusionOptions(**kept) or output.plot is not None or is_chosen:
            accepted = ", ".join(f"--{name.replace('_', '-')}" for name in _OF_WEIGHTS)
            raise InputError("options of tuning conflict with --weights", accepted=f"{accepted}, --output")
    if output.plot is not None:
        if options.engine is not None:
            raise InputError(
                "--plot conflicts with --engine", value=str(output.plot), accepted="one of the two"
            )
        check_writable(output.plot / "picture.svg")
    judged = read_qrels(qrels)
    with stages() as progress:
        loaded = _read(runs, progress)
        weights = None if output.weights is None else _by_run(output.weights, runs)
        fused = fuse_runs(loaded, judged, options, weights=weights, progress=progress)
        if output.output is not None:
            _write(output.output, loaded, fused.output, options, output.run_tag)
    show_table(fusion_table(fused, output.style))
    if output.style == "table":
        say(fusion_coverage(fused, loaded, judged, with_bounds=talk().verbose))
        say(f"\n{formulas(fused)}" if talk().verbose else "")
    elif output.style in ("csv", "json"):
        note(fusion_legend(fused).replace("\n", "; "))
    if output.plot is not None:
        from lmtune.report.figures import fusion_pictures

        with atomic_write(output.plot / "formulas.txt") as stream:
            stream.write(formulas(fused))
        draw_pictures(fusion_pictures(fused, loaded, judged), output.plot)


def _read(files: dict[str, Path], progress: Progress = silent) -> RunSet:
    if len(files) < 2:
        raise InputError(
            "too few runs to fuse", value=[*map(str, files.values())], accepted="two runs or more"
        )
    given = {}
    for done, (label, file) in enumerate(files.items()):
        progress("reading runs", done, len(files))
        given[label] = read_run(file)
    loaded = RunSet.of(given)
    progress("reading runs", len(files), len(files))
    return loaded


def _by_run(weights: dict[str, float], files: dict[str, Path]) -> dict[str, float]:
    """Return each run's weight, looked up by its name or file."""
    by_run: dict[str, float] = {}
    for run, file in files.items():
        named = [weights[name] for name in dict.fromkeys((run, str(file), file.name)) if name in weights]
        if len(named) == 1:
            by_run[run] = named[0]
    if not len(by_run) == len(files) == len(weights):
        raise InputError(
            "--weights does not match the runs", value=list(weights), accepted=f"each of {', '.join(files)}"
        )
    return by_run


def _apply(source: Path, files: dict[str, Path], output: _FusionOutput) -> None:
    """Fuse runs with a stored method and weights."""
    kept, options = read_fusion(source)
    loaded = _read(files)
    chosen = match_runs(kept, loaded)
    assert output.output is not None
    note_ties(count_ties(fused_pool(loaded, chosen, options)))
    _write(output.output, loaded, chosen, options, output.run_tag)


def _write(path: Path, runs: RunSet, chosen: Chosen, options: FusionOptions, tag: str | None) -> None:
    write_run(path, rankings(runs, chosen, options), tag=tag or f"lmtune-{chosen.method}")
    how = f"fused by {chosen.method}" if chosen.single_run is None else f"a copy of {chosen.single_run}"
    note(f"wrote {quantity(len(runs.docs), 'topic')} to {path}, {how}")
