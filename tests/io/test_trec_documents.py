from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtune.errors import InputError
from lmtune.io.file_documents import FileDocuments
from lmtune.io.trec_documents import TEXT_ELEMENTS, news_text, page_text, parse_trec

NEWS = """<DOC>
<DOCNO> AP880212-0001 </DOCNO>
<FILEID>AP-NR-02-12-88 2344EST</FILEID>
<HEAD>Reports &amp; Former Saigon</HEAD>
<HEAD>Second Head</HEAD>
<DATELINE>BANGKOK, Thailand (AP) </DATELINE>
<TEXT>
   More than 150 former &lt;officers&gt; of the <F P=103>overthrown</F> South
were freed. 3 < 4 and 5 > 2. AT&T foo&hyph;bar
</TEXT>
</DOC>
<DOC>
<DOCNO> FT911-3 </DOCNO>
<PROFILE>_AN-BEOA7AAIFT</PROFILE>
<DATE>910514
</DATE>
<HEADLINE>
FT  14 MAY 91 / <B>International</B> Company News
</HEADLINE>
<TEXT>
A SIGNIFICANT <!-- PJG ITAG l=90 --> agreement
<TITLE>nested title</TITLE> after
</TEXT>
<PUB>The Financial Times
</PUB>
</DOC>
<DOC>
<DOCNO>LA010189-0001</DOCNO>
<TEXT>
<P>
one</P><P>two
</P>
</TEXT>
<GRAPHIC><P>Photo</P></GRAPHIC>
<LP>lead unclosed
more
<LEADPARA>x</LEADPARA>
</DOC>
"""
# What Anserini 1.7.1's TrecCollection makes of these documents, white space collapsed.
ANSERINI_NEWS = {
    "AP880212-0001": "Reports & Former Saigon Second Head More than 150 former <officers> of the "
    "overthrown South were freed. 3 < 4 and 5 > 2. AT&T foo&hyph;bar",
    "FT911-3": "910514 FT 14 MAY 91 / International Company News A SIGNIFICANT agreement nested title after",
    "LA010189-0001": "one two lead unclosed more x",
}
WEB = """<DOC>
<DOCNO>WTX001-B01-1</DOCNO>
<DOCOLDNO>IA001-000000-B001-1</DOCOLDNO>
<DOCHDR>
http://www.cs.com:80/ 205.197 19970101 text/html 200
Content-type: text/html

</DOCHDR>
<html><head><title>A &amp; B &copy; caf&eacute;</title><style>p{x:y}</style>
<script>var a="<b>x</b>";</script></head>
<body bgcolor=#fff><h1>Big<b>Bold</b></h1>one<br>two<p>para<i>graph</i>
<table><tr><td>c1<td>c2</table>
<!-- hidden --> <a href=x>li</a>nk <img src=a alt="alt">after<font size=2>f</font>
<ul><li>i1<li>i2</ul>
<noscript>nos</noscript>&nbsp;x 3 < 4 plain
</body></html>
</DOC>
<DOC>
<DOCNO>WTX001-B01-2</DOCNO>
<DOCHDR>
http://x
</DOCHDR>
plain text only
second line
</DOC>
"""
# What Anserini 1.7.1's TrecwebCollection makes of them.
ANSERINI_WEB = {
    "WTX001-B01-1": "A & B © café BigBold one two paragraph c1 c2 link afterf i1 i2 nos x 3 < 4 plain",
    "WTX001-B01-2": "plain text only second line",
}


def put(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path, batch_bytes: int = 1 << 20) -> dict[str, str]:
    source = FileDocuments("x", [path], batch_bytes=batch_bytes)
    return {docno: " ".join(text.split()) for batch in source.batches() for docno, text in batch.read()}


@pytest.mark.parametrize(("source", "expected"), [(NEWS, ANSERINI_NEWS), (WEB, ANSERINI_WEB)])
@pytest.mark.parametrize("batch_bytes", [1, 50, 400, 1 << 20])
def test_anserinis_text(tmp_path: Path, source: str, expected: dict[str, str], batch_bytes: int) -> None:
    path = put(tmp_path / "docs", source)
    found = read(path, batch_bytes)
    assert found == expected
    assert list(found) == list(expected)
    crlf = put(tmp_path / "crlf", "\ufeff\r\n" + source.replace("\n", "\r\n"))
    assert read(crlf, batch_bytes) == expected
    assert read(put(tmp_path / "docs.gz", gzip.compress(source.encode()))) == expected
    if batch_bytes == 1:
        batches = list(FileDocuments("x", [path], batch_bytes=1).batches())
        assert len(batches) == len(expected)


def test_documents_on_one_line_in_either_case(tmp_path: Path) -> None:
    path = put(
        tmp_path / "docs",
        "<DOC><DOCNO>A</DOCNO><TEXT>one</TEXT></DOC><DOC><DOCNO>B</DOCNO></DOC>\n"
        '<doc id="c"><docno>C</docno><text>three</text></doc>',
    )
    assert read(path) == {"A": "one", "B": "", "C": "three"}


def test_latin1_documents_among_utf8_ones(tmp_path: Path) -> None:
    document = "<DOC>\n<DOCNO>{}</DOCNO>\n<TEXT>café</TEXT>\n</DOC>\n"
    data = document.format("A").encode("latin-1") + document.format("B").encode()
    assert read(put(tmp_path / "docs", data)) == {"A": "café", "B": "café"}
    web = data.replace(b"<TEXT>", b"<DOCHDR>\nx\n</DOCHDR><p>")
    assert read(put(tmp_path / "web", web)) == {"A": "café", "B": "café"}


DOCUMENT = "<DOC>\n<DOCNO>{}</DOCNO>\n<TEXT>x</TEXT>\n</DOC>\n"
GOOD = "".join(DOCUMENT.format(f"D{number}") for number in range(10))


@pytest.mark.parametrize(
    ("bad", "line", "words"),
    [
        ("<DOC>\n<DOCNO>A</DOCNO>\n<TEXT>x</TEXT>\n" + GOOD, 41, "unclosed <DOC>"),
        ("\n<DOC>\n<DOCNO>A</DOCNO>\n", 42, "unclosed <DOC>"),
        ("<DOC>\n<TEXT>x</TEXT>\n</DOC>\n" + GOOD, 41, "without <DOCNO>"),
        ("<DOC>\n\n<DOCNO>A B</DOCNO>\n</DOC>\n", 43, "bad <DOCNO>: 'A B'"),
        ("<DOC>\n<DOCNO> </DOCNO>\n</DOC>\n", 42, "bad <DOCNO>: ''"),
        ("\nstray\n" + GOOD, 42, "text outside <DOC>: 'stray"),
        ("\n</DOC>\n", 42, "text outside <DOC>"),
        ("\nstray\n", 42, "text outside <DOC>: 'stray"),
        ("\n<DOC>\n<DOCNO>A</DOCNO><DOCHDR>\n<p>\n</DOC>\n", 42, "unclosed <DOCHDR> in document A"),
    ],
)
@pytest.mark.parametrize("batch_bytes", [1 << 20, 100])
def test_bad_input_names_the_line(tmp_path: Path, bad: str, line: int, words: str, batch_bytes: int) -> None:
    path = put(tmp_path / "docs", GOOD + bad)
    with pytest.raises(InputError, match=words) as caught:
        read(path, batch_bytes)
    assert (caught.value.file, caught.value.line) == (str(path), line)
    assert "\n" not in str(caught.value)


def test_locate(tmp_path: Path) -> None:
    path = put(tmp_path / "docs", GOOD + "\n" + DOCUMENT.format("D3"))
    source = FileDocuments("x", [path], batch_bytes=100)
    assert source.locate("D3") == [(str(path), 13), (str(path), 42)]


WORD = st.text(st.characters(codec="utf-8", exclude_characters="<>&\r"), max_size=20)
ELEMENTS = st.lists(st.tuples(st.sampled_from([*TEXT_ELEMENTS, "BYLINE", "FIRST"]), WORD))


@pytest.mark.slow
@given(st.lists(ELEMENTS, min_size=1, max_size=5), st.integers(1, 60))
def test_blocks_of_any_size_give_the_texts(collection: list[list[tuple[str, str]]], block_bytes: int) -> None:
    data = "".join(
        f"<DOC>\n<DOCNO>D{number}</DOCNO>\n"
        + "".join(f"<{name}>{text}</{name}>\n" for name, text in elements)
        + "</DOC>\n"
        for number, elements in enumerate(collection)
    ).encode()
    blocks = [data[start : start + block_bytes] for start in range(0, len(data), block_bytes)]
    found = list(parse_trec(blocks, "x"))
    assert [docno for _, docno, _ in found] == [f"D{n}" for n in range(len(collection))]
    for (line, docno, text), elements in zip(found, collection, strict=True):
        wanted = " ".join(text for name, text in elements if name in TEXT_ELEMENTS)
        assert text.split() == wanted.split()
        before = data[: data.index(f"<DOCNO>{docno}<".encode())]
        assert line == before.count(b"\n")


@given(st.text())
def test_news_text_takes_anything(source: str) -> None:
    assert isinstance(news_text(source), str)


@given(st.text(st.characters(codec="utf-8")))
def test_page_text_takes_anything(page: str) -> None:
    assert "<script" not in page_text(f"<p>{page}</p><script>x</script>")


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("", ""),
        (" \n", ""),
        ("<p></p>", ""),
        ("<!-- only -->", ""),
        ("word", "word"),
        ("un<b>break</b>able<hr>x", "unbreakable x"),
        ("<td>a</td><td>b</td>", "a b"),
        ("a<br/>b&nbsp;c&#233;&#x20ac;", "a b cé€"),
        ("<STYLE>p{}</STYLE><SCRIPT>var x = '<p>';</SCRIPT>y", "y"),
        ('<?xml version="1.0" encoding="latin-1"?><html><body>é</body></html>', "é"),
        ('<meta charset="latin-1"><p>é', "é"),
        ("a\x00b", "a b"),
        ("<div>" * 3000 + "deep" + "</div>" * 3000, "deep"),
    ],
)
def test_page_text(page: str, text: str) -> None:
    assert page_text(page) == text
