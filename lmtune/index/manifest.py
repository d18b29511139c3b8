"""The manifest of an embedded index: its content, its origin and its checksums."""

from __future__ import annotations

import hashlib
import typing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmtune.errors import InputError
from lmtune.index.columns import REBUILD, StoredColumn, read_columns
from lmtune.io.digests import sealed_text, unsealed
from lmtune.io.files import unreadable
from lmtune.io.folders import FolderKind, is_folder
from lmtune.strict_json import parse_json

INDEX_FORMAT = "lmtune columnar index"
_INDEX_VERSION = 3
INDEX_FILE = "index.json"

INDEX_COLUMNS = {
    "postings": "for each term df, gaps between documents, and frequencies, packed by `posting_kernels`",
    "posting_offsets": "offset of each term's postings, and the end of the last one's",
    "terms": "the terms in ascending code-point order, concatenated in UTF-8",
    "term_bytes": "offset of each term in `terms`, and the end of the last one",
    "doc_lengths": "document lengths in tokens",
    "docno_ranks": "each document's rank among the docnos in ascending code-point order",
    "docnos": "the docnos in document order, concatenated in UTF-8",
    "docno_bytes": "offset of each docno in `docnos`, and the end of the last one",
}
"""The columns of an index with their content; each is a file of that name."""

POSITION_COLUMNS = {
    "positions": "each term's positions as gaps, posting by posting, packed by `posting_kernels`",
    "position_offsets": "offset of each term's positions, and the end of the last one's",
}
"""Further columns of an index with positions."""

_FORMER = ("posting_docs", "posting_tfs", "term_cfs")

FIELDS_FOLDER = "fields"
"""The subfolder with an index for each field."""

TEXTS_FOLDER = "texts"
"""The subfolder with the documents' texts: a folder for each field."""

_FILES = (INDEX_FILE, *INDEX_COLUMNS, *POSITION_COLUMNS, *_FORMER)
INDEX_KIND = FolderKind(INDEX_FILE, (*_FILES, "candidates/*", f"{FIELDS_FOLDER}/*/*", f"{TEXTS_FOLDER}/*/*"))
"""An index's folder, with candidates, fields and texts. Building replaces no folder with other files."""


@dataclass(frozen=True)
class Manifest:
    """The content of ``index.json``.

    Attributes
    ----------
    source, source_digest : str
        The collection's name, and the digest of its documents.
    analyzer : dict
        The analyzer's settings.
    analyzer_fingerprint : str
        A digest of the analysis by these settings, in the version that built the index.
    num_docs, total_terms, unique_terms, num_postings : int
        Numbers of documents, tokens, distinct terms, and (term, document) pairs.
    columns : dict of str to StoredColumn
        The files, by name of the column.
    """

    source: str
    source_digest: str
    analyzer: dict[str, Any]
    analyzer_fingerprint: str
    num_docs: int
    total_terms: int
    unique_terms: int
    num_postings: int
    columns: dict[str, StoredColumn]

    @property
    def fingerprint(self) -> str:
        """A hexadecimal digest of the documents, the analysis and the format."""
        return make_fingerprint(self.source_digest, self.analyzer_fingerprint)

    @property
    def size(self) -> int:
        """Size of all columns in bytes."""
        return sum(column.size for column in self.columns.values())


def make_fingerprint(source_digest: str, analyzer_fingerprint: str) -> str:
    """Return a digest of everything that an index depends on.

    Parameters
    ----------
    source_digest, analyzer_fingerprint : str
        The digests of the documents and of the analysis.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    parts = [INDEX_FORMAT, str(_INDEX_VERSION), source_digest, analyzer_fingerprint]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``index.json`` into an index's folder."""
    content = {"format": INDEX_FORMAT, "version": _INDEX_VERSION, "fingerprint": manifest.fingerprint}
    content |= asdict(manifest)
    text = sealed_text(content)
    (folder / INDEX_FILE).write_text(text, encoding="ascii")


def read_manifest(folder: Path) -> Manifest:
    """Read ``index.json`` from an index's folder.

    Raises
    ------
    InputError
        If there is no index, or it is damaged or of another format version.
    """
    path = folder / INDEX_FILE
    if not is_folder(folder):
        raise InputError("there is no index here", file=folder, accepted="a folder that `lmtune index` wrote")
    try:
        content = parse_json(path.read_bytes())
        index_format = content["format"]
    except PermissionError as error:
        raise unreadable(path, error) from None
    except OSError:
        raise InputError(
            f"not an index: no {INDEX_FILE} in the folder",
            file=folder,
            accepted="a folder that `lmtune index` wrote",
        ) from None
    except (ValueError, KeyError, TypeError):
        raise _damaged(path) from None
    if (index_format, content.get("version")) != (INDEX_FORMAT, _INDEX_VERSION):
        raise InputError(
            "the index has another format",
            file=path,
            value=f"{index_format} {content.get('version')}",
            accepted=f"{INDEX_FORMAT} {_INDEX_VERSION}; build the index again with `lmtune index`",
        )
    try:
        return _parse(unsealed(content, kinds=typing.get_type_hints(Manifest) | {"columns": dict}))
    except ValueError:
        raise _damaged(path) from None


def _parse(content: dict[str, Any]) -> Manifest:
    # The checksum is right: the content is that of `write_manifest`.
    fields = {name: content[name] for name in Manifest.__dataclass_fields__}
    names = [*INDEX_COLUMNS, *(name for name in POSITION_COLUMNS if name in content["columns"])]
    fields["columns"] = read_columns(content["columns"], names)
    return Manifest(**fields)


def _damaged(path: Path) -> InputError:
    return InputError("the index's manifest is damaged", file=path, accepted=REBUILD)
