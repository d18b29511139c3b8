"""Fused runs deployed: an engine that does what the files say ranks as `lmtune fuse` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from lmtune.cli.main import app
from lmtune.engines.hybrid import HYBRIDS, deploy_fusion
from lmtune.errors import InputError
from lmtune.formats.runs import read_run
from lmtune.fusion.methods import Chosen, FusionOptions

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


def run(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(map(str, words)))
    return done.exit_code, done.stdout, done.stderr


def fused_by(files: dict[str, Any], engine: str, runs: dict[str, Run]) -> Run:
    """Do what the engine's manual says of the files."""
    if engine == "opensearch":
        [processor] = files["pipeline.json"]["phase_results_processors"]
        [(kind, own)] = processor.items()
        weights = own["combination"].get("parameters", {}).get("weights")
        scale = own.get("normalization", {}).get("technique")
        k = own["combination"].get("rank_constant")
        assert kind == ("normalization-processor" if scale else "score-ranker-processor")
        window = files["search.json"]["query"]["hybrid"]["pagination_depth"]
    else:
        [(kind, own)] = files["search.json"]["retriever"].items()
        parts, window, k = own["retrievers"], own["rank_window_size"], own.get("rank_constant")
        weights = None if kind == "rrf" else [part["weight"] for part in parts]
        scale = None if kind == "rrf" else parts[0]["normalizer"]
    found: Run = {}
    for topic in next(iter(runs.values())):
        total: dict[str, float] = {}
        for number, own_run in enumerate(runs.values()):
            hits = sorted(own_run[topic].items(), key=lambda hit: -hit[1])[:window]
            values = np.array([score for _, score in hits])
            if scale in ("min_max", "minmax"):
                values = (values - values.min()) / (values.max() - values.min())
            if scale is None:
                values = 1.0 / (k + np.arange(1, len(hits) + 1))
            for (docno, _), value in zip(hits, values.tolist(), strict=True):
                total[docno] = total.get(docno, 0.0) + value * (weights[number] if weights else 1.0)
        found[topic] = total
    return found


@pytest.mark.parametrize("engine", HYBRIDS)
@pytest.mark.parametrize("how", [("linear",), ("shrunk", "--window", "10"), ("rrf",), ("rrf-k",)])
def test_an_engine_that_follows_the_files_ranks_alike(
    engine: str, how: tuple[str, ...], home: Path, tmp_path: Path
) -> None:
    given = (home / "qrels", home / "a", home / "b", "--method", *how, "--output", tmp_path / "run")
    code, text, err = run("fuse", *given, "--format", "json")
    assert code == 0, err
    (tmp_path / "fused.json").write_text(text)
    code, _, err = run("deploy", tmp_path / "fused.json", "--to", engine, "--output", tmp_path / "files")
    assert code == 0, err
    files = {path.name: json.loads(path.read_text()) for path in (tmp_path / "files").glob("*.json")}
    runs = {name: read_run(home / name) for name in "ab"}
    theirs, ours = fused_by(files, engine, runs), read_run(tmp_path / "run")
    for topic, scores in ours.items():
        by_us = sorted(scores, key=lambda docno: -scores[docno])
        values = [theirs[topic][docno] for docno in by_us]
        assert len(by_us) == len(theirs[topic])
        assert (np.diff(values) <= 1e-9).all()


def test_what_engines_cannot_do_is_refused() -> None:
    weights = {"a": 0.5, "b": 0.5}
    cases: list[tuple[str, Chosen, dict[str, Any], str]] = [
        ("solr", Chosen("equal", weights), {}, "no hybrid queries are known of this engine"),
        ("opensearch", Chosen("borda", weights), {}, "OpenSearch cannot express the method: 'borda'"),
        ("opensearch", Chosen("equal", weights, normalise="rank"), {}, "no such normalisation: 'rank'"),
        (
            "elasticsearch",
            Chosen("equal", weights),
            {"normalise": "z-score"},
            "accepted: results of --normalise",
        ),
        ("elasticsearch", Chosen("rrf-k", weights, 0.5), {}, "whole numbers for RRF's k: 0.5"),
        ("opensearch", Chosen("per-query", weights, powers={"spread": 1.0}), {}, "cannot express the method"),
    ]
    for engine, chosen, given, message in cases:
        with pytest.raises(InputError, match=message):
            deploy_fusion(engine, chosen, FusionOptions(**given))
