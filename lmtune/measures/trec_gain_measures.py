"""trec_eval's experimental measures of gain, from the descriptions that it prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate, repeat
from operator import mul

from lmtune.measures.judged_ranking import JudgedRanking
from lmtune.measures.trec_measures import IdealGains, discounted, gains_of_levels


def binary_gain(ranking: JudgedRanking) -> float:
    """BinG: mean over relevant documents of 1 / log2(2 + documents above that are not relevant)."""
    total = 0.0
    for above, place in enumerate(ranking.relevant_places):
        total += 1.0 / math.log2(2 + place - above)
    return total / ranking.relevant if ranking.relevant else 0.0


def normalized_gain(ranking: JudgedRanking, gain_of: Mapping[int, float] | None = None) -> float:
    """G: gains discounted by log2(2 + the gain lost so far against the best ranking).

    As trec_eval 9.0.8 has it, the document itself counts as ranked, and every rank below the last
    relevant document of the best ranking adds 1 to what could have been gained.
    """
    gains = gains_of_levels(ranking, gain_of)
    ideal = IdealGains(ranking, gains).gains
    possible = list(accumulate(ideal, initial=0.0))
    total = so_far = 0.0
    for place, level in zip(ranking.places, ranking.gains, strict=True):
        gain = gains.get(level, 0.0)
        if gain:
            so_far += gain
            below = max(0, place + 1 - len(ideal))
            best = possible[min(place + 1, len(ideal))] + below
            total += gain / math.log2(2.0 + best - so_far)
    return total / possible[-1] if possible[-1] else 0.0


def ndcg_over_relevant(ranking: JudgedRanking, gain_of: Mapping[int, float] | None = None) -> float:
    """ndcg_rel: mean of nDCG at each place where the ranking reaches a relevant document."""
    gains = gains_of_levels(ranking, gain_of)
    ideal = IdealGains(ranking, gains)
    wanted = len(ideal.gains)
    if not wanted:
        return 0.0
    total = reached = 0.0
    found = 0
    for place, level in zip(ranking.places, ranking.gains, strict=True):
        gain = gains.get(level, 0.0)
        if not gain:
            continue
        reached += gain / math.log2(place + 2)
        if gain > 0:
            total += reached / ideal.down_to(place + 1)
            found += 1
    total += (wanted - found) * (reached / ideal.down_to(max(wanted, ranking.retrieved)))
    return total / wanted


def ndcg_at_levels(ranking: JudgedRanking, gain_of: Mapping[int, float] | None = None) -> float:
    """Rndcg: mean of nDCG where the best ranking changes from one gain to the next.

    As trec_eval 9.0.8 has it, the last change is at the end of the ranking, and counts where more
    than one document is ranked beyond the number of relevant ones.
    """
    gains = gains_of_levels(ranking, gain_of)
    ideal = IdealGains(ranking, gains)
    wanted = len(ideal.gains)
    if not wanted or not ranking.relevant:
        return 0.0
    cutoffs = [
        place
        for place in range(1, wanted + 1)
        if place == wanted or ideal.gains[place] != ideal.gains[place - 1]
    ]
    if ranking.retrieved > wanted + 1:
        cutoffs.append(ranking.retrieved)
    total = 0.0
    for cutoff in cutoffs:
        total += discounted(ranking, gains, cutoff) / ideal.down_to(cutoff)
    return total / len(cutoffs)


def discounted_gain(ranking: JudgedRanking, gain_of: Mapping[int, float] | None = None) -> float:
    """dcg: gains by log2(rank + 1), of the whole ranking."""
    return discounted(ranking, gains_of_levels(ranking, gain_of), None)


def ideal_discounted_gain(ranking: JudgedRanking, gain_of: Mapping[int, float] | None = None) -> float:
    """ideal_dcg: dcg of the best ranking."""
    return IdealGains(ranking, gains_of_levels(ranking, gain_of)).down_to(None)


def rank_biased_precision(ranking: JudgedRanking, persistence: float, gain_of: Mapping[int, float]) -> float:
    """rbp: (1 - p) times the sum of gain * p^(rank - 1), gains brought to 0 to 1 where they are beyond.

    trec_eval 10.0 leaves its first lowest and highest gain to chance; what it means, and prints as
    it is usually compiled, are those of the topic. Source: Moffat and Zobel, ACM TOIS 27, 2008.
    """
    gains = {0: 0.0, **gains_of_levels(ranking, None), **gain_of}
    low, high = min(gains.values()), max(gains.values())
    if low < 0 or high > 1:
        gains = {level: (gain - low) / (high - low) for level, gain in gains.items()}
    weights = _weights(persistence, ranking.retrieved)
    total = 0.0
    for place, level in zip(ranking.places, ranking.gains, strict=True):
        total += gains.get(level, 0.0) * weights[place]
    return (1.0 - persistence) * total


def rank_biased_residual(ranking: JudgedRanking, persistence: float) -> float:
    """rbp_resid: what rbp would gain if all documents without a judgement, and all below, had gain 1.

    As trec_eval 10.0 has it, 0 where every ranked document is judged.
    """
    judged = {place for place, level in zip(ranking.places, ranking.gains, strict=True) if level >= 0}
    if len(judged) == ranking.retrieved:
        return 0.0
    *weights, rest = _weights(persistence, ranking.retrieved)
    total = 0.0
    for place, weight in enumerate(weights):
        total += 0.0 if place in judged else weight
    return rest + (1.0 - persistence) * total


def _weights(persistence: float, ranks: int) -> list[float]:
    """Return p^0 to p^ranks, each from the one before, as trec_eval multiplies."""
    return list(accumulate(repeat(persistence, ranks), mul, initial=1.0))
