"""Declarations of measures: what kernels compute is what the declared function says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support import random_pool

from lmtune.errors import InputError
from lmtune.measures.evaluate import measure_settings
from lmtune.measures.kinds import KINDS, LISTS, SUMS, Code, MeasureKind
from lmtune.measures.measure import Measure

FAST = [kind for kind in KINDS.values() if kind.kernel in SUMS]


@pytest.mark.parametrize("kind", FAST, ids=lambda kind: kind.name)
@pytest.mark.parametrize("cutoff", [3, None])
def test_the_compiled_value_is_that_of_the_ranking(kind: MeasureKind, cutoff: int | None) -> None:
    cutoff = {"needs": 3, "has no": None}.get(kind.cutoff or "", cutoff)
    slow = replace(kind, name=f"slow {kind.name}", kernel=None)
    measures = [Measure.of(kind, cutoff), Measure.of(slow, cutoff)]
    for seed in range(5):
        pool = random_pool(seed, documents=40, weights=[(1, 1)])
        fast, ranked = np.moveaxis(measure_settings(pool, {"lambda": 0.3, "mu": 50.0}, measures), 2, 0)
        np.testing.assert_allclose(fast, ranked, rtol=1e-14)


def test_every_fast_measure_is_declared_and_every_code_is_computed_somewhere() -> None:
    assert {kind.kernel for kind in FAST} == SUMS
    assert set(Code) - {Code.EXPONENTIAL_DCG} == SUMS | LISTS


@pytest.mark.parametrize("codes", [{"kernel": Code.EXPONENTIAL_DCG}, {"smooth": Code.SUCCESS}])
def test_a_code_that_no_kernel_computes_is_refused(codes: dict[str, Code]) -> None:
    with pytest.raises(InputError, match="no kernel computes the measure own"):
        MeasureKind("own", **codes)  # type: ignore[arg-type]
