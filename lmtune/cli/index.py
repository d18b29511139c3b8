"""``lmtune index``: build the index of a collection."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from lmtune.cli.screen import stages
from lmtune.datasets.building import Building, build
from lmtune.datasets.collection import Collection
from lmtune.parallel import Workers
from lmtune.threads import cores


def index(
    dataset: Annotated[str | None, "pydocs, a folder, irds:ID ...; see `lmtune datasets`.", "DATASET"],
    collection: Annotated[
        Collection, "index", "topics", "qrels", "split", "topic_fields", "lengths", "indexes"
    ],
    building: Building,
    workers: Workers,
) -> None:
    """Build an index of a collection."""
    with workers.engaged(cores()), stages() as progress:
        build(replace(collection, name=dataset), building, progress=progress)
