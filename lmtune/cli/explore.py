"""``lmtune explore``: drag the parameters, watch the rankings."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import note, say
from lmtune.cli.parameters import Ranges
from lmtune.cli.screen import stages
from lmtune.datasets.collection import Collection, named_collections
from lmtune.errors import InputError, MissingExtraError
from lmtune.exploring.opening import Shown, open_collection, open_runs
from lmtune.exploring.server import LOOPBACK, serve
from lmtune.options import usual


@dataclass(frozen=True)
class Serving:
    """The page's address."""

    host: str = usual(LOOPBACK, "An address of this machine; another lets the network look on.")
    port: int = usual(0, "0 for a free one.", low=0, high=65535)
    browser: bool = usual(True, "Open the page where there is a browser.")


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
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise MissingExtraError("explore", "explore")
    with stages() as progress:
        if sources is not None and len(sources) > 1:
            if len(sources) < 3:
                raise InputError("nothing to fuse", value=sources, accepted="judgements and two runs or more")
            view = open_runs([Path(name) for name in sources], shown, progress=progress)
        else:
            [named] = named_collections(sources or [], collection)
            view = open_collection(named, shown, ranges.of, progress=progress)
    if serving.host not in (LOOPBACK, "localhost", "::1"):
        note(f"the page is on {serving.host}: whoever on that network learns its address sees all it shows")
    try:
        serve(view, serving.host, serving.port, lambda address: _tell(address, serving.browser))
    except KeyboardInterrupt:
        note("the page has ended")


def _tell(address: str, browser: bool) -> None:
    say(f"{address}\n")
    note("Ctrl-C ends it")
    if browser:
        import webbrowser

        webbrowser.open(address)
