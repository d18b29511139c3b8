"""Test collections for the laboratory, by name, as ``lmtune tune`` prepares them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lmtune.candidates.pool import CandidatePool
from lmtune.candidates.storage import pool_for
from lmtune.datasets.consistency import check, split_topics
from lmtune.datasets.dataset import Dataset
from lmtune.datasets.loading import load
from lmtune.errors import InputError, PathLike, name_of
from lmtune.indexing.cache import HOME, index_for

COLLECTION_HELP = "pydocs, a folder, irds:ID, synthetic:NAME"
"""What a name of a collection may be, for options."""


def short_name(name: str) -> str:
    """Return what to call a collection: a folder's own name, or the name as it is."""
    return name if ":" in name else name_of(name)


def index_collection(name: str, indexes: PathLike = HOME, *, topics: int = 0) -> int:
    """Build a collection's index unless a current one is there; return its usable topics' number.

    Called before processes share the work, it spares each of them to build the index.

    Parameters
    ----------
    name, indexes, topics
        As for `load_pool`.

    Raises
    ------
    InputError
        As `load_pool`.
    """
    dataset = _checked(name)
    assert dataset.documents is not None
    index_for(dataset.documents, home=indexes)
    return len(_usable(dataset, topics))


@lru_cache(maxsize=2)
def load_pool(name: str, *, indexes: PathLike = HOME, topics: int = 0, seed: int = 0) -> CandidatePool:
    """Load a collection and extract the candidates of its topics that have a relevant document.

    Parameters
    ----------
    name : str
        As for `lmtune.datasets.loading.load`: ``pydocs``, a folder, ``irds:ID``,
        ``synthetic:NAME``. It needs documents: a collection that only an index stands for is not
        enough.
    indexes : path-like
        The folder of built indexes; the collection's is built there if it is missing or stale.
    topics : int
        How many topics, drawn by `seed`, in the collection's order; 0 for all.
    seed : int
        Of the draw.

    Returns
    -------
    CandidatePool
        For two-stage smoothing; kept for the process.

    Raises
    ------
    InputError
        For an unknown collection, parts that do not belong together, no documents, or more topics
        than there are.
    """
    dataset = _checked(name)
    assert dataset.documents is not None
    index = index_for(dataset.documents, home=indexes)
    check(dataset, doc_numbers=index.doc_numbers)
    usable = _usable(dataset, topics)
    if topics:
        drawn = np.random.default_rng(seed).permutation(len(usable))[:topics]
        usable = [usable[place] for place in sorted(drawn)]
    chosen = {topic: dataset.topics[topic] for topic in usable}
    return pool_for(index, chosen, dataset.qrels, name=dataset.name)


def _usable(dataset: Dataset, topics: int) -> list[str]:
    usable = split_topics(dataset).usable
    if not 0 <= topics <= len(usable):
        raise InputError(
            f"too few topics with a relevant document in {dataset.name}",
            value=topics,
            accepted=f"0 (all) to {len(usable)}",
        )
    return usable


@lru_cache(maxsize=1)
def _checked(name: str) -> Dataset:
    dataset = check(load(name)).dataset
    if dataset.documents is None:
        raise InputError("no documents", value=name, accepted="pydocs, a folder, irds:ID or synthetic:NAME")
    return dataset
