"""Compare SONG over long lists of texts with LambdaRank on short ones, at equal encoder passes.

    python benchmarks/text_long_lists.py ../shared/data/cranfield

Each training encodes `--list-size` documents of a topic a step. SONG and LambdaRank draw them anew from all
candidates, up to `--relevant` of them relevant; or LambdaRank takes the first of the run ("truncated").
Topics are dealt into folds; each is reranked, all its candidates, by a model trained on the other folds'
topics for a fixed number of epochs. "top alone" reranks what the truncated training sees, and no more.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

import lmtune
from lmtune.datasets.folds import make_folds
from lmtune.measures.lists import Measurer
from lmtune.measures.measure import parse_list_measure
from lmtune.reranking.losses.names import parse_loss
from lmtune.reranking.settings import Settings
from lmtune.reranking.text import TextLists, TextOptions, fit

Run = dict[str, dict[str, float]]
METHODS = {"LambdaRank, truncated": "lambdarank", "LambdaRank, drawn": "lambdarank", "SONG, drawn": "song"}
TRUNCATED = "LambdaRank, truncated"


def main() -> None:
    options = parse_options()
    data = lmtune.load(options.collection)
    pool = lmtune.CandidatePool.build(lmtune.index_for(data.documents), data.topics)
    run: Run = {
        own.topic: dict(zip(own.docnos, map(float, own.scores), strict=True))
        for own in lmtune.rank(pool, {}, hits=options.depth)
    }
    assert data.documents is not None
    texts = {own.docno: own.text for batch in data.documents.batches() for own in batch.read()}
    gains = {
        topic: {docno: max(0, data.qrels.get(topic, {}).get(docno, 0)) for docno in own}
        for topic, own in run.items()
    }
    usable = [topic for topic, own in gains.items() if any(own.values())]
    folds, described = make_folds(usable, list(data.topics), folds=str(options.folds))
    mean = np.mean([len(run[topic]) for topic in usable])
    print(f"{data.name}: {described}; {mean:.0f} candidates a topic")

    def lists(topics: Sequence[str], depth: int) -> TextLists:
        cut = {topic: dict(list(gains[topic].items())[:depth]) for topic in topics}
        how = TextOptions(max_length=options.tokens, batch_tokens=1 << 16)
        return TextLists.of(data.topics, cut, texts, how)

    runs: dict[str, Run] = {name: {} for name in [*METHODS, f"{TRUNCATED}, top alone"]}
    for number, fold in enumerate(folds):
        for name, loss in METHODS.items():
            start = time.perf_counter()
            depth = options.list_size if name == TRUNCATED else options.depth
            settings = Settings(
                loss=parse_loss(loss),
                network=options.net,
                learning_rate=options.learning_rate,
                epochs=options.epochs,
                batch_size=4,
                list_size=options.list_size,
                list_relevant=None if name == TRUNCATED else options.relevant,
                seed=number,
            )
            test = lists(fold.test, options.depth)
            model = fit(lists(fold.train, depth), None, settings)
            scores = model.score(test)
            ndcg = Measurer(parse_list_measure("ndcg@10"), test).mean(scores)
            seconds = time.perf_counter() - start
            print(f"fold {number}, {name}: nDCG@10 {ndcg:.4f}, {seconds:.0f} s", flush=True)
            rows = iter(scores.tolist())
            for topic in fold.test:
                runs[name][topic] = own = {docno: next(rows) for docno in run[topic]}
                if name == TRUNCATED:
                    top = list(own)[: options.list_size]
                    least = min(own.values()) - 1.0
                    below = {docno: least - place for place, docno in enumerate(own) if docno not in top}
                    runs[f"{name}, top alone"][topic] = {docno: own[docno] for docno in top} | below
    runs = {
        "SONG, drawn": runs.pop("SONG, drawn"),
        "first stage": {topic: run[topic] for topic in usable},
        **runs,
    }
    qrels = {topic: data.qrels[topic] for topic in usable}
    shown = lmtune.compare_runs(qrels, runs, measures="nDCG@10 AP")
    print(shown)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("collection")
    parser.add_argument("--net", default="maxsim:wordllama")
    parser.add_argument("--depth", type=int, default=1_000)
    parser.add_argument("--list-size", type=int, default=40)
    parser.add_argument("--relevant", type=int, default=10)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--tokens", type=int, default=128)
    return parser.parse_args()


if __name__ == "__main__":
    main()
