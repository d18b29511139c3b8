"""Shapes of test collections, one row each, made small enough that every job runs on all of them."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

Run = Mapping[str, Mapping[str, float]]
Qrels = Mapping[str, Mapping[str, int]]

_FILLER = ("river", "stone", "cloud", "winter", "market", "garden", "copper", "signal", "harbour", "violet")
_SUBJECTS = ("whale", "comet", "violin", "glacier", "beetle", "lantern", "orchid", "turbine")


@dataclass(frozen=True)
class Data:
    """A collection and runs of it, before they are written."""

    documents: Mapping[str, str]
    topics: Mapping[str, str]
    qrels: Qrels
    runs: Mapping[str, Run] = field(default_factory=dict)

    def with_runs(self) -> Data:
        """Add two runs: by shared words, and the same with noise; all documents with a score above 0."""
        runs = {
            name: {
                topic: {
                    docno: round(score, 6)
                    for docno, text in self.documents.items()
                    if (score := _overlap(text, query) + noise * _draw(f"{name} {topic} {docno}")) > 0.3
                }
                for topic, query in self.topics.items()
            }
            for name, noise in (("lexical", 0.5), ("dense", 1.5))
        }
        return replace(self, runs=runs)


def _draw(key: str) -> float:
    """Return a number from 0 to 1 that depends on the key alone."""
    return zlib.crc32(key.encode()) / 2**32


def _overlap(text: str, query: str) -> float:
    words = text.lower().split()
    return sum(words.count(word) for word in query.lower().split()) / math.sqrt(max(1, len(words)))


def base(topics: int = 6, documents: int = 36) -> Data:
    """Return a collection whose topics are two subjects each; documents name some, in filler."""
    texts = {}
    for number in range(documents):
        subjects = [word for word in _SUBJECTS if _draw(f"{word} in {number}") < 0.3]
        filler = [word for word in _FILLER if _draw(f"{word} in {number}") < 0.2 + 0.5 * _draw(str(number))]
        repeats = 1 + int(3 * _draw(f"repeats {number}"))
        texts[f"d{number:02}"] = " ".join(["the", *subjects * repeats, *filler])
    queries = {
        f"{number + 1}": f"{_SUBJECTS[number % 8]} {_SUBJECTS[(number + 3 + number // 8) % 8]}"
        for number in range(topics)
    }
    qrels: dict[str, dict[str, int]] = {}
    for topic, query in queries.items():
        for docno, text in texts.items():
            shared = len(set(query.split()) & set(text.split()))
            draw = _draw(f"judge {topic} {docno}")
            if draw < 0.7 and (shared or draw < 0.2):
                qrels.setdefault(topic, {})[docno] = int(draw < 0.45 * shared)
    for topic in queries:  # each topic has both
        own = qrels[topic]
        own[next(iter(own))] = 1
        own[list(own)[-1]] = 0
    return Data(texts, queries, qrels)


def _gains(data: Data, gain: Callable[[str, str, int], int | None]) -> Data:
    """Return the data with other gains; None removes a judgment."""
    qrels = {
        topic: {docno: new for docno, old in own.items() if (new := gain(topic, docno, old)) is not None}
        for topic, own in data.qrels.items()
    }
    return replace(data, qrels={topic: own for topic, own in qrels.items() if own})


def _only_relevant(data: Data) -> Data:
    return _gains(data, lambda _topic, _docno, gain: gain or None)


def _one_zero(data: Data) -> Data:
    first, zero = next((t, d) for t, own in data.qrels.items() for d, gain in own.items() if not gain)
    return _gains(data, lambda t, d, gain: 0 if (t, d) == (first, zero) else gain or None)


def _one_relevant(data: Data) -> Data:
    firsts = {t: next(d for d, gain in own.items() if gain) for t, own in data.qrels.items()}
    return _gains(data, lambda t, d, _gain: 1 if firsts[t] == d else None)


def _odd_topics(data: Data) -> Data:
    """Make the second topic without relevant documents, add one without match and one of stopwords."""
    data = _gains(data, lambda t, _d, gain: 0 if t == "2" else gain)
    topics = {**data.topics, "7": "zeppelin quasar", "8": "the of and"}
    return replace(
        data, topics=topics, qrels={**data.qrels, "7": {"d00": 1, "d01": 0}, "8": {"d02": 1, "d03": 0}}
    )


def _three_documents(data: Data) -> Data:
    documents = {"a": "whale comet violin", "b": "whale glacier", "c": "beetle comet comet"}
    qrels = {"1": {"a": 1, "b": 0}, "2": {"c": 1, "a": 0}, "3": {"a": 1, "b": 0, "c": 0}}
    topics = {"1": "whale violin", "2": "comet beetle", "3": "violin orchid"}
    return replace(data, documents=documents, topics=topics, qrels=qrels)


_IDS = ("1.0", "-5", "31-1", "q#2", "é", "日本", "a:b", "007")


def _odd_ids(data: Data) -> Data:
    docnos = {
        name: _IDS[number] if number < len(_IDS) else f"x.{number}"
        for number, name in enumerate(data.documents)
    }
    topics = dict(zip(data.topics, _IDS, strict=False))
    return Data(
        {docnos[name]: text for name, text in data.documents.items()},
        {topics[name]: text for name, text in data.topics.items()},
        {topics[t]: {docnos[d]: gain for d, gain in own.items()} for t, own in data.qrels.items()},
    )


def _arguana(data: Data) -> Data:
    """Make each topic a document of the collection: its own text is the query."""
    docnos = list(data.documents)[: len(data.topics)]
    names = dict(zip(data.topics, docnos, strict=True))
    topics = {docno: data.documents[docno] for docno in docnos}
    qrels = {names[t]: {d: g for d, g in own.items() if d != names[t]} for t, own in data.qrels.items()}
    return replace(data, topics=topics, qrels=qrels)


def _one_document_runs(data: Data) -> Data:
    data = data.with_runs()
    runs = {
        name: {t: dict([max(own.items(), key=lambda i: i[1])]) for t, own in run.items() if own}
        for name, run in data.runs.items()
    }
    return replace(data, runs=runs)


def _equal_scores(data: Data) -> Data:
    data = data.with_runs()
    runs = {name: {t: dict.fromkeys(own, 1.0) for t, own in run.items()} for name, run in data.runs.items()}
    return replace(data, runs=runs)


def _missing_topics(data: Data) -> Data:
    data = data.with_runs()
    kept = {"lexical": list(data.topics)[1:], "dense": list(data.topics)[:-1]}
    return replace(data, runs={n: {t: run[t] for t in kept[n]} for n, run in data.runs.items()})


def _all_judged(data: Data) -> Data:
    qrels = {t: {d: own.get(d, 0) for d in data.documents} for t, own in data.qrels.items()}
    return replace(data, qrels=qrels)


def _jsonl(folder: Path, data: Data, *, fields: bool = False) -> str:
    """Write documents as JSON lines, topics as TSV and judgments as TREC has them."""

    def record(docno: str, text: str) -> dict[str, str]:
        words = text.split()
        return (
            {"id": docno, "title": " ".join(words[:3]), "body": " ".join(words[3:])}
            if fields
            else {"id": docno, "contents": text}
        )

    lines = (json.dumps(record(*item), ensure_ascii=False) + "\n" for item in data.documents.items())
    (folder / "docs.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "topics.tsv").write_text(
        "".join(f"{t}\t{q}\n" for t, q in data.topics.items()), encoding="utf-8"
    )
    (folder / "qrels.txt").write_text(_trec_qrels(data.qrels), encoding="utf-8")
    return "qrels.txt"


def _fields(folder: Path, data: Data) -> str:
    return _jsonl(folder, data, fields=True)


def _trec_qrels(qrels: Qrels) -> str:
    return "".join(f"{t} 0 {d} {gain}\n" for t, own in qrels.items() for d, gain in own.items())


def _beir(folder: Path, data: Data) -> str:
    """Write BEIR's files; the first half of the topics is the split train, the others test."""
    corpus = ({"_id": d, "title": "", "text": text} for d, text in data.documents.items())
    (folder / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in corpus))
    queries = ({"_id": t, "text": text} for t, text in data.topics.items())
    (folder / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in queries))
    (folder / "qrels").mkdir()
    topics = list(data.topics)
    for split, own in (("train", topics[: len(topics) // 2]), ("test", topics[len(topics) // 2 :])):
        lines = [f"{t}\t{d}\t{gain}\n" for t in own for d, gain in data.qrels[t].items()]
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    return "qrels/test.tsv"


def _trec(folder: Path, data: Data) -> str:
    """Write TRECTEXT documents and SGML topics."""
    documents = (
        f"<DOC>\n<DOCNO> {d} </DOCNO>\n<TEXT>\n{text}\n</TEXT>\n</DOC>\n"
        for d, text in data.documents.items()
    )
    (folder / "docs.trectext").write_text("".join(documents))
    topics = (
        f"<top>\n<num> Number: {t}\n<title> {text}\n<desc> Description:\nOn {text}.\n<narr> -\n</top>\n"
        for t, text in data.topics.items()
    )
    (folder / "topics.txt").write_text("".join(topics))
    (folder / "qrels.txt").write_text(_trec_qrels(data.qrels))
    return "qrels.txt"


def _msmarco(folder: Path, data: Data) -> str:
    """Write a passage collection and queries as MS MARCO distributes them."""
    (folder / "collection.tsv").write_text(
        "".join(f"{d[1:]}\t{text}\n" for d, text in data.documents.items())
    )
    (folder / "queries.tsv").write_text("".join(f"{t}\t{text}\n" for t, text in data.topics.items()))
    lines = (f"{t}\t0\t{d[1:]}\t{gain}\n" for t, own in data.qrels.items() for d, gain in own.items())
    (folder / "qrels.tsv").write_text("".join(lines))
    return "qrels.tsv"


class Shape(NamedTuple):
    """A kind of collection.

    Attributes
    ----------
    name : str
    data : callable
        Makes it of the base collection.
    write : callable
        Writes the files of a folder; returns the judgments' path in it.
    topics : int
        How many topics the base collection has.
    """

    name: str
    data: Callable[[Data], Data] = lambda data: data
    write: Callable[[Path, Data], str] = _jsonl
    topics: int = 6

    def make(self, home: Path) -> Data:
        """Write the collection, its runs and a second set of labels; return what was written."""
        data = self.data(base(self.topics))
        data = data if data.runs else data.with_runs()
        folder = home / self.folder
        folder.mkdir(parents=True)
        qrels = self.write(folder, data)
        if self.write is _msmarco:
            data = _without_prefix(data)
        for name, run in data.runs.items():
            (home / f"{name}.run").write_text(_trec_run(run, name), encoding="utf-8")
        (home / "labels.txt").write_text(_trec_qrels(_second_opinion(data.qrels)), encoding="utf-8")
        (home / "qrels").write_bytes((folder / qrels).read_bytes())
        return data

    @property
    def folder(self) -> str:
        """The collection's folder in its home; lmtune knows BEIR's sets by their names."""
        return "arguana" if self.name == "arguana" else "c"


def _trec_run(run: Run, tag: str) -> str:
    lines = []
    for topic, scores in run.items():
        ranked = sorted(scores.items(), key=lambda item: -item[1])
        lines += [
            f"{topic} Q0 {docno} {rank} {score} {tag}\n" for rank, (docno, score) in enumerate(ranked, 1)
        ]
    return "".join(lines)


def _second_opinion(qrels: Qrels) -> Qrels:
    """Return other labels of the same pairs, of which one in five differs."""
    return {
        t: {d: 1 - int(gain > 0) if _draw(f"opinion {t} {d}") < 0.2 else gain for d, gain in own.items()}
        for t, own in qrels.items()
    }


def _without_prefix(data: Data) -> Data:
    def renamed(of: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        return {t: {d[1:]: value for d, value in own.items()} for t, own in of.items()}

    qrels = {t: {d[1:]: gain for d, gain in own.items()} for t, own in data.qrels.items()}
    documents = {d[1:]: text for d, text in data.documents.items()}
    return Data(documents, data.topics, qrels, {name: renamed(run) for name, run in data.runs.items()})


SHAPES = (
    Shape("judged-non-relevant"),
    Shape("only-relevant", _only_relevant),
    Shape("one-zero", _one_zero),
    Shape("graded", lambda data: _gains(data, lambda t, d, gain: gain and 1 + int(3 * _draw(t + d)))),
    Shape("negative-gains", lambda data: _gains(data, lambda t, d, gain: gain or -int(3 * _draw(t + d)))),
    Shape("one-relevant", _one_relevant),
    Shape("odd-topics", _odd_topics),
    Shape("one-topic", topics=1),
    Shape("two-topics", topics=2),
    Shape("three-topics", topics=3),
    Shape("three-documents", _three_documents, topics=3),
    Shape("odd-ids", _odd_ids),
    Shape("two-fields", write=_fields),
    Shape("beir", write=_beir, topics=12),
    Shape("arguana", _arguana, _beir, topics=12),
    Shape("trec", write=_trec),
    Shape("msmarco", write=_msmarco),
    Shape("one-document-runs", _one_document_runs),
    Shape("equal-scores", _equal_scores),
    Shape("missing-topics", _missing_topics),
    Shape("all-judged", _all_judged),
)
