"""Random corpora in JSONL with the statistics of English text, for benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_FUNCTION_WORDS = (
    "the of and to a in is for that on with as by it was at be from are this an or not which but "
    "have he has will their you were they one more we can all been other there his new would some "
    "if time up no out when who so what about into than said could them do over after its two"
)
_CONSONANTS, _VOWELS = "b c d f g h j k l m n p r s t v w z st tr pl", "a e i o u an er or en"
_SUFFIXES = ["", "s", "ed", "ing", "er", "ers", "ly", "ation", "ations", "ness", "ity", "'s"]
_FOREIGN = "été naïve Straße Ærø façade Привет мир Ελλάδα São Łódź 東京 日本語 한국어 “quoted” – €"


def write_corpus(
    folder: Path,
    *,
    documents: int,
    files: int = 8,
    types: int = 200_000,
    tokens: int = 177,
    foreign: float = 0.0,
    seed: int = 0,
) -> int:
    """Write ``documents`` documents with ids d0, d1, ... to JSONL files.

    Token frequencies follow the Zipf-Mandelbrot law, p(r) ~ (r + 2.7)^-1.07. Document lengths are log-normal,
    with a mean of about ``tokens``. Sentences have capitals, commas, full stops and numbers. A share
    ``foreign`` of the documents contains some non-ASCII words.

    Returns
    -------
    int
        Bytes written.
    """
    rng = np.random.default_rng(seed)
    words = _words(rng, types)
    weights = (np.arange(types) + 3.7) ** -1.07
    weights /= weights.sum()
    lengths = np.maximum(rng.lognormal(np.log(tokens) - 0.18, 0.6, documents).astype(int), 1)
    cumulated = np.cumsum(weights)
    cuts = np.linspace(0, documents, files + 1).astype(int)
    folder.mkdir(parents=True)
    written = 0
    for part in range(files):
        path = folder / f"docs-{part:02d}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for number in range(cuts[part], cuts[part + 1]):
                ranks = np.searchsorted(cumulated, rng.random(lengths[number]))
                text = _sentences(rng, words[np.minimum(ranks, types - 1)], foreign)
                line = json.dumps({"id": f"d{number}", "contents": text}, ensure_ascii=False)
                file.write(line + "\n")
        written += path.stat().st_size
    return written


def _words(rng: np.random.Generator, types: int) -> NDArray[np.object_]:
    """Make distinct words by falling frequency; frequent words are short, and a stem has about two words."""
    syllables = [c + v for c in _CONSONANTS.split() for v in _VOWELS.split()]
    words = dict.fromkeys(_FUNCTION_WORDS.split())
    stems: list[str] = []
    while len(words) < types:
        rank = len(words)
        if rank % 40 == 0:
            words.setdefault(str(rng.integers(0, 10 * types)))
        elif stems and rng.random() < 0.5:
            stem = stems[rng.integers(0, len(stems))]
            words.setdefault(stem + _SUFFIXES[rng.integers(0, len(_SUFFIXES))])
        else:
            count = 1 + int(rank > 100) + int(rank > 5_000) + int(rng.random() < 0.2)
            stems.append("".join(syllables[i] for i in rng.integers(0, len(syllables), count)))
            words.setdefault(stems[-1])
    return np.array(list(words), object)


def _sentences(rng: np.random.Generator, words: NDArray[np.object_], foreign: float) -> str:
    pieces = words.tolist()
    if foreign and rng.random() < foreign:
        for at in rng.integers(0, len(pieces), max(1, len(pieces) // 20)):
            pieces[at] = str(rng.choice(_FOREIGN.split()))
    at = 0
    while at < len(pieces):
        pieces[at] = pieces[at].capitalize()
        at += int(rng.integers(6, 24))
        if at - 4 > 0 and at < len(pieces):
            pieces[at - 4] += ","
        pieces[min(at, len(pieces)) - 1] += "."
    return " ".join(pieces)
