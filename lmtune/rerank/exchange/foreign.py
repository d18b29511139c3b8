"""Models of other programs: LightGBM's text, XGBoost's JSON and UBJSON, CatBoost's JSON, RankLib's files."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import FilePosition, InputError, PathLike
from lmtune.io.files import read_bytes
from lmtune.rerank.data import RankingData
from lmtune.rerank.exchange.forms import Form, Layer, Layers, Node, Split, Trees, at_most
from lmtune.rerank.learners.learner import FeatureScorer, ScoringOptions
from lmtune.rerank.settings import Settings
from lmtune.rerank.training.loop import StepProgress
from lmtune.strict_json import parse_json

_FILE = "scorer.model"
_ACCEPTED = (
    "LightGBM's text, XGBoost's JSON or UBJSON, CatBoost's JSON, RankLib's LambdaMART, MART or linear models"
)


def _refuse(what: str, value: Any) -> None:
    raise InputError(f"cannot score {what}", value=value, accepted=_ACCEPTED)


def lightgbm_trees(text: str) -> Trees:
    """Parse LightGBM's text; scores are raw ones, as of ``predict(raw_score=True)``.

    Raises
    ------
    InputError
        If the model has several classes, categorical splits, linear trees, or zeros as missing values.
    """
    header, *blocks = re.split(r"^Tree=\d+$", text.partition("\nend of trees")[0], flags=re.MULTILINE)
    facts = _lines(header)
    if int(facts["num_tree_per_iteration"]) != 1:
        _refuse("several classes", facts["num_tree_per_iteration"])
    share = 1.0 / len(blocks) if "average_output" in header.split("\n") else 1.0
    roots = tuple(_lightgbm_tree(_lines(block), share) for block in blocks)
    return Trees(tuple(facts["feature_names"].split()), roots)


def _lines(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _lightgbm_tree(facts: Mapping[str, str], share: float) -> Node:
    if facts.get("is_linear", "0") != "0":
        _refuse("linear trees", "is_linear=1")
    numbers = {name: facts.get(name, "").split() for name in ("split_feature", "threshold", "decision_type")}
    children = facts.get("left_child", "").split(), facts.get("right_child", "").split()
    for kind in map(int, numbers["decision_type"]):
        # Bit 0: categorical; bits 2 and 3: 1 if zeros are missing values, 2 if NaN are.
        if kind & 1 or kind >> 2 & 3 == 1:
            _refuse("categorical splits and zeros as missing values", f"decision_type={kind}")
    leaves = [float(value) * share for value in facts["leaf_value"].split()]

    def node(number: int) -> Node:
        if number < 0:
            return leaves[~number]
        feature, threshold = int(numbers["split_feature"][number]), float(numbers["threshold"][number])
        left, right = (node(int(child[number])) for child in children)
        return Split(feature, at_most(threshold), left, right)

    return node(0 if children[0] else -1)


_MARGINS: dict[str, Callable[[float], float]] = {
    **dict.fromkeys(("reg:logistic", "binary:logistic"), lambda share: math.log(share / (1.0 - share))),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), math.log),
}
"""XGBoost's objectives whose base score is not a margin, and its conversion into one."""


def xgboost_form(model: Mapping[str, Any]) -> Form:
    """Convert XGBoost's model (its JSON); scores are margins, as of ``predict(output_margin=True)``.

    Raises
    ------
    InputError
        If the model has several classes or targets, or categorical splits.
    """
    learner = model["learner"]
    facts, booster = learner["learner_model_param"], learner["gradient_booster"]
    for name in ("num_class", "num_target"):
        if int(facts.get(name, 0)) > 1:
            _refuse("several classes or targets", f"{name}={facts[name]}")
    base = float(facts["base_score"].strip("[]"))
    base = _MARGINS.get(learner["objective"]["name"], float)(base)
    width = int(facts["num_feature"])
    names = tuple(learner.get("feature_names") or (f"Column_{number}" for number in range(width)))
    if booster["name"] == "gblinear":
        *weights, bias = booster["model"]["weights"]
        return Layers(names, (Layer(np.array([weights]), np.array([bias + base])),))
    trees = booster.get("gbtree", booster)["model"]["trees"]
    factors = booster.get("weight_drop") or [1.0] * len(trees)
    roots = tuple(_xgboost_tree(tree, factor) for tree, factor in zip(trees, factors, strict=True))
    return Trees(names, roots, base, np.float32)


def _xgboost_tree(tree: Mapping[str, Sequence[Any]], factor: float) -> Node:
    if any(tree["split_type"]):
        _refuse("categorical splits", "split_type=1")

    def node(number: int) -> Node:
        # JSON has the shortest decimals that float32 reads as the same number.
        left, value = int(tree["left_children"][number]), np.float32(tree["split_conditions"][number])
        if left < 0:
            return float(value * np.float32(factor))
        right = node(int(tree["right_children"][number]))
        return Split(
            int(tree["split_indices"][number]), at_most(float(value), strict=True), node(left), right
        )

    return node(0)


def catboost_trees(model: Mapping[str, Any]) -> Trees:
    """Convert CatBoost's symmetric trees (its JSON); scores are raw ones, as of ``predict``.

    Raises
    ------
    InputError
        If the model has several outputs, trees that are not symmetric, or splits of categories.
    """
    scale, (base, *others) = model["scale_and_bias"]
    if others:
        _refuse("several outputs", f"{1 + len(others)} outputs")
    facts = model["features_info"]["float_features"]
    names = tuple(one.get("feature_id") or f"Column_{one['flat_feature_index']}" for one in facts)
    if "oblivious_trees" not in model:
        _refuse("trees that are not symmetric", "no oblivious_trees")
    return Trees(names, tuple(_catboost_tree(tree, scale) for tree in model["oblivious_trees"]), base)


def _catboost_tree(tree: Mapping[str, Sequence[Any]], scale: float) -> Node:
    splits, leaves = tree["splits"] or [], tree["leaf_values"]
    for split in splits:
        if split["split_type"] != "FloatFeature":
            _refuse("splits of categories", split["split_type"])

    def node(depth: int, leaf: int) -> Node:
        """Return a subtree; bit d of a leaf's number says whether it lies above the border of split d."""
        if depth == 0:
            return float(leaves[leaf]) * scale
        split = splits[depth - 1]
        below, above = node(depth - 1, leaf), node(depth - 1, leaf + (1 << (depth - 1)))
        return Split(int(split["float_feature_index"]), at_most(float(split["border"])), below, above)

    return node(len(splits), 0)


def parse_ubjson(content: bytes) -> Any:
    """Parse Universal Binary JSON (draft 12): what XGBoost writes as ``.ubj``."""
    numbers = {b"i": "b", b"U": "B", b"I": "h", b"l": "i", b"L": "q", b"d": "f", b"D": "d"}
    at = 0

    def take(count: int) -> bytes:
        nonlocal at
        at += count
        if count < 0 or at > len(content):
            raise ValueError("the file ends early")
        return content[at - count : at]

    def number(kind: bytes) -> Any:
        return struct.unpack(f">{numbers[kind]}", take(struct.calcsize(numbers[kind])))[0]

    def text() -> str:
        return take(number(take(1))).decode()

    def peek(mark: bytes) -> bool:
        nonlocal at
        is_next = content[at : at + 1] == mark
        at += is_next
        return is_next

    def value(kind: bytes) -> Any:
        if kind in numbers:
            return number(kind)
        if kind in b"TFZ":
            return {b"T": True, b"F": False, b"Z": None}[kind]
        if kind == b"S":
            return text()
        is_object, close = kind == b"{", {b"{": b"}", b"[": b"]"}[kind]
        shared = take(1) if peek(b"$") else None
        left = number(take(1)) if peek(b"#") else None
        pairs = []
        while left if left is not None else not peek(close):
            left = None if left is None else left - 1
            pairs.append((text() if is_object else "", value(shared or take(1))))
        return dict(pairs) if is_object else [item for _, item in pairs]

    return value(take(1))


def ranklib_form(text: str) -> Form:
    """Parse RankLib's LambdaMART, MART, coordinate ascent or linear regression.

    Raises
    ------
    InputError
        If the model is of another kind.
    """
    lines = [line.strip() for line in text.splitlines()]
    name, content = lines[0].strip("# "), "\n".join(line for line in lines if not line.startswith("##"))
    if name in ("Coordinate Ascent", "Linear Regression"):
        weights = {int(id_): float(weight) for id_, weight in (pair.split(":") for pair in content.split())}
        bias = weights.pop(0, 0.0)
        matrix = np.zeros((1, max(weights)))
        matrix[0, np.array(list(weights)) - 1] = list(weights.values())
        return Layers(_numbered(matrix.shape[1]), (Layer(matrix, np.array([bias])),))
    if name not in ("LambdaMART", "MART"):
        _refuse("this RankLib model", name)
    from lxml import etree  # type: ignore[import-untyped]

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    root = etree.fromstring(content.strip().encode(), parser)

    def node(split: Any, weight: np.float32) -> Node:
        if (output := split.findtext("output")) is not None:
            return float(np.float32(float(output) * float(weight)))
        left, right = (node(split.find(f"split[@pos='{side}']"), weight) for side in ("left", "right"))
        feature, threshold = int(split.findtext("feature")), np.float32(split.findtext("threshold"))
        return Split(feature - 1, threshold, left, right)

    roots = tuple(node(tree.find("split"), np.float32(tree.get("weight"))) for tree in root.iter("tree"))
    trees = Trees((), roots, 0.0, np.float32)
    return Trees(_numbered(max(trees.used, default=0) + 1), roots, 0.0, np.float32)


def _numbered(width: int) -> tuple[str, ...]:
    return tuple(map(str, range(1, width + 1)))


@dataclass(frozen=True)
class ForeignModel(FeatureScorer):
    """A model that another program trained.

    Attributes
    ----------
    content : bytes
        The model's file.
    label : str
        The program: ``lightgbm``, ``xgboost``, ``catboost`` or ``ranklib``.
    form : Trees or Layers
    """

    content: bytes = field(repr=False)
    label: str
    form: Form

    kind: ClassVar = "foreign"
    scales: ClassVar = False
    has_rate: ClassVar = False
    settings: ClassVar = Settings()
    validation: ClassVar = math.nan

    @property
    def summary(self) -> str:
        """One line with the kind of model."""
        return f"{self.label}, {len(self.form.names)} features"

    @property
    def is_named(self) -> bool:
        """Whether the file names the features."""
        return not re.fullmatch(r"Column_\d+|\d+|f\d+", self.form.names[0])

    @classmethod
    def read(cls, path: PathLike) -> Self:
        """Read a model; the content shows which program wrote it.

        Raises
        ------
        InputError
            If the file is damaged or of another program, or has what cannot be scored.
        """
        try:
            with FilePosition(path):
                return cls.parse(read_bytes(path))
        except InputError:
            raise
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            SyntaxError,
            RecursionError,
            struct.error,
        ) as error:
            problem = f"not a model, or a damaged one: {error}"
            raise InputError(problem, file=path, accepted=_ACCEPTED) from error

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Parse the content of a model's file; see `read`."""
        if content.startswith(b"tree\n"):
            if b"\nend of trees" not in content:
                raise ValueError("LightGBM's text has no line 'end of trees'")
            return cls(content, "lightgbm", lightgbm_trees(content.decode()))
        if content.startswith(b"## "):
            return cls(content, "ranklib", ranklib_form(content.decode()))
        parsed: Any = {}
        if content.lstrip().startswith(b"{"):
            is_json = re.match(rb'\s*\{\s*"', content) is not None
            parsed = parse_json(content, infinite=True) if is_json else parse_ubjson(content)
        if "scale_and_bias" in parsed:
            return cls(content, "catboost", catboost_trees(parsed))
        if "learner" in parsed:
            return cls(content, "xgboost", xgboost_form(parsed))
        begin = content[:20].decode(errors="backslashreplace")
        raise InputError("not a model", value=begin, accepted=_ACCEPTED)

    def score(
        self, data: RankingData, *, progress: StepProgress | None = None, **how: Unpack[ScoringOptions]
    ) -> NDArray[np.floating]:
        """Score every row on the CPU, shape (rows,).

        LightGBM and XGBoost number features from 0. If they read a LETOR file themselves, feature 0 is
        one that no row has; the data may lack it.

        Raises
        ------
        InputError
            If the number of features differs from the model's; for RankLib, whose files do not state it, if
            it is smaller.
        """
        del progress, how
        features, width = data.features, len(self.form.names)
        lacks_first = features.shape[1] == width - 1 and not self.is_named and 0 not in self.form.used
        if lacks_first:
            features = np.pad(features, ((0, 0), (1, 0)))
        if features.shape[1] < width or (features.shape[1] > width and self.label != "ranklib"):
            raise InputError("wrong number of features", value=data.features.shape[1], accepted=str(width))
        return self.form.score(features[:, :width])

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the model's file; see `Scorer`."""
        (folder / _FILE).write_bytes(self.content)
        return {"settings": {}}

    @classmethod
    def load(cls, folder: Path, files: Mapping[str, bytes], model: Mapping[str, Any]) -> Self:
        """Load the scorer that `save` wrote; see `Scorer`."""
        del folder, model
        return cls.parse(files[_FILE])
