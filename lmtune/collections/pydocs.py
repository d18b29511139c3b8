"""The embedded test collection: docstrings of numpy, scipy and pandas, judged by their links."""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lmtune.collections.dataset import Dataset
from lmtune.collections.docstrings import NAMESPACES, Docstring, public_docstrings, split_docstring
from lmtune.collections.names import PYDOCS
from lmtune.collections.provenance import installed
from lmtune.errors import InputError, PathLike, install_command
from lmtune.io.digests import sealed_text, unsealed
from lmtune.io.documents import Document, ListDocuments
from lmtune.io.files import atomic_write
from lmtune.io.locks import StaleError, build_once
from lmtune.io.qrels import write_qrels
from lmtune.io.topics import write_topics
from lmtune.progress import note

_FEWEST_LINKS = 2
_CACHE_FORMAT = "lmtune pydocs 1"  # increment it if the same docstrings give other pages
_NAME_PARTS = re.compile(r"[._]+|(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W\d_]")


class _Page(NamedTuple):
    parts: Docstring
    names: list[str]


class Written(NamedTuple):
    """The files of `write_pydocs`.

    Attributes
    ----------
    topics_file, qrels_file : pathlib.Path
        The files.
    changed : bool
        Whether a file was written; False if both existed with the same content.
    """

    topics_file: Path
    qrels_file: Path
    changed: bool


def load_pydocs(home: PathLike | None = None) -> Dataset:
    """Make the embedded test collection from the installed packages.

    Documents are the docstrings of the public callables of numpy, scipy and pandas, and of the public members
    of their classes, without the summary and the See Also section. Objects with identical docstrings are one
    document, and a docstring with only a summary is none. The docno is the object's qualified name. Fields
    are ``name`` (the words of the docno), ``body`` (the document's text) and ``summary``. The summary of some
    documents is the text of a topic.

    Topics are the summaries of documents with a See Also section that links to two or more other documents.
    The document and the linked documents are relevant (gain 1). The other documents of the same module or
    class are judged non-relevant (gain 0). Topics are numbered from 1 in the order of docnos. The document
    itself is the first judgment of its topic. If pandas is not installed, the collection has no documents and
    topics from it.

    Parameters
    ----------
    home : path-like, optional
        Folder of a cache of the parsed docstrings, which is faster than importing all of scipy. It is valid
        for one set of versions.

    Returns
    -------
    Dataset
        The collection. `versions` has the versions of the installed packages, which determine the content,
        including the numbers of topics.

    Raises
    ------
    InputError
        If Python was started without docstrings (``-OO``).
    """
    if missing := [name for name in NAMESPACES if name not in _versions()]:
        note(f"{PYDOCS} has no topics from {', '.join(missing)}: {install_command('report')}")
    pages = _pages() if home is None else _cached_pages(Path(home, f"{PYDOCS}.pages"))
    aliases = {name: docno for docno, page in pages.items() for name in page.names}
    siblings: dict[str, list[str]] = defaultdict(list)
    for docno in pages:
        siblings[docno.rpartition(".")[0]].append(docno)
    topics: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for docno, page in pages.items():
        linked = {_resolve(link, docno, page.names, aliases) for link in page.parts.links}
        linked -= {None, docno}
        if len(linked) < _FEWEST_LINKS or not _WORD.search(page.parts.summary):
            continue
        relevant = [docno, *sorted(name for name in linked if name)]
        topic = str(len(topics) + 1)
        topics[topic] = page.parts.summary
        others = [name for name in siblings[docno.rpartition(".")[0]] if name not in relevant]
        qrels[topic] = dict.fromkeys(relevant, 1) | dict.fromkeys(others, 0)
    return Dataset(
        name=PYDOCS,
        documents=ListDocuments(
            PYDOCS,
            [Document(docno, page.parts.body) for docno, page in pages.items()],
            {
                "name": [Document(docno, _NAME_PARTS.sub(" ", docno)) for docno in pages],
                "summary": [Document(docno, page.parts.summary) for docno, page in pages.items()],
                "body": [Document(docno, page.parts.body) for docno, page in pages.items()],
            },
        ),
        topics=topics,
        qrels=qrels,
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    return installed(*NAMESPACES)


def write_pydocs(home: PathLike, dataset: Dataset) -> Written:
    """Write the topics and the judgments in TREC format.

    Parameters
    ----------
    home : path-like
        The folder of ``topics/topics.pydocs.txt`` and ``qrels/qrels.pydocs.txt``. Existing files with the
        same content are not written again.
    dataset : Dataset
        The collection, from `load_pydocs`.

    Returns
    -------
    Written

    Raises
    ------
    InputError
        If a file cannot be written; an existing file is then unchanged.
    """
    topics_file = Path(home, "topics", f"topics.{PYDOCS}.txt")
    qrels_file = Path(home, "qrels", f"qrels.{PYDOCS}.txt")
    changed = [
        _write_if_new(topics_file, lambda path: write_topics(path, dataset.topics)),
        _write_if_new(qrels_file, lambda path: write_qrels(path, dataset.qrels)),
    ]
    return Written(topics_file, qrels_file, any(changed))


def _write_if_new(target: Path, write: Callable[[Path], None]) -> bool:
    candidate = target.with_name(f".{target.stem}.{os.getpid()}.new{target.suffix}")
    write(candidate)
    try:
        if target.is_file() and filecmp.cmp(candidate, target, shallow=False):
            return False
        candidate.replace(target)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}", file=target) from error
    finally:
        candidate.unlink(missing_ok=True)
    return True


def _cached_pages(path: Path) -> dict[str, _Page]:
    """Return `_pages`, from a cache file if it is valid for the installed versions."""
    origin = json.dumps([_CACHE_FORMAT, sys.version, _versions()])

    def read() -> dict[str, _Page]:
        try:
            pages = unsealed(path.read_bytes(), origin, {"pages": list})["pages"]
        except (OSError, ValueError) as error:
            raise StaleError(str(error)) from None
        return {
            docno: _Page(Docstring(summary, body, tuple(links)), names)
            for docno, names, summary, body, links in pages
        }

    def build() -> dict[str, _Page]:
        pages = _pages()
        content = {"pages": [[docno, page.names, *page.parts] for docno, page in pages.items()]}
        # Without write access, the pages are parsed again each time.
        with contextlib.suppress(InputError), atomic_write(path) as file:
            file.write(sealed_text(content, origin, indent=None))
        return pages

    return build_once(path, read, build)


def _pages() -> dict[str, _Page]:
    """Parse the public docstrings; return those with words after the summary, by docno."""
    if sys.flags.optimize >= 2:
        raise InputError(
            f"{PYDOCS} needs docstrings, but Python runs without them",
            value=f"optimization level {sys.flags.optimize}",
            accepted="Python without -OO and PYTHONOPTIMIZE=2",
        )
    docstrings = public_docstrings()
    pages = {names[0]: _Page(split_docstring(docstring), names) for docstring, names in docstrings.items()}
    return {docno: page for docno, page in pages.items() if _WORD.search(page.parts.body)}


def _resolve(link: str, docno: str, names: Sequence[str], aliases: Mapping[str, str]) -> str | None:
    """Return the docno of a See Also entry, or None.

    For each of the object's names, the link is looked up in the object's class, its module, and the enclosing
    packages; finally as a full name. A result that is the object itself is skipped: in ``ndarray.resize``,
    ``resize`` means ``numpy.resize``.
    """
    for name in names:
        scope = name.rpartition(".")[0]
        while scope:
            target = aliases.get(f"{scope}.{link}", docno)
            if target != docno:
                return target
            scope = scope.rpartition(".")[0]
    return aliases.get(link)
