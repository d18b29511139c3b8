"""A mock of OpenSearch's and Elasticsearch's ``_msearch``, which ranks a few documents by a known formula."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Texts = Mapping[str, Mapping[str, str]]
"""Documents by identifier, with their fields."""


def field_scores(texts: Texts, field: str, query: str, k1: float = 1.2, b: float = 0.75) -> dict[str, float]:
    """Return Lucene's BM25 of a field, with exact lengths."""
    tokens = {name: fields[field].split() for name, fields in texts.items()}
    mean = sum(map(len, tokens.values())) / len(tokens)
    scores: dict[str, float] = {}
    for term in query.split():
        df = sum(term in words for words in tokens.values())
        idf = math.log(1.0 + (len(tokens) - df + 0.5) / (df + 0.5))
        for name, words in tokens.items():
            if tf := words.count(term):
                part = idf * tf / (tf + k1 * (1.0 - b + b * len(words) / mean))
                scores[name] = scores.get(name, 0.0) + part
    return scores


def rank(texts: Texts, query: str, boosts: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the documents by the boosted sum of their fields' scores, ties by identifier."""
    total: dict[str, float] = {}
    for field, boost in boosts.items():
        for name, score in field_scores(texts, field, query).items():
            total[name] = total.get(name, 0.0) + boost * score
    return sorted(total.items(), key=lambda item: (-item[1], item[0]))


def multi_match(texts: Texts, body: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Answer a ``multi_match`` of type ``most_fields``."""
    match = body["query"]["multi_match"]
    assert match["type"] == "most_fields"
    named = (field.partition("^") for field in match["fields"])
    return rank(texts, match["query"], {field: float(boost or 1) for field, _, boost in named})


class MadeEngine:
    """The mock: its URL, the requests that came, and answers to give instead of the next ones."""

    def __init__(self, texts: Texts, answer: Callable[..., list[tuple[str, float]]]) -> None:
        self.texts, self.answer = texts, answer
        self.url = ""
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.searches = 0
        self.instead: list[Callable[[BaseHTTPRequestHandler, list[Any]], Any]] = []

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.requests.append((handler.path, dict(handler.headers)))
        if handler.command == "GET":
            known = handler.path == "/made"
            missing = {
                "error": {"type": "index_not_found_exception", "reason": "no such index"},
                "status": 404,
            }
            described = {"made": {"aliases": {}, "mappings": {}, "settings": {"index": {"uuid": "u1"}}}}
            send(handler, 200 if known else 404, described if known else missing)
            return
        assert handler.path == "/made/_msearch"
        assert handler.headers["Content-Type"] == "application/x-ndjson"
        assert raw.endswith(b"\n")
        lines = [json.loads(line) for line in raw.decode().splitlines()]
        assert lines[0::2] == [{}] * (len(lines) // 2)
        answers = [self.search(body) for body in lines[1::2]]
        if self.instead:
            answers = self.instead.pop(0)(handler, answers)
        if answers is not None:
            self.searches += len(answers)
            send(handler, 200, {"took": 1, "responses": answers})

    def search(self, body: Mapping[str, Any]) -> dict[str, Any]:
        found = self.answer(self.texts, body)[: body["size"]]
        hits = []
        for name, score in found:
            source = {} if body["_source"] is False else {"_source": {"meta": {"name": f"n-{name}"}}}
            hits.append({"_index": "made", "_id": name, "_score": score, **source})
        shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
        best = max((score for _, score in found), default=None)
        return {
            "took": 1,
            "timed_out": False,
            "_shards": shards,
            "hits": {"max_score": best, "hits": hits},
            "status": 200,
        }


def send(handler: BaseHTTPRequestHandler, status: int, content: Any, **headers: str) -> None:
    data = json.dumps(content).encode()
    handler.send_response(status)
    for name, value in {
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
        **headers,
    }.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


@contextmanager
def serving(
    texts: Texts, answer: Callable[..., list[tuple[str, float]]] = multi_match
) -> Iterator[MadeEngine]:
    """Serve the mock on a free port while the block runs."""
    engine = MadeEngine(texts, answer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            engine.respond(self)

        do_POST = do_GET  # noqa: N815 - http.server's name

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    engine.url = f"http://127.0.0.1:{server.server_port}/made"
    try:
        yield engine
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def made_texts(topics: Sequence[str]) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, int]]]:
    """Return documents and judgments: the topic's word is in the title of relevant ones, else in the body.

    Topic number n has three relevant documents and 2, 3 or 4 others.
    """
    texts: dict[str, dict[str, str]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for n, topic in enumerate(topics):
        word = f"word{topic}"
        relevant = [f"{topic}-r{d}" for d in range(3)]
        others = [f"{topic}-n{d}" for d in range(2 + n % 3)]
        texts |= {docno: {"title": f"{word} alpha", "body": "beta gamma delta"} for docno in relevant}
        texts |= {docno: {"title": "alpha beta", "body": f"{word} {word} {word} gamma"} for docno in others}
        qrels[topic] = dict.fromkeys(relevant, 1 + n % 2) | dict.fromkeys(others, 0)
    return texts, qrels
