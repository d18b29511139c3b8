"""Test collections by name: embedded, a folder (which of its files are what), ir_datasets'."""

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
from lmtune.collections.names import LINES, PACKED, PYDOCS, excludes_self, find_named, named_files
from lmtune.collections.paper import PAPER_COLLECTIONS, load_paper_collection
from lmtune.errors import InputError, PathLike, name_of
from lmtune.io.files import near_names
from lmtune.io.qrels import read_qrels
from lmtune.io.topics import TOPIC_FORMATS, read_topics
from lmtune.progress import detail, note

_TABLE = rf"\.(tsv|txt){PACKED}"
# For each role, names in tiers: the first tier that the folder has decides, and must be one file.
_DOCUMENTS = (rf"docs\.jsonl{PACKED}", rf"(documents|corpus|collection)\.(jsonl|tsv){PACKED}")
_DOCUMENT_FOLDERS = ("docs", "documents")
_ANY = "|".join(suffix for one in TOPIC_FORMATS for suffix in one.suffixes)
_TOPICS = (
    rf"topics(\.({_ANY}))?{PACKED}",
    rf"queries(\.({_ANY}))?{PACKED}",
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
    from lmtune.io.file_documents import document_files

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
    named = rf"(topics|queries)\.{re.escape(split or '')}\.({LINES}){PACKED}"
    found = _find("topics", Path(folder), (named, *_TOPICS) if split else _TOPICS)
    if found is None:
        raise _missing("topics", Path(folder))
    return found


def find_qrels(folder: PathLike, split: str | None = None) -> Path:
    """Find a folder's judgments.

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
    """List the names of a folder's splits: each has judgments of its own."""
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
    from lmtune.io.file_documents import document_files

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


Part = Literal["documents", "topics", "qrels"]
PARTS: tuple[Part, ...] = ("documents", "topics", "qrels")
BEIR_MEASURES = ("nDCG@10", "R@100")


def available() -> list[tuple[str, str]]:
    """List what `load` takes as a name.

    Returns
    -------
    list of (str, str)
        A name, or how such names look, and what it stands for.
    """
    return [
        (PYDOCS, "docstrings of numpy, scipy and pandas: in every installation, made in a second"),
        ("FOLDER", "a folder with docs.jsonl or TREC document files, topics.* and qrels.*; BEIR's folders"),
        (f"{IRDS}ID", "a collection of ir_datasets, by its identifier (it downloads)"),
        *(
            (name, f"{known.documents}: over your index indexes/{name}, split as in the paper")
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
        ``pydocs`` (the embedded one), ``irds:ID`` (through ir_datasets), a folder, or one of
        `lmtune.collections.paper.PAPER_COLLECTIONS`, whose documents are in an index of yours.
        Without it `documents`, `topics` and `qrels` say where everything is.
    documents : path-like, optional
        A document file or a folder of them, in place of the collection's own.
    topics, qrels : path-like, optional
        A file in place of the collection's own: a name, looked up as ``topics/topics.NAME.txt``
        and ``qrels/qrels.NAME.txt`` in the current folder (also ``.tsv``, ``.jsonl``, compressed),
        or else a path.
    split : str, optional
        Of a folder with judgments in several files (``qrels/dev.tsv``, ``qrels.dev.txt``) those of
        this name, and the topics that they judge.
    topic_fields : sequence of {"title", "desc", "narr"}
        The fields of SGML topics that make the query.
    need : collection of {"documents", "topics", "qrels"}
        The parts that the caller has a use for; the others are left empty unless they are given.
        Without documents an index has to stand for them.
    home : path-like, optional
        Where what pydocs is made of is kept, as for `lmtune.collections.pydocs.load_pydocs`.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If a part is missing, ambiguous or malformed, or nothing is known by the name; for a split
        of anything but a folder.

    Examples
    --------
    >>> from lmtune.collections.loading import load
    >>> load("pydocs").name
    'pydocs'
    """
    given: dict[Part, PathLike | None] = {"documents": documents, "topics": topics, "qrels": qrels}
    loaded = _load(name, given, split, topic_fields, need, home)
    return replace(loaded, exclude_self=excludes_self(name))


def _load(
    name: PathLike | None,
    given: dict[Part, PathLike | None],
    split: str | None,
    topic_fields: Sequence[str],
    need: Collection[str],
    home: PathLike | None,
) -> Dataset:
    topics, qrels = given["topics"], given["qrels"]
    own: list[Part] = [part for part in PARTS if part in need and given[part] is None]
    if split is not None and (qrels is not None or name is None or not Path(name).is_dir()):
        raise InputError("--split without a folder, or beside --qrels", value=split, accepted="FOLDER alone")
    if topics is None and name == PYDOCS:
        _check_title_alone(str(name), topic_fields)
    if name == PYDOCS:
        from lmtune.collections.pydocs import load_pydocs

        base = load_pydocs(home)
    elif isinstance(name, str) and name.startswith(IRDS):
        base = load_irds(name.removeprefix(IRDS), topic_fields=topic_fields, need=own)
    elif name in PAPER_COLLECTIONS and not Path(name).is_dir():
        base = load_paper_collection(str(name), topic_fields=topic_fields, need=own)
    else:
        base, given = _locate(name, given, need, split)
        base = _with_files(base, given, topic_fields)
        if base.qrels and (split is not None or (qrels is None and _in_splits(base))):
            judged = {topic: text for topic, text in base.topics.items() if topic in base.qrels}
            return replace(base, topics=judged)
        return base
    return _with_files(base, given, topic_fields)


def files_of(
    name: PathLike | None = None,
    *,
    documents: PathLike | None = None,
    topics: PathLike | None = None,
    qrels: PathLike | None = None,
    split: str | None = None,
) -> list[Path]:
    """Return the files that `load` would read, as far as they are here: nothing is fetched or read."""
    given: dict[Part, PathLike | None] = {"documents": documents, "topics": topics, "qrels": qrels}
    found: list[Path] = []
    for part in PARTS:
        # What is missing or ambiguous, `load` says.
        with contextlib.suppress(InputError):
            place = given[part]
            if place is None and name is not None and Path(name).is_dir() and not _is_known(name):
                place = _locate(name, given, [part], split)[1][part]
            if place is None:
                continue
            if part == "documents":
                found += _document_files(Path(place))
            else:
                found += named_files(part).get(os.fspath(place), [Path(place)])
    return found


def splits_of(name: PathLike | None) -> list[str]:
    """Return the names of the splits that a folder's judgments come in; none of anything else."""
    return [] if name is None or _is_known(name) else splits(name)


def is_beir(name: PathLike | None) -> bool:
    """Tell whether a folder is laid out as BEIR's."""
    return (
        bool(splits_of(name))
        and Path(str(name), "qrels").is_dir()
        and any(Path(str(name)).glob("corpus.jsonl*"))
    )


def check_exists(name: PathLike) -> None:
    """Raise InputError for a name that is neither a known collection's nor a folder's."""
    home = Path(name)
    if not (_is_known(name) or name in PAPER_COLLECTIONS or home.is_dir()):
        near = [own for own in near_names(home) if home.with_name(own).is_dir()]
        known = ", ".join((*near, *(known for known, _ in available())))
        raise InputError("no such collection", value=str(home), accepted=known)


def _is_known(name: PathLike) -> bool:
    """Tell whether a name is a collection's even where a folder is called so."""
    return name == PYDOCS or str(name).startswith(IRDS)


def _locate(
    name: PathLike | None, given: dict[Part, PathLike | None], need: Collection[str], split: str | None
) -> tuple[Dataset, dict[Part, PathLike | None]]:
    """Say where each part of a folder, or of nothing but given files, is."""
    if name is None:
        lacking = [part for part in PARTS if part in need and given[part] is None]
        paths = [os.fspath(path) for path in given.values() if path is not None]
        if lacking or not paths:
            raise InputError(
                f"nothing says where the {' and the '.join(lacking or PARTS)} are",
                accepted="the name of a collection, or --documents (or --index), --topics and --qrels",
            )
        stem = name_of(paths[0])
        return Dataset(stem.partition(".")[0] or stem, None, {}, {}), given
    home = Path(name)
    check_exists(name)
    located = dict(given)
    if given["documents"] is None and "documents" in need:
        located["documents"] = home
    if given["topics"] is None and "topics" in need:
        located["topics"] = find_topics(home, split)
    if given["qrels"] is None and ("qrels" in need or split is not None):
        located["qrels"] = find_qrels(home, split)
    return Dataset(name_of(home), None, {}, {}), located


def _in_splits(dataset: Dataset) -> bool:
    """Tell whether judgments are one of several files in BEIR's ``qrels/``, and say which."""
    path = Path(dataset.qrels_file or "")
    others = [name for name in splits(path.parent.parent) if name != path.name.partition(".")[0]]
    if path.parent.name != "qrels" or not others:
        return False
    note(f"{dataset.name}: judgments from {path}; --split takes others: {', '.join(others)}")
    return True


def _with_files(base: Dataset, given: dict[Part, PathLike | None], topic_fields: Sequence[str]) -> Dataset:
    """Read the given files in place of the dataset's own parts."""
    documents, topics, qrels = (given[part] for part in PARTS)
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
    """Find documents by a file's path, or in a folder that may hold topics and qrels too."""
    from lmtune.io.file_documents import document_files

    return find_documents(path) if path.is_dir() else document_files(path)


def _check_title_alone(name: str, topic_fields: Sequence[str]) -> None:
    if tuple(topic_fields) != ("title",):
        raise InputError(
            f"the topics of {name} have a title alone", value=",".join(topic_fields), accepted="title"
        )
