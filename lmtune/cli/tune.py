"""``lmtune tune``: the main job."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmtune.cli import options, values
from lmtune.cli.prepare import Names, Split, prepare
from lmtune.cli.screen import stages
from lmtune.errors import InputError
from lmtune.progress import note, timed

if TYPE_CHECKING:
    from lmtune.candidates.pool import CandidatePool
    from lmtune.tuning.result import CollectionResult


def tune(
    datasets: Annotated[
        list[str] | None, typer.Argument(help="pydocs, folders, irds:ID ...; several make one table.")
    ] = None,
    documents: options.Documents = None,
    index: options.Index = None,
    topics: options.Topics = None,
    qrels: options.Qrels = None,
    topic_fields: options.TopicFields = "title",
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="AP, P@k, Bpref, nDCG@k, RR, R@k ...; default AP Bpref P@10."),
    ] = None,
    folds: Annotated[
        str | None, typer.Option(help="Cross-validation: how many folds (default 2), or a JSON file of them.")
    ] = None,
    train_topics: Annotated[
        str | None, typer.Option(help="Train on these: 51-100, a list 51,52 or a file.")
    ] = None,
    test_topics: Annotated[str | None, typer.Option(help="Report on these; default: all others.")] = None,
    grid: Annotated[str, typer.Option(help="Points along lambda and mu.")] = "20x26",
    model: options.Model = "two-stage",
    lambda_range: Annotated[
        str | None,
        typer.Option(help="LOW,HIGH for every method.", show_default="0,0.95; jelinek-mercer 0.01,0.99"),
    ] = None,
    mu_range: Annotated[
        str | None, typer.Option(help="LOW,HIGH for every method.", show_default="1,100000")
    ] = None,
    restarts: Annotated[int, typer.Option(help="Random restarts of the coordinate ascent.")] = 2,
    ranknet_optimizer: Annotated[str, typer.Option(help="coordinate-descent or l-bfgs.")] = (
        "coordinate-descent"
    ),
    ranknet_starts: Annotated[int, typer.Option(help="Starts of the descent.")] = 4,
    ranknet_validation: Annotated[
        float, typer.Option(help="Share of training topics to stop on; adds the row RankNet-val.")
    ] = 0.0,
    ranknet_rel: Annotated[int, typer.Option(help="Smallest gain that RankNet takes for relevant.")] = 1,
    negatives_depth: Annotated[
        int, typer.Option(help="Unjudged stand-ins where nothing is judged nonrelevant.")
    ] = 100,
    depth: Annotated[int, typer.Option(help="Run depth of measures and runs.")] = 1000,
    also: Annotated[
        str | None, typer.Option(help="Further rows, gradient-free: spsa, fdsa, or spsa,fdsa.")
    ] = None,
    evaluations: Annotated[
        int, typer.Option(help="Settings that each of them may measure, a fold and measure.")
    ] = 200,
    certify: Annotated[
        float | None,
        typer.Option(help="Prove Optimal to be this near the best possible, such as 1e-3; Ctrl-C ends it."),
    ] = None,
    stemmer: options.Stemmer = None,
    stopwords: options.Stopwords = None,
    lengths: options.Lengths = None,
    indexes: options.Indexes = Path("indexes"),
    ignore_unknown: options.IgnoreUnknown = False,
    seed: Annotated[int, typer.Option(help="Of folds, starts and restarts.")] = 0,
    style: Annotated[str, typer.Option("--format", help="table, markdown, latex, csv or json.")] = "table",
    output: Annotated[
        Path | None, typer.Option(help="Keep tables, parameters, traces and runs in this folder.")
    ] = None,
) -> None:
    """Tune lambda and mu; report on held-out topics."""
    from lmtune.formats.files import check_directory
    from lmtune.measures.measure import parse_measures
    from lmtune.reporting.provenance import command, versions
    from lmtune.reporting.results_files import CONTENT, RECORD, file_name
    from lmtune.reporting.results_writer import write_results
    from lmtune.reporting.table import STYLES
    from lmtune.tuning.experiment import run_experiment
    from lmtune.tuning.lines import measure_lines
    from lmtune.tuning.plan import Plan

    named: list[str | None] = [*(datasets or [])]
    parts = {"--documents": documents, "--index": index, "--topics": topics, "--qrels": qrels}
    given = [option for option, value in parts.items() if value is not None]
    if len(named) > 1 and given:
        raise InputError(
            f"{given[0]} with several collections", value=named, accepted="one collection at most"
        )
    names_kept = [
        file_name(name if name and ":" in name else Path(name or "").resolve().name) for name in named
    ]
    if len(set(names_kept)) < len(named):
        raise InputError("two collections have one name", value=named, accepted="different names")
    if not named and not given:
        raise InputError("nothing to tune on", accepted="a collection; see lmtune datasets")
    if style not in STYLES:
        raise InputError("unknown --format", value=style, accepted=", ".join(STYLES))
    if folds is not None and (train_topics or test_topics):
        raise InputError("both folds and a split", value=folds, accepted="--folds, or --train-topics")
    plan = Plan(
        measures=tuple(parse_measures(measure or ["AP", "Bpref", "P@10"])),
        model=model,
        space=values.space(lambda_range, mu_range, model),
        grid=values.grid(grid),
        restarts=restarts,
        optimizer=ranknet_optimizer,
        starts=ranknet_starts,
        validation=ranknet_validation,
        rel=ranknet_rel,
        negatives_depth=negatives_depth,
        seed=seed,
        depth=depth,
        also=tuple(name.strip() for name in also.split(",")) if also else (),
        evaluations=evaluations,
        certify=certify,
    )
    analyzer = values.analyzer(stemmer, stopwords, index)
    if output is not None:
        check_directory(output, marker=RECORD, own=CONTENT)
    for slow in (m for m in plan.measures if m.is_slow):
        note(f"{slow} is measured through ir_measures, from a run at every setting: slow")
    results: list[CollectionResult] = []
    pools: list[CandidatePool] = []
    described: list[dict[str, Any]] = []
    split = Split(folds, train_topics, test_topics, seed)
    for name in named or [None]:
        names = Names(
            name, documents, index, topics, qrels, values.fields(topic_fields), stemmer, stopwords, lengths
        )
        ready = prepare(names, analyzer, indexes, split, plan, ignore_unknown=ignore_unknown)
        with stages() as report, timed(f"{ready.pool.name}: tuned"):
            results.append(run_experiment(ready.pool, ready.folds, plan, notes=ready.notes, progress=report))
        pools.append(ready.pool)
        described.append(ready.facts)
    if output is not None:
        record = {
            "command": command(),
            "versions": versions(),
            "plan": plan.as_record(),
            "collections": described,
            "notes": {result.name: result.notes for result in results},
        }
        with stages() as report, timed(f"kept in {output}"):
            lines = [
                measure_lines(pool, result, plan, progress=partial(report, f"{pool.name}: lines"))
                for pool, result in zip(pools, results, strict=True)
            ]
            write_results(
                output,
                results,
                pools,
                record,
                lines=lines,
                hits=depth,
                progress=lambda done, total: report("writing runs", done, total),
            )
    _show(results, style)


def _show(results: list[CollectionResult], style: str) -> None:
    from rich.console import Console

    from lmtune.reporting.tuning_tables import mean_table, parameter_table, tuning_table

    notes = [f"{result.name}: {text}" for result in results for text in result.notes]
    if style != "table":
        for text in notes:
            note(text)
        sys.stdout.write(tuning_table(results, style))
        return
    console = Console(highlight=False)
    if console.is_terminal:
        means = mean_table(results)
        console.print(means.terminal(), means.legend, "", parameter_table(results).terminal(), sep="\n")
    else:
        print(tuning_table(results), parameter_table(results).text(), sep="\n", end="")
    print()
    for text in notes:
        print(text)
