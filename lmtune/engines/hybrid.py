"""Write the fusion that `lmtune fuse` selected as hybrid queries of engines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lmtune.candidates.ranking import rank
from lmtune.engines.checking import Reference, Run
from lmtune.engines.deployment import PYTHON, README, USUAL_NAMES, Names, fill_template
from lmtune.errors import InputError, PathLike, check_choice
from lmtune.fusion.methods import METHODS, SCALES, Chosen, FusionOptions, fused_pool, match_runs, read_fusion
from lmtune.fusion.runs import ZERO, RunSet
from lmtune.io.digests import read_json
from lmtune.io.runs import read_run
from lmtune.measures.significance.comparison import named_files
from lmtune.report.table import Table

_SUMS = ("linear", "shrunk", "forward", "equal", "combsum")
_BY_RANK = ("rrf", "rrf-k", "rrf-tuned")
_CURL = "curl --fail-with-body -H 'Content-Type: application/json'"


class Hybrid(NamedTuple):
    """Description of an engine's hybrid queries.

    Attributes
    ----------
    title : str
        The engine's name in texts.
    normalisations : mapping of str to str
        lmtune's names of the supported normalisations, each with the engine's name.
    write : callable
        Returns the files. Its arguments are the runs' weights; the normalisation, or None for reciprocal rank
        fusion; the constant k of RRF; the number of documents fused from each query; and the names of the
        index and field.
    remarks : tuple of str
        Notes on what is not exact.
    queries : int
        The number of queries that the engine fuses; 0 for any number.
    weighs_ranks : str
        The first version with weighted reciprocal rank fusion; empty if there is none.
    is_named : bool
        Whether the files name an index and a field.
    refused : mapping of str to str
        Normalisations that the engine has under the same name but computes differently, with the reason.
    """

    title: str
    normalisations: Mapping[str, str]
    write: Callable[[Mapping[str, float], str | None, int, int, Names], dict[str, str]]
    remarks: tuple[str, ...]
    queries: int = 0
    weighs_ranks: str = ""
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
        For an unknown engine, and for a method, a normalisation or a number of runs that the engine does not
        support.
    """
    check_choice("no hybrid queries are known for this engine", engine, HYBRIDS)
    if chosen.single_run is not None:
        raise InputError(
            "a single run is recommended: there is nothing to fuse",
            value=chosen.single_run,
            accepted=f"--method {', '.join((*_SUMS, *_BY_RANK))}, if the results have it",
        )
    target, normalise = HYBRIDS[engine], chosen.normalise or options.normalise
    names.check_used(target.title, index=target.is_named)
    by_rank, k = chosen.method in _BY_RANK, chosen.constant or options.rrf_k
    if target.queries and len(chosen.shares) != target.queries:
        accepted = f"{target.queries} runs"
        raise InputError(
            f"{target.title} fuses a text and a vector query", value=[*chosen.shares], accepted=accepted
        )
    if by_rank:
        _check_ranks(target, chosen, k)
    else:
        _check_scores(target, chosen, normalise, options.missing)
    depths = {run: min(depth, chosen.window or depth) for run, depth in chosen.depths.items()}
    first = max(depths.values(), default=chosen.window or options.depth)
    scale = None if by_rank else target.normalisations[normalise]
    files = target.write(chosen.shares, scale, int(k), first, names)
    how = f"reciprocal ranks, k = {k:g}" if by_rank else f"{normalise} scores"
    if not by_rank or _are_unequal(chosen.weights):
        how += ", weights " + ", ".join(f"{run} {share:.4g}" for run, share in chosen.shares.items())
    remarks = [*target.remarks, *_depth_remark(depths, first)]
    if by_rank and _are_unequal(chosen.weights):
        remarks.append(f"Weights of reciprocal ranks need {target.title} {target.weighs_ranks}.")
    lines = [f"{target.title}: {chosen.method}: {how}; the first {first} of each query", "", "Not exact:"]
    lines += [f"- {remark}" for remark in remarks]
    return {README: "\n".join(lines) + "\n", **files}


def _check_ranks(target: Hybrid, chosen: Chosen, k: float) -> None:
    """Raise `InputError` if the engine does not support this reciprocal rank fusion."""
    if k < 1.0 or k != int(k):
        raise InputError(f"{target.title} needs a whole number k for RRF", value=k, accepted="1, 2 ...")
    if _are_unequal(chosen.weights) and not target.weighs_ranks:
        raise InputError(
            f"{target.title} cannot multiply reciprocal ranks by weights",
            value=chosen.shares,
            accepted="results of --method rrf, rrf-k",
        )


def _check_scores(target: Hybrid, chosen: Chosen, normalise: str, missing: str) -> None:
    """Raise `InputError` if the engine does not support this sum of normalised scores."""
    if chosen.method not in _SUMS:
        accepted = f"results of --method {', '.join((*_SUMS, *_BY_RANK))}"
        raise InputError(f"{target.title} cannot express the method", value=chosen.method, accepted=accepted)
    if normalise not in target.normalisations:
        why = "".join(f", {reason}" for name, reason in target.refused.items() if name == normalise)
        accepted = f"results of --normalise {', '.join(target.normalisations)}"
        raise InputError(f"{target.title} has no such normalisation{why}", value=normalise, accepted=accepted)
    if normalise == "none" and chosen.method != "combsum" and missing != ZERO:
        raise InputError(
            f"{target.title} adds nothing for a document that a query lacks",
            value=f"--missing {missing}",
            accepted=f"results of --missing {ZERO}, or of --method combsum",
        )


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


def _elastic(
    shares: Mapping[str, float], scale: str | None, k: int, first: int, names: Names
) -> dict[str, str]:
    """Write a search whose retriever combines one retriever for each run."""
    parts: list[dict[str, Any]] = [{"standard": {"query": _placeholder_query(run, names)}} for run in shares]
    if scale is not None or _are_unequal(shares):
        parts = [
            {"retriever": part, "weight": share} for part, share in zip(parts, shares.values(), strict=True)
        ]
    if scale is None:
        fused = {"rrf": {"retrievers": parts, "rank_constant": k, "rank_window_size": first}}
    else:
        parts = [part | {"normalizer": scale} for part in parts]
        fused = {"linear": {"retrievers": parts, "rank_window_size": first}}
    search = {"retriever": fused, "size": min(first, 100)}
    commands = (
        f'# URL: address of the cluster\n{_CURL} "$URL/{names.index}/_search" --data-binary @search.json\n'
    )
    return {"search.json": json.dumps(search, indent=2) + "\n", "commands.sh": commands}


def _opensearch(
    shares: Mapping[str, float], scale: str | None, k: int, first: int, names: Names
) -> dict[str, str]:
    """Write a search pipeline and a hybrid query."""
    processor: dict[str, Any] = {
        "normalization-processor": {
            "normalization": {"technique": scale},
            "combination": {"technique": "arithmetic_mean", "parameters": {"weights": [*shares.values()]}},
        }
    }
    if scale is None:
        combination: dict[str, Any] = {"technique": "rrf", "rank_constant": k}
        if _are_unequal(shares):
            combination["parameters"] = {"weights": [*shares.values()]}
        processor = {"score-ranker-processor": {"combination": combination}}
    queries = {
        "hybrid": {"pagination_depth": first, "queries": [_placeholder_query(run, names) for run in shares]}
    }
    search = {"query": queries, "size": min(first, 100)}
    commands = (
        "# URL: address of the cluster\n"
        f'{_CURL} -X PUT "$URL/_search/pipeline/fused" --data-binary @pipeline.json\n'
        f'{_CURL} "$URL/{names.index}/_search?search_pipeline=fused" --data-binary @search.json\n'
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
        rankings = rank(fused_pool(runs, self.chosen, self.options), self.chosen.setting, hits=hits)
        return Reference(rankings, [len(runs.names)] * len(rankings), {*runs.docnos})


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
        [name, row["method"], f"{row[value]:.4f}", f"{row[value] - tuned[value]:+.4f}"]
        for name, row in (("tuned", tuned), (f"nearest of {HYBRIDS[engine].title}", best))
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


def _qdrant(
    shares: Mapping[str, float], scale: str | None, k: int, first: int, _names: Names
) -> dict[str, str]:
    """Write a script for qdrant-client; Qdrant's ranks begin at 0."""
    how, fused = f"Reciprocal ranks, k = {k}", f"models.RrfQuery(rrf=models.Rrf(k={k + 1}))  # ranks from 0"
    if scale is not None:
        how, parts = "Weighted scores", list(enumerate(shares.values()))
        terms = ", ".join(f'models.MultExpression(mult=[{share!r}, "$score[{n}]"])' for n, share in parts)
        defaults = {f"$score[{n}]": 0.0 for n, _ in parts}
        summed = f"models.SumExpression(sum=[{terms}])"
        fused = f"models.FormulaQuery(\n    formula={summed},\n    defaults={defaults},\n)"
    return {
        PYTHON: fill_template(
            "qdrant.py", how=how, using={run: run for run in shares}, first=first, fused=fused
        )
    }


def _lancedb(
    shares: Mapping[str, float], scale: str | None, k: int, first: int, _names: Names
) -> dict[str, str]:
    """Write a hybrid query for LanceDB."""
    how, name, arguments = f"Reciprocal ranks, k = {k}", "RRFReranker", f"K={k}"
    if scale is not None:
        how, name = "Weighted min-max scores", "LinearCombinationReranker"
        arguments = "weight=WEIGHTS[VECTOR], fill=1.0"
    text, vector = shares
    texts = {"how": how, "name": name, "arguments": arguments, "text": repr(text), "vector": repr(vector)}
    return {PYTHON: fill_template("lancedb.py", **texts, weights=dict(shares), first=first)}


_COMMON_REMARKS = (
    "Each query's scores are normalised over the documents that it returns: as many as the fused runs have.",
    "Scores are in single precision, and the engine orders documents of equal score in its own way.",
)
HYBRIDS = {
    "elasticsearch": Hybrid(
        "Elasticsearch",
        {"min-max": "minmax", "none": "none"},
        _elastic,
        (
            *_COMMON_REMARKS,
            "The linear retriever needs version 8.18 or 9.0. Versions before June 2025 do not normalise the "
            "score of a query's only document to 1. For vectors, replace a standard retriever by a knn one.",
        ),
        weighs_ranks="9.2",
        is_named=True,
    ),
    "opensearch": Hybrid(
        "OpenSearch",
        {"min-max": "min_max"},
        _opensearch,
        (*_COMMON_REMARKS, "The lowest score of a query becomes 0.001, in lmtune 0."),
        weighs_ranks="3.1",
        is_named=True,
        refused={"z-score": "OpenSearch's z_score sets all scores that are not above the mean to 0.001"},
    ),
    "qdrant": Hybrid(
        "Qdrant",
        {"none": "none"},
        _qdrant,
        (
            *_COMMON_REMARKS,
            "Qdrant's ranks begin at 0: its k is lmtune's plus 1. Tested with qdrant-client 1.20; older "
            "versions may lack these queries.",
            "Not used: Qdrant's weights of reciprocal ranks (they divide the rank), and its "
            "distribution-based fusion (no weights; a document that a query lacks scores 0).",
        ),
    ),
    "lancedb": Hybrid(
        "LanceDB",
        {"min-max": "score"},
        _lancedb,
        (
            *_COMMON_REMARKS,
            "LanceDB uses the distances of the vector query. A run of similarities is ranked the same if the "
            "distance falls linearly with the similarity (cosine, dot). If all texts have the same score, "
            "LanceDB normalises it to 0, lmtune to 1.",
            "Tested with LanceDB 0.40; check the first results of another version. A search returns at most "
            "as many documents as are fused from each query.",
        ),
        2,
    ),
}
"""The engines with hybrid queries by name, as in the option ``--to``."""
