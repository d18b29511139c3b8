"""Which index a name on the command line stands for; few imports, so that it is told at once."""

from __future__ import annotations

from pathlib import Path

from lmtune.errors import InputError

LUCENE, SHARDED = "lucene:", "sharded:"
_SHARDS = "shards.json"


def find_index(name: str) -> str:
    """Find a named index.

    Parameters
    ----------
    name : str
        The folder of an index, of Lucene's with or without ``lucene:``, of shards with or without
        ``sharded:``; or ``lucene:NAME``, one of pyserini's, which is not looked for here.

    Returns
    -------
    str
        The name, with ``lucene:`` where the folder is Lucene's, ``sharded:`` where it is of shards.

    Raises
    ------
    InputError
        Where there is no such folder.
    """
    if name.startswith(LUCENE) and "/" not in name:
        return name
    folder = Path(name.removeprefix(LUCENE).removeprefix(SHARDED))
    if not folder.is_dir():
        raise InputError(
            "there is no index here",
            file=folder,
            accepted="a folder that `lmtune index` or Lucene wrote; or lucene:NAME, one of pyserini",
        )
    if name.startswith(SHARDED) or (folder / _SHARDS).is_file():
        return f"{SHARDED}{folder}"
    return f"{LUCENE}{folder}" if any(folder.glob("segments_*")) else name
