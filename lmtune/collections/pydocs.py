"""The embedded dataset: what the documentation of numpy, scipy and pandas says, and links to."""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from lmtune.collections.dataset import Dataset
from lmtune.collections.docstrings import NAMESPACES, Docstring, public_docstrings, split_docstring
from lmtune.collections.names import PYDOCS
from lmtune.errors import InputError, PathLike
from lmtune.io.digests import sealed_text, unsealed
from lmtune.io.documents import Document, ListDocuments
from lmtune.io.files import atomic_write
from lmtune.io.locks import StaleError, build_once
from lmtune.io.qrels import write_qrels
from lmtune.io.topics import write_topics

_FEWEST_LINKS = 2
_KEPT = "lmtune pydocs 1"  # raised whenever other pages are made of the same docstrings
_NAME_PARTS = re.compile(r"[._]+|(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W\d_]")


class _Page(NamedTuple):
    parts: Docstring
    names: list[str]


class Written(NamedTuple):
    """What `write_pydocs` has put, or found already, under a home folder.

    Attributes
    ----------
    topics_file, qrels_file : pathlib.Path
        The files.
    changed : bool
        Whether a file was written; False where both had this content already.
    """

    topics_file: Path
    qrels_file: Path
    changed: bool


def load_pydocs(home: PathLike | None = None) -> Dataset:
    """Make the test collection that every installation carries.

    Documents are the docstrings of the public callables of numpy, scipy and pandas and of their
    classes' public members, without the summary and without the See Also section; objects with
    one and the same docstring are one document, and a docstring that is nothing beyond its
    summary is none. A docno is an object's qualified name. Their fields are ``name``, the docno's
    words, ``body``, the same text, and ``summary``, which for a document that made a topic is that topic.

    Topics are the summaries of the documents whose See Also section leads to two or more other
    documents. Relevant (gain 1) are the document itself and those that its See Also leads to.
    Judged nonrelevant (gain 0) are the other documents of the same module or class. Topics are
    numbered from 1 in docno order; the document itself stands first in a topic's judgments.

    Parameters
    ----------
    home : path-like, optional
        A folder in which the docstrings, taken apart, are kept for the same versions: importing all of
        scipy takes longer than reading them.

    Returns
    -------
    Dataset
        `versions` holds the versions of the three packages, on which all of it depends. The
        topics' numbers are good for one set of versions only.

    Raises
    ------
    InputError
        If Python was started without docstrings (``-OO``).
    """
    pages = _pages() if home is None else _kept_pages(Path(home, f"{PYDOCS}.pages"))
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
    return {package: version(package) for package in NAMESPACES}


def write_pydocs(home: PathLike, dataset: Dataset) -> Written:
    """Write the topics and the judgments in TREC format, where TREC users look for them.

    Parameters
    ----------
    home : path-like
        The folder in which ``topics/topics.pydocs.txt`` and ``qrels/qrels.pydocs.txt`` go. Files
        that have the right content already are not touched.
    dataset : Dataset
        As `load_pydocs` makes it.

    Returns
    -------
    Written

    Raises
    ------
    InputError
        If a file cannot be written; then it is as it was.
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


def _kept_pages(path: Path) -> dict[str, _Page]:
    """Return `_pages`, read from a file where it has those of the same versions."""
    origin = json.dumps([_KEPT, sys.version, _versions()])

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
        # Where nothing can be written, they are made each time.
        with contextlib.suppress(InputError), atomic_write(path) as file:
            file.write(sealed_text(content, origin, indent=None))
        return pages

    return build_once(path, read, build)


def _pages() -> dict[str, _Page]:
    """Take the public docstrings apart; keep those with words beyond the summary, by docno."""
    if sys.flags.optimize >= 2:
        raise InputError(
            f"{PYDOCS} is made of docstrings, which this Python was told to drop",
            value=f"optimization level {sys.flags.optimize}",
            accepted="Python without -OO and PYTHONOPTIMIZE=2",
        )
    found = public_docstrings()
    pages = {names[0]: _Page(split_docstring(docstring), names) for docstring, names in found.items()}
    return {docno: page for docno, page in pages.items() if _WORD.search(page.parts.body)}


def _resolve(link: str, docno: str, names: Sequence[str], aliases: Mapping[str, str]) -> str | None:
    """Find the document that a See Also entry means, as a reader would.

    The link is looked up inside the object's class, then its module, then the packages around
    that, for each of the object's names in turn, and last as a full name. An entry that would
    lead back to the object itself (``resize`` of ``ndarray.resize``) means the next one out.
    """
    for name in names:
        scope = name.rpartition(".")[0]
        while scope:
            found = aliases.get(f"{scope}.{link}", docno)
            if found != docno:
                return found
            scope = scope.rpartition(".")[0]
    return aliases.get(link)
