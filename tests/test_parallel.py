"""Tasks in processes, on a Dask cluster and as joblib is told: results, errors and ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import joblib
import parallel_tasks as tasks
import pytest
from conftest import start_cluster
from threadpoolctl import threadpool_limits

from lmtune import parallel
from lmtune.errors import InputError, LostWorkerError
from lmtune.parallel import Task, Workers, in_task_order, run_all, width

PLACES = ["1", "2", "3", "threading", "loky", "multiprocessing", "cluster", "joblib's dask"]
ENGINES = [pytest.param(name, marks=pytest.mark.slow) for name in ("ray", "spark")]


@pytest.fixture(scope="module")
def ray() -> Iterator[None]:
    """Start Ray on this machine, as joblib's backend."""
    ray = pytest.importorskip("ray")
    backend = pytest.importorskip("ray.util.joblib")
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", runtime_env=environment)
    backend.register_ray()
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def spark() -> Iterator[None]:
    """Start Spark in a Java VM of this machine, as joblib's backend."""
    joblibspark = pytest.importorskip("joblibspark")
    sql = pytest.importorskip("pyspark.sql")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        session = builder.getOrCreate()
        joblibspark.register_spark()
        yield
        session.stop()


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[None]:
    """Work there."""
    name = request.param
    with contextlib.ExitStack() as stack:
        if name.isdigit():
            stack.enter_context(Workers(int(name)).engaged())
        elif name in ("cluster", "joblib's dask"):
            stack.enter_context(Workers(cluster=request.getfixturevalue("cluster")).engaged())
            if name != "cluster":
                client = parallel._chosen.get()
                stack.callback(parallel._chosen.reset, parallel._chosen.set(None))
                stack.enter_context(joblib.parallel_config("dask", client=client))
        else:
            if name in ("ray", "spark"):
                request.getfixturevalue(name)
            stack.enter_context(joblib.parallel_config(name, n_jobs=2))
        yield


everywhere = pytest.mark.parametrize("place", [*PLACES, *ENGINES], indirect=True)
by_processes = pytest.mark.parametrize("place", ["2", "cluster"], indirect=True)


@pytest.mark.first_case
@everywhere
@pytest.mark.usefixtures("place")
def test_results_are_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert width() in (1, 2, 3)
    given = [(tasks.spectrum, {"seed": seed, "folder": str(tmp_path)}) for seed in range(5)]
    with threadpool_limits(1):  # of this process, whose threads may be asked to do it
        assert sorted(run_all(iter(given))) == sorted(run_all(given, 1))


def test_without_a_word_this_process_does_it() -> None:
    assert width() == 0
    assert list(run_all([(os.getpid, {})])) == [(0, os.getpid())]
    assert list(run_all([])) == []


@by_processes
@pytest.mark.usefixtures("place")
def test_linear_algebra_has_one_thread() -> None:
    assert list(run_all([(tasks.threads, {})])) == [(0, "1")]


@pytest.mark.first_case
@everywhere
@pytest.mark.usefixtures("place")
def test_an_error_comes_back_as_it_was() -> None:
    with pytest.raises(InputError, match="no such number: 3; accepted: another") as caught:
        list(run_all([(tasks.square, {"x": 2}), (tasks.fail, {"x": 3})]))
    assert caught.value.value == 3


@by_processes
@pytest.mark.usefixtures("place")
def test_an_error_that_cannot_travel_is_told() -> None:
    with pytest.raises(RuntimeError, match="OddError: one and other"):
        list(run_all([(tasks.fail_oddly, {})]))


def test_tasks_are_asked_for_when_their_turn_comes() -> None:
    asked = []

    def given() -> Iterator[Task]:
        for x in range(50):
            asked.append(x)
            yield tasks.square, {"x": x}

    found = run_all(given(), 2)
    next(found)
    assert len(asked) <= 8
    assert len(list(found)) == 49


@pytest.mark.first_case
@everywhere
@pytest.mark.usefixtures("place")
def test_what_tasks_share_reaches_them() -> None:
    given = [(tasks.add, {"x": x}) for x in range(6)]
    found = in_task_order(run_all(given, shared=[10]))
    assert [total for total, _ in found] == [10, 11, 12, 13, 14, 15]


def test_order_is_kept_without_waiting_for_all() -> None:
    asked: list[int] = []

    def found() -> Iterator[tuple[int, str]]:
        for place, name in [(1, "b"), (0, "a"), (2, "c")]:
            asked.append(place)
            yield place, name

    ordered = in_task_order(found())
    assert (next(ordered), asked) == ("a", [1, 0])
    assert list(ordered) == ["b", "c"]


def test_a_killed_process_is_told_in_one_line() -> None:
    with pytest.raises(LostWorkerError, match=r"^a worker process ended unexpectedly \(SIGKILL\(-9\)\);.*$"):
        list(run_all([(tasks.die, {})], 2))
    assert list(run_all([(tasks.square, {"x": 3})], 2)) == [(0, 9)]


def test_no_process_outlives_its_caller(tmp_path: Path) -> None:
    names = [tmp_path / name for name in "ab"]
    calls = run_all([(tasks.square, {"x": 1}), *((tasks.linger, {"path": str(name)}) for name in names)], 3)
    assert next(calls) == (0, 1)
    while not all(name.exists() and name.read_text() for name in names):
        time.sleep(0.01)
    calls.close()  # type: ignore[attr-defined]
    assert not any(map(is_alive, names))


@pytest.mark.first_case
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_a_killed_caller(tmp_path: Path, sent: signal.Signals) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, parallel_tasks\n"
        "from lmtune.cli.messages import prepare_process\n"
        "from lmtune.parallel import run_all\n"
        "prepare_process()\n"
        "list(run_all([(parallel_tasks.linger, {'path': path}) for path in sys.argv[1:]], 2))\n"
    )
    names = [tmp_path / name for name in "ab"]
    path = os.pathsep.join(sys.path)
    caller = subprocess.Popen(
        [sys.executable, script, *names],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not all(name.exists() and name.read_text() for name in names):
        time.sleep(0.01)
    # As the terminal's Ctrl-C, which goes to all; the others to the caller alone.
    (os.killpg if sent == signal.SIGINT else os.kill)(caller.pid, sent)
    _, said = caller.communicate(timeout=30)
    assert caller.returncode == {signal.SIGTERM: 143}.get(sent, -sent)
    assert said.count("KeyboardInterrupt") == (sent == signal.SIGINT)
    wait_until(lambda: not any(map(is_alive, names)))


def is_alive(name: Path) -> bool:
    """Say whether the process runs that wrote this file."""
    try:
        os.kill(int(name.read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_stray_print_is_no_output(capfd: pytest.CaptureFixture[str]) -> None:
    list(run_all([(tasks.speak, {})], 2))
    said = capfd.readouterr()
    assert said.out == ""
    assert "not for standard output" in said.err


@pytest.mark.slow
def test_a_killed_worker_of_a_cluster_costs_its_task(tmp_path: Path, own_cluster: str) -> None:
    given = [(tasks.die_once, {"path": str(tmp_path / "died"), "x": x}) for x in range(6)]
    with Workers(cluster=own_cluster).engaged():
        assert dict(run_all(given)) == {x: x for x in range(6)}


@pytest.mark.slow
def test_a_task_that_kills_each_worker_is_given_up(own_cluster: str) -> None:
    with Workers(cluster=own_cluster).engaged(), pytest.raises(LostWorkerError, match="gave up on a task"):
        list(run_all([(tasks.die, {})]))


@by_processes
@pytest.mark.usefixtures("place")
def test_a_slow_task_holds_up_no_other(tmp_path: Path) -> None:
    sign = str(tmp_path / "all others are done")
    given: list[Task] = [(tasks.await_file, {"path": sign}), *((tasks.square, {"x": x}) for x in range(20))]
    found = []
    for place, result in run_all(given):
        found.append((place, result))
        if len(found) == 20:
            Path(sign).touch()
    assert found[-1] == (0, "seen")


@contextlib.contextmanager
def other_numba() -> Iterator[None]:
    """Be a process of another numba than the workers'."""
    parallel.versions.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "version", lambda name: "0.1" if name == "numba" else version(name))
        yield
    parallel.versions.cache_clear()


def test_workers_of_other_versions_are_refused_by_name(cluster: str) -> None:
    refused = pytest.raises(
        InputError, match=r"worker \S+ has another version of numba: '.*'; accepted: 0\.1"
    )
    with other_numba(), refused, Workers(cluster=cluster).engaged():
        pass


def test_a_worker_that_joins_later_is_looked_at_as_well(cluster: str) -> None:
    refused = pytest.raises(InputError, match=r"process \d+ on .* has another version of numba")
    with Workers(cluster=cluster).engaged(), other_numba(), refused:
        list(run_all([(tasks.square, {"x": 1})]))


def test_clusters_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_CONNECT_SECONDS", 1)
    wrong = tmp_path / "scheduler.json"
    wrong.write_text("{}")
    for name in ("tcp://127.0.0.1:9", "nowhere", str(wrong)):
        with pytest.raises(InputError, match="no Dask scheduler there"), Workers(cluster=name).engaged():
            pass
    with pytest.raises(InputError, match="both --workers and --cluster"):
        Workers(2, "tcp://127.0.0.1:9")


@pytest.mark.slow
def test_a_scheduler_that_goes_away_is_told() -> None:
    made = start_cluster(1)
    threading.Timer(1, made.close).start()
    with (
        Workers(cluster=made.scheduler_address).engaged(),
        pytest.raises(LostWorkerError, match="lost the connection"),
    ):
        list(run_all([(tasks.await_file, {"path": "/nowhere"})]))


@pytest.mark.first_case
@everywhere
@pytest.mark.usefixtures("place")
def test_paths_begin_where_the_caller_is_by_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name)
        monkeypatch.chdir(tmp_path / name)
        given = [(tasks.text_of, {"held": tasks.Relative(f"{name}.txt")}) for _ in range(4)]
        assert list(in_task_order(run_all(given))) == [name] * 4
