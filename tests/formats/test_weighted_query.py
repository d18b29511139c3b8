"""Topics whose terms have weights."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from lmtune.errors import InputError
from lmtune.formats.topics import read_topics
from lmtune.formats.weighted_query import WeightedQuery


def test_weights_of_words_add_up_by_term() -> None:
    query = WeightedQuery.parse("Fish^2.5 oil fish^.5")
    assert query.weights == {"Fish": 2.5, "oil": 1.0, "fish": 0.5}
    assert query.by_term(lambda word: [word.lower()]) == {"fish": 3.0, "oil": 1.0}
    assert query == "Fish^2.5 oil^1.0 fish^0.5"
    own = WeightedQuery.of({"fish": 1.0}, are_terms=True)
    assert own.by_term(lambda word: [word, word]) == {"fish": 1.0}
    again = pickle.loads(pickle.dumps(own))
    assert (again.weights, again.are_terms) == (own.weights, True)


def test_topics_say_their_weights(tmp_path: Path) -> None:
    path = tmp_path / "topics.jsonl"
    lines: list[dict[str, Any]] = [
        {"_id": "1", "terms": {"fish": 2, "oil": 0.5}},
        {"_id": "2", "terms": "fish^2 oil"},
        {"_id": "3", "text": "fish^2 oil"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    topics = read_topics(path)
    first, second = topics["1"], topics["2"]
    assert isinstance(first, WeightedQuery)
    assert isinstance(second, WeightedQuery)
    assert first.weights == {"fish": 2, "oil": 0.5}
    assert second.weights == {"fish": 2.0, "oil": 1.0}
    assert not isinstance(topics["3"], WeightedQuery)


@pytest.mark.parametrize(
    "terms", [{}, {"fish": "2"}, {"fish": float("inf")}, {"fish": True}, {" ": 1}, [1], "", "fish^x", 3]
)
def test_what_is_no_weight_is_refused_with_its_line(tmp_path: Path, terms: object) -> None:
    path = tmp_path / "topics.jsonl"
    path.write_text('{"_id": "1", "text": "a"}\n' + json.dumps({"_id": "2", "terms": terms}) + "\n")
    with pytest.raises(InputError) as refused:
        read_topics(path)
    assert str(refused.value).startswith(f"{path}:2: ")
