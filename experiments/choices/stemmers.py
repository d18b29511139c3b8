"""Compare lmtune's Snowball stemmers with Lucene's: the number of frequent words with different stems.

    python -m experiments.choices.stemmers

Needs Java and the package wordfreq, for its word lists. Prints counts, no times.
"""

from __future__ import annotations

import pandas as pd
import wordfreq

from experiments.common import Results, main
from lmtune.engines.writers import SNOWBALL
from lmtune.index.analysis import load_stemmer
from lmtune.index.lucene import java

QUICK = {"words": 1000}
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


def experiment(*, words: int = 30_000) -> Results:
    """Compare the stems of frequent words.

    Parameters
    ----------
    words : int
        number of frequent words of each language
    """
    jnius, rows = java.start(), []
    for name, language in SNOWBALL.items():
        lucene = jnius.autoclass(f"org.tartarus.snowball.ext.{language}Stemmer")()
        ours = load_stemmer(name)
        frequent = [word for word in wordfreq.top_n_list(CODES[name], words) if word.isalpha()]
        parted = []
        for word in frequent:
            lucene.setCurrent([*word], len(word))
            lucene.stem()
            if lucene.getCurrent() != ours(word):
                parted.append(f"{word} {lucene.getCurrent()} {ours(word)}")
        share = len(parted) / len(frequent)
        row = {"stemmer": name, "different": len(parted), "words": len(frequent), "share": share}
        rows.append(row | {"examples": ", ".join(parted[:3])})
    return {"stemmers": pd.DataFrame(rows)}


if __name__ == "__main__":
    main(__spec__)
