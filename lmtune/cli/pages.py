"""Pages that commands serve: their address, and how they begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from lmtune.cli.messages import note, say
from lmtune.errors import MissingExtraError
from lmtune.options import usual

if TYPE_CHECKING:
    from lmtune.exploring.server import Answering

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Serving:
    """The page's address."""

    host: str = usual(LOOPBACK, "An address of this machine; another lets the network look on.")
    port: int = usual(0, "0 for a free one.", low=0, high=65535)
    browser: bool = usual(True, "Open the page where there is a browser.")


def check_servers(command: str) -> None:
    """Raise `MissingExtraError` where a page's server is not installed."""
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise MissingExtraError(command, "explore")


def serve_page(session: Answering, serving: Serving) -> None:
    """Serve a page until Ctrl-C, and say where it is."""
    from lmtune.exploring.server import serve

    if serving.host not in (LOOPBACK, "localhost", "::1"):
        note(f"the page is on {serving.host}: whoever on that network learns its address sees all it shows")
    try:
        serve(session, serving.host, serving.port, lambda address: _tell(address, serving.browser))
    except KeyboardInterrupt:
        note("the page has ended")


def _tell(address: str, browser: bool) -> None:
    say(f"{address}\n")
    note("Ctrl-C ends it")
    if browser:
        import webbrowser

        webbrowser.open(address)
