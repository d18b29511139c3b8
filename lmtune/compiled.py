"""Compilation of numba kernels that release the GIL, with one cache for all environments of a user."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numba
from numba import config, njit
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.compiler_lock import global_compiler_lock
from numba.misc.appdirs import AppDirs

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_ROOT = Path(__file__).parent
# Number of other versions with cached kernels.
_VERSIONS = 8


def _cache_folder() -> Path:
    """Return the cache folder of the kernels; its name is a digest of all kernel files and of the versions.

    numba checks only the file of a kernel, not the files of the kernels that it calls, so the digest contains
    all of them. numba's own key distinguishes processors.
    """
    digest = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for source in sorted([*_ROOT.rglob("*kernels.py"), Path(__file__)]):
        digest.update(source.relative_to(_ROOT).as_posix().encode() + source.read_bytes())
    name = digest.hexdigest()[:16]
    home: str = config.CACHE_DIR or AppDirs("lmtune", False).user_cache_dir  # type: ignore[attr-defined,no-untyped-call]
    for folder in (Path(home, "kernels", name), _ROOT / "__pycache__" / "kernels" / name):
        with contextlib.suppress(OSError):
            is_new = not folder.is_dir()
            folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            versions = sorted(folder.parent.iterdir(), key=lambda version: version.stat().st_mtime)
            for stale in versions[: -_VERSIONS - 1] if is_new else ():
                shutil.rmtree(stale, ignore_errors=True)
            break
    return folder


_FOLDER = _cache_folder()
_LOCK = _FOLDER / "kernels.lock"
_COMPILE_LOCKS = _FOLDER / "kernels.turns"

# numba numbers compiled functions from 1 in each process, and only this number distinguishes closures such as
# those of its sort and argsort. Two processes could give two closures the same name, and a third process that
# loads both from the cache would confuse them. Random first numbers avoid this.
FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(6)))

_thread_lock = threading.RLock()
_depth = 0


@contextlib.contextmanager
def _exclusive_cache() -> Iterator[None]:
    """Lock the cache against other threads and processes in the ``with`` block."""
    global _depth
    with _thread_lock, contextlib.ExitStack() as stack:
        if _depth == 0 and fcntl is not None:
            with contextlib.suppress(OSError):  # the folder is not writable, so nothing is cached
                file = stack.enter_context(_LOCK.open("ab"))
                fcntl.flock(file, fcntl.LOCK_EX)
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1


@functools.cache
def _lock_file() -> BinaryIO | None:
    """Open the file with one lock byte per kernel.

    It stays open, because closing it would free the locks of this process.
    """
    with contextlib.suppress(OSError):  # the folder is not writable, so nothing is cached
        return _COMPILE_LOCKS.open("ab") if fcntl is not None else None
    return None


@contextlib.contextmanager
def _compile_lock(name: str) -> Iterator[None]:
    """Make other processes wait while this one compiles a kernel; then they load it from the cache.

    Calls between kernels have no cycle, so that processes cannot wait for each other.
    """
    byte, file = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]), _lock_file()
    with global_compiler_lock, contextlib.ExitStack() as stack:
        if file is not None:
            with contextlib.suppress(OSError):  # two names with the same byte could make a cycle
                fcntl.lockf(file, fcntl.LOCK_EX, 1, byte)
                stack.callback(fcntl.lockf, file, fcntl.LOCK_UN, 1, byte)
        yield


class _Locator(_CacheLocator):
    """The cache path of a kernel: by its module, or by its file if that is outside lmtune."""

    def __init__(self, function: Callable[..., Any], file: Path) -> None:
        self._line, self._stamp = function.__code__.co_firstlineno, hashlib.sha256(file.read_bytes()).digest()
        is_ours = file.is_relative_to(_ROOT)
        name = file.relative_to(_ROOT).as_posix() if is_ours else hashlib.sha256(bytes(file)).hexdigest()[:16]
        self._folder = _FOLDER / name.removesuffix(".py").replace("/", ".")

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> bytes:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _Locator | None:
        with contextlib.suppress(OSError):
            locator = cls(function, Path(file))
            locator.ensure_cache_path()  # type: ignore[no-untyped-call]
            return locator
        return None


class _Kernel(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012 - as in numba


class _Cache(FunctionCache):
    """numba's cache of a kernel, made safe for several processes.

    numba numbers the files of a kernel's argument types without a lock. Two processes that compile at the
    same time can give two types the same number, and a third process would run the wrong one.
    """

    _impl_class = _Kernel

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with _exclusive_cache():
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        with _exclusive_cache():
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


def _with_lock(compile_now: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    def compile_with_lock(types: Any) -> Any:
        with _compile_lock(f"{name} {types}"):
            return compile_now(types)

    return compile_with_lock


def compiled(*, contract: bool = False, inline: bool = False) -> Callable[[Any], Any]:
    """Return a decorator that compiles a kernel.

    Sums are computed in the order of the source. Otherwise the last bit of a result would depend on the
    processor, on the addresses of arrays, and on the process that compiled the kernel.

    Parameters
    ----------
    contract : bool
        Allow fused multiply-add: a product and a sum are rounded once.
    inline : bool
        Inline the kernel into its callers, which saves the passing of many arrays.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    if contract:
        options["fastmath"] = {"contract"}
        # Otherwise a process that compiles the kernel runs its own copy, and a process that loads the caller
        # from the cache runs the copy in the caller, which can round differently.
        inline = True
    if inline:
        options["forceinline"] = True

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = njit(**options)(function)
        with contextlib.suppress(RuntimeError):  # neither the package nor the home folder is writable
            kernel._cache = _Cache(function)  # type: ignore[no-untyped-call]
            kernel.compile = _with_lock(kernel.compile, f"{function.__module__}.{function.__qualname__}")
        return kernel

    return decorate
