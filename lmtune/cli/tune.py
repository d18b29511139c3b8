"""``lmtune tune``, and ``plot`` and ``report``, which show its results."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lmtune.cli.messages import note, say, talk
from lmtune.cli.parameters import Baseline, Ranges
from lmtune.cli.screen import stages
from lmtune.collections.collection import Collection, named_collections
from lmtune.collections.loading import BEIR_MEASURES, is_beir
from lmtune.errors import InputError, visible
from lmtune.io.folders import check_writable
from lmtune.measures.measure import is_measure
from lmtune.models.model import named_model
from lmtune.models.two_stage import TWO_STAGE
from lmtune.options import option, usual
from lmtune.parallel import Workers
from lmtune.progress import quantity, timed
from lmtune.report.table import STYLES
from lmtune.tuning.experiment.plan import Plan, Split
from lmtune.tuning.space import CHOICES, Choice

if TYPE_CHECKING:
    from lmtune.tuning.choices.experiment import Case
    from lmtune.tuning.experiment.preparation import Prepared
    from lmtune.tuning.experiment.result import CollectionResult, Row


@dataclass(frozen=True)
class _TuneOutput:
    """Output."""

    style: str = usual("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)
    output: Path | None = usual(
        None,
        "Write tables, parameters, traces and runs; replaces earlier results of the collection.",
        metavar="DIR",
    )
    overwrite: bool = option(False, "Replace results of another collection too.")


@dataclass(frozen=True)
class _Choosing:
    """Categorical parameters."""

    choose: tuple[Choice, ...] = usual(
        (),
        f"Tune one of {', '.join(CHOICES)} over these values, default first; repeat for several.",
        read=Choice.parse,
        separator=None,
        metavar="NAME=VALUE,...",
    )
    inner_folds: int = option(
        0, "Compare the values by cross-validation on the training topics, with N folds; 0: in-sample.", low=0
    )
    race: bool = option(
        False, "Skip combinations that cannot win: by successive halving, or with --certify by proof."
    )


@dataclass(frozen=True)
class _Engine:
    """Search engine."""

    from_engine: Path | None = option(
        None,
        "Use the analysis, the model and the setting (as baseline) of an engine's file: index settings of "
        "Elasticsearch or OpenSearch, Solr's schema.xml, Vespa's schemas/NAME.sd.",
        metavar="FILE",
    )

    def start(
        self, collection: Collection, plan: dict[str, Any], baseline: Baseline
    ) -> tuple[Collection, dict[str, Any], Baseline]:
        """Return the arguments with the analysis, model and baseline of the engine's file."""
        if self.from_engine is None:
            return collection, plan, baseline
        from lmtune.engines.catalogue import read_engine

        engine = read_engine(self.from_engine, collection.stopwords)
        setting = tuple(engine.values.items())
        for flag, asked, from_file in (
            ("--model", plan.get("model"), engine.model),
            ("--baseline", baseline.baseline or None, setting),
            ("--stemmer", collection.stemmer, engine.stemmer),
            ("--stopwords", collection.stopwords, engine.stopwords),
        ):
            if asked not in (None, from_file):
                raise InputError(
                    f"{flag} conflicts with --from-engine",
                    value=asked,
                    accepted=f"no {flag}: the file has {from_file}",
                )
        for text in engine.notes:
            note(f"{self.from_engine}: {text}")
        collection = replace(collection, stemmer=engine.stemmer, stopwords=engine.stopwords)
        return collection, plan | {"model": engine.model}, Baseline(setting)


def tune(
    datasets: Annotated[list[str] | None, "pydocs, a folder or irds:ID; several make one table.", "DATASET"],
    collection: Collection,
    split: Split,
    plan: Annotated[dict[str, Any], Plan],
    ranges: Ranges,
    baseline: Baseline,
    engine: _Engine,
    choosing: _Choosing,
    workers: Workers,
    output: _TuneOutput,
) -> None:
    """Tune a model's parameters; evaluate on held-out topics.

    Compares direct search, RankNet and smooth approximations, and recommends a setting. Uses a folder's
    splits train and test, otherwise cross-validation.

    Examples
    --------
    lmtune tune pydocs
    lmtune tune my-collection --model bm25 -m nDCG@10 --output results
    """
    from lmtune.report.coverage import tuning_coverage
    from lmtune.report.tuning_results import write_results_folder
    from lmtune.tuning.experiment.preparation import prepare
    from lmtune.tuning.experiment.run import run_experiment
    from lmtune.tuning.experiment.stored import KIND, check_names, check_output

    collection, plan, baseline = engine.start(collection, plan, baseline)
    collections = _collections(datasets or [], collection)
    check_names([one.name for one in collections])
    if "measures" not in plan and all(is_beir(one.name) for one in collections):
        plan = plan | {"measures": BEIR_MEASURES}
    if choosing.choose:
        if output.output is not None and len(collections) > 1:
            accepted = "one collection, or one --output folder for each"
            raise InputError("--choose writes one collection to a folder", value=datasets, accepted=accepted)
        from lmtune.tuning.choices.experiment import make_cases

        how: Any = {"ranges": ranges.of, "baseline": baseline.of}
        for cases in [make_cases(choosing.choose, one, plan, **how) for one in collections]:
            with workers.engaged():
                _choose(cases, split, choosing, plan.get("certify"), output)
        return
    model = named_model(plan.get("model", Plan.model), collection.fields)
    searching = Plan(**plan | {"model": model}, ranges=ranges.of(model), baseline=baseline.of(model))
    if output.output is not None:
        reads = [file for one in collections for file in one.files()]
        check_output(
            output.output,
            KIND,
            collections,
            reads=[*reads, *split.files(), collection.indexes],
            overwrite=output.overwrite,
        )
    for slow in (measure for measure in searching.measures if measure.is_slow):
        note(f"{slow} is slow: ir_measures computes it from a run at every setting")
    prepared: list[Prepared] = []
    results: list[CollectionResult] = []
    with workers.engaged():
        with stages() as show:
            # Read all collections before tuning any, so that errors in the last one show up early.
            prepared += [prepare(one, split, searching, progress=show) for one in collections]
        for ready in prepared:
            with stages() as show, timed(f"{ready.pool.name}: tuned"):
                how = {"notes": ready.notes, "progress": show, "traced": output.output is not None}
                results.append(run_experiment(ready.pool, ready.folds, searching, **how))
        if output.output is not None:
            with stages() as progress, timed(f"results written to {output.output}"):
                write_results_folder(output.output, prepared, results, searching, progress=progress)
    _show(results, output.style, noted=talk().verbose or searching.certify is not None)
    if output.style == "table":
        for ready, result in zip(prepared, results, strict=True):
            say(tuning_coverage(ready, result, searching.depth, with_bounds=talk().verbose))
        for one, result in zip(collections, results, strict=True):
            say(_use(one, result, result.recommended, output.output))
        if not talk().verbose:
            kept = (
                "--output DIR writes all results"
                if output.output is None
                else f"all results: {output.output}"
            )
            say(f"--verbose prints the settings of each fold, bounds and notes; {visible(kept)}\n")


def _collections(names: list[str], options: Collection) -> list[Collection]:
    """Return the collections; if a name is a measure, the error suggests -m."""
    try:
        return named_collections(names, options)
    except InputError as error:
        if isinstance(error.value, str) and is_measure(error.value):
            accepted = f"-m {error.value} for each measure, or several without spaces: -m AP,{error.value}"
            raise InputError(
                "a measure where a collection is expected", value=error.value, accepted=accepted
            ) from error
        raise


def _choose(
    cases: Sequence[Case], split: Split, choosing: _Choosing, certify: float | None, output: _TuneOutput
) -> None:
    """Tune all combinations of categorical parameters on a collection, and recommend one."""
    from lmtune.report.choice_tables import choice_table, write_choices_folder
    from lmtune.report.coverage import choice_coverage
    from lmtune.tuning.choices.experiment import tune_choices
    from lmtune.tuning.choices.stored import CHOICES_KIND
    from lmtune.tuning.experiment.preparation import prepare
    from lmtune.tuning.experiment.stored import check_output

    if output.output is not None:
        reads = [file for case in cases for file in case.collection.files()]
        check_output(
            output.output,
            CHOICES_KIND,
            [cases[0].collection],
            reads=[*reads, *split.files(), cases[0].collection.indexes],
            overwrite=output.overwrite,
        )
    with stages() as progress:
        how: Any = {"inner": choosing.inner_folds, "race": choosing.race, "certify": certify}
        result, ready = tune_choices(choosing.choose, cases, split, **how, progress=progress)
        if output.output is not None:
            with timed(f"results written to {output.output}"):
                write_choices_folder(output.output, result, ready, progress=progress)
    say(choice_table(result, output.style))
    for case, tuned in zip(cases, result.results, strict=True) if talk().verbose else ():
        for text in tuned.notes:
            note(f"{case}: {text}")
    one = result.recommended
    if output.style == "table" and one is not None:
        own = cases[one.final].collection
        first = prepare(cases[0].collection, split, cases[0].plan) if one.final else ready
        use = _use(own, result.results[one.final], one.row, output.output)
        say(f"\n{choice_coverage(result, ready, first, with_bounds=talk().verbose)}{use}")


def _use(collection: Collection, result: CollectionResult, row: Row | None, kept: Path | None) -> str:
    """Return the command that searches with a row's setting; empty if the row has no setting."""
    from lmtune.tuning.experiment.result import setting_values

    if row is None or row.setting is None:
        return ""
    words = ["lmtune", "search", *collection.words()]
    if kept is not None:
        words += ["--from", str(kept)]
    else:
        words += [] if result.model == TWO_STAGE.name else ["--model", result.model]
        for name, value in setting_values(result, row.setting.params).items():
            words += ["--set", f"{name}={value}"]
    return f"\nSearch with this setting:\n  {visible(shlex.join(words))}\n"


def _show(results: Sequence[CollectionResult], style: str, *, noted: bool) -> None:
    from lmtune.report import tuning_tables

    notes = [f"{result.name}: {text}" for result in results for text in result.notes]
    if style != "table":
        for text in notes:
            note(text)
        say(tuning_tables.tuning_table(results, style))
        return
    whole = talk().verbose
    tables = [tuning_tables.mean_table(results), *tuning_tables.weight_tables(results)]
    tables += [tuning_tables.parameter_table(results), *tuning_tables.final_tables(results)] if whole else []
    say(tuning_tables.answers(results))
    say("".join(f"{table.text()}\n" for table in tables))
    say("".join(f"{line}\n" for line in notes if noted))


@dataclass(frozen=True)
class _Pictures:
    """Output."""

    output: Path | None = option(
        None, "Write the pictures to this folder; default: RESULTS/pictures.", metavar="DIR"
    )
    style: str = option("svg", "svg, pdf or png.", flag="--format", choices=("svg", "pdf", "png"))


def plot(
    results: Annotated[Path, "A folder written by lmtune tune --output.", "RESULTS"], pictures: _Pictures
) -> None:
    """Draw pictures of tuning results.

    Examples
    --------
    lmtune plot results
    lmtune plot results --format pdf --output pictures
    """
    from lmtune.report.figures import choice_pictures, draw, save
    from lmtune.report.figures.style import require_pictures
    from lmtune.tuning.choices.stored import is_choices, read_choices
    from lmtune.tuning.experiment.stored import PICTURES, read_results, record_pictures

    require_pictures("plot")
    if is_choices(results):
        pictured = choice_pictures(read_choices(results))
    else:
        pictured = draw(results, read_results(results).results)
    target = pictures.output or results / PICTURES
    check_writable(target / f"picture.{pictures.style}")
    files: list[Path] = []
    with stages() as progress:
        for picture in pictured:
            files.append(target / f"{picture.name}.{pictures.style}")
            save(picture.figure, files[-1])
            progress(f"drawing {picture.name}", len(files), 0)
    if pictures.output is None:
        record_pictures(results, files)
    note(f"drew {quantity(len(files), 'picture')} in {target}")


@dataclass(frozen=True)
class _Page:
    """Output."""

    output: Path | None = option(
        None, "Write the page to this file; default: RESULTS/report.html.", metavar="FILE"
    )


def report(
    results: Annotated[Path, "A folder written by lmtune tune --output.", "RESULTS"], page: _Page
) -> None:
    """Write an HTML report of tuning results.

    Examples
    --------
    lmtune report results
    lmtune report results --output page.html
    """
    from lmtune.report.page import write_report
    from lmtune.tuning.experiment.stored import PAGE

    target = page.output or results / PAGE
    with stages() as progress:
        write_report(results, target, progress=progress)
    note(f"wrote {target}")
