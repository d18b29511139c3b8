"""A process whose kernels are loaded, for the tests that run hundreds of commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from forked_commands import Commands, forked_commands
from small_world import ORDERS, make_world, modules


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Give commands forked from a process that has done each, in a folder of its own."""
    home = tmp_path_factory.mktemp("prepared")
    make_world(home)
    with forked_commands(*modules()) as made:
        for order in ORDERS:
            # Java does not outlive a fork; the report's pictures are the plot's.
            if order.is_here and order.name not in ("index-lucene", "report"):
                made.prepare(order.arguments, cwd=home)
        yield made
