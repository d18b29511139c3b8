"""A run's documents as lists with their texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lmtune.datasets.collection import Collection
from lmtune.datasets.dataset import Dataset
from lmtune.datasets.texts import open_texts
from lmtune.errors import InputError, check_least
from lmtune.progress import Progress, silent
from lmtune.reranking.runs import in_order
from lmtune.reranking.sources import RunFeatures
from lmtune.reranking.text.lists import TextLists
from lmtune.reranking.text.options import TextOptions


@dataclass(frozen=True)
class TextSource:
    """Texts of a run's documents, as `lmtune.reranking.sources.ListSource` has it.

    Attributes
    ----------
    options : TextOptions
    depth : int
        Documents of a topic, from the top.
    """

    options: TextOptions
    depth: int

    def lists(
        self,
        run: Mapping[str, Mapping[str, float]],
        dataset: Dataset,
        collection: Collection,
        progress: Progress = silent,
    ) -> RunFeatures:
        """Take the best documents of a run's topics; labels are gains, as in `run_data`.

        Raises
        ------
        InputError
            For a bad depth, an empty run, a topic without text, or texts that cannot be had.
        """
        check_least("bad depth", self.depth, 1)
        texts = open_texts(collection, dataset, self.options.template, progress=progress)
        taken = {
            topic: {
                docno: max(0, dataset.qrels.get(topic, {}).get(docno, 0))
                for docno in in_order(scores)[: self.depth]
            }
            for topic, scores in run.items()
            if scores
        }
        if not taken:
            raise InputError("the run is empty", accepted="at least one topic")
        return RunFeatures(TextLists.of(dataset.topics, taken, texts, self.options), dataset, texts.index)

    def names(self, fields: Sequence[str]) -> tuple[str, ...]:
        """Return none: there are no features."""
        del fields
        return ()

    def facts(self, fields: Sequence[str]) -> dict[str, Any]:
        """Return what a model must remember."""
        del fields
        return {"text": asdict(self.options), "depth": self.depth}
