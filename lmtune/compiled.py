"""How kernels are compiled: once, cached beside the source, without the interpreter's lock."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

_ROOT = Path(__file__).parent
_STAMP = _ROOT / "__pycache__" / "kernels.stamp"


def compiled(*, contract: bool = False) -> Callable[[Any], Any]:
    """Return a decorator that compiles a kernel.

    Sums keep the order of the text: with leave to reorder them, the last bit of a result would
    depend on the processor, on the addresses of arrays, and on which process compiled the kernel.

    Parameters
    ----------
    contract : bool
        Let a product and a sum be rounded once, together, where the processor can.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    if contract:
        options["fastmath"] = {"contract"}
        # Otherwise a process that compiles runs the kernel's own copy, and one that finds the
        # caller in the cache the copy in there, which may round otherwise.
        options["forceinline"] = True

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # neither the package nor the home folder can be written
            return njit(**options)(function)

    return decorate


def _drop_stale_kernels() -> None:
    """Remove cached kernels if any kernel's source has changed.

    numba looks at a kernel's own file alone, not at those of the kernels that it calls.
    """
    digest = hashlib.sha256()
    for source in sorted(_ROOT.rglob("*kernels.py")):
        status = source.stat()
        digest.update(f"{source.name} {status.st_mtime_ns} {status.st_size}\n".encode())
    stamp = digest.hexdigest()
    with contextlib.suppress(OSError):
        if _STAMP.is_file() and _STAMP.read_text(encoding="ascii") == stamp:
            return
        for stale in _ROOT.rglob("__pycache__/*.nb[ic]"):
            stale.unlink(missing_ok=True)
        _STAMP.parent.mkdir(exist_ok=True)
        _STAMP.write_text(stamp, encoding="ascii")


_drop_stale_kernels()
