"""Programs that rerankers are exported to."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from lmtune.errors import InputError, MissingExtraError
from lmtune.rerank.custom_features import DOCUMENTS
from lmtune.rerank.exchange import readers
from lmtune.rerank.exchange.engine_features import (
    Source,
    Sources,
    bm25_parameters,
    elasticsearch_features,
    identifier,
    opensearch_features,
    solr_features,
    source_of,
    vespa_expressions,
)
from lmtune.rerank.exchange.foreign import ForeignModel, lightgbm_trees
from lmtune.rerank.exchange.forms import Form, Layers, Node, Split, Trees, just_above, layers_of
from lmtune.rerank.learners.feature_networks import Trained
from lmtune.rerank.learners.networks import Pointwise
from lmtune.rerank.learners.trees import LambdaMart, name_features
from lmtune.rerank.learners.yeti import YetiRank
from lmtune.rerank.reranker import Reranker

Files = dict[str, bytes]
"""Contents by file name."""


@dataclass(frozen=True)
class Exported:
    """A model that is exported.

    Attributes
    ----------
    form : Trees or Layers
    sources : mapping of str to Source
        The features that search engines compute.
    name : str
        Name of the model in the engine.
    text : str
        LightGBM's text of the model, with the names of the features; "" for other models.
    """

    form: Form
    sources: Sources
    name: str
    text: str = ""

    @property
    def used(self) -> list[str]:
        """Names of the features that can change the score."""
        return [self.form.names[number] for number in self.form.used]


class Target(NamedTuple):
    """A program that rerankers are exported to.

    Attributes
    ----------
    title : str
    takes : str
        The models that it can express.
    write : callable
        Returns the files, or raises `InputError` if the target cannot express the model.
    read : callable
        Returns a function that scores rows as the program does; see `lmtune.rerank.exchange.readers`.
    reader : str
        What `read` scores with.
    missing : callable
        Returns the features that the files do not define and the user must; none for a library.
    notes : str
        How to load the files; "" for a library.
    """

    title: str
    takes: str
    write: Callable[[Exported], Files]
    read: readers.Read
    reader: str
    missing: Callable[[Exported], list[str]] = lambda _: []
    notes: str = ""


def exported(reranker: Reranker, *, name: str, field: str, names: tuple[str, ...] | None = None) -> Exported:
    """Convert a reranker for its export.

    Parameters
    ----------
    reranker : Reranker
    name : str
        Name of the model in the engine.
    field : str
        The engine's field with the whole text.
    names : tuple of str, optional
        Names of the features, default those of training.

    Raises
    ------
    InputError
        If the model reads text, scores a query's documents together, or features are normalised by query.
    """
    scorer, known = reranker.scorer, reranker.names if names is None else names
    if len(known) != len(reranker.names):
        raise InputError("wrong number of feature names", value=len(known), accepted=str(len(reranker.names)))
    if twice := [one for one in known if sum(identifier(one) == identifier(other) for other in known) > 1]:
        raise InputError("names of features become equal in engines", value=twice[0], accepted="others")
    fields = reranker.facts.get("fields", ())
    found = {one: source for one in known if (source := source_of(one, fields, field)) is not None}
    kinds = reranker.facts.get("custom", {})
    found |= {one: Source("number", one) for one in known if kinds.get(one) == DOCUMENTS}
    if isinstance(scorer, YetiRank):
        scorer = ForeignModel.parse(scorer.as_json())
    if isinstance(scorer, (LambdaMart, ForeignModel)):
        text = ""
        if isinstance(scorer, LambdaMart) or scorer.label == "lightgbm":
            plain = scorer.text if isinstance(scorer, LambdaMart) else scorer.content.decode()
            text = name_features(plain, known)
        form: Any = lightgbm_trees(text) if text else cast("ForeignModel", scorer).form
        return Exported(_renamed(form, known), found, name, text)
    if not isinstance(scorer, Trained):
        accepted = "a model of features; cross-encoders are exported --to onnx"
        raise InputError("cannot export a model of this kind", value=scorer.kind, accepted=accepted)
    network, normaliser = scorer.network(), scorer.normaliser
    if not isinstance(network, Pointwise):
        problem = "cannot export a network that scores a query's documents together"
        raise InputError(
            problem, value=scorer.settings.network, accepted="linear, two-layer, b and mlp networks"
        )
    arrays: dict[str, Any] = {}
    if normaliser is not None:
        if normaliser.method not in ("none", "z-score"):
            problem, accepted = "cannot export features normalised by query", "--normalise z-score or none"
            raise InputError(problem, value=normaliser.method, accepted=accepted)
        arrays = {"log1p": normaliser.log1p, "centre": normaliser.centre, "scale": normaliser.scale}
    return Exported(layers_of(known, network, arrays), found, name)


def _renamed(form: Form, names: tuple[str, ...]) -> Form:
    return replace(form, names=names)


def _json(value: Any) -> bytes:
    return f"{json.dumps(value, indent=1)}\n".encode()


def _refuse(model: Exported, problem: str, accepted: str) -> None:
    kind = "trees" if isinstance(model.form, Trees) else "a network"
    raise InputError(problem, value=kind, accepted=accepted)


def _scaled(model: Exported) -> list[tuple[str, float, float]]:
    """Return name, mean and standard deviation of a network's used features; 0 and 1 if unscaled."""
    form = cast("Layers", model.form)
    prefix = "log1p_" if form.log1p else ""
    centre, scale = (np.zeros(1), np.ones(1)) if form.scale is None else (form.centre, form.scale)
    width = len(form.names)
    centres, scales = np.broadcast_to(cast("Any", centre), width), np.broadcast_to(scale, width)
    return [
        (prefix + identifier(form.names[number]), float(centres[number]), 1.0 / float(scales[number]))
        for number in form.used
    ]


_Entries = Callable[..., Sequence[Any]]


# ---- LightGBM and ONNX ----


def _write_lightgbm(model: Exported) -> Files:
    if not model.text:
        _refuse(model, "LightGBM's text holds only its own trees", "--ranker lambdamart, or LightGBM's file")
    return {"model.txt": model.text.encode()}


def write_onnx(model: Exported) -> Files:
    """Write ONNX: input ``features`` (rows, F) of float32 by the names in the metadata, output ``score``."""
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise MissingExtraError("ONNX", "export") from error
    if isinstance(model.form, Trees):
        _refuse(model, "ONNX takes networks only", "--to lightgbm, or a network")
    form, width = cast("Layers", model.form), len(model.form.names)
    nodes: list[Any] = []
    constants: list[Any] = []
    domain = [helper.make_opsetid("", 17)]

    def apply(kind: str, *inputs: Any, **how: Any) -> str:
        """Add a node; arrays among its inputs become constants."""
        output, known = how.pop("output", f"{kind.lower()}{len(nodes)}"), list(inputs)
        for number, value in enumerate(known):
            if not isinstance(value, str):
                known[number] = f"constant{len(constants)}"
                constants.append(numpy_helper.from_array(value, known[number]))
        nodes.append(helper.make_node(kind, known, [output], **how))
        return cast("str", output)

    values = apply("Cast", "features", to=TensorProto.DOUBLE)
    if form.log1p:
        size = apply("Log", apply("Add", apply("Abs", values), np.ones(1)))
        values = apply("Mul", apply("Sign", values), size)
    if form.centre is not None and form.scale is not None:
        values = apply("Mul", apply("Sub", values, form.centre), form.scale)
    values = apply("Cast", values, to=TensorProto.FLOAT)
    for matrix, bias, activation in form.layers:
        values = apply("Gemm", values, matrix.astype(np.float32), bias.astype(np.float32), transB=1)
        if activation != "identity":
            values = apply({"relu": "Relu", "tanh": "Tanh"}[activation], values)
    apply("Identity", values, output="score")
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["rows", width])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["rows", 1])
    graph = helper.make_graph(nodes, model.name, [features], [score], constants)
    made = helper.make_model(graph, opset_imports=domain, ir_version=8, producer_name="lmtune")
    helper.set_model_props(made, {"features": json.dumps(form.names)})
    return {"model.onnx": made.SerializeToString()}


# ---- Elasticsearch and OpenSearch ----


def _write_elasticsearch(model: Exported, features_of: _Entries = elasticsearch_features) -> Files:
    form, log1p = model.form, isinstance(model.form, Layers) and model.form.log1p
    if isinstance(form, Trees):
        names = [identifier(name) for name in form.names]
        trees = [_xgboost_node(root, names) for root in form.terms]
        definition: dict[str, Any] = {"type": "model/xgboost+json", "definition": json.dumps(trees)}
    else:
        if not form.is_linear:
            _refuse(model, "the plugin takes no networks with hidden layers", "trees, or --net linear")
        inputs, weights = _scaled(model), form.layers[0].matrix[0, form.used].tolist()
        norms = {
            name: {"standard": {"mean": mean, "standard_deviation": deviation}}
            for name, mean, deviation in inputs
            if (mean, deviation) != (0.0, 1.0)
        }
        linear = {name: weight for (name, _, _), weight in zip(inputs, weights, strict=True)}
        definition = {"type": "model/linear", "feature_normalizers": norms, "definition": json.dumps(linear)}
    features = features_of(model.used, model.sources, log1p=log1p)
    return {
        "featureset.json": _json({"featureset": {"features": features}}),
        "model.json": _json({"model": {"name": model.name, "model": definition}}),
    }


def _xgboost_node(root: Node, names: list[str]) -> dict[str, Any]:
    """Return a tree as XGBoost's ``get_dump(dump_format="json")`` does."""
    count = 0

    def write(node: Node, depth: int) -> dict[str, Any]:
        nonlocal count
        number, count = count, count + 1
        if not isinstance(node, Split):
            return {"nodeid": number, "leaf": node}
        children = [write(node.left, depth + 1), write(node.right, depth + 1)]
        left, right = (child["nodeid"] for child in children)
        # XGBoost's values go to the left if they are below the threshold.
        threshold = float(just_above(node.threshold))
        split = {"split": names[node.feature], "split_condition": threshold}
        ways = {"yes": left, "no": right, "missing": left, "children": children}
        return {"nodeid": number, "depth": depth, **split, **ways}

    return write(root, 0)


# ---- Solr ----


_SOLR_NORM = "org.apache.solr.ltr.norm.StandardNormalizer"


def _write_solr(model: Exported) -> Files:
    form, log1p = model.form, isinstance(model.form, Layers) and model.form.log1p
    if isinstance(form, Trees):
        names = [identifier(name) for name in form.names]
        kind, inputs = "MultipleAdditiveTreesModel", [(names[number], 0.0, 1.0) for number in form.used]
        parameters: dict[str, Any] = {
            "trees": [{"weight": "1", "root": _solr_node(root, names)} for root in form.terms]
        }
    else:
        inputs, (first, *rest) = _scaled(model), form.layers
        if form.is_linear:
            weights = first.matrix[0, form.used].tolist()
            kind, parameters = (
                "LinearModel",
                {"weights": dict(zip([one[0] for one in inputs], weights, strict=True))},
            )
        else:
            layers = [first._replace(matrix=first.matrix[:, form.used]), *rest]
            kind, parameters = (
                "NeuralNetworkModel",
                {
                    "layers": [
                        {"matrix": matrix.tolist(), "bias": bias.tolist(), "activation": activation}
                        for matrix, bias, activation in layers
                    ]
                },
            )
    features: list[dict[str, Any]] = []
    for name, mean, deviation in inputs:
        norm = {"class": _SOLR_NORM, "params": {"avg": str(mean), "std": str(deviation)}}
        features.append({"name": name} | ({} if (mean, deviation) == (0.0, 1.0) else {"norm": norm}))
    made = {"class": f"org.apache.solr.ltr.model.{kind}", "name": model.name, "features": features}
    return {
        "features.json": _json(solr_features(model.used, model.sources, log1p=log1p)),
        "model.json": _json({**made, "params": parameters}),
    }


def _solr_node(node: Node, names: list[str]) -> dict[str, Any]:
    if not isinstance(node, Split):
        return {"value": str(node)}
    left, right = (_solr_node(child, names) for child in (node.left, node.right))
    threshold = str(_before_slack(node.threshold))
    return {"feature": names[node.feature], "threshold": threshold, "left": left, "right": right}


def _before_slack(threshold: np.float32) -> np.float32:
    """Return the number that Solr, which adds 1e-6 to each threshold, turns into this one, or nearly."""
    near = [threshold - readers.SLACK]
    near += [np.nextafter(near[0], np.float32(end)) for end in (-np.inf, np.inf)]
    return min(near, key=lambda one: abs(float(one + readers.SLACK) - float(threshold)))


# ---- Vespa ----


def _write_vespa(model: Exported) -> Files:
    known = {name: f"{model.name}_{identifier(name)}" for name in model.form.names}
    if isinstance(model.form, Trees):
        files = {f"models/{model.name}.json": _json(_vespa_trees(model.form, list(known.values())))}
        lines, score, names = [], f'lightgbm("{model.name}.json")', model.used
    else:
        files = {f"models/{model.name}.onnx": write_onnx(model)["model.onnx"]}
        names = list(model.form.names)
        values = ", ".join(known[name] if name in model.used else "0" for name in names)
        lines = [
            f"function {model.name}_features() {{",
            f"    expression: tensor<float>(d0[1],d1[{len(names)}]):[[{values}]]",
            "}",
            f"onnx-model {model.name} {{",
            f"    file: models/{model.name}.onnx",
            f"    input features: {model.name}_features",
            "    output score: score",
            "}",
        ]
        score = f"sum(onnx({model.name}).score)"
    expressions = vespa_expressions(names, model.sources)
    matched = {model.sources[name].field for name in expressions if model.sources[name].kind == "match"}
    properties = [
        f"    bm25({field}).{parameter}: {value}"
        for field in sorted(matched)
        for parameter, value in zip(("k1", "b"), bm25_parameters(field), strict=True)
    ]
    lines = ["rank-properties {", *properties, "}", *lines]
    for name, expression in expressions.items():
        lines.append(f"function {known[name]}() {{ expression: {expression} }}")
    lines += ["second-phase {", "    rerank-count: 100", f"    expression: {score}", "}"]
    profile = "\n".join([f"rank-profile {model.name} {{", *(f"    {line}" for line in lines), "}", ""])
    return {**files, f"{model.name}.profile": profile.encode()}


def _vespa_trees(form: Trees, names: list[str]) -> dict[str, Any]:
    """Return LightGBM's ``dump_model`` for Vespa, which sends values below the threshold to the left."""

    def write(node: Node) -> dict[str, Any]:
        if not isinstance(node, Split):
            return {"leaf_value": node}
        left, right = write(node.left), write(node.right)
        split = {"split_feature": node.feature, "threshold": float(just_above(node.threshold))}
        how = {"decision_type": "<=", "default_left": True}
        return {**split, **how, "left_child": left, "right_child": right}

    trees = [{"tree_index": n, "tree_structure": write(root)} for n, root in enumerate(form.terms)]
    named = {"feature_names": names, "feature_infos": {}, "pandas_categorical": []}
    return {"objective": "lambdarank", **named, "tree_info": trees}


def _without(
    entries: Callable[..., Collection[Any]], *, log1p: bool = False
) -> Callable[[Exported], list[str]]:
    """Return a function that lists the used features for which `entries` has nothing.

    With `log1p`, a network needs an entry for the logarithm, which the engine must compute too.
    """

    def missing(model: Exported) -> list[str]:
        how = {"log1p": True} if log1p and isinstance(model.form, Layers) and model.form.log1p else {}
        return [name for name in model.used if not entries([name], model.sources, **how)]

    return missing


_LTR_FILES = """\
For the plugin learning-to-rank{plugin}. Each file is a request:
  PUT _ltr                                    once: creates the feature store
  POST _ltr/_featureset/NAME                  featureset.json
  POST _ltr/_featureset/NAME/_createmodel     model.json
Add to a search: "rescore": {"window_size": 100, "query": {"query_weight": 0, "rescore_query":
  {"sltr": {"model": "NAME", "params": {"keywords": "the user's words"}}}}}
With query_weight 0 the ranks are those of the model; the default adds the score of the search.
"""
_SOLR_FILES = """\
Enable the module ltr and its query parser in solrconfig.xml. Each file is a request:
  PUT COLLECTION/schema/feature-store         features.json
  PUT COLLECTION/schema/model-store           model.json
Add to a search: rq={!ltr model=NAME reRankDocs=100 efi.keywords='the user's words'}
Leave quotation marks, + and - out of the words: the features' queries read them as operators.
"""
_VESPA_FILES = """\
NAME.profile: put it into schemas/SCHEMA/, and search with ranking=NAME
models: a folder of the application package
Fields of text need `index: enable-bm25`, numbers are attributes. The profile has no first phase: add one.
"""
_LTR: dict[str, Any] = {
    "takes": "linear models and trees",
    "read": readers.read_elasticsearch,
    "reader": "the plugin's rules",
    "missing": _without(elasticsearch_features),
}
_ANY = "networks and trees"
TARGETS: dict[str, Target] = {
    "onnx": Target("ONNX", "networks and cross-encoders", write_onnx, readers.read_onnx, "onnxruntime"),
    "lightgbm": Target("LightGBM", "its own trees", _write_lightgbm, readers.read_lightgbm, "LightGBM"),
    "elasticsearch": Target(
        "Elasticsearch",
        write=_write_elasticsearch,
        notes=_LTR_FILES.replace("{plugin}", ", which is not Elastic's own learning to rank"),
        **_LTR,
    ),
    "opensearch": Target(
        "OpenSearch",
        write=partial(_write_elasticsearch, features_of=opensearch_features),
        notes=_LTR_FILES.replace("{plugin}", ". OpenSearch before 3.0: use --to elasticsearch"),
        **_LTR,
    ),
    "solr": Target(
        "Solr",
        _ANY,
        _write_solr,
        readers.read_solr,
        "Solr's rules",
        _without(solr_features, log1p=True),
        _SOLR_FILES,
    ),
    "vespa": Target(
        "Vespa",
        _ANY,
        _write_vespa,
        readers.read_vespa,
        "Vespa's rules or onnxruntime",
        _without(vespa_expressions),
        _VESPA_FILES,
    ),
}
"""Programs by the name of ``--to``."""
