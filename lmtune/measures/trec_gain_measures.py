"""trec_eval's experimental measures of gain, from the descriptions that it prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate

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
