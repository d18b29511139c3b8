"""``lmtune rerank``: train a reranker, apply it to runs, compare losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from lmtune.cli.groups import Member, of_module
from lmtune.errors import MissingExtraError
from lmtune.options import option


@dataclass(frozen=True)
class Machine:
    """The machine."""

    device: str = option("cpu", "cpu or cuda.")
    threads: int | None = option(None, "Of torch; another number may round differently.", low=1)

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads > 0:
            import torch

            torch.set_num_threads(self.threads)


def members() -> Iterator[Member]:
    """Yield the group's commands."""
    for name in ("train", "crossval", "apply", "compare", "importance"):
        yield of_module(f"lmtune.cli.rerank.{name}", name, before=_need_neural)
    yield of_module("lmtune.cli.rerank.features", "features")


def _need_neural() -> None:
    if any(find_spec(name) is None for name in ("torch", "safetensors")):
        raise MissingExtraError("rerank", "neural")
