"""Work over slices: everything once, errors through."""

from __future__ import annotations

import numpy as np
import pytest

from lmtune.threads import over_slices


@pytest.mark.parametrize("seconds", [0.0, 10.0])
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("total", [0, 1, 7, 1000])
def test_every_item_is_worked_on_once(threads: int, total: int, seconds: float) -> None:
    counts = np.zeros(total, int)
    seen: list[tuple[int, int]] = []

    def work(part: slice) -> None:
        counts[part] += 1

    over_slices(work, total, threads=threads, seconds=seconds, progress=lambda *at: seen.append(at))
    assert (counts == 1).all()
    assert total == 0 or seen[-1] == (total, total)


def test_an_error_reaches_the_caller_and_the_threads_go_on_serving() -> None:
    def fail(part: slice) -> None:
        if part.start:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        over_slices(fail, 100, threads=2)
    done = np.zeros(100)

    def work(part: slice) -> None:
        done[part] = 1

    over_slices(work, 100, threads=2)
    assert done.all()
