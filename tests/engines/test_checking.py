"""A run held against a tuned setting: what is alike, and the known reason of each first difference."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_engines import write_collection
from scripts import refusal, run_command

from lmtune.candidates.ranking import Searched, search
from lmtune.collections.collection import Collection
from lmtune.engines.checking import Check, _Comparison, check_run, cut, rounding_bound
from lmtune.errors import InputError
from lmtune.io.digests import sealed
from lmtune.io.runs import Ranking, read_run

K1_B = {"k1": 1.2, "b": 0.75}
Run = dict[str, dict[str, float]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("home") / "c").parent


def searched(home: Path, model: str = "bm25:bm25s", **how: Any) -> Searched:
    return search(Collection(str(home / "c"), indexes=home / "indexes", **how), model, K1_B, hits=10_100)


@pytest.fixture(scope="module")
def ours(home: Path) -> Searched:
    return searched(home)


def swapped(ranked: dict[str, float], one: str, other: str) -> dict[str, float]:
    """Swap two documents, each with the other's score."""
    return {{one: other, other: one}.get(docno, docno): score for docno, score in ranked.items()}


def first(run: Run, topic: str, rank: int) -> str:
    return sorted(run[topic], key=lambda docno: -run[topic][docno])[rank - 1]


def checked(run: Run, ours: Searched) -> tuple[Check, dict[str, str]]:
    found = check_run(run, ours)
    return found, {own.topic: own.reason for own in found.differences}


def test_our_own_run_is_alike(ours: Searched) -> None:
    found, reasons = checked(cut(ours.rankings, 1000), ours)
    assert (reasons, found.topics, found.depth, found.is_match) == ({}, 10, 100, True)
    assert str(found) == "10 of 10 topics: same documents in the same order to rank 100"
    assert found.scores == "The run's scores are lmtune's."


def test_equal_documents_in_another_order_are_a_tie(ours: Searched) -> None:
    run = cut(ours.rankings, 1000)
    topic = next(topic for topic in run if "twin1" in [*run[topic]][:100])
    run[topic] = swapped(run[topic], "twin1", "twin2")
    assert checked(run, ours)[1] == {}  # equal scores, which trec_eval orders as we do
    run[topic]["twin1"] = float(np.nextafter(np.float32(run[topic]["twin1"]), np.float32(np.inf)))
    found, reasons = checked(run, ours)
    assert (reasons, found.is_match) == ({topic: "tie"}, True)
    [own] = found.differences
    assert (own.here, own.there) == ("twin2", "twin1")
    assert own.here_score == own.there_score
    assert str(found) == "10 of 10 topics: same documents in the same order to rank 100; 1 only up to ties"


def test_equal_scores_of_a_run_are_ranked_as_trec_eval_ranks_them(ours: Searched) -> None:
    """The lines stand in our order, but measures see another one."""
    run = cut(ours.rankings, 50)
    run["3"] = dict.fromkeys(run["3"], 1.0)
    found, reasons = checked(run, ours)
    assert (reasons, found.is_match) == ({"3": "equal"}, False)
    assert "1 in ties of the run, which trec_eval orders by docno" in str(found)
    [own] = found.differences
    assert own.there == max(docno for docno in run["3"])
    # Of documents in another order as well the order is what is wrong.
    run["3"] = dict.fromkeys(reversed(run["3"]), 1.0)
    assert checked(run, ours)[1] == {"3": "scores"}


def test_neighbours_of_different_scores_are_no_tie(ours: Searched) -> None:
    run = cut(ours.rankings, 1000)
    scores = {ranking.topic: ranking.scores for ranking in ours.rankings}["2"]
    rank = next(n for n in range(1, 100) if scores[n - 1] - scores[n] > 1e-3 * scores[n])
    one, other = first(run, "2", rank), first(run, "2", rank + 1)
    run["2"] = swapped(run["2"], one, other)
    found, reasons = checked(run, ours)
    assert (reasons, found.is_match) == ({"2": "scores"}, False)
    [own] = found.differences
    assert (own.rank, own.here, own.there) == (rank, one, other)
    assert (own.run_there, own.run_here) == pytest.approx((own.here_score, own.there_score), rel=1e-6)
    said = f"topic 2, rank {rank}: {one} {scores[rank - 1]:.6g} here, {other} {scores[rank]:.6g} there"
    assert str(found).startswith("9 of 10 topics match to rank 100; 1 differ: 1 in scores")
    assert str(found).endswith(f" ({said})")


def test_what_an_index_lacks_is_told_from_other_differences(ours: Searched) -> None:
    whole = cut(ours.rankings, 1000)
    lost = first(whole, "4", 2)
    run = {topic: {d: s for d, s in ranked.items() if d != lost} for topic, ranked in whole.items()}
    holding = {topic for topic in whole if lost in dict([*whole[topic].items()][:100])}
    found, reasons = checked(run, ours)
    assert reasons == dict.fromkeys(holding, "document")
    assert not found.is_match
    own = next(own for own in found.differences if own.topic == "4")
    assert (own.rank, own.here) == (2, lost)
    # A document that the collection lacks takes a place of the run.
    run = {**whole, "5": {"stranger": 99.0, **whole["5"]}}
    assert checked(run, ours)[1] == {"5": "document"}
    # A document that other topics' rankings hold is no document that the index lacks.
    other = first(whole, "6", 3)
    run = {**whole, "6": {d: s for d, s in whole["6"].items() if d != other}}
    assert any(other in run[topic] for topic in run)
    assert checked(run, ours)[1] == {"6": "scores"}


def test_a_topic_that_the_run_lacks(ours: Searched) -> None:
    run = cut(ours.rankings, 1000)
    del run["7"]
    found, reasons = checked(run, ours)
    assert (reasons, found.is_match) == ({"7": "topic"}, False)
    assert "1 missing from the run (topic 7, rank 1: " in str(found)
    with pytest.raises(InputError, match=r"none of the topics: \['a'\]; accepted: 1, 2, 3"):
        check_run({"a": {"d1": 1.0}}, ours)


def test_only_judged_topics_are_needed(ours: Searched) -> None:
    run = {topic: own for topic, own in cut(ours.rankings, 1000).items() if topic in ("1", "7")}
    found = check_run(run, ours, needed={"7", "8"})
    assert (found.topics, {own.topic: own.reason for own in found.differences}) == (4, {"8": "topic"})
    assert check_run(run, ours, needed={"7"}).is_match


def test_a_run_of_one_split_is_compared_with_its_topics(tmp_path: Path) -> None:
    """BEIR's queries are of all splits; those of others are neither judged nor needed."""
    write_collection(tmp_path / "c")
    lines = [json.loads(line) for line in (tmp_path / "c/docs.jsonl").read_text().splitlines()]
    beir = tmp_path / "b"
    (beir / "qrels").mkdir(parents=True)
    documents = [{"_id": own["id"], "title": "", "text": own["contents"]} for own in lines]
    (beir / "corpus.jsonl").write_text("".join(json.dumps(own) + "\n" for own in documents))
    topics = [line.split("\t") for line in (tmp_path / "c/topics.tsv").read_text().splitlines()[:8]]
    queries = [{"_id": topic, "text": text} for topic, text in topics]
    (beir / "queries.jsonl").write_text("".join(json.dumps(own) + "\n" for own in queries))
    for split, wanted in (("train", "12345"), ("test", "678")):
        rows = [line.split() for line in (tmp_path / "c/qrels.txt").read_text().splitlines()]
        kept = [f"{topic}\t{docno}\t{gain}\n" for topic, _, docno, gain in rows if topic in wanted]
        (beir / f"qrels/{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(kept))

    run = partial(run_command, cwd=tmp_path)
    tune = "tune b --model bm25:lucene --grid 3x3 --restarts 0 --no-approx -m AP --output kept"
    run(tune)
    for split, topics_of_it, more in (("test", 3, ""), ("train", 5, " --split train")):
        run(f"search b --from kept --split {split} --output own.run")
        out = run(f"check-run own.run kept{more}").out
        assert (
            f"  Rankings   {topics_of_it} of {topics_of_it} topics: same documents in the same order" in out
        )
    assert "no such split: 'other'; accepted: test, train" in refusal(
        "check-run own.run kept --split other", cwd=tmp_path
    )


def test_another_analysis_and_another_formula_are_other_scores(home: Path, ours: Searched) -> None:
    for how in ({"stemmer": "none"}, {"stopwords": "none"}):
        found, reasons = checked(cut(searched(home, **how).rankings, 1000), ours)
        assert "scores" in reasons.values(), how
        assert "neither a constant factor" in found.scores
    found, reasons = checked(cut(searched(home, "bm25:xapian").rankings, 1000), ours)
    assert set(reasons.values()) == {"scores"}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda _, score: 2.2 * score, "The run's scores are lmtune's times 2.2."),
        (lambda topic, score: score + int(topic), "lmtune's plus a constant for each topic."),
        (lambda _, score: score**2, "neither a constant factor nor a constant offset: "),
    ],
)
def test_scores_are_held_against_ours(ours: Searched, made: Callable[[str, float], float], said: str) -> None:
    whole = cut(ours.rankings, 1000)
    run = {topic: {d: made(topic, score) for d, score in ranked.items()} for topic, ranked in whole.items()}
    found, reasons = checked(run, ours)
    assert said in found.scores
    assert reasons == {}  # no order changes


def test_a_shorter_run_is_compared_as_deep_as_it_is(ours: Searched) -> None:
    assert str(checked(cut(ours.rankings, 7), ours)[0]).endswith("same order to rank 7")


def test_the_command(home: Path) -> None:
    run = partial(run_command, cwd=home)
    tune = "tune c --model bm25:lucene --stemmer none --grid 3x3 --restarts 0 --no-approx -m AP --output kept"
    run(tune)
    run("search c --from kept --output own.run")
    out = run("check-run own.run kept").out
    assert out.startswith("The run matches the setting\n")
    assert "lmtune" in out
    assert "tuned" not in out
    out = run("check-run own.run kept --engine elasticsearch").out
    assert "tuned" not in out
    # tantivy fixes k1 and b, and counts the empty document: another ranking, and what it costs.
    out = run("check-run own.run kept --engine tantivy --output parted.csv", status=1).out
    assert "formula (topic " in out
    assert "\ntuned" in out
    rows = [*csv.DictReader((home / "parted.csv").open())]
    assert {row["reason"] for row in rows} >= {"scores"}
    own = read_run(home / "own.run")
    for row in rows:
        if row["there"]:
            assert float(row["run_there"]) == own[row["topic"]][row["there"]]
    # A run of another method's setting is told by the options that take it.
    run("search c --from kept --method ranknet --output other.run")
    out = run("check-run other.run kept", status=1).out
    assert "  Instead    the run matches --measure AP --method ranknet\n" in out
    # Values copied from the screen have three digits, which moves documents of nearly equal scores.
    rows = json.loads((home / "kept/table.json").read_text())
    [setting] = [row["setting"] for row in rows if row["method"] == "Direct"]
    copied = " ".join(f"--set {name}={value:.3g}" for name, value in setting.items())
    run(f"search c --model bm25:lucene --stemmer none {copied} --output printed.run")
    out = run("check-run printed.run kept --method direct", status=1).out
    printed = ", ".join(f"{name} = {value:.3g}" for name, value in setting.items())
    assert f"  Instead    the run matches its values as printed, {printed}\n" in out
    run("check-run other.run kept --measure AP --method ranknet")
    (home / "moved").symlink_to("c")
    run("check-run own.run kept --collection moved")
    record = json.loads((home / "kept/made.json").read_text())
    assert record["collections"][0]["opened"] == {"name": "c", "stemmer": "none"}
    del record["collections"][0]["opened"]
    del record["crc32"]
    (home / "kept/made.json").write_text(json.dumps(sealed(record)))
    for line, said in (
        ("check-run own.run kept", "do not record how to open their collection; accepted: results of this"),
        ("check-run own.run c", "lmtune tune --output"),
        ("check-run no.run kept", "no.run"),
        ("check-run own.run kept --engine solr --model bm25", "both --engine and --model"),
    ):
        assert said in refusal(line, cwd=home), line


def test_single_precision_leaves_open_what_is_nearer_than_its_roundings() -> None:
    ours = Ranking("1", ["a", "b", "c"], np.array([1.0 + 5e-7, 1.0, 0.5]))

    def reason(order: str, terms: int) -> str:
        theirs = {docno: -float(n) for n, docno in enumerate(order)}
        both = _Comparison({*"abc"}, {*"abc"}, 3)
        [own] = both.differences(ours, theirs, rounding_bound(terms))
        return own.reason

    # 2 (n + 8) u = 1.07e-6 of one term, and never half a score.
    assert reason("bac", 1) == "float32"
    assert reason("acb", 1) == "scores"
    ours = ours._replace(scores=np.array([1.0 + 2e-6, 1.0, 0.5]))
    assert (reason("bac", 1), reason("bac", 12)) == ("scores", "float32")


def test_sums_in_single_precision_stay_within_the_bound() -> None:
    """Whatever the parts, their order and their making, float32's sum is no farther than half the bound."""
    random, single = np.random.default_rng(3), np.float32
    for _ in range(2000):
        n = int(random.integers(1, 40))
        idf, tf, room = random.random((3, n)) * [[10], [30], [5]] + 0.01
        exact = float(np.sum(idf * tf / (tf + room)))
        total = single(0)
        for i, t, r in zip(idf.astype(single), tf.astype(single), room.astype(single), strict=True):
            total = single(total + single(i * single(t / single(t + r))))
        assert abs(float(total) - exact) <= 0.5 * rounding_bound(n) * exact
