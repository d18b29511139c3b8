"""Options of losses: what the annotations of their keyword arguments declare."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, ParamSpec, TypeVar

from lmtune.options import check, option
from lmtune.reranking.losses.given_gradients import eager

P = ParamSpec("P")
R = TypeVar("R")

Reduce = Literal["mean", "sum", "none"]
Gains = Literal["exponential", "linear"]
Backend = Literal["auto", "kernels", "torch"]


class Bounds(NamedTuple):
    """What `lmtune.options.option` takes, to stand in ``Annotated``."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] | None = None
    read: Callable[[str], Any] | None = None


Positive = Annotated[float, Bounds(above=0)]
Cutoff = Annotated[int | None, Bounds(low=1)]
Share = Annotated[float, Bounds(above=0, high=1)]

_NOT_BY_NAME = ("reduce", "seed")  # arguments of one call, not options of a training


@functools.cache
def declared_options(called: Any) -> type[Any]:
    """Make a dataclass of the options that a loss's signature declares.

    Parameters
    ----------
    called : callable
        A function or class. The annotation of a keyword argument is a type, ``Literal`` for
        choices, or ``Annotated`` with `Bounds`.
    """
    hints = typing.get_type_hints(vars(called).get("__init__", called), include_extras=True)
    fields = [
        (name, *_declared(name, hints[name], parameter.default))
        for name, parameter in inspect.signature(called).parameters.items()
        if parameter.default is not parameter.empty and name not in ("mask", "generator")
    ]
    return dataclasses.make_dataclass(called.__name__, fields, frozen=True)


def _declared(name: str, hint: Any, default: Any) -> tuple[type, Any]:
    bounds = Bounds()
    while (origin := typing.get_origin(hint)) is not None:
        parts = typing.get_args(hint)
        if origin is Annotated:
            bounds = parts[1]
        if origin is Literal:
            bounds, parts = Bounds(choices=parts), (str,)
        hint = parts[0]
    return hint, option(default, "", flag="" if name in _NOT_BY_NAME else None, **bounds._asdict())


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Raise InputError where an option is not what a function's signature declares; see `eager`, too."""

    @eager
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        names = declared_options(call).__dataclass_fields__
        _check(call, tuple((name, value) for name, value in kwargs.items() if name in names))
        return function(*args, **kwargs)

    return call


@functools.lru_cache(maxsize=1024)
def _check(called: Callable[..., Any], options: tuple[tuple[str, Any], ...]) -> None:
    check(declared_options(called)(**dict(options)))
