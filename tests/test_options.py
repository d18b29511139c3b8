from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from lmtune.errors import InputError
from lmtune.options import check, command_words, kinds, label, option, options_of, read, read_option, usual


@dataclass(frozen=True)
class Settings:
    epochs: int = option(30, "passes", low=1)
    share: float = option(0.5, "of the queries", low=0, below=1)
    rates: tuple[float, ...] = option((0.1,), "to choose from", above=0, fewest=1)
    level: float = option(0.9, "of confidence", above=0, high=1)
    weight: float = option(0.5, "of the first", above=0, below=1)
    side: Literal["less", "greater"] = option("less", "of both", choices=("less", "greater"))
    seed: int = option(0, "of draws", low=0, high=9)
    patience: int | None = option(None, "epochs", low=1)
    optimizer: str = option("adam", "the descent", choices=("adam", "sgd"), flag="--net-optimizer -o")
    also: tuple[str, ...] = option((), "further rows", choices=("spsa",))
    width: float = option(1.0, "of anything")
    quick: bool = option(False, "in small", low=1)
    plain: int = -1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "bad epochs: 0; accepted: 1 or more"),
        ({"epochs": np.int64(0)}, "bad epochs: np.int64(0); accepted: 1 or more"),
        ({"share": 1.0}, "bad share: 1.0; accepted: 0 or more, below 1"),
        ({"share": float("nan")}, "bad share: nan; accepted: 0 or more, below 1"),
        ({"rates": (0.1, 0.0)}, "bad rates: 0.0; accepted: a positive number"),
        ({"rates": (float("inf"),)}, "bad rates: inf; accepted: a positive number"),
        ({"rates": ()}, "too few rates: (); accepted: 1 or more"),
        ({"level": 0.0}, "bad level: 0.0; accepted: a positive number, up to 1"),
        ({"weight": 0}, "bad weight: 0; accepted: between 0 and 1"),
        ({"side": "up"}, "unknown side: 'up'; accepted: less, greater"),
        ({"seed": 10}, "bad seed: 10; accepted: 0 to 9"),
        ({"patience": 0}, "bad patience: 0; accepted: 1 or more"),
        ({"optimizer": "lbfgs"}, "unknown net optimizer: 'lbfgs'; accepted: adam, sgd"),
        ({"also": ("spsa", "x")}, "unknown also: 'x'; accepted: spsa"),
        ({"width": float("nan")}, "bad width: nan; accepted: a finite number"),
    ],
)
def test_what_is_outside_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as found:
        check(Settings(**change))
    assert str(found.value) == message


def test_bounds_themselves_are_inside() -> None:
    check(Settings())
    check(Settings(epochs=1, share=0.0, level=1, seed=9, patience=1, also=("spsa",)))


def test_a_message_may_name_fields_in_its_own_way() -> None:
    with pytest.raises(InputError, match="bad --epochs: 0; accepted: 1 or more"):
        check(Settings(epochs=0), lambda field: f"--{field.name}")


def test_only_what_option_makes_is_an_option() -> None:
    assert [field.name for field in options_of(Settings)][-1] == "quick"
    assert [field.name for field in options_of(Settings())] == [f.name for f in options_of(Settings)]


def test_labels() -> None:
    fields = {
        field.name: field
        for field in options_of(
            dataclasses.make_dataclass(
                "S",
                [("batch_size", int, option(1, "x")), ("amp", bool, option(False, "x", flag="--no-bf16"))],
            )
        )
    }
    assert [label(field) for field in fields.values()] == ["batch size", "no bf16"]


def test_kinds_of_optional_fields() -> None:
    found = kinds(Settings)
    assert found["patience"] is int
    assert found["side"] is str
    assert found["rates"] == tuple[float, ...]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "3", 3),
        (float, "1e-3", 0.001),
        (str, "a,b", "a,b"),
        (bool, "yes", True),
        (bool, "false", False),
        (Path, "a/b", Path("a/b")),
        (tuple[int, ...], "1, 2,3", (1, 2, 3)),
        (tuple[str, ...], "x", ("x",)),
    ],
)
def test_reading(kind: Any, text: str, value: object) -> None:
    found = read(kind, text, "x")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (int, "1.5", "bad list size: '1.5'; accepted: an integer"),
        (float, "x", "bad list size: 'x'; accepted: a number"),
        (bool, "maybe", "bad list size: 'maybe'; accepted: yes, no"),
        (tuple[int, ...], "1,,2", "bad list size: ''; accepted: an integer"),
    ],
)
def test_text_that_is_no_value(kind: Any, text: str, message: str) -> None:
    with pytest.raises(InputError) as found:
        read(kind, text, "list size")
    assert str(found.value) == message


@dataclass(frozen=True)
class Given:
    sizes: tuple[int, ...] = usual((), "of sets", low=1, separator="x")
    names: tuple[str, ...] = option((), "of sets", choices=("a", "b"), separator=None)
    pair: tuple[float, float] = option((0.0, 1.0), "low and high", read=lambda text: (0.0, float(text)))


@pytest.mark.parametrize(
    ("name", "text", "value"), [("sizes", "4x5", (4, 5)), ("names", "b", "b"), ("pair", "2", (0.0, 2.0))]
)
def test_text_is_read_as_the_option_declares(name: str, text: str, value: object) -> None:
    field = {field.name: field for field in options_of(Given)}[name]
    assert read_option(field, kinds(Given)[name], text, f"--{name}") == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("sizes", "4x0", "bad --sizes: 0; accepted: 1 or more"),
        ("sizes", "4,5", "bad --sizes: '4,5'; accepted: an integer"),
        ("sizes", "9" * 20, f"bad --sizes: {'9' * 20}; accepted: up to 9223372036854775807"),
        ("names", "c", "unknown --names: 'c'; accepted: a, b"),
        ("pair", "inf", "bad --pair: inf; accepted: a finite number"),
    ],
)
def test_text_outside_the_bounds_is_refused(name: str, text: str, message: str) -> None:
    field = {field.name: field for field in options_of(Given)}[name]
    with pytest.raises(InputError) as refused:
        read_option(field, kinds(Given)[name], text, f"--{name}")
    assert str(refused.value) == message


def test_only_the_usual_ones_are_marked() -> None:
    assert [field.name for field in options_of(Given) if field.metadata["usual"]] == ["sizes"]


def test_words_of_truth_values_are_flags_alone() -> None:
    @dataclass(frozen=True)
    class Given:
        quick: bool = option(False, "in small")
        final: bool = option(True, "at the end")
        strict: bool | None = option(None, "or as usual")

    assert command_words(Given()) == []
    assert command_words(Given(quick=True, final=False, strict=False)) == [
        "--quick",
        "--no-final",
        "--no-strict",
    ]
    assert command_words(Given(strict=True)) == ["--strict"]
