"""Fused runs as engines' hybrid queries: weights and normalisation of what `lmtune fuse` chose."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lmtune.engines.deployment import INDEX, README
from lmtune.errors import InputError, check_choice
from lmtune.fusion.methods import Chosen, FusionOptions

_SUMS = ("linear", "shrunk", "forward", "equal", "combsum")
_BY_RANK = ("rrf", "rrf-k")
_CURL = "curl --fail-with-body -H 'Content-Type: application/json'"


class Hybrid(NamedTuple):
    """An engine's way to fuse queries.

    Attributes
    ----------
    title : str
    normalisations : mapping of str to str
        Those of lmtune that it has, by its names.
    write : callable
        Gives its files: of the runs' shares, its normalisation or None for reciprocal ranks, RRF's k, and
        how many documents of each query count.
    remarks : tuple of str
        What is not exact.
    """

    title: str
    normalisations: Mapping[str, str]
    write: Callable[[Mapping[str, float], str | None, int, int], dict[str, str]]
    remarks: tuple[str, ...]


def deploy_fusion(engine: str, chosen: Chosen, options: FusionOptions) -> dict[str, str]:
    """Write what fuses runs as an engine's hybrid query.

    Parameters
    ----------
    engine : str
        One of `HYBRIDS`.
    chosen, options
        As `lmtune.fusion.methods.kept_fusion` reads them.

    Returns
    -------
    dict of str to str
        Texts by the files' names, `README` first.

    Raises
    ------
    InputError
        For another engine, and a method or a normalisation that the engine has not.
    """
    check_choice("no hybrid queries are known of this engine", engine, HYBRIDS)
    target, normalise = HYBRIDS[engine], chosen.normalise or options.normalise
    by_rank = chosen.method in _BY_RANK
    if not by_rank and (chosen.method not in _SUMS or chosen.powers):
        accepted = f"results of --method {', '.join((*_SUMS, *_BY_RANK))}"
        raise InputError(f"{target.title} cannot express the method", value=chosen.method, accepted=accepted)
    if not by_rank and normalise not in target.normalisations:
        accepted = f"results of --normalise {', '.join(target.normalisations)}"
        raise InputError(f"{target.title} has no such normalisation", value=normalise, accepted=accepted)
    k = chosen.constant or options.rrf_k
    if by_rank and (k < 1.0 or k != int(k)):
        raise InputError(f"{target.title} takes whole numbers for RRF's k", value=k, accepted="1, 2 ...")
    first = chosen.window or options.depth
    scale = None if by_rank else target.normalisations[normalise]
    files = target.write(chosen.shares, scale, int(k), first)
    weights = ", ".join(f"{run} {share:.4g}" for run, share in chosen.shares.items())
    how = f"reciprocal ranks, k = {k:g}" if by_rank else f"{normalise} scores, weights {weights}"
    lines = [f"{target.title}: {chosen.method} by {how}, the first {first} of each query", "", "Not exact:"]
    lines += [f"- {remark}" for remark in target.remarks]
    return {README: "\n".join(lines) + "\n", **files}


def _query_of(run: str) -> dict[str, Any]:
    return {"match": {"contents": f"YOUR WORDS; put here the query that makes {run}"}}


def _elastic(shares: Mapping[str, float], scale: str | None, k: int, first: int) -> dict[str, str]:
    """Write a search with a retriever of retrievers."""
    parts: list[dict[str, Any]] = [{"standard": {"query": _query_of(run)}} for run in shares]
    if scale is None:
        fused = {"rrf": {"retrievers": parts, "rank_constant": k, "rank_window_size": first}}
    else:
        weighed = [
            {"retriever": part, "weight": share, "normalizer": scale}
            for part, share in zip(parts, shares.values(), strict=True)
        ]
        fused = {"linear": {"retrievers": weighed, "rank_window_size": first}}
    search = {"retriever": fused, "size": min(first, 100)}
    commands = f'# URL is the cluster\'s\n{_CURL} "$URL/{INDEX}/_search" --data-binary @search.json\n'
    return {"search.json": json.dumps(search, indent=2) + "\n", "commands.sh": commands}


def _opensearch(shares: Mapping[str, float], scale: str | None, k: int, first: int) -> dict[str, str]:
    """Write a search pipeline and a hybrid query."""
    processor: dict[str, Any] = {
        "normalization-processor": {
            "normalization": {"technique": scale},
            "combination": {"technique": "arithmetic_mean", "parameters": {"weights": [*shares.values()]}},
        }
    }
    if scale is None:
        processor = {"score-ranker-processor": {"combination": {"technique": "rrf", "rank_constant": k}}}
    queries = {"hybrid": {"pagination_depth": first, "queries": [_query_of(run) for run in shares]}}
    search = {"query": queries, "size": min(first, 100)}
    commands = (
        f"# URL is the cluster's\n"
        f'{_CURL} -X PUT "$URL/_search/pipeline/fused" --data-binary @pipeline.json\n'
        f'{_CURL} "$URL/{INDEX}/_search?search_pipeline=fused" --data-binary @search.json\n'
    )
    files = {"pipeline.json": {"phase_results_processors": [processor]}, "search.json": search}
    return {name: json.dumps(own, indent=2) + "\n" for name, own in files.items()} | {"commands.sh": commands}


_ALIKE = (
    "Each query's scores are normalised over what it returns: as many documents as the fused runs had.",
    "Scores are in single precision, and documents of equal score come in the engine's own order.",
)
HYBRIDS = {
    "elasticsearch": Hybrid(
        "Elasticsearch",
        {"min-max": "minmax", "none": "none"},
        _elastic,
        (*_ALIKE, "The linear retriever needs 8.18 or 9.0. Vectors: put a knn retriever for a standard one."),
    ),
    "opensearch": Hybrid(
        "OpenSearch",
        {"min-max": "min_max", "z-score": "z_score"},
        _opensearch,
        (
            *_ALIKE,
            "The least score of a query is a little above 0 in some versions; with z_score (3.0 and later) "
            "what a query does not return is no minimum of its own, as it is here.",
        ),
    ),
}
"""By the name that ``--to`` takes."""
