"""What the pages' commands speak of, in small: collections, TREC's folders, runs, LETOR files, readers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from made_lists import made_lists
from tiny_bert import WORDS, tiny_bert

from lmtune.io.letor import write_letor

_WORDS = [word for word in WORDS if len(word) > 3]
_DOCUMENTS = 50
_LAMBDAS = "import numpy as np\ndef my_function(scores, labels):\n    return labels - np.exp(scores)\n"
Topics = Mapping[str, str]


def make_pages_world(home: Path) -> None:
    """Write everything that a page names and no command of it makes."""
    rng = np.random.default_rng(2)
    texts = {f"d{n}": " ".join(rng.choice(_WORDS, 4 + n % 9)) for n in range(_DOCUMENTS)}
    mine, others, new = (_topics(rng, own) for own in (range(401, 451, 5), range(501, 505), range(901, 904)))
    for name, own in (("my-collection", mine), ("other-collection", others)):
        _collection(home / name, texts, own)
        _sgml(home / name / "topics.txt", own)
    _collection(home / "my-folder", texts, mine)
    for name in ("BIG", "DATASET"):
        _collection(home / name, texts, mine)
    for name in ("my-folder", "BIG", "DATASET"):
        _tabbed(home / name / "topics.tsv", mine)
    _tabbed(home / "new.tsv", new)
    _sgml(home / "new-topics.txt", _topics(rng, range(801, 804)))
    _qrels(home / "qrels.txt", texts, mine)
    _qrels(home / "new-qrels.txt", texts, new)
    (home / "weights.tsv").write_text("".join(f"{topic}\t{1 + int(topic) % 3}\n" for topic in mine))
    (home / "priors.tsv").write_text("".join(f"{docno}\t{n % 5}\n" for n, docno in enumerate(texts)))
    (home / "pairs.tsv").write_text("".join(f"bear\t{text}\n" for text in texts.values()))
    _run(home / "other.txt", rng, texts, others)
    for name in ["run.txt", "first.run", "second.run", "baseline.run", "better.run", "other.run"]:
        _run(home / name, rng, texts, mine)
    few = dict(list(texts.items())[:12])
    for name in ["lexical.run", "dense.run", "reranked.run"]:
        _run(home / name, rng, few, mine)
    for name in ["new.txt", "new.run", "new-lexical.run", "new-dense.run"]:
        _run(home / name, rng, texts, new)
    _beir(home, rng, texts, {"train": mine, "test": others})
    _trec(home, rng, texts)
    (home / "my_lambdas.py").write_text(_LAMBDAS)
    (home / "LETOR_DIR").mkdir()
    for seed, name in enumerate(["train", "vali", "test"]):
        write_letor(home / "LETOR_DIR" / f"{name}.txt", made_lists(seed, queries=4 if seed else 24))


def make_readers(home: Path, *names: str) -> None:
    """Write tiny cross-encoders of these names."""
    for name in names:
        (home / name).parent.mkdir(exist_ok=True)
        tiny_bert(home / name)


def _topics(rng: np.random.Generator, numbers: Sequence[int]) -> dict[str, str]:
    return {str(number): " ".join(rng.choice(_WORDS, 3, replace=False)) for number in numbers}


def _collection(folder: Path, texts: Mapping[str, str], topics: Topics) -> None:
    folder.mkdir()
    lines = (
        json.dumps({"id": docno, "title": text.split()[0], "contents": text}) for docno, text in texts.items()
    )
    (folder / "docs.jsonl").write_text("\n".join(lines) + "\n")
    _qrels(folder / "qrels.txt", texts, topics)


def _tabbed(path: Path, topics: Topics) -> None:
    path.write_text("".join(f"{topic}\t{text}\n" for topic, text in topics.items()))


def _sgml(path: Path, topics: Topics) -> None:
    path.parent.mkdir(exist_ok=True)
    one = "<top>\n<num> Number: {}\n<title> {}\n<desc> Description:\n{}\n<narr> Narrative:\n{}\n</top>\n"
    path.write_text("".join(one.format(topic, text, text, text) for topic, text in topics.items()))


def _qrels(path: Path, texts: Mapping[str, str], topics: Topics) -> None:
    path.parent.mkdir(exist_ok=True)
    found = (
        f"{topic} 0 {docno} {int(set(query.split()) <= set(text.split()) or n % 25 == int(topic) % 25)}\n"
        for topic, query in topics.items()
        for n, (docno, text) in enumerate(texts.items())
    )
    path.write_text("".join(found))


def _run(path: Path, rng: np.random.Generator, texts: Mapping[str, str], topics: Topics) -> None:
    lines = []
    for topic, query in topics.items():
        scores = {
            docno: sum(word in query for word in text.split()) + rng.random() for docno, text in texts.items()
        }
        ranked = sorted(scores, key=lambda docno: -scores[docno])
        lines += [f"{topic} Q0 {docno} {n} {scores[docno]:.6f} made\n" for n, docno in enumerate(ranked, 1)]
    path.write_text("".join(lines))


def _beir(
    home: Path, rng: np.random.Generator, texts: Mapping[str, str], splits: Mapping[str, Topics]
) -> None:
    """Write a folder as BEIR has them, and a dense run of each split."""
    (home / "scifact" / "qrels").mkdir(parents=True)
    queries = {topic: text for topics in splits.values() for topic, text in topics.items()}
    for name, own in (("corpus", texts), ("queries", queries)):
        lines = (json.dumps({"_id": key, "text": text}) + "\n" for key, text in own.items())
        (home / "scifact" / f"{name}.jsonl").write_text("".join(lines))
    for split, topics in splits.items():
        _run(home / f"dense-{split}.run", rng, texts, topics)
        judged = home / "scifact" / "qrels" / f"{split}.tsv"
        _qrels(judged, texts, topics)
        lines = (line.replace(" 0 ", "\t", 1).replace(" ", "\t") for line in judged.read_text().splitlines())
        judged.write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n")


def _trec(home: Path, rng: np.random.Generator, texts: Mapping[str, str]) -> None:
    """Write the paper's four collections as TREC has them, a tenth of their topics."""
    parts = {
        "disk45": ["robust04"],
        "AP": ["adhoc.51-100", "adhoc.101-150", "adhoc.151-200"],
        "WSJ": [],
        "WT10g": ["adhoc.451-550"],
    }
    ranges = {"robust04": [*range(301, 451, 10), *range(601, 701, 10)]}
    for folder, names in parts.items():
        own = {f"{folder}-{docno}": text for docno, text in texts.items()}
        if folder == "AP":
            own |= {f"WSJ-{docno}": text for docno, text in texts.items()}
        one = "<DOC>\n<DOCNO> {} </DOCNO>\n<TEXT>\n{}\n</TEXT>\n</DOC>\n"
        (home / folder / "fbis").mkdir(parents=True)
        kept = {docno: text for docno, text in own.items() if docno.startswith(folder)}
        written = kept or {f"{folder}-{docno}": text for docno, text in texts.items()}
        (home / folder / "fbis" / "0001").write_text("".join(one.format(*pair) for pair in written.items()))
        for name in names:
            first, _, last = name.removeprefix("adhoc.").partition("-")
            topics = _topics(rng, ranges.get(name) or range(int(first), int(last) + 1, 5))
            _sgml(home / "topics" / f"topics.{name}.txt", topics)
            _qrels(home / "qrels" / f"qrels.{name}.txt", own, topics)
