from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lmtune.collections.dataset import Dataset, check_dataset, split_topics
from lmtune.errors import InputError
from lmtune.io.qrels import read_qrels


def doc_numbers(docnos: Sequence[str]) -> NDArray[np.int64]:
    return np.array([ord(docno) - ord("a") if docno in "abc" else -1 for docno in docnos])


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    path = tmp_path / "qrels.txt"
    path.write_text("1 0 a 1\n1 0 b 0\n2 0 x 2\n3 0 a 0\n3 0 y -1\n4 0 c 1\n4 0 x 0\n5 0 z 1\n")
    topics = {"1": "one", "2": "two", "3": "three", "9": "nine"}
    return Dataset("d", None, topics, read_qrels(path), topics_file="topics.tsv", qrels_file=str(path))


def test_an_unknown_topic_is_named_with_its_line(dataset: Dataset) -> None:
    with pytest.raises(InputError) as caught:
        check_dataset(dataset, doc_numbers=doc_numbers)
    text = str(caught.value)
    assert text.startswith(f"{dataset.qrels_file}:6: judgment of a topic that is not in topics.tsv")
    assert "(2 such topics in all, 3 judgments): '4'; accepted: a topic such as 1" in text
    assert "add --ignore-unknown to ignore such judgments" in text


def test_some_unknown_documents_are_counted(dataset: Dataset) -> None:
    dataset.topics.update({"4": "four", "5": "five"})
    assert check_dataset(dataset, doc_numbers=doc_numbers) == (dataset, 0, 3)  # x, y and z


def test_the_first_of_nothing_but_unknown_documents_is_named_with_its_line(dataset: Dataset) -> None:
    dataset.topics.update({"4": "four", "5": "five"})
    with pytest.raises(InputError) as caught:
        check_dataset(dataset, doc_numbers=lambda docnos: np.full(len(docnos), -1))
    text = str(caught.value)
    assert text.startswith(f"{dataset.qrels_file}:1: no judged document is in the collection")
    assert "(6 documents in all): 'a'; accepted: " in text
    assert "--ignore-unknown to count such documents as never retrieved" in text


def test_ignoring_leaves_unknown_topics_out_and_keeps_unknown_documents(dataset: Dataset) -> None:
    checked = check_dataset(dataset, doc_numbers=doc_numbers, ignore_unknown=True)
    assert checked.unknown_topics == 2
    assert checked.unknown_docnos == 2  # x and y: z is judged for an unknown topic only
    assert checked.dataset.qrels == {topic: dataset.qrels[topic] for topic in "123"}
    assert list(dataset.qrels) == ["1", "2", "3", "4", "5"]


def test_known_parts_pass_unchanged(dataset: Dataset) -> None:
    dataset.qrels.pop("4")
    dataset.qrels.pop("5")
    assert check_dataset(dataset) == (dataset, 0, 0)


def test_without_files_there_is_no_line() -> None:
    dataset = Dataset("d", None, {"1": "one"}, {"2": {"a": 1}})
    with pytest.raises(InputError, match=r"^d: judgment of a topic that is not in the topics"):
        check_dataset(dataset)


def test_topics_without_relevant_documents_are_set_apart(dataset: Dataset) -> None:
    assert split_topics(dataset) == (["1", "2"], ["3", "9"])


def test_no_usable_topic_is_an_error() -> None:
    dataset = Dataset("d", None, {"1": "one", "2": "two"}, {"1": {"a": 0, "b": -1}})
    with pytest.raises(InputError, match="no topic of d has a relevant document"):
        split_topics(dataset)
