"""``lmtune deploy``: a tuned setting as a search engine's own files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from lmtune.cli.compare import show
from lmtune.cli.messages import note, say
from lmtune.cli.parameters import Tuned
from lmtune.cli.screen import stages
from lmtune.datasets.collection import Collection
from lmtune.engines.catalogue import ENGINES
from lmtune.engines.cost import deployment_cost
from lmtune.engines.deployment import deploy as deploy_to
from lmtune.engines.deployment import expresses
from lmtune.engines.hybrid import HYBRIDS, deploy_fusion, fusion_cost
from lmtune.errors import InputError
from lmtune.fusion.methods import kept_fusion
from lmtune.indexing.analysis import Analyzer
from lmtune.measures.measure import parse_measure
from lmtune.options import usual
from lmtune.progress import quantity
from lmtune.reporting.provenance import record
from lmtune.reporting.result_folder import RECORD, ResultFolder
from lmtune.reporting.tuning_results import FinalSetting, read_results, reopened
from lmtune.reporting.tuning_tables import parameter_text
from lmtune.storage.folders import FolderKind, check_directory

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
    if not expresses(ENGINES[target.to], model, values):
        _show_cost(results, target, chosen.get("measure"), FinalSetting(model, values, collection))
    files = deploy_to(ENGINES[target.to], model, values, analyzer)
    kept = record(model={"name": model, **values}, analysis=analyzer.settings, engine=target.to)
    _write(target, files, kept)


def _show_cost(results: Path, target: Target, measure: str | None, tuned: FinalSetting) -> None:
    """Print the nearest that the engine can beside the tuned setting, or why that cannot be computed."""
    engine = ENGINES[target.to]
    measures = [str(row.measure) for row in read_results(results).of_collection(target.collection)[0].rows]
    first = [] if measure is None else [str(parse_measure(measure))]
    try:
        opened = replace(reopened(results, target.collection), analysis=tuned.collection.analysis)
        with stages() as progress:
            settings = tuned._replace(collection=opened)
            found, compared = deployment_cost(engine, settings, [*first, *measures], progress=progress)
    except InputError as error:
        note(f"what the nearest costs was not computed: {error}")
        return
    values = ", ".join(f"{name} = {parameter_text(name, value)}" for name, value in found.values.items())
    show(compared, "table", answer=f"The nearest that {engine.title} can: {found.model} with {values}.")


def _write(target: Target, files: dict[str, str], kept: dict[str, Any]) -> None:
    if target.output is None:
        say("\n".join(f"--- {name}\n{text}" for name, text in files.items()))
        return
    ResultFolder(files, kept).write(target.output, KIND)
    note(f"wrote {quantity(len(files), 'file')} for {TITLES[target.to]} in {target.output}")
