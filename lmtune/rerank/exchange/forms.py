"""Models as trees or as layers of a network: what files of other programs are read into and written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmtune.errors import InputError

Activation = Literal["identity", "relu", "tanh"]
ACTIVATIONS: dict[Activation, Any] = {
    "identity": lambda values: values,
    "relu": lambda values: np.maximum(values, 0),
    "tanh": np.tanh,
}
"""Activations of layers, by name."""


class Split(NamedTuple):
    """An inner node of a tree: values up to the threshold go left."""

    feature: int
    threshold: np.float32
    left: Node
    right: Node


Node = Split | float
"""A node of a tree; leaves are numbers."""


@dataclass(frozen=True, eq=False)
class Trees:
    """A sum of regression trees on float32 features.

    Attributes
    ----------
    names : tuple of str
        Feature names in order.
    roots : tuple of Node
        The trees, in the order of summation.
    base : float
        The number that the sum starts from.
    dtype : type
        Precision of the sum, as in the program that made the trees.
    """

    names: tuple[str, ...]
    roots: tuple[Node, ...]
    base: float = 0.0
    dtype: type[np.floating] = np.float64

    @property
    def used(self) -> list[int]:
        """Numbers of the features that have a split, ascending."""
        return sorted(
            {node.feature for root in self.roots for node in _nodes(root) if isinstance(node, Split)}
        )

    @property
    def terms(self) -> tuple[Node, ...]:
        """The trees, after one of a single leaf for a `base` other than 0."""
        return ((self.base,) if self.base else ()) + self.roots

    def score(self, features: NDArray[np.floating]) -> NDArray[np.floating]:
        """Score rows, shape (rows, features) to (rows,)."""
        total = np.full(len(features), self.base, self.dtype)
        values = np.empty(len(features), self.dtype)
        for root in self.roots:
            stack: list[tuple[Node, NDArray[np.int64]]] = [(root, np.arange(len(features)))]
            while stack:
                node, rows = stack.pop()
                if isinstance(node, Split):
                    is_left = features[rows, node.feature] <= node.threshold
                    stack += [(node.left, rows[is_left]), (node.right, rows[~is_left])]
                else:
                    values[rows] = node
            total += values
        return total


def _nodes(root: Node) -> list[Node]:
    found, stack = [], [root]
    while stack:
        found.append(node := stack.pop())
        if isinstance(node, Split):
            stack += [node.right, node.left]
    return found


class Layer(NamedTuple):
    """A layer of a network: activation(matrix x + bias), with a matrix of shape (outputs, inputs)."""

    matrix: NDArray[np.float64]
    bias: NDArray[np.float64]
    activation: Activation = "identity"


@dataclass(frozen=True, eq=False)
class Layers:
    """A network that scores each row by itself.

    Attributes
    ----------
    names : tuple of str
        Feature names in order.
    layers : tuple of Layer
        The last one has one output, the score.
    log1p : bool
        Whether features x are transformed to sign(x) log(1 + abs(x)) first.
    centre, scale : numpy.ndarray of float64, shape (F,), optional
        Features are then scaled: (x - centre) * scale.
    """

    names: tuple[str, ...]
    layers: tuple[Layer, ...]
    log1p: bool = False
    centre: NDArray[np.float64] | None = None
    scale: NDArray[np.float64] | None = None

    @property
    def is_linear(self) -> bool:
        """Whether the score is a weighted sum of the scaled features."""
        return len(self.layers) == 1 and not self.layers[0].bias.any()

    @property
    def used(self) -> list[int]:
        """Numbers of the features that can change the score, ascending."""
        weights = np.abs(self.layers[0].matrix).sum(axis=0)
        return np.flatnonzero(weights if self.scale is None else weights * self.scale).tolist()

    def score(self, features: NDArray[np.floating]) -> NDArray[np.floating]:
        """Score rows, shape (rows, features) to (rows,)."""
        values = np.asarray(features, np.float64)
        if self.log1p:
            values = np.copysign(np.log1p(np.abs(values)), values)
        if self.centre is not None and self.scale is not None:
            values = (values - self.centre) * self.scale
        for matrix, bias, activation in self.layers:
            values = ACTIVATIONS[activation](values @ matrix.T + bias)
        return values[:, 0]


Form = Trees | Layers


def at_most(threshold: float, *, strict: bool = False) -> np.float32:
    """Return the largest float32 that is at most a threshold, or with `strict` below it.

    Float32 values go to the same side of the returned number (by <=) as of the threshold (by <= or <).
    """
    rounded = np.float32(threshold)
    # As Python floats: NumPy would round the threshold to float32 before comparing.
    if float(rounded) > threshold or (strict and float(rounded) == threshold):
        rounded = np.nextafter(rounded, np.float32(-np.inf))
    return rounded


def just_above(threshold: np.float32) -> np.float32:
    """Return the next float32, so that values below it are those up to the threshold."""
    return np.float32(np.nextafter(threshold, np.float32(np.inf)))


def layers_of(names: Sequence[str], network: Any, arrays: Mapping[str, Any]) -> Layers:
    """Convert a `Pointwise` network in evaluation mode; batch norm becomes part of the layers.

    Parameters
    ----------
    names : sequence of str
        Feature names.
    network : Pointwise
    arrays : mapping
        ``log1p``, ``centre`` and ``scale``.

    Raises
    ------
    InputError
        If the network has a module of another kind.
    """
    from torch import nn

    layers: list[Layer] = []
    scale, shift = np.ones(len(names)), np.zeros(len(names))

    def array(tensor: Any) -> NDArray[np.float64]:
        return np.asarray(tensor.detach().cpu().numpy(), np.float64)

    for module in network.body:
        if isinstance(module, nn.Linear):
            matrix = array(module.weight)
            bias = np.zeros(len(matrix)) if module.bias is None else array(module.bias)
            layers.append(Layer(matrix * scale, bias + matrix @ shift))
            scale, shift = np.ones(len(matrix)), np.zeros(len(matrix))
        elif isinstance(module, nn.BatchNorm1d):
            scale = 1.0 / np.sqrt(array(module.running_var) + module.eps)
            scale *= array(module.weight) if module.affine else 1.0
            shift = (array(module.bias) if module.affine else 0.0) - array(module.running_mean) * scale
            if layers and layers[-1].activation == "identity":
                matrix, bias, _ = layers[-1]
                layers[-1] = Layer(matrix * scale[:, None], bias * scale + shift)
                scale, shift = np.ones(len(matrix)), np.zeros(len(matrix))
        elif isinstance(module, (nn.ReLU, nn.Tanh)):
            layers[-1] = layers[-1]._replace(activation="relu" if isinstance(module, nn.ReLU) else "tanh")
        elif not isinstance(module, nn.Dropout):
            raise InputError("cannot write this layer", value=type(module).__name__)
    return Layers(tuple(names), tuple(layers), **arrays)
