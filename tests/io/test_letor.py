"""LETOR files: decimals exact, errors with lines, the columnar form, other readers."""

from __future__ import annotations

import gzip
import os
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import dump_svmlight_file

from lmtune.errors import InputError
from lmtune.io import letor, letor_rows
from lmtune.io.letor import read_letor, write_letor
from lmtune.io.letor_rows import Letor, read_blocks


def written(folder: Path, text: str | bytes, name: str = "train.txt") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def equal(one: Letor, other: Letor) -> bool:
    return (
        np.array_equal(one.features, other.features)
        and np.array_equal(one.labels, other.labels)
        and np.array_equal(one.starts, other.starts)
        and one.queries == other.queries
        and one.docnos == other.docnos
    )


def test_rows(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        b"\xef\xbb\xbf# a comment\r\n"
        b"2 qid:10 3:1.5\t1:-2e-1  #docid = GX-1 inc = 1 prob = 0.08\r\n"
        b"\r\n"
        b"0 qid:10 2:.5# DocNo: GX-2\n"
        b"  1.5 qid:Q-7 #docid=GX-1#2\n"
        b"+1 qid:Q-8 4:+1e+2 # # Doc_ID = x",
    )
    data = read_letor(path)
    assert data.features.tolist() == [
        [np.float32(-0.2), 0, 1.5, 0],
        [0, 0.5, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 100],
    ]
    assert data.labels.tolist() == [2, 0, 1.5, 1]
    assert data.starts.tolist() == [0, 2, 3, 4]
    assert data.queries == ("10", "Q-7", "Q-8")
    assert data.docnos == ("GX-1", "GX-2", "GX-1#2", "x")
    assert read_letor(path, docids=False).docnos is None
    wider = read_letor(path, width=6)
    assert wider.features.shape == (4, 6)
    assert np.array_equal(wider.features[:, :4], data.features)
    assert not wider.features[:, 4:].any()
    assert read_letor(path, width=2).features.shape == (4, 4)


def test_comments_without_a_docid(tmp_path: Path) -> None:
    text = "1 qid:1 1:1 # seen\n0 qid:1 1:0 # docid\n0 qid:1 #docs = 4\n0 qid:1 #docid =\n"
    assert read_letor(written(tmp_path, text)).docnos is None


@pytest.mark.parametrize(
    ("comments", "docids"),
    [
        (("# 7555 rambo", "#1370", "# 7555\t\xe9"), ("7555", "1370", "7555")),
        (("# 7555", "# 7555", "# 1"), None),
        (("# 7555", "", "# 1"), None),
        (("# 7555", "# docid = 1", "# 1"), InputError),
    ],
)
def test_first_words_of_comments(tmp_path: Path, comments: tuple[str, ...], docids: object) -> None:
    rows = zip(("1 qid:1 1:1 ", "0 qid:1 1:0 ", "0 qid:2 1:0 "), comments, strict=True)
    path = written(tmp_path, "\n".join(map("".join, rows)).encode("latin-1"))
    if docids is InputError:
        with pytest.raises(InputError, match="docid"):
            read_letor(path)
    else:
        assert read_letor(path).docnos == docids


NUMBER = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-", "+"]),
    st.text("0123456789", min_size=1, max_size=25),
    st.one_of(st.just(""), st.just("."), st.text("0123456789", max_size=30).map(".{}".format)),
    st.one_of(st.just(""), st.integers(-60, 45).map("e{}".format), st.just("E+3")),
)
FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def nearest(text: str) -> float | None:
    """Round a decimal to float32 by definition: among all values, the nearest, ties to even."""
    exact = Fraction(Decimal(text))
    with np.errstate(over="ignore"):
        guess = np.float32(float(text))
        around = [np.nextafter(guess, np.float32(to)) for to in (-np.inf, np.inf)]
    near = {float(value) for value in (guess, *around)}
    beyond = Fraction(2) ** 128 - Fraction(2) ** 103  # half a step above the largest
    if abs(exact) >= beyond:
        return None
    finite = [value for value in near if np.isfinite(value)]
    best = min(abs(Fraction(value) - exact) for value in finite)
    closest = [value for value in finite if abs(Fraction(value) - exact) == best]
    even = [value for value in closest if np.float32(value).view(np.uint32) % 2 == 0]
    return closest[0] if len(closest) == 1 else even[0]


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(text=st.one_of(NUMBER, FLOAT32.map(repr), st.floats(-1e38, 1e38).map(repr)))
@example("16777217")  # in the middle between two
@example("16777217.0000000000000000000000000000000001")
@example("1.00000005960464477539062500")  # in the middle, too long for 19 digits
@example("1.000000059604644775390624999999999999999")
@example("1.000000059604644775390625000000000000001")
@example("1.1754943e-38")
@example("1e-45")
@example("7.006492321624085e-46")
@example("7.006492321624086e-46")
@example("3.4028235677973366e+38")  # rounds to what lies beyond the largest
@example("3.4028235677973365e+38")
@example("0.00000000000000000000000000000000000000000000000000000000000000000000000000000001e80")
@example("123456789012345678901234567890e-20")
@example("-0")
@example("1e99999999999")
@example("1e-99999999999")
def test_decimals_become_the_nearest_float32(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "decimal.txt"
    path.write_text(f"0 qid:1 1:{text}\n")
    expected = None if "e99999" in text else 0.0 if "e-99999" in text else nearest(text)
    if expected is None:
        with pytest.raises(InputError, match="bad value"):
            read_letor(path)
        return
    found = read_letor(path).features[0, 0]
    assert found == expected
    assert np.signbit(found) == text.startswith("-")


def test_decimals_of_doubles_agree_with_float(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=20_000) * 10.0 ** random.integers(-30, 30, 20_000)
    rows = [f"0 qid:1 1:{value!r} 2:{value:.6f} 3:{value:.7e}" for value in values.tolist()]
    found = read_letor(written(tmp_path, "\n".join(rows))).features
    # Rounding twice differs from rounding once in no case here: none lies next to a middle.
    expected = [[float(part.split(":")[1]) for part in row.split()[2:]] for row in rows]
    assert np.array_equal(found, np.array(expected).astype(np.float32))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), block_bytes=st.integers(1, 200))
def test_blocks_of_any_size(tmp_path_factory: pytest.TempPathFactory, seed: int, block_bytes: int) -> None:
    path = tmp_path_factory.getbasetemp() / "blocks.txt"
    path.write_text(made_text(seed))
    whole = list(read_blocks(path, repeated="error"))
    parts = list(read_blocks(path, repeated="error", block_bytes=block_bytes))
    for name in ("labels", "lines", "values", "ids"):
        one, other = (np.concatenate([getattr(b, name) for b in blocks]) for blocks in (whole, parts))
        assert np.array_equal(one, other)
    assert [d for b in parts for d in b.docids] == [d for b in whole for d in b.docids]
    assert [q for b in parts for q in b.queries] == [q for b in whole for q in b.queries]


def made_text(seed: int, rows: int = 30) -> str:
    random = np.random.default_rng(seed)
    lines = []
    for row in range(rows):
        ids = random.permutation(8)[: random.integers(0, 8)] + 1
        pairs = " ".join(f"{f}:{random.normal():.{random.integers(0, 20)}g}" for f in ids)
        lines.append(f"{random.integers(0, 5)} qid:{row // 4} {pairs} #docid = D{row}")
        if random.random() < 0.2:
            lines.append("")
    return "\r\n".join(lines)


LINE = "1 qid:1 1:0.5\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (LINE + "x qid:1 1:2\n", 2, "bad label: 'x'; accepted: a number, 0 or more"),
        (LINE + "\n-1 qid:1 1:2\n", 3, "bad label: '-1'"),
        ("-1e-99 qid:1 1:2\n", 1, "bad label: '-1e-99'"),
        ("nan qid:1\n", 1, "bad label: 'nan'"),
        ("1e39 qid:1\n", 1, "bad label: '1e39'"),
        ("1x qid:1\n", 1, "bad label: '1x'"),
        ("qid:1 1:2\n", 1, "bad label: 'qid:1'"),
        (LINE + "1 1:2\n", 2, "no query after the label: '1:2'; accepted: qid:ID"),
        ("1\n", 1, "no query"),
        ("1 qid: 1:2\n", 1, "no query after the label: 'qid:'"),
        ("1 1:2 qid:3\n", 1, "no query"),
        ("1 qid:1 0:2 65536:1\n", 1, "bad feature: '65536:1'; accepted: ID:VALUE with an ID from 1 to 65536"),
        ("1 qid:1 65537:2\n", 1, "bad feature: '65537:2'"),
        ("1 qid:1 99999999999999999999:2\n", 1, "bad feature"),
        ("1 qid:1 -3:2\n", 1, "bad feature: '-3:2'"),
        ("1 qid:1 a:2\n", 1, "bad feature: 'a:2'"),
        ("1 qid:1 3\n", 1, "bad feature: '3'"),
        ("1 qid:1 1: 2\n", 1, "bad value of a feature"),
        ("1 qid:1 1:2:3\n", 1, "bad value of a feature: '2:3'"),
        ("1 qid:1 1:nan\n", 1, "bad value of a feature: 'nan'; accepted: a finite number"),
        ("1 qid:1 1:-Infinity\n", 1, "bad value of a feature: '-Infinity'"),
        ("1 qid:1 1:1_0\n", 1, "bad value of a feature: '1_0'"),
        ("1 qid:1 1:1e\n", 1, "bad value of a feature: '1e'"),
        ("1 qid:1 1:.\n", 1, r"bad value of a feature: '\.'"),
        ("1 qid:1 1:0x10\n", 1, "bad value of a feature: '0x10'"),
        (LINE + "1 qid:1 1:1e39\n", 2, "bad value of a feature: '1e39'"),
        ("1 qid:1 7:1 2:1 7:1\n", 1, "feature repeated in a row: '7:1'"),
        (LINE + "1 qid:2\n1 qid:1\n", 3, r"are not consecutive: '1'.*first row is line 1"),
        ("1 qid:1 #docid = a\n1 qid:1\n", 2, "no docid, but the first row has one"),
        ("1 qid:1\n1 qid:1 #docid = a\n", 2, "a docid, but the first row has none: 'a'"),
        ("1 qid:1 #docid = a\n\n1 qid:1 #docid = a\n", 3, r"is repeated.*'a'.*line 1"),
        (b"1 qid:1\n1 qid:\xff 1:2\n", 2, "invalid UTF-8"),
        (b"1 qid:1 #docid = \xff\n", 1, "invalid UTF-8"),
        (b"1 qid:1 1:\x00\n", 1, "bad value"),
        ("1 qid:1 1:1\r2:3\n", 1, "bad value"),
        ("\r1 qid:1\n", 1, "bad label"),
    ],
)
def test_errors_name_their_line(tmp_path: Path, text: str | bytes, line: int, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        read_letor(path)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{path}:{line}: ")
    with pytest.raises(InputError, match=message):
        read_letor(path, cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_errors_of_late_blocks_name_their_line(tmp_path: Path) -> None:
    path = written(tmp_path, LINE * 50 + "1 qid:1 1:1e999\n")
    with pytest.raises(InputError) as caught:
        list(read_blocks(path, repeated="error", block_bytes=40))
    assert caught.value.line == 51


def test_files_that_hold_nothing(tmp_path: Path) -> None:
    for text in ("", "\n\n", "# only a comment\n"):
        with pytest.raises(InputError, match="no rows"):
            read_letor(written(tmp_path, text))
    with pytest.raises(InputError, match="cannot read"):
        read_letor(tmp_path / "none.txt")
    with pytest.raises(InputError, match="unknown value of repeated"):
        read_letor(tmp_path / "none.txt", repeated="first")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="bad number of features"):
        read_letor(tmp_path / "none.txt", width=-1)


def test_compressed(tmp_path: Path) -> None:
    text = made_text(1).encode()
    plain = read_letor(written(tmp_path, text))
    assert equal(read_letor(written(tmp_path, gzip.compress(text), "train.txt.gz")), plain)
    damaged = written(tmp_path, gzip.compress(text)[:-20], "short.txt.gz")
    with pytest.raises(InputError, match="ends too early"):
        read_letor(damaged)


def test_repeated_features_of_tf_ranking(tmp_path: Path) -> None:
    path = written(tmp_path, "1 qid:1 2:5 1:3 2:7\n")
    assert read_letor(path, repeated="last").features.tolist() == [[3, 7]]


class TestColumnarForm:
    def test_is_what_the_file_says(self, tmp_path: Path) -> None:
        path = written(tmp_path, made_text(3))
        plain = read_letor(path, cache=False)
        for kept in (False, True):
            found = read_letor(path, cache=tmp_path / "cache")
            assert equal(found, plain)
            assert isinstance(found.features, np.memmap) is kept

    def test_widens_early_blocks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = "1 qid:1 2:1\n" * 9 + "1 qid:1 5:2\n" * 9
        path = written(tmp_path, text)
        blocks = list(read_blocks(path, repeated="error", block_bytes=30))
        assert len(blocks) > 5
        monkeypatch.setattr("lmtune.io.letor_rows.read_blocks", lambda *_, **__: blocks)
        plain = read_letor(path, cache=False)
        assert plain.features.tolist() == [[0, 1, 0, 0, 0]] * 9 + [[0, 0, 0, 0, 2]] * 9
        assert equal(read_letor(path, cache=tmp_path / "cache"), plain)

    def test_of_rows_without_features(self, tmp_path: Path) -> None:
        path = written(tmp_path, "1 qid:1\n0 qid:1\n")
        found = read_letor(path, cache=tmp_path / "cache")
        assert found.features.shape == (2, 0)
        assert found.labels.tolist() == [1, 0]

    def test_is_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = written(tmp_path, made_text(3))
        cache = tmp_path / "cache"
        plain = read_letor(path, cache=cache)
        parsed: list[Path] = []
        read_rows = letor_rows.read_rows

        def watched(path: Path, **options: Any) -> Any:
            parsed.append(path)
            return read_rows(path, **options)

        monkeypatch.setattr(letor, "read_rows", watched)
        assert equal(read_letor(path, cache=cache), plain)
        assert parsed == []
        text = path.read_bytes()
        path.write_bytes(text.replace(b"qid:0", b"qid:9"))  # the same size
        os.utime(path, ns=(2, 2))
        assert read_letor(path, cache=cache).queries[0] == "9"
        path.write_bytes(text + b"\n0 qid:100 1:1 #docid = x")
        assert read_letor(path, cache=cache).queries[-1] == "100"
        assert read_letor(path, cache=cache, docids=False).docnos is None
        assert len(parsed) == 3

    def test_damaged_is_made_anew(self, tmp_path: Path) -> None:
        path = written(tmp_path, made_text(3))
        cache = tmp_path / "cache"
        plain = read_letor(path, cache=cache)
        [file] = cache.iterdir()
        os.truncate(file, file.stat().st_size - 5)
        assert equal(read_letor(path, cache=cache), plain)
        file.unlink()
        assert equal(read_letor(path, cache=cache), plain)

    def test_leaves_the_folders_of_others_alone(self, tmp_path: Path) -> None:
        path = written(tmp_path, made_text(3))
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "letter.txt").write_text("dear")
        with pytest.raises(InputError, match="will not replace"):
            read_letor(path, cache=tmp_path / "mine")

    def test_stands_beside_large_files_only(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = written(tmp_path, made_text(3))
        read_letor(path)
        assert [entry.name for entry in tmp_path.iterdir()] == ["train.txt"]
        monkeypatch.setattr(letor, "CACHED_BYTES", 10)
        read_letor(path)
        assert (tmp_path / ".train.txt.letor").is_dir()
        assert isinstance(read_letor(path).features, np.memmap)


def some_rows(features: NDArray[np.float32], docnos: bool = True) -> Letor:
    rows = len(features)
    labels = np.arange(rows) % 3
    starts = np.array([0, rows // 2, rows], np.int64)
    names = tuple(f"D{row}#" for row in range(rows)) if docnos else None
    return Letor(features, labels.astype(np.float32), starts, ("12", "7"), names)


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.tuples(FLOAT32, FLOAT32), min_size=2, max_size=6), docnos=st.booleans())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, float]], docnos: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.txt"
    data = some_rows(np.array(rows, np.float32), docnos)
    write_letor(path, data)
    assert equal(read_letor(path), data)


def test_scikit_learn_reads_what_is_written(tmp_path: Path) -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    features = np.random.default_rng(0).normal(size=(40, 7)).astype(np.float32)
    features[:, 2] = 0
    data = some_rows(features)
    path = tmp_path / "written.txt"
    write_letor(path, data)
    theirs, labels, queries = datasets.load_svmlight_file(str(path), query_id=True, n_features=7)
    assert np.array_equal(theirs.toarray().astype(np.float32), features)
    assert np.array_equal(labels, data.labels)
    assert queries.tolist() == [12] * 20 + [7] * 20


def test_what_cannot_be_written(tmp_path: Path) -> None:
    data = some_rows(np.ones((4, 2), np.float32))
    path = tmp_path / "written.txt"
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"queries": ("a b", "c")}, "cannot write a name: 'a b'"),
        ({"queries": ("a#", "c")}, "cannot write a query: 'a#'"),
        ({"docnos": ("", "b", "c", "d")}, "cannot write a name: ''"),
        ({"features": np.full((4, 2), np.nan, np.float32)}, "feature of query 12 is not finite"),
    ]
    for wrong, message in wrongs:
        with pytest.raises(InputError, match=message):
            write_letor(path, Letor(**{**vars(data), **wrong}))
        assert not path.exists()


def test_scikit_learn_reads_real_files_alike(shared_data: Path) -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    for name in ("ltr/lightgbm/test.txt", "ltr/mq2008/Fold1/vali.txt"):
        path = shared_data / name
        theirs, labels, queries = datasets.load_svmlight_file(str(path), query_id=True)
        ours = read_letor(path, width=theirs.shape[1])
        assert np.array_equal(theirs.toarray().astype(np.float32), ours.features)
        assert np.array_equal(labels, ours.labels)
        assert np.repeat(ours.queries, np.diff(ours.starts)).tolist() == [str(q) for q in queries]


def test_real_files(shared_data: Path) -> None:
    named = read_letor(shared_data / "ltr/mq2008/Fold1/train.txt").docnos
    assert named is not None
    assert named[0] == "GX008-86-4444840"
    sample = shared_data / "ltr/tf_ranking_sample/train.txt"
    with pytest.raises(InputError, match=r":1: feature repeated in a row: '17:0\.369905'"):
        read_letor(sample)
    assert read_letor(sample, repeated="last").features[0, 16] == np.float32(0.369905)


def test_ids_from_0_are_read_one_higher(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As scikit-learn writes them by default."""
    rows = [(2, 1, [0.5, 0.0, 3.0]), (0, 1, [0.0, 1.0, 0.0]), (1, 2, [7.0, 0.0, 0.0])]
    path = tmp_path / "zero.txt"
    features = np.array([values for _, _, values in rows])
    dump_svmlight_file(features, [label for label, *_ in rows], str(path), query_id=[q for _, q, _ in rows])
    with caplog.at_level("INFO", logger="lmtune"):
        assert read_letor(path).features.tolist() == features.tolist()
    assert "zero.txt: feature ids count from 0" in caplog.text
    assert read_letor(path, cache=tmp_path / "cache").features.tolist() == features.tolist()
    assert read_letor(path, zero_based=True).features.tolist() == features.tolist()
    with pytest.raises(InputError, match=r"bad feature: '0:0\.5'"):
        read_letor(path, zero_based=False)
    one = written(tmp_path, "1 qid:1 1:2 3:4\n")
    assert read_letor(one, zero_based=True).features.tolist() == [[0, 2, 0, 4]]
    assert read_letor(one).features.tolist() == [[2, 0, 4]]
