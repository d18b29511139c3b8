"""Fixtures that several rooms' tests share."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from numba.core.event import TimingListener, register

if TYPE_CHECKING:
    from forked_commands import Commands
    from selenium.webdriver import Chrome

# Before a library reads it: no test asks a network.
os.environ["HF_HUB_OFFLINE"] = "1"

# Else each process that a test starts compiles every module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# As many tests as cores run at once: threads of one would only wait for those of another.
os.environ["OMP_NUM_THREADS"] = "1"

# The first example may compile a kernel, or wait for a busy machine.
hypothesis.settings.register_profile("lmtune", deadline=None)
hypothesis.settings.load_profile("lmtune")

# A seventh of the time went into looking for circles among all that torch, pandas and numba had made.
gc.set_threshold(100_000, 20, 50)

# Started in the background, a shell has us ignore Ctrl-C, and the processes that we start inherit
# that; tests that interrupt would then wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

_ENDS = {
    end: signal.getsignal(end)
    for end in (getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
}

_CHROMIUM = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# A cluster that waits for tests looks after itself less often: it would take a tenth of a core.
_IDLE = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "5s",
    "distributed.admin.system-monitor.interval": "10s",
}

collect_ignore = ["drawn_once.py"]  # its import is the change, and looking for doctests imports


_compiling = TimingListener()  # type: ignore[no-untyped-call]
register("numba:compile", _compiling)  # type: ignore[no-untyped-call]


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and those that it waited for, without compiling kernels."""
    spent = os.times()
    compiling = float(_compiling.duration) if _compiling.done else 0.0
    return spent.user + spent.system + spent.children_user + spent.children_system - compiling


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test of the first tier that takes longer than `make tiers` allows."""
    limit = float(os.environ.get("LMTUNE_TEST_SECONDS", "inf"))
    before = _cpu_seconds()
    yield
    seconds = _cpu_seconds() - before
    if seconds > limit and item.get_closest_marker("slow") is None:
        message = f"{seconds:.1f} CPU seconds, over {limit:g}: mark it slow or make it faster"
        pytest.fail(message, pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all cases but the first of each test of `first_case` as slow, before tests are selected."""
    first: set[str] = set()
    for item in items:
        if item.get_closest_marker("first_case") and not item.get_closest_marker("slow"):
            name = item.nodeid.partition("[")[0]
            if name in first:
                item.add_marker("slow")
            first.add(name)


def pytest_collection_finish() -> None:
    """Leave what importing the tests has made out of every later look for circles."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _usual_ends() -> Iterator[None]:
    """Take back what a command run here does with signals.

    A forked process would do it too, and a signal that comes before Python is ready there would be lost:
    a pool of processes that ends at once would wait for ever.
    """
    for end, handler in _ENDS.items():  # a fixture of the module may have run a command
        signal.signal(end, handler)
    yield
    for end, handler in _ENDS.items():
        signal.signal(end, handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Give the folder of real collections beside the checkout, or skip with the reason."""
    folder = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("real collections are not here: no ../shared/data beside the checkout")
    return folder


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Spare torch's small tensors the cost of waking other threads; skip without torch."""
    torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def start_cluster(workers: int = 2) -> Any:
    """Start a Dask cluster on this machine, to be closed; or skip with the reason."""
    distributed = pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")
    import dask

    logging.getLogger("distributed").propagate = False  # a slow machine's warnings are no message of ours
    with dask.config.set(_IDLE):
        return distributed.LocalCluster(
            workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
        )


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """Give the address of a scheduler with two workers, which no test may kill."""
    with start_cluster() as made:
        yield made.scheduler_address


@pytest.fixture
def own_cluster() -> Iterator[str]:
    """Give the address of a scheduler whose two workers are the test's alone, to kill."""
    with start_cluster() as made:
        yield made.scheduler_address


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Give commands forked from a process that has done each, in a small world of its own."""
    from forked_commands import forked_commands
    from small_world import ORDERS, make_world, modules

    home = tmp_path_factory.mktemp("prepared")
    make_world(home)
    with forked_commands(*modules()) as made:
        for order in ORDERS:
            if order.is_here and order.name != "index-lucene":  # Java does not outlive a fork
                made.prepare(order.arguments, cwd=home)
        yield made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """Start a headless Chromium that reaches no network."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (*_CHROMIUM, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()
