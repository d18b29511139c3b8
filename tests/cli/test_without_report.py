"""Commands without the extra ``report``: pandas and matplotlib cannot be imported in these processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import random_collection

import lmtune
from lmtune.cli.main import run
from lmtune.errors import MissingExtraError
from lmtune.report.figures import topic_differences

WITHOUT = "import sys; sys.modules.update(pandas=None, matplotlib=None); "
NOTE = "no pictures: pip install -c constraints.txt '.[report]' in a checkout of lmtune"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a collection and two runs."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "c").mkdir()
    documents = [{"id": f"d{n}", "contents": f"word{n % 7} word{n % 5} word{n % 3} end"} for n in range(40)]
    (folder / "c/docs.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in documents))
    (folder / "c/topics.tsv").write_text("".join(f"{n}\tword{n} end\n" for n in range(7)))
    judged = [f"{n} 0 d{d} {int((d + n) % 3 == 0)}\n" for n in range(7) for d in range(n, 40, 4)]
    (folder / "c/qrels.txt").write_text("".join(judged))
    for name, step in (("a", 2), ("b", 3)):
        lines = (f"{n} Q0 d{d} 1 {(d * step) % 37} {name}\n" for n in range(7) for d in range(0, 40, step))
        (folder / f"{name}.run").write_text("".join(lines))
    (folder / "a.csv").write_text("qid,docno,score\n" + "".join(f"{n},d{n},1.5\n" for n in range(7)))
    return folder


def command(home: Path, *arguments: str, without: str = WITHOUT) -> subprocess.CompletedProcess[str]:
    code = f"{without}from lmtune.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=home, capture_output=True, text=True, check=False
    )


JOBS = [
    ("tune", "c", "-m", "AP", "--model", "sdm", "--grid", "8", "--restarts", "0", "--output", "OUT"),
    ("tune", "c", "-m", "AP", "--grid", "3x3", "--certify", "0.1", "--also", "spsa", "--output", "OUT"),
    ("tune", "c", "-m", "AP", "--grid", "3x3", "--choose", "stemmer=porter,none", "--output", "OUT"),
    ("evaluate", "c/qrels.txt", "a.run", "b.run", "a.csv", "-m", "AP", "--residuals", "--format", "csv"),
    ("compare", "c/qrels.txt", "a.run", "b.run", "-m", "AP", "--format", "json"),
    ("fuse", "c/qrels.txt", "a.run", "b.run", "-m", "AP", "--output", "OUT/a.run"),
    ("search", "c", "word1 end", "--hits", "5"),
]


@pytest.mark.first_case
@pytest.mark.parametrize("job", [JOBS[3], *JOBS[:3], *JOBS[4:]], ids=lambda job: job[0])
def test_commands_write_the_same_without_it(home: Path, job: tuple[str, ...]) -> None:
    written = []
    for without in (WITHOUT, ""):
        done = command(home, *job, without=without)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(NOTE) == ("--choose" in job and without != "")
        files = [path for path in sorted(home.glob("OUT*/**/*")) if path.is_file()]
        # The record has the digests of the other files.
        files = [path for path in files if path.name != "made.json" and path.stem != "interactions"]
        written.append((done.stdout, [(path.name, path.read_bytes()) for path in files]))
        for path in home.glob("OUT*"):
            shutil.rmtree(path)
    assert written[0] == written[1]


@pytest.mark.slow
def test_pictures_are_left_out_with_one_note(home: Path) -> None:
    command(home, *JOBS[1])
    done = command(home, "report", "OUT")
    assert (done.returncode, done.stderr.count(NOTE)) == (0, 1)
    page = (home / "OUT/report.html").read_text()
    assert "data:image/svg" not in page and "<table" in page
    for job in (("compare", "c/qrels.txt", "a.run", "b.run"), ("fuse", "c/qrels.txt", "a.run", "b.run")):
        done = command(home, *job, "-m", "AP", "--plot", "drawn")
        assert (done.returncode, done.stderr.count(NOTE), "drew" in done.stderr) == (0, 1, False)
    assert [path.name for path in (home / "drawn").iterdir()] == ["formulas.txt"]


def test_data_frames_and_pictures_name_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("pandas", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    index, topics, qrels = random_collection(3, documents=20, topics=2)
    pool = lmtune.CandidatePool.build(index, topics, qrels)
    grid = lmtune.GridSearch("AP", shape=(2, 2)).fit(pool)
    assert "Best setting" in repr(pool) + grid._repr_html_()
    frames: list[Callable[[], object]] = [
        lambda: grid.results_,
        lambda: grid.to_frame(),
        lambda: lmtune.run_frame([]),
    ]
    for frame in frames:
        with pytest.raises(MissingExtraError, match=r"a data frame needs the 'report' extra.*\[report\]"):
            frame()
    pictures: list[Callable[[], object]] = [
        lambda: grid.plot(),
        lambda: topic_differences([0.5], [0.3], measure="AP"),
    ]
    for draw in pictures:
        with pytest.raises(MissingExtraError, match=r"a picture needs the 'report' extra.*\[report\]"):
            draw()
    monkeypatch.setattr("sys.argv", ["lmtune", "plot", "nowhere"])
    assert run() == 2
    assert "plot needs the 'report' extra" in capsys.readouterr().err
