"""Jobs that users do, one row each: a command line or a function, and what must hold afterwards."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import matrix_in_python
import numpy as np
import pytrec_eval
from matrix_shapes import Data
from tiny_bert import tiny_bert

from lmtune.engines.hybrid import HYBRIDS
from lmtune.fusion.methods import METHODS, SCALES
from lmtune.fusion.spaces import SPACES
from lmtune.io.qrels import read_qrels
from lmtune.io.runs import read_run
from lmtune.models.model import MODELS

Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]
_TREC_EVAL = {"AP": "map", "P@5": "P_5", "nDCG@10": "ndcg_cut_10", "Bpref": "bpref"}


class World(Protocol):
    """A collection in a folder of its own, which is the working directory, with what jobs made in it."""

    folder: str
    data: Data

    def output(self, job: str) -> str:
        """Return what a job printed; it is run first if it was not."""


class Job(NamedTuple):
    """What a user does.

    Attributes
    ----------
    name : str
    what : str or callable
        A command line, in which {c} is the collection's folder and {o} the folder of outputs; or a function
        of the world.
    after : str
        A job whose output it reads. Where that was refused, this one is not run.
    check : callable, optional
        Looks at what was made.
    makes : str
        A file or folder in {o}; made twice, it has the same bytes.
    needs : str
        A module without which the job is skipped.
    """

    name: str
    what: str | Callable[[Any], None]
    after: str = ""
    check: Callable[[World], None] | None = None
    makes: str = ""
    needs: str = "lmtune"


def trec_eval_mean(qrels: Qrels, run: Run, measure: str) -> float:
    """Return trec_eval's mean over the judged topics; one that the run misses counts 0."""
    name = _TREC_EVAL[measure]
    evaluator = pytrec_eval.RelevanceEvaluator({t: dict(own) for t, own in qrels.items()}, {name})
    values = evaluator.evaluate({t: dict(own) for t, own in run.items()})
    return float(np.mean([values[topic][name] if topic in values else 0.0 for topic in qrels]))


def _same(found: float, expected: float) -> bool:
    return math.isclose(found, expected, abs_tol=1e-9)


def evaluated_as_by_trec_eval(world: World) -> None:
    """The means that `evaluate` prints are trec_eval's."""
    qrels = read_qrels("qrels")
    for row in json.loads(world.output("evaluate-json")):
        for measure, value in row["all"].items():
            assert _same(value, trec_eval_mean(qrels, read_run(row["file"]), measure)), (row, measure)


def tuned_as_written(world: World) -> None:
    """The table's means are trec_eval's of the runs that were kept; a row a measure is recommended."""
    [(name, folds)] = json.loads(Path("tuned/folds.json").read_text()).items()
    rows = json.loads(Path("tuned/table.json").read_text())
    tested = {topic for fold in folds for topic in fold["test"]}
    qrels = {topic: own for topic, own in _all_qrels(world).items() if topic in tested}
    for row in rows:
        measured = "" if row["method"] in ("RankNet", "Default") else f"-{row['measure']}"
        run = read_run(f"tuned/runs/{name}/{row['method'].lower()}{measured}.run.gz")
        assert _same(row["mean"], trec_eval_mean(qrels, run, row["measure"])), row
    recommended = [row["measure"] for row in rows if row["recommended"]]
    assert sorted(recommended) == sorted({row["measure"] for row in rows})


def _all_qrels(world: World) -> Qrels:
    """Return the judgments of all splits."""
    files = [*Path(world.folder, "qrels").glob("*.tsv")] or [Path("qrels")]
    return {topic: own for file in files for topic, own in read_qrels(file).items()}


def recommended_is_searched(world: World) -> None:
    """The run of `search --from` is made with the recommended setting."""
    del world
    rows = json.loads(Path("tuned/table.json").read_text())
    [row] = [row for row in rows if row["recommended"] and row["measure"] == rows[0]["measure"]]
    made = json.loads(Path("best.run.made.json").read_text())["model"]
    assert made == {"name": "two-stage", **row["setting"]}


def fused_as_written(world: World) -> None:
    """The recommended fusion's mean in sample is trec_eval's of the run that was written."""
    found = json.loads(world.output("fuse-json"))
    [row] = [row for row in found["rows"] if row["recommended"]]
    assert row["method"] == found["output"]["method"]
    qrels = {topic: own for topic, own in read_qrels("qrels").items() if topic in found["topics"]}
    assert _same(row["in_sample"], trec_eval_mean(qrels, read_run("fused.run"), "AP"))


def reranked_the_same_documents(world: World) -> None:
    del world
    before, after = read_run("lexical.run"), read_run("better.run")
    assert after
    assert {t: set(own) for t, own in after.items()} == {t: set(before[t]) for t in after}


def nothing_is_left_to_define(world: World) -> None:
    del world
    assert "The files do not define" not in Path("complete", "README.txt").read_text()


def write_ranklib_model(world: World) -> None:
    del world
    Path("ranklib.txt").write_text("## Coordinate Ascent\n6:1.0 30:-0.5\n")


def write_cross_encoder(world: World) -> None:
    """Write a model, and the pairs of its topics with their documents in the run."""
    tiny_bert(Path("bert"))
    run = read_run("lexical.run")
    lines = (
        f"{query}\t{world.data.documents[docno]}\n"
        for topic, query in world.data.topics.items()
        for docno in run.get(topic, {})
    )
    Path("pairs.tsv").write_text("".join(lines), encoding="utf-8")


def keep_json(world: World) -> None:
    Path("fused.json").write_text(world.output("fuse-json"))


def keeper(engine: str) -> Callable[[World], None]:
    """Return a check that keeps a fusion's JSON; the recommended fusion's mean is trec_eval's of its run."""

    def keep(world: World) -> None:
        text = world.output(f"fuse-for-{engine}")
        Path(f"{engine}.json").write_text(text)
        found = json.loads(text)
        [row] = [row for row in found["rows"] if row["recommended"]]
        qrels = {topic: own for topic, own in read_qrels("qrels").items() if topic in found["topics"]}
        assert _same(row["in_sample"], trec_eval_mean(qrels, read_run(f"{engine}.run"), "AP"))

    return keep


_TUNE = "--grid 3x3 --restarts 0 --workers 1"
_SMALL = "--grid 2x2 --restarts 0 --no-approx --workers 1"
_ALSO = "--also spsa,fdsa --evaluations 10 --ranknet-validation 0.3"
_NET = "--run lexical.run --net mlp:4 --epochs 2 --batch-size 8 --threads 1"
_TREES = "--run lexical.run --ranker lambdamart:min_rows=1:min_hessian=1e-9:rounds=3 --threads 1"
_FUSE = "fuse qrels lexical.run dense.run -m AP --folds 2"
_MEASURES = "-m AP,nDCG@10,P@5,Bpref"


def _searches() -> Iterator[Job]:
    yield Job("index", "index {c} --workers 1 --output {o}/idx", makes="idx")
    yield Job("index-shards", "index {c} --shards 2 --workers 1 --output {o}/shards")
    yield Job("search-shards", "search {c} --index sharded:shards --output {o}/sharded.run", "index-shards")
    yield Job("search", "search {c} --output {o}/search.run", makes="search.run")
    for model in MODELS:
        yield Job(f"search-{model}", f"search {{c}} --model {model} --output {{o}}/{model}.run")
    for model in ("bm25+rm3", "bm25:lucene+rm3", "dirichlet+kld"):
        yield Job(
            f"search-{model}", f"search {{c}} --model {model} --explain {{o}}/x.tsv --output {{o}}/x.run"
        )
    yield Job("search-query", "search {c} whale")
    yield Job("search-bm25f", "search {c} --model bm25f:title,body --output {o}/bm25f.run")


def _tunings() -> Iterator[Job]:
    yield Job(
        "tune",
        f"tune {{c}} -m Bpref -m AP {_TUNE} --output {{o}}/tuned",
        check=tuned_as_written,
        makes="tuned",
    )
    yield Job("tune-json", f"tune {{c}} -m nDCG@10 {_SMALL} --format json")
    yield Job("tune-latex", f"tune {{c}} -m P@5 {_SMALL} --no-final --format latex")
    yield Job("tune-bm25", f"tune {{c}} --model bm25:lucene -m AP {_SMALL} --output {{o}}/bm25")
    yield Job("tune-certify", f"tune {{c}} -m AP --certify 0.1 {_SMALL} --output {{o}}/certified")
    yield Job("tune-rm3", "tune {c} --model bm25+rm3 -m AP --grid 4 --restarts 0 --no-approx --workers 1")
    yield Job("tune-also", f"tune {{c}} -m AP {_SMALL} {_ALSO} --output {{o}}/also")
    choose = f"tune {{c}} --choose stemmer=porter,none -m AP {_SMALL} --output {{o}}/chosen"
    yield Job("tune-choose", choose, makes="chosen")
    yield Job(
        "tune-race", f"tune {{c}} --choose model=two-stage,bm25,dirichlet --race -m Bpref -m AP {_SMALL}"
    )


def _readers() -> Iterator[Job]:
    """Yield what reads folders that tuning kept."""
    yield Job("search-from", "search {c} --from tuned --output {o}/best.run", "tune", recommended_is_searched)
    yield Job("search-choices", "search {c} --from chosen --output {o}/choices.run", "tune-choose")
    yield Job("check-run", "check-run best.run tuned", "search-from")
    yield Job("check-run-choices", "check-run choices.run chosen", "search-choices")
    for name, folder in (("tune", "tuned"), ("tune-choose", "chosen")):
        yield Job(f"report-{name}", f"report {folder} --output {{o}}/{folder}.html", name)
        yield Job(f"plot-{name}", f"plot {folder} --format png --output {{o}}/{folder}-png", name)
    for engine in ("elasticsearch", "opensearch", "solr", "lucene"):
        yield Job(
            f"deploy-{engine}",
            f"deploy bm25 --to {engine} --output {{o}}/{engine}",
            "tune-bm25",
            makes=engine,
        )
    yield Job("check-engine", "check-engine bm25s bm25", "tune-bm25", needs="bm25s")
    yield Job("explore", matrix_in_python.explore)
    yield Job("explore-runs", matrix_in_python.explore_runs)
    yield Job("explore-tuned", matrix_in_python.explore_tuned, "tune")
    yield Job("explore-choices", matrix_in_python.explore_choices, "tune-choose")


def _evaluations() -> Iterator[Job]:
    yield Job("evaluate", "evaluate qrels lexical.run -q -m all_trec")
    yield Job("evaluate-table", "evaluate qrels lexical.run dense.run -c -m AP,nDCG@10,RBP,RR --residuals")
    yield Job(
        "evaluate-json",
        f"evaluate qrels lexical.run dense.run -c {_MEASURES} --format json",
        check=evaluated_as_by_trec_eval,
    )
    yield Job("compare", "compare qrels lexical.run dense.run --residuals --plot {o}/compared")
    yield Job("compare-tests", "compare qrels lexical.run dense.run --test randomization --test wilcoxon -q")
    hsd = "--correction hsd --test randomization --test t --permutations 999"
    yield Job("compare-hsd", f"compare qrels lexical.run dense.run {hsd} --pairwise --format json")
    yield Job(
        "compare-bh", "compare qrels lexical.run dense.run --correction bh --test wilcoxon --format csv"
    )
    gate = "compare qrels lexical.run dense.run --require AP>=-1 --junit {o}/gate.xml"
    yield Job("compare-gate", f"{gate} --store {{o}}/baseline.json -m AP,P@5", makes="baseline.json")
    stored = "compare qrels baseline.json dense.run --require P@5>=-1 --format github"
    yield Job("compare-stored", stored, "compare-gate")
    yield Job("overlap", "compare --overlap lexical.run dense.run --side-by-side 1 -q")
    yield Job(
        "judges", "judges qrels labels.txt --runs lexical.run --runs dense.run --samples 20 --confusions"
    )
    yield Job("judge", "judge qrels lexical.run dense.run --output {o}/pairs.txt", makes="pairs.txt")


def _fusions() -> Iterator[Job]:
    json_line = f"{_FUSE} --format json --output {{o}}/fused.run"
    yield Job("fuse-json", json_line, check=fused_as_written)
    yield Job("fuse", f"{_FUSE} --method linear,rrf --output {{o}}/two.run", makes="two.run")
    yield Job("fuse-plot", f"{_FUSE} --method linear,equal --plot {{o}}/weights")
    for method in METHODS:
        yield Job(f"fuse-{method}", f"{_FUSE} --method {method} --output {{o}}/{method}.run")
    for scale in (*SCALES[1:], "choose"):
        yield Job(f"fuse-by-{scale}", f"{_FUSE} --method linear,shrunk,combmnz --normalise {scale}")
    sample = "fuse qrels lexical.run dense.run -m AP --in-sample --certify 0.1"
    yield Job("fuse-certify", f"{sample} --method linear")
    yield Job("fused-json", keep_json, "fuse-json")
    yield Job(
        "fuse-from", "fuse --from fused.json lexical.run dense.run --output {o}/again.run", "fused-json"
    )
    for engine in HYBRIDS:
        yield Job(f"deploy-fused-{engine}", f"deploy fused.json --to {engine} --method rrf", "fused-json")
    for engine in SPACES:
        line = f"{_FUSE} --engine {engine} --window 5,0 --format json --output {{o}}/{engine}.run"
        yield Job(f"fuse-for-{engine}", line, check=keeper(engine))
        deploy = f"deploy {engine}.json --to {engine} --method tuned"
        yield Job(f"deploy-tuned-{engine}", deploy, f"fuse-for-{engine}")
    for style in ("table", "markdown", "latex", "csv"):
        yield Job(f"fuse-engine-{style}", f"{_FUSE} --engine elasticsearch --format {style} --verbose")
    yield Job("fuse-engine-certify", f"{sample} --engine elasticsearch")
    for engine in ("opensearch", "elasticsearch"):
        given = f"{engine}.json qrels lexical.run dense.run"
        yield Job(f"check-{engine}", f"check-run {engine}.run {given}", f"fuse-for-{engine}")
        line = f"fuse --from {engine}.json lexical.run dense.run --output {{o}}/{engine}-again.run"
        yield Job(f"fuse-from-{engine}", line, f"fuse-for-{engine}")
    yield Job("check-fused", "check-run fused.run fused.json qrels lexical.run dense.run", "fused-json")


def _rerankings() -> Iterator[Job]:
    yield Job("rerank-features", "rerank features {c} --run lexical.run --output {o}/f.txt", makes="f.txt")
    yield Job("evaluate-letor", "evaluate f.txt lexical.run -c -m P@5", "rerank-features")
    yield Job("rerank-train", f"rerank train {{c}} {_NET} --output {{o}}/model", needs="torch")
    apply = "rerank apply model {c} --run lexical.run --all-topics --output {o}/better.run"
    yield Job("rerank-apply", apply, "rerank-train", reranked_the_same_documents, needs="torch")
    crossval = f"rerank crossval {{c}} {_NET} --folds 2 --loss ranknet --output {{o}}/crossed.run"
    yield Job("rerank-crossval-json", f"{crossval} --format json", needs="torch")
    yield Job("rerank-crossval", crossval, makes="crossed.run", needs="torch")
    compare = (
        f"rerank compare {{c}} {_NET} --folds 2 --losses ranknet,listnet --trials 1 --output {{o}}/losses"
    )
    yield Job("rerank-compare", compare, needs="torch")
    also = f"rerank compare {{c}} {_NET} --folds 2 --losses ranknet --trials 1 --also model --format csv"
    yield Job("rerank-compare-also", also, "rerank-train", needs="torch")
    seeds = f"rerank compare {{c}} {_NET} --folds 2 --losses lambdarank --trials 2 --format json"
    yield Job("rerank-compare-seeds", seeds, needs="torch")
    importance = "rerank importance model {c} --run lexical.run --all-topics --repeats 1 --format json"
    yield Job("rerank-importance", importance, "rerank-train", needs="torch")
    yield Job("rerank-trees", f"rerank train {{c}} {_TREES} --output {{o}}/trees", needs="lightgbm")
    yeti = "rerank train {c} --run lexical.run --ranker yetirank:rounds=3 --output {o}/yeti"
    yield Job("rerank-yetirank", yeti, needs="catboost")
    for target in ("lightgbm", "elasticsearch", "opensearch", "solr", "vespa"):
        export = f"rerank export trees --to {target} --output {{o}}/to-{target}"
        yield Job(f"rerank-export-{target}", export, "rerank-trees", needs="lightgbm")
    only = f"rerank train {{c}} {_TREES} --only-features solr --output {{o}}/solr-trees"
    yield Job("rerank-train-only", only, needs="lightgbm")
    yield Job(
        "rerank-export-only",
        "rerank export solr-trees --to solr --output {o}/complete",
        "rerank-train-only",
        nothing_is_left_to_define,
        needs="lightgbm",
    )
    custom = f"rerank train {{c}} {_NET} --feature again=lexical.run --output {{o}}/custom"
    yield Job("rerank-train-custom", custom, needs="torch")
    yield Job("ranklib-model", write_ranklib_model)
    apply_other = "rerank apply ranklib.txt {c} --run lexical.run --output {o}/other.run"
    yield Job("rerank-apply-other", apply_other, "ranklib-model", makes="other.run", needs="torch")
    onnx = "rerank export model --to onnx --output {o}/onnx"
    yield Job("rerank-export-onnx", onnx, "rerank-train", needs="onnx")
    yield Job("cross-encoder", write_cross_encoder, needs="sentence_transformers")
    text = "rerank export text:bert --to onnx --output {o}/bert-onnx --check pairs.tsv"
    yield Job("rerank-export-text", text, "cross-encoder", makes="bert-onnx", needs="onnx")


def _in_python() -> Iterator[Job]:
    yield Job("python-tune", matrix_in_python.python_tune)
    yield Job("python-evaluate", matrix_in_python.python_evaluate)
    yield Job("python-fuse", matrix_in_python.python_fuse)
    yield Job("python-choose", matrix_in_python.python_choose)
    yield Job("python-rerank", matrix_in_python.python_rerank, needs="torch")


_ROOMS = (_searches, _tunings, _readers, _evaluations, _fusions, _rerankings, _in_python)
JOBS = {job.name: job for room in _ROOMS for job in room()}
