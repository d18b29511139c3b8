"""``lmtune rerank export``: write a reranker for another program, and check its scores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from lmtune.cli.messages import note, say
from lmtune.cli.rerank import check_inputs
from lmtune.collections.provenance import record
from lmtune.engines.deployment import FIELD, Names
from lmtune.errors import check_choice
from lmtune.io.files import read_lines
from lmtune.io.folders import FolderKind, check_directory
from lmtune.io.result_folders import RECORD, write_folder
from lmtune.options import option, usual
from lmtune.progress import quantity

_KIND = FolderKind(RECORD, (), (RECORD,), ("target",))


@dataclass(frozen=True)
class _Export:
    """Output."""

    to: str = usual(..., "onnx, lightgbm, elasticsearch, opensearch, solr or vespa.", metavar="TARGET")
    output: Path = usual(..., "Write the files to this folder.", metavar="DIR")
    check: Path | None = usual(
        None, "A LETOR file: compare scores of the files, by another reader, on each row.", metavar="LETOR"
    )
    feature_names: Path | None = option(
        None, "A file with the features' names, one a line; default: those of training.", metavar="FILE"
    )
    model_name: str = option("lmtune", "Name of the model in the engine.", metavar="NAME")
    field_name: str = option(FIELD, "Name of the text field in the engine.", metavar="NAME")


def export(
    model: Annotated[
        Path,
        "A folder written by lmtune rerank train; or a file of LightGBM, XGBoost, CatBoost or RankLib.",
        "MODEL",
    ],
    settings: _Export,
) -> None:
    """Write a trained model for another program or a search engine.

    Exits with status 1 if scores differ in --check.

    Examples
    --------
    lmtune rerank export model --to onnx --output onnx
    lmtune rerank export model --to elasticsearch --output es --check rows.txt
    """
    check_inputs(None, None, settings.check, settings.feature_names, models=[model], is_folder=False)

    from lmtune.rerank.applying import read_rows
    from lmtune.rerank.exchange.exporting import README, check_export, readme
    from lmtune.rerank.exchange.targets import TARGETS, exported
    from lmtune.rerank.reranker import load_model

    check_choice("unknown target", settings.to, TARGETS)
    target, names = TARGETS[settings.to], None
    Names(settings.model_name, settings.field_name)
    reads = [model, *(path for path in (settings.check, settings.feature_names) if path is not None)]
    check_directory(settings.output, _KIND, reads=reads)
    if settings.feature_names is not None:
        names = tuple(name for _, line in read_lines(settings.feature_names) for name in line.split())
    loaded = load_model(model)
    converted = exported(loaded, name=settings.model_name, field=settings.field_name, names=names)
    files = target.write(converted)
    checked = None
    if settings.check is not None:
        rows = read_rows(loaded, settings.check)
        checked = check_export(target, converted, files, loaded, rows)
    if target.notes:
        files[README] = readme(target, converted, loaded.facts.get("fields", ())).encode()
    write_folder(settings.output, _KIND, files, record(target=settings.to))
    note(f"wrote {quantity(len(files), 'file')} for {target.title} in {settings.output}")
    if missing := target.missing(converted):
        such = f"such as {missing[0]}: see {README}"
        note(f"the files do not define {quantity(len(missing), 'feature')} of the model, {such}")
    if checked is not None:
        verdict = "match" if checked.is_match else "do not match"
        say(f"scores {verdict}, by {target.reader}: {checked}\n")
        if not checked.is_match:
            raise click.exceptions.Exit(1)
