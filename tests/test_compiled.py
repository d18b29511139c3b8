"""Kernels are compiled afresh when any kernel's source has changed, and where nothing is cached."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripts import run_python

import lmtune


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))


def copy_package(to: Path) -> None:
    home = Path(lmtune.__file__).parent
    shutil.copytree(home, to / "lmtune", ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.slow
def test_another_environment_finds_what_one_compiled(tmp_path: Path) -> None:
    code = (
        "from lmtune.models.kernels import scores_as_product as f; f(0.5, 6, 1, 0.0, 6.0); "
        "print('compiled' if f.stats.cache_misses else 'found', f.__wrapped__.__code__.co_filename)"
    )
    shown = []
    for name in ("one", "other"):
        copy_package(tmp_path / name)
        shown.append(run_python("-c", code, cwd=tmp_path / name).out.split())
    assert [how for how, _ in shown] == ["compiled", "found"]
    assert [Path(file).parents[2].name for _, file in shown] == ["one", "other"]
    [version] = (tmp_path / "cache" / "kernels").iterdir()
    assert (version / "models.kernels").is_dir()


@pytest.mark.slow
def test_a_change_in_a_called_kernel_is_seen(tmp_path: Path) -> None:
    copy_package(tmp_path)
    code = "from lmtune.models.kernels import scores_as_product as f; print(f(0.5, 6, 1, 0.0, 6.0))"

    assert run_python("-c", code, cwd=tmp_path).out == "True\n"
    source = tmp_path / "lmtune" / "models" / "kernels.py"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("_LARGEST_WEIGHT = 200", "_LARGEST_WEIGHT = 0"), encoding="utf-8")
    assert run_python("-c", code, cwd=tmp_path).out == "False\n"


@pytest.mark.slow
def test_kernels_work_where_nothing_can_be_cached(tmp_path: Path) -> None:
    copy_package(tmp_path)
    (tmp_path / "lmtune" / "__pycache__").touch()
    nowhere = str(tmp_path / "lmtune" / "__pycache__")
    code = "import lmtune; print(lmtune.score([[1]], [2], [0.5], lambda_=0.0, mu=2.0)[0])"
    out = run_python("-c", code, cwd=tmp_path, NUMBA_CACHE_DIR=nowhere).out
    assert float(out) == pytest.approx(-0.6931471805599453)


@pytest.mark.slow
def test_processes_that_compile_at_once_do_not_mix_their_kernels(tmp_path: Path) -> None:
    copy_package(tmp_path)
    kernels = "".join(f"@compiled()\ndef f{n}(x):\n    return x[0] + x[1] * {n}\n" for n in range(8))
    source = tmp_path / "lmtune" / "race_kernels.py"
    source.write_text(f"from lmtune.compiled import compiled\n{kernels}", encoding="utf-8")
    code = (
        "import sys, time, numpy as np, lmtune.race_kernels as r; "
        "x = np.array([1, 2], sys.argv[1]); time.sleep(max(0, float(sys.argv[2]) - time.time())); "
        "print(all(getattr(r, f'f{n}')(x) == 1 + 2 * n for n in range(8)), "
        "sum(sum(getattr(r, f'f{n}').stats.cache_misses.values()) for n in range(8)))"
    )

    def start(kind: str, at: float) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, kind, str(at)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )

    kinds = ("f4", "f4", "f8", "i8")
    for at, compiled in ((time.time() + 5.0, 3 * 8), (0.0, 0)):  # compiling together, then loading
        running = [start(kind, at) for kind in kinds]
        shown = [process.communicate()[0].split() for process in running]
        assert [right for right, _ in shown] == ["True"] * len(kinds)
        assert sum(int(count) for _, count in shown) == compiled  # what two want, one compiles


@pytest.mark.slow
def test_names_of_two_processes_differ() -> None:
    """Numba's sort and argsort are closures of one name, told apart by a number of the process alone."""
    code = (
        "from lmtune.models.kernels import scores_as_product as f; f(0.5, 6, 1, 0.0, 6.0); "
        "from lmtune.compiled import compiled; g = compiled()(lambda x: x + 1); g(1); "
        "print(g.overloads[g.signatures[0]].fndesc.unique_name)"
    )
    names = {run_python("-c", code).out for _ in range(2)}
    assert len(names) == 2
