"""What an index of Elasticsearch, OpenSearch, Solr or Vespa means here: analysis, model and setting."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lmtune.engines.catalogue import ENGINES
from lmtune.engines.elastic_index import read_index
from lmtune.engines.index_analysis import stopwords_name
from lmtune.engines.solr_schema import read_schema
from lmtune.engines.vespa_schema import read_application
from lmtune.errors import InputError
from lmtune.models.model import find_model

_READERS = {".xml": ("solr", read_schema), ".sd": ("vespa", read_application)}


class EngineSetting(NamedTuple):
    """An index's analysis and model, by lmtune's names, and what differs."""

    model: str
    values: dict[str, float]
    stemmer: str
    stopwords: str
    notes: tuple[str, ...]


def read_engine(path: Path, stopwords: str | None = None) -> EngineSetting:
    """Read an index's configuration.

    Every key is known: what changes scores is taken as the engine does, or refused.

    Parameters
    ----------
    path : pathlib.Path
        Solr's schema (.xml), Vespa's (.sd, with services.xml in the folder above its own, as in an
        application package), else what `lmtune.engines.elastic_index.read_index` reads.
    stopwords : str, optional
        A file that holds the index's own list, where it has one.

    Raises
    ------
    InputError
        For a file that is none, a key that is not known, and what lmtune does not have.
    """
    engine, read = _READERS.get(path.suffix, ("elasticsearch", read_index))
    found = read(path)
    model, (words, stemmer, notes) = ENGINES[engine].computed[found.formula], found.analysis
    known = find_model(model)
    try:
        known.check({**known.default, **found.values, **known.fixed})
    except InputError as error:
        raise InputError(error.message, file=path, value=error.value, accepted=error.accepted) from None
    named = stopwords_name(path, words, stopwords)
    return EngineSetting(model, found.values, stemmer, named, (*notes, *found.notes))
