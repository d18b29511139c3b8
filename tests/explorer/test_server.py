"""Who is answered: this page at this address with its token, and nobody else."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from test_answers import PINNED, SETTING, view_of

from lmtune.explorer.view import View

testclient = pytest.importorskip("starlette.testclient", reason="the extra 'explore' is not installed")

TOKEN, HOST = "s3cret-token", "127.0.0.1:9"


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    from lmtune.explorer.server import Session, make_app

    app = make_app(Session(view_of("two-stage")), TOKEN, frozenset({HOST}))
    with testclient.TestClient(app, base_url=f"http://{HOST}") as client:
        yield client


def ask(client: Any, kind: str, **given: object) -> Any:
    return client.post(f"/{TOKEN}/ask/{kind}", content=json.dumps({"page": "p", "serial": 1, **given}))


def test_the_page_may_load_its_own_files_alone(client: Any) -> None:
    page = client.get(f"/{TOKEN}/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self' 'sha256-")
    assert "unsafe" not in policy
    assert page.headers["cache-control"] == "no-store"
    for name in ("main.js", "surface.js", "explore.css"):
        assert client.get(f"/{TOKEN}/{name}").status_code == 200
    for name in ("server.py", "explore.html.j2", "..%2fserver.py"):
        assert client.get(f"/{TOKEN}/{name}").status_code == 404


@pytest.mark.parametrize("path", ["/", "/wrong/", "/wrong/main.js", f"/{TOKEN}x/", "/wrong/ask/measured"])
def test_a_wrong_token_gets_nothing(path: str, client: Any) -> None:
    found = client.get(path)
    assert (found.status_code, found.text) == (403, "Access denied: open the address that lmtune printed.\n")


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:9"},
        {"host": "127.0.0.1:10"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ],
)
def test_other_hosts_and_origins_get_nothing(headers: dict[str, str], client: Any) -> None:
    asked = {"page": "p", "serial": 1, "setting": SETTING}
    assert client.post(f"/{TOKEN}/ask/measured", json=asked, headers=headers).status_code == 403
    assert client.get(f"/{TOKEN}/", headers=headers).status_code == 403


def test_questions_are_answered(client: Any) -> None:
    assert len(ask(client, "description").json()["topics"]) == 6
    assert len(ask(client, "measured", setting=SETTING).json()["means"]) == 2
    export = client.post(
        f"/{TOKEN}/export", json={"setting": SETTING, "pinned": PINNED, "measure": "AP", "plane": ""}
    )
    assert export.text.startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("measured", {"setting": {"lambda": 7}}, "lambda"),
        ("measured", {"setting": 7}, "wrong argument setting of measured"),
        ("measured", {}, "wrong arguments of measured"),
        ("nothing", {}, "unknown question"),
        ("ranked", {"topic": "77", "setting": {}, "pinned": {}}, "topic"),
        (
            "surface",
            {"setting": {}, "measure": "RBP", "smooth": False, "topics": "", "plane": ""},
            "measures",
        ),
        (
            "surface",
            {"setting": {}, "measure": ["AP"], "smooth": False, "topics": "", "plane": ""},
            "measure",
        ),
        ("surface", {"setting": {}, "measure": "AP", "smooth": "yes", "topics": "", "plane": ""}, "smooth"),
        (
            "surface",
            {"setting": {}, "measure": "AP", "smooth": False, "topics": "11", "plane": ""},
            "selection of topics",
        ),
        (
            "surface",
            {"setting": {}, "measure": "AP", "smooth": False, "topics": "000000", "plane": ""},
            "selection of topics",
        ),
        (
            "surface",
            {"setting": {}, "measure": "AP", "smooth": False, "topics": "1000x0", "plane": ""},
            "selection of topics",
        ),
        ("measured", {"setting": {"mu": "5"}}, "setting"),
        ("measured", {"setting": {"mu": 10**400}}, "is not finite or too large"),
        ("measured", {"setting": {"\ud800": 1}}, "no such parameter"),
        ("measured", {"setting": {}, "more": 1}, "wrong arguments of measured"),
        ("ranked", {"topic": "\ud800", "setting": {}, "pinned": {}}, "topic"),
    ],
)
def test_bad_requests_are_one_line(kind: str, given: dict[str, object], said: str, client: Any) -> None:
    found = ask(client, kind, **given)
    assert found.status_code == 400
    assert said in found.json()["error"]
    assert "\n" not in found.json()["error"]


def test_bodies_that_are_no_json_are_refused(client: Any) -> None:
    for body in (b"", b"[1]", b"\xff", b"[" * 5000, b"[" * 70_000):
        assert client.post(f"/{TOKEN}/ask/measured", content=body).status_code == 400
        assert client.post(f"/{TOKEN}/export", content=body).status_code == 400


def test_the_address_answers_from_when_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn

    from lmtune.explorer.server import Session, serve

    told: list[socket.socket] = []

    def opened(address: str) -> None:
        told.append(socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), timeout=5))

    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    serve(Session(view_of("two-stage")), "127.0.0.1", 0, opened)
    told[0].close()


def test_nothing_is_measured_once_the_page_has_ended() -> None:
    from lmtune.explorer.server import Session

    session = Session(view_of("two-stage"))
    before = threading.active_count()
    asked = {"setting": SETTING, "measure": "AP", "smooth": False, "topics": "", "plane": ""}
    session.answer("surface", {"page": "p", "serial": 1, **asked})
    session.end()
    assert threading.active_count() == before - 1


@pytest.mark.parametrize(
    ("serial", "said"),
    [
        *((number, "is not finite") for number in ("Infinity", "-Infinity", "NaN", "1e999", "9" * 400)),
        *((value, "serial") for value in ("true", "null", "1.5", '"1"')),
    ],
)
def test_a_serial_that_is_no_number_is_refused_in_a_line(serial: str, said: str, client: Any) -> None:
    body = f'{{"page": "p", "setting": {{}}, "serial": {serial}}}'
    found = client.post(f"/{TOKEN}/ask/measured", content=body)
    assert found.status_code == 400
    assert said in found.json()["error"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_setting_of_no_finite_numbers_is_refused_in_a_line(number: str, client: Any) -> None:
    body = f'{{"page": "p", "serial": 2, "setting": {{"mu": {number}}}}}'
    assert client.post(f"/{TOKEN}/ask/measured", content=body).status_code == 400
    copied = f'{{"measure": "AP", "pinned": {{}}, "setting": {{"mu": {number}}}}}'
    assert client.post(f"/{TOKEN}/export", content=copied).status_code == 400


@pytest.mark.parametrize("error", [ValueError, TypeError, KeyError, AttributeError, RuntimeError])
def test_an_error_inside_is_no_bad_question(
    error: type[Exception], client: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise error("of its own")

    monkeypatch.setattr(View, "values", fail)
    with caplog.at_level("INFO", "lmtune"):
        found = client.post(
            f"/{TOKEN}/ask/measured", json={"page": "p", "serial": 3, "setting": {"mu": 123.5}}
        )
    assert found.status_code == 500
    assert found.json()["error"].startswith(f"internal error, details in the terminal: {error.__name__}")
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("path", ["ask/measured", "export"])
def test_a_client_that_leaves_in_the_middle_is_no_error(path: str, client: Any) -> None:
    sent: list[Any] = []
    messages = [{"type": "http.request", "body": b'{"page"', "more_body": True}, {"type": "http.disconnect"}]

    async def receive() -> Any:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/{TOKEN}/{path}",
        "headers": [(b"host", HOST.encode())],
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
    }
    asyncio.run(client.app(scope, receive, send))
    assert [message["status"] for message in sent if "status" in message] == [499]
