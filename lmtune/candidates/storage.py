"""Cache of pruned candidates in files next to their index.

The files do not depend on judgments, so that judgments can change without a rebuild.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from lmtune.candidates import skyband
from lmtune.candidates.columns import UNJUDGED, Columns, look_up_judgments, starts
from lmtune.candidates.dominance import Pruning
from lmtune.candidates.extraction import extract_pruned
from lmtune.candidates.pool import CandidatePool
from lmtune.errors import InputError, PathLike
from lmtune.index.protocol import Index, field_index
from lmtune.io.files import atomic_write
from lmtune.io.locks import StaleError, build_once
from lmtune.models.formula import Formula, query_columns
from lmtune.models.model import Model, find_model
from lmtune.models.two_stage import TWO_STAGE
from lmtune.progress import Count
from lmtune.strict_json import parse_json

_CANDIDATES_FORMAT = "lmtune candidates 2"
"""Format of the files; increment it with each incompatible change."""


# Pruning pays if the index has at least this multiple of the run depth in documents.
_WORTH_PRUNING = 20


class CachingIndex(Index, Protocol):
    """An index with a folder for cached candidates."""

    @property
    def candidates_path(self) -> Path:
        """The folder of cached candidates."""


def pool_for(
    index: CachingIndex,
    topics: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    *,
    name: str,
    model: str | Model | Formula = TWO_STAGE,
    exclude_self: bool = False,
    depth: int = 1000,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    progress: Count | None = None,
    on_build: Callable[[Path, str], None] | None = None,
) -> CandidatePool:
    """Return all candidates of a small index, or pruned and cached candidates of a large one.

    Parameters
    ----------
    index, topics, qrels, name, model, exclude_self, depth, progress, on_build
        As for `stored_pool`.
    ranges : mapping of str to (low, high), optional
        Ranges of parameters in which the pool must be exact, in addition to the default ranges of
        `stored_pool`.

    Returns
    -------
    CandidatePool
        A pool that is exact in these ranges, to the depth.

    Raises
    ------
    InputError
        As `stored_pool`.
    """
    formula = find_model(model).formula
    if index.num_docs < _WORTH_PRUNING * depth or formula.dominance is None or formula.stamp is None:
        how: dict[str, Any] = {"name": name, "model": model, "exclude_self": exclude_self}
        return CandidatePool.build(index, topics, qrels, **how, progress=progress)
    return stored_pool(
        index.candidates_path,
        index,
        topics,
        qrels,
        name=name,
        model=model,
        exclude_self=exclude_self,
        progress=progress,
        on_build=on_build,
        **skyband.exactness_in(depth, ranges or {}),
    )


def stored_pool(
    folder: PathLike,
    index: Index,
    topics: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]] | None = None,
    *,
    name: str | None = None,
    model: str | Model | Formula = TWO_STAGE,
    exclude_self: bool = False,
    threads: int | None = None,
    progress: Count | None = None,
    on_build: Callable[[Path, str], None] | None = None,
    **exactness: Unpack[skyband.Exactness],
) -> CandidatePool:
    """Read a pruned pool from a folder; build and store it first if it is missing or outdated.

    If several processes need the same pool, one builds it and the others wait.

    Parameters
    ----------
    folder : path-like
        Folder of stored pools, with one file for each set of topics, depth and model; created if missing. A
        folder inside the index's folder is deleted with the index.
    index, topics, qrels, name, model, exclude_self, threads, exactness
        As for `lmtune.candidates.extraction.extract_pruned`.
    progress : callable, optional
        Called with (topics done, number of topics) while building.
    on_build : callable, optional
        Called with the file and the reason before building.

    Returns
    -------
    CandidatePool

    Raises
    ------
    InputError
        As `extract_pruned`, and if the file cannot be written.
    """
    formula = find_model(model).formula
    wanted: dict[str, Any] = {
        "format": _CANDIDATES_FORMAT,
        "pruning": skyband.SKYBAND_VERSION,
        "index": "/".join(
            each.fingerprint for each in (index, *(field_index(index, f) for f in formula.fields))
        ),
        "topics": _digest(topics),
        **skyband.DEFAULT_EXACTNESS,
        **exactness,
    }
    of_model = "" if formula.name == TWO_STAGE.name else "-" + re.sub("[:/]", "-", formula.name)
    if of_model:
        wanted["model"] = formula.name
    if formula.stamp is None:
        raise InputError(
            "candidates with functions as features cannot be stored",
            value=formula.name,
            accepted="names of features and files",
        )
    if formula.stamp:
        wanted["stamp"] = formula.stamp
    if exclude_self:
        wanted["exclude_self"], of_model = True, f"{of_model}-exclude-self"
    path = Path(folder, f"{wanted['topics'][:16]}-{wanted['depth']}{of_model}.npz")
    title = index.name if name is None else name
    options: dict[str, Any] = {"qrels": qrels, "name": title, "exclude_self": exclude_self}
    options |= {"threads": threads, **exactness}

    def build() -> CandidatePool:
        pool = extract_pruned(index, topics, model=formula, progress=progress, **options)
        _write(path, wanted, pool)
        return pool

    pool = build_once(path, partial(_read, path, wanted, index, title, qrels or {}, formula), build, on_build)
    return pool.with_rebuild(partial(extract_pruned, index, topics, **options))


def _write(path: Path, made: dict[str, Any], pool: CandidatePool) -> None:
    assert pool.pruning is not None
    columns = pool.candidates
    header = {
        "made": made,
        "topics": pool.topics,
        "terms": pool.terms,
        "unknown_terms": pool.unknown_terms,
        "pruning": {**asdict(pool.pruning), "by_e": pool.pruning.by_e.tolist()},
    }
    with atomic_write(path, mode="binary") as stream:
        np.savez(
            stream,
            header=np.frombuffer(json.dumps(header).encode(), np.uint8),
            value=pool.value,
            count=pool.count,
            group=pool.group,
            documents=np.diff(columns.start),
            doc=columns.doc,
            length=columns.length,
            tf=columns.tf,
        )


def _read(
    path: Path,
    wanted: dict[str, Any],
    index: Index,
    name: str,
    qrels: Mapping[str, Mapping[str, int]],
    formula: Formula,
) -> CandidatePool:
    try:
        with np.load(path, allow_pickle=False) as archive:
            header = parse_json(_member(archive, "header").tobytes(), infinite=True)
            differs = [key for key in wanted if header["made"][key] != wanted[key]]
            if differs:
                raise StaleError(f"made with another {differs[0]}")
            data = {key: _member(archive, key) for key in archive.files if key != "header"}
        terms = tuple(tuple(some) for some in header["terms"])
        candidates, columns = _columns(data, terms), query_columns(terms, data["group"], data["count"])
        pruning = header["pruning"]
        pruning["by_e"] = np.array(pruning["by_e"], np.bool_)
    except FileNotFoundError:
        raise StaleError("there is none yet") from None
    except (OSError, ValueError, LookupError, TypeError, EOFError) as error:
        raise StaleError(f"damaged: {error}") from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise StaleError(f"damaged: {error}") from error
    exclude_self = "exclude_self" in wanted
    known = index, formula, header["topics"], columns, candidates
    gain, judged = look_up_judgments(*known, qrels, exclude_self=exclude_self)
    return CandidatePool(
        name=name,
        index=index,
        topics=tuple(header["topics"]),
        terms=terms,
        term_start=starts(terms),
        value=data["value"],
        count=data["count"],
        group=data["group"],
        candidates=replace(candidates, gain=gain),
        unknown_terms=header["unknown_terms"],
        pruning=Pruning(**pruning),
        formula=formula,
        exclude_self=exclude_self,
        **judged._asdict(),
    )


def _member(archive: Any, name: str) -> NDArray[Any]:
    """Read an array of an archive; reading all bytes verifies the checksum."""
    raw = io.BytesIO(archive.zip.read(f"{name}.npy"))
    array: NDArray[Any] = np.lib.format.read_array(raw, allow_pickle=False)
    if raw.read(1):
        raise ValueError(f"{name} has another size")
    return array


def _columns(data: dict[str, NDArray[Any]], terms: tuple[tuple[str, ...], ...]) -> Columns:
    documents = data["documents"].astype(np.int64)
    tf_sizes = documents * [len(some) for some in terms]
    doc, length, tf = data["doc"], data["length"], data["tf"]
    if (doc.size, length.size, tf.size) != (documents.sum(), documents.sum(), tf_sizes.sum()):
        raise ValueError("columns have inconsistent sizes")
    return Columns(
        start=np.concatenate(([0], np.cumsum(documents))),
        tf_start=np.concatenate(([0], np.cumsum(tf_sizes))),
        doc=doc,
        length=length,
        gain=np.full(doc.size, UNJUDGED, np.int32),
        tf=tf,
    )


def _digest(topics: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(list(topics.items())).encode()).hexdigest()
