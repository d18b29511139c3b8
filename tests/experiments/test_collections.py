"""Collections for the laboratory, by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.data import index_collection, load_pool, short_name
from lmtune.datasets.loading import load
from lmtune.errors import InputError

NAME = "synthetic:1000x40"


def test_topics_are_drawn_by_the_seed(tmp_path: Path) -> None:
    usable = index_collection(NAME, tmp_path)
    every = load_pool(NAME, indexes=tmp_path)
    assert len(every.topics) == usable
    assert every.judged_counts()[0].min() > 0
    some = load_pool(NAME, indexes=tmp_path, topics=10, seed=1)
    others = load_pool(NAME, indexes=tmp_path, topics=10, seed=2)
    assert len(some.topics) == 10
    assert [t for t in every.topics if t in set(some.topics)] == list(some.topics)
    assert some.topics != others.topics
    assert load_pool(NAME, indexes=tmp_path, topics=10, seed=1) is some


def test_impossible_collections_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"too few topics .*: 1000; accepted: 0 .all. to 40"):
        load_pool(NAME, indexes=tmp_path, topics=1000)
    with pytest.raises(InputError, match="nowhere"):
        index_collection("nowhere", tmp_path)
    # Such as one of the paper's, which only an index stands for.
    without = replace(load(NAME), documents=None)
    monkeypatch.setattr("experiments.data.load", lambda _: without)
    with pytest.raises(InputError, match="no documents"):
        index_collection("without", tmp_path)


def test_short_names() -> None:
    names = ("pydocs", "irds:beir/nfcorpus/test", "some/where/cacm", "cacm/")
    assert [short_name(name) for name in names] == ["pydocs", "irds:beir/nfcorpus/test", "cacm", "cacm"]
