"""Documents: where they come from and how they are read, a batch at a time."""

from __future__ import annotations

from lmtune.formats.document import (
    Changeable,
    Document,
    DocumentBatch,
    DocumentSource,
    check_fields,
    check_held,
    field_of,
    parts_of,
    unchanged,
)
from lmtune.formats.file_documents import FileDocuments, document_files
from lmtune.formats.list_documents import ListDocuments

__all__ = [
    "Changeable",
    "Document",
    "DocumentBatch",
    "DocumentSource",
    "FileDocuments",
    "ListDocuments",
    "check_fields",
    "check_held",
    "document_files",
    "field_of",
    "parts_of",
    "unchanged",
]
