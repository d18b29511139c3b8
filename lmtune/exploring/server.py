"""The page's server: one address of this machine, a token in every path, nothing from a network."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from lmtune.errors import InputError
from lmtune.exploring import answers
from lmtune.exploring.background import OutdatedError, Surfaces, Turns
from lmtune.exploring.page import FILES, exported, page, policy
from lmtune.exploring.view import View

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = "127.0.0.1"
_LONGEST = 1 << 16
_ANSWERS: dict[str, Callable[..., Any]] = {
    "description": answers.description,
    "measured": answers.measured,
    "compared": answers.compared,
    "ranked": answers.ranked,
    "explained": answers.explained,
}
_HEADERS = {
    "Content-Security-Policy": policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Session:
    """What all pages share: a view, its surfaces, and whose turn it is."""

    def __init__(self, view: View) -> None:
        self.view, self.turns = view, Turns()
        self._surfaces = Surfaces(view, self.turns)
        self._kinds = {kind: partial(own, view) for kind, own in _ANSWERS.items()}
        self._kinds["surface"] = partial(answers.surface, view, self._surfaces)

    def end(self) -> None:
        """Stop what is measured in the background."""
        self._surfaces.end()

    def answer(self, kind: str, asked: Mapping[str, Any]) -> Any:
        """Answer a page's question.

        Parameters
        ----------
        kind : str
            ``description``, ``measured``, ``compared``, ``ranked``, ``explained`` or ``surface``.
        asked : mapping
            The arguments of the function in `lmtune.exploring.answers`; ``page`` and ``serial``, which
            page asks and how often it has.

        Raises
        ------
        InputError
            For a question that makes no sense.
        OutdatedError
            Where the page has asked the same of another setting since.
        """
        given = dict(asked)
        try:
            page, serial, work = str(given.pop("page")), int(given.pop("serial")), self._kinds[kind]
            return self.turns.take(page, kind, serial, lambda: work(**given))
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError("no such question", value=kind, accepted=", ".join(self._kinds)) from None


class _Guard:
    """Lets through what this page itself asks of this address, with its token; nothing else."""

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse

        if scope["type"] == "http":
            request = Request(scope)
            host, origin = request.headers.get("host", ""), request.headers.get("origin")
            token = request.url.path.lstrip("/").partition("/")[0]
            wrong = (
                host not in self._hosts
                or origin not in (None, f"http://{host}")
                or not secrets.compare_digest(token.encode(), self._token.encode())
            )
            if wrong:
                refusal = PlainTextResponse("Not for you: open the address that lmtune printed.\n", 403)
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def make_app(session: Session, token: str, hosts: frozenset[str]) -> Starlette:
    """Make the application: ``/TOKEN/`` is the page, ``/TOKEN/ask/KIND`` answers what is posted.

    Parameters
    ----------
    session : Session
        Who answers.
    token : str
        Secret; the first part of every path.
    hosts : frozenset of str
        The only values of the Host header that are answered, ports included.
    """
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    folder = files("lmtune.exploring") / "site"

    def show(request: Request) -> Response:
        del request
        return HTMLResponse(page(), headers=_HEADERS)

    def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in FILES:
            return PlainTextResponse("no such file\n", 404)
        return Response((folder / name).read_bytes(), media_type=FILES[name], headers=_HEADERS)

    async def ask(request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        try:
            work = partial(session.answer, request.path_params["kind"], await _posted(request))
            return JSONResponse(await run_in_threadpool(work), headers=_HEADERS)
        except OutdatedError:
            return Response(status_code=409, headers=_HEADERS)
        except InputError as error:
            return JSONResponse({"error": str(error)}, 400, headers=_HEADERS)

    async def export(request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        try:
            state = await _posted(request)
            content = await run_in_threadpool(lambda: exported(session.view, session.turns, state))
            return HTMLResponse(content, headers=_HEADERS)
        except (InputError, LookupError, TypeError) as error:
            return JSONResponse({"error": str(error)}, 400, headers=_HEADERS)

    home = f"/{token}"
    routes = [
        Route(f"{home}/", show),
        Route(f"{home}/ask/{{kind}}", ask, methods=["POST"]),
        Route(f"{home}/export", export, methods=["POST"]),
        Route(f"{home}/{{name}}", file),
    ]
    return Starlette(routes=routes, middleware=[Middleware(_Guard, token=token, hosts=hosts)])


async def _posted(request: Request) -> dict[str, Any]:
    """Read what was posted: a JSON object.

    Raises
    ------
    InputError
        For anything else, and for more than a page ever asks.
    """
    try:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _LONGEST:
                raise ValueError
        return dict(json.loads(body))
    except (ValueError, TypeError, RecursionError):
        raise InputError("not a question", accepted=f"a JSON object of {_LONGEST} bytes at most") from None


def serve(view: View, host: str, port: int, opened: Callable[[str], None]) -> None:
    """Serve a view's page until Ctrl-C.

    Parameters
    ----------
    view : View
        What is shown.
    host : str
        An address of this machine.
    port : int
        0 for a free one.
    opened : callable
        Called with the page's address once it answers.

    Raises
    ------
    InputError
        Where the address cannot be had.
    """
    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise InputError(
                f"cannot listen there ({error.strerror})", value=f"{host}:{port}", accepted="--port 0"
            ) from None
        number, token = listening.getsockname()[1], secrets.token_urlsafe(24)
        named = f"[{host}]" if family == socket.AF_INET6 else host
        hosts = frozenset(f"{name}:{number}" for name in (named, "localhost"))
        session = Session(view)
        app = make_app(session, token, hosts)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))
        listening.listen()
        opened(f"http://{named}:{number}/{token}/")
        try:
            server.run(sockets=[listening])
        finally:
            session.end()
