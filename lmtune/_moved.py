"""Import paths of earlier versions, which work for one more release with a DeprecationWarning."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

# Longer paths come before their parents.
MOVED = {
    "lmtune.reranking.losses.names": "lmtune.rerank.loss_names",
    "lmtune.reranking.losses": "lmtune.losses",
    "lmtune.reranking.song": "lmtune.losses.songs",
    "lmtune.reranking.training.devices": "lmtune.devices",
    "lmtune.reranking": "lmtune.rerank",
    "lmtune.surrogates": "lmtune.losses",
    "lmtune.text": "lmtune.rerank.sentence_transformers",
    "lmtune.judging.judges": "lmtune.measures.judges.agreement",
    "lmtune.judging": "lmtune.measures.judges",
    "lmtune.formats": "lmtune.io",
    "lmtune.storage": "lmtune.io",
    "lmtune.datasets": "lmtune.collections",
    "lmtune.indexing.index": "lmtune.index.protocol",
    "lmtune.indexing": "lmtune.index",
    "lmtune.reporting": "lmtune.report",
    "lmtune.exploring": "lmtune.explorer",
    "lmtune.tuning.grid": "lmtune.tuning.direct",
    "lmtune.tuning.coordinate_ascent": "lmtune.tuning.direct",
    "lmtune.tuning.spsa": "lmtune.tuning.gradient_free",
    "lmtune.tuning.choices.cases": "lmtune.tuning.choices.experiment",
    "lmtune.measures.significance.effects": "lmtune.measures.significance.tests",
    "lmtune.measures.significance.run_files": "lmtune.measures.significance.comparison",
}


class MovedFinder:
    """Import modules by the paths of earlier versions."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a path in `MOVED`, or for a submodule of one."""
        del path, target
        for old, new in MOVED.items():
            if name == old or name.startswith(f"{old}."):
                finder: Any = self  # importlib.abc, whose classes it implements, is slow to import
                return importlib.machinery.ModuleSpec(name, finder, origin=new + name.removeprefix(old))
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Import the module by its new path, and issue a warning."""
        assert spec.origin is not None
        module = importlib.import_module(spec.origin)
        warnings.warn(f"{spec.name} is now {spec.origin}", DeprecationWarning, stacklevel=2)
        # The import system replaces the spec of the returned module; `exec_module` restores it.
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec of the module, which was already executed under its new path."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Install the finder before the default one, which would load moved submodules a second time."""
    sys.meta_path.insert(0, MovedFinder())
