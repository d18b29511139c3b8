"""Every documented job on every shape of collection: `matrix_jobs` times `matrix_shapes`.

A job ends with status 0, or with one clear line that `REFUSED` declares; never with a traceback or a
numerical warning. What it makes is checked by the job's own invariants, and is the same when made twice:
on a few shapes, and on all with `make attack`, which sets ``LMTUNE_TWICE``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matrix_jobs import JOBS, Job
from matrix_refusals import REFUSED
from matrix_shapes import SHAPES, Shape

from lmtune.cli.main import app
from lmtune.errors import InputError
from lmtune.report import figures, page
from lmtune.report.figures import drawing


class Done(NamedTuple):
    """How a job ended: what it printed, or the one line that refuses it."""

    out: str
    refused: str | None = None


class RunWorld:
    """A collection in a folder of its own, and what jobs made there; each job is run once."""

    def __init__(self, home: Path, shape: Shape) -> None:
        self.home, self.shape, self.folder = home, shape, shape.folder
        self.data = shape.make(home)
        self._done: dict[str, Done] = {}

    def output(self, job: str) -> str:
        return self.done(JOBS[job]).out

    def done(self, job: Job) -> Done:
        """Run a job, after those that it needs."""
        if job.name not in self._done:
            if job.after and self.done(JOBS[job.after]).refused is not None:
                self._done[job.name] = Done("", f"after {job.after}")
                return self._done[job.name]
            with contextlib.chdir(self.home):
                self._done[job.name] = self._run(job, ".")
                if self._done[job.name].refused is None and job.check is not None:
                    job.check(self)
        return self._done[job.name]

    def again(self, job: Job) -> None:
        """Run a job once more, with outputs elsewhere."""
        with contextlib.chdir(self.home):
            Path("again").mkdir(exist_ok=True)
            self._run(job, "again")

    def _run(self, job: Job, outputs: str) -> Done:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            if not isinstance(job.what, str):
                try:
                    job.what(self)
                except InputError as error:
                    return Done("", str(error))
                return Done("")
            line = job.what.format(c=self.folder, o=outputs)
            result = CliRunner().invoke(app, line.split())
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if result.exit_code == 2:
            last = result.stderr.splitlines()[-1]
            assert last.startswith("lmtune: ")
            return Done(result.stdout, last.removeprefix("lmtune: "))
        assert result.exit_code == 0, result.output
        if "--format json" in line:
            json.loads(result.stdout)
        return Done(result.stdout)


@pytest.fixture(autouse=True, scope="module")
def _pictures_are_cheap() -> Iterator[None]:
    """Draw the pictures of a folder once, without layout and rendering; other tests look at pictures."""
    drawn: dict[Path, list[Any]] = {}

    def draw_once(path: Path, results: Any) -> list[Any]:
        home = Path(path).resolve()
        if home not in drawn:
            drawn[home] = list(drawing.draw(path, results))
        return drawn[home]

    def save_nothing(_figure: Figure, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConstrainedLayoutEngine, "execute", lambda *_: None)
        for module in (figures, page):
            patch.setattr(module, "draw", draw_once)
        patch.setattr(figures, "save", save_nothing)
        patch.setattr(page, "render", lambda *_: b"<svg/>")
        yield


_FIRST_TIER = ("judged-non-relevant", "only-relevant")
_TWICE = (*_FIRST_TIER, "odd-ids", "equal-scores")

_WORLDS: dict[str, RunWorld] = {}


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunWorld:
    shape: Shape = request.param
    if shape.name not in _WORLDS:
        _WORLDS.clear()  # cells come shape by shape
        _WORLDS[shape.name] = RunWorld(tmp_path_factory.mktemp(shape.name), shape)
    return _WORLDS[shape.name]


def _cells() -> Iterator[object]:
    for shape in SHAPES:
        marks = [pytest.mark.slow] * (shape.name not in _FIRST_TIER)
        for job in JOBS.values():
            yield pytest.param(shape, job, id=f"{shape.name}-{job.name}", marks=marks)


@pytest.mark.parametrize(("world", "job"), list(_cells()), indirect=["world"])
def test_job(world: RunWorld, job: Job) -> None:
    if find_spec(job.needs) is None:
        pytest.skip(f"{job.needs} is not installed")
    done = world.done(job)
    expected = _refusal(world.shape.name, job.name)
    if done.refused is not None and done.refused.startswith("after "):
        return  # declared for the job before it
    assert (done.refused is None) == (expected is None), done.refused or "not refused"
    if expected is not None:
        assert done.refused is not None
        assert re.search(expected, done.refused)
        return
    if job.makes and (world.shape.name in _TWICE or "LMTUNE_TWICE" in os.environ):
        world.again(job)
        assert _digests(world.home / job.makes) == _digests(world.home / "again" / job.makes)


def _refusal(shape: str, job: str) -> str | None:
    """Return the line that is declared for a cell."""
    declared = (
        text for shapes, jobs, text in REFUSED if re.fullmatch(shapes, shape) and re.fullmatch(jobs, job)
    )
    return next(declared, None)


def _digests(path: Path) -> dict[str, str]:
    """Return the digest of each file, by its path in a folder."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
