"""A loss has the same bits in the process that compiles it and in those that come after.

`make attack` tries every loss: ``LMTUNE_EACH_LOSS`` says which ones, each twelfth by default.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scripts import run_python

EACH = int(os.environ.get("LMTUNE_EACH_LOSS", "12"))
PROGRAM = """
import sys
import torch
from lmtune.losses import LOSSES
torch.manual_seed(1)
generator = torch.Generator().manual_seed(0)
scores = torch.randn(16, 133, generator=generator)
labels = torch.randint(0, 5, (16, 133), generator=generator).float()
for name, loss in list(LOSSES.items())[:: int(sys.argv[1])]:
    given = scores.clone().requires_grad_()
    value = loss(given, labels)
    value.backward()
    print(name, value.item().hex(), given.grad.numpy().tobytes().hex())
"""


@pytest.mark.slow
def test_bits_do_not_depend_on_who_compiled_the_kernels(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra 'neural' is not installed")
    shown = [
        run_python("-c", PROGRAM, str(EACH), NUMBA_CACHE_DIR=str(tmp_path)).out.splitlines() for _ in range(2)
    ]
    assert list(tmp_path.rglob("*.nbc"))
    assert len(shown[0]) >= 8 / EACH
    assert shown[0] == shown[1]
