"""Tune BM25's k1 and b, and prove how far from the best of the whole range they can be at most."""

import lmtune

data = lmtune.load("pydocs")
topics = dict(list(data.topics.items())[:40])
pool = lmtune.CandidatePool.build(lmtune.index_for(data.documents), topics, data.qrels, model="bm25")

space = lmtune.ParameterSpace.of("bm25", {"k1": (0.2, 3), "b": (0, 1)})
climb = lmtune.CoordinateAscent("AP", space=space).fit(pool)
print(f"climbed to AP {climb.best_value_:.4f} in {climb.n_evaluations_} evaluations: {climb.best_params_}")

optimum = lmtune.CertifiedOptimum("AP", space=space, tolerance=0.005, starts=[climb.best_params_]).fit(pool)
print(f"best known: AP {optimum.best_value_:.4f} at {optimum.best_params_}")
print(f"no k1 and b of the range reach more than {optimum.bound_:.4f} ({optimum.n_boxes_} boxes bounded)")
