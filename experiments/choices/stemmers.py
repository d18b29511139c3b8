"""Snowball's stemmers as lmtune has them against Lucene's: how many frequent words have another stem.

    python -m experiments.choices.stemmers

Needs Java and the package wordfreq, whose lists it takes; counts, no speed.
"""

from __future__ import annotations

import argparse

import wordfreq

from lmtune.engines.writers import SNOWBALL
from lmtune.index.analysis import load_stemmer
from lmtune.index.lucene import java

CODES = {
    "arabic": "ar",
    "catalan": "ca",
    "danish": "da",
    "dutch_porter": "nl",
    "english": "en",
    "finnish": "fi",
}
CODES |= {"french": "fr", "german": "de", "hungarian": "hu", "italian": "it", "lithuanian": "lt"}
CODES |= {"norwegian": "nb", "portuguese": "pt", "romanian": "ro", "russian": "ru", "spanish": "es"}
CODES |= {"swedish": "sv", "turkish": "tr"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=30_000)
    options = parser.parse_args()
    jnius = java.start()
    for name, language in SNOWBALL.items():
        lucene = jnius.autoclass(f"org.tartarus.snowball.ext.{language}Stemmer")()
        ours = load_stemmer(name)
        words = [word for word in wordfreq.top_n_list(CODES[name], options.words) if word.isalpha()]
        parted = []
        for word in words:
            lucene.setCurrent([*word], len(word))
            lucene.stem()
            if lucene.getCurrent() != ours(word):
                parted.append(f"{word} {lucene.getCurrent()} {ours(word)}")
        print(
            f"{name}: {len(parted)} of {len(words)}, {len(parted) / len(words):.3%}; {', '.join(parted[:3])}"
        )


if __name__ == "__main__":
    main()
