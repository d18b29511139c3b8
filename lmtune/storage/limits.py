"""How much a file may make of itself before reading it ends: lines without an end, zip bombs."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lmtune.errors import InputError, PathLike
from lmtune.options import check, option, read

_PREFIX = "LMTUNE_"
_MIB = 1 << 20
# No bomb yet, whatever the ratio.
_HARMLESS_BYTES = 64 * _MIB


@dataclass(frozen=True)
class Limits:
    """Limits that environment variables move, ``LMTUNE_LONGEST_LINE`` and ``LMTUNE_EXPANSION``."""

    longest_line: int = option(256, "MiB that a line, or a TREC document, may have.", low=1)
    expansion: int = option(200, "Bytes that a byte of a compressed file may become, beyond 64 MiB.", low=1)


@functools.cache
def limits() -> Limits:
    """Return the limits of this process.

    Raises
    ------
    InputError
        For an environment variable that is no limit.
    """
    texts = {name: os.environ.get(_PREFIX + name.upper()) for name in Limits.__dataclass_fields__}
    chosen = Limits(**{name: read(int, text, _PREFIX + name.upper()) for name, text in texts.items() if text})
    check(chosen, lambda field: _PREFIX + field.name.upper())
    return chosen


def within_lines(blocks: Iterable[bytes], path: PathLike, end: bytes = b"\n") -> Iterator[bytes]:
    """Give blocks on, until too many without an end have passed.

    Parameters
    ----------
    blocks : iterable of bytes
        A file's.
    path : path-like
        What to call it.
    end : bytes
        What ends a line.

    Raises
    ------
    InputError
        For a line longer than the limit, up to the length of a block.
    """
    longest = limits().longest_line * _MIB
    since = 0
    for block in blocks:
        last = block.rfind(end)
        since = since + len(block) if last < 0 else len(block) - last
        if since > longest:
            raise InputError(
                f"a line of more than {limits().longest_line} MiB",
                file=path,
                accepted=f"shorter ones; {_PREFIX}LONGEST_LINE=N allows N MiB",
            )
        yield block


def check_expansion(path: PathLike, compressed: int, plain: int) -> None:
    """Raise InputError where `compressed` bytes of a file have become too many `plain` ones."""
    if plain > _HARMLESS_BYTES and plain > limits().expansion * compressed:
        raise InputError(
            f"a compressed file that grows to more than {limits().expansion} times its size",
            file=path,
            accepted=f"less; {_PREFIX}EXPANSION=N allows N times",
        )
