from __future__ import annotations

import bz2
import gzip
import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from scripts import run_python

from lmtune.errors import InputError
from lmtune.io.files import atomic_write, open_bytes, read_bytes, read_lines
from lmtune.io.folders import FolderKind, atomic_directory

COMPRESS = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
CONTENT = "".join(f"line {number} of some text\n" for number in range(5000)).encode()


def put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", ["", ".gz", ".GZ", ".bz2", ".Bz2", ".zst", ".ZST"])
def test_reads_every_compression_in_either_case(tmp_path: Path, suffix: str) -> None:
    path = put(tmp_path / f"a.txt{suffix}", COMPRESS[suffix.lower()](CONTENT))
    with open_bytes(path) as stream:
        assert stream.read(10) + stream.read() == CONTENT
    assert len(list(read_lines(path))) == 5000


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_reads_concatenated_members(tmp_path: Path, suffix: str) -> None:
    pack = COMPRESS[suffix]
    path = put(tmp_path / f"a{suffix}", pack(b"one\n") + pack(b"") + pack(b"two\n"))
    assert read_bytes(path) == b"one\ntwo\n"


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("kept", [0.2, 0.9, -1])
def test_truncated_compressed_file(tmp_path: Path, suffix: str, kept: float) -> None:
    # Incompressible, so that some lines come out before the end is missed.
    whole = COMPRESS[suffix](os.urandom(300_000).hex().encode())
    size = len(whole) - 1 if kept < 0 else int(len(whole) * kept)
    path = put(tmp_path / f"a{suffix}", whole[:size])
    with pytest.raises(InputError, match="ends too early") as caught:
        list(read_lines(path))
    assert caught.value.file == str(path)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_not_compressed_at_all(tmp_path: Path, suffix: str) -> None:
    path = put(tmp_path / f"a{suffix}", b"plain text, and more than a header of it\n" * 20)
    with pytest.raises(InputError, match="damaged compressed file") as caught:
        read_bytes(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_corrupt_gzip_member_behind_lines_names_the_line_reached(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(CONTENT * 10))
    whole[-6] ^= 0xFF  # the checksum
    with pytest.raises(InputError, match="damaged") as caught:
        list(read_lines(put(tmp_path / "a.gz", bytes(whole))))
    assert caught.value.line is not None
    assert 25_000 < caught.value.line <= 50_001


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_members_one_after_another_are_read_whole(tmp_path: Path, suffix: str) -> None:
    members = b"".join(
        COMPRESS[suffix](CONTENT[begin : begin + 9000]) for begin in range(0, len(CONTENT), 9000)
    )
    assert read_bytes(put(tmp_path / f"a{suffix}", members)) == CONTENT


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("defect", ["damaged", "trailing", "cut"])
def test_a_later_member_with_a_defect_is_refused(tmp_path: Path, suffix: str, defect: str) -> None:
    first, second = COMPRESS[suffix](CONTENT), bytearray(COMPRESS[suffix](CONTENT))
    second[2] ^= 0xFF  # within the magic number
    later = {"damaged": second, "trailing": b"1 Q0 d9 1 2.5 tag\n", "cut": COMPRESS[suffix](CONTENT)[:-9]}
    path = put(tmp_path / f"a{suffix}", first + later[defect])
    with pytest.raises(InputError, match="ends too early" if defect == "cut" else "damaged compressed file"):
        list(read_lines(path))


def test_missing_directory_and_unreadable(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read: No such file") as caught:
        open_bytes(tmp_path / "none.gz")
    assert caught.value.file == str(tmp_path / "none.gz")
    assert caught.value.accepted is None
    for name in ("bm25.run", "bm25-rm3.run", "other"):
        put(tmp_path / name, b"x")
    with pytest.raises(InputError, match=r"an existing file, such as bm25\.run, bm25-rm3\.run$"):
        open_bytes(tmp_path / "bm25.rn")
    with pytest.raises(InputError, match=r"No such file or directory$"):
        open_bytes(tmp_path / "no folder" / "bm25.run")
    put(tmp_path / "bm25-rm3.run.gz", b"x")
    with pytest.raises(InputError, match=r"such as bm25-rm3\.run, bm25-rm3\.run\.gz$"):
        open_bytes(tmp_path / "BM25-RM3.txt")
    with pytest.raises(InputError, match=r"Is a directory; accepted: a file, such as bm25-rm3\.run$"):
        list(read_lines(tmp_path))
    closed = put(tmp_path / "closed", b"x")
    closed.chmod(0)
    if os.access(closed, os.R_OK):
        pytest.skip("this user reads everything")
    with pytest.raises(InputError, match="cannot read: Permission denied"):
        open_bytes(closed)


def test_lines_bom_crlf_and_no_final_newline(tmp_path: Path) -> None:
    path = put(tmp_path / "a", "\ufeffone\r\n\ntwo\u2028\x85three\ufeff \r".encode())
    assert list(read_lines(path)) == [(1, "one"), (2, ""), (3, "two\u2028\x85three\ufeff ")]
    assert list(read_lines(put(tmp_path / "b", b""))) == []


def test_invalid_utf8_names_line_and_bytes(tmp_path: Path) -> None:
    path = put(tmp_path / "a", b"good\nb\xe4d\n")
    lines = read_lines(path)
    assert next(lines) == (1, "good")
    with pytest.raises(InputError, match="invalid UTF-8 at byte 2") as caught:
        next(lines)
    assert (caught.value.line, caught.value.value) == (2, b"\xe4d\n")


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))))
def test_lines_are_what_was_written(tmp_path_factory: pytest.TempPathFactory, x: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.gz"
    with atomic_write(path) as stream:
        stream.writelines(f"{line}\n" for line in ["first", *x])
    assert list(read_lines(path)) == list(enumerate(["first", *x], 1))


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".zst"])
def test_writes_utf8_with_newlines_and_makes_parents(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "new" / "folder" / f"a{suffix}"
    with atomic_write(path) as stream:
        stream.write("é\nx\n")
        assert not path.exists()
    assert read_bytes(path) == "é\nx\n".encode()
    with atomic_write(path, mode="binary") as binary:
        binary.write(b"\r\n\xff")
    with open_bytes(path) as stream_back:
        assert stream_back.read() == b"\r\n\xff"
    assert [entry.name for entry in path.parent.iterdir()] == [f"a{suffix}"]


def test_gzip_depends_on_the_content_alone(tmp_path: Path) -> None:
    for name in ("one.gz", "two.gz"):
        with atomic_write(tmp_path / name) as stream:
            stream.write("same")
    first = (tmp_path / "one.gz").read_bytes()
    assert first == (tmp_path / "two.gz").read_bytes()
    assert first[3] == 0, "no file name in the header"
    assert first[4:8] == bytes(4), "no time in the header"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failure_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = put(tmp_path / "a.gz", b"old")
    with pytest.raises(error), atomic_write(path) as stream:
        stream.write("new" * 100_000)
        raise error
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.gz"]


def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a"):
        pass
    usual = tmp_path / "b"
    usual.touch()
    assert (tmp_path / "a").stat().st_mode == usual.stat().st_mode


def test_writes_through_a_link_and_to_standard_output(tmp_path: Path) -> None:
    target = put(tmp_path / "target", b"old")
    link = tmp_path / "link"
    link.symlink_to(target)
    with atomic_write(link) as stream:
        stream.write("new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    if not Path("/dev/stdout").exists():
        pytest.skip("no /dev/stdout on this platform")
    code = (
        "from lmtune.io.files import atomic_write\n"
        "with atomic_write('/dev/stdout') as stream: stream.write('piped')"
    )
    assert run_python("-c", code).out == "piped"


def test_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a directory"), atomic_write(tmp_path):
        pass
    blocker = put(tmp_path / "file", b"x")
    with pytest.raises(InputError, match="cannot write"), atomic_write(blocker / "a"):
        pass
    with pytest.raises(InputError, match="a file"), atomic_directory(blocker):
        pass
    assert blocker.read_bytes() == b"x"


def test_directory_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "folder"
    for content in ("one", "two"):
        with atomic_directory(path) as folder:
            assert folder.parent == path.parent
            (folder / f"{content}.txt").write_text(content)
    assert [entry.name for entry in path.iterdir()] == ["two.txt"]
    assert [entry.name for entry in path.parent.iterdir()] == ["folder"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failing_directory_leaves_the_old_one(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    put(path / "old", b"x")
    with pytest.raises(error), atomic_directory(path) as folder:
        put(folder / "new", b"y")
        raise error
    assert [entry.name for entry in path.iterdir()] == ["old"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_directory_with_a_marker_spares_foreign_folders(tmp_path: Path) -> None:
    path = tmp_path / "home"
    path.mkdir()
    with atomic_directory(path, FolderKind("index.json")) as folder:
        put(folder / "index.json", b"{}")
    with atomic_directory(path, FolderKind("index.json")) as folder:
        put(folder / "index.json", b"{1}")
    assert (path / "index.json").read_bytes() == b"{1}"
    (path / "index.json").rename(path / "thesis.tex")
    with pytest.raises(InputError, match=r"no index\.json"), atomic_directory(path, FolderKind("index.json")):
        pass
    assert (path / "thesis.tex").exists()


def test_importing_the_formats_stays_light() -> None:
    code = (
        "import sys, lmtune.io.documents, lmtune.io.topics, lmtune.io.runs\n"
        "print({'lxml', 'zstandard', 'pandas', 'scipy', 'numba'} & set(sys.modules))"
    )
    assert run_python("-c", code).out.strip() == "set()"


def test_a_folder_that_several_replace_at_once(tmp_path: Path) -> None:
    path = tmp_path / "results"

    def write(number: int) -> None:
        with atomic_directory(path, FolderKind("made.json")) as folder:
            for name in ("made.json", "other"):
                folder.joinpath(name).write_text(str(number))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(200)))
    assert [*tmp_path.iterdir()] == [path]
    assert len({path.joinpath(name).read_text() for name in ("made.json", "other")}) == 1


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_a_flipped_bit_is_noticed_or_says_nothing(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    with atomic_write(path, mode="binary") as stream:
        stream.write(CONTENT)
    whole = path.read_bytes()
    rng = np.random.default_rng(3)
    for place in [0, 4, 8, len(whole) - 1, *rng.choice(len(whole), 200)]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            assert read_bytes(path) == CONTENT
        except InputError as error:
            assert "\n" not in str(error)


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, limit[1]))
        with pytest.raises(OSError, match="big"), atomic_write(tmp_path / "big.txt") as stream:
            stream.write("x" * (1 << 20))
        with pytest.raises(OSError, match="folder"), atomic_directory(tmp_path / "folder") as folder:
            (folder / "part").write_bytes(b"x" * (1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert list(tmp_path.iterdir()) == []
