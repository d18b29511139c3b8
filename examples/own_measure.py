"""Declare a measure of one's own, rank-biased precision, and tune BM25 by it."""

import lmtune
from lmtune.measures import JudgedRanking, Measure, MeasureKind

PATIENCE = 0.8


def rank_biased_precision(ranking: JudgedRanking, measure: Measure) -> float:
    """Return (1 - p) times the sum of p^place over relevant documents (Moffat and Zobel, TOIS 2008)."""
    places = [place for place in ranking.relevant_places if place < (measure.cutoff or ranking.retrieved)]
    return (1.0 - PATIENCE) * sum(PATIENCE**place for place in places)


RBP = MeasureKind("RBP", rank_biased_precision, title="rank-biased precision")

data = lmtune.load("pydocs")
topics = dict(list(data.topics.items())[:120])
pool = lmtune.CandidatePool.build(lmtune.index_for(data.documents), topics, data.qrels, model="bm25")
train, test = pool.topics[:60], pool.topics[60:]
search = lmtune.GridSearch(RBP, shape=(5, 5)).fit(pool, topics=train)
default = {"k1": 0.9, "b": 0.4}
for name, setting in (("default", default), ("grid", search.best_params_)):
    values = lmtune.measure(pool, setting, measures=[RBP, "AP"], topics=test)
    print(f"{name} {values['RBP'].mean():.4f} of RBP on topics held out, {values['AP'].mean():.4f} of AP")
