"""Mutated files: what an independent reader makes of them, or an InputError of one line.

`make attack` runs more cases: ``LMTUNE_FUZZ_CASES`` is their number over all formats.
"""

from __future__ import annotations

import html
import json
import os
import random
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from reported import made_results, write_made

from lmtune.engines.catalogue import read_engine
from lmtune.errors import InputError
from lmtune.fusion.methods import read_fusion
from lmtune.io.columns import read_run_columns
from lmtune.io.file_documents import FileDocuments
from lmtune.io.letor import read_letor
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.io.term_values import read_term_values
from lmtune.io.topics import read_topics
from lmtune.tuning.experiment.stored import read_results

CASES = int(os.environ.get("LMTUNE_FUZZ_CASES", "2000"))

NUMBER = rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_ROW = re.compile(
    rb"[ \t]*(%s)[ \t]+qid:([^ \t#]+)((?:[ \t]+[0-9]+:%s)*)[ \t]*(?:#.*)?" % (NUMBER, NUMBER), re.S
)

# What breaks parsers: ends and beginnings of everything, odd numbers, odd characters.
PIECES = [
    *(b"\n", b"\r", b"\r\n", b"\t", b" ", b"\0", b"\x0b", b"\x1c", b"\xef\xbb\xbf", b"\xff", b"\xc3\xa9"),
    *(b"\xc2\x85", b"\xe2\x80\xa8", b"#", b"$", b"%s", b'"', b"'", b"\\", b"{", b"}", b"[", b"[" * 3000),
    *(b":", b",", b"x" * 5000, b"<DOC>", b"</DOC>", b"<DOC ", b"<DOCNO>", b"</DOCNO>", b"<TEXT>"),
    *(b"</TEXT>", b"<TEXT ", b"<HL>", b"<", b">", b"<!--", b"-->", b"&amp;", b"&#0;", b"&#x110000;"),
    *(b"<top>", b"</top>", b"<num>", b"<title>", b"<desc>", b"<a>", b"0", b"-1", b"1e400", b"1e-400"),
    *(b"nan", b"inf", b"-0", b"1_0", b"9" * 12, b"9" * 5000, b"0.1", b"+", b".", b"qid:", b"1:1", b"65536:1"),
    *(b"65537:1", b"0:1", b"# docid = x", b"null", b"true", b'"id":', b"\\ud800", b"Q0"),
]


class Format(NamedTuple):
    """A valid file, how it is read, and how a second reader does: ValueError where it is bad.

    The second reader gives None where it does not know. Some formats are known by the file's name.
    """

    seed: bytes
    read: Callable[[Path], Any]
    again: Callable[[bytes], Any]
    name: str = "file.txt"


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Change a file in one to four places."""
    for _ in range(draw.randint(1, 4)):
        at, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
        end = min(end, at + draw.choice([1, 4, 30]))
        lines = data.split(b"\n")
        one, two = draw.randrange(len(lines)), draw.randrange(len(lines))
        way = draw.randrange(7)
        if way == 0 and data:
            at = min(at, len(data) - 1)
            data = data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
        elif way == 1:
            data = data[:at] + draw.choice(PIECES) + data[at:]
        elif way == 2:
            data = data[:at] + draw.choice(PIECES) + data[end:]
        elif way == 3:
            data = data[:at] + data[end:]
        elif way == 4:
            lines[one], lines[two] = lines[two], lines[one]
            data = b"\n".join(lines)
        elif way == 5:
            data = b"\n".join([*lines[:one], lines[two], *lines[one:]])
        else:
            data = data[:at] if draw.random() < 0.2 else b"\n".join(lines[:one] + lines[one + 1 :])
    return data


def unknown(data: bytes) -> None:
    """Leave it to the first reader: only its errors are looked at."""


def judgments(data: bytes) -> dict[str, dict[str, int]]:
    rows = [line.split() for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    rows = [row for row in rows if row and not row[0].startswith(b"#")]
    beir = bool(rows) and [cell.lower().replace(b"_", b"-") for cell in rows[0]] == [
        b"query-id",
        b"corpus-id",
        b"score",
    ]
    found: dict[str, dict[str, int]] = {}
    for row in rows[beir:]:
        if len(row) != (3 if beir else 4) or not re.fullmatch(rb"[+-]?[0-9]{1,9}(\.0*)?", row[-1]):
            raise ValueError(row)
        own = found.setdefault(row[0].decode(), {})
        if row[-2].decode() in own:
            raise ValueError("twice")
        own[row[-2].decode()] = int(row[-1].partition(b".")[0])
    if not found:
        raise ValueError("none")
    return found


def run(data: bytes) -> dict[str, dict[str, float]] | None:
    found: dict[str, dict[str, float]] = {}
    tags = set()
    fields = next((line.split() for line in data.split(b"\n") if line.split()), [])
    if len(fields) == 3:  # a run of MS MARCO, which has no scores
        return None
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if not line.split() or line.lstrip().startswith(b"#"):
            continue
        topic, _, docno, rank, score, tag = line.split()
        if b"\r" in line.rstrip(b"\r") or not re.fullmatch(rb"[+-]?[0-9]+", rank):
            raise ValueError("a rank")
        if not re.fullmatch(NUMBER, score) or abs(float(score)) == float("inf"):
            raise ValueError("a score")
        own = found.setdefault(topic.decode(), {})
        if docno.decode() in own:
            raise ValueError("twice")
        own[docno.decode()] = float(score)
        tags.add(tag)
    if len(tags) != 1:
        raise ValueError("tags")
    return found


def words(data: bytes) -> dict[str, dict[str, float]]:
    lines = [line.removesuffix("\r") for line in data.removeprefix(b"\xef\xbb\xbf").decode().split("\n")]
    found: dict[str, dict[str, float]] = {}
    for line in filter(str.strip, lines):
        topic, word, text = map(str.strip, line.split("\t"))
        value = float(text)
        if not topic or not word or word in found.get(topic, {}) or value - value != 0.0 or "_" in text:
            raise ValueError(line)
        found.setdefault(topic, {})[word] = value
    if not found:
        raise ValueError("none")
    return found


def topics(data: bytes) -> dict[str, str] | None:
    lines = [line.removesuffix("\r") for line in data.removeprefix(b"\xef\xbb\xbf").decode().split("\n")]
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise ValueError("none")
    first = lines[0].lstrip()
    if first.startswith("<") and "\t" not in first.strip():
        return None
    pairs = list(map(_json_topic, lines)) if first.startswith("{") else [_columns(line) for line in lines]
    ids, texts = "_id id qid query_id topic_id topic number num", "text title query question"
    headers = {(name, text) for name in ids.split() for text in texts.split()}
    if not first.startswith("{"):
        name, text = (cell.strip().lower() for cell in pairs[0])
        if name in ("qid", "query_id", "query-id", "topic_id") or (name, text) in headers:
            pairs = pairs[1:]
    found = {identifier: " ".join(text.split()) for identifier, text in pairs}
    proper = all(text and re.fullmatch(r"\S+", name) and name.isprintable() for name, text in found.items())
    if len(found) < len(pairs) or not found or not proper:
        raise ValueError("bad or repeated")
    return found


def _columns(line: str) -> tuple[str, str]:
    identifier, text = line.strip("\r\n ").split("\t")
    return identifier.strip(), text


def _json_topic(line: str) -> tuple[str, str]:
    record = _json_object(line)
    identifier = _first(record, "_id", "id", "qid", "query_id", "topic_id", "topic")
    text = _first(record, "text", "title", "query")
    if type(identifier) not in (str, int) or type(text) is not str:
        raise ValueError("kinds")
    return str(identifier), text.encode("utf-8", "replace").decode()


def _first(record: dict[str, Any], *keys: str) -> Any:
    for key in keys:
        if key in record:
            return record[key]
    raise ValueError("not there")


def _json_object(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(record, dict):
        raise ValueError("no object")
    return record


def json_documents(data: bytes) -> list[tuple[str, str]]:
    found = []
    for line in data.removeprefix(b"\xef\xbb\xbf").decode().split("\n"):
        if not line.strip():
            continue
        record = _json_object(line)
        name = _first(record, "id", "_id", "docid", "docno")
        if "contents" in record:
            text = record["contents"]
        else:
            text = record["text"] if "text" in record else record["body"]
            title = record.get("title")
            if not isinstance(title, str | None):
                raise ValueError("a title")
            text = f"{title}\n{text}" if title and isinstance(text, str) else text
        if type(name) not in (str, int) or type(text) is not str or not re.fullmatch(r"\S+", str(name)):
            raise ValueError("kinds")
        str(name).encode()
        found.append((str(name), text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")))
    return found


def news(data: bytes) -> list[tuple[str, str]] | None:
    """Read documents as they are framed, each tag looked for in all that is left."""
    *records, rest = re.split(rb"</DOC\s*>", data.removeprefix(b"\xef\xbb\xbf"), flags=re.I)
    found = []
    for record in records:
        opened = re.search(rb"^[ \t]*<DOC(?:\s[^>]*)?>", record, re.I | re.M) or re.match(
            rb"\s*<DOC(?:\s[^>]*)?>", record, re.I
        )
        if opened is None or record[: opened.start()].strip():
            raise ValueError("outside")
        inside = record[opened.end() :]
        if re.search(rb"^[ \t]*<DOC(?:\s[^>]*)?>", record[opened.start() + 4 :], re.I | re.M):
            raise ValueError("unclosed")
        try:
            text = inside.decode()
        except UnicodeDecodeError:
            text = inside.decode("latin-1")
        named = re.search(r"<DOCNO\s*>(.*?)</DOCNO\s*>", text, re.I | re.S)
        if named is None or not re.fullmatch(r"\S+", named[1].strip()):
            raise ValueError("no name")
        if re.search(r"<DOCHDR\s*>", text[named.end() :], re.I):
            return None
        found.append((named[1].strip(), _elements(text[named.end() :])))
    if rest.strip():
        raise ValueError("outside")
    return found


def _elements(text: str) -> str:
    names = "TEXT|HEADLINE|TITLE|HL|HEAD|TTL|DD|DATE|LP|LEADPARA"
    pieces = []
    while (start := re.search(rf"<({names})(?:\s[^>]*)?>", text, re.I)) is not None:
        text = text[start.end() :]
        end = re.search(rf"</{start[1]}\s*>", text, re.I) or re.search(
            rf"(?=<(?:{names})(?:\s[^>]*)?>)|\Z", text, re.I
        )
        assert end is not None
        pieces.append(text[: end.start()])
        text = text[end.end() :]
    plain = (re.sub(r"<[!?/]?[A-Za-z-][^>]*>", " ", piece) for piece in pieces)
    entity = r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
    decoded = (re.sub(entity, lambda e: html.unescape(e[0]), piece).strip() for piece in plain)
    return "\n".join(piece for piece in decoded if piece)


def documents(path: Path) -> list[tuple[str, str]]:
    source = FileDocuments("fuzz", [path], batch_bytes=100)
    return [(docno, text) for batch in source.batches() for _, docno, text in batch.numbered()]


def letor(path: Path) -> list[tuple[str, float, dict[int, float]]]:
    data = read_letor(path, cache=False, docids=False)
    rows = []
    for q, query in enumerate(data.queries):
        for row in range(data.starts[q], data.starts[q + 1]):
            values = {int(f) + 1: float(data.features[row, f]) for f in np.flatnonzero(data.features[row])}
            rows.append((query, float(data.labels[row]), values))
    return rows


def rows(data: bytes) -> list[tuple[str, float, dict[int, float]]] | None:
    found: list[tuple[str, float, dict[int, float]]] = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = line.removesuffix(b"\r")
        if not line.strip(b" \t") or line.strip(b" \t").startswith(b"#"):
            continue
        row = _ROW.fullmatch(line)
        if row is None or (row[1].startswith(b"-") and re.search(rb"[1-9]", re.split(rb"[eE]", row[1])[0])):
            raise ValueError("no row")
        pairs = [part.split(b":") for part in row[3].split()]
        if re.search(rb"[eE][+-]?[0-9]{4}", line):
            return None
        ids = [int(number) for number, _ in pairs]
        if len(set(ids)) < len(ids) or not all(0 <= number <= 65536 for number in ids):
            raise ValueError("features")
        values = {
            number: value for number, (_, text) in zip(ids, pairs, strict=True) if (value := _nearest(text))
        }
        query = row[2].decode()
        if query in [known for known, _, _ in found[:-1]] and query != found[-1][0]:
            raise ValueError("apart")
        found.append((query, _nearest(row[1]), values))
    if not found:
        raise ValueError("none")
    shift = int(b" 0:" in re.sub(rb"[ \t]+0+:", b" 0:", re.sub(rb"#.*", b"", data)))  # features from 0
    if any(number + shift > 65536 for _, _, values in found for number in values):
        raise ValueError("features")
    return [(q, label, {n + shift: v for n, v in values.items()}) for q, label, values in found]


def _nearest(text: bytes) -> float:
    exact = Fraction(Decimal(text.decode()))
    if abs(exact) >= (2 - Fraction(1, 2**24)) * 2**127:
        raise ValueError("too large")
    guess = np.float32(float(exact))
    near = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    near = [value for value in near if np.isfinite(value)]
    return float(min(near, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.uint32)) & 1)))


FORMATS: dict[str, Format] = {
    "judgments": Format(
        b"1 0 d1 1\n1 0 d2 0\n2 0 d1 -1\n# a comment\n\n2 0 \xc3\xa9 2\n", read_qrels, judgments
    ),
    "BEIR's judgments": Format(b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t0\n", read_qrels, judgments),
    "run": Format(
        b"1 Q0 d1 1 2.5 t\n1 Q0 d2 2 -1e-3 t\n2 Q0 d1 1 .5 t\r\n\n2 Q0 \xc3\xa9 2 0 t\n",
        lambda path: {
            topic.decode(): dict(zip(map(bytes.decode, docnos), scores, strict=True))
            for topic, (docnos, scores) in read_run_columns(path).topics.items()
        },
        run,
    ),
    "values of words": Format(b"1\tone\t.5\n1\ttwo\t-2e3\n\n2\t\xc3\xa9\t0\n", read_term_values, words),
    "topics": Format(b"qid\tquery\n1\tone word\n2\ttwo\xc3\xa9\n", read_topics, topics),
    "topics in JSON": Format(b'{"_id": "1", "text": "a b"}\n{"id": 2, "title": "c"}\n', read_topics, topics),
    "topics in SGML": Format(
        b"<top>\n<num> Number: 051\n<title> Topic: a <b>c</b>\n\n<desc> Description:\nd\n</top>\n"
        b"<top>\n<num> 2 </num>\n<title> e </title>\n</top>\n",
        read_topics,
        unknown,
    ),
    "documents in JSON": Format(
        b'{"id": "d1", "contents": "a\\u00e9 b"}\n\n{"_id": 2, "title": "c", "text": "d"}\n'
        b'{"docno": "d3", "body": "\\ud83d\\ude00"}\n',
        documents,
        json_documents,
    ),
    "news": Format(
        b"<DOC>\n<DOCNO> d1 </DOCNO>\n<HEAD>a &amp; b</HEAD>\n<TEXT>\nc <F P=1>d</F>\ne < f\n</TEXT>\n"
        b"</DOC>\n"
        b"<DOC>\n<DOCNO>d2</DOCNO>\n<LP>g\n<TEXT>\xe9</TEXT>\n</DOC> <DOC><DOCNO>d3</DOCNO></DOC>\n",
        documents,
        news,
    ),
    "web": Format(
        b"<DOC>\n<DOCNO>w1</DOCNO>\n<DOCHDR>\nhttp://x\n</DOCHDR>\n<html><p>a<b>b</b> &eacute;\n"
        b"<script>c</script><!-- d -->\n</DOC>\n",
        documents,
        unknown,
    ),
    "topics in XML": Format(
        b'<?xml version="1.0" encoding="UTF-8"?>\n<topics task="a">\n<topic number="1">\n'
        b"<query>a &amp; b</query>\n"
        b"<question>c</question>\n</topic>\n<topic><number>2</number><query>d</query></topic>\n</topics>\n",
        read_topics,
        unknown,
        "topics.xml",
    ),
    "MS MARCO's documents": Format(
        b"D1\thttp://x\ttitle a\tbody b\nD2\thttp://y\t\t\xc3\xa9\n", documents, unknown, "msmarco-docs.tsv"
    ),
    "MS MARCO's documents, v2": Format(
        b'{"docid": "msmarco_doc_00_1", "url": "u", "title": "a", "headings": "b\\n", "body": "c"}\n'
        b'{"pid": "msmarco_passage_00_2", "passage": "d", "spans": "(0,1)", "docid": "msmarco_doc_00_3"}\n',
        documents,
        unknown,
        "msmarco_doc_00.jsonl",
    ),
    "MS MARCO's run": Format(b"1\td1\t1\n1\td2\t2\n2\t\xc3\xa9\t1\n", read_run, unknown),
    "Quepid's judgments": Format(
        b'query,docid,rating\n"star wars",11,3\n"star wars",12,0\nrambo,13,2\n',
        read_qrels,
        unknown,
        "quepid.csv",
    ),
    "an index of Elasticsearch": Format(
        b'{"idx": {"settings": {"index": {"similarity": {"default": {"type": "BM25", "k1": "0.4"}},'
        b'"analysis": {"filter": {"s": {"type": "stop", "stopwords": "_english_"}}, "analyzer": {"default": '
        b'{"tokenizer": "standard", "filter": ["lowercase", "s", "porter_stem"]}}}}},'
        b'"mappings": {"properties": {"body": {"type": "text"}}}}}',
        read_engine,
        unknown,
        "index.json",
    ),
    "Solr's schema": Format(
        b'<?xml version="1.0"?>\n<schema name="c" version="1.6">\n'
        b'<field name="id" type="string"/><field name="contents" type="text"/>\n'
        b'<fieldType name="string" class="solr.StrField"/>\n<fieldType name="text" class="solr.TextField">\n'
        b'<analyzer><tokenizer class="solr.StandardTokenizerFactory"/>'
        b'<filter class="solr.LowerCaseFilterFactory"/></analyzer>\n<similarity '
        b'class="solr.BM25SimilarityFactory"><float name="k1">0.9</float></similarity></fieldType></schema>',
        read_engine,
        unknown,
        "schema.xml",
    ),
    "a fusion": Format(
        b'{"runs": ["a", "b"], "options": {"normalise": "min-max", "missing": "minimum", "rrf_k": 60.0, '
        b'"depth": 1000}, "output": {"method": "linear", "weights": {"a": 1.0, "b": 0.5}}, '
        b'"rows": [{"measure": "AP", "method": "rrf", "recommended": true, "weights": {"a": 1.0}}]}',
        lambda path: [read_fusion(path), read_fusion(path, method="rrf")],
        unknown,
        "fused.json",
    ),
    "LETOR": Format(
        b"2 qid:1 1:0.5 3:-1e-3 # docid = a\n0 qid:1 2:1\n# comment\n"
        b"1.5 qid:\xc3\xa9 1:1.17549429e-38 2:.1\n",
        letor,
        rows,
    ),
}


def check(form: Format, data: bytes, path: Path) -> None:
    path.write_bytes(data)
    try:
        expected = form.again(data)
    except (ValueError, KeyError, IndexError):
        expected = ValueError
    try:
        found = form.read(path)
    except InputError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 1200
        # A second reader is no judge of bytes that are no text.
        if expected is not None and expected is not ValueError and expected:
            assert not _is_text(data), f"refused: {error}"
        return
    if expected is not None:
        assert expected is not ValueError, f"accepted: {found}"
        assert found == expected


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_mutated_files(name: str, tmp_path: Path) -> None:
    form = FORMATS[name]
    file = tmp_path / form.name
    file.write_bytes(form.seed)
    assert form.again(form.seed) in (None, form.read(file))
    for case in range(CASES // (len(FORMATS) + 1)):
        data = mutated(form.seed, random.Random(f"{name} {case}"))
        try:
            check(form, data, file)
        except Exception as error:
            raise AssertionError(f"case {case}: {data[:400]!r}: {error!r}") from error


@pytest.mark.slow
def test_mutated_results(tmp_path: Path) -> None:
    folder = write_made(tmp_path / "results", made_results(topics=["1", "2", "3", "4"]))
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".csv", ".json"))
    read_results(folder)
    for case in range(CASES // (len(FORMATS) + 1)):
        draw = random.Random(f"results {case}")
        path = draw.choice(files)
        before = path.read_bytes()
        path.write_bytes(data := mutated(before, draw))
        try:
            read_results(folder)
        except InputError as error:
            assert "\n" not in str(error)
        except Exception as error:
            raise AssertionError(f"case {case}, {path.name}: {data[:400]!r}: {error!r}") from error
        finally:
            path.write_bytes(before)
