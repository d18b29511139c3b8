"""Choose query likelihood's smoothing on some topics and test it against the default on others."""

import lmtune

data = lmtune.load("pydocs")
topics = dict(list(data.topics.items())[:200])
index = lmtune.index_for(data.documents)
pool = lmtune.CandidatePool.build(index, topics, data.qrels)
train, test = pool.topics[:100], pool.topics[100:]

grid = lmtune.GridSearch("AP", shape=(6, 8)).fit(pool, topics=train)
tuner = lmtune.SurrogateTuner("approx-ap").fit(pool, topics=train)
settings = {"default": {"lambda": 0.1, "mu": 2500}, "grid": grid.best_params_, "gradient": tuner.best_params_}
for name, own in settings.items():
    print(f"{name}: lambda {own['lambda']:.3f}, mu {own['mu']:.1f}")

runs = {name: lmtune.rank(pool, own, topics=test).to_frame() for name, own in settings.items()}
held_out = {topic: data.qrels[topic] for topic in test}
print(lmtune.compare_runs(held_out, runs, ["AP", "nDCG@10"]))  # the first is the baseline
