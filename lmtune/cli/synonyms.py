"""What a user may have meant by an option that there is not: by meaning first, then by letters."""

from __future__ import annotations

import click

from lmtune.cli.parameters import PARAMETER_NAMES

ONE_MEANING = tuple(
    frozenset(names.split())
    for names in (
        "measure measures objective metric metrics eval-metric eval-metrics evaluation",
        "output out outdir out-dir output-dir output-file output-folder output-path save save-to",
        "run runs run-file runfile ranking rankings results candidates",
        "qrels qrel judgements judgments relevance labels ground-truth",
        "topics topic queries query questions",
        "documents docs corpus passages collection collections dataset data input",
        "hits depth k top-k topk cutoff num-hits limit rerank-depth max-results",
        "model models ranker scorer similarity wmodel retriever",
        "run-tag tag runid run-id run-name",
        "workers jobs n-jobs threads n-threads processes cpus num-workers",
        "seed random-state random-seed",
        "folds cv kfold k-fold k-folds n-folds num-folds",
        "epochs n-epochs num-epochs iterations",
        "learning-rate lr",
        "loss criterion",
        "net network layers hidden architecture",
        "normalise normalize normalisation normalization norm",
        "test significance stat-test statistical-test",
        "per-topic per-query by-topic by-query",
        "stopwords stop-words stoplist",
        "stemmer stem stemming",
        "device gpu cuda",
        "format style output-format",
        "level relevance-level rel-level min-rel",
        "method methods algorithm estimator fusion",
        "set range bounds space param params parameter parameters",
    )
)
"""Names of options and arguments, here or elsewhere, that mean the same."""


def suggestion(error: click.NoSuchOption) -> str:
    """Return in brackets what an unknown option may stand for, nothing where there is no guess."""
    name = error.option_name.lstrip("-").replace("_", "-").lower()
    said = {name, "set"} if name in PARAMETER_NAMES else {name}
    meant = {one for names in ONE_MEANING if said & names for one in names} | {f"{name}-range"}
    parameters = error.ctx.command.params if error.ctx is not None else []
    options = [
        f"{flag} {own.metavar or ''}".strip()
        for own in parameters
        for flag in own.opts
        if isinstance(own, click.Option) and flag.startswith("--") and flag[2:] in meant
    ]
    if not options and error.ctx is not None:
        usage = " ".join(error.ctx.get_usage().split()).partition(": ")[2]
        for own in parameters:
            if isinstance(own, click.Argument) and own.name in meant:
                return f" ({own.metavar} stands without one: {usage})"
    by_letters = () if name in PARAMETER_NAMES else error.possibilities
    near = ", ".join(options or by_letters or ())
    return f" (Possible options: {near})" if near else ""
