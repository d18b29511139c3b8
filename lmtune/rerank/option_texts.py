"""Options of what has a name, ``NAME:OPTION=VALUE:...``, declared as the fields of a dataclass."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from lmtune.errors import InputError
from lmtune.options import check, kinds, read


def split_options(text: str, kind: str) -> tuple[str, dict[str, str]]:
    """Split ``NAME:OPTION=VALUE:...`` into the name, in lower case, and the options' texts.

    Raises
    ------
    InputError
        For a part that is no option; `kind` says of what it is.
    """
    name, *parts = text.strip().split(":")
    texts = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise InputError(f"bad {kind}", value=text, accepted="NAME or NAME:OPTION=VALUE:...")
        texts[key.replace("-", "_")] = value
    return name.lower(), texts


def labelled(name: str, options: Mapping[str, Any]) -> str:
    """Write a name with its options."""
    return ":".join([name, *(f"{key}={value}" for key, value in options.items())])


def read_options(name: str, texts: Mapping[str, str], declared: type[Any]) -> dict[str, Any]:
    """Read options as a dataclass declares them.

    Raises
    ------
    InputError
        For an unknown option, or a value that it cannot have.
    """
    _check_names(name, texts, declared)
    return {key: _read(name, declared, key, text) for key, text in texts.items()}


def check_options(name: str, options: Mapping[str, Any], declared: type[Any]) -> None:
    """Raise InputError unless the options are those that a dataclass declares, and within its bounds."""
    _check_names(name, options, declared)
    with _named(name):
        check(declared(**options))


def _check_names(name: str, options: Mapping[str, Any], declared: type[Any]) -> None:
    known = [key.name for key in dataclasses.fields(declared) if key.metadata.get("flag") != ""]
    for key in options:
        if key not in known:
            raise InputError(f"{name} has no such option", value=key, accepted=", ".join(known) or "none")


def _read(name: str, declared: type[Any], key: str, text: str) -> Any:
    [field] = [one for one in dataclasses.fields(declared) if one.name == key]
    if text.lower() == "none" and field.default is None:
        return None
    kind = kinds(declared)[key]
    with _named(name):
        reader: Any = field.metadata.get("read")
        return read(kind, text.lower() if kind is bool else text, key) if reader is None else reader(text)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Say in errors of which loss they are."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error.message}", value=error.value, accepted=error.accepted) from None
