"""Reading MEKA's and Mulan's ARFF files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from made_labels import Example, as_lists

from lmtune.errors import InputError
from lmtune.formats.arff import read_arff

MEKA = """% 'Music' dataset; normalised version.
@relation 'Music: -C 2 -split-percentage 66'

@attribute amazed-suprised {0,1}
@attribute 'so "sad", it\\'s' {0, 1}
@ATTRIBUTE  Centroid\tnumeric
@attribute kind {A,'B, or so',C}
@attribute onset {f,t}
@data

0,1,0.25,'B, or so',t
% a comment
1,1,-1e3, C , f

0,0,0,A,f
"""
MULAN = """@relation 'MEDC: -C 45 -I 0-weka.filters.Remove'
@attribute word_a {0,1}
@attribute TAG_b {0,1}
@attribute weight numeric
@attribute TAG_c {0,1}
@data
{0 1, 1 1,2 0.5}
{3 1}
{}
{2 -2,3 1}
"""
XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="TAG_c"><label name="TAG_b"></label></label>
</labels>"""


def test_reads_meka(tmp_path: Path) -> None:
    path = tmp_path / "Music.arff"
    path.write_text(MEKA)
    found = read_arff(path)
    assert as_lists(found) == [([1], {0: 0.25, 1: 1.0, 3: 1.0}), ([0, 1], {0: -1000.0, 2: 1.0}), ([], {})]
    assert (found.features, found.labels) == (4, 2)


def test_reads_labels_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "x.arff.gz"
    text = "@relation 'x: -C -2'\n@attribute w numeric\n@attribute a {no,yes}\n@attribute b {0,1}\n@data\n"
    path.write_bytes(gzip.compress(f"{text}1.5,yes,0\n2,no,1\n".encode()))
    assert as_lists(read_arff(path)) == [([0], {0: 1.5}), ([1], {0: 2.0})]


@pytest.mark.parametrize("name", ["medical.arff", "medical-train.arff", "medical-train-sparse.arff"])
def test_reads_mulan(tmp_path: Path, name: str) -> None:
    # Its file of labels goes before what filters have left in the relation's name.
    (tmp_path / "medical.xml").write_text(XML)
    path = tmp_path / name
    path.write_text(MULAN)
    rows: list[Example] = [([1], {0: 1.0, 1: 0.5}), ([0], {}), ([], {}), ([0], {1: -2.0})]
    assert as_lists(read_arff(path)) == rows
    dense = "1,1,0.5,0\n0,0,0,1\n0,0,0,0\n0,0,-2,1\n"
    path.write_text(MULAN[: MULAN.index("{0 1,")] + dense)
    assert as_lists(read_arff(path)) == rows


HEAD = "@relation 'x: -C 1'\n@attribute a {0,1}\n@attribute b numeric\n@data\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r": no @data"),
        (HEAD, r": no examples"),
        (HEAD.replace("numeric", "string") + "1,x\n", r":3: bad attribute: '@attribute b string'"),
        (HEAD.replace(" -C 1", "") + "1,2\n", r": no labels: .*-C N"),
        (HEAD.replace("-C 1", "-C 2") + "1,2\n", r": no labels"),
        (HEAD.replace("{0,1}", "{0,1,2}") + "1,2\n", r": bad values of a label: 'a'; accepted: {0,1}"),
        (HEAD + "1,2\n1\n", r":6: bad row: '1 values'; accepted: 2 values"),
        (HEAD + "1,2\n\n?,2\n", r":7: bad value of a: '\?'; accepted: 0, 1"),
        (HEAD + "1,?\n", r":5: bad value of b: '\?'; accepted: a number"),
        (HEAD + "1,nan\n", r":5: bad value of b: 'nan'"),
        (HEAD + "2,1\n", r":5: bad value of a: '2'"),
        (HEAD + "{1 1e40}\n", r": a number beyond float32's range"),
        (HEAD + "{0 1}\n{2 1}\n", r":6: bad entry: '2 1'; accepted: ATTRIBUTE VALUE, ascending from 0 to 1"),
        (HEAD + "{1 1,0 1}\n", r":5: bad entry: '0 1'"),
        (HEAD + "{0 1,0 1}\n", r":5: bad entry: '0 1'"),
        (HEAD + "{0 2}\n", r":5: bad value of a: '2'"),
        (HEAD + "{0 1}, {5}\n", r":5: bad value of a"),
    ],
)
def test_says_where_input_is_bad(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.arff"
    path.write_text(text)
    with pytest.raises(InputError, match=r"x\.arff" + message):
        read_arff(path)


def test_says_what_is_bad_of_mulans_labels(tmp_path: Path) -> None:
    path = tmp_path / "m.arff"
    path.write_text(MULAN)
    (tmp_path / "m.xml").write_text(XML.replace("TAG_b", "TAG_d"))
    with pytest.raises(InputError, match=r"m\.xml: a label that is no attribute: 'TAG_d'"):
        read_arff(path)
    (tmp_path / "m.xml").write_text("<labels>")
    with pytest.raises(InputError, match=r"m\.xml: not XML"):
        read_arff(path)
