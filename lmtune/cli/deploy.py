"""``lmtune deploy``: a tuned setting as a search engine's own files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from lmtune.cli.compare import show
from lmtune.cli.messages import note, say
from lmtune.cli.parameters import Tuned
from lmtune.cli.screen import stages
from lmtune.datasets.collection import Collection
from lmtune.engines.catalogue import ENGINES
from lmtune.engines.cost import deployment_cost, stemming_cost
from lmtune.engines.deployment import Engine, expresses, stems
from lmtune.engines.deployment import deploy as deploy_to
from lmtune.engines.hybrid import HYBRIDS, deploy_fusion, fusion_cost
from lmtune.errors import InputError
from lmtune.fusion.methods import kept_fusion
from lmtune.indexing.analysis import Analyzer
from lmtune.measures.significance.comparison import Comparison
from lmtune.options import usual
from lmtune.progress import Progress, quantity
from lmtune.reporting.provenance import record
from lmtune.reporting.result_folder import RECORD, ResultFolder
from lmtune.reporting.tuning_results import FinalSetting, final_row, read_results, reopened
from lmtune.reporting.tuning_tables import parameter_text
from lmtune.storage.folders import FolderKind, check_directory
from lmtune.tuning.experiment.result import CollectionResult, Row

KIND = FolderKind(RECORD, (), (RECORD,))
TITLES = {name: own.title for name, own in ENGINES.items()} | {
    name: own.title for name, own in HYBRIDS.items()
}


@dataclass(frozen=True)
class Target:
    """The engine."""

    to: str = usual(..., f"{', '.join(TITLES)}.", choices=tuple(TITLES), metavar="ENGINE")
    output: Path | None = usual(None, "Write the files into this folder; default: the screen.", metavar="DIR")
    collection: str | None = usual(None, "Of results of several collections: which.", metavar="NAME")


def deploy(
    results: Annotated[
        Path,
        "A folder that lmtune tune --output wrote; of tune --choose, chosen in it; or what fuse "
        "--format json printed.",
        "RESULTS",
    ],
    target: Target,
    chosen: Annotated[dict[str, Any], Tuned, "results"],
) -> None:
    """Write a tuned setting, or fused runs' weights, as a search engine's files.

    What the engine cannot express is refused, with the nearest it can and what that costs in the measures.

    Examples
    --------
    lmtune deploy results --to elasticsearch --output cluster
    lmtune deploy fused.json --to opensearch --output cluster
    """
    if target.output is not None:
        check_directory(target.output, KIND, reads=[results])
    if results.is_file():
        choice, options = kept_fusion(results)
        try:
            files = deploy_fusion(target.to, choice, options)
        except InputError:
            if target.to in HYBRIDS and (table := fusion_cost(results, target.to, options)):
                say(table.text())
            raise
        _write(target, files, record(weights=choice.weights, engine=target.to))
        return
    if target.to not in ENGINES:
        accepted = "what lmtune fuse --format json printed"
        raise InputError(f"{TITLES[target.to]} takes fused runs", file=results, accepted=accepted)
    model, values, collection = Tuned(results, **chosen).take(Collection(target.collection))
    if collection.analysis is None:
        raise InputError(
            "the results do not say their analysis", file=results, accepted="those of a tuning now"
        )
    analyzer = Analyzer.from_settings(collection.analysis)
    engine, tuned = ENGINES[target.to], FinalSetting(model, values, collection)
    if not (expresses(engine, model, values) and stems(engine, analyzer.stemmer)):
        _show_cost(results, target, chosen, tuned)
    files = deploy_to(engine, model, values, analyzer)
    kept = record(model={"name": model, **values}, analysis=analyzer.settings, engine=target.to)
    _write(target, files, kept)


def _show_cost(results: Path, target: Target, chosen: dict[str, Any], tuned: FinalSetting) -> None:
    """Print the nearest that the engine can beside what was tuned, or why that cannot be computed."""
    result, _ = read_results(results).of_collection(target.collection)
    row = final_row(results, result, **chosen)
    try:
        opened = replace(reopened(results, target.collection), analysis=tuned.collection.analysis)
        with stages() as progress:
            settings = tuned._replace(collection=opened)
            found, compared = _cost(ENGINES[target.to], result, row, settings, progress)
    except InputError as error:
        note(f"what the nearest costs was not computed: {error}")
        return
    show(compared, "table", answer=f"The nearest that {TITLES[target.to]} can: {found}.")


def _cost(
    engine: Engine, result: CollectionResult, row: Row, tuned: FinalSetting, progress: Progress
) -> tuple[str, Comparison]:
    """Say and measure the nearest formula at its best; the nearest stemmer where it has the formula."""
    if expresses(engine, tuned.model, tuned.values):
        stemmers, compared = stemming_cost(engine, result, row, tuned.collection, progress=progress)
        counted = [f"{name} in {quantity(n, 'fold')}" for name, n in Counter(stemmers).items()]
        return (
            f"--stemmer {' and '.join(counted)}, by their training topics; held out, not tuned anew",
            compared,
        )
    measures = [row.measure, *(own.measure for own in result.rows)]
    found, compared = deployment_cost(engine, tuned, measures, progress=progress)
    values = ", ".join(f"{name} = {parameter_text(name, value)}" for name, value in found.values.items())
    return f"{found.model} with {values}", compared


def _write(target: Target, files: dict[str, str], kept: dict[str, Any]) -> None:
    if target.output is None:
        say("\n".join(f"--- {name}\n{text}" for name, text in files.items()))
        return
    ResultFolder(files, kept).write(target.output, KIND)
    note(f"wrote {quantity(len(files), 'file')} for {TITLES[target.to]} in {target.output}")
