"""The same jobs in Python, each a function of a world whose folder is the working directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lmtune
from lmtune.explorer import answers
from lmtune.explorer.opening import Shown, open_choices, open_collection, open_runs
from lmtune.explorer.view import View
from lmtune.fusion import FusionOptions, RunSet, fuse_runs, rankings
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run


def _pool(world: Any, model: str = "two-stage") -> tuple[Any, Any]:
    data = lmtune.load(world.folder)
    return data, lmtune.CandidatePool.build(
        lmtune.index_for(data.documents), data.topics, data.qrels, model=model
    )


def _shown(result: Any) -> None:
    """Ask for what notebooks show of a result."""
    assert repr(result)
    assert result._repr_html_()
    assert len(result.to_frame()) >= 0


def python_tune(world: Any) -> None:
    """A tuner's best value is what `evaluate` says of the run that is ranked with its setting."""
    data, pool = _pool(world)
    tuners = [
        lmtune.GridSearch("AP", shape=(3, 3)),
        lmtune.CoordinateAscent("AP", restarts=0),
        lmtune.SurrogateTuner("approx-ap"),
        lmtune.RankNetTuner(),
    ]
    for tuner in tuners:
        tuner.fit(pool)
        _shown(tuner)
        run = {one.topic: one for one in lmtune.rank(pool, tuner.best_params_)}
        if isinstance(tuner, lmtune.GridSearch | lmtune.CoordinateAscent):
            ranked = {t: dict(zip(one.docnos, one.scores.tolist(), strict=True)) for t, one in run.items()}
            values = lmtune.topic_values(data.qrels, ranked, ["AP"])["AP"]
            assert abs(values.mean() - tuner.best_value_) < 1e-9
    lmtune.write_run("python.run", lmtune.rank(pool, tuner.best_params_), tag="python")
    assert read_run("python.run").keys() <= data.topics.keys()


def python_evaluate(world: Any) -> None:  # noqa: ARG001
    """Files and dictionaries give the same."""
    runs = {name: read_run(f"{name}.run") for name in ("lexical", "dense")}
    qrels = read_qrels("qrels")
    by_file = lmtune.evaluate("qrels", "lexical.run", ["AP", "nDCG@10", "P@5"])
    by_dict = lmtune.evaluate(qrels, runs["lexical"], ["AP", "nDCG@10", "P@5"])
    assert by_file.to_numpy().tolist() == by_dict.to_numpy().tolist()
    _shown(lmtune.compare_runs(qrels, runs, ["AP"]))
    assert len(lmtune.residuals(qrels, runs, ["P@5"])) == 2


def python_fuse(world: Any) -> None:  # noqa: ARG001
    runs = RunSet.of({name: read_run(f"{name}.run") for name in ("lexical", "dense")})
    options = FusionOptions(measure=("AP",), method=("linear", "rrf"), folds="2")
    result = fuse_runs(runs, read_qrels("qrels"), options)
    _shown(result)
    lmtune.write_run("python-fused.run", rankings(runs, result.output, options), tag="fused")


def python_choose(world: Any) -> None:
    choices = [lmtune.Choice("stemmer", ("porter", "none"))]
    plan = {"measures": ("AP",), "grid": (2, 2), "restarts": 0, "approx": False}
    cases = lmtune.make_cases(choices, lmtune.Collection(world.folder), plan)
    result, _ready = lmtune.tune_choices(choices, cases, lmtune.Split())
    _shown(result)


def python_rerank(world: Any) -> None:
    from lmtune.rerank import Settings, learn, parse_loss, reranked, run_data

    data = lmtune.load(world.folder)
    run = read_run("lexical.run")
    lists = run_data(run, lmtune.index_for(data.documents), data.topics, data.qrels)
    model = learn(lists, lists, Settings(parse_loss("ranknet"), network="mlp:4", epochs=2))
    after = list(reranked(run, lists, model.score(lists)))
    assert {one.topic for one in after} <= run.keys()


def _asked(view: View) -> None:
    """Ask for all that a page asks for; it travels as JSON, which has no nan."""
    start = view.marks[0].setting if view.marks else view.space.named(view.space.start)
    end = view.space.named(view.space.start)
    answered = [
        answers.description(view),
        answers.measured(view, start),
        answers.compared(view, start, end, ""),
    ]
    for topic in view.pool.topics[:3]:
        ranked = answers.ranked(view, topic, start, end)
        answered.append(ranked)
        answered += [
            answers.explained(view, topic, row["docno"], start, end) for row in ranked["setting"][:1]
        ]
    for answer in answered:
        json.dumps(answer, allow_nan=False)


def _ranges(_model: str) -> dict[str, tuple[float, float]]:
    return {}


def explore(world: Any) -> None:
    _asked(open_collection(lmtune.Collection(world.folder), Shown(measures=("AP", "P@5")), _ranges))


def explore_tuned(world: Any) -> None:
    view = open_collection(lmtune.Collection(world.folder), Shown(results=Path("tuned")), _ranges)
    _asked(view)
    assert sum(mark.recommended for mark in view.marks) <= 1


def explore_choices(world: Any) -> None:
    choosing = open_choices(lmtune.Collection(world.folder), Shown(results=Path("chosen")), _ranges)
    _asked(choosing.view)


def explore_runs(world: Any) -> None:  # noqa: ARG001
    _asked(open_runs([Path("qrels"), Path("lexical.run"), Path("dense.run")], Shown()))
