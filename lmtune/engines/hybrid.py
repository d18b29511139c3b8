"""Write the fusion that `lmtune fuse` selected as hybrid queries of engines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from lmtune.engines.checking import Reference, Run
from lmtune.engines.deployment import PYTHON, README, USUAL_NAMES, Names, fill_template
from lmtune.errors import InputError, PathLike, check_choice
from lmtune.fusion.methods import (
    METHODS,
    SCALES,
    TUNED,
    Chosen,
    FusionOptions,
    match_runs,
    rankings,
    read_fusion,
    tie_spans,
)
from lmtune.fusion.runs import ZERO, RunSet
from lmtune.fusion.spaces import RANKS_BY_WEIGHTS, SPACES, Variant
from lmtune.io.digests import read_json
from lmtune.io.runs import read_run
from lmtune.measures.significance.comparison import named_files
from lmtune.report.table import Table

_SUMS = ("linear", "shrunk", "forward", "equal", "combsum")
_BY_RANK = ("rrf", "rrf-k", "rrf-tuned")
_CURL = "curl --fail-with-body -H 'Content-Type: application/json'"


class Fused(NamedTuple):
    """A fusion in an engine's terms.

    Attributes
    ----------
    variant : Variant
        How the engine fuses.
    weights : dict of str to float
        By run, in the order of the queries.
    is_weighted : bool
        Whether the weights are written.
    first : int
        The number of documents that are fused from each query.
    names : Names
        Names of the index and field.
    """

    variant: Variant
    weights: Mapping[str, float]
    is_weighted: bool
    first: int
    names: Names

    @property
    def k(self) -> int:
        """The constant of rank fusion."""
        return int(self.variant.constant)


class Hybrid(NamedTuple):
    """How an engine's hybrid queries are written; what they can express is in `lmtune.fusion.spaces`.

    Attributes
    ----------
    write : callable
        Returns the files of a `Fused`: texts by file name.
    sums : mapping of str to Variant
        lmtune's names of the normalisations whose weighted sums the engine ranks alike, with its variants.
    ranks : Variant
        Reciprocal rank fusion; its constant is added to lmtune's k.
    remarks : tuple of str
        Notes on every fusion.
    inexact : tuple of str
        Further notes on what is not exact, for fusions that were not tuned for the engine.
    weighs_ranks : bool
        Whether its weights multiply reciprocal ranks.
    fixed_k : float
        The constant of reciprocal rank fusion, if it is fixed; else 0.
    is_named : bool
        Whether the files name an index and a field.
    refused : mapping of str to str
        Normalisations that the engine has under the same name but computes differently, with the reason.
    """

    write: Callable[[Fused], dict[str, str]]
    sums: Mapping[str, Variant]
    ranks: Variant
    remarks: tuple[str, ...] = ()
    inexact: tuple[str, ...] = ()
    weighs_ranks: bool = True
    fixed_k: float = 0.0
    is_named: bool = False
    refused: Mapping[str, str] = {}


def deploy_fusion(
    engine: str, chosen: Chosen, options: FusionOptions, names: Names = USUAL_NAMES
) -> dict[str, str]:
    """Write a fusion as an engine's hybrid query.

    Parameters
    ----------
    engine : str
        One of `HYBRIDS`.
    chosen, options
        The selected fusion, as `lmtune.fusion.methods.read_fusion` returns it.
    names : Names, optional
        Names of the index, and of the field in the placeholder queries.

    Returns
    -------
    dict of str to str
        Texts by file name, `README` first.

    Raises
    ------
    InputError
        For an unknown engine, a fusion that was tuned for another one, and a method, a normalisation or a
        number of runs that the engine does not support.
    """
    check_choice("no hybrid queries are known for this engine", engine, HYBRIDS)
    if chosen.single_run is not None:
        methods = ", ".join((TUNED, *_SUMS, *_BY_RANK))
        raise InputError(
            "a single run is recommended: there is nothing to fuse",
            value=chosen.single_run,
            accepted=f"--method {methods}, if the results have it",
        )
    target, space = HYBRIDS[engine], SPACES[engine]
    if chosen.engine not in ("", engine):
        accepted = f"--to {chosen.engine}, or results of fuse --engine {engine}"
        raise InputError(
            "the fusion is for another engine", value=SPACES[chosen.engine].title, accepted=accepted
        )
    names.check_used(space.title, index=target.is_named)
    if space.queries and len(chosen.shares) != space.queries:
        accepted = f"{space.queries} runs"
        raise InputError(
            f"{space.title} fuses a text and a vector query", value=[*chosen.shares], accepted=accepted
        )
    variant = chosen.variant if chosen.engine else _variant(engine, chosen, options)
    depths = {run: min(depth, chosen.window or depth) for run, depth in chosen.depths.items()}
    first = max(depths.values(), default=chosen.window or options.depth)
    weights = chosen.weights if chosen.engine else chosen.shares
    row = space.combination(variant)
    weighted = row.is_weighted and bool(chosen.engine or row.scales or _are_unequal(weights))
    how = f"{variant}: {row.formula}" if chosen.engine else _method_text(chosen, options, variant)
    if weighted:
        how += "; weights " + ", ".join(f"{run} {weight:.4g}" for run, weight in weights.items())
    exact, inexact = ([_EXACT], []) if chosen.engine else ([], [*target.inexact])
    remarks = [*exact, *_COMMON_REMARKS, *target.remarks, *inexact, *_depth_remark(depths, first)]
    if not row.scales:
        remarks.append("Documents of equal score in one query have ranks in the engine's own order.")
    if not row.scales and weighted:
        remarks.append(f"Weights of reciprocal ranks need {space.name}.")
    lines = [f"{space.title}: {chosen.method}: {how}; the first {first} of each query", ""]
    lines += ["Notes:" if chosen.engine else "Not exact:", *(f"- {remark}" for remark in remarks)]
    return {README: "\n".join(lines) + "\n", **target.write(Fused(variant, weights, weighted, first, names))}


def _method_text(chosen: Chosen, options: FusionOptions, variant: Variant) -> str:
    if chosen.method in _BY_RANK:
        return f"reciprocal ranks, k = {chosen.constant or options.rrf_k:g}"
    return f"{chosen.normalise or options.normalise} scores ({variant})"


def _variant(engine: str, chosen: Chosen, options: FusionOptions) -> Variant:
    """Return the engine's variant that ranks as one of lmtune's methods; raise `InputError` without one."""
    target, title = HYBRIDS[engine], SPACES[engine].title
    k, normalise = chosen.constant or options.rrf_k, chosen.normalise or options.normalise
    if chosen.method in _BY_RANK:
        if k < 1.0 or k != int(k):
            raise InputError(f"{title} needs a whole number k for RRF", value=k, accepted="1, 2 ...")
        if target.fixed_k not in (0.0, k):
            accepted = f"results of --rrf-k {target.fixed_k:g} --method rrf, or of fuse --engine {engine}"
            raise InputError(f"{title} has k = {target.fixed_k:g} fixed for RRF", value=k, accepted=accepted)
        is_weighted = SPACES[engine].combination(target.ranks).is_weighted and target.weighs_ranks
        if _are_unequal(chosen.weights) and not is_weighted:
            raise InputError(
                f"{title} cannot multiply reciprocal ranks by weights",
                value=chosen.shares,
                accepted="results of --method rrf, rrf-k",
            )
        return replace(target.ranks, constant=0.0 if target.fixed_k else target.ranks.constant + k)
    if chosen.method not in _SUMS:
        accepted = f"results of --method {', '.join((*_SUMS, *_BY_RANK))}"
        raise InputError(f"{title} cannot express the method", value=chosen.method, accepted=accepted)
    if normalise not in target.sums:
        why = "".join(f", {reason}" for name, reason in target.refused.items() if name == normalise)
        accepted = f"results of --normalise {', '.join(target.sums)}; or of fuse --engine {engine}"
        raise InputError(f"{title} has no such normalisation{why}", value=normalise, accepted=accepted)
    if normalise == "none" and chosen.method != "combsum" and options.missing != ZERO:
        raise InputError(
            f"{title} adds nothing for a document that a query lacks",
            value=f"--missing {options.missing}",
            accepted=f"results of --missing {ZERO}, or of --method combsum",
        )
    return target.sums[normalise]


def _are_unequal(weights: Mapping[str, float]) -> bool:
    return len({*weights.values()}) > 1


def _depth_remark(depths: Mapping[str, int], first: int) -> list[str]:
    """Return a note on the depth of the runs if one depth for all queries is not exact."""
    if not depths:
        return [f"The depth of the runs is not known: {first} is the depth of the fused run."]
    if len({*depths.values()}) == 1:
        return []
    counted = ", ".join(f"{run} {depth}" for run, depth in depths.items())
    return [
        f"The runs have different numbers of documents ({counted}); here {first} of each query are fused."
    ]


def _placeholder_query(run: str, names: Names) -> dict[str, Any]:
    return {"match": {names.field: f"YOUR WORDS; replace this query by the one that makes {run}"}}


def _elastic(fused: Fused) -> dict[str, str]:
    """Write a search whose retriever combines one retriever for each run."""
    kind, names = fused.variant.combine, fused.names
    parts: list[dict[str, Any]] = [
        {"standard": {"query": _placeholder_query(run, names)}} for run in fused.weights
    ]
    if fused.is_weighted:
        parts = [
            {"retriever": part, "weight": weight}
            for part, weight in zip(parts, fused.weights.values(), strict=True)
        ]
    for part, scale in zip(parts, fused.variant.by_query(len(parts)), strict=True):
        part |= {"normalizer": scale} if scale else {}
    constant = {} if fused.variant.normalise else {"rank_constant": fused.k}
    retriever = {kind: {"retrievers": parts, **constant, "rank_window_size": fused.first}}
    search = {"retriever": retriever, "size": min(fused.first, 100)}
    commands = (
        f'# URL: address of the cluster\n{_CURL} "$URL/{names.index}/_search" --data-binary @search.json\n'
    )
    return {"search.json": json.dumps(search, indent=2) + "\n", "commands.sh": commands}


def _opensearch(fused: Fused) -> dict[str, str]:
    """Write a search pipeline and a hybrid query."""
    weights = {"parameters": {"weights": [*fused.weights.values()]}}
    combination: dict[str, Any] = {"technique": fused.variant.combine}
    if fused.variant.normalise:
        scales = [name.split() for name in fused.variant.by_query(len(fused.weights))]
        normalization: dict[str, Any] = {"technique": scales[0][0]}
        if any(bounds for _, *bounds in scales):
            # Without a lower bound of its own, a query of a pipeline with bounds ignores it.
            modes = [(*bounds, "ignore", "0")[:2] for _, *bounds in scales]
            bounds = [{"mode": mode, "min_score": float(least)} for mode, least in modes]
            normalization["parameters"] = {"lower_bounds": bounds}
        own = {"normalization": normalization, "combination": combination | weights}
        processor: dict[str, Any] = {"normalization-processor": own}
    else:
        combination |= {"rank_constant": fused.k, **(weights if fused.is_weighted else {})}
        processor = {"score-ranker-processor": {"combination": combination}}
    parts = [_placeholder_query(run, fused.names) for run in fused.weights]
    queries = {"hybrid": {"pagination_depth": fused.first, "queries": parts}}
    search = {"query": queries, "size": min(fused.first, 100)}
    commands = (
        "# URL: address of the cluster\n"
        f'{_CURL} -X PUT "$URL/_search/pipeline/fused" --data-binary @pipeline.json\n'
        f'{_CURL} "$URL/{fused.names.index}/_search?search_pipeline=fused" --data-binary @search.json\n'
    )
    files = {"pipeline.json": {"phase_results_processors": [processor]}, "search.json": search}
    texts = {name: json.dumps(content, indent=2) + "\n" for name, content in files.items()}
    return texts | {"commands.sh": commands}


class FusedRuns(NamedTuple):
    """The fusion that `lmtune fuse` selected, and the runs to fuse.

    Attributes
    ----------
    chosen : Chosen
        The selected fusion, with the names of these runs.
    options : FusionOptions
        The options of the fusion.
    measures : list of str
        The measures that the fusion was tuned for.
    qrels : pathlib.Path
        The judgments.
    runs : dict of str to run
        Scores by topic and docno, by name of the run.
    """

    chosen: Chosen
    options: FusionOptions
    measures: list[str]
    qrels: Path
    runs: Mapping[str, Run]

    @classmethod
    def read(
        cls, path: Path, files: Sequence[Path], *, measure: str | None = None, method: str | None = None
    ) -> FusedRuns:
        """Read the output of ``lmtune fuse --format json``, and its input files: judgments, then runs."""
        chosen, options = read_fusion(path, measure=measure, method=method)
        qrels, *run_files = files
        runs: dict[str, Run] = {name: read_run(file) for name, file in named_files(run_files).items()}
        measures = dict.fromkeys(row["measure"] for row in read_json(path, {"rows": list})["rows"])
        return cls(match_runs(chosen, RunSet.of(runs)), options, [*measures], qrels, runs)

    def reference(self, hits: int) -> Reference:
        """Fuse the runs to at most `hits` documents a topic."""
        runs = RunSet.of(self.runs)
        ranked = rankings(runs, self.chosen, self.options, hits)
        spans = tie_spans(runs, self.chosen)
        return Reference(ranked, [len(runs.names)] * len(ranked), {*runs.docnos}, spans=spans)


def fusion_cost(path: PathLike, engine: str, chosen: Chosen, options: FusionOptions) -> Table | None:
    """Compare the selected fusion with the best one that an engine supports, by the measures in the file.

    Parameters
    ----------
    path : path-like
        The output of ``lmtune fuse --format json``.
    engine : str
        One of `HYBRIDS`.
    chosen, options
        The selected fusion, as `lmtune.fusion.methods.read_fusion` returns it.

    Returns
    -------
    Table or None
        One row for each of the two fusions, by the first measure; None if the engine supports none of the
        file's fusions.
    """
    content = read_json(path, {"rows": list})
    rows = [row for row in content["rows"] if row["measure"] == content["rows"][0]["measure"]]
    of_method = [row for row in rows if row["method"] == chosen.method]
    tuned = next((row for row in of_method if chosen.single_run in (None, *row["weights"])), None)
    supported = [row for row in rows if _is_supported(row, engine, options)]
    if tuned is None or not supported:
        return None
    value = "in_sample" if tuned["held_out"] is None else "held_out"
    best = max(supported, key=lambda row: float(row[value]))
    table_rows = [
        [name, row["method"], f"{row[value]:.4f}", f"{row[value] - tuned[value]:+z.4f}"]
        for name, row in (("tuned", tuned), (f"nearest of {SPACES[engine].title}", best))
    ]
    names = ["", "method", f"{tuned['measure']}, {value.replace('_', ' ')}", "difference"]
    return Table.of(names, (), [table_rows], "Cost of the nearest fusion.")


def _is_supported(row: Mapping[str, Any], engine: str, options: FusionOptions) -> bool:
    if row["method"] not in METHODS:
        return False
    scale = row["normalise"] if row["normalise"] in SCALES else ""
    try:
        deploy_fusion(
            engine, Chosen(row["method"], row["weights"], row["k"] or 0.0, scale, row["window"]), options
        )
    except InputError:
        return False
    return True


def _qdrant(fused: Fused) -> dict[str, str]:
    """Write a script for qdrant-client."""
    weights, combine = [*fused.weights.values()], fused.variant.combine
    if combine == "dbsf":
        query = "models.FusionQuery(fusion=models.Fusion.DBSF)"
    elif combine == "formula":
        parts = [
            f'models.MultExpression(mult=[{weight!r}, "$score[{n}]"])' for n, weight in enumerate(weights)
        ]
        defaults = {f"$score[{n}]": 0.0 for n in range(len(weights))}
        summed = f"models.SumExpression(sum=[{', '.join(parts)}])"
        query = f"models.FormulaQuery(\n    formula={summed},\n    defaults={defaults},\n)"
    else:
        own = f", weights={weights}" if fused.is_weighted else ""
        k = 1 if combine == RANKS_BY_WEIGHTS else fused.k
        query = f"models.RrfQuery(rrf=models.Rrf(k={k}{own}))  # ranks from 0"
    using = {run: run for run in fused.weights}
    return {
        PYTHON: fill_template("qdrant.py", how=fused.variant, using=using, first=fused.first, fused=query)
    }


def _lancedb(fused: Fused) -> dict[str, str]:
    """Write a hybrid query for LanceDB."""
    text, vector = fused.weights
    is_sum = bool(fused.variant.normalise)
    return {
        PYTHON: fill_template(
            "lancedb.py",
            how=fused.variant,
            name=fused.variant.combine,
            arguments="weight=WEIGHTS[VECTOR], fill=1.0" if is_sum else f"K={fused.k}",
            normalise=fused.variant.normalise or "score",
            text=repr(text),
            vector=repr(vector),
            weights=dict(fused.weights),
            first=fused.first,
        )
    }


def _weaviate(fused: Fused) -> dict[str, str]:
    """Write a hybrid query for Weaviate's Python client."""
    names = {"relativeScoreFusion": "RELATIVE_SCORE", "rankedFusion": "RANKED"}
    text, vector = fused.weights
    return {
        PYTHON: fill_template(
            "weaviate.py",
            how=fused.variant,
            text=repr(text),
            vector=repr(vector),
            alpha=fused.weights[vector],
            fusion=names[fused.variant.combine],
            first=fused.first,
        )
    }


def _milvus(fused: Fused) -> dict[str, str]:
    """Write a hybrid search for pymilvus."""
    weights = ", ".join(map(repr, fused.weights.values()))
    ranker = f"RRFRanker(k={fused.k})"
    if fused.variant.normalise:
        ranker = f"WeightedRanker({weights}, norm_score={fused.variant.normalise != 'none'})"
    fields = {run: run for run in fused.weights}
    return {
        PYTHON: fill_template("milvus.py", how=fused.variant, fields=fields, ranker=ranker, first=fused.first)
    }


def _vespa(fused: Fused) -> dict[str, str]:
    """Write a rank profile with a global phase."""
    features = [f"query{n}" for n in range(len(fused.weights))]
    scores = [
        f"normalize_linear({name})" if fused.variant.normalise else f"reciprocal_rank({name}, {fused.k}.0)"
        for name in features
    ]
    terms = [f"{weight!r} * {score}" for weight, score in zip(fused.weights.values(), scores, strict=True)]
    functions = [
        f"    function {name}() {{\n        expression: YOUR_FEATURE  # that makes {run}\n    }}"
        for name, run in zip(features, fused.weights, strict=True)
    ]
    texts = {"functions": "\n".join(functions), "expression": " + ".join(terms), "first": fused.first}
    return {"fused.profile": fill_template("fused.profile", how=fused.variant, **texts)}


_COMMON_REMARKS = (
    "Each query's scores are normalised over the documents that it returns: as many as the fused runs have.",
    "Scores are in single precision, and the engine orders documents of equal score in its own way.",
)
_EXACT = (
    "lmtune computed this fusion in the engine's arithmetic: if the queries return the runs' documents and "
    "scores, rankings are identical except for ties. Check a run of the engine with lmtune check-run."
)
_RRF = Variant("", "rrf")
HYBRIDS = {
    "elasticsearch": Hybrid(
        _elastic,
        {"min-max": Variant("minmax", "linear"), "none": Variant("none", "linear")},
        _RRF,
        (
            "The linear retriever needs version 8.18 or 9.0. Versions before June 2025 do not normalise the "
            "score of a query's only document to 1. For vectors, replace a standard retriever by a knn one.",
        ),
        is_named=True,
    ),
    "opensearch": Hybrid(
        _opensearch,
        {"min-max": Variant("min_max", "arithmetic_mean")},
        _RRF,
        ("Lower bounds and z_score need OpenSearch 3.0. Versions before 3.5 rank within each shard.",),
        ("The lowest score of a query becomes 0.001, in lmtune 0.",),
        is_named=True,
        refused={"z-score": "OpenSearch's z_score sets all scores that are not above the mean to 0.001"},
    ),
    "qdrant": Hybrid(
        _qdrant,
        {"none": Variant("none", "formula")},
        replace(_RRF, constant=1.0),
        ("Tested with qdrant-client 1.20; older versions may lack these queries.",),
        ("Qdrant's ranks begin at 0: its k is lmtune's plus 1.",),
        weighs_ranks=False,
    ),
    "weaviate": Hybrid(
        _weaviate,
        {"min-max": Variant("relative", "relativeScoreFusion")},
        replace(_RRF, combine="rankedFusion"),
        (
            "Scores that differ by less than 0.0000001 are ties, which Weaviate orders by the scores of its "
            "queries. Not run: no test was made with Weaviate.",
        ),
        fixed_k=59.0,
    ),
    "milvus": Hybrid(
        _milvus,
        {"none": Variant("none", "weighted")},
        _RRF,
        (
            "The runs' metrics were inferred from their scores: COSINE if all are between -1 and 1, else "
            "BM25 if none is negative, else IP. Not run: no test was made with Milvus.",
        ),
    ),
    "vespa": Hybrid(
        _vespa,
        {"min-max": Variant("normalize_linear", "sum of normalize_linear")},
        replace(_RRF, combine="sum of reciprocal_rank"),
        (
            "Not exact: Vespa computes all features of each document in the global phase, so that a document "
            "that a run lacks has a score there too. Not run: no test was made with Vespa.",
        ),
    ),
    "lancedb": Hybrid(
        _lancedb,
        {"min-max": Variant("score", "LinearCombinationReranker")},
        replace(_RRF, combine="RRFReranker"),
        (
            "LanceDB uses the distances of the vector query. A run of similarities is ranked the same if the "
            "distance falls linearly with the similarity (cosine, dot).",
            "Tested with LanceDB 0.40; check the first results of another version. A search returns at most "
            "as many documents as are fused from each query.",
        ),
        ("If all texts have the same score, LanceDB normalises it to 0, lmtune to 1.",),
    ),
}
"""The engines with hybrid queries by name, as in the option ``--to``."""
