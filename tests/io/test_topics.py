from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtune.errors import InputError
from lmtune.io.topics import WeightedQuery, read_topics, write_topics


def test_weights_of_words_add_up_by_term() -> None:
    query = WeightedQuery.parse("Fish^2.5 oil fish^.5")
    assert query.weights == {"Fish": 2.5, "oil": 1.0, "fish": 0.5}
    assert query.by_term(lambda word: [word.lower()]) == {"fish": 3.0, "oil": 1.0}
    assert query == "Fish^2.5 oil^1.0 fish^0.5"
    own = WeightedQuery.of({"fish": 1.0}, are_terms=True)
    assert own.by_term(lambda word: [word, word]) == {"fish": 1.0}
    again = pickle.loads(pickle.dumps(own))
    assert (again.weights, again.are_terms) == (own.weights, True)


def test_topics_say_their_weights(tmp_path: Path) -> None:
    path = tmp_path / "topics.jsonl"
    lines: list[dict[str, Any]] = [
        {"_id": "1", "terms": {"fish": 2, "oil": 0.5}},
        {"_id": "2", "terms": "fish^2 oil"},
        {"_id": "3", "text": "fish^2 oil"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    topics = read_topics(path)
    first, second = topics["1"], topics["2"]
    assert isinstance(first, WeightedQuery)
    assert isinstance(second, WeightedQuery)
    assert first.weights == {"fish": 2, "oil": 0.5}
    assert second.weights == {"fish": 2.0, "oil": 1.0}
    assert not isinstance(topics["3"], WeightedQuery)


@pytest.mark.parametrize(
    "terms", [{}, {"fish": "2"}, {"fish": float("inf")}, {"fish": True}, {" ": 1}, [1], "", "fish^x", 3]
)
def test_what_is_no_weight_is_refused_with_its_line(tmp_path: Path, terms: object) -> None:
    path = tmp_path / "topics.jsonl"
    path.write_text('{"_id": "1", "text": "a"}\n' + json.dumps({"_id": "2", "terms": terms}) + "\n")
    with pytest.raises(InputError) as refused:
        read_topics(path)
    assert str(refused.value).startswith(f"{path}:2: ")


TIPSTER = """<top>
<head> Tipster Topic Description
<num> Number:  051
<dom> Domain:  International Economics
<title> Topic:  Airbus
Subsidies

<desc> Description:
Assistance to <b>Airbus</b> Industrie, or 3 < 4.

<smry> Summary:
Not this.

<narr> Narrative:

A document will cite
it.

<con> Concept(s):
1. Airbus
<fac> Factor(s):
<nat> Nationality: Europe
</fac>
<def> Definition(s):
</top>

<top><num> 52 </num><title> closed tags </title> <desc> D </desc>
<narr>N</narr></top>
"""


def put(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "topics"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def failure(tmp_path: Path, content: str | bytes, *fields: str) -> InputError:
    path = put(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_topics(path, fields=fields or ("title",))
    assert "\n" not in str(caught.value)
    return caught.value


def test_sgml_fields(tmp_path: Path) -> None:
    path = put(tmp_path, TIPSTER)
    title = {"51": "Airbus Subsidies", "52": "closed tags"}
    desc = {"51": "Assistance to <b>Airbus</b> Industrie, or 3 < 4.", "52": "D"}
    narr = {"51": "A document will cite it.", "52": "N"}
    assert read_topics(path) == title
    assert read_topics(path, fields=["desc"]) == desc
    assert read_topics(path, fields=("narr", "title")) == {
        topic: f"{narr[topic]} {title[topic]}" for topic in title
    }
    crlf = put(tmp_path, "\ufeff" + TIPSTER.replace("\n", "\r\n"))
    assert read_topics(crlf, fields=["desc"]) == desc


@pytest.mark.parametrize(
    "content",
    [
        "1\tone  word\n02\ttwo: words\r\n",
        "\ufeffqid\tquery\n1\tone word\n\n02\ttwo: words",
        '{"_id": "1", "text": "one\\n word"}\n{"_id": "02", "text": "two: words", "title": ""}\n',
        '{"id": 1, "title": "one word"}\n\n{"qid": "02", "query": "two: words"}',
    ],
)
def test_tsv_and_json(tmp_path: Path, content: str) -> None:
    assert read_topics(put(tmp_path, content)) == {"1": "one word", "02": "two: words"}


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("", None, ["empty", "TREC SGML"]),
        (" \n\r\n", None, ["empty"]),
        ("1\tone\n1 two\n", 2, ["no tab", "'1 two'", "id<TAB>text"]),
        ("1 one\n", 1, ["no tab", "TREC SGML"]),
        ("1\ta\tb\n", 1, ["2 tabs"]),
        ("1\tone\n2\t \n", 2, ["topic 2 has no text"]),
        ("\tone\n", 1, ["identifier"]),
        ("a b\tone\n", 1, ["'a b'"]),
        ("1\tone\n2\ttwo\n1\tthree\n", 3, ["twice", "line 1", "'1'"]),
        (b"1\tone\n2\t\xe9\n", 2, ["invalid UTF-8"]),
        ('{"id": 1}\n', 1, ["topic 1 has no text", "text, title, query"]),
        ('{"text": "x"}\n', 1, ["no topic identifier"]),
        ('{"id": 1.5, "text": "x"}\n', 1, ["identifier", "1.5"]),
        ('{"id": "1", "text": "x"}\n{"id": \n', 2, ["not JSON"]),
        ('{"id": "1", "text": "x"}\n[1]\n', 2, ["not a JSON object"]),
        ('{"id": "1", "text": 7}\n', 1, ["no text", "7"]),
        ("<top>\n<num> 1\n<title> x\n<top>\n<num> 2\n</top>", 1, ["unclosed <top>"]),
        ("<top>\n<num> 1\n<title> x\n</top>\n\n<top>\n<num> 2", 6, ["unclosed <top>"]),
        ("\n<top>\n<title> x\n</top>", 2, ["without number"]),
        ("<top>\n<num> Number:\n<title> x\n</top>", 1, ["without number"]),
        ("<top>\n<num> 1 2\n<title> x\n</top>", 1, ["topic number", "'1 2'"]),
        ("<top>\n<num> 1\n<title>\n</top>", 1, ["topic 1 has no text"]),
        ("<top>\n<num> 1\n<desc> x\n</top>", 1, ["topic 1 has no <title>", "desc"]),
        ("<top>\n<num> 1\n<title> x\n<title> y\n</top>", 4, ["second <title>"]),
        ("<top>\n<num> 1\n<title> x\n</top>\nstray\n", 5, ["outside <top>", "stray"]),
        ("<num> 1\n<title> x\n", 1, ["outside <top>"]),
        ("</top>\n", 1, ["outside <top>"]),
        ("<topics>\n</topics>\n", None, ["no topics"]),
        ("<top>\n<num> 7\n<title>x\n</top>\n<top><num>007<title>y</top>", 5, ["twice", "'7'"]),
    ],
)
def test_bad_input(tmp_path: Path, content: str | bytes, line: int | None, words: list[str]) -> None:
    error = failure(tmp_path, content)
    assert error.file == str(tmp_path / "topics")
    assert error.line == line
    for word in words:
        assert word in str(error)


def test_fields_need_sgml_and_a_known_name(tmp_path: Path) -> None:
    assert "SGML" in str(failure(tmp_path, "1\tx\n", "desc"))
    assert "SGML" in str(failure(tmp_path, '{"id": 1, "text": "x"}', "title", "desc"))
    assert "'description'" in str(failure(tmp_path, TIPSTER, "description"))
    assert "'title'" in str(failure(tmp_path, TIPSTER, "title", "title"))
    with pytest.raises(InputError, match="no topic field"):
        read_topics(put(tmp_path, TIPSTER), fields=())


TAG = re.compile("</?(top|num|title|desc|narr|head|dom|smry|con|fac|nat|time|def)", re.IGNORECASE)
WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"), min_size=1
).filter(lambda text: text.split() and not TAG.search(text))
IDENTIFIERS = st.from_regex(r"(0|[1-9][0-9]{0,3}|[a-zA-Z_.-][a-zA-Z0-9_.:-]{0,9})", fullmatch=True)


@given(st.dictionaries(IDENTIFIERS, st.one_of(WORDS, WORDS.map("Topic: {}".format)), min_size=1))
def test_written_topics_read_back(tmp_path_factory: pytest.TempPathFactory, topics: dict[str, str]) -> None:
    path = tmp_path_factory.mktemp("topics") / "t.txt.gz"
    write_topics(path, topics)
    assert read_topics(path) == {key: " ".join(text.split()) for key, text in topics.items()}


@pytest.mark.parametrize(
    ("identifier", "text"), [("1", " "), ("007", "x"), ("a b", "x"), ("", "x"), ("1", "x <desc> y")]
)
def test_refuses_to_write_what_would_not_read_back(tmp_path: Path, identifier: str, text: str) -> None:
    with pytest.raises(InputError, match="cannot write topic"):
        write_topics(tmp_path / "t", {"9": "fine", identifier: text})
    assert not list(tmp_path.iterdir())


def test_nist_files_agree_with_their_titles(shared_data: Path) -> None:
    folders = sorted((shared_data / "trec_topics").iterdir())
    assert len(folders) == 8
    for folder in folders:
        (raw,) = (folder / "raw").iterdir()
        titles = dict(line.split("\t") for line in (folder / "topics.tsv").read_text().splitlines())
        assert read_topics(raw) == titles == read_topics(folder / "topics.tsv")
        text = raw.read_text()
        for field, label in (("desc", "Description"), ("narr", "Narrative")):
            for words in read_topics(raw, fields=[field]).values():
                assert not words.startswith(label)
                assert "<" not in words.replace("<$", "")
                assert " ".join(words.split()[:3]) in " ".join(text.split())


def test_classic_topics(shared_data: Path) -> None:
    counts = {"cranfield": 225, "cacm": 64, "npl": 93, "med": 30, "robust03": 100}
    for name, count in counts.items():
        assert len(read_topics(shared_data / name / "topics.tsv")) == count


@pytest.mark.parametrize("weight", ["1e308", "-1.1e9", "1" + "0" * 400, "Infinity", "NaN", "true", '"2"'])
def test_weights_that_scores_cannot_take_are_refused(tmp_path: Path, weight: str) -> None:
    path = tmp_path / "topics.jsonl"
    path.write_text(f'{{"id": "1", "terms": {{"oil": 1}}}}\n{{"id": "2", "terms": {{"fish": {weight}}}}}\n')
    with pytest.raises(InputError, match=r"topics.jsonl:2: (not JSON|.*term 'fish'.*from -1e\+09 to 1e)"):
        read_topics(path)
    path.write_text('{"id": "1", "terms": {"fish": -1000000000, "oil": 1e-300}}\n')
    assert read_topics(path)["1"].weights == {"fish": -(10**9), "oil": 1e-300}  # type: ignore[attr-defined]


XML = {
    "covid": """<?xml version="1.0" encoding="UTF-8"?>
<topics task="COVIDSearch">
  <topic number="1">
    <query>virus &amp; origin</query> <!-- a comment -->
    <question>where did it
      begin</question>
    <narrative>Looking for places</narrative>
  </topic>
</topics>""",
    "web": """<webtrack2009>
  <topic number="001" type="faceted"> <query> virus &#38; origin </query>
    <description> where did it begin </description>
    <subtopic number="1" type="nav">Take me to a page.</subtopic>
    <narr>Looking for places</narr></topic></webtrack2009>""",
    "misinfo": """<topics>
<topic><number>1</number><title>virus &amp; origin</title><desc>where did it begin</desc>
<narrative>Looking for places</narrative></topic></topics>""",
}


@pytest.mark.parametrize("name", XML)
def test_xml_topics_of_trec_are_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "topics.xml"
    path.write_text(XML[name])
    assert read_topics(path) == {"1": "virus & origin"}
    assert read_topics(path, fields=["desc", "narr"]) == {"1": "where did it begin Looking for places"}


def test_an_xml_topic_may_be_its_text_alone(tmp_path: Path) -> None:
    path = tmp_path / "topics.xml"
    path.write_text(
        '<topics task="2021 TREC CT">\n<topic number="1">\n A person, 45,\n with fever\n</topic></topics>'
    )
    assert read_topics(path) == {"1": "A person, 45, with fever"}
    with pytest.raises(InputError, match=r"topics.xml:2: topic 1 has no <narr>; accepted.*here: title"):
        read_topics(path, fields=["narr"])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("<topics>\n<topic number='1'>\n<query>a</topic></topics>", 3, "not XML: .*mismatch"),
        ("<topics>\n<topic><query>a</query></topic></topics>", 2, "topic without number"),
        ("<topics>\n<topic number='a b'><query>a</query></topic></topics>", 2, "bad topic number: 'a b'"),
        ("<t>\n\n<topic number='1'><query>a</query><title>b</title></topic></t>", 3, "a second <title>"),
        ("<t>\n<topic number='1'><disease>a</disease></topic></t>", 2, "topic 1 has no <title>; .*: none"),
        (
            '<!DOCTYPE t [<!ENTITY x SYSTEM "/etc/passwd">]>\n<t><topic number="1">&x;</topic></t>',
            2,
            "no <title>",
        ),
    ],
)
def test_defects_of_xml_topics_have_their_line(text: str, line: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "topics.xml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_topics(path)
    assert caught.value.line == line


def test_entities_of_sgml_topics_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "topics.txt"
    path.write_text("<top>\n<num> Number: 26\n<title> AT&amp;T &lt;desc&gt; R&D &copy &#233;\n</top>\n")
    assert read_topics(path) == {"26": "AT&T <desc> R&D &copy é"}


@pytest.mark.parametrize("text", ["AT&T", "AT&amp;T", "&lt; is less", "&&#38;;", "R&D; &amp"])
def test_written_topics_keep_their_ampersands(text: str, tmp_path: Path) -> None:
    write_topics(tmp_path / "topics.txt", {"1": text})
    assert read_topics(tmp_path / "topics.txt") == {"1": text}


@pytest.mark.parametrize("header", ["id\tquery", "topic\tTitle", "qid\tanything", "number\tquestion"])
def test_a_header_of_tab_separated_topics_is_no_topic(header: str, tmp_path: Path) -> None:
    path = tmp_path / "topics.tsv"
    path.write_text(f"{header}\n1\tbird flu\n")
    assert read_topics(path) == {"1": "bird flu"}


def test_a_first_topic_that_is_no_header_stays(tmp_path: Path) -> None:
    path = tmp_path / "topics.tsv"
    path.write_text("id\tbird flu\n2\tquery\n")
    assert read_topics(path) == {"id": "bird flu", "2": "query"}
