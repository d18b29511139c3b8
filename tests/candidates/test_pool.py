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
from lmtune.measures.evaluate import measure
from lmtune.measures.from_files import topic_values


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


@pytest.mark.parametrize("model", ["two-stage", "bm25", "sdm", "bm25+rm3:3,5"])
def test_a_topics_own_document_is_left_out(model: str) -> None:
    """The rest ranks as before, except that feedback lacks the own document's terms too."""
    index, queries, _ = random_collection(11)
    names = list(index.docnos(range(len(queries))))
    topics = dict(zip([*names[1:], "none of them"], queries.values(), strict=True))
    qrels = {topic: {names[2]: 0, topic: 1, names[0]: 1} for topic in topics}
    with_own, without = (
        CandidatePool.build(index, topics, qrels, model=model, exclude_self=exclude)
        for exclude in (False, True)
    )
    lost = 0
    for one, other in zip(rank(with_own, {}), rank(without, {}), strict=True):
        assert one.topic not in other.docnos
        lost += one.topic in one.docnos
        if "+" not in model:
            kept = [(docno, score) for docno, score in zip(one.docnos, one.scores, strict=True)]
            kept = [own for own in kept if own[0] != one.topic]
            assert list(zip(other.docnos, other.scores, strict=True)) == kept
    assert lost > 2
    again = with_own.with_judgments({})
    assert not again.exclude_self
    assert without.with_judgments(qrels).exclude_self
    # Relevant and never retrieved, as where the run's line is dropped.
    own = measure(without, {}, measures=["AP", "nDCG"])
    runs = {
        ranking.topic: dict(zip(ranking.docnos, ranking.scores, strict=True)) for ranking in rank(without, {})
    }
    found = topic_values(qrels, runs, ["AP", "nDCG"]).loc[list(topics)]
    np.testing.assert_allclose(own.loc[list(topics)], found, atol=1e-12)
    assert without.judged_counts()[0].tolist() == [len({topic, names[0]}) for topic in topics]


def test_feedback_has_no_term_of_the_own_document_alone() -> None:
    texts = {f"d{i}": f"w{i % 5} x{i}" for i in range(40)} | {"own": "w1 w1 w1 secret"}
    index = TinyIndex(texts)
    terms = {
        exclude: CandidatePool.build(index, {"own": "w1"}, model="bm25+rm3:3,9", exclude_self=exclude).terms
        for exclude in (False, True)
    }
    assert "secret" in terms[False][0]
    assert "secret" not in terms[True][0]
    assert len(terms[True][0]) > 1
