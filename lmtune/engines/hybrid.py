"""Fused runs as engines' hybrid queries: weights and normalisation of what `lmtune fuse` chose."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lmtune.candidates.ranking import rank
from lmtune.engines.checking import Ours, Run
from lmtune.engines.deployment import PYTHON, README, USUAL_NAMES, Names, fill_template
from lmtune.errors import InputError, PathLike, check_choice
from lmtune.fusion.methods import METHODS, SCALES, Chosen, FusionOptions, for_runs, fused_pool, kept_fusion
from lmtune.fusion.runs import ZERO, RunSet
from lmtune.io.digests import read_json
from lmtune.io.runs import read_run
from lmtune.measures.significance.comparison import named_files
from lmtune.report.table import Table

_SUMS = ("linear", "shrunk", "forward", "equal", "combsum")
_BY_RANK = ("rrf", "rrf-k", "rrf-tuned")
_CURL = "curl --fail-with-body -H 'Content-Type: application/json'"


class Hybrid(NamedTuple):
    """An engine's way to fuse queries.

    Attributes
    ----------
    title : str
    normalisations : mapping of str to str
        Those of lmtune that it has, by its names.
    write : callable
        Gives its files: of the runs' shares, its normalisation or None for reciprocal ranks, RRF's k,
        how many documents of each query count, and the names of the index and its field.
    remarks : tuple of str
        What is not exact.
    queries : int
        How many queries it fuses; 0 for any number.
    weighs_ranks : str
        The version since which reciprocal ranks have weights; empty where they have none.
    is_named : bool
        Whether its files name an index and a field.
    refused : mapping of str to str
        Why it has not a normalisation that it seems to have.
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
    """Write what fuses runs as an engine's hybrid query.

    Parameters
    ----------
    engine : str
        One of `HYBRIDS`.
    chosen, options
        As `lmtune.fusion.methods.kept_fusion` reads them.
    names : Names, optional
        Those of the index and of the field in the queries to replace.

    Returns
    -------
    dict of str to str
        Texts by the files' names, `README` first.

    Raises
    ------
    InputError
        For another engine, and a method, a normalisation or a number of runs that the engine has not.
    """
    check_choice("no hybrid queries are known of this engine", engine, HYBRIDS)
    if chosen.single_run is not None:
        raise InputError(
            "a single run is recommended, there is nothing to fuse",
            value=chosen.single_run,
            accepted=f"--method {', '.join((*_SUMS, *_BY_RANK))}, where it was tried",
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
    lines = [f"{target.title}: {chosen.method} by {how}, the first {first} of each query", "", "Not exact:"]
    lines += [f"- {remark}" for remark in remarks]
    return {README: "\n".join(lines) + "\n", **files}


def _check_ranks(target: Hybrid, chosen: Chosen, k: float) -> None:
    """Raise `InputError` where an engine cannot fuse by reciprocal ranks so."""
    if k < 1.0 or k != int(k):
        raise InputError(f"{target.title} takes whole numbers for RRF's k", value=k, accepted="1, 2 ...")
    if _are_unequal(chosen.weights) and not target.weighs_ranks:
        raise InputError(
            f"{target.title} cannot multiply reciprocal ranks by weights",
            value=chosen.shares,
            accepted="results of --method rrf, rrf-k",
        )


def _check_scores(target: Hybrid, chosen: Chosen, normalise: str, missing: str) -> None:
    """Raise `InputError` where an engine cannot add up normalised scores so."""
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
    """Say how many documents the runs had, where one number for all queries is not exact."""
    if not depths:
        return [f"How deep the runs were is not known: {first} is the depth of the fused run."]
    if len({*depths.values()}) == 1:
        return []
    counted = ", ".join(f"{run} {depth}" for run, depth in depths.items())
    return [f"The runs had other numbers of documents ({counted}): {first} of each query count here."]


def _query_of(run: str, names: Names) -> dict[str, Any]:
    return {"match": {names.field: f"YOUR WORDS; put here the query that makes {run}"}}


def _elastic(
    shares: Mapping[str, float], scale: str | None, k: int, first: int, names: Names
) -> dict[str, str]:
    """Write a search with a retriever of retrievers."""
    parts: list[dict[str, Any]] = [{"standard": {"query": _query_of(run, names)}} for run in shares]
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
    commands = f'# URL is the cluster\'s\n{_CURL} "$URL/{names.index}/_search" --data-binary @search.json\n'
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
    queries = {"hybrid": {"pagination_depth": first, "queries": [_query_of(run, names) for run in shares]}}
    search = {"query": queries, "size": min(first, 100)}
    commands = (
        f"# URL is the cluster's\n"
        f'{_CURL} -X PUT "$URL/_search/pipeline/fused" --data-binary @pipeline.json\n'
        f'{_CURL} "$URL/{names.index}/_search?search_pipeline=fused" --data-binary @search.json\n'
    )
    files = {"pipeline.json": {"phase_results_processors": [processor]}, "search.json": search}
    return {name: json.dumps(own, indent=2) + "\n" for name, own in files.items()} | {"commands.sh": commands}


class FusedRuns(NamedTuple):
    """What `lmtune fuse` chose, and the runs that it is applied to.

    Attributes
    ----------
    chosen : Chosen
        By these runs' names.
    options : FusionOptions
    measures : list of str
        Those that were fused for.
    qrels : pathlib.Path
    runs : dict of str to run
        Scores by topic and docno.
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
        """Read what ``lmtune fuse --format json`` printed, and its files: judgments, then runs."""
        chosen, options = kept_fusion(path, measure=measure, method=method)
        qrels, *runs = files
        given: dict[str, Run] = {name: read_run(file) for name, file in named_files(runs).items()}
        measures = dict.fromkeys(row["measure"] for row in read_json(path, {"rows": list})["rows"])
        return cls(for_runs(chosen, RunSet.of(given)), options, [*measures], qrels, given)

    def ours(self, hits: int) -> Ours:
        """Fuse the runs, as many ranks deep."""
        runs = RunSet.of(self.runs)
        rankings = rank(fused_pool(runs, self.chosen, self.options), self.chosen.setting, hits=hits)
        return Ours(rankings, [len(runs.names)] * len(rankings), {*runs.docnos})


def fusion_cost(path: PathLike, engine: str, chosen: Chosen, options: FusionOptions) -> Table | None:
    """Compare the fusion in a file with the best one there that an engine can express, by what `fuse` kept.

    Parameters
    ----------
    path : path-like
        What ``lmtune fuse --format json`` printed.
    engine : str
        One of `HYBRIDS`.
    chosen, options
        What `lmtune.fusion.methods.kept_fusion` read.

    Returns
    -------
    Table or None
        A line each, of the first measure, None where the engine can express none of its rows.
    """
    content = read_json(path, {"rows": list})
    rows = [row for row in content["rows"] if row["measure"] == content["rows"][0]["measure"]]
    named = [row for row in rows if row["method"] == chosen.method]
    tuned = next((row for row in named if chosen.single_run in (None, *row["weights"])), None)
    able = [row for row in rows if _is_expressed(row, engine, options)]
    if tuned is None or not able:
        return None
    value = "in_sample" if tuned["held_out"] is None else "held_out"
    best = max(able, key=lambda row: float(row[value]))
    shown = [
        [name, row["method"], f"{row[value]:.4f}", f"{row[value] - tuned[value]:+.4f}"]
        for name, row in (("tuned", tuned), (f"nearest of {HYBRIDS[engine].title}", best))
    ]
    names = ["", "method", f"{tuned['measure']}, {value.replace('_', ' ')}", "difference"]
    return Table.of(names, (), [shown], "What the nearest fusion costs.")


def _is_expressed(row: Mapping[str, Any], engine: str, options: FusionOptions) -> bool:
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
    """Write a call of qdrant-client, whose ranks begin at 0."""
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
    """Write a hybrid query of LanceDB."""
    how, name, given = f"Reciprocal ranks, k = {k}", "RRFReranker", f"K={k}"
    if scale is not None:
        how, name = "Weighted min-max scores", "LinearCombinationReranker"
        given = "weight=WEIGHTS[VECTOR], fill=1.0"
    text, vector = shares
    named = {"how": how, "name": name, "given": given, "text": repr(text), "vector": repr(vector)}
    return {PYTHON: fill_template("lancedb.py", **named, weights=dict(shares), first=first)}


_ALIKE = (
    "Each query's scores are normalised over what it returns: as many documents as the fused runs had.",
    "Scores are in single precision, and documents of equal score come in the engine's own order.",
)
HYBRIDS = {
    "elasticsearch": Hybrid(
        "Elasticsearch",
        {"min-max": "minmax", "none": "none"},
        _elastic,
        (
            *_ALIKE,
            "The linear retriever needs 8.18 or 9.0; those of before June 2025 give a query's only document "
            "its raw score, not 1. Vectors: put a knn retriever for a standard one.",
        ),
        weighs_ranks="9.2",
        is_named=True,
    ),
    "opensearch": Hybrid(
        "OpenSearch",
        {"min-max": "min_max"},
        _opensearch,
        (*_ALIKE, "The least score of a query becomes 0.001, here 0."),
        weighs_ranks="3.1",
        is_named=True,
        refused={"z-score": "whose z_score makes 0.001 of all scores that are not above the mean"},
    ),
    "qdrant": Hybrid(
        "Qdrant",
        {"none": "none"},
        _qdrant,
        (
            *_ALIKE,
            "Its k is ours + 1, since its ranks begin at 0. Tried with qdrant-client 1.20: older ones "
            "may lack these queries.",
            "Not used: its weights of reciprocal ranks are no factors (they divide the rank), its "
            "distribution-based fusion has no weights and gives 0 to what a query lacks.",
        ),
    ),
    "lancedb": Hybrid(
        "LanceDB",
        {"min-max": "score"},
        _lancedb,
        (
            *_ALIKE,
            "Of the vector query it takes distances: a run of similarities ranks alike where these fall "
            "linearly with them (cosine, dot). Where all texts have one score they count 0, here 1.",
            "Tried with LanceDB 0.40; look at the first answers of another version. "
            "No more documents come than of each query count.",
        ),
        2,
    ),
}
"""By the name that ``--to`` takes."""
