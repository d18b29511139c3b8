"""Queries to a running OpenSearch or Elasticsearch by ``_msearch``, from a template with parameters.

Source of the requests and answers: the published schemas of ``_msearch`` in OpenSearch 3 and Elasticsearch 9.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np

from lmtune.errors import InputError
from lmtune.io.files import read_bytes
from lmtune.io.runs import Ranking, read_run, write_run
from lmtune.models.parameter import Setting
from lmtune.options import check, option
from lmtune.progress import quantity
from lmtune.strict_json import parse_json

API_KEY, USER, PASSWORD = "LMTUNE_ENGINE_API_KEY", "LMTUNE_ENGINE_USER", "LMTUNE_ENGINE_PASSWORD"
"""Environment variables with the engine's credentials."""

QUERY = "query"
"""The placeholder of the topic's text."""

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_BUSY = (429, 502, 503, 504)
_WAITS = [1.0, 2.0, 4.0]
"""Seconds before a request is repeated that the engine was too busy for."""


@dataclass(frozen=True)
class QueryTemplate:
    """A query in JSON with placeholders: ``{{query}}`` for the topic's text, ``{{NAME}}`` for parameters.

    Attributes
    ----------
    text : str
        The template.
    file : pathlib.Path
        Its file, for messages.

    Raises
    ------
    InputError
        If there is no ``{{query}}``, or the text is not a JSON object once it is filled in.
    """

    text: str
    file: Path

    @classmethod
    def read(cls, file: Path) -> QueryTemplate:
        """Read a template."""
        try:
            return cls(read_bytes(file).decode(), file)
        except UnicodeDecodeError:
            raise InputError("not UTF-8", file=file, accepted="a query in JSON") from None

    def __post_init__(self) -> None:
        if QUERY not in _PLACEHOLDER.findall(self.text):
            raise InputError(
                "no {{query}} in the template", file=self.file, accepted='"{{query}}" in a query'
            )
        self.body('a "quoted" \\ text', dict.fromkeys(self.parameters, 1.0))

    @property
    def parameters(self) -> list[str]:
        """The parameters' names, in the order of their first placeholders."""
        return [name for name in dict.fromkeys(_PLACEHOLDER.findall(self.text)) if name != QUERY]

    def fill(self, query: str, setting: Setting) -> str:
        """Return the template with a topic's text and a setting; numbers have up to nine digits."""
        values = {QUERY: json.dumps(query)[1:-1]} | {name: f"{x:.9g}" for name, x in setting.items()}
        return _PLACEHOLDER.sub(lambda match: values[match[1]], self.text)

    def body(self, query: str, setting: Setting) -> dict[str, Any]:
        """Return the body of a search."""
        try:
            body = parse_json(self.fill(query, setting).encode())
        except ValueError as error:
            accepted = '"{{query}}" in quotes, {{NAME}} as a number or inside a text'
            raise InputError(f"not JSON when filled in: {error}", file=self.file, accepted=accepted) from None
        if not isinstance(body, dict) or "from" in body:
            raise InputError("not the body of a search", file=self.file, accepted="an object without from")
        return body


@dataclass(frozen=True)
class LiveOptions:
    """Requests to the engine."""

    depth: int = option(100, "Documents to ask for; the run depth of measures.", low=1, high=10_000)
    batch: int = option(50, "Topics in one request.", low=1)
    timeout: float = option(60.0, "Seconds to wait for an answer.", above=0)
    docno_field: str | None = option(
        None, "Field of a document's source with its docno; default: the document's _id.", metavar="NAME"
    )

    def __post_init__(self) -> None:
        check(self)


class _NoRedirect(HTTPRedirectHandler):
    """Refuses redirects, which would send the credentials to another host."""

    def redirect_request(self, *_: Any) -> None:
        """Return no request, so that the redirect is an error."""


class LiveEngine:
    """A running OpenSearch or Elasticsearch.

    Parameters
    ----------
    url : str
        The index's URL, such as ``http://localhost:9200/my-index``. Credentials are read from the environment
        variables `API_KEY`, or `USER` and `PASSWORD`.
    options : LiveOptions
        How to ask.

    Attributes
    ----------
    index : str
        The name of the index.
    indexes : list of str
        The unique identifiers of the indexes behind this name.

    Raises
    ------
    InputError
        If the URL is malformed, the engine does not answer, or the index does not exist.
    """

    def __init__(self, url: str, options: LiveOptions) -> None:
        self.options, self.url = options, url.rstrip("/")
        host, _, self.index = self.url.rpartition("/")
        accepted = f"http://HOST:PORT/INDEX; credentials in {API_KEY}, or {USER} and {PASSWORD}"
        if "@" in url:
            raise InputError("credentials in the URL", accepted=accepted)
        try:
            parts, named = urlsplit(self.url), bool(urlsplit(host).hostname)
        except ValueError:
            parts, named = urlsplit(""), False
        if parts.scheme not in ("http", "https") or not named or parts.query or parts.fragment:
            raise InputError("bad URL of an index", value=url, accepted=accepted)
        self.url = f"{host}/{quote(self.index, safe=',*%')}"
        self._headers = {"Accept": "application/json", **_authorization()}
        self._opener = build_opener(_NoRedirect)
        described = self._ask("")
        if not described:
            raise InputError("no index has this name", value=self.index, accepted="an index of the engine")
        own = [known.get("settings", {}).get("index", {}) for known in described.values()]
        self.indexes = sorted(str(known.get("uuid")) for known in own)

    def search(self, bodies: Mapping[str, dict[str, Any]]) -> dict[str, list[str]]:
        """Return the docnos of each topic's ranking, in the engine's order; a repeated docno counts once.

        Parameters
        ----------
        bodies : mapping of str to dict
            A search by topic. Its ``size`` and ``_source`` are replaced.

        Raises
        ------
        InputError
            If the engine does not answer, or a search fails or is incomplete.
        """
        topics = list(bodies)
        found: dict[str, list[str]] = {}
        for first in range(0, len(topics), self.options.batch):
            part = topics[first : first + self.options.batch]
            found |= zip(part, self._search_together(part, bodies), strict=True)
        return found

    def _search_together(
        self, topics: Sequence[str], bodies: Mapping[str, dict[str, Any]]
    ) -> Iterator[list[str]]:
        """Send one ``_msearch``; repeat it while the engine rejects searches because it is busy."""
        field = self.options.docno_field
        ours = {"size": self.options.depth, "_source": [field] if field else False, "track_total_hits": False}
        lines = [line for topic in topics for line in ({}, bodies[topic] | ours)]
        data = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        answers: Any = None
        for wait in [*_WAITS, None]:
            answers = self._ask("/_msearch", data).get("responses")
            if not isinstance(answers, list) or len(answers) != len(topics):
                raise self._wrong("not an answer of _msearch", value=type(answers).__name__)
            busy = any(answer.get("status") in _BUSY for answer in answers)
            if wait is None or not busy:
                break
            time.sleep(wait)
        for topic, answer in zip(topics, answers, strict=True):
            self._check_search(topic, answer)
            yield list(dict.fromkeys(self._docno(hit) for hit in answer["hits"]["hits"]))

    def _check_search(self, topic: str, answer: Mapping[str, Any]) -> None:
        """Raise `InputError` if a search failed, timed out, or lacks the documents of a shard."""
        if "error" in answer:
            raise self._wrong(f"the search of topic {topic} failed: {_reason(answer['error'])}")
        shards = answer.get("_shards", {})
        if failed := shards.get("failed"):
            reasons = [_reason(failure.get("reason")) for failure in shards.get("failures", ())[:1]]
            text = f"topic {topic}: {quantity(failed, 'shard')} of {shards['total']} failed"
            raise self._wrong(": ".join([text, *reasons]))
        if answer.get("timed_out"):
            raise self._wrong(f"the search of topic {topic} timed out in the engine")
        if "hits" not in answer:
            raise self._wrong(f"topic {topic}: the answer has no hits")

    def _docno(self, hit: Mapping[str, Any]) -> str:
        field = self.options.docno_field
        if field is None:
            return str(hit["_id"])
        source = hit.get("_source", {})
        value: Any = source.get(field)
        if value is None:
            value = source
            for name in field.split("."):
                value = value.get(name) if isinstance(value, dict) else None
        if not isinstance(value, str | int):
            raise self._wrong(f"document {hit['_id']} has no docno in its field {field}", value=value)
        return str(value)

    def _ask(self, path: str, data: bytes | None = None) -> dict[str, Any]:
        """Send a request and return the answer, a JSON object."""
        kind = {} if data is None else {"Content-Type": "application/x-ndjson"}
        request = Request(f"{self.url}{path}", data, self._headers | kind)
        for wait in [*_WAITS, None]:
            try:
                with self._opener.open(request, timeout=self.options.timeout) as answer:
                    content = parse_json(answer.read())
                break
            except HTTPError as error:
                if wait is None or error.code not in _BUSY:
                    raise self._refused(error) from None
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", error)
                raise self._wrong(f"no answer from the engine: {reason or type(error).__name__}") from None
            except ValueError as error:
                raise self._wrong(f"the answer is not JSON: {error}") from None
            time.sleep(wait)
        if not isinstance(content, dict):
            raise self._wrong("the answer is not a JSON object")
        return content

    def _refused(self, error: HTTPError) -> InputError:
        """Return the error for an HTTP status, with the engine's reason."""
        try:
            reason = _reason(parse_json(error.read())["error"])
        except (OSError, ValueError, TypeError, KeyError, http.client.HTTPException):
            reason = error.reason
        known = {401: f"credentials in {API_KEY}, or {USER} and {PASSWORD}", 404: "the name of an index"}
        return self._wrong(f"the engine answered {error.code}: {reason}", accepted=known.get(error.code))

    def _wrong(self, message: str, **more: Any) -> InputError:
        return InputError(f"{self.url}: {message}", **more)


class LiveRankings:
    """The engine's rankings of topics at settings, kept in a folder so that a search can be resumed.

    Parameters
    ----------
    engine : LiveEngine
        The engine.
    template : QueryTemplate
        The query.
    topics : mapping of str to str
        The topics' texts.
    cache : pathlib.Path, optional
        The folder of runs. A run is asked for again if the query, the topics, the depth or the index's
        identifier changes, but not if documents of the index change.
    """

    def __init__(
        self, engine: LiveEngine, template: QueryTemplate, topics: Mapping[str, str], cache: Path | None
    ) -> None:
        self.engine, self.template, self.topics, self.cache = engine, template, topics, cache

    @cached_property
    def _key(self) -> str:
        engine, options = self.engine, self.engine.options
        key = [engine.url, engine.indexes, self.template.text, dict(self.topics), options.depth]
        return json.dumps([*key, options.docno_field])

    def at(self, setting: Setting) -> dict[str, list[str]]:
        """Return each topic's docnos at a setting, best first; topics without a document have none."""
        name = blake2b(f"{self._key}{json.dumps(dict(setting))}".encode(), digest_size=16).hexdigest()
        file = None if self.cache is None else self.cache / f"{name}.run.gz"
        if file is not None and file.is_file():
            stored = read_run(file)
            return {topic: list(stored.get(topic, ())) for topic in self.topics}
        found = self.engine.search({t: self.template.body(text, setting) for t, text in self.topics.items()})
        if file is not None and any(found.values()):
            write_run(file, (as_ranking(*one) for one in found.items() if one[1]), tag="live")
        return found


def as_ranking(topic: str, docnos: list[str]) -> Ranking:
    """Return a ranking in the engine's order, which also counts among equal scores."""
    return Ranking(topic, docnos, np.arange(len(docnos), 0.0, -1.0))


def _authorization() -> dict[str, str]:
    """Return the header with the credentials of the environment, if there are any."""
    key, user, password = (os.environ.get(name) for name in (API_KEY, USER, PASSWORD))
    if key:
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise InputError(f"bad {API_KEY}", accepted="the encoded key, one word")
        return {"Authorization": f"ApiKey {key}"}
    if user:
        word = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
        return {"Authorization": f"Basic {word}"}
    return {}


def _reason(error: Any) -> str:
    """Return the engine's reason of an error, with its root cause."""
    if not isinstance(error, Mapping):
        return str(error)
    root = (error.get("root_cause") or [error])[0]
    return f"{root.get('type', 'error')}: {root.get('reason', 'no reason')}"
