"""The page and its server: a local address, a secret token in every path, no external resources."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from lmtune.collections.texts import Texts
from lmtune.errors import InputError, check_choice, visible
from lmtune.explorer import answers
from lmtune.explorer.background import OutdatedError, Surfaces, Turns, error_line, plan
from lmtune.explorer.view import View
from lmtune.io.digests import require_types
from lmtune.measures.judges.selection import put_label, read_sheet
from lmtune.strict_json import parse_json

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send

MODULES = ("main", "source", "sliders", "surface", "profiles", "topics", "document", "share")
"""The modules of the page; they import each other as ``explore/NAME``."""

_FILES = {f"{name}.js": "text/javascript" for name in (*MODULES, "judge")} | {"explore.css": "text/css"}
"""The files of the pages, with their media types."""

_NAMES = json.dumps({"imports": {f"explore/{name}": f"./{name}.js" for name in MODULES}})


def policy() -> str:
    """Return the content security policy of a served page: only its own files."""
    names = base64.b64encode(hashlib.sha256(_NAMES.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{names}'; style-src 'self'; "
        "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def page(script: str = "main", title: str = "lmtune explore") -> str:
    """Return a served page, which loads a script of `_FILES`."""
    return _render(names=_NAMES, style="", policy="", exported="", script=script, title=title)


def exported(view: View, turns: Turns, state: Mapping[str, Any]) -> str:
    """Return the page as one file, with the answers for a fixed set of settings.

    Parameters
    ----------
    view : View
        The view.
    turns : Turns
        Settings are measured in separate turns, so that open pages still get answers.
    state : mapping
        The page's state: ``setting``, ``pinned``, ``measure`` and ``plane`` (two axes, separated by a comma).

    Raises
    ------
    InputError
        If a setting is outside the ranges, or the page lacks the measure or the axes.
    """
    check_choice("not among the page's measures", state["measure"], [*map(str, view.measures)])
    setting, pinned = view.vector(state["setting"]), view.vector(state["pinned"])
    vectors = [setting, pinned, *(view.vector(mark.setting) for mark in view.marks)]
    pictures = {}
    for plane in {state["plane"]} if len(view.axes) == 2 else {"", state["plane"]}:
        points, shape = plan(view, setting, answers.plane_of(view, plane), is_coarse=True)
        places = np.flatnonzero(~np.isnan(points[:, 0]))
        pictures[plane] = {"shape": list(shape), "places": places.tolist(), "first": len(vectors)}
        vectors += [*points[places]]
    measured = []
    for vector in vectors:
        named = view.space.named(vector)
        answer = turns.between(lambda named=named: answers.measured(view, named))  # type: ignore[misc]
        versus = turns.between(lambda named=named: answers.compared(view, named, state["pinned"], ""))  # type: ignore[misc]
        measured.append({"measured": answer, "compared": versus})
    content = {
        "description": answers.description(view) | {"hasTexts": False},
        "state": dict(state),
        "pictures": pictures,
        "answers": measured,
    }
    sources = {name: _site(f"{name}.js").encode() for name in MODULES}
    named_sources = {
        f"explore/{name}": f"data:text/javascript;base64,{base64.b64encode(source).decode()}"
        for name, source in sources.items()
    }
    return _render(
        names=json.dumps({"imports": named_sources}),
        style=_site("explore.css"),
        policy="default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'",
        exported=json.dumps(content).replace("<", "\\u003c"),
        script="",
        title="lmtune explore",
    )


@cache
def _site(name: str) -> str:
    return (files("lmtune.explorer") / "site" / name).read_text(encoding="utf-8")


def _render(**parts: str) -> str:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    escaped = ("policy", "script", "title")
    safe = {name: part if name in escaped else Markup(part) for name, part in parts.items()}
    return environment.from_string(_site("explore.html.j2")).render(**safe)


_LONGEST, _LARGEST = 1 << 16, 1e300
_DISCONNECTED = 499  # status for a client that has disconnected
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


class Answering:
    """Answers to the questions of pages, one at a time; base class of the pages' sessions.

    Parameters
    ----------
    kinds : mapping of str to callable
        The function that answers each kind of question; its parameters are the question's arguments.
    """

    script, title = "main", "lmtune explore"
    subsessions: Mapping[str, Answering] = MappingProxyType({})
    """Sessions of further pages, by their paths below this page's path."""

    def __init__(self, kinds: Mapping[str, Callable[..., Any]]) -> None:
        self.turns, self._kinds = Turns(), dict(kinds)

    def end(self) -> None:
        """Stop background work."""

    def answer(self, kind: str, asked: Mapping[str, Any]) -> Any:
        """Answer a page's question.

        Parameters
        ----------
        kind : str
            The kind of the question.
        asked : mapping
            The question's arguments, ``page`` (an identifier) and ``serial`` (a counter of the page's
            questions of this kind).

        Raises
        ------
        InputError
            If the question is invalid.
        OutdatedError
            If the page has sent a later question of this kind.
        """
        work = self._kinds.get(kind)
        if work is None:
            raise InputError("unknown question", value=kind, accepted=", ".join(self._kinds))
        values = arguments(kind, asked, ["page", "serial", *inspect.signature(work).parameters])
        page, serial = values.pop("page"), values.pop("serial")
        return self.turns.take(page, kind, serial, lambda: work(**values))

    def export(self, asked: Mapping[str, Any]) -> str:
        """Return the page as one file, in a state."""
        raise InputError("this page cannot be exported", value=sorted(asked), accepted="lmtune explore's")


class Session(Answering):
    """The session of a view and its surfaces; `lmtune.explorer.answers` has the answers.

    Parameters
    ----------
    view : View
        The view.
    menus : mapping, optional
        What the page needs for its menus, one for each categorical parameter: ``choices``, the options of
        each parameter; ``cases``, the options of each case by its path in `Answering.subsessions`; ``now``,
        the path of this case.
    """

    def __init__(self, view: View, menus: Mapping[str, Any] | None = None) -> None:
        super().__init__({kind: partial(answer, view) for kind, answer in _ANSWERS.items()})
        self._kinds["description"] = lambda: answers.description(view) | {"menus": menus}
        self.view, self._surfaces = view, Surfaces(view, self.turns)
        self._kinds["surface"] = partial(answers.surface, view, self._surfaces)

    def end(self) -> None:
        """Stop the evaluation in the background."""
        self._surfaces.end()

    def export(self, asked: Mapping[str, Any]) -> str:
        """Return the page as one file, in a state: ``setting``, ``pinned``, ``measure``, ``plane``."""
        state = arguments("export", asked, ["setting", "pinned", "measure", "plane"])
        return exported(self.view, self.turns, state)


class _LazySession(Answering):
    """A session that is opened by its first question."""

    def __init__(self, open_session: Callable[[], Session]) -> None:
        super().__init__({})
        self._open, self._session = open_session, cast("Session | None", None)

    def answer(self, kind: str, asked: Mapping[str, Any]) -> Any:
        """Open the session if necessary, and answer."""
        return self._opened().answer(kind, asked)

    def export(self, asked: Mapping[str, Any]) -> str:
        """Return the page as one file, in a state."""
        return self._opened().export(asked)

    def end(self) -> None:
        """End the session, if it was opened."""
        if self._session is not None:
            self._session.end()

    def _opened(self) -> Session:
        def opened() -> Session:
            self._session = self._session or self._open()
            return self._session

        return self.turns.between(opened)


class Choosing(Session):
    """The session of a case of categorical parameters; sessions of other cases are opened on request.

    Parameters
    ----------
    choices : mapping of str to sequence of str
        Options by name.
    cases : sequence of mapping of str to str
        The options of each case.
    now : int
        The initial case.
    open_view : callable
        Opens the view of a case.
    """

    def __init__(
        self,
        choices: Mapping[str, Sequence[str]],
        cases: Sequence[Mapping[str, str]],
        now: int,
        open_view: Callable[[int], View],
    ) -> None:
        paths = {f"case-{number}": dict(values) for number, values in enumerate(cases)}

        def make_menus(number: int) -> dict[str, Any]:
            return {"choices": dict(choices), "cases": paths, "now": f"case-{number}"}

        def session(number: int) -> Session:
            return Session(open_view(number), make_menus(number))

        super().__init__(open_view(now), make_menus(now))
        self.subsessions = {path: _LazySession(partial(session, number)) for number, path in enumerate(paths)}
        self.subsessions[f"case-{now}"] = Session(self.view, make_menus(now))

    def end(self) -> None:
        """Stop the evaluation in the background, of all cases."""
        for session in self.subsessions.values():
            session.end()
        super().end()


def arguments(kind: str, asked: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Check a question's arguments, by name and type, and return them.

    Raises
    ------
    InputError
        If an argument is missing, unknown or of the wrong type.
    """
    if set(asked) != set(names):
        raise InputError(f"wrong arguments of {kind}", value=sorted(asked), accepted=", ".join(names))
    for name, value in asked.items():
        is_valid, accepted = _ARGUMENTS[name]
        if not is_valid(value):
            raise InputError(f"wrong argument {name} of {kind}", value=value, accepted=accepted)
    return dict(asked)


def _is_number(value: Any) -> bool:
    """Return whether a value is a number within the range of floats and JSON."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_setting(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


_ARGUMENTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        ("page", "measure", "topic", "topics", "docno", "plane"),
        (lambda value: isinstance(value, str), "a text"),
    ),
    **dict.fromkeys(("setting", "pinned"), (_is_setting, "numbers by parameters' names")),
    "serial": (lambda value: isinstance(value, int) and _is_number(value), "an integer"),
    "label": (lambda value: value is None or (type(value) is int and 0 <= value <= 3), "0 to 3, or null"),
    "smooth": (lambda value: isinstance(value, bool), "true, false"),
}


class _Guard:
    """Accepts only requests from this page: same host and origin, valid token."""

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse

        if scope["type"] == "http":
            request = Request(scope)
            host, origin = request.headers.get("host", ""), request.headers.get("origin")
            token = request.url.path.lstrip("/").partition("/")[0]
            is_refused = (
                host not in self._hosts
                or origin not in (None, f"http://{host}")
                or not secrets.compare_digest(token.encode(), self._token.encode())
            )
            if is_refused:
                refusal = PlainTextResponse("Access denied: open the address that lmtune printed.\n", 403)
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def make_app(session: Answering, token: str, hosts: frozenset[str]) -> Starlette:
    """Make the application: ``/TOKEN/`` is the page, ``/TOKEN/ask/KIND`` answers posted questions.

    Each session of `Answering.subsessions` has the same routes below ``/TOKEN/PATH/``.

    Parameters
    ----------
    session : Answering
        The session.
    token : str
        The secret first part of every path.
    hosts : frozenset of str
        The accepted values of the Host header, with ports.
    """
    from starlette.applications import Starlette
    from starlette.middleware import Middleware

    sessions = {f"/{token}": session} | {
        f"/{token}/{path}": other for path, other in session.subsessions.items()
    }
    routes = [route for home, one in sessions.items() for route in _routes(home, one)]
    return Starlette(routes=routes, middleware=[Middleware(_Guard, token=token, hosts=hosts)])


def _routes(home: str, session: Answering) -> list[Route]:
    """Return the routes of a session's page below a path."""
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    folder = files("lmtune.explorer") / "site"

    def show(request: Request) -> Response:
        del request
        return HTMLResponse(page(session.script, session.title), headers=_HEADERS)

    def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _FILES:
            return PlainTextResponse("no such file\n", 404)
        return Response((folder / name).read_bytes(), media_type=_FILES[name], headers=_HEADERS)

    async def answered(request: Request, work: Callable[[dict[str, Any]], Response]) -> Response:
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import ClientDisconnect

        try:
            return await run_in_threadpool(work, await _posted(request))
        except ClientDisconnect:
            return Response(status_code=_DISCONNECTED)
        except OutdatedError:
            return Response(status_code=409, headers=_HEADERS)
        except Exception as error:
            status = 400 if isinstance(error, InputError) else 500
            return JSONResponse({"error": visible(error_line(error))}, status, headers=_HEADERS)

    async def ask(request: Request) -> Response:
        kind = request.path_params["kind"]
        return await answered(
            request, lambda asked: JSONResponse(session.answer(kind, asked), headers=_HEADERS)
        )

    async def export(request: Request) -> Response:
        return await answered(request, lambda asked: HTMLResponse(session.export(asked), headers=_HEADERS))

    return [
        Route(f"{home}/", show),
        Route(f"{home}/ask/{{kind}}", ask, methods=["POST"]),
        Route(f"{home}/export", export, methods=["POST"]),
        Route(f"{home}/{{name}}", file),
    ]


async def _posted(request: Request) -> dict[str, Any]:
    """Read the posted JSON object.

    Raises
    ------
    InputError
        If the body is anything else, or too long.
    """
    try:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _LONGEST:
                raise ValueError("too long")
        return require_types(parse_json(body), {})
    except ValueError as error:
        accepted = f"a JSON object of at most {_LONGEST} bytes"
        raise InputError(f"not a question ({error})", accepted=accepted) from None


def serve(session: Answering, host: str, port: int, opened: Callable[[str], None]) -> None:
    """Serve a page until Ctrl-C.

    Parameters
    ----------
    session : Answering
        The session.
    host : str
        An address of this machine.
    port : int
        The port; 0 for a free one.
    opened : callable
        Called with the page's address when the server listens.

    Raises
    ------
    InputError
        If the address is not available.
    """
    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise InputError(
                f"cannot listen on this address ({error.strerror})",
                value=f"{host}:{port}",
                accepted="--port 0",
            ) from None
        number, token = listening.getsockname()[1], secrets.token_urlsafe(24)
        named = f"[{host}]" if family == socket.AF_INET6 else host
        hosts = frozenset(f"{name}:{number}" for name in (named, "localhost"))
        app = make_app(session, token, hosts)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))
        listening.listen()
        opened(f"http://{named}:{number}/{token}/")
        try:
            server.run(sockets=[listening])
        finally:
            session.end()


class Sheet(NamedTuple):
    """A file of pairs to judge, with the texts of topics and documents.

    Attributes
    ----------
    path : Path
        The file; each answer reads it again.
    queries : mapping of str to str
        The topics' texts.
    texts : Texts or None
        The documents' texts, if available.
    """

    path: Path
    queries: Mapping[str, str]
    texts: Texts | None


def pairs(sheet: Sheet) -> dict[str, Any]:
    """Return the file's name and pairs."""
    return {
        "name": sheet.path.name,
        "pairs": [
            entry._asdict() | {"text": sheet.queries.get(entry.topic, "")} for entry in read_sheet(sheet.path)
        ],
    }


def document(sheet: Sheet, topic: str, docno: str) -> dict[str, Any]:
    """Return a document's text in pieces as `answers.marked`, or the reason why there is none."""
    if sheet.texts is None:
        return {"text": None, "why": "No text: name the collection with --collection."}
    try:
        text, index = sheet.texts.of([docno])[0], sheet.texts.index
        if not text:
            return {"text": None, "why": "The document has no text."}
        terms = index.analyze(sheet.queries.get(topic, ""))
        return {"text": answers.marked(index, text, terms), "why": ""}
    except InputError as error:
        return {"text": None, "why": str(error)}


def save_label(sheet: Sheet, topic: str, docno: str, label: int | None) -> dict[str, Any]:
    """Save a label, or remove it with None; return the saved labels of all pairs."""
    return {"labels": [entry.label for entry in put_label(sheet.path, topic, docno, label)]}


class Labelling(Answering):
    """The session of the page for judging pairs."""

    script = "judge"

    def __init__(self, sheet: Sheet) -> None:
        self.title = f"Judge pairs: {sheet.path.name} · lmtune judge"
        works: dict[str, Callable[..., Any]] = {"pairs": pairs, "document": document, "labelled": save_label}
        super().__init__({kind: partial(work, sheet) for kind, work in works.items()})
