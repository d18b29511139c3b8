"""Fused runs deployed: an engine that does what the files say ranks as `lmtune fuse` does."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import engine_oracles as oracle
import numpy as np
import pytest
from scripts import refusal, run_command

from lmtune import evaluate
from lmtune.engines.checking import check_rankings
from lmtune.engines.hybrid import FusedRuns, deploy_fusion
from lmtune.engines.running import run_qdrant
from lmtune.errors import InputError
from lmtune.fusion.methods import Chosen, FusionOptions, rankings, read_fusion
from lmtune.fusion.runs import RunSet
from lmtune.fusion.spaces import SPACES, Variant
from lmtune.io.runs import read_run

Run = dict[str, dict[str, float]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fused")
    rng = np.random.default_rng(0)
    names = [f"d{n:02d}" for n in range(40)]
    (folder / "qrels").write_text(
        "".join(f"{t} 0 {d} {int(n < 8)}\n" for t in range(1, 7) for n, d in enumerate(names))
    )
    for run, (high, error) in {"a": (1.0, 4.0), "b": (30.0, 9.0)}.items():
        lines = []
        for topic in range(1, 7):
            chosen = rng.choice(40, 25, replace=False)
            scores = high * (40 - chosen + error * rng.standard_normal(25))
            ranked = sorted(zip(scores.tolist(), chosen.tolist(), strict=True), reverse=True)
            lines += [f"{topic} Q0 {names[d]} {r} {s!r} {run}\n" for r, (s, d) in enumerate(ranked, 1)]
        (folder / run).write_text("".join(lines))
    return folder


def fused_by(files: dict[str, Any], engine: str, runs: dict[str, Run]) -> Run:
    """Do what the files say, as the engine's source does."""
    if engine == "opensearch":
        [processor] = files["pipeline.json"]["phase_results_processors"]
        [(kind, own)] = processor.items()
        combine = own["combination"]["technique"]
        weights = own["combination"].get("parameters", {}).get("weights", [1.0] * len(runs))
        k = own["combination"].get("rank_constant", 0)
        window = files["search.json"]["query"]["hybrid"]["pagination_depth"]
        scale = own.get("normalization", {}).get("technique", "")
        assert kind == ("normalization-processor" if scale else "score-ranker-processor")
        bounds = own.get("normalization", {}).get("parameters", {}).get("lower_bounds", [])
        each = [f"{scale} {bound['mode']} {bound['min_score']:g}" for bound in bounds] or [scale] * len(runs)
        scales = [name.replace(" ignore 0", "") for name in each]
    else:
        [(combine, own)] = files["search.json"]["retriever"].items()
        parts, window, k = own["retrievers"], own["rank_window_size"], own.get("rank_constant", 0)
        weights = [part.get("weight", 1.0) for part in parts]
        scales = [part.get("normalizer", "") for part in parts]
    how = engine, ",".join(scales).strip(","), combine, k, weights
    return {
        topic: oracle.fuse(*how, [oracle.best_first(own[topic], window) for own in runs.values()])
        for topic in next(iter(runs.values()))
    }


@pytest.mark.first_case
@pytest.mark.parametrize("engine", ["elasticsearch", "opensearch"])
@pytest.mark.parametrize(
    "how", [("linear",), ("shrunk", "--window", "10"), ("rrf",), ("rrf-k",), ("rrf-tuned",)]
)
def test_engines_rank_by_the_files(engine: str, how: tuple[str, ...], home: Path, tmp_path: Path) -> None:
    given = (home / "qrels", home / "a", home / "b", "--output", tmp_path / "run", "--method")
    text = run_command("fuse", *given, how, "--format json").out
    (tmp_path / "fused.json").write_text(text)
    run_command("deploy", tmp_path / "fused.json", "--to", engine, "--output", tmp_path / "files")
    files = {path.name: json.loads(path.read_text()) for path in (tmp_path / "files").glob("*.json")}
    runs = {name: read_run(home / name) for name in "ab"}
    theirs, ours = fused_by(files, engine, runs), read_run(tmp_path / "run")
    # OpenSearch's lowest score is 0.001, that of lmtune's min-max scores 0: README.txt says so.
    floored = engine == "opensearch" and how[0] in ("linear", "shrunk")
    assert ("becomes 0.001" in (tmp_path / "files/README.txt").read_text()) == (engine == "opensearch")
    for topic, scores in ours.items():
        by_us = sorted(scores, key=lambda docno: -scores[docno])
        values = [theirs[topic][docno] for docno in by_us]
        assert len(by_us) == len(theirs[topic])
        assert (np.diff(values) <= (0.001 if floored else 1e-7)).all()
    # The runs have 25 documents a topic, whatever the depth of the fused run.
    depth = 10 if "--window" in how else 25
    name = {"elasticsearch": "rank_window_size", "opensearch": "pagination_depth"}[engine]
    assert f'"{name}": {depth}' in json.dumps(files["search.json"])
    weighted = len({*read_fusion(tmp_path / "fused.json")[0].weights.values()}) > 1
    assert weighted == (how[0] in ("linear", "rrf-tuned"))


@pytest.mark.parametrize("engine", ["elasticsearch", "opensearch"])
@pytest.mark.parametrize("window", [0, 10])
def test_each_variant_of_an_engine_ranks_alike(engine: str, window: int, home: Path) -> None:
    runs = {name: read_run(home / name) for name in "ba"}
    loaded, space = RunSet.of(runs), SPACES[engine]
    for variant in space.variants([(0.0, 100.0)] * 2):
        chosen = replace(tuned(engine, variant, {"b": 0.3, "a": 0.7}, loaded), window=window)
        written = deploy_fusion(engine, chosen, FusionOptions())
        files = {name: json.loads(text) for name, text in written.items() if name.endswith(".json")}
        theirs = fused_by(files, engine, runs)
        for ranking in rankings(loaded, chosen, FusionOptions()):
            ours = dict(zip(ranking.docnos, ranking.scores.tolist(), strict=True))
            assert ours == pytest.approx(theirs[ranking.topic], rel=2e-7), variant
            assert len(ours) > (10 if window else 25)


@pytest.mark.parametrize("engine", ["elasticsearch", "opensearch"])
def test_a_fusion_tuned_for_an_engine_is_deployed(engine: str, home: Path, tmp_path: Path) -> None:
    given = (home / "qrels", home / "b", home / "a")
    text = run_command("fuse", *given, f"-m AP --engine {engine} --folds 2 --format json").out
    (tmp_path / "fused.json").write_text(text)
    tuned = ("--method", "tuned")
    run_command("deploy", tmp_path / "fused.json", *tuned, "--to", engine, "--output", tmp_path / "files")
    files = {path.name: json.loads(path.read_text()) for path in (tmp_path / "files").glob("*.json")}
    theirs = fused_by(files, engine, {name: read_run(home / name) for name in "ba"})
    lines = [f"{t} Q0 {d} 0 {s!r} engine\n" for t, own in theirs.items() for d, s in own.items()]
    (tmp_path / "theirs").write_text("".join(lines))
    out = run_command("check-run", tmp_path / "theirs", tmp_path / "fused.json", *given, *tuned).out
    assert "6 of 6 topics: same documents in the same order to rank" in out
    assert "The run's scores are lmtune's." in out
    # Another engine's files would rank in another way.
    other = {"elasticsearch": "opensearch", "opensearch": "elasticsearch"}[engine]
    err = run_command("deploy", tmp_path / "fused.json", *tuned, "--to", other, status=2).err
    assert "the fusion is for another engine" in err


@pytest.mark.parametrize("engine", ["elasticsearch", "opensearch"])
def test_a_run_of_one_document_is_fused_as_the_engine_does(engine: str) -> None:
    runs = {"a": {"1": {"d1": 13.5}}, "b": {"1": {"d2": 0.9, "d3": 0.8, "d1": 0.5}}}
    chosen = Chosen("linear", {"a": 0.6, "b": 0.4}, depths={"a": 1, "b": 3})
    written = deploy_fusion(engine, chosen, FusionOptions())
    files = {name: json.loads(text) for name, text in written.items() if name.endswith(".json")}
    theirs = fused_by(files, engine, runs)["1"]
    [ranking] = rankings(RunSet.of(runs), chosen, FusionOptions())
    ours = dict(zip(ranking.docnos, ranking.scores.tolist(), strict=True))
    # The last document of b has 0.001 in OpenSearch, and b weighs 0.4.
    floor = {"elasticsearch": 0.0, "opensearch": 0.4 * 0.001}[engine]
    assert ours["d1"] + floor == pytest.approx(theirs["d1"], abs=1e-7)
    assert ours == pytest.approx(theirs | {"d1": theirs["d1"] - floor}, abs=1e-7)
    assert ours["d1"] == pytest.approx(0.6)
    assert (
        "The runs have different numbers of documents (a 1, b 3); here 3 of each query"
        in written["README.txt"]
    )


def fused_files(
    engine: str, how: tuple[object, ...], runs: list[Path], folder: Path
) -> tuple[dict[str, Any], Run]:
    """Fuse runs, deploy what came out, and return the file's functions and the fused run."""
    words = [str(word) for word in (runs[0].parent / "qrels", *runs, "--method", *how)]
    text = run_command("fuse --format json --output", folder / "run", words).out
    (folder / "fused.json").write_text(text)
    run_command("deploy", folder / "fused.json", "--to", engine, "--output", folder / "files")
    return runpy.run_path(str(folder / "files/search.py")), read_run(folder / "run")


def same_order(ours: dict[str, float], theirs: dict[str, float]) -> bool:
    """Whether an engine's scores fall along our ranking, to single precision."""
    by_us = sorted(ours, key=lambda docno: -ours[docno])
    return ours.keys() == theirs.keys() and bool((np.diff([theirs[d] for d in by_us]) <= 1e-6).all())


SUM = ("linear", "--normalise", "none", "--missing", "zero")


@pytest.mark.parametrize(
    "how", [("rrf",), ("rrf-k", "--window", "10"), SUM, ("combsum", "--normalise", "none")]
)
def test_qdrant_ranks_as_the_fused_run(how: tuple[str, ...], home: Path, tmp_path: Path) -> None:
    """Each run is a vector of one number, the score, of points that hold it alone."""
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    _, ours = fused_files("qdrant", how, [home / "a", home / "b"], tmp_path)
    chosen, options = read_fusion(tmp_path / "fused.json")
    theirs = run_qdrant(
        deploy_fusion("qdrant", chosen, options), {name: read_run(home / name) for name in "ab"}
    )
    assert theirs.keys() == ours.keys()
    for topic, scores in ours.items():
        assert same_order(scores, dict(theirs[topic]))
        assert len(scores) > 10
    # The command says the same of it.
    given = (tmp_path / "fused.json", home / "qrels", home / "a", home / "b")
    out = run_command("check-engine qdrant", *given).out
    assert out.startswith("The run matches the setting\n")


def tuned(engine: str, variant: Variant, weights: dict[str, float], loaded: RunSet) -> Chosen:
    """Return a variant of an engine with these weights."""
    more: Any = {"depths": loaded.depths, "engine": engine, "combine": variant.combine}
    return Chosen("tuned", weights, variant.constant, variant.normalise, **more)


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("weaviate", ["HybridFusion.RELATIVE_SCORE", "HybridFusion.RANKED"]),
        ("milvus", ["WeightedRanker(0.3, 0.7, norm_score=True)", "norm_score=False", "RRFRanker(k=20)"]),
        ("vespa", ["0.3 * normalize_linear(query0) + 0.7 *", "0.7 * reciprocal_rank(query1, 20.0)"]),
    ],
)
def test_other_engines_have_the_variant_and_weights(engine: str, expected: list[str], home: Path) -> None:
    loaded, texts = RunSet.of({name: read_run(home / name) for name in "ba"}), []
    for variant in SPACES[engine].variants([(0.0, 100.0)] * 2):
        chosen = tuned(engine, variant, {"b": 0.3, "a": 0.7}, loaded)
        files = deploy_fusion(engine, chosen, FusionOptions())
        texts.append("".join(files.values()))
        if "search.py" in files:
            compile(files["search.py"], "search.py", "exec")
        if engine == "weaviate":
            assert "alpha=0.7," in files["search.py"]
        assert "the first 25 of each query" in files["README.txt"]
        assert ("equal score in one query" in files["README.txt"]) == (not variant.normalise)
    for text in expected:
        assert sum(text in own for own in texts) == 1, text


def test_qdrant_computes_each_of_its_variants_as_lmtune_does(home: Path) -> None:
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    runs = {name: read_run(home / name) for name in "ba"}
    loaded = RunSet.of(runs)
    for variant in SPACES["qdrant"].variants([(0.0, 100.0)] * 2):
        chosen = tuned("qdrant", variant, {"b": 0.5, "a": 3.0}, loaded)
        theirs = run_qdrant(deploy_fusion("qdrant", chosen, FusionOptions()), runs)
        for ranking in rankings(loaded, chosen, FusionOptions()):
            ours = dict(zip(ranking.docnos, ranking.scores.tolist(), strict=True))
            assert ours == pytest.approx(theirs[ranking.topic], rel=2e-6), variant


def test_runs_keep_their_names(home: Path, tmp_path: Path) -> None:
    given = (home / "qrels", f"LM={home / 'a'}", f"BM25={home / 'b'}")
    text = run_command("fuse", *given, "--method rrf --format json --output", tmp_path / "own").out
    (tmp_path / "fused.json").write_text(text)
    out, err = run_command("check-run", tmp_path / "own", tmp_path / "fused.json", *given)
    assert "matched by order" not in err
    assert out.startswith("The run matches the setting\n")
    err = run_command(
        "check-run", tmp_path / "own", tmp_path / "fused.json", *given, "--output", home / "b", status=2
    ).err
    assert "would replace what the command reads" in err


def test_a_bad_name_is_found_first(tmp_path: Path, home: Path) -> None:
    given = (home / "qrels", home / "a", home / "b")
    text = run_command("fuse", *given, "--method linear --format json").out
    (tmp_path / "fused.json").write_text(text)
    assert "bad name of a field" in refusal(
        "deploy", tmp_path / "fused.json", "--to opensearch --field-name 'a b'"
    )


@pytest.mark.parametrize("rows", [None, 3, [], [3], [{"measure": "AP"}]])
def test_another_row_needs_rows(rows: object, tmp_path: Path) -> None:
    chosen = {"method": "rrf", "weights": {"a": 1.0, "b": 1.0}}
    options = {"normalise": "min-max", "missing": "minimum", "rrf_k": 60.0, "depth": 1000}
    kept = {"output": chosen, "options": options, "rows": rows, "runs": ["a", "b"]}
    (tmp_path / "fused.json").write_text(json.dumps(kept))
    assert "the JSON output of lmtune fuse" in refusal(
        "deploy", tmp_path / "fused.json", "--to opensearch --measure AP"
    )


def test_ties_inside_a_run_explain_a_fusion_of_ranks() -> None:
    rng, docnos = np.random.default_rng(0), [f"d{n:02d}" for n in range(20)]
    runs: dict[str, Run] = {
        name: {
            "1": dict(
                zip(rng.permutation(docnos).tolist(), (rng.integers(0, 8, 20) / 2).tolist(), strict=True)
            )
        }
        for name in "ab"
    }
    loaded, weights = RunSet.of(runs), {"a": 1.0, "b": 2.0}
    chosen = tuned("qdrant", Variant("", "rrf", 2.0), weights, loaded)
    fused = FusedRuns(chosen, FusionOptions(), [], Path(), runs)

    def reasons(hits: list[oracle.Hits]) -> list[str]:
        theirs = {"1": oracle.qdrant_rrf(hits, [*weights.values()], 2)}
        return [one.reason for one in check_rankings(theirs, fused.reference(100)).differences]

    best = [oracle.best_first(one["1"]) for one in runs.values()]
    assert reasons(best) == []
    other = [
        sorted(own.items(), key=lambda item: -item[1]) for own in ({**one["1"]} for one in runs.values())
    ]
    assert reasons(other) == ["run tie"]
    assert reasons([best[0], best[1][::-1]]) == ["scores"]


def test_a_run_is_held_against_the_fused_one(home: Path, tmp_path: Path) -> None:
    given = (home / "qrels", home / "a", home / "b")
    text = run_command("fuse", *given, "--method linear --format json --output", tmp_path / "own").out
    fused = tmp_path / "fused.json"
    fused.write_text(text)
    out = run_command("check-run", tmp_path / "own", fused, *given).out
    assert "6 of 6 topics: same documents in the same order to rank" in out
    assert "The run's scores are lmtune's." in out
    means = [line.split()[1] for line in out.splitlines() if line.startswith(("lmtune ", "run "))]
    value = f"{evaluate(home / 'qrels', tmp_path / 'own', ['nDCG@10'])['nDCG@10'].item():.4f}"
    assert means == [value, value]
    # Another fusion's run is not.
    run_command("fuse", *given, "--method rrf --output", tmp_path / "rrf")
    out, err = run_command(
        "check-run", tmp_path / "rrf", fused, *given, "--output", tmp_path / "parted.csv", status=1
    )
    assert "topics match to rank" in out
    assert len((tmp_path / "parted.csv").read_text().splitlines()) > 1
    for line, said in (
        (("check-run", home / "a", fused), "is checked with its runs; accepted: then QRELS RUN RUN"),
        (("check-run", home / "a", fused, home / "qrels", home / "a"), "is checked with its runs"),
        (("check-run", home / "a", fused, *given, "--model", "bm25"), r"apply to a fusion: \['model'\]"),
        (("check-run", home / "a", home, *given), "runs conflict with a results folder"),
        (("check-engine", "lancedb", fused, *given), "'lancedb'; accepted: qdrant"),
        (("check-engine", "qdrant", fused, *given), "Qdrant has no such normalisation: 'min-max'"),
    ):
        err = refusal(*line)
        assert re.search(said, err.splitlines()[-1]), err


def lance_world(tmp_path: Path) -> tuple[Any, dict[str, list[float]]]:
    """Return a table and the vectors of topics; write the runs of its two queries, and judgments."""
    lancedb = pytest.importorskip("lancedb", reason="lancedb is not installed")
    rng = np.random.default_rng(1)
    words = ["ash", "birch", "cedar", "elm", "fir", "oak"]
    texts = [" ".join([*(w for w in words if rng.random() < 0.6), *["filler"] * 7 * n]) for n in range(60)]
    vectors = rng.normal(size=(60, 4)).tolist()
    rows = [{"docno": f"d{n:02d}", "text": texts[n], "vector": vectors[n]} for n in range(60)]
    table = lancedb.connect(tmp_path / "lance").create_table("t", rows)
    table.create_fts_index("text", use_tantivy=False)
    topics = dict(zip(words, rng.normal(size=(6, 4)).tolist(), strict=True))
    lines: dict[str, list[str]] = {"text": [], "vector": [], "qrels": []}
    for word, vector in topics.items():
        text = table.search(word, query_type="fts").limit(60).to_list()
        near = table.search(vector).limit(60).to_list()
        lines["text"] += [f"{word} Q0 {r['docno']} 0 {r['_score']!r} text\n" for r in text]
        lines["vector"] += [f"{word} Q0 {r['docno']} 0 {-r['_distance']!r} vector\n" for r in near]
        lines["qrels"] += [f"{word} 0 {r['docno']} {n % 3 % 2}\n" for n, r in enumerate(text)]
    for name, own in lines.items():
        (tmp_path / name).write_text("".join(own))
    return table, topics


def test_lancedb_computes_each_of_its_variants_as_lmtune_does(tmp_path: Path) -> None:
    table, topics = lance_world(tmp_path)
    loaded = RunSet.of({name: read_run(tmp_path / name) for name in ("text", "vector")})
    for variant in SPACES["lancedb"].variants([(0.0, 100.0)] * 2):
        chosen = tuned("lancedb", variant, {"text": 0.3, "vector": 0.7}, loaded)
        written = deploy_fusion("lancedb", chosen, FusionOptions())
        (tmp_path / "search.py").write_text(written["search.py"])
        functions = runpy.run_path(str(tmp_path / "search.py"))
        for ranking in rankings(loaded, chosen, FusionOptions()):
            found = functions["search"](table, ranking.topic, topics[ranking.topic], 1000)
            theirs = {row["docno"]: row["_relevance_score"] for row in found}
            ours = dict(zip(ranking.docnos, ranking.scores.tolist(), strict=True))
            assert len(theirs) == functions["FIRST"]
            # The rank of equal scores is another one in LanceDB.
            places = 2.0 / len(theirs) if variant.normalise == "rank" or not variant.normalise else 0.0
            for docno, score in theirs.items():
                assert score == pytest.approx(ours[docno], rel=1e-5, abs=1e-6 + places), variant


@pytest.mark.parametrize("how", [("rrf",), ("rrf-k", "--window", "10"), ("linear",), ("shrunk",)])
def test_lancedb_ranks_as_the_fused_run(how: tuple[str, ...], tmp_path: Path) -> None:
    """What its two queries find apart is fused here, and by its hybrid query."""
    table, topics = lance_world(tmp_path)
    functions, ours = fused_files("lancedb", how, [tmp_path / "text", tmp_path / "vector"], tmp_path)
    assert (functions["TEXT"], functions["VECTOR"]) == ("text", "vector")
    answered = []
    for word, vector in topics.items():
        found = functions["search"](table, word, vector, 1000)
        scores = {row["docno"]: row["_relevance_score"] for row in found}
        assert len(scores) == min(len(ours[word]), functions["FIRST"])  # it ends where its queries do
        assert same_order({docno: ours[word][docno] for docno in scores}, scores)
        rest = [score for docno, score in ours[word].items() if docno not in scores]
        assert max(rest, default=0.0) <= min(ours[word][docno] for docno in scores)
        answered += [f"{word} Q0 {docno} 0 {score!r} lancedb\n" for docno, score in scores.items()]
    (tmp_path / "theirs").write_text("".join(answered))
    given = (tmp_path / "qrels", tmp_path / "text", tmp_path / "vector")
    out = run_command("check-run", tmp_path / "theirs", tmp_path / "fused.json", *given).out
    assert out.startswith("The run matches the setting\n")


@pytest.mark.slow
def test_what_the_nearest_fusion_costs_is_shown(home: Path, tmp_path: Path) -> None:
    text = run_command("fuse", home / "qrels", home / "a", home / "b", "--format json").out
    kept = json.loads(text)
    of = {row["method"]: row for row in kept["rows"]}
    kept["output"] |= {"method": "borda", "weights": of["borda"]["weights"]}
    (tmp_path / "fused.json").write_text(json.dumps(kept))
    out, err = run_command("deploy", tmp_path / "fused.json", "--to qdrant", status=2)
    assert "Qdrant cannot express the method: 'borda'" in err
    gain = of["rrf"]["held_out"] - of["borda"]["held_out"]
    assert [f"{of['rrf']['held_out']:.4f}", f"{gain:+.4f}"] == out.splitlines()[-1].split()[-2:]
    run_command("deploy", tmp_path, "--to qdrant", status=2)


def test_what_engines_cannot_do_is_refused() -> None:
    weights = {"a": 0.5, "b": 0.5}
    cases: list[tuple[str, Chosen, dict[str, Any], str]] = [
        ("solr", Chosen("equal", weights), {}, "no hybrid queries are known for this engine"),
        ("opensearch", Chosen("borda", weights), {}, "OpenSearch cannot express the method: 'borda'"),
        ("opensearch", Chosen("equal", weights, normalise="rank"), {}, "no such normalisation: 'rank'"),
        ("elasticsearch", Chosen("equal", weights), {"normalise": "z-score"}, "accepted: results of"),
        ("weaviate", Chosen("rrf", weights), {}, "Weaviate has k = 59 fixed for RRF: 60.0"),
        ("elasticsearch", Chosen("rrf-k", weights, 0.5), {}, "needs a whole number k for RRF: 0.5"),
        ("elasticsearch", Chosen("linear", weights, normalise="none"), {}, "a query lacks: '--missing"),
        ("qdrant", Chosen("linear", weights), {}, "'min-max'; accepted: results of --normalise none; or of"),
        ("qdrant", Chosen("rrf-tuned", {"a": 0.2, "b": 0.8}, 5.0), {}, "cannot multiply reciprocal ranks"),
        ("lancedb", Chosen("rrf-tuned", {"a": 0.2, "b": 0.8}, 5.0), {}, "cannot multiply reciprocal ranks"),
        ("lancedb", Chosen("rrf", weights | {"c": 0.1}), {}, "a text and a vector query: .*accepted: 2 runs"),
        ("lancedb", Chosen("rrf", {"a": 1.0}), {}, r"a text and a vector query: \['a'\]; accepted: 2 runs"),
        ("opensearch", Chosen("equal", weights), {"normalise": "z-score"}, "z_score sets all scores that"),
    ]
    for engine, chosen, given, message in cases:
        with pytest.raises(InputError, match=message):
            deploy_fusion(engine, chosen, FusionOptions(**given))
