"""trec_eval's measures of one topic, implemented from their published definitions.

Sums are accumulated in rank order in double precision, as in trec_eval 9.0.8. For a topic without relevant
documents, all values except ``P`` and ``utility`` are 0. Sources: the descriptions that
``trec_eval -h -m all_trec`` prints; bpref: Buckley and Voorhees, SIGIR 2004; infAP: Yilmaz and Aslam,
CIKM 2006; nDCG: Järvelin and Kekäläinen, ACM TOIS 20, 2002.

xinfAP and infNDCG are estimated from judgments of a stratified sample of a pool (Yilmaz, Kanoulas and
Aslam, A simple and efficient sampling method for estimating AP and NDCG, SIGIR 2008). The paper does not
define the smoothing, the rounding of document counts in the ideal ranking, and the depth of 1,000. These
follow NIST's sample_eval of October 2011.
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
"""The largest exponent of 2 in gains 2^g - 1; larger gains are scaled down."""
_ERR_SCALE = 4  # the largest gain in gdeval
_SMALLEST_RATE = 1e-5  # smoothing, for ranks without judged documents above


def precision(ranking: JudgedRanking, cutoffs: Sequence[int]) -> list[float]:
    """Precision at k, the relevant documents in the top k over k, even if fewer than k are ranked."""
    return [ranking.count_relevant(k) / k for k in cutoffs]


def recall(ranking: JudgedRanking, cutoffs: Sequence[int]) -> list[float]:
    """Recall at k, the fraction of all relevant documents that are in the top k."""
    return [_ratio(ranking.count_relevant(k), ranking.relevant) for k in cutoffs]


def relative_precision(ranking: JudgedRanking, cutoffs: Sequence[int]) -> list[float]:
    """Precision at k over its highest possible value."""
    return [_ratio(ranking.count_relevant(k), min(k, ranking.relevant)) for k in cutoffs]


def success(ranking: JudgedRanking, cutoffs: Sequence[int]) -> list[float]:
    """Success at k, 1 if the top k contain a relevant document, else 0."""
    return [float(ranking.count_relevant(k) > 0) for k in cutoffs]


def r_precision(ranking: JudgedRanking, multiples: Sequence[float] = (1.0,)) -> list[float]:
    """Precision at multiples of R, the number of relevant documents."""
    cutoffs = [recall_cutoff(x, ranking.relevant) for x in multiples]
    return [_ratio(ranking.count_relevant(k), k) for k in cutoffs]


def recall_cutoff(part: float, relevant: int) -> int:
    """Return the number of documents for a recall of `part`, rounded as in trec_eval up to 9.0.8."""
    return int(part * relevant + 0.9)


def nearest_recall_cutoff(part: float, relevant: int) -> int:
    """Return the number of documents for a recall of `part`, rounded half up as in trec_eval 10.0."""
    exact = part * relevant
    return int(exact) + (exact - int(exact) >= 0.5)


def average_precision(ranking: JudgedRanking, cutoffs: Sequence[int | None] = (None,)) -> list[float]:
    """Average precision (AP); documents below a cutoff do not count."""
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
    """Interpolated precision, the highest precision at a given recall or more."""
    best = [0.0] * (len(ranking.relevant_places) + 1)
    for count in range(len(ranking.relevant_places), 0, -1):
        precision_here = count / (ranking.relevant_places[count - 1] + 1)
        best[count - 1] = max(precision_here, best[count])
    values = []
    for part in recalls:
        count = max(1, cutoff(part, ranking.relevant))
        values.append(best[count - 1] if count <= len(ranking.relevant_places) else 0.0)
    return values


def mean_interpolated_precision(
    ranking: JudgedRanking, recalls: Sequence[float], cutoff: Callable[[float, int], int] = recall_cutoff
) -> list[float]:
    """Mean of the interpolated precision over recall levels."""
    total = 0.0
    for value in reversed(interpolated_precision(ranking, recalls, cutoff)):
        total += value
    return [total / len(recalls)]


def reciprocal_rank(ranking: JudgedRanking, cutoffs: Sequence[int | None] = (None,)) -> list[float]:
    """Reciprocal rank of the first relevant document (RR); 0 if it is below the cutoff."""
    first = ranking.relevant_places[0] + 1 if ranking.relevant_places else math.inf
    return [1.0 / first if cutoff is None or first <= cutoff else 0.0 for cutoff in cutoffs]


def binary_preference(ranking: JudgedRanking) -> float:
    """Bpref, from the number of judged non-relevant documents above each relevant document."""
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
    """infAP, AP estimated from a partly judged pool; negative gains mark its unjudged documents."""
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
    """Weighted sum of the numbers of true positives, false positives, false negatives, true negatives."""
    hits = len(ranking.relevant_places)
    hit, noise, miss, rejected = weights
    value = hit * hits + noise * (ranking.retrieved - hits) + miss * (ranking.relevant - hits)
    return value + rejected * (ranking.documents + hits - ranking.retrieved - ranking.relevant)


def logit_average_precision(ranking: JudgedRanking) -> float:
    """yaap, log((1 + S) / (1 + R - S)), where S is the sum of precisions in AP = S / R.

    Source: Robertson, On smoothing average precision, ECIR 2012.
    """
    total = _summed_precision(ranking, None)
    return math.log((1.0 + total) / (1.0 + ranking.relevant - total))


def unjudged(ranking: JudgedRanking, cutoffs: Sequence[int]) -> list[float]:
    """Unjudged documents in the top k over k, even if fewer than k are ranked."""
    judged = [p for p, gain in zip(ranking.places, ranking.gains, strict=True) if gain >= 0]
    return [(min(k, ranking.retrieved) - bisect_left(judged, k)) / k for k in cutoffs]


def judged(ranking: JudgedRanking, cutoffs: Sequence[int | None] = (None,)) -> list[float]:
    """Judged@k, the fraction of the top k documents (or of all, if fewer are ranked) that are judged.

    As in ir_measures, except that a negative gain does not count as a judgment.
    """
    places = [p for p, gain in zip(ranking.places, ranking.gains, strict=True) if gain >= 0]
    depths = [ranking.retrieved if cutoff is None else min(cutoff, ranking.retrieved) for cutoff in cutoffs]
    return [_ratio(bisect_left(places, depth), depth) for depth in depths]


def persistent_precision(ranking: JudgedRanking, persistence: float, cutoff: int | None) -> float:
    """RBP with binary gains, (1 - p) times the sum of p^(rank - 1) over relevant documents.

    Source: Moffat and Zobel, ACM TOIS 27, 2008. Equal to RBP(rel=1, p=0.8) of ir_measures.
    """
    places = ranking.relevant_places
    best = places if cutoff is None else places[: bisect_left(places, cutoff)]
    return (1.0 - persistence) * sum(persistence**place for place in best)


def expected_reciprocal_rank(ranking: JudgedRanking, cutoff: int | None) -> float:
    """ERR, the expected reciprocal rank of the document at which a user stops.

    The user reads from the top and stops at a document of gain g with probability (2^g - 1) / 2^m. m is the
    largest gain of the collection, but at least 4, as in TREC's gdeval.

    Source: Chapelle, Metzler, Zhang and Grinspan, CIKM 2009.
    """
    largest = max(_ERR_SCALE, ranking.largest, *ranking.judged)
    places = ranking.places if cutoff is None else ranking.places[: bisect_left(ranking.places, cutoff)]
    value, continues = 0.0, 1.0
    for place, gain in zip(places, ranking.gains, strict=False):
        satisfied = 2.0 ** (gain - largest) - 2.0**-largest if gain > 0 else 0.0
        value += continues * satisfied / (place + 1)
        continues *= 1.0 - satisfied
    return value


def set_precision(ranking: JudgedRanking) -> float:
    """Precision of the retrieved set: the fraction of retrieved documents that are relevant."""
    return _ratio(len(ranking.relevant_places), ranking.retrieved)


def set_relative_precision(ranking: JudgedRanking) -> float:
    """Set precision over its highest possible value."""
    return _ratio(len(ranking.relevant_places), min(ranking.retrieved, ranking.relevant))


def set_recall(ranking: JudgedRanking) -> float:
    """Recall of the retrieved set: the fraction of relevant documents that are retrieved."""
    return _ratio(len(ranking.relevant_places), ranking.relevant)


def set_average_precision(ranking: JudgedRanking) -> float:
    """Set precision times set recall."""
    hits = len(ranking.relevant_places)
    return _ratio(hits * hits, ranking.retrieved * ranking.relevant)


def set_f(ranking: JudgedRanking, weight: float = 1.0) -> float:
    """Weighted harmonic mean of set precision (weight 1) and set recall (weight `weight`)."""
    p, r = set_precision(ranking), set_recall(ranking)
    return _ratio((weight + 1.0) * p * r, r + weight * p)


def retrieved_nonrelevant(ranking: JudgedRanking) -> int:
    """Count the retrieved documents that are judged non-relevant."""
    return sum(0 <= gain < ranking.level for gain in ranking.gains)


def relevance_string(ranking: JudgedRanking, length: int) -> str:
    """Return one character per top document: its gain, ``-`` if outside the pool, ``.`` if unjudged."""
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
    """nDCG, the DCG over that of the ideal ranking, with the discount 1 / log2(rank + 1).

    `gain_of` replaces the gains of judgment levels. With `exponential`, gains are 2^gain - 1.
    """
    gains = gains_of_levels(ranking, gain_of, exponential=exponential)
    ideal = IdealGains(ranking, gains)
    return [_ratio(discounted(ranking, gains, cutoff), ideal.down_to(cutoff)) for cutoff in cutoffs]


def discounted(ranking: JudgedRanking, gains: Mapping[int, float], cutoff: int | None) -> float:
    """Return the sum of gain / log2(rank + 1) down to a cutoff (DCG)."""
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
    """Return the gain of each judgment level above 0; see `ndcg` for the options."""
    gains = {level: float(level) for level in ranking.judged if level > 0}
    if gain_of:
        gains |= {level: gain for level, gain in gain_of.items() if level in ranking.judged}
    if exponential:
        # Scale all gains by one factor, which cancels in nDCG, if the largest exceeds a double's range.
        over = max(0.0, max(gains.values(), default=0.0) - LARGEST_POWER)
        gains = {level: 2.0 ** (gain - over) - 2.0**-over for level, gain in gains.items()}
    return gains


class IdealGains:
    """The positive gains of the ideal ranking, and their discounted cumulative sums."""

    def __init__(self, ranking: JudgedRanking, gains: Mapping[int, float]) -> None:
        self.gains: list[float] = []
        for gain, level in sorted(((gain, level) for level, gain in gains.items()), reverse=True):
            if gain > 0:
                self.gains += [gain] * ranking.judged[level]
        terms = (gain / math.log2(place + 2) for place, gain in enumerate(self.gains))
        self._discounted = list(accumulate(terms, initial=0.0))

    def down_to(self, cutoff: int | None) -> float:
        """Return the ideal DCG at a cutoff; None for no cutoff."""
        return self._discounted[-1 if cutoff is None else min(cutoff, len(self.gains))]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def binary_gain(ranking: JudgedRanking) -> float:
    """binG, the mean over relevant documents of 1 / log2(2 + number of other documents above)."""
    total = 0.0
    for above, place in enumerate(ranking.relevant_places):
        total += 1.0 / math.log2(2 + place - above)
    return _ratio(total, ranking.relevant)


def normalized_gain(ranking: JudgedRanking, gain_of: Mapping[int, float] | None = None) -> float:
    """G, the sum of gain / log2(2 + gain lost so far), over the sum of all gains.

    The lost gain is the ideal ranking's cumulative gain minus that of the ranking, both including the
    document's rank. As in trec_eval 9.0.8, each rank below the end of the ideal ranking adds 1 to it.
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
    """ndcg_rel, the mean nDCG at the ranks of the relevant documents.

    Relevant documents that are not retrieved count with the nDCG of the whole ranking.
    """
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
    """Rndcg, the mean nDCG at the ranks where the gain of the ideal ranking changes.

    As in trec_eval 9.0.8, the end of the ranking is another such rank if the ranking is longer than the
    ideal one by more than one document.
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
    """DCG of the whole ranking, the sum of gain / log2(rank + 1)."""
    return discounted(ranking, gains_of_levels(ranking, gain_of), None)


def ideal_discounted_gain(ranking: JudgedRanking, gain_of: Mapping[int, float] | None = None) -> float:
    """ideal_dcg, the DCG of the ideal ranking."""
    return IdealGains(ranking, gains_of_levels(ranking, gain_of)).down_to(None)


def rank_biased_precision(ranking: JudgedRanking, persistence: float, gain_of: Mapping[int, float]) -> float:
    """RBP of trec_eval 10.0, (1 - p) times the sum of gain * p^(rank - 1).

    If a gain of the topic is outside [0, 1], the topic's gains are rescaled to [0, 1]. trec_eval 10.0 does
    not initialise its lowest and highest gain; as usually compiled, it prints these values.
    Source: Moffat and Zobel, ACM TOIS 27, 2008.
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
    """Residual of RBP (rbp_resid), its increase if all unjudged documents and all unranked ones had gain 1.

    As in trec_eval 10.0, the value is 0 if every ranked document is judged.
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
    """Return p^0 to p^ranks by repeated multiplication, as trec_eval computes them."""
    return list(accumulate(repeat(persistence, ranks), mul, initial=1.0))


_DEEPEST = 1000


def sampled_average_precision(ranking: JudgedRanking) -> float:
    """xinfAP, AP estimated from a stratified sample of judgments.

    A relevant document counts for pooled / judged documents of its stratum. The precision above it is
    estimated for each stratum from the judged documents above it.
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
    """infNDCG, nDCG estimated from a stratified sample of judgments.

    Each stratum's DCG is divided by the judged fraction of its ranked documents. In the ideal ranking, the
    estimated number of documents of each gain is rounded to the nearest integer.
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
        raise InputError("xinfAP and infNDCG need judgments with strata", accepted=accepted)
    return ranking.sample


def _best(ranking: JudgedRanking, sample: Sample) -> Iterator[tuple[int, int, bytes]]:
    """Yield places, gains and strata of the pooled documents among the top 1,000."""
    end = bisect_left(ranking.places, _DEEPEST)
    return zip(ranking.places[:end], ranking.gains, sample.strata, strict=False)


def _sizes(sample: Sample) -> dict[bytes, tuple[int, int]]:
    """Return the numbers of pooled and of judged documents by stratum."""
    return {
        stratum: (sum(counts.values()), sum(count for gain, count in counts.items() if gain >= 0))
        for stratum, counts in sample.pool.items()
    }


def _estimated(sample: Sample) -> dict[int, float]:
    """Estimate the number of pooled documents by gain; strata without judgments contribute none."""
    totals: dict[int, float] = {}
    for counts, (pooled, judged) in zip(sample.pool.values(), _sizes(sample).values(), strict=True):
        for gain, count in counts.items():
            if gain >= 0:
                totals[gain] = totals.get(gain, 0.0) + count * pooled / judged
    return totals
