"""Deployed requests against the types that Elastic and OpenSearch publish, by TypeScript."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lmtune import Analyzer
from lmtune.engines.catalogue import ENGINES
from lmtune.engines.deployment import deploy
from lmtune.engines.hybrid import HYBRIDS, deploy_fusion
from lmtune.fusion.methods import Chosen, FusionOptions

NODE = Path(sys.prefix) / "node_modules"
ELASTIC, OPENSEARCH = "@elastic/elasticsearch", "@opensearch-project/opensearch"
PACKAGES = "typescript", ELASTIC, OPENSEARCH
BM25 = {"k1": 0.81234567890123456, "b": 1.0 / 3.0}
FIELDS = {"w_title": 0.25, "w_contents": 0.75, "b_title": 0.125, "b_contents": 0.7, "k1": 1.0 / 7.0}
SETTINGS = (
    ("bm25", BM25),
    ("two-stage", {"lambda": 0.0, "mu": 1000.0 / 3.0}),
    ("jelinek-mercer", {"lambda": 0.3, "mu": 0.0}),
    ("bm25-fields:title,contents", FIELDS),
)
# Each file's type; the index is named in the address, not in the file.
TYPES = {
    "elasticsearch": {
        "index.json": "Omit<Elastic.IndicesCreateRequest, 'index'>",
        "*": "Elastic.SearchRequest",
    },
    "opensearch": {
        "index.json": "Index",
        "pipeline.json": "Pipeline.SearchPipelineStructure",
        "*": "Search.Search_RequestBody",
    },
}
IMPORTS = f"""\
import type * as Elastic from '{NODE}/{ELASTIC}/lib/api/types'
import type * as Create from '{NODE}/{OPENSEARCH}/api/indices/create'
import type * as Pipeline from '{NODE}/{OPENSEARCH}/api/_types/search_pipeline._common'
import type * as Search from '{NODE}/{OPENSEARCH}/api/_core/search'
// Its types take a similarity's name for its kind, and what has a default for needed.
type Given<T> = T extends {{ type: infer K }} ? Partial<T> & {{ type: K }} : never
type Body = Create.Indices_Create_RequestBody
type Settings = NonNullable<Body['settings']>
type Kinds = NonNullable<Settings['similarity']>
type Similarities = {{ similarity: Record<string, Given<Kinds[keyof Kinds]>> }}
type Index = Omit<Body, 'settings'> & {{ settings: Omit<Settings, 'similarity'> & Similarities }}
"""
FLAGS = "--noEmit --strict --skipLibCheck --target es2022 --module esnext --moduleResolution bundler"


def errors_of(requests: list[tuple[str, Any]], folder: Path) -> list[str]:
    """Return what TypeScript has against requests, each of a type."""
    absent = f"node or the published types are absent: npm install --prefix .venv {' '.join(PACKAGES)}"
    if shutil.which("node") is None or not all((NODE / own).is_dir() for own in PACKAGES):
        pytest.skip(absent)
    lines = [f"export const r{n}: {kind} = {json.dumps(own)}\n" for n, (kind, own) in enumerate(requests)]
    (folder / "requests.ts").write_text(IMPORTS + "".join(lines))
    done = subprocess.run(
        ["node", NODE / "typescript/bin/tsc", *FLAGS.split(), "requests.ts"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == (done.stdout == ""), done.stderr
    return done.stdout.splitlines()


def typed(engine: str, files: dict[str, str]) -> list[tuple[str, Any]]:
    types = TYPES[engine]
    return [
        (types.get(name, types["*"]), json.loads(text))
        for name, text in files.items()
        if name.endswith(".json")
    ]


def fusions() -> list[tuple[Chosen, FusionOptions]]:
    """Return fusions of each normalisation, but z-scores, which OpenSearch's types have not yet."""
    shares, options = {"bm25": 0.25, "dense": 0.75}, FusionOptions(missing="zero")
    sums = [Chosen("linear", shares, normalise=scale) for scale in ("min-max", "none")]
    return [(chosen, options) for chosen in (*sums, Chosen("rrf", shares, 60.0))]


@pytest.mark.parametrize("engine", TYPES)
def test_deployed_requests_have_the_published_types(engine: str, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("zebra\n")
    requests = []
    for model, setting in SETTINGS:
        for stemmer in ("porter", "none", "german", "dutch_porter"):
            for stopwords in ("lucene", "none", str(tmp_path / "words.txt")):
                analyzer = Analyzer(stemmer=stemmer, stopwords=stopwords)
                requests += typed(engine, deploy(ENGINES[engine], model, setting, analyzer))
    for chosen, options in fusions():
        if chosen.normalise in ("", *HYBRIDS[engine].sums):
            requests += typed(engine, deploy_fusion(engine, chosen, options))
    assert len(requests) > 50
    assert errors_of(requests, tmp_path) == []


@pytest.mark.parametrize("engine", TYPES)
def test_a_misspelt_request_has_not(engine: str, tmp_path: Path) -> None:
    [(kind, index), (search, query)] = typed(engine, deploy(ENGINES[engine], "bm25", BM25, Analyzer()))
    index["settings"]["similarity"]["tuned"]["k2"] = 1.0
    query["query"]["match"]["contents"]["operators"] = "or"
    said = errors_of([(kind, index), (search, query)], tmp_path)
    assert [re.findall(r"'\"(\w+)\"' does not exist", line) for line in said] == [["k2"], ["operators"]]
