"""Measures estimated from judgements that are a sample of a pool, stratum by stratum.

Source: Yilmaz, Kanoulas and Aslam, A simple and efficient sampling method for estimating AP and NDCG,
SIGIR 2008. What the paper leaves open is as in NIST's sample_eval of October 2011: the smoothing, the
whole numbers of documents in the best ranking, and that 1,000 documents of a topic count.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from lmtune.errors import InputError
from lmtune.measures.judged_ranking import JudgedRanking, Sample
from lmtune.measures.trec_measures import IdealGains, gains_of_levels

_DEEPEST = 1000
_SMALLEST_RATE = 1e-5  # keeps the precision of a stratum without judged documents defined


def average_precision(ranking: JudgedRanking) -> float:
    """Estimate AP, as xinfAP: each stratum's relevant documents count for those that were not sampled.

    The precision above a relevant document is each stratum's, estimated from what is judged above it.
    """
    sample = _sample_of(ranking)
    sizes = _sizes(sample)
    pooled: Counter[bytes] = Counter()
    judged: Counter[bytes] = Counter()
    relevant: Counter[bytes] = Counter()
    total = 0.0
    for place, gain, stratum in _best(ranking, sample):
        if gain >= ranking.level:
            above = sum(
                count * (relevant[own] + _SMALLEST_RATE) / (judged[own] + 3 * _SMALLEST_RATE)
                for own, count in pooled.items()
            )
            size, sampled = sizes[stratum]
            total += (1.0 + above) / (place + 1) * size / sampled
            relevant[stratum] += 1
        pooled[stratum] += 1
        judged[stratum] += gain >= 0
    whole = sum(count for gain, count in _estimated(sample).items() if gain >= ranking.level)
    return total / whole if whole else 0.0


def ndcg(ranking: JudgedRanking, *, exponential: bool = False) -> float:
    """Estimate nDCG, as infNDCG: a stratum's DCG by the part of its ranked documents that was sampled.

    The best ranking has as many documents of each gain as are estimated, to the nearest whole number.
    """
    sample = _sample_of(ranking)
    gains = gains_of_levels(ranking, exponential=exponential)
    pooled: Counter[bytes] = Counter()
    judged: Counter[bytes] = Counter()
    reached = dict.fromkeys(sample.pool, 0.0)
    for place, gain, stratum in _best(ranking, sample):
        pooled[stratum] += 1
        judged[stratum] += gain >= 0
        reached[stratum] += gains.get(gain, 0.0) / math.log2(place + 2)
    total = sum(value * pooled[own] / judged[own] for own, value in reached.items() if value)
    counts = {gain: int(count + 0.5) for gain, count in _estimated(sample).items()}
    ideal = IdealGains(ranking._replace(judged=counts), gains).down_to(_DEEPEST)
    return total / ideal if ideal else 0.0


def _sample_of(ranking: JudgedRanking) -> Sample:
    if ranking.sample is None:
        accepted = "with `evaluate` and `compare`, a file of lines of topic, iteration, docno, stratum, gain"
        raise InputError(
            "judgements without strata, from which xinfAP and infNDCG estimate", accepted=accepted
        )
    return ranking.sample


def _best(ranking: JudgedRanking, sample: Sample) -> Iterator[tuple[int, int, bytes]]:
    """Yield places, gains and strata of the pool's documents among those that count."""
    end = bisect_left(ranking.places, _DEEPEST)
    return zip(ranking.places[:end], ranking.gains, sample.strata, strict=False)


def _sizes(sample: Sample) -> dict[bytes, tuple[int, int]]:
    """Return how many documents of each stratum were pooled, and how many of these judged."""
    return {
        stratum: (sum(counts.values()), sum(count for gain, count in counts.items() if gain >= 0))
        for stratum, counts in sample.pool.items()
    }


def _estimated(sample: Sample) -> dict[int, float]:
    """Estimate how many documents of the pool have each gain; of strata without judgements none."""
    totals: dict[int, float] = {}
    for counts, (pooled, judged) in zip(sample.pool.values(), _sizes(sample).values(), strict=True):
        for gain, count in counts.items():
            if gain >= 0:
                totals[gain] = totals.get(gain, 0.0) + count * pooled / judged
    return totals
