"""``lmtune evaluate`` as a program."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pytest
from scripts import refusal, run_command, run_python

from lmtune.cli.main import run as run_main

QRELS = "1 0 a 1\n1 0 b 0\n2 0 a 1\n"
RUN = "1 Q0 a 1 2 one\n2 Q0 b 1 2 one\n2 Q0 a 2 1 one\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "half").write_text("1 Q0 b 1 2 two\n1 Q0 a 2 1 two\n9 Q0 a 1 1 two\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_main(["evaluate", *arguments])
    return (code, *capsys.readouterr())


def test_one_run_as_trec_eval(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "qrels", "run")
    assert (code, err) == (0, "")
    lines = [line.split("\t") for line in out.splitlines()]
    assert len(lines) == 30
    assert lines[0] == ["runid".ljust(22), "all", "one"]
    assert ["map".ljust(22), "all", "0.7500"] in lines
    code, out, _ = run(capsys, "-q", "-mP.1", "-m", "nDCG@10", "-l1", "-M5", "qrels", "run")
    assert out.splitlines()[:2] == [f"{'P_1':22}\t1\t1.0000", f"{'nDCG@10':22}\t1\t1.0000"]
    assert run(capsys, "qrels", "run", "-n") == (0, "", "")


def test_several_runs_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "qrels", "run", "half", "-m", "map", "-m", "P_1")
    assert code == 0
    assert out.splitlines() == [
        "measure     one     two",
        "map      0.7500  0.5000",
        "P_1      0.5000  0.0000",
    ]
    assert err.splitlines() == [
        "half: the run misses 1 of 2 judged topics, left out of the means; -c counts them as 0: 2",
        "half: topics without judgments, left out: 1",
        "the runs' means are over different topics; -c uses all judged topics for each run",
    ]
    out = run(capsys, "-c", "qrels", "run", "half", "-m", "map", "--format", "json")[1]
    assert [record["all"]["map"] for record in json.loads(out)] == [0.75, 0.25]
    out = run(capsys, "-c", "qrels", "run", "half", "-m", "map", "--format", "trec_eval")[1]
    assert out == f"{'map':22}\tall\t0.7500\n{'map':22}\tall\t0.2500\n"


def test_missing_topics_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, how in (((), "left out of the means; -c counts them as 0"), (("-c",), "counted as 0")):
        err = run(capsys, *arguments, "qrels", "half", "-m", "map")[2]
        assert err.splitlines()[0] == f"half: the run misses 1 of 2 judged topics, {how}: 2"


def test_its_options(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(capsys, "-q", "-c", "-l", "1", "-m", "map", "qrels", "run")
    long = ("--query_eval_wanted", "--complete_rel_info_wanted", "--level_for_rel=1", "--measure", "map")
    assert run(capsys, *long, "-o", "-R", "qrels", "-Ttrec_results", "qrels", "run") == expected
    assert run(capsys, "-qc", "qrels", "-mmap", "run") == expected
    everything = run(capsys, "-a", "qrels", "run")
    assert everything == run(capsys, "-m", "all_trec", "qrels", "run")
    assert everything[1] != expected[1]
    code, out, err = run(capsys, "-v")
    assert (code, out) == (0, "")
    assert err.startswith("trec_eval version 9.0.8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((home / "run").read_bytes())))
    assert run_main(["evaluate", "-q", "-c", "-m", "map", "qrels", "-"]) == 0
    assert capsys.readouterr().out == expected[1]


BAD_RUNS = [
    (
        b"1 0 a 1\n",
        "bad: these are judgments, not a run; accepted: lines of topic, Q0, docno, rank, score, tag; as ",
    ),
    (b"7 Q0 a 1 2 t\n", "bad: no topic of the run has judgments: '7'; accepted: topics of the judgments"),
    (None, "bad: cannot read: Is a directory; accepted: a file"),
]


@pytest.mark.parametrize(("content", "message"), BAD_RUNS)
def test_bad_runs(content: bytes | None, message: str, home: Path) -> None:
    if content is None:
        (home / "bad").mkdir()
    else:
        (home / "bad").write_bytes(content)
    assert refusal("evaluate qrels run bad").startswith(f"lmtune: {message}")


def test_a_cut_file(home: Path) -> None:
    (home / "bad.gz").write_bytes(gzip.compress(RUN.encode() * 50)[:-9])
    error = "lmtune: bad.gz: compressed file ends too early; accepted: a whole file"
    assert refusal("evaluate qrels bad.gz") == error


def test_harmless_forms(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = run(capsys, "qrels", "run")
    (home / "crlf").write_bytes(b"\xef\xbb\xbf" + RUN.replace("\n", "\r\n").encode())
    (home / "r.gz").write_bytes(gzip.compress(RUN.encode()))
    for name in ("crlf", "r.gz"):
        assert run(capsys, "qrels", name) == expected


def test_what_trec_eval_lets_pass(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "odd").write_text("1 Q0 a first 2 t and more\n1 Q0 b 2 1 u\n")
    code, out, err = run(capsys, "-m", "runid,num_ret", "qrels", "odd")
    assert (code, out.split()) == (0, ["runid", "all", "u", "num_ret", "all", "2"])
    assert err.splitlines()[0] == "odd: skipped lines: 1 bad ranks kept, 1 second run tags kept"


def test_lenient(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "bad").write_text(RUN + "1 Q0 a 9 9 one\n1 Q0 c x 1 one\nshort\n\n1 Q0 d 1 nan one\n")
    code, out, err = run(capsys, "--lenient", "-mnum_ret", "qrels", "bad")
    assert (code, out) == (0, f"{'num_ret':22}\tall\t4\n")
    assert err == (
        "bad: skipped lines: 1 repeated documents skipped, 1 bad ranks kept, "
        "1 wrong number of columns skipped, 1 bad scores skipped\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("qrels",), ("RUN", "lmtune evaluate [OPTIONS] QRELS RUN...")),
        (("qrels", "run", "--format", "html"), ("'html'", "markdown")),
        (("qrels", "run", "-m", "Foo", "-m", "map", "-m", "Bar"), ("'Foo'", "'Bar'", "official")),
        (("qrels", "run", "-l", "x"), ("--level", "'x'", "an integer")),
        (("qrels", "run", "-l", "-1"), ("level", "0 or more")),
        (("qrels", "run", "-M", "0"), ("--depth", "1 or more")),
        (("qrels", "run", "--frob"), ("--frob", "--help")),
        (("qrels", "run", "-R", "prefs"), ("--rel-format", "'prefs'", "qrels")),
        (("qrels", "run", "--trec-eval", "8.1"), ("'8.1'", "9.0.8, 10.0")),
        (("absent", "run"), ("absent", "No such file")),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    error = refusal("evaluate", arguments)
    assert all(word in error for word in words)


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(flag: str) -> None:
    shown = run_command("evaluate qrels", flag).out
    assert "--trec-eval" in shown
    assert "--rel-format" not in shown
    assert "--rel-format" in run_command("evaluate --help-all").out
    assert "-Z and -R are missing" in shown
    assert "official (the default)" in shown
    assert "evaluate" in run_command(flag).out


def modules(*arguments: str) -> set[str]:
    code = (
        "import sys, lmtune.cli\n"
        f"sys.argv = ['lmtune', 'evaluate', *{arguments!r}]\n"
        "try:\n    lmtune.cli.main()\n"
        "except SystemExit as end:\n    assert end.code == 0, end.code\n"
        "print('MODULES', *sys.modules)\n"
    )
    return set(run_python("-c", code).out.rsplit("MODULES ", 1)[1].split())


HEAVY = {"torch", "jnius", "jpype", "pandas", "scipy", "numba", "numpy", "rich"}


@pytest.mark.parametrize("style", ["trec_eval", "table", "markdown", "latex", "csv", "json"])
def test_nothing_heavy_is_imported(style: str) -> None:
    found = modules("qrels", "run", "half", "-m", "all_trec", "-m", "AP@10", "--format", style)
    assert "lmtune.measures.from_files" in found
    assert not found & HEAVY


def test_never_a_jvm_nor_torch() -> None:
    found = modules("qrels", "run", "-m", "SetF", "-m", "Judged@10")
    assert "ir_measures" in found
    assert not found & {"torch", "jnius", "jpype"}


def test_residuals(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1 0 a 1\n1 0 b 0\n")
    (tmp_path / "run").write_text("1 Q0 a 1 2 mine\n1 Q0 x 2 1 mine\n")
    shown = run_command("evaluate qrels run --residuals -m P_2,AP", cwd=tmp_path).out
    header, *rows = [line.split() for line in shown.splitlines()[:3]]
    assert header == ["run", "measure", "value", "lowest", "highest", "judged@10"]
    assert rows == [
        ["mine", "P@2", "0.5000", "0.5000", "1.0000", "0.5000"],
        ["mine", "AP", *["1.0000"] * 3, "0.5000"],
    ]
    assert "'Rprec'" in refusal("evaluate qrels run --residuals -m Rprec", cwd=tmp_path)


def test_a_run_of_distances_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "q").write_text("1 0 a 1\n")
    (tmp_path / "run").write_text("1 Q0 a 1 0.1 r\n1 Q0 b 2 0.2 r\n")
    code, out, err = run(capsys, str(tmp_path / "q"), str(tmp_path / "run"), "-m", "RR")
    assert code == 0
    assert "0.5000" in out
    assert "scores rise with the rank" in err
