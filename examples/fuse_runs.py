"""Add up the runs of three models with weights chosen on other topics than they are judged on."""

import lmtune
from lmtune.fusion import FusionOptions, RunSet, fuse_runs, rankings

data = lmtune.load("pydocs")
topics = dict(list(data.topics.items())[:150])
index = lmtune.index_for(data.documents)
models = {"dirichlet": {"mu": 50}, "jelinek-mercer": {"lambda": 0.5, "mu": 0}, "bm25": {"k1": 0.9, "b": 0.4}}

runs = {}
for model, setting in models.items():
    pool = lmtune.CandidatePool.build(index, topics, model=model)
    runs[model] = lmtune.rank(pool, setting, hits=100).to_frame()

side_by_side = RunSet.of(runs)
options = FusionOptions(measure=("nDCG@10",), method=("linear", "rrf", "combmnz"), folds="2")
result = fuse_runs(side_by_side, data.qrels, options)
for row in result.rows:
    print(
        f"{row.chosen.method:8} {row.mean:.4f}",
        {name: round(share, 3) for name, share in row.chosen.shares.items()},
    )

lmtune.write_run("fused.txt", rankings(side_by_side, result.output, options), tag="fused")
