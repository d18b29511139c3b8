"""A test collection in a folder: which of its files are documents, topics and judgements."""

from __future__ import annotations

import re
from pathlib import Path

from lmtune.errors import InputError, PathLike
from lmtune.formats.file_documents import document_files
from lmtune.progress import note

_PACKED = r"(\.gz|\.bz2|\.zst)?"
_TABLE = rf"\.(tsv|txt){_PACKED}"
# For each role, names in tiers: the first tier that the folder has decides, and must be one file.
_DOCUMENTS = (rf"docs\.jsonl{_PACKED}", rf"(documents|corpus|collection)\.(jsonl|tsv){_PACKED}")
_DOCUMENT_FOLDERS = ("docs", "documents")
_TOPICS = (
    rf"topics(\.(tsv|txt|jsonl|trec|sgml|xml))?{_PACKED}",
    rf"queries(\.(tsv|txt|jsonl|trec|sgml|xml))?{_PACKED}",
    rf"topics\..+\.(tsv|txt|jsonl){_PACKED}",
    rf"queries\..+\.(tsv|txt|jsonl){_PACKED}",
)
_QRELS = (rf"qrels\.txt{_PACKED}", rf"qrels(\.(tsv|trec|qrels))?{_PACKED}", rf"qrels\..+{_TABLE}")
_ACCEPTED = {
    "documents": "docs.jsonl, collection.tsv, or TREC files in the folder itself, docs/ or documents/",
    "topics": "topics.tsv, topics.txt, topics.jsonl, queries.tsv, ... or topics.NAME.txt",
    "qrels": "qrels.txt, qrels, qrels.tsv, qrels.NAME.txt or qrels/NAME.tsv",
}
_USUAL_SPLIT = "test"


def find_documents(folder: PathLike) -> list[Path]:
    """Find a folder's document files.

    Parameters
    ----------
    folder : path-like
        Taken, in this order: ``docs.jsonl`` (or ``documents.jsonl``, ``corpus.jsonl``,
        ``collection.jsonl``, or one of these as ``.tsv``), plain or compressed; all files under
        ``docs/`` or ``documents/``; all files of the folder and those below it that belong to no
        other role. Files that are left out by the first two, and may be documents, are told.

    Returns
    -------
    list of pathlib.Path
        The files in collection order; at least one.

    Raises
    ------
    InputError
        If there are none, or several in the same place of that order.
    """
    home = Path(folder)
    single = _find("documents", home, _DOCUMENTS)
    if single is not None:
        _tell_left_out(home, [single], single.name)
        return [single]
    folders = [home / name for name in _DOCUMENT_FOLDERS if (home / name).is_dir()]
    if len(folders) > 1:
        raise _ambiguous("documents", home, [path.name + "/" for path in folders])
    if folders:
        files = document_files(folders[0])
        _tell_left_out(home, files, f"{folders[0].name}/")
        return files
    files = _all_documents(home)
    if not files:
        raise _missing("documents", home)
    return files


def find_topics(folder: PathLike, split: str | None = None) -> Path:
    """Find a folder's topics.

    Parameters
    ----------
    folder : path-like
        Taken, in this order, plain or compressed: ``topics`` with one of the suffixes ``.tsv``,
        ``.txt``, ``.jsonl``, ``.trec``, ``.sgml``, ``.xml`` or none; ``queries`` likewise;
        ``topics.NAME.txt`` (``.tsv``, ``.jsonl``); ``queries.NAME.txt`` likewise.
    split : str, optional
        A NAME that is taken first.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InputError
        If there is none, or several in the same place of that order.
    """
    named = rf"(topics|queries)\.{re.escape(split or '')}\.(tsv|txt|jsonl){_PACKED}"
    found = _find("topics", Path(folder), (named, *_TOPICS) if split else _TOPICS)
    if found is None:
        raise _missing("topics", Path(folder))
    return found


def find_qrels(folder: PathLike, split: str | None = None) -> Path:
    """Find a folder's judgements.

    Parameters
    ----------
    folder : path-like
        Taken, in this order, plain or compressed: ``qrels.txt``; ``qrels``, ``qrels.tsv``,
        ``qrels.trec``, ``qrels.qrels``; ``qrels.NAME.txt`` or ``qrels.NAME.tsv``; of a folder
        ``qrels/``, as BEIR has it, the only file, or else ``test.tsv``.
    split : str, optional
        A NAME: only ``qrels.NAME.txt`` (``.tsv``) and ``qrels/NAME.tsv`` (``.txt``) are taken.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InputError
        If there is none, or several in the same place of that order.
    """
    home, inner = Path(folder), Path(folder, "qrels")
    tiers: tuple[str, ...] = _QRELS
    inner_tiers: tuple[str, ...] = (rf"{_USUAL_SPLIT}{_TABLE}", rf".+{_TABLE}")
    if split is not None:
        tiers, inner_tiers = (rf"qrels\.{re.escape(split)}{_TABLE}",), (re.escape(split) + _TABLE,)
    found = _find("qrels", home, tiers)
    if found is None and inner.is_dir():
        found = _find("qrels", inner, inner_tiers)
    if found is None and split is not None:
        accepted = ", ".join(splits(home)) or "a folder with qrels/NAME.tsv or qrels.NAME.txt"
        raise InputError("the folder has no such split", file=home, value=split, accepted=accepted)
    if found is None:
        raise _missing("qrels", home)
    return found


def splits(folder: PathLike) -> list[str]:
    """List the names of a folder's splits: each has judgements of its own."""
    home = Path(folder)
    files = [path.name for path in home.glob("qrels.*")]
    files += [f"qrels.{path.name}" for path in home.glob("qrels/*")]
    named = (re.fullmatch(rf"qrels\.(.+?){_TABLE}", name) for name in files)
    return sorted({match[1] for match in named if match})


def _find(role: str, folder: Path, tiers: tuple[str, ...]) -> Path | None:
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise InputError(
            f"cannot read the folder: {error.strerror}", file=folder, accepted="a folder"
        ) from error
    for tier in tiers:
        found = [path for path in files if re.fullmatch(tier, path.name)]
        if len(found) > 1:
            raise _ambiguous(role, folder, [path.name for path in found])
        if found:
            return found[0]
    return None


def _all_documents(home: Path) -> list[Path]:
    try:
        return document_files(home)
    except InputError:
        return []


def _tell_left_out(home: Path, taken: list[Path], chosen: str) -> None:
    left = sorted({*_all_documents(home)} - {*taken})
    if left:
        names = ", ".join(path.relative_to(home).as_posix() for path in left[:3])
        more = f" and {len(left) - 3:,} more" if len(left) > 3 else ""
        note(f"{home}: documents are {chosen}; {names}{more} are not read: --documents takes another path")


def _missing(role: str, folder: Path) -> InputError:
    return InputError(
        f"the folder has no {role}",
        file=folder,
        accepted=f"{_ACCEPTED[role]}, plain or as .gz, .bz2, .zst; or --{role} FILE",
    )


def _ambiguous(role: str, folder: Path, names: list[str]) -> InputError:
    return InputError(
        f"several files could be the {role}",
        file=folder,
        value=", ".join(names),
        accepted=f"one of them, by --{role} FILE" + ("" if role == "documents" else " or --split NAME"),
    )
