"""Compare lmtune's analysis with Anserini's on real and generated text, and count differences.

    LUCENE_PYTHON benchmarks/analysis_parity.py [SOURCE ...] [--seed N] [--texts N]

SOURCE is one of classics, docstrings, words, letters, fuzz, long; all of them by default. The Python needs
lmtune with the extra ``lucene``. Without the extra ``krovetz``, that stemmer is skipped. The exit status is
1 if the stemmers porter or none differ; krovetz has known differences.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice, product
from pathlib import Path

from lucene_oracle import anserini

from lmtune.errors import MissingExtraError
from lmtune.index.analysis import LUCENE_ENGLISH, Analyzer
from lmtune.index.tokenizer import CLASSES

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
PACKAGES = ("numpy", "scipy", "pandas")
SUFFIXES = (
    "s es ies y ly bly ably ed ing er or ational tional enci anci izer bli abli alli entli eli "
    "ousli ization ation ator alism iveness fulness ousness aliti iviti biliti logi logy logies "
    "blies icate ative alize iciti ical ful ness al ance ence ic able ible ant ement ment ent ion "
    "sion tion ou ism ate iti ous ive ize e ll eed eds ings sses ss is ying yed ied"
)
ODD_STEMS = "a b y ax yy ay by ge apo ab akk hh jazz vv trekk qq ayy byy bl log abl 11 a1"


def classics() -> Iterator[str]:
    """Yield every document and topic of the four classic collections."""
    for name in ("cranfield", "cacm", "npl", "med"):
        for line in (DATA / name / "docs.jsonl").open(encoding="utf-8"):
            yield " ".join(str(value) for value in json.loads(line).values())
        yield from (DATA / name / "topics.tsv").read_text(encoding="utf-8").splitlines()


def docstrings() -> Iterator[str]:
    """Yield every string literal of more than 20 characters in the sources of numpy, scipy and pandas."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            continue
        for path in sorted(Path(spec.origin).parent.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                text = node.value if isinstance(node, ast.Constant) else None
                if isinstance(text, str) and len(text) > 20:
                    yield text


def words(seed: int) -> Iterator[str]:
    """Yield every word of the texts above, stems with each suffix, and short generated words."""
    found: set[str] = set()
    for text in (*classics(), *docstrings()):
        found.update(re.findall("[a-z]+", text.lower()))
    draw = random.Random(seed)
    stems = draw.sample(sorted(found), min(8000, len(found))) + ODD_STEMS.split()
    found.update(stem + suffix for stem in stems for suffix in SUFFIXES.split())
    for length in range(1, 6):
        found.update("".join(letters) for letters in product("abeiylogs", repeat=length))
    yield from _lines(sorted(found - LUCENE_ENGLISH))


def letters() -> Iterator[str]:
    """Yield every code point, alone and between letters, digits and emoji."""
    yield from _lines(
        context.replace("{c}", chr(c))
        for c in range(0x110000)
        if not 0xD800 <= c < 0xE000
        for context in ("{c}", "b{c}b", "1{c}1", "\u05d0{c}\u05d0", "\u30ab{c}s", "\U0001f600{c}")
    )


def fuzz(seed: int, count: int = 300_000) -> Iterator[str]:
    """Yield short random strings over all word-break classes."""
    draw = random.Random(seed)
    pools = [_members(ranges) for ranges in CLASSES.values()]
    pools += [[*range(0x20, 0x7F)], [*range(0x110000)], [0x20, 0x0A], [0x41, 0x73, 0x27, 0x2019]]
    for _ in range(count):
        few = draw.sample(pools, draw.randint(1, 5))
        made = "".join(chr(draw.choice(draw.choice(few))) for _ in range(draw.randint(1, 14)))
        yield re.sub("[\ud800-\udfff]", " ", made)


def long(seed: int, count: int = 20_000) -> Iterator[str]:
    """Yield strings with tokens near 255 and 510 UTF-16 units."""
    draw = random.Random(seed)
    pools = ["ab", "a.b", "1,2", "_a", "\u00e9", "\U00010400", "\u05d0'\"", "\u0301a", "\u200d"]
    pools += ["\U0001f600\u200d", "\u0e01\u0e34", "\u30ab", "x's", "_", "\ud55c", "\ufe0f\u2139z"]
    for _ in range(count):
        made = ""
        for _ in range(draw.randint(1, 4)):
            length = draw.choice((draw.randint(1, 20), draw.randint(120, 130), 254, 255, 256, 509))
            pool = draw.choice(pools) + draw.choice(("", draw.choice(pools)))
            made += "".join(draw.choices(pool, k=length + draw.randint(-3, 3)))
            made += draw.choice(("", "", " ", "'s", "\U0001f600", "b"))
        yield made


def _members(ranges: str) -> list[int]:
    found: list[int] = []
    for item in ranges.split():
        first, _, last = item.partition("-")
        found += range(int(first, 16), int(last or first, 16) + 1)
    return found


def _lines(texts: Iterator[str] | list[str], size: int = 2000) -> Iterator[str]:
    chunk: list[str] = []
    for text in texts:
        chunk.append(text)
        if len(chunk) == size:
            yield "\n".join(chunk)
            chunk = []
    yield "\n".join(chunk)


def compare(name: str, texts: Iterator[str], stemmer: str, shown: int = 5) -> int:
    """Compare on texts, print counts and the first differences, and return the number of differences."""
    theirs, ours = anserini(stemmer), Analyzer(stemmer=stemmer).analyze
    count = terms = different = 0
    for text in texts:
        count += 1
        expected = theirs(text)
        terms += len(expected)
        got = ours(text)
        if got == expected:
            continue
        if len(got) == len(expected):
            pairs = [pair for pair in zip(expected, got, strict=True) if pair[0] != pair[1]]
        else:
            pairs = [(ascii(text)[:400], f"{len(expected)} terms expected, {len(got)} found")]
        for pair in pairs[: max(0, shown - different)]:
            print("   ", *map(ascii, pair), ascii(text) if len(text) < 40 else "")
        different += len(pairs)
    print(f"{name} {stemmer}: {count} texts, {terms} terms, {different} differences", flush=True)
    return different


def main() -> None:
    """Compare the sources of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    sources: dict[str, Callable[[int], Iterator[str]]] = {
        "classics": lambda _: classics(),
        "docstrings": lambda _: docstrings(),
        "words": words,
        "letters": lambda _: letters(),
        "fuzz": fuzz,
        "long": long,
    }
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help=", ".join(sources))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--texts", type=int, help="maximum number of texts per source")
    arguments = parser.parse_args()
    unknown = set(arguments.sources) - set(sources)
    if unknown:
        parser.error(f"unknown source: {', '.join(sorted(unknown))}")
    different = 0
    for name in arguments.sources or sources:
        for stemmer in ("porter", "none", "krovetz"):
            try:
                Analyzer(stemmer=stemmer)
            except MissingExtraError as error:
                print(f"{name} {stemmer}: skipped: {error}")
                continue
            found = compare(name, islice(sources[name](arguments.seed), arguments.texts), stemmer)
            different += found if stemmer != "krovetz" else 0
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
