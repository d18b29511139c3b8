"""Commands without the extra ``report``: pandas and matplotlib cannot be imported in these processes."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from made_folder import write_folder
from scripts import Printed, run_command, run_python
from support import random_collection

import lmtune
from lmtune.cli.main import run
from lmtune.errors import MissingExtraError
from lmtune.report.figures import topic_differences

NOTE = "no pictures: pip install -c constraints.txt '.[report]' in a checkout of lmtune"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a collection and two runs."""
    folder = tmp_path_factory.mktemp("home")
    documents = {f"d{n}": f"word{n % 7} word{n % 5} word{n % 3} end" for n in range(40)}
    gains = ((n, f"d{d}", int((d + n) % 3 == 0)) for n in range(7) for d in range(n, 40, 4))
    write_folder(folder / "c", documents, {n: f"word{n} end" for n in range(7)}, gains)
    for name, step in (("a", 2), ("b", 3)):
        lines = (f"{n} Q0 d{d} 1 {(d * step) % 37} {name}\n" for n in range(7) for d in range(0, 40, step))
        (folder / f"{name}.run").write_text("".join(lines))
    (folder / "a.csv").write_text("qid,docno,score\n" + "".join(f"{n},d{n},1.5\n" for n in range(7)))
    return folder


def without_pandas(line: str, *, cwd: Path) -> Printed:
    code = "import sys; sys.modules.update(pandas=None, matplotlib=None); from lmtune.cli import main; main()"
    return run_python("-c", code, *shlex.split(line), cwd=cwd)


JOBS = [
    "tune c -m AP --model sdm --grid 8 --restarts 0 --output OUT",
    "tune c -m AP --grid 3x3 --certify 0.1 --also spsa --output OUT",
    "tune c -m AP --grid 3x3 --choose stemmer=porter,none --output OUT",
    "evaluate c/qrels.txt a.run b.run a.csv -m AP --residuals --format csv",
    "compare c/qrels.txt a.run b.run -m AP --format json",
    "fuse c/qrels.txt a.run b.run -m AP --output OUT/a.run",
    "search c 'word1 end' --hits 5",
]


@pytest.mark.first_case
@pytest.mark.parametrize("job", [JOBS[3], *JOBS[:3], *JOBS[4:]], ids=lambda job: job.split()[0])
def test_commands_write_the_same_without_it(home: Path, job: str) -> None:
    written = []
    for called in (without_pandas, run_command):
        done = called(job, cwd=home)
        assert done.err.count(NOTE) == ("--choose" in job and called is without_pandas)
        files = [path for path in sorted(home.glob("OUT*/**/*")) if path.is_file()]
        # The record has the digests of the other files.
        files = [path for path in files if path.name != "made.json" and path.stem != "interactions"]
        written.append((done.out, [(path.name, path.read_bytes()) for path in files]))
        for path in home.glob("OUT*"):
            shutil.rmtree(path)
    assert written[0] == written[1]


@pytest.mark.slow
def test_pictures_are_left_out_with_one_note(home: Path) -> None:
    run_command(JOBS[1], cwd=home)
    assert without_pandas("report OUT", cwd=home).err.count(NOTE) == 1
    page = (home / "OUT/report.html").read_text()
    assert "data:image/svg" not in page and "<table" in page
    for job in ("compare", "fuse"):
        err = without_pandas(f"{job} c/qrels.txt a.run b.run -m AP --plot drawn", cwd=home).err
        assert (err.count(NOTE), "drew" in err) == (1, False)
    assert [path.name for path in (home / "drawn").iterdir()] == ["formulas.txt"]


def test_frames_name_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
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
