"""Search engines' fusion in plain Python, written from their published sources, one document at a time.

A query's answer is a list of (document, score), best first. Numbers are rounded to single precision after
every operation where the engine computes with floats.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal

Hits = list[tuple[str, float]]

TINY = 2.0**-149


def f32(x: float) -> float:
    """Round to single precision."""
    return float(struct.unpack("f", struct.pack("f", x))[0])


def best_first(run: dict[str, float], window: int = 0) -> Hits:
    """Return documents by score; ties by docno, the last one first."""
    hits = sorted(((f32(score), docno) for docno, score in run.items()), reverse=True)
    return [(docno, score) for score, docno in hits[: window or None]]


# OpenSearch: MinMaxScoreNormalizationTechnique, LowerBound


def opensearch_min_max(hits: Hits, mode: str = "", bound: float = 0.0) -> Hits:
    least = min((s for _, s in hits), default=0.0)
    most = max([TINY, *(s for _, s in hits)])
    out = []
    for docno, s in hits:
        if most == least and most == s:
            out.append((docno, 1.0))
            continue
        low = least
        if mode == "apply" and most > bound and s > bound:
            low = bound
        if mode == "clip":
            low = least if most < bound else bound
            if s < low:
                out.append((docno, f32(0.001)))
                continue
        if most == low:
            out.append((docno, 1.0))
            continue
        value = f32(f32(s - low) / f32(most - low))
        out.append((docno, f32(0.001) if value == 0.0 else value))
    return out


def opensearch_l2(hits: Hits) -> Hits:
    total = 0.0
    for _, s in hits:
        total = f32(total + f32(s * s))
    norm = f32(math.sqrt(total))
    return [(docno, 0.0 if norm == 0.0 else f32(s / norm)) for docno, s in hits]


def opensearch_z_score(hits: Hits) -> Hits:
    n = len(hits)
    if not n:
        return []
    exact = math.fsum(s for _, s in hits) / n
    mean = f32(exact)
    sd = f32(math.sqrt(math.fsum((s - exact) ** 2 for _, s in hits) / (n - 1))) if n > 1 else 0.0
    out = []
    for docno, s in hits:
        if s == mean:
            out.append((docno, max(v for _, v in hits)))
        elif sd == 0.0:
            out.append((docno, min(v for _, v in hits)))
        else:
            z = f32(f32(s - mean) / sd)
            out.append((docno, f32(0.001) if z <= 0.0 else z))
    return out


def arithmetic_mean(scores: Sequence[float], weights: Sequence[float]) -> float:
    total = count = 0.0
    for s, w in zip(scores, weights, strict=True):
        if s >= 0.0:
            total = f32(total + f32(s * w))
            count = f32(count + w)
    return 0.0 if count == 0.0 else f32(total / count)


def geometric_mean(scores: Sequence[float], weights: Sequence[float]) -> float:
    total = count = 0.0
    for s, w in zip(scores, weights, strict=True):
        if s <= 0.0:
            continue
        count = f32(count + w)
        total = f32(total + w * math.log(s))
    return 0.0 if count == 0.0 else f32(math.exp(f32(total / count)))


def harmonic_mean(scores: Sequence[float], weights: Sequence[float]) -> float:
    total = count = 0.0
    for s, w in zip(scores, weights, strict=True):
        if s <= 0.0:
            continue
        count = f32(count + w)
        total = f32(total + f32(w / s))
    return f32(count / total) if total > 0.0 else 0.0


def weighted_sum(scores: Sequence[float], weights: Sequence[float]) -> float:
    total = 0.0
    for s, w in zip(scores, weights, strict=True):
        total = f32(total + f32(w * s))
    return total


def opensearch_reciprocal(hits: Hits, k: int) -> Hits:
    tenth = Decimal("1e-10")
    return [
        (docno, f32(float((Decimal(1) / (k + place + 1)).quantize(tenth, ROUND_HALF_UP))))
        for place, (docno, _) in enumerate(hits)
    ]


# Elasticsearch: MinMaxScoreNormalizer, L2ScoreNormalizer, LinearRetrieverBuilder, RRFRetrieverBuilder


def elastic_minmax(hits: Hits) -> Hits:
    least, most = min((s for _, s in hits), default=0.0), max([TINY, *(s for _, s in hits)])
    same = abs(f32(least - most)) < f32(1e-6)
    return [(docno, 1.0 if same else f32(f32(s - least) / f32(most - least))) for docno, s in hits]


def elastic_l2(hits: Hits) -> Hits:
    norm = math.sqrt(sum(f32(s * s) for _, s in hits))
    return hits if norm < f32(1e-6) else [(docno, f32(s / norm)) for docno, s in hits]


def elastic_reciprocal(hits: Hits, k: int) -> Hits:
    return [(docno, f32(1.0 / (k + place))) for place, (docno, _) in enumerate(hits, 1)]


# Qdrant: score_fusion.rs, reciprocal_rank_fusion.rs


def qdrant_distribution(hits: Hits) -> Hits:
    if len(hits) < 2:
        return [(docno, 0.5) for docno, _ in hits]
    mean = aggregate = 0.0
    for k, (_, s) in enumerate(hits, 1):
        old = f32(s - mean)
        mean = f32(mean + f32(old / k))
        aggregate = f32(aggregate + f32(old * f32(s - mean)))
    sd = f32(math.sqrt(f32(aggregate / (len(hits) - 1))))
    low, high = f32(mean - f32(3.0 * sd)), f32(mean + f32(3.0 * sd))
    return [(docno, 0.5 if low == high else f32(f32(s - low) / f32(high - low))) for docno, s in hits]


def qdrant_rrf(runs: Sequence[Hits], weights: Sequence[float], k: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for hits, weight in zip(runs, weights, strict=True):
        w = f32(weight)
        for position, (docno, _) in enumerate(hits):
            added = f32(1.0 / f32(f32(f32((position + 1) / w) + k) - 1.0)) if w > 0.0 else 0.0
            found[docno] = f32(found.get(docno, 0.0) + added)
    return found


def double_sum(scores: Sequence[float], weights: Sequence[float]) -> float:
    return f32(sum(w * s for s, w in zip(scores, weights, strict=True)))


# Weaviate: hybrid_fusion.go


def weaviate_relative(hits: Hits) -> Hits:
    least, most = min((s for _, s in hits), default=0.0), max((s for _, s in hits), default=0.0)
    return [(docno, 1.0 if least == most else f32(f32(s - least) / f32(most - least))) for docno, s in hits]


def weaviate_ranked(runs: Sequence[Hits], weights: Sequence[float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for hits, weight in zip(runs, weights, strict=True):
        for i, (docno, _) in enumerate(hits):
            found[docno] = f32(f32(weight / (i + 60)) + found.get(docno, 0.0))
    return found


# Milvus: util.go


def milvus(metric: str) -> Callable[[Hits], Hits]:
    def atan(s: float) -> float:
        return f32(math.atan(s))

    pi = f32(math.pi)
    own: dict[str, Callable[[float], float]] = {
        "COSINE": lambda s: f32(f32(1.0 + s) * 0.5),
        "IP": lambda s: f32(0.5 + f32(atan(s) / pi)),
        "BM25": lambda s: f32(f32(2.0 * atan(s)) / pi),
        "none": lambda s: s,
    }
    return lambda hits: [(docno, own[metric](s)) for docno, s in hits]


# Vespa: LinearNormalizer, ReciprocalRankNormalizer


def vespa_linear(hits: Hits) -> Hits:
    least, most = min((s for _, s in hits), default=0.0), max((s for _, s in hits), default=0.0)
    scale, middle = (1.0 / (most - least), (least + most) * 0.5) if most > least else (0.0, 0.0)
    return [(docno, 0.5 + scale * (s - middle)) for docno, s in hits]


def double_reciprocal(hits: Hits, k: float) -> Hits:
    return [(docno, 1.0 / (k + place)) for place, (docno, _) in enumerate(hits, 1)]


# LanceDB: query.py, linear_combination.py


def lance_normalised(scores: list[float]) -> list[float]:
    least, most = min(scores, default=0.0), max(scores, default=0.0)
    span = f32(most - least)
    if span != 0.0:
        return [f32(f32(s - least) / span) for s in scores]
    return [f32(s - least) for s in scores] if most != 0.0 else scores


def lance(hits: Hits, by: str, *, is_vector: bool) -> Hits:
    numbers = [-s if is_vector else s for _, s in hits]
    if by == "rank":
        numbers = [float(n) for n in range(1, len(hits) + 1)]
        numbers = numbers if is_vector else numbers[::-1]
    values = lance_normalised(numbers)
    values = [1.0 - v for v in values] if is_vector else values
    return [(docno, v) for (docno, _), v in zip(hits, values, strict=True)]


SCALES: dict[str, dict[str, Callable[[Hits], Hits]]] = {
    "opensearch": {
        "min_max": opensearch_min_max,
        "min_max apply 0": lambda hits: opensearch_min_max(hits, "apply"),
        "min_max clip 0": lambda hits: opensearch_min_max(hits, "clip"),
        "l2": opensearch_l2,
        "z_score": opensearch_z_score,
    },
    "elasticsearch": {"minmax": elastic_minmax, "l2_norm": elastic_l2, "none": lambda hits: hits},
    "qdrant": {"distribution": qdrant_distribution, "none": lambda hits: hits},
    "weaviate": {"relative": weaviate_relative},
    "milvus": {metric: milvus(metric) for metric in ("none", "COSINE", "IP", "BM25")},
    "vespa": {"normalize_linear": vespa_linear},
}
SUMS: dict[str, Callable[[Sequence[float], Sequence[float]], float]] = {
    "arithmetic_mean": arithmetic_mean,
    "geometric_mean": geometric_mean,
    "harmonic_mean": harmonic_mean,
    "linear": weighted_sum,
    "relativeScoreFusion": weighted_sum,
    "weighted": weighted_sum,
    "dbsf": weighted_sum,
    "rrf": weighted_sum,
}
RECIPROCALS: dict[str, Callable[[Hits, int], Hits]] = {
    "opensearch": opensearch_reciprocal,
    "elasticsearch": elastic_reciprocal,
    "milvus": elastic_reciprocal,
    "vespa": double_reciprocal,
    "lancedb": double_reciprocal,
}


def fuse(
    engine: str, normalise: str, combine: str, constant: float, weights: Sequence[float], runs: Sequence[Hits]
) -> dict[str, float]:
    """Return the engine's scores by document; weights are 1 where the engine has none."""
    if engine == "qdrant" and combine.startswith("rrf"):
        return qdrant_rrf(runs, weights, 1 if combine.endswith("= 1") else int(constant))
    if engine == "weaviate" and combine == "rankedFusion":
        return weaviate_ranked(runs, weights)
    in_double = engine in ("vespa", "lancedb") or combine == "formula"
    if not normalise:
        values = [RECIPROCALS[engine](hits, int(constant)) for hits in runs]
    elif engine == "lancedb":
        values = [lance(hits, normalise, is_vector=bool(n)) for n, hits in enumerate(runs)]
    else:
        names = normalise.split(",") * (len(runs) // len(normalise.split(",")))
        values = [SCALES[engine][name](hits) for name, hits in zip(names, runs, strict=True)]
    by_run = [dict(hits) for hits in values]
    combined = double_sum if in_double else SUMS[combine]
    own = list(weights) if in_double else [f32(w) for w in weights]
    docnos = dict.fromkeys(docno for hits in runs for docno, _ in hits)
    return {docno: combined([scores.get(docno, 0.0) for scores in by_run], own) for docno in docnos}
