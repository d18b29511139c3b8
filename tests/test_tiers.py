"""The tiers of tests: `make tiers` fails a test of the first tier that takes too long."""

from __future__ import annotations

import time

import conftest
import pytest


def run_for(seconds: float, item: pytest.Item) -> None:
    """Run a test that takes so many CPU seconds."""
    hook = conftest.pytest_runtest_call(item)
    next(hook)
    start = time.process_time()
    while time.process_time() < start + seconds:
        pass
    next(hook, None)


def test_slow_tests_fail(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    run_for(0.2, request.node)
    monkeypatch.setenv("LMTUNE_TEST_SECONDS", "0.1")
    run_for(0.01, request.node)
    with pytest.raises(pytest.fail.Exception, match=r"0\.\d CPU seconds, over 0\.1: mark it slow"):
        run_for(0.2, request.node)


def test_a_slow_test_may_take_longer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUNE_TEST_SECONDS", "0.1")
    request.node.add_marker("slow")
    run_for(0.2, request.node)
