"""``lmtune tune-engine``: tune a query on a running search engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from lmtune.cli.messages import note, say
from lmtune.cli.parameters import read_range, read_value
from lmtune.cli.screen import stages
from lmtune.collections.collection import Collection
from lmtune.collections.dataset import check_dataset, split_topics
from lmtune.collections.folds import make_folds
from lmtune.engines.live import LiveEngine, LiveOptions, LiveRankings, QueryTemplate
from lmtune.engines.live_tuning import LiveValues, query_space, tune_live, write_live_results
from lmtune.io.folders import check_directory
from lmtune.measures.measure import check_reads_gains, parse_measures
from lmtune.options import check, option, usual
from lmtune.progress import quantity
from lmtune.report.table import STYLES
from lmtune.report.tuning_tables import tuning_table
from lmtune.tuning.experiment.stored import KIND

_DATASET_ONLY = "documents", "index", "stemmer", "stopwords", "lengths", "fields", "exclude_self", "indexes"


@dataclass(frozen=True)
class _Search:
    """Search."""

    query: Path = usual(
        ..., "JSON file of the search: {{query}} is the topic's text, {{NAME}} a parameter.", metavar="FILE"
    )
    ranges: tuple[tuple[str, tuple[float, float]], ...] = usual(
        ...,
        "Range of a parameter; repeat for each.",
        flag="--range",
        read=read_range,
        separator=None,
        metavar="NAME=LOW,HIGH",
    )
    whole: tuple[str, ...] = option(
        (), "Parameters of whole numbers, such as numbers of fields.", metavar="NAME,..."
    )
    baseline: tuple[tuple[str, float], ...] = usual(
        (),
        "Compare with this setting; default: 1 for each parameter, or the nearest end of its range.",
        read=lambda text: tuple(read_value("--baseline", part) for part in text.split(",")),
        metavar="NAME=VALUE,...",
    )
    measures: tuple[str, ...] = usual(
        ("nDCG@10",),
        "Measure to maximise and report: AP, P@k, nDCG@k, RR, R@k ...; repeat for several.",
        flag="--measure -m",
        separator=None,
    )
    folds: str | None = usual(
        None, "Cross-validation: number of folds (default 2), or a JSON file of folds.", metavar="N|FILE"
    )
    restarts: int = option(1, "Climbs from random settings, besides the one from the baseline.", low=0)
    seed: int = option(0, "Seed of folds and restarts.", low=0)
    cache: Path | None = usual(
        None, "Store the run of each setting in this folder, to resume a search.", metavar="DIR"
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class _LiveOutput:
    """Output."""

    style: str = usual("table", "table, markdown, latex, csv or json.", flag="--format", choices=STYLES)
    output: Path | None = usual(
        None, "Write tables, settings, runs and the tuned query; replaces earlier results.", metavar="DIR"
    )


def tune_engine(
    url: Annotated[str, "The index's URL in OpenSearch or Elasticsearch: http://HOST:PORT/INDEX.", "URL"],
    dataset: Annotated[
        str | None, "Topics and judgments: a folder or irds:ID; or --topics and --qrels.", "DATASET"
    ],
    collection: Annotated[Collection, *_DATASET_ONLY],
    search: _Search,
    requests: LiveOptions,
    output: _LiveOutput,
) -> None:
    """Tune a query on a running OpenSearch or Elasticsearch.

    Sends settings by _msearch, and measures what returns. Credentials are read from LMTUNE_ENGINE_API_KEY, or
    LMTUNE_ENGINE_USER and LMTUNE_ENGINE_PASSWORD.

    Examples
    --------
    lmtune tune-engine http://host:9200/docs folder --query q.json --range a=0,9
    lmtune tune-engine http://host/docs irds:vaswani --query q.json --range a=1,5
    """
    measures = parse_measures(search.measures)
    check_reads_gains(measures)
    template = QueryTemplate.read(search.query)
    space = query_space(
        template.parameters, dict(search.ranges), whole=search.whole, baseline=dict(search.baseline)
    )
    loaded = replace(collection, name=dataset).load(("topics", "qrels"))
    judged = check_dataset(loaded).dataset
    usable, skipped = split_topics(judged)
    folds, _ = make_folds(usable, list(judged.topics), folds=search.folds, seed=search.seed)
    if output.output is not None:
        check_directory(output.output, KIND, reads=[search.query])
    engine = LiveEngine(url, requests)
    rankings = LiveRankings(engine, template, {topic: judged.topics[topic] for topic in usable}, search.cache)
    notes = [f"skipped: {quantity(len(skipped), 'topic')} without a relevant document"] if skipped else []
    with stages() as progress:
        values = LiveValues(rankings, judged.qrels, measures, space, search.whole, progress)
        notes += filter(None, [values.check()])
        result = tune_live(values, folds, restarts=search.restarts, seed=search.seed, notes=notes)
        if output.output is not None:
            write_live_results(output.output, values, result)
    for text in result.notes:
        note(text)
    say(tuning_table([result], output.style))
    if output.output is not None:
        note(f"wrote the results and the recommended query to {output.output}")
