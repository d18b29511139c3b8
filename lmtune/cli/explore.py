"""``lmtune explore``: drag the parameters, watch the rankings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from lmtune.cli.pages import Serving, check_servers, serve_page
from lmtune.cli.parameters import Ranges
from lmtune.cli.screen import stages
from lmtune.datasets.collection import Collection, named_collections
from lmtune.errors import InputError
from lmtune.exploring.opening import Shown, open_choices, open_collection, open_runs
from lmtune.exploring.server import Session
from lmtune.reporting.choice_tables import is_choices


def explore(
    sources: Annotated[
        list[str] | None, "pydocs, a folder, irds:ID ...; or judgements, then two runs or more.", "DATASET"
    ],
    collection: Collection,
    shown: Shown,
    ranges: Ranges,
    serving: Serving,
) -> None:
    """Open a page on which a collection's parameters, or the weights of runs, are dragged.

    Examples
    --------
    lmtune explore pydocs
    lmtune explore qrels.txt bm25.run dense.run
    """
    check_servers("explore")
    with stages() as progress:
        if sources is not None and len(sources) > 1:
            if len(sources) < 3:
                raise InputError("nothing to fuse", value=sources, accepted="judgements and two runs or more")
            session = Session(open_runs([Path(name) for name in sources], shown, progress=progress))
        else:
            [named] = named_collections(sources or [], collection)
            if shown.results is not None and is_choices(shown.results):
                session = open_choices(named, shown, ranges.of, progress=progress)
            else:
                session = Session(open_collection(named, shown, ranges.of, progress=progress))
    serve_page(session, serving)
