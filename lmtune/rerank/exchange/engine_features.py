"""Features that search engines compute: the entries of their feature stores."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Sized
from functools import partial
from typing import Any, NamedTuple

from lmtune.errors import InputError
from lmtune.index.windows import WINDOW_KINDS

KEYWORDS = "keywords"
"""The parameter of queries that has the user's words."""


class Source(NamedTuple):
    """Where an engine gets a feature from.

    Attributes
    ----------
    kind : str
        ``match`` (BM25 of a field), ``number`` (the value of a field) or ``run`` (the first stage's score).
    field : str
    is_log : bool
        Whether the feature is ln(1 + value).
    """

    kind: str
    field: str
    is_log: bool = False


_OF_FIELD = {
    "bm25": Source("match", ""),
    "bm25_classic": Source("match", "_classic"),
    "log_bm25": Source("match", "", is_log=True),
    "length": Source("number", "_length"),
    "log_length": Source("number", "_length", is_log=True),
}
"""Features of a field that engines compute; `field` is what follows the field's name."""


def source_of(name: str, fields: Sequence[str], field: str) -> Source | None:
    """Return where an engine gets a feature of `lmtune.rerank.features.features_of` from; None if nowhere.

    Parameters
    ----------
    name : str
        The feature.
    fields : sequence of str
        The fields with features.
    field : str
        The engine's field with the whole text.
    """
    if name == "run_score":
        return Source("run", "")
    for prefix in ("", *(f"{other}_" for other in fields if other not in WINDOW_KINDS)):
        if name.startswith(prefix) and (source := _OF_FIELD.get(name.removeprefix(prefix))):
            return source._replace(field=(prefix[:-1] or field) + source.field)
    return None


def bm25_parameters(field: str) -> tuple[float, float]:
    """Return BM25's k1 and b in a field of an engine."""
    return (1.2, 0.75) if field.endswith("_classic") else (0.9, 0.4)


def identifier(name: str) -> str:
    """Return a feature's name in engines: letters, digits and underscores, no digit first."""
    return re.sub(r"\W", "_", name if re.match(r"[A-Za-z_]", name) else f"f{name}")


Sources = Mapping[str, Source]
"""The features that engines compute."""


def elasticsearch_features(
    names: Sequence[str], sources: Sources, *, log1p: bool = False, has_factor: bool = True
) -> list[dict[str, Any]]:
    """Return the features of a feature set of Elasticsearch's and OpenSearch's learning-to-rank plugins.

    Parameters
    ----------
    names : sequence of str
        The model's features. Those without a source have no entry.
    sources : mapping of str to Source
    log1p : bool
        Whether to add ``log1p_NAME``, sign(x) log(1 + abs(x)), for all `names`.
    has_factor : bool
        Whether the engine multiplies BM25 by k1 + 1, as Elasticsearch does; the features divide by it.

    Returns
    -------
    list of dict
        Each feature comes after those that it is derived from.
    """
    found: dict[str, dict[str, Any]] = {}

    def add(name: str, language: str, template: Any) -> None:
        parameters = [KEYWORDS] if language == "mustache" else []
        found[name] = {
            "name": name,
            "params": parameters,
            "template_language": language,
            "template": template,
        }

    for known, source in ((identifier(name), sources.get(name)) for name in names):
        if source is not None and source.kind != "run":
            plain = re.sub(r"log_(?=bm25$|length$)", "", known)
            text: dict[str, Any] = {"query": f"{{{{{KEYWORDS}}}}}"}
            if has_factor:
                text["boost"] = 1 / (bm25_parameters(source.field)[0] + 1)
            query: dict[str, Any] = {"match": {source.field: text}}
            if source.kind == "number":
                factor = {"field_value_factor": {"field": source.field, "missing": 0}}
                query = {"function_score": {"query": {"match_all": {}}, "functions": [factor]}}
            add(plain, "mustache", query)
            if source.is_log:
                add(known, "derived_expression", f"ln(1 + {plain})")
        if log1p:
            formula = f"{known} < 0 ? -ln(1 - {known}) : ln(1 + {known})"
            add(f"log1p_{known}", "derived_expression", formula)
    return list(found.values())


opensearch_features = partial(elasticsearch_features, has_factor=False)
"""The features of OpenSearch 3.0 and newer, which does not multiply BM25 by k1 + 1."""


def solr_features(names: Sequence[str], sources: Sources, *, log1p: bool = False) -> list[dict[str, Any]]:
    """Return the features of a feature store of Solr, as `elasticsearch_features`; or only ``log1p_NAME``."""
    found = []
    for name, source in ((name, sources.get(name)) for name in names):
        if source is None or (log1p and source.kind == "run"):
            continue
        query = f"{{!dismax qf={source.field} mm=0}}${{{KEYWORDS}}}"
        kind, parameters = {
            "match": ("SolrFeature", {"q": query}),
            "number": ("FieldValueFeature", {"field": source.field}),
            "run": ("OriginalScoreFeature", {}),
        }[source.kind]
        if source.is_log or log1p:
            # Values are at least 0, so that sign(x) log(1 + |x|) is ln(1 + x).
            quoted = f"query({{!dismax qf={source.field} mm=0 v='${{{KEYWORDS}}}'}},0)"
            inner = quoted if source.kind == "match" else f"field({source.field})"
            for _ in range(source.is_log + log1p):
                inner = f"ln(sum(1,{inner}))"
            kind, parameters = "SolrFeature", {"q": f"{{!func}}{inner}"}
        known = ("log1p_" if log1p else "") + identifier(name)
        found.append({"name": known, "class": f"org.apache.solr.ltr.feature.{kind}", "params": parameters})
    return found


def vespa_expressions(names: Sequence[str], sources: Sources) -> dict[str, str]:
    """Return ranking expressions of features by name; those without a source have none."""
    found = {}
    for name, source in ((name, sources.get(name)) for name in names):
        if source is not None and not source.field.endswith("_classic"):
            # Vespa multiplies BM25 by k1 + 1.
            factor = bm25_parameters(source.field)[0] + 1
            of_kind = {"match": f"bm25({source.field}) / {factor:g}", "number": f"attribute({source.field})"}
            expression = of_kind.get(source.kind, "firstPhase")
            found[name] = f"log(1 + {expression})" if source.is_log else expression
    return found


ENGINES: dict[str, Callable[[Sequence[str], Sources], Sized]] = {
    "elasticsearch": elasticsearch_features,
    "opensearch": opensearch_features,
    "solr": solr_features,
    "vespa": vespa_expressions,
}
"""The entries of features, by engine."""


def choose_features(text: str, names: Sequence[str], fields: Sequence[str]) -> list[str]:
    """Return some of the features' names, in their order.

    Parameters
    ----------
    text : str
        Names with commas between, or a name of `ENGINES` for those that it computes.
    names : sequence of str
        All names.
    fields : sequence of str
        The fields with features.

    Raises
    ------
    InputError
        If a name is unknown.
    """
    if text in ENGINES:
        sources = {name: source for name in names if (source := source_of(name, fields, "")) is not None}
        return [name for name in sources if ENGINES[text]([name], sources)]
    chosen = text.split(",")
    if unknown := [name for name in chosen if name not in names]:
        accepted = f"{', '.join(ENGINES)}, or names such as {','.join(names[5:7])}"
        raise InputError("no such feature", value=unknown[0], accepted=accepted)
    return [name for name in names if name in chosen]
