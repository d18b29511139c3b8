"""All texts follow `docs/style.md`: no word of its "not" column, no sentence above 35 words."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STYLE = (ROOT / "docs" / "style.md").read_text(encoding="utf-8")
LONGEST_SENTENCE = 35
PAGES = [
    *(page for page in sorted(ROOT.glob("*.md")) if page.name != "CHANGELOG.md"),  # it has old names
    *(
        page for page in sorted(ROOT.glob("docs/**/*.md")) if page.name != "style.md"
    ),  # it quotes what not to write
    *sorted(ROOT.glob("experiments/**/*.md")),
    *sorted(ROOT.glob("course/**/*.md")),
]
MODULES = [
    path for room in ("lmtune", "experiments", "benchmarks") for path in sorted((ROOT / room).rglob("*.py"))
]


def _avoided_terms() -> list[str]:
    """Return the phrases of the "not" column of the style guide's table of terms."""
    table = STYLE.split("## Terms")[1].split("## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    return [phrase.strip(' "') for row in rows for phrase in re.split("[,;]", row[1])]


AVOIDED_NAMES = set(re.findall("`(.*?)`", STYLE.split("## Names to avoid")[1].split("## ")[0]))
AVOIDED = re.compile(r"\b(?:" + "|".join(map(re.escape, _avoided_terms())) + r")\b", re.IGNORECASE)


def _sentences(text: str) -> Iterator[str]:
    """Yield sentences of prose: no code, no tables, no lists of names; an item of a list is a sentence."""
    text = re.sub(r"```.*?```|~~~.*?~~~", " ", text, flags=re.DOTALL)
    text = re.sub(r"^\s*(\||#|    |>>>|\.\.\. |---|!\[|<|=|\$).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*([-*]|\d+\.)\s", "\n\n", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", text):
        yield from re.split(r"(?<=[.!?:;])\s+(?=[A-Z`*(\[\"])|: (?=\S)|; ", " ".join(paragraph.split()))


def avoided_terms(text: str) -> Iterator[str]:
    """Yield what the guide does not let us write."""
    for term in AVOIDED.findall(text):
        yield f"{term!r} is in the guide's list of terms to avoid"


def faults(text: str) -> Iterator[str]:
    """Yield the avoided terms and the long sentences of prose."""
    yield from avoided_terms(text)
    for sentence in _sentences(text):
        words = re.findall(r"[\w'-]*[a-z][\w'-]*", re.sub(r"`[^`]*`|\$[^$]*\$|\(?https?:\S+", "x", sentence))
        if len(words) > LONGEST_SENTENCE:
            yield f"a sentence of {len(words)} words: {sentence[:80]}..."


def faults_of_module(path: Path) -> Iterator[str]:
    """Yield the faults of a module's docstrings, strings, comments and names, with their lines."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from (f"{node.lineno}: {fault}" for fault in faults(inspect.cleandoc(text)))
            case ast.Constant(value=str(text)) if " " in text:
                yield from (f"{node.lineno}: {fault}" for fault in avoided_terms(text))
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                if name.strip("_") in AVOIDED_NAMES:
                    yield f"{node.lineno}: {name!r} is in the guide's list of names to avoid"
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from (f"{token.start[0]}: {fault}" for fault in faults(token.string.lstrip("# ")))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_of_modules(path: Path) -> None:
    wrong = list(faults_of_module(path))
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_of_pages(path: Path) -> None:
    wrong = list(faults(path.read_text(encoding="utf-8")))
    assert not wrong, "\n" + "\n".join(wrong)
