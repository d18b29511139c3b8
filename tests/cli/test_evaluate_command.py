"""``lmtune evaluate`` as a program."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lmtune.cli.main import app
from lmtune.cli.main import run as run_main

QRELS = "1 0 a 1\n1 0 b 0\n2 0 a 1\n"
RUN = "1 Q0 a 1 2 one\n2 Q0 b 1 2 one\n2 Q0 a 2 1 one\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "half").write_text("1 Q0 b 1 2 two\n1 Q0 a 2 1 two\n9 Q0 a 1 1 two\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_main(["evaluate", *arguments])
    return (code, *capsys.readouterr())


@pytest.mark.usefixtures("home")
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


@pytest.mark.usefixtures("home")
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


@pytest.mark.usefixtures("home")
def test_missing_topics_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, how in (((), "left out of the means; -c counts them as 0"), (("-c",), "counted as 0")):
        err = run(capsys, *arguments, "qrels", "half", "-m", "map")[2]
        assert err.splitlines()[0] == f"half: the run misses 1 of 2 judged topics, {how}: 2"


@pytest.mark.usefixtures("home")
def test_options_of_trec_eval(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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


BAD_RUNS: dict[str, tuple[bytes, str]] = {
    "duplicate": (
        b"1 Q0 a 1 2 t\n1 Q0 a 2 1 t\n",
        "bad:2: document ranked twice for topic 1: 'a'; accepted: each document once (first in line 1)",
    ),
    "columns": (
        b"1 Q0 a 1 2\n",
        "bad:1: 5 columns: '1 Q0 a 1 2'; accepted: 6 columns: topic, Q0, docno, rank, score, tag",
    ),
    "judgments": (
        b"1 0 a 1\n",
        "bad: these are judgments, not a run; accepted: lines of topic, Q0, docno, rank, score, tag; "
        "as arguments, judgments come before runs",
    ),
    "nan": (b"1 Q0 a 1 nan t\n", "bad:1: the score is not a finite number: 'nan'; accepted: such as -7.25"),
    "infinite": (
        b"1 Q0 a 1 inf t\n",
        "bad:1: the score is not a finite number: 'inf'; accepted: such as -7.25",
    ),
    "utf8": (
        b"1 Q0 \xff 1 2 t\n",
        "bad:1: invalid UTF-8 at byte 6 of the line: b'\\xff 1 2 t'; accepted: UTF-8 text",
    ),
    "empty": (b"", "bad: the run is empty; accepted: 6 columns: topic, Q0, docno, rank, score, tag"),
    "foreign": (
        b"7 Q0 a 1 2 t\n",
        "bad: no topic of the run has judgments: '7'; accepted: topics of the judgments, such as 1",
    ),
    "directory": (b"", "bad: cannot read: Is a directory; accepted: a file"),
}


@pytest.mark.parametrize("case", BAD_RUNS)
def test_bad_runs(case: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, message = BAD_RUNS[case]
    if case == "directory":
        (home / "bad").mkdir()
    else:
        (home / "bad").write_bytes(content)
    assert run(capsys, "qrels", "run", "bad") == (2, "", f"lmtune: {message}\n")


def test_a_cut_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "bad.gz").write_bytes(gzip.compress(RUN.encode() * 50)[:-9])
    code, out, err = run(capsys, "qrels", "bad.gz")
    assert (code, out) == (2, "")
    assert err == "lmtune: bad.gz: compressed file ends too early; accepted: a whole file\n"


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


@pytest.mark.usefixtures("home")
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
def test_bad_arguments(
    arguments: tuple[str, ...], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("lmtune: ")
    assert all(word in err for word in words)


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(flag: str) -> None:
    shown = CliRunner().invoke(app, ["evaluate", "qrels", flag])
    assert shown.exit_code == 0
    assert "--trec-eval" in shown.stdout
    assert "--rel-format" not in shown.stdout
    assert "--rel-format" in CliRunner().invoke(app, ["evaluate", "--help-all"]).stdout
    assert "-Z and -R are missing" in shown.stdout
    assert "official (the default)" in shown.stdout
    assert "evaluate" in CliRunner().invoke(app, [flag]).stdout


def modules(*arguments: str) -> set[str]:
    code = (
        "import sys, lmtune.cli\n"
        f"sys.argv = ['lmtune', 'evaluate', *{arguments!r}]\n"
        "try:\n    lmtune.cli.main()\n"
        "except SystemExit as end:\n    assert end.code == 0, end.code\n"
        "print('MODULES', *sys.modules)\n"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    return set(done.stdout.rsplit("MODULES ", 1)[1].split())


HEAVY = {"torch", "jnius", "jpype", "pandas", "scipy", "numba", "numpy", "rich"}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("style", ["trec_eval", "table", "markdown", "latex", "csv", "json"])
def test_nothing_heavy_is_imported(style: str) -> None:
    found = modules("qrels", "run", "half", "-m", "all_trec", "-m", "AP@10", "--format", style)
    assert "lmtune.measures.from_files" in found
    assert not found & HEAVY


@pytest.mark.usefixtures("home")
def test_never_a_jvm_nor_torch() -> None:
    found = modules("qrels", "run", "-m", "SetF", "-m", "Judged@10")
    assert "ir_measures" in found
    assert not found & {"torch", "jnius", "jpype"}


def test_residuals(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("1 0 a 1\n1 0 b 0\n")
    (tmp_path / "run").write_text("1 Q0 a 1 2 mine\n1 Q0 x 2 1 mine\n")
    result = CliRunner().invoke(
        app, ["evaluate", str(tmp_path / "qrels"), str(tmp_path / "run"), "--residuals", "-m", "P_2,AP"]
    )
    assert result.exit_code == 0
    header, *rows = [line.split() for line in result.stdout.splitlines()[:3]]
    assert header == ["run", "measure", "value", "lowest", "highest", "judged@10"]
    assert rows == [
        ["mine", "P@2", "0.5000", "0.5000", "1.0000", "0.5000"],
        ["mine", "AP", *["1.0000"] * 3, "0.5000"],
    ]
    result = CliRunner().invoke(
        app, ["evaluate", str(tmp_path / "qrels"), str(tmp_path / "run"), "--residuals", "-m", "Rprec"]
    )
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
    assert "'Rprec'" in result.stderr


def test_a_run_of_distances_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "q").write_text("1 0 a 1\n")
    (tmp_path / "run").write_text("1 Q0 a 1 0.1 r\n1 Q0 b 2 0.2 r\n")
    code, out, err = run(capsys, str(tmp_path / "q"), str(tmp_path / "run"), "-m", "RR")
    assert code == 0
    assert "0.5000" in out
    assert "scores rise with the rank" in err
