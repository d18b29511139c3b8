"""How kernels are compiled: once for all environments of a user, without the interpreter's lock."""

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
# Kernels of so many other versions are kept.
_VERSIONS = 8


def _cache_folder() -> Path:
    """Return where kernels are cached: numba's key tells processors, the folder's name kernels and versions.

    numba looks at a kernel's own file alone, not at those of the kernels that it calls, so that the name
    is a digest of all.
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
_TURNS = _FOLDER / "kernels.turns"

# Compiled functions are named with a number, which numba counts from 1 in each process. It alone tells
# closures apart, such as those of numba's sort and argsort: two processes would give both one name, and a
# third that loads them from the cache would run one for the other.
FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(6)))

_turn = threading.RLock()
_depth = 0


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Keep other threads and processes from the cached kernels meanwhile."""
    global _depth
    with _turn, contextlib.ExitStack() as stack:
        if _depth == 0 and fcntl is not None:
            with contextlib.suppress(OSError):  # nothing can be written here, nor cached
                file = stack.enter_context(_LOCK.open("ab"))
                fcntl.flock(file, fcntl.LOCK_EX)
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1


@functools.cache
def _turns() -> BinaryIO | None:
    """Open a file whose bytes are turns to compile kernels; closing it would give up those we have."""
    with contextlib.suppress(OSError):  # nothing can be written here, nor cached
        return _TURNS.open("ab") if fcntl is not None else None
    return None


@contextlib.contextmanager
def _turn_of(name: str) -> Iterator[None]:
    """Let other processes wait for a kernel that this one compiles: they find it in the cache.

    Kernels call each other in no circle, so that nobody waits for one that waits for him.
    """
    place, file = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]), _turns()
    with global_compiler_lock, contextlib.ExitStack() as stack:
        if file is not None:
            with contextlib.suppress(OSError):  # two names of one place might be a circle
                fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
                stack.callback(fcntl.lockf, file, fcntl.LOCK_UN, 1, place)
        yield


class _Locator(_CacheLocator):
    """Where one kernel is cached: by its module, or its file where that is not lmtune's."""

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
    _locator_classes = [_Locator]  # noqa: RUF012 - as numba has it


class _Cache(FunctionCache):
    """numba's cache of a kernel, for several processes.

    numba's own numbers the files of a kernel's types of arguments without a lock: two processes
    that compile at once may give two types one number, and a third would run the wrong one.
    """

    _impl_class = _Kernel

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with _alone():
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        with _alone():
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


def _by_turns(compile_now: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    def compile_in_turn(types: Any) -> Any:
        with _turn_of(f"{name} {types}"):
            return compile_now(types)

    return compile_in_turn


def compiled(*, contract: bool = False, inline: bool = False) -> Callable[[Any], Any]:
    """Return a decorator that compiles a kernel.

    Sums keep the order of the text: with leave to reorder them, the last bit of a result would
    depend on the processor, on the addresses of arrays, and on which process compiled the kernel.

    Parameters
    ----------
    contract : bool
        Let a product and a sum be rounded once, together, where the processor can.
    inline : bool
        Compile the kernel into those that call it, which spares passing many arrays.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    if contract:
        options["fastmath"] = {"contract"}
        # Otherwise a process that compiles runs the kernel's own copy, and one that finds the
        # caller in the cache the copy in there, which may round otherwise.
        inline = True
    if inline:
        options["forceinline"] = True

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = njit(**options)(function)
        with contextlib.suppress(RuntimeError):  # neither package nor home folder can be written
            kernel._cache = _Cache(function)  # type: ignore[no-untyped-call]
            kernel.compile = _by_turns(kernel.compile, f"{function.__module__}.{function.__qualname__}")
        return kernel

    return decorate
