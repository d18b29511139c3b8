"""The pool against the documents it was made from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import TinyIndex, random_collection

from lmtune.candidates.columns import UNJUDGED
from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.ranking import rank
from lmtune.candidates.skyband import skyband
from lmtune.errors import InputError


@pytest.mark.parametrize("seed", range(5))
def test_columns_say_what_the_documents_say(seed: int) -> None:
    index, topics, qrels = random_collection(seed)
    pool = CandidatePool.build(index, topics, qrels)
    for t, (topic, text) in enumerate(topics.items()):
        words = [word for word in text.split() if index.postings(word) is not None]
        rows = pool.candidates.rows(t)
        assert dict(zip(pool.terms[t], pool.count[pool.term_rows(t)], strict=True)) == {
            word: words.count(word) for word in words
        }
        texts = [index.documents[docno].split() for docno in index.docnos(range(index.num_docs))]
        matching = {d for d, tokens in enumerate(texts) if set(tokens) & set(words)}
        docs = pool.candidates.doc[rows].tolist()
        assert sorted(docs) == sorted(matching)
        tf = pool.tf_block(pool.candidates, t)
        order = []
        for position, doc in enumerate(docs):
            assert tf[:, position].tolist() == [texts[doc].count(term) for term in pool.terms[t]]
            assert pool.candidates.length[rows][position] == len(texts[doc])
            [docno] = index.docnos([doc])
            gain = qrels[topic].get(docno, UNJUDGED)
            assert pool.candidates.gain[rows][position] == max(gain, UNJUDGED)
            rank = sorted(index.documents, reverse=True).index(docno)
            order.append((len(texts[doc]), -int(tf[:, position].sum()), rank))
        assert order == sorted(order)
        for term, p in zip(pool.terms[t], pool.value[pool.term_rows(t)], strict=True):
            assert p == sum(tokens.count(term) for tokens in texts) / index.total_terms
        judged = {d for d, gain in qrels[topic].items() if gain >= 0 and d in index.documents}
        assert set(index.docnos(pool.judged.doc[pool.judged.rows(t)])) == judged
        relevant, nonrelevant = pool.judged_counts()
        assert relevant[t] == sum(gain >= 1 for gain in qrels[topic].values())
        assert nonrelevant[t] == sum(gain == 0 for gain in qrels[topic].values())


def test_what_the_collection_lacks_is_counted() -> None:
    index = TinyIndex({"a": "x"})
    pool = CandidatePool.build(index, {"1": "x no", "2": "no"}, {"1": {"gone": 1, "a": 0}})
    assert pool.unknown_terms == {"no": 2}
    assert pool.unknown_documents == 1
    assert np.diff(pool.candidates.start).tolist() == [1, 0]


def test_places_of_topics() -> None:
    pool = CandidatePool.build(TinyIndex({"a": "x"}), {"7": "x", "5": "x"})
    assert pool.positions(["5"]).tolist() == [1]
    with pytest.raises(InputError, match="'9'"):
        pool.positions(["9"])


def test_a_pool_needs_topics() -> None:
    with pytest.raises(InputError, match="topics are empty"):
        CandidatePool.build(TinyIndex({"a": "x"}), {})


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 5)), min_size=1))
def test_candidates_stand_in_tie_order(rows: list[tuple[int, int, int]]) -> None:
    # x and y so many times each, and so many other words; docnos in any order.
    texts = {
        f"d{(7 * i) % 1000:03d}": " ".join(["x"] * x + ["y"] * (y - 1) + ["z"] * z)
        for i, (x, y, z) in enumerate(rows)
    }
    pool = CandidatePool.build(TinyIndex(texts), {"1": "x y"})
    tokens = {docno: text.split() for docno, text in texts.items()}
    expected = sorted(texts, reverse=True)
    expected.sort(key=lambda d: (len(tokens[d]), tokens[d].count("z")))
    assert pool.index.docnos(pool.candidates.doc) == expected


def test_rank_checks_the_setting_when_it_is_called() -> None:
    index, queries, _ = random_collection(2)
    pool = CandidatePool.build(index, queries)
    with pytest.raises(InputError, match=r"lambda is outside its domain: 1.4"):
        rank(pool, {"lambda": 1.4})
    with pytest.raises(InputError, match=r"pruned for a smaller run depth: 50"):
        rank(skyband(pool, depth=5), {}, hits=50)
