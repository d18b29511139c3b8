"""Options, declared once as dataclass fields with default, help and bounds; reading and checking them."""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from lmtune.errors import InputError, check_choice

_TRUTH = {"yes": True, "true": True, "no": False, "false": False}
_KINDS = {int: "an integer", float: "a number", bool: "yes, no", str: "a text"}
_TYPES: dict[Any, Any] = {int: numbers.Integral, float: numbers.Real, bool: bool, str: str}
_LARGEST_INTEGER = (1 << 63) - 1


def option(
    default: Any,
    help: str,  # noqa: A002 - the command line's own word
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Collection[str] | None = None,
    fewest: int = 0,
    metavar: str | None = None,
    flag: str | None = None,
    read: Callable[[str], Any] | None = None,
    separator: str | None = ",",
    usual: bool = False,
) -> Any:
    """Declare a dataclass field as an option.

    Parameters
    ----------
    default : int, float, str, bool, path, None, or a tuple of these
        The default; ``...`` for a required option.
    help : str
        One sentence for the command's help.
    low, high : float, optional
        Smallest and largest value. For a tuple, bounds and choices apply to its elements.
    above, below : float, optional
        Exclusive bounds.
    choices : collection of str, optional
        Accepted values.
    fewest : int
        Smallest number of elements of a tuple.
    metavar : str, optional
        Placeholder of the value in the help.
    flag : str, optional
        Names on the command line, separated by blanks; default: from the field's name. With ``""`` the
        command line does not have the option.
    read : callable, optional
        Parses the command line's text; default: by the field's type. Numbers passed from Python must
        parse as well.
    separator : str or None
        Separator of a tuple's elements on the command line; None if the flag is repeated for each.
    usual : bool
        Whether ``--help`` shows it; ``--help-all`` shows all options.

    Examples
    --------
    >>> @dataclasses.dataclass(frozen=True)
    ... class Settings:
    ...     epochs: int = option(30, "passes over the training queries", low=1)
    >>> check(Settings(epochs=0))
    Traceback (most recent call last):
    ...
    lmtune.errors.InputError: bad epochs: 0; accepted: 1 or more
    """
    metadata = {name: value for name, value in locals().items() if name != "default"}
    return dataclasses.field(default=default, metadata=metadata)


usual = functools.partial(option, usual=True)
"""Declare an option that ``--help`` shows."""


def options_of(settings: Any) -> Iterator[dataclasses.Field[Any]]:
    """Yield the fields of a dataclass, or of an instance, that are options."""
    return (field for field in dataclasses.fields(settings) if "help" in field.metadata)


def flags(field: dataclasses.Field[Any]) -> list[str]:
    """Return an option's names on the command line, the long one first; empty if it has none."""
    declared: str | None = field.metadata["flag"]
    return [f"--{field.name.replace('_', '-')}"] if declared is None else declared.split()


def command_words(settings: Any) -> list[str]:
    """Return the command-line words of the options that differ from their defaults.

    Examples
    --------
    >>> @dataclasses.dataclass(frozen=True)
    ... class Settings:
    ...     epochs: int = option(30, "passes over the training queries", low=1)
    ...     rates: tuple[float, ...] = option((0.1,), "learning rates")
    >>> command_words(Settings(rates=(0.1, 0.3)))
    ['--rates', '0.1,0.3']
    """
    words: list[str] = []
    for field in options_of(settings):
        value = getattr(settings, field.name)
        if isinstance(value, bool) and value != field.default:
            words.append(flags(field)[0] if value else negated(field))
        elif value != field.default:
            several = value if isinstance(value, tuple) else (value,)
            words += [flags(field)[0], (field.metadata["separator"] or ",").join(map(str, several))]
    return words


def negated(field: dataclasses.Field[Any]) -> str:
    """Return the flag that sets a boolean to False."""
    return f"--no-{flags(field)[0].removeprefix('--')}"


def label(field: dataclasses.Field[Any]) -> str:
    """Return an option's name in messages: the words of its flag, or of its field."""
    name = (field.metadata["flag"] or field.name).split()[0]
    return " ".join(re.findall(r"[^-_]+", name))


def check(settings: Any, name: Callable[[dataclasses.Field[Any]], str] = label) -> None:
    """Raise `InputError` for the first option outside its bounds; None is always accepted.

    Parameters
    ----------
    settings : dataclass
        Its options are checked.
    name : callable
        Returns the name of a field for the message.

    Raises
    ------
    InputError
        For a number outside its bounds or not finite, a value that is not a choice, or too few elements.
    """
    hints = kinds(type(settings))
    for field in options_of(settings):
        value, fewest = getattr(settings, field.name), field.metadata["fewest"]
        if fewest and len(value) < fewest:
            raise InputError(f"too few {name(field)}", value=value, accepted=f"{fewest} or more")
        _check_field(field, hints[field.name], value, name(field))


def _check_field(field: dataclasses.Field[Any], kind: Any, value: Any, name: str) -> None:
    """Raise `InputError` if a value, or an element of a tuple, has the wrong type or is out of bounds."""
    for part in value if isinstance(value, tuple) else (value,):
        if field.metadata["read"] is None:
            _check_kind(name, part, kind, value)
        elif isinstance(value, numbers.Real):
            field.metadata["read"](str(value))
        _check(name, part, field.metadata)


def _check_kind(name: str, value: Any, kind: Any, whole: Any) -> None:
    """Raise `InputError` if a value has the wrong type; None is always accepted."""
    if isinstance(whole, tuple) and typing.get_origin(kind) is tuple:
        kind = typing.get_args(kind)[0]
    wanted = _TYPES.get(kind)
    if wanted is None or value is None or value is ...:
        return
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"bad {name}", value=value, accepted=_KINDS[kind])
    if kind is int and abs(value) > _LARGEST_INTEGER:
        raise InputError(f"bad {name}", value=value, accepted=f"up to {_LARGEST_INTEGER}")


def _check(name: str, value: Any, bounds: Mapping[str, Any]) -> None:
    choices = bounds["choices"]
    if choices is not None and value is not None:
        check_choice(f"unknown {name}", value, choices)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return
    inside = [
        math.isfinite(value),
        bounds["low"] is None or value >= bounds["low"],
        bounds["high"] is None or value <= bounds["high"],
        bounds["above"] is None or value > bounds["above"],
        bounds["below"] is None or value < bounds["below"],
    ]
    if not all(inside):
        raise InputError(f"bad {name}", value=value, accepted=accepted(bounds) or "a finite number")


def accepted(bounds: Mapping[str, Any]) -> str:
    """Return an option's bounds in words, from its field's metadata; empty if it has none."""
    low, high, above, below = (bounds[name] for name in ("low", "high", "above", "below"))
    if low is not None and high is not None:
        return f"{low} to {high}"
    if above is not None and below is not None:
        return f"between {above} and {below}"
    words = [
        "" if low is None else f"{low} or more",
        "" if above is None else "a positive number" if above == 0 else f"above {above}",
        "" if high is None else f"up to {high}",
        "" if below is None else f"below {below}",
    ]
    return ", ".join(filter(None, words))


def kinds(settings: type[Any]) -> dict[str, Any]:
    """Return the types of a dataclass's fields; see `needed`."""
    return {name: needed(kind) for name, kind in typing.get_type_hints(settings).items()}


def needed(kind: Any) -> Any:
    """Return the type of a value: X for ``X | None``, str for a ``Literal``."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        [kind] = [part for part in typing.get_args(kind) if part is not type(None)]
    return str if typing.get_origin(kind) is typing.Literal else kind


def read(kind: Any, text: str, name: str, separator: str = ",") -> Any:
    """Parse text as a value.

    Parameters
    ----------
    kind : type
        bool, int, float, str, a path, or a tuple with any number of elements of one of these.
    text : str
        ``yes``, ``true``, ``no`` or ``false`` for bool.
    name : str
        Name of the value in messages.
    separator : str
        Separator of a tuple's elements.

    Raises
    ------
    InputError
        If the text is not such a value.

    Examples
    --------
    >>> read(tuple[float, ...], "0.1, 3", "rates")
    (0.1, 3.0)
    >>> read(int, "two", "seed")
    Traceback (most recent call last):
    ...
    lmtune.errors.InputError: bad seed: 'two'; accepted: an integer
    """
    if typing.get_origin(kind) is tuple:
        [element, *_] = typing.get_args(kind)
        return tuple(read(element, part.strip(), name) for part in text.split(separator))
    try:
        return _TRUTH[text] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise InputError(f"bad {name}", value=text, accepted=_KINDS[kind]) from None


def read_option(field: dataclasses.Field[Any], kind: Any, text: str, name: str) -> Any:
    """Parse and check an option's value, or one element if the flag is repeated.

    Parameters
    ----------
    field : dataclasses.Field
        Declared by `option`.
    kind : type
        Its type, from `kinds`.
    text : str
        The text on the command line.
    name : str
        Name of the option in messages.

    Raises
    ------
    InputError
        If the text is not such a value, or the value is out of bounds.
    """
    if text.endswith(",") and typing.get_origin(kind) is tuple:
        raise InputError(
            f"{name} ends with a comma", value=text, accepted="no space after a comma, or quotes"
        )
    separator, reader = field.metadata["separator"], field.metadata["read"]
    one = kind if separator is not None else typing.get_args(kind)[0]
    value = reader(text) if reader is not None else read(one, text, name, separator or ",")
    _check_field(field, kind, (value,) if separator is None else value, name)
    return value
