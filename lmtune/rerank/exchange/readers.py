"""Scores of exported files as other programs compute them, to check an export.

ONNX files are scored by onnxruntime, and LightGBM's text by LightGBM. The JSON of search engines is evaluated
here by the rules in their documents and sources: in float32, except for Vespa.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError, MissingExtraError
from lmtune.strict_json import parse_json

Scores = NDArray[np.floating]
Score = Callable[[NDArray[np.float32]], Scores]
Read = Callable[[Mapping[str, bytes], Sequence[str]], Score]
"""Returns a function of rows (rows, F) from an export's files and the engine's names of the F features."""

SLACK = np.float32(1e-6)
"""Added by Solr to each threshold."""


def read_onnx(files: Mapping[str, bytes], names: Sequence[str]) -> Score:
    """Read the ONNX file; onnxruntime scores."""
    del names
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("ONNX", "export") from error
    content = next(content for name, content in files.items() if name.endswith(".onnx"))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return lambda features: np.asarray(session.run(["score"], {"features": features})[0])[:, 0]


def read_lightgbm(files: Mapping[str, bytes], names: Sequence[str]) -> Score:
    """Read LightGBM's text; LightGBM scores."""
    del names
    import lightgbm

    booster = lightgbm.Booster(model_str=files["model.txt"].decode())
    return lambda features: np.asarray(booster.predict(features, raw_score=True))


def _tree_scores(root: Any, count: int, step: Callable[[Any, NDArray[np.int64]], Any]) -> Scores:
    """Score rows by a tree: `step` returns a leaf's value, or a mask of rows and both children."""
    scores = np.empty(count)
    stack = [(root, np.arange(count))]
    while stack:
        node, rows = stack.pop()
        result = step(node, rows)
        if isinstance(result, tuple):
            is_left, left, right = result
            stack += [(left, rows[is_left]), (right, rows[~is_left])]
        else:
            scores[rows] = result
    return scores


def _summed(trees: Sequence[Any], count: int, step: Callable[..., Any], dtype: type[np.floating]) -> Scores:
    total = np.zeros(count, dtype)
    for tree in trees:
        total += _tree_scores(tree, count, step).astype(dtype)
    return total


def _columns(features: NDArray[np.float32], names: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    return dict(zip(names, features.T, strict=True))


def _log1p(values: NDArray[np.float32]) -> NDArray[np.float32]:
    wide = values.astype(np.float64)
    return np.asarray(np.copysign(np.log(1 + np.abs(wide)), wide), np.float32)


def _scaled(values: NDArray[np.float32], mean: Any, deviation: Any) -> NDArray[np.float32]:
    return (values - np.float32(mean)) / np.float32(deviation)


def read_elasticsearch(files: Mapping[str, bytes], names: Sequence[str]) -> Score:
    """Read the feature set and the model of the learning-to-rank plugins of Elasticsearch and OpenSearch."""
    features_ = parse_json(files["featureset.json"])["featureset"]["features"]
    model = parse_json(files["model.json"])["model"]["model"]
    definition = parse_json(model["definition"])

    def score(features: NDArray[np.float32]) -> Scores:
        columns = _columns(features, names)
        for feature in features_:
            if feature["name"] not in columns and feature["template_language"] == "derived_expression":
                known = re.fullmatch(r"(\w+) < 0 \? -ln\(1 - \1\) : ln\(1 \+ \1\)", feature["template"])
                if known is None:
                    raise InputError("unknown expression", value=feature["template"])
                columns[feature["name"]] = _log1p(columns[known[1]])
        for name, norm in model.get("feature_normalizers", {}).items():
            columns[name] = _scaled(
                columns[name], norm["standard"]["mean"], norm["standard"]["standard_deviation"]
            )
        if model["type"] == "model/linear":
            total = np.zeros(len(features), np.float32)
            for name, weight in definition.items():
                total += np.float32(weight) * columns[name]
            return total

        def step(node: Any, rows: NDArray[np.int64]) -> Any:
            if "leaf" in node:
                return node["leaf"]
            left, right = node["children"]
            return columns[node["split"]][rows] < np.float32(node["split_condition"]), left, right

        return _summed(definition, len(features), step, np.float32)

    return score


def read_solr(files: Mapping[str, bytes], names: Sequence[str]) -> Score:
    """Read the model of Solr's learning-to-rank module."""
    model = parse_json(files["model.json"])
    kind, parameters = model["class"].rpartition(".")[2], model["params"]

    def score(features: NDArray[np.float32]) -> Scores:
        raw, columns = _columns(features, names), {}
        for feature in model["features"]:
            name, norm = feature["name"], feature.get("norm", {}).get("params")
            values = raw[name] if name in raw else _log1p(raw[name.removeprefix("log1p_")])
            columns[name] = values if norm is None else _scaled(values, norm["avg"], norm["std"])
        if kind == "LinearModel":
            total = np.zeros(len(features), np.float32)
            for name, values in columns.items():
                total += values * np.float32(parameters["weights"][name])
            return total
        if kind == "NeuralNetworkModel":
            activations: dict[str, Callable[[Any], Any]] = {
                "relu": lambda x: np.maximum(x, 0),
                "tanh": np.tanh,
            }
            values = np.column_stack(list(columns.values()))
            for layer in parameters["layers"]:
                values = values @ np.float32(layer["matrix"]).T + np.float32(layer["bias"])
                values = activations.get(layer["activation"], lambda x: x)(values)
            return values[:, 0]

        def step(node: Any, rows: NDArray[np.int64]) -> Any:
            if "feature" not in node:
                return node["value"]
            threshold = np.float32(node["threshold"]) + SLACK
            return columns[node["feature"]][rows] <= threshold, node["left"], node["right"]

        return _summed([tree["root"] for tree in parameters["trees"]], len(features), step, np.float32)

    return score


def read_vespa(files: Mapping[str, bytes], names: Sequence[str]) -> Score:
    """Read the trees as Vespa does, which sends values below the threshold to the left; or the ONNX file."""
    trees = [content for name, content in files.items() if name.endswith(".json")]
    if not trees:
        return read_onnx(files, names)
    model = parse_json(trees[0])

    def score(features: NDArray[np.float32]) -> Scores:
        columns = _columns(features, names)

        def step(node: Any, rows: NDArray[np.int64]) -> Any:
            if "leaf_value" in node:
                return node["leaf_value"]
            values = columns[names[node["split_feature"]]][rows].astype(np.float64)
            return values < node["threshold"], node["left_child"], node["right_child"]

        roots = [tree["tree_structure"] for tree in model["tree_info"]]
        return _summed(roots, len(features), step, np.float64)

    return score
