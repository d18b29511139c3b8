"""Loading of test collections: the embedded one, folders, ir_datasets and the paper's."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from lmtune.collections.dataset import Dataset
from lmtune.collections.irds import IRDS, load_irds
from lmtune.collections.names import LINES, PACKED, PYDOCS, excludes_self, find_named, is_file, named_files
from lmtune.collections.paper import PAPER_COLLECTIONS, load_paper_collection
from lmtune.errors import InputError, PathLike, name_of
from lmtune.io.files import near_names
from lmtune.io.qrels import read_qrels
from lmtune.io.remote import local_copy
from lmtune.io.topics import TOPIC_FORMATS, read_topics
from lmtune.progress import detail, note

_TABLE = rf"\.(tsv|txt){PACKED}"
# Patterns of file names for each role, in order of priority. The first pattern with a match must have only
# one.
_DOCUMENTS = (rf"docs\.jsonl{PACKED}", rf"(documents|corpus|collection)\.(jsonl|tsv){PACKED}")
_DOCUMENT_FOLDERS = ("docs", "documents")
_TOPIC_SUFFIX = "|".join(suffix for one in TOPIC_FORMATS for suffix in one.suffixes)
_TOPICS = (
    rf"topics(\.({_TOPIC_SUFFIX}))?{PACKED}",
    rf"queries(\.({_TOPIC_SUFFIX}))?{PACKED}",
    rf"topics\..+\.({LINES}){PACKED}",
    rf"queries\..+\.({LINES}){PACKED}",
)
_QRELS = (rf"qrels\.txt{PACKED}", rf"qrels(\.(tsv|trec|qrels))?{PACKED}", rf"qrels\..+{_TABLE}")
_ACCEPTED = {
    "documents": "docs.jsonl, collection.tsv, or TREC files in the folder itself, docs/ or documents/",
    "topics": "topics.tsv, topics.txt, topics.jsonl, queries.tsv, ... or topics.NAME.txt",
    "qrels": "qrels.txt, qrels, qrels.tsv, qrels.NAME.txt or qrels/NAME.tsv",
}
_USUAL_SPLIT = "test"


def find_documents(folder: PathLike) -> list[Path]:
    """Find the document files in a folder.

    The first of these that exists is used:

    1. ``docs.jsonl``, then ``documents``, ``corpus`` or ``collection`` as ``.jsonl`` or ``.tsv``, plain or
       compressed;
    2. all files under ``docs/`` or ``documents/``;
    3. all files in the folder and its subfolders that have no other role.

    For the first two, a note lists other files that may be documents.

    Parameters
    ----------
    folder : path-like
        The folder of the collection.

    Returns
    -------
    list of pathlib.Path
        The files in the order of the collection; at least one.

    Raises
    ------
    InputError
        If there are no documents, or several files or folders have the same priority.
    """
    home = Path(folder)
    files, chosen = _choose_documents(home)
    if chosen:
        _note_left_out(home, files, chosen)
    return files


def find_topics(folder: PathLike, split: str | None = None) -> Path:
    """Find the file of topics in a folder.

    The first of these that exists is used, plain or compressed:

    1. ``topics`` with the suffix ``.tsv``, ``.txt``, ``.jsonl``, ``.trec``, ``.sgml``, ``.xml`` or none;
    2. ``queries`` with one of these suffixes;
    3. ``topics.NAME.txt`` (``.tsv``, ``.jsonl``);
    4. ``queries.NAME.txt`` (``.tsv``, ``.jsonl``).

    Parameters
    ----------
    folder : path-like
        The folder of the collection.
    split : str, optional
        A NAME with the highest priority.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InputError
        If there are no topics, or several files have the same priority.
    """
    named = rf"(topics|queries)\.{re.escape(split or '')}\.({LINES}){PACKED}"
    file = _find("topics", Path(folder), (named, *_TOPICS) if split else _TOPICS)
    if file is None:
        raise _missing("topics", Path(folder))
    return file


def find_qrels(folder: PathLike, split: str | None = None) -> Path:
    """Find the file of judgments in a folder.

    The first of these that exists is used, plain or compressed:

    1. ``qrels.txt``;
    2. ``qrels``, ``qrels.tsv``, ``qrels.trec`` or ``qrels.qrels``;
    3. ``qrels.NAME.txt`` or ``qrels.NAME.tsv``;
    4. ``test.tsv`` in a folder ``qrels/`` (BEIR's layout), or the only file there.

    Parameters
    ----------
    folder : path-like
        The folder of the collection.
    split : str, optional
        A NAME: only ``qrels.NAME.txt`` (``.tsv``) and ``qrels/NAME.tsv`` (``.txt``) are considered.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InputError
        If there are no judgments, or several files have the same priority.
    """
    home, inner = Path(folder), Path(folder, "qrels")
    tiers: tuple[str, ...] = _QRELS
    inner_tiers: tuple[str, ...] = (rf"{_USUAL_SPLIT}{_TABLE}", rf".+{_TABLE}")
    if split is not None:
        tiers, inner_tiers = (rf"qrels\.{re.escape(split)}{_TABLE}",), (re.escape(split) + _TABLE,)
    file = _find("qrels", home, tiers)
    if file is None and inner.is_dir():
        file = _find("qrels", inner, inner_tiers)
    if file is None and split is not None:
        accepted = ", ".join(splits(home)) or "a folder with qrels/NAME.tsv or qrels.NAME.txt"
        raise InputError("the folder has no such split", file=home, value=split, accepted=accepted)
    if file is None:
        raise _missing("qrels", home)
    return file


def splits(folder: PathLike) -> list[str]:
    """Return the names of a folder's splits, which have separate files of judgments."""
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
        matching = [path for path in files if re.fullmatch(tier, path.name)]
        if len(matching) > 1:
            raise _ambiguous(role, folder, [path.name for path in matching])
        if matching:
            return matching[0]
    return None


def _choose_documents(home: Path) -> tuple[list[Path], str]:
    """Return `find_documents`'s files, and the file or folder that has them; "" if that is all files."""
    from lmtune.io.file_documents import document_files

    single = _find("documents", home, _DOCUMENTS)
    if single is not None:
        return [single], single.name
    folders = [home / name for name in _DOCUMENT_FOLDERS if (home / name).is_dir()]
    if len(folders) > 1:
        raise _ambiguous("documents", home, [path.name + "/" for path in folders])
    if folders:
        return document_files(folders[0]), f"{folders[0].name}/"
    files = _all_documents(home)
    if not files:
        raise _missing("documents", home)
    return files, ""


def _all_documents(home: Path) -> list[Path]:
    from lmtune.io.file_documents import document_files

    try:
        return document_files(home)
    except InputError:
        return []


def _note_left_out(home: Path, files: list[Path], chosen: str) -> None:
    others = sorted({*_all_documents(home)} - {*files})
    if others:
        names = ", ".join(path.relative_to(home).as_posix() for path in others[:3])
        more = f" and {len(others) - 3:,} more" if len(others) > 3 else ""
        note(
            f"{home}: documents are {chosen}; {names}{more} are not read; use --documents to read other files"
        )


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


Part = Literal["documents", "topics", "qrels"]
PARTS: tuple[Part, ...] = ("documents", "topics", "qrels")
BEIR_MEASURES = ("nDCG@10", "R@100")


def available() -> list[tuple[str, str]]:
    """List the collection names that `load` accepts.

    Returns
    -------
    list of (str, str)
        A name or a pattern of names, and a description.
    """
    return [
        (PYDOCS, "docstrings of numpy, scipy and pandas; included in every installation"),
        ("FOLDER", "a folder with docs.jsonl or TREC document files, topics.* and qrels.*; BEIR's folders"),
        (f"{IRDS}ID", "a collection of ir_datasets, by identifier; ir_datasets downloads it"),
        *(
            (name, f"{known.documents}: needs your index indexes/{name}; topics split as by Metzler (2007)")
            for name, known in PAPER_COLLECTIONS.items()
        ),
    ]


def load(
    name: PathLike | None = None,
    *,
    documents: PathLike | None = None,
    topics: PathLike | None = None,
    qrels: PathLike | None = None,
    split: str | None = None,
    topic_fields: Sequence[str] = ("title",),
    need: Collection[str] = PARTS,
    home: PathLike | None = None,
) -> Dataset:
    """Load a test collection.

    Parameters
    ----------
    name : path-like, optional
        ``pydocs`` (embedded), ``irds:ID`` (ir_datasets), a folder, or a name in
        `lmtune.collections.paper.PAPER_COLLECTIONS`, for which you need an index of the documents. Without a
        name, `documents`, `topics` and `qrels` are required. Paths may be URLs that fsspec reads.
    documents : path-like, optional
        A document file, or a folder of them, instead of the collection's documents.
    topics, qrels : path-like, optional
        A file instead of the collection's topics or judgments: a name, for ``topics/topics.NAME.txt`` or
        ``qrels/qrels.NAME.txt`` in the current folder (also ``.tsv``, ``.jsonl``, compressed), a path, or a
        name, for ``topics.NAME.txt`` or ``qrels.NAME.txt`` in the collection's folder.
    split : str, optional
        The name of a split, for folders with several files of judgments (``qrels/dev.tsv``,
        ``qrels.dev.txt``). Only topics with judgments in the split are loaded.
    topic_fields : sequence of {"title", "desc", "narr"}
        The fields of SGML topics in the query.
    need : collection of {"documents", "topics", "qrels"}
        The required parts. Other parts are empty unless they are arguments. Without documents, an index must
        replace them.
    home : path-like, optional
        Folder of the cache of pydocs; see `lmtune.collections.pydocs.load_pydocs`.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If a part is missing, ambiguous or malformed, the name is unknown, or a collection with a split is
        not a folder.

    Examples
    --------
    >>> from lmtune.collections.loading import load
    >>> load("pydocs").name
    'pydocs'
    """
    name, documents = (path and local_copy(path) for path in (name, documents))
    paths: dict[Part, PathLike | None] = {"documents": documents, "topics": topics, "qrels": qrels}
    loaded = _load(name, paths, split, topic_fields, need, home)
    return replace(loaded, exclude_self=excludes_self(name))


def _load(
    name: PathLike | None,
    paths: dict[Part, PathLike | None],
    split: str | None,
    topic_fields: Sequence[str],
    need: Collection[str],
    home: PathLike | None,
) -> Dataset:
    topics, qrels = paths["topics"], paths["qrels"]
    missing: list[Part] = [part for part in PARTS if part in need and paths[part] is None]
    if split is not None and (qrels is not None or name is None or not Path(name).is_dir()):
        raise InputError(
            "--split requires a folder, without --qrels", value=split, accepted="FOLDER --split NAME"
        )
    if topics is None and name == PYDOCS:
        _check_title_only(str(name), topic_fields)
    if name == PYDOCS:
        from lmtune.collections.pydocs import load_pydocs

        base = load_pydocs(home)
    elif isinstance(name, str) and name.startswith(IRDS):
        base = load_irds(name.removeprefix(IRDS), topic_fields=topic_fields, need=missing)
    elif name in PAPER_COLLECTIONS and not Path(name).is_dir():
        base = load_paper_collection(str(name), topic_fields=topic_fields, need=missing)
    else:
        base, paths = _locate(name, paths, need, split)
        base = _with_files(base, paths, topic_fields)
        if base.qrels and (split is not None or (qrels is None and _in_splits(base))):
            judged = {topic: text for topic, text in base.topics.items() if topic in base.qrels}
            return replace(base, topics=judged)
        return base
    return _with_files(base, paths, topic_fields)


def files_of(
    name: PathLike | None = None,
    *,
    documents: PathLike | None = None,
    topics: PathLike | None = None,
    qrels: PathLike | None = None,
    split: str | None = None,
) -> list[Path]:
    """Return the local files that `load` would read, without downloads."""
    paths: dict[Part, PathLike | None] = {"documents": documents, "topics": topics, "qrels": qrels}
    files: list[Path] = []
    for part in PARTS:
        # Missing and ambiguous files are errors of `load`.
        with contextlib.suppress(InputError):
            path = paths[part]
            if name is not None and Path(name).is_dir() and not _is_known(name):
                path = _locate(name, paths, [part], split)[1][part]
            if path is None:
                continue
            if part == "documents" and Path(path).is_dir():
                files += _choose_documents(Path(path))[0]
            elif part == "documents":
                files += _document_files(Path(path))
            else:
                files += named_files(part).get(os.fspath(path), [Path(path)])
    return files


def splits_of(name: PathLike | None) -> list[str]:
    """Return the names of a folder's splits; an empty list for other collections."""
    return [] if name is None or _is_known(name) else splits(local_copy(name))


def is_beir(name: PathLike | None) -> bool:
    """Return whether a folder has BEIR's layout."""
    return (
        bool(splits_of(name))
        and Path(folder := local_copy(str(name)), "qrels").is_dir()
        and any(Path(folder).glob("corpus.jsonl*"))
    )


def check_exists(name: PathLike) -> None:
    """Raise `InputError` unless a name is that of a known collection or an existing folder."""
    home = Path(local_copy(name))
    if not (_is_known(name) or name in PAPER_COLLECTIONS or home.is_dir()):
        near = [folder for folder in near_names(home) if home.with_name(folder).is_dir()]
        known = ", ".join((*near, *(known for known, _ in available())))
        raise InputError("no such collection", value=str(home), accepted=known)


def _is_known(name: PathLike) -> bool:
    """Return whether a name is that of a collection, even if a folder has the same name."""
    return name == PYDOCS or str(name).startswith(IRDS)


def _locate(
    name: PathLike | None, paths: dict[Part, PathLike | None], need: Collection[str], split: str | None
) -> tuple[Dataset, dict[Part, PathLike | None]]:
    """Return an empty dataset and the paths of its parts, for a folder or for paths without a name."""
    if name is None:
        missing = [part for part in PARTS if part in need and paths[part] is None]
        known = [os.fspath(path) for path in paths.values() if path is not None]
        if missing or not known:
            raise InputError(
                f"no {' and no '.join(missing or PARTS)}",
                accepted="the name of a collection, or --documents (or --index), --topics and --qrels",
            )
        stem = name_of(known[0])
        return Dataset(stem.partition(".")[0] or stem, None, {}, {}), paths
    home = Path(name)
    check_exists(name)
    located = {role: _in_folder(home, role, path) for role, path in paths.items()}
    if paths["documents"] is None and "documents" in need:
        located["documents"] = home
    if paths["topics"] is None and "topics" in need:
        located["topics"] = find_topics(home, split)
    if paths["qrels"] is None and ("qrels" in need or split is not None):
        located["qrels"] = find_qrels(home, split)
    return Dataset(name_of(home), None, {}, {}), located


def _in_folder(home: Path, role: Part, name: PathLike | None) -> PathLike | None:
    """Return the file ``ROLE.NAME.txt`` of a collection's folder, if only the folder has that name."""
    if (
        role == "documents"
        or name is None
        or is_file(os.fspath(name))
        or os.fspath(name) in named_files(role)
    ):
        return name
    named = rf"{role}\.{re.escape(os.fspath(name))}\.({LINES}){PACKED}"
    return _find(role, home, (named,)) or name


def _in_splits(dataset: Dataset) -> bool:
    """Return whether there are several files of judgments in BEIR's ``qrels/``; note which one is used."""
    path = Path(dataset.qrels_file or "")
    others = [name for name in splits(path.parent.parent) if name != path.name.partition(".")[0]]
    if path.parent.name != "qrels" or not others:
        return False
    note(f"{dataset.name}: judgments from {path}; other splits, for --split: {', '.join(others)}")
    return True


def _with_files(base: Dataset, paths: dict[Part, PathLike | None], topic_fields: Sequence[str]) -> Dataset:
    """Return a dataset with parts replaced by those in files."""
    documents, topics, qrels = (paths[part] for part in PARTS)
    if topics is not None:
        path = find_named("topics", os.fspath(topics))
        detail(f"{base.name}: topics from {path}")
        base = replace(base, topics=read_topics(path, fields=topic_fields), topics_file=str(path))
    if qrels is not None:
        path = find_named("qrels", os.fspath(qrels))
        detail(f"{base.name}: judgments from {path}")
        base = replace(base, qrels=read_qrels(path), qrels_file=str(path))
    if documents is not None:
        from lmtune.io.file_documents import FileDocuments

        base = replace(base, documents=FileDocuments(base.name, _document_files(Path(documents))))
    return base


def _document_files(path: Path) -> list[Path]:
    """Return the document files of a path: a file, or a folder that may also have topics and qrels."""
    from lmtune.io.file_documents import document_files

    return find_documents(path) if path.is_dir() else document_files(path)


def _check_title_only(name: str, topic_fields: Sequence[str]) -> None:
    if tuple(topic_fields) != ("title",):
        raise InputError(
            f"the topics of {name} have only a title", value=",".join(topic_fields), accepted="title"
        )
