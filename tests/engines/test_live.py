"""Tuning of a query on a running engine, against a mock of ``_msearch``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_live_engine import MadeEngine, made_texts, rank, send, serving
from scripts import Printed, run_command

from lmtune.engines import live
from lmtune.engines.live import LiveEngine, LiveOptions, QueryTemplate
from lmtune.engines.live_tuning import query_space
from lmtune.errors import InputError
from lmtune.io.runs import read_run
from lmtune.measures.from_files import topic_values
from lmtune.tuning.experiment.stored import read_results

TOPICS = [str(number) for number in range(1, 9)]
TEXTS, QRELS = made_texts(TOPICS)
TEMPLATE = (
    '{"query": {"multi_match": {"query": "{{query}}", "type": "most_fields",'
    ' "fields": ["title^{{title}}", "body"]}}}'
)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_WAITS", [0.0, 0.0])
    for name in (live.API_KEY, live.USER, live.PASSWORD):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def engine() -> Iterator[MadeEngine]:
    with serving(TEXTS) as made:
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "query.json").write_text(TEMPLATE)
    (tmp_path / "topics.tsv").write_text("".join(f"{topic}\tword{topic}\n" for topic in TOPICS))
    lines = [f"{t} 0 {d} {gain}\n" for t, gains in QRELS.items() for d, gain in gains.items()]
    (tmp_path / "qrels.txt").write_text("".join(lines))
    return tmp_path


def tune(home: Path, url: str, *more: str, ranges: str = "title=0.01,10", status: int = 0) -> Printed:
    files = ("--topics", home / "topics.tsv", "--qrels", home / "qrels.txt", "--query", home / "query.json")
    return run_command("tune-engine", (url,), *files, f"--range {ranges}", *more, status=status)


def threshold() -> float:
    """Return the title's boost above which all relevant documents rank first, from the formula."""
    title, body = ({t: dict(rank(TEXTS, f"word{t}", {f: 1.0})) for t in TOPICS} for f in ("title", "body"))
    return max(body[t][f"{t}-n0"] / title[t][f"{t}-r0"] for t in TOPICS)


def test_the_optimum_of_a_known_formula_is_found(engine: MadeEngine, home: Path) -> None:
    words = ("-m", "AP", "--baseline", "title=0.1", "--output", str(home / "results"), "--format", "json")
    out = tune(home, engine.url, *words).out
    assert 0.1 < threshold() < 10.0
    default, tuned = json.loads(out)
    assert tuned["mean"] == 1.0
    others = [2 + n % 3 for n in range(len(TOPICS))]
    expected = np.mean([np.mean([hit / (m + hit) for hit in (1, 2, 3)]) for m in others])
    assert default["mean"] == pytest.approx(expected)
    assert tuned["final"]["params"]["title"] > threshold()
    assert tuned["recommended"]
    assert tuned["p_value_default"] < 0.05
    run_command("report", home / "results")
    query = json.loads((home / "results" / "query.json").read_text())["query"]["multi_match"]
    assert query["query"] == "{{query}}"
    assert float(query["fields"][0].removeprefix("title^")) == pytest.approx(tuned["setting"]["title"])


def test_results_are_the_measures_of_the_rankings(engine: MadeEngine, home: Path) -> None:
    tune(home, engine.url, "-m nDCG@3 -m P@2 --folds 4 --output", str(home / "out"))
    result = read_results(home / "out").results[0]
    assert [(str(row.measure), row.method) for row in result.rows] == [
        ("nDCG@3", "Default"), ("nDCG@3", "Direct"), ("P@2", "Default"), ("P@2", "Direct"),
    ]  # fmt: skip
    assert len(result.folds) == 4
    for row in result.rows:
        setting = {t: fit.params for fold, fit in zip(result.folds, row.fits, strict=True) for t in fold.test}
        run = {
            t: {
                docno: -place
                for place, (docno, _) in enumerate(rank(TEXTS, f"word{t}", {**setting[t], "body": 1}))
            }
            for t in TOPICS
        }
        expected = topic_values(QRELS, run, str(row.measure)).iloc[:, 0]
        np.testing.assert_allclose(row.values, expected.loc[list(row.topics)])
        name = "default" if row.method == "Default" else f"direct-{row.measure}"
        written = read_run(home / "out" / "runs" / "made" / f"{name}.run.gz")
        assert {t: list(docs) for t, docs in written.items()} == {t: list(docs) for t, docs in run.items()}


def test_a_search_is_resumed_from_its_cache(engine: MadeEngine, home: Path) -> None:
    stored = ["--cache", str(home / "cache"), "--format", "json"]
    first = tune(home, engine.url, *stored)
    asked = engine.searches
    assert asked == len(TOPICS) * len(list((home / "cache").iterdir()))
    assert tune(home, engine.url, *stored) == first
    assert engine.searches == asked
    tune(home, engine.url, "--depth 5", *stored)  # another depth is another run
    assert engine.searches > asked


def test_topics_are_sent_in_batches(engine: MadeEngine, home: Path) -> None:
    whole = tune(home, engine.url, "--format json")
    one_request = sum(path.endswith("_msearch") for path, _ in engine.requests)
    engine.requests.clear()
    assert tune(home, engine.url, "--batch 3 --format json") == whole
    assert sum(path.endswith("_msearch") for path, _ in engine.requests) == 3 * one_request


def test_whole_parameters_are_written_without_decimals(home: Path) -> None:
    def copies(texts: Any, body: Any) -> list[tuple[str, float]]:
        # The field "copy3" alone ranks by the title, as a copy of the text with a similarity of its own may.
        [(field, query)] = body["query"]["match"].items()
        return rank(texts, query, {"title": 9.0 if field == "copy3" else 0.1, "body": 1.0})

    (home / "query.json").write_text('{"query": {"match": {"copy{{copy}}": "{{query}}"}}}')
    with serving(TEXTS, copies) as engine:
        out = tune(home, engine.url, "--whole copy -m AP --format json", ranges="copy=1,4").out
    default, tuned = json.loads(out)
    assert (default["setting"], tuned["setting"]) == ({"copy": 1.0}, {"copy": 3.0})
    assert tuned["mean"] == 1.0


def test_docnos_may_come_from_a_field(engine: MadeEngine) -> None:
    bodies = {"1": QueryTemplate(TEMPLATE, Path("q.json")).body("word1", {"title": 2.0})}
    by_id = LiveEngine(engine.url, LiveOptions()).search(bodies)
    by_field = LiveEngine(engine.url, LiveOptions(docno_field="meta.name")).search(bodies)
    assert by_field["1"] == [f"n-{docno}" for docno in by_id["1"]]
    with pytest.raises(InputError, match="has no docno in its field meta"):
        LiveEngine(engine.url, LiveOptions(docno_field="meta.other")).search(bodies)


@pytest.mark.parametrize("query", ['say "hi"', "back\\slash", "{{title}}", "ünï\n\tcode\x01"])
def test_a_query_is_escaped(query: str) -> None:
    body = QueryTemplate(TEMPLATE, Path("q.json")).body(query, {"title": 0.25})
    assert body["query"]["multi_match"]["query"] == query
    assert body["query"]["multi_match"]["fields"] == ["title^0.25", "body"]


def _failed(_: Any, answers: list[Any]) -> list[Any]:
    error = {"root_cause": [{"type": "parsing_exception", "reason": "unknown query [mtch]"}], "type": "x"}
    return [*answers[:2], {"error": error, "status": 400}, *answers[3:]]


def _partial(_: Any, answers: list[Any]) -> list[Any]:
    failure = {
        "shard": 0,
        "index": "made",
        "reason": {"type": "circuit_breaking_exception", "reason": "full"},
    }
    shards = {"total": 5, "successful": 4, "skipped": 0, "failed": 1, "failures": [failure]}
    return [answers[0] | {"_shards": shards}, *answers[1:]]


def _late(_: Any, answers: list[Any]) -> list[Any]:
    return [answers[0] | {"timed_out": True}, *answers[1:]]


def _slow(*_: Any) -> None:
    time.sleep(0.6)


def _broken(handler: Any, _: list[Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "5")
    handler.end_headers()
    handler.wfile.write(b"<html")


def _unknown(handler: Any, _: list[Any]) -> None:
    send(handler, 401, {"error": {"type": "security_exception", "reason": "missing credentials"}})


def _moved(handler: Any, _: list[Any]) -> None:
    send(handler, 302, {}, Location="http://127.0.0.1:1/elsewhere")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (_failed, "the search of topic 3 failed: parsing_exception: unknown query [mtch]"),
        (_partial, "topic 1: 1 shard of 5 failed: circuit_breaking_exception: full"),
        (_late, "the search of topic 1 timed out in the engine"),
        (_slow, "no answer from the engine: timed out"),
        (_broken, "the answer is not JSON"),
        (lambda _, answers: answers[1:], "not an answer of _msearch"),
        (_unknown, "the engine answered 401: security_exception: missing credentials; accepted"),
        (_moved, "the engine answered 302"),
        (lambda _, answers: [one | {"hits": {"hits": []}} for one in answers], "no document for any topic"),
    ],
)
def test_an_error_of_the_engine_is_one_line(
    engine: MadeEngine, home: Path, answer: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(live.API_KEY, "c2VjcmV0")
    engine.instead = [answer]
    out, err = tune(home, engine.url, "--timeout 0.3", status=2)
    assert out == ""
    assert message in err
    assert "c2VjcmV0" not in err
    assert len(err.strip().splitlines()) == 1


def test_a_busy_engine_is_asked_again(engine: MadeEngine, home: Path) -> None:
    expected = tune(home, engine.url)

    def busy(handler: Any, _: list[Any]) -> None:
        send(handler, 503, {"error": "unavailable"})

    def rejected(_: Any, answers: list[Any]) -> list[Any]:
        error = {"type": "es_rejected_execution_exception", "reason": "queue is full"}
        return [{"error": error, "status": 429}, *answers[1:]]

    engine.instead = [busy, rejected]
    assert tune(home, engine.url) == expected
    engine.instead = [rejected] * 3
    err = tune(home, engine.url, status=2).err
    assert "es_rejected_execution_exception: queue is full" in err


def test_credentials_come_from_the_environment(engine: MadeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(live.USER, "ada")
    monkeypatch.setenv(live.PASSWORD, "lovelace")
    LiveEngine(engine.url, LiveOptions())
    monkeypatch.setenv(live.API_KEY, "abc=")
    LiveEngine(engine.url, LiveOptions())
    assert [headers["Authorization"] for _, headers in engine.requests] == [
        "Basic YWRhOmxvdmVsYWNl",
        "ApiKey abc=",
    ]
    monkeypatch.setenv(live.API_KEY, "two\nlines")
    with pytest.raises(InputError, match="bad LMTUNE_ENGINE_API_KEY") as error:
        LiveEngine(engine.url, LiveOptions())
    assert "lines" not in str(error.value)


@pytest.mark.parametrize(
    "url", "localhost:9200/x http://localhost:9200 ftp://h/x http://h/x?y http://[h/x file:///etc/x".split()
)
def test_a_malformed_url_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="bad URL of an index"):
        LiveEngine(url, LiveOptions())
    with pytest.raises(InputError, match="credentials in the URL") as error:
        LiveEngine("http://ada:lovelace@localhost/x", LiveOptions())
    assert "lovelace" not in str(error.value)


def test_bad_input_is_refused_before_the_search(engine: MadeEngine, home: Path) -> None:
    assert (
        "404: index_not_found_exception: no such index"
        in tune(home, engine.url.replace("made", "other"), status=2).err
    )
    (home / "qrels.txt").write_text("".join(f"{topic} 0 other 1\n" for topic in TOPICS))
    assert "no document that the engine returns is judged: " in tune(home, engine.url, status=2).err
    assert engine.searches == len(TOPICS)
    assert "no answer from the engine" in tune(home, "http://127.0.0.1:1/x", status=2).err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"query": 1}', "no {{query}} in the template"),
        ('{"query": {{query}}}', "not JSON when filled in"),
        ('["{{query}}"]', "not the body of a search"),
        ('{"q": "{{query}}", "from": 10}', "not the body of a search"),
        ('{"q": "{{query}}", "boost": {{b', "not JSON when filled in"),
    ],
)
def test_a_bad_template_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        QueryTemplate(text, Path("q.json"))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ranges": {}}, "a parameter of the query has no range: 'a'"),
        ({"ranges": {"a": (0, 1), "b": (0, 1)}}, "--range: the query has no such parameter: 'b'"),
        ({"ranges": {"a": (0, 1)}, "baseline": {"a": 2}}, "--baseline a is outside its range: 2"),
        ({"ranges": {"a": (0.5, 3)}, "whole": ["a"]}, "a is not whole"),
        ({"ranges": {"a": (3, 1)}}, "the a range is empty"),
    ],
)
def test_a_bad_range_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        query_space(["a"], **arguments)
    assert message in str(error.value)


def test_the_scale_and_the_default_follow_from_the_range() -> None:
    space = query_space(["a", "b", "c"], {"a": (0.1, 10), "b": (0, 0.5), "c": (2, 5)})
    assert [parameter.scale for parameter in space.parameters] == ["log", "linear", "linear"]
    assert space.start.tolist() == [1.0, 0.5, 2.0]
