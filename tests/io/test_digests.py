"""JSON's numbers are bounded where they are read."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import Any

import pytest

import lmtune
from lmtune.errors import InputError
from lmtune.io.digests import read_json, sealed_text, unsealed
from lmtune.strict_json import parse_json

_PARSERS = {"json.load", "json.loads", "json.JSONDecoder"}
BEYOND = ["Infinity", "-Infinity", "NaN", "1e400", "-1e309", "1" + "0" * 400, "-" + "9" * 400]


@pytest.mark.parametrize("number", BEYOND)
def test_numbers_beyond_a_float_are_refused(number: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not finite or too large"):
        parse_json(f"[{number}]")
    path = tmp_path / "a.json"
    path.write_text(f'{{"1": {{"d": {number}}}}}')
    with pytest.raises(InputError, match=r"a\.json: not JSON.*is not finite or too large"):
        read_json(path)
    with pytest.raises(InputError, match="is not finite or too large"):
        lmtune.evaluate({"1": {"d": 1}}, path, ["AP"])


def test_sealed_content_keeps_every_number() -> None:
    kept = unsealed(sealed_text({"values": [math.nan, math.inf]}, of="it").encode(), "it", {"values": list})
    assert kept["values"][1] == math.inf
    assert math.isnan(kept["values"][0])


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 10**400, -(10**400)])
def test_numbers_in_memory_are_bounded_too(number: Any) -> None:
    with pytest.raises(InputError, match="the score is not a finite number"):
        lmtune.evaluate({"1": {"d": 1}}, {"r": {"1": {"d": number}}}, ["AP"])
    with pytest.raises(InputError, match="the gain is not an integer"):
        lmtune.evaluate({"1": {"d": number}}, {"r": {"1": {"d": 1}}}, ["AP"])


def test_other_numbers_are_as_in_json() -> None:
    assert parse_json(b"[1e308, -0.5, 12345678901234567890, 1e-400]") == [
        1e308,
        -0.5,
        12345678901234567890,
        0.0,
    ]
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 100_000)


@pytest.mark.parametrize("deep", ["[" * 501, '{"a":' * 501, '["]",' * 501, '["\\"]",' * 501, "[" * 501 + '"'])
def test_nesting_is_bounded_before_the_parser(deep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json.JSONDecoder, "decode", lambda *_, **__: pytest.fail("parsed"))
    for raw in (deep, deep.encode(), deep.encode("utf-16")):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(raw)


def test_brackets_that_are_not_nested_are_read() -> None:
    content = {"a": [[[]]] * 600, "[" * 600: '\\"' + "{" * 600}
    assert parse_json(json.dumps(content)) == content
    deepest = "[" * 500 + "]" * 500
    assert json.dumps(parse_json(deepest)) == deepest


def test_json_is_parsed_in_one_place() -> None:
    root = Path(lmtune.__file__).parent
    parsers = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and ast.unparse(node) in _PARSERS)
        or (isinstance(node, ast.ImportFrom) and node.module == "json")
    }
    assert parsers == {"strict_json.py"}
