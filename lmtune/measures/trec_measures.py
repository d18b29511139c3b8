"""trec_eval's measures of one topic, from their published definitions.

Sums are taken in rank order in double precision, as trec_eval 9.0.8 takes them. All values are 0
for a topic without relevant documents, but for ``P`` and ``utility``. Sources: the descriptions
that ``trec_eval -h -m all_trec`` prints; bpref: Buckley and Voorhees, SIGIR 2004; infAP: Yilmaz
and Aslam, CIKM 2006; nDCG: Järvelin and Kekäläinen, ACM TOIS 20, 2002.

xinfAP and infNDCG are estimated from judgments that are a sample of a pool, stratum by stratum (Yilmaz,
Kanoulas and Aslam, A simple and efficient sampling method for estimating AP and NDCG, SIGIR 2008). What the
paper leaves open is as in NIST's sample_eval of October 2011: the smoothing, the whole numbers of documents
in the best ranking, and that 1,000 documents of a topic count.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, repeat
from operator import mul

from lmtune.errors import InputError
from lmtune.measures.judged_ranking import JudgedRanking, Sample

LARGEST_POWER = 1000.0
"""Of 2 in gains of 2^g - 1; larger ones are scaled down."""
_ERR_SCALE = 4  # gdeval's largest gain
_SMALLEST_RATE = 1e-5  # keeps the precision of no judged documents defined


def precision(ranking: JudgedRanking, cutoffs: Sequence[int]) -> list[float]:
    """Relevant documents among the best k, by k, however few are ranked."""
    return [ranking.found(k) / k for k in cutoffs]


def recall(ranking: JudgedRanking, cutoffs: Sequence[int]) -> list[float]:
    """Relevant documents among the best k, by all relevant ones."""
    return [_ratio(ranking.found(k), ranking.relevant) for k in cutoffs]


def relative_precision(ranking: JudgedRanking, cutoffs: Sequence[int]) -> list[float]:
    """Precision at k by the highest that is possible."""
    return [_ratio(ranking.found(k), min(k, ranking.relevant)) for k in cutoffs]


def success(ranking: JudgedRanking, cutoffs: Sequence[int]) -> list[float]:
    """Whether a relevant document is among the best k."""
    return [float(ranking.found(k) > 0) for k in cutoffs]


def r_precision(ranking: JudgedRanking, multiples: Sequence[float] = (1.0,)) -> list[float]:
    """Precision at multiples of the number of relevant documents."""
    cutoffs = [recall_cutoff(x, ranking.relevant) for x in multiples]
    return [_ratio(ranking.found(k), k) for k in cutoffs]


def recall_cutoff(part: float, relevant: int) -> int:
    """Return how many of `relevant` documents make up a part, as trec_eval up to 9.0.8 rounds."""
    return int(part * relevant + 0.9)


def nearest_recall_cutoff(part: float, relevant: int) -> int:
    """Return how many of `relevant` documents are nearest to a part, halves up, as 10.0 rounds."""
    exact = part * relevant
    return int(exact) + (exact - int(exact) >= 0.5)


def average_precision(ranking: JudgedRanking, cutoffs: Sequence[int | None] = (None,)) -> list[float]:
    """Average precision; documents below a cutoff do not count."""
    return [_ratio(_summed_precision(ranking, cutoff), ranking.relevant) for cutoff in cutoffs]


def _summed_precision(ranking: JudgedRanking, cutoff: int | None) -> float:
    total = 0.0
    for count, place in enumerate(ranking.relevant_places, 1):
        if cutoff is not None and place >= cutoff:
            break
        total += count / (place + 1)
    return total


def interpolated_precision(
    ranking: JudgedRanking, recalls: Sequence[float], cutoff: Callable[[float, int], int] = recall_cutoff
) -> list[float]:
    """Highest precision at or below the place where a part of the relevant documents is reached."""
    best = [0.0] * (len(ranking.relevant_places) + 1)
    for count in range(len(ranking.relevant_places), 0, -1):
        here = count / (ranking.relevant_places[count - 1] + 1)
        best[count - 1] = max(here, best[count])
    values = []
    for part in recalls:
        count = max(1, cutoff(part, ranking.relevant))
        values.append(best[count - 1] if count <= len(ranking.relevant_places) else 0.0)
    return values


def mean_interpolated_precision(
    ranking: JudgedRanking, recalls: Sequence[float], cutoff: Callable[[float, int], int] = recall_cutoff
) -> list[float]:
    """Mean of the interpolated precision over points of recall."""
    total = 0.0
    for value in reversed(interpolated_precision(ranking, recalls, cutoff)):
        total += value
    return [total / len(recalls)]


def reciprocal_rank(ranking: JudgedRanking, cutoffs: Sequence[int | None] = (None,)) -> list[float]:
    """1 by the rank of the first relevant document."""
    first = ranking.relevant_places[0] + 1 if ranking.relevant_places else math.inf
    return [1.0 / first if cutoff is None or first <= cutoff else 0.0 for cutoff in cutoffs]


def binary_preference(ranking: JudgedRanking) -> float:
    """Bpref: how rarely judged nonrelevant documents stand above relevant ones."""
    total = 0.0
    above = 0
    limit = min(ranking.relevant, ranking.nonrelevant)
    for gain in ranking.gains:
        if gain >= ranking.level:
            total += 1.0 - min(ranking.relevant, above) / limit if above else 1.0
        elif gain >= 0:
            above += 1
    return _ratio(total, ranking.relevant)


def inferred_average_precision(ranking: JudgedRanking) -> float:
    """Average precision estimated from a pool that was judged in part (negative gains: not)."""
    total = 0.0
    relevant = nonrelevant = 0
    for pooled, (place, gain) in enumerate(zip(ranking.places, ranking.gains, strict=True)):
        if gain >= ranking.level:
            if place == 0:
                total += 1.0
            else:
                rate = (relevant + _SMALLEST_RATE) / (relevant + nonrelevant + 2 * _SMALLEST_RATE)
                total += 1.0 / (place + 1) + (place / (place + 1)) * (pooled / place) * rate
            relevant += 1
        elif gain >= 0:
            nonrelevant += 1
    return _ratio(total, ranking.relevant)


def utility(ranking: JudgedRanking, weights: Sequence[float]) -> float:
    """Sum of weights of relevant and other documents retrieved, and of both kinds not retrieved."""
    found = len(ranking.relevant_places)
    kept, noise, missed, spared = weights
    value = kept * found + noise * (ranking.retrieved - found) + missed * (ranking.relevant - found)
    return value + spared * (ranking.documents + found - ranking.retrieved - ranking.relevant)


def logit_average_precision(ranking: JudgedRanking) -> float:
    """yaap: log of (1 + the sum that AP divides) by (1 + what it lacks of the largest one).

    Source: Robertson, On smoothing average precision, ECIR 2012.
    """
    total = _summed_precision(ranking, None)
    return math.log((1.0 + total) / (1.0 + ranking.relevant - total))


def unjudged(ranking: JudgedRanking, cutoffs: Sequence[int]) -> list[float]:
    """Documents without a judgment among the best k, by k, however few are ranked."""
    judged = [p for p, gain in zip(ranking.places, ranking.gains, strict=True) if gain >= 0]
    return [(min(k, ranking.retrieved) - bisect_left(judged, k)) / k for k in cutoffs]


def judged(ranking: JudgedRanking, cutoffs: Sequence[int | None] = (None,)) -> list[float]:
    """Part of the best k documents, or of as many as are ranked, that has a judgment.

    ir_measures' Judged@k, for which negative gains are judgments; here they are none.
    """
    places = [p for p, gain in zip(ranking.places, ranking.gains, strict=True) if gain >= 0]
    depths = [ranking.retrieved if cutoff is None else min(cutoff, ranking.retrieved) for cutoff in cutoffs]
    return [_ratio(bisect_left(places, depth), depth) for depth in depths]


def persistent_precision(ranking: JudgedRanking, persistence: float, cutoff: int | None) -> float:
    """RBP of binary gains: (1 - p) times the sum of p^(rank - 1) over relevant documents.

    Source: Moffat and Zobel, ACM TOIS 27, 2008; ir_measures' RBP(rel=1, p=0.8).
    """
    places = ranking.relevant_places
    best = places if cutoff is None else places[: bisect_left(places, cutoff)]
    return (1.0 - persistence) * sum(persistence**place for place in best)


def expected_reciprocal_rank(ranking: JudgedRanking, cutoff: int | None) -> float:
    """ERR: the expected 1 / rank at which a user who reads downwards is satisfied.

    A document of gain g satisfies with probability (2^g - 1) / 2^m. m is the largest gain of the
    collection, and 4 at least, as in TREC's gdeval.

    Source: Chapelle, Metzler, Zhang and Grinspan, CIKM 2009.
    """
    largest = max(_ERR_SCALE, ranking.largest, *ranking.judged)
    places = ranking.places if cutoff is None else ranking.places[: bisect_left(ranking.places, cutoff)]
    value, reading = 0.0, 1.0
    for place, gain in zip(places, ranking.gains, strict=False):
        satisfied = 2.0 ** (gain - largest) - 2.0**-largest if gain > 0 else 0.0
        value += reading * satisfied / (place + 1)
        reading *= 1.0 - satisfied
    return value


def set_precision(ranking: JudgedRanking) -> float:
    """Part of the retrieved documents that is relevant."""
    return _ratio(len(ranking.relevant_places), ranking.retrieved)


def set_relative_precision(ranking: JudgedRanking) -> float:
    """Set precision by the highest that is possible."""
    return _ratio(len(ranking.relevant_places), min(ranking.retrieved, ranking.relevant))


def set_recall(ranking: JudgedRanking) -> float:
    """Part of the relevant documents that is retrieved."""
    return _ratio(len(ranking.relevant_places), ranking.relevant)


def set_average_precision(ranking: JudgedRanking) -> float:
    """Set precision times set recall."""
    found = len(ranking.relevant_places)
    return _ratio(found * found, ranking.retrieved * ranking.relevant)


def set_f(ranking: JudgedRanking, weight: float = 1.0) -> float:
    """Weighted harmonic mean of set precision and set recall, recall weighing `weight`."""
    found = set_precision(ranking), set_recall(ranking)
    return _ratio((weight + 1.0) * found[0] * found[1], found[1] + weight * found[0])


def nonrelevant_found(ranking: JudgedRanking) -> int:
    """Count the retrieved documents that are judged and not relevant."""
    return sum(0 <= gain < ranking.level for gain in ranking.gains)


def relevance_string(ranking: JudgedRanking, length: int) -> str:
    """One character for each of the first documents: its gain, - outside the pool, . unjudged."""
    characters = ["-"] * min(length, ranking.retrieved)
    for place, gain in zip(ranking.places, ranking.gains, strict=True):
        if place < length:
            if gain < 0:
                characters[place] = "."
            else:
                characters[place] = str(gain) if gain <= 9 else ">"
    return f"'{''.join(characters)}'"


def ndcg(
    ranking: JudgedRanking,
    cutoffs: Sequence[int | None] = (None,),
    *,
    gain_of: Mapping[int, float] | None = None,
    exponential: bool = False,
) -> list[float]:
    """Discounted cumulative gain by that of the best ranking; a discount of log2(rank + 1).

    Gains are the judged ones unless `gain_of` names others; `exponential` makes them 2^gain - 1.
    """
    gains = gains_of_levels(ranking, gain_of, exponential=exponential)
    ideal = IdealGains(ranking, gains)
    return [_ratio(discounted(ranking, gains, cutoff), ideal.down_to(cutoff)) for cutoff in cutoffs]


def discounted(ranking: JudgedRanking, gains: Mapping[int, float], cutoff: int | None) -> float:
    """Return a ranking's gains by the logarithms of their ranks, down to a cutoff."""
    total = 0.0
    for place, level in zip(ranking.places, ranking.gains, strict=True):
        if cutoff is not None and place >= cutoff:
            break
        gain = gains.get(level, 0.0)
        if gain:
            total += gain / math.log2(place + 2)
    return total


def gains_of_levels(
    ranking: JudgedRanking, gain_of: Mapping[int, float] | None = None, *, exponential: bool = False
) -> dict[int, float]:
    """Return the gain of each level that was judged, without those of no gain."""
    gains = {level: float(level) for level in ranking.judged if level > 0}
    if gain_of:
        gains |= {level: gain for level, gain in gain_of.items() if level in ranking.judged}
    if exponential:
        # Of gains beyond a double's range all take the same factor, which the ratio does without.
        over = max(0.0, max(gains.values(), default=0.0) - LARGEST_POWER)
        gains = {level: 2.0 ** (gain - over) - 2.0**-over for level, gain in gains.items()}
    return gains


class IdealGains:
    """The gains of the best possible ranking down to the last positive one, and their sums."""

    def __init__(self, ranking: JudgedRanking, gains: Mapping[int, float]) -> None:
        self.gains: list[float] = []
        for gain, level in sorted(((gain, level) for level, gain in gains.items()), reverse=True):
            if gain > 0:
                self.gains += [gain] * ranking.judged[level]
        terms = (gain / math.log2(place + 2) for place, gain in enumerate(self.gains))
        self._discounted = list(accumulate(terms, initial=0.0))

    def down_to(self, cutoff: int | None) -> float:
        """Return the discounted gains' sum down to a cutoff."""
        return self._discounted[-1 if cutoff is None else min(cutoff, len(self.gains))]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def binary_gain(ranking: JudgedRanking) -> float:
    """BinG: mean over relevant documents of 1 / log2(2 + documents above that are not relevant)."""
    total = 0.0
    for above, place in enumerate(ranking.relevant_places):
        total += 1.0 / math.log2(2 + place - above)
    return _ratio(total, ranking.relevant)


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
    return _ratio(total, possible[-1])


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
    """rbp_resid: what rbp would gain if all documents without a judgment, and all below, had gain 1.

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


_DEEPEST = 1000


def sampled_average_precision(ranking: JudgedRanking) -> float:
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
    return _ratio(total, whole)


def sampled_ndcg(ranking: JudgedRanking, *, exponential: bool = False) -> float:
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
            "judgments without strata, from which xinfAP and infNDCG estimate", accepted=accepted
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
    """Estimate how many documents of the pool have each gain; of strata without judgments none."""
    totals: dict[int, float] = {}
    for counts, (pooled, judged) in zip(sample.pool.values(), _sizes(sample).values(), strict=True):
        for gain, count in counts.items():
            if gain >= 0:
                totals[gain] = totals.get(gain, 0.0) + count * pooled / judged
    return totals
