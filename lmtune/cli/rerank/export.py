"""``lmtune rerank export``: write a reranker for another program, and check its scores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import click

from lmtune.cli.messages import note, say
from lmtune.cli.rerank import check_inputs
from lmtune.collections.provenance import record
from lmtune.engines.deployment import FIELD, Names
from lmtune.errors import InputError, check_choice
from lmtune.io.files import read_lines
from lmtune.io.folders import FolderKind, check_directory
from lmtune.io.result_folders import RECORD, write_folder
from lmtune.options import option, usual
from lmtune.progress import quantity

if TYPE_CHECKING:
    from lmtune.rerank.exchange.exporting import Check
    from lmtune.rerank.reranker import Reranker

_KIND = FolderKind(RECORD, (), (RECORD,), ("target",))


@dataclass(frozen=True)
class _Export:
    """Output."""

    to: str = usual(..., "onnx, lightgbm, elasticsearch, opensearch, solr or vespa.", metavar="TARGET")
    output: Path = usual(..., "Write the files to this folder.", metavar="DIR")
    check: Path | None = usual(
        None,
        "Compare scores of the files, by another reader: a LETOR file; for a cross-encoder lines of query, "
        "tab, document.",
        metavar="FILE",
    )
    feature_names: Path | None = option(
        None, "A file with the features' names, one a line; default: those of training.", metavar="FILE"
    )
    model_name: str = option("lmtune", "Name of the model in the engine.", metavar="NAME")
    field_name: str = option(FIELD, "Name of the text field in the engine.", metavar="NAME")


class _Made(NamedTuple):
    """Files, features that they do not define, and the comparison of --check."""

    files: dict[str, bytes]
    missing: list[str]
    checked: Check | None


def export(
    model: Annotated[
        Path,
        "A folder written by lmtune rerank train; a file of LightGBM, XGBoost, CatBoost or RankLib; or "
        "text:MODEL.",
        "MODEL",
    ],
    settings: _Export,
) -> None:
    """Write a trained model for another program or a search engine.

    Exits with status 1 if scores differ in --check.

    Examples
    --------
    lmtune rerank export reader --to onnx --output onnx --check pairs.tsv
    lmtune rerank export model --to elasticsearch --output es --check rows.txt
    """
    check_inputs(None, None, settings.check, settings.feature_names, models=[model], is_folder=False)

    from lmtune.rerank.exchange.cross_encoders import is_text
    from lmtune.rerank.exchange.exporting import README
    from lmtune.rerank.exchange.targets import TARGETS
    from lmtune.rerank.reranker import load_model

    check_choice("unknown target", settings.to, TARGETS)
    target = TARGETS[settings.to]
    Names(settings.model_name, settings.field_name)
    reads = [model, *(path for path in (settings.check, settings.feature_names) if path is not None)]
    check_directory(settings.output, _KIND, reads=reads)
    loaded = load_model(model)
    write = _cross_encoder if is_text(loaded) and settings.to == "onnx" else _features_model
    files, missing, checked = write(loaded, settings)
    write_folder(settings.output, _KIND, files, record(target=settings.to))
    note(f"wrote {quantity(len(files), 'file')} for {target.title} in {settings.output}")
    if missing:
        such = f"such as {missing[0]}: see {README}"
        note(f"the files do not define {quantity(len(missing), 'feature')} of the model, {such}")
    if checked is not None:
        verdict = "match" if checked.is_match else "do not match"
        say(f"scores {verdict}, by {target.reader}: {checked}\n")
        if not checked.is_match:
            raise click.exceptions.Exit(1)


def _features_model(model: Reranker, settings: _Export) -> _Made:
    from lmtune.rerank.applying import read_rows
    from lmtune.rerank.exchange.exporting import README, check_export, readme
    from lmtune.rerank.exchange.targets import TARGETS, exported

    target, names, checked = TARGETS[settings.to], None, None
    if settings.feature_names is not None:
        names = tuple(name for _, line in read_lines(settings.feature_names) for name in line.split())
    converted = exported(model, name=settings.model_name, field=settings.field_name, names=names)
    files = target.write(converted)
    if settings.check is not None:
        checked = check_export(target, converted, files, model, read_rows(model, settings.check))
    if target.notes:
        files[README] = readme(target, converted, model.facts.get("fields", ())).encode()
    return _Made(files, target.missing(converted), checked)


def _cross_encoder(model: Reranker, settings: _Export) -> _Made:
    from lmtune.rerank.exchange.cross_encoders import check_cross_encoder, read_pairs, write_cross_encoder
    from lmtune.rerank.settings import TextOptions

    if settings.feature_names is not None:
        problem = "--feature-names has no effect with a model of text"
        raise InputError(problem, value=settings.feature_names, accepted="without it")
    pairs = None
    if settings.check is not None:
        pairs = read_pairs(settings.check, TextOptions(**model.facts["text"]))
    files = write_cross_encoder(model)
    return _Made(files, [], None if pairs is None else check_cross_encoder(files, model, pairs))
