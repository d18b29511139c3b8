"""Rerankers of texts: lists of texts, training by them, and scores of many."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, Unpack

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lmtune.collections.collection import Collection
from lmtune.collections.dataset import Dataset
from lmtune.collections.texts import open_texts
from lmtune.devices import autocast, check_device
from lmtune.errors import InputError, check_least
from lmtune.io.files import unwritable
from lmtune.io.kept_values import KeptValues
from lmtune.progress import Progress, note, quantity, silent
from lmtune.rerank.data import RankingData, check_training_data
from lmtune.rerank.learners.feature_networks import digest_of
from lmtune.rerank.learners.learner import Learner, ScoringOptions
from lmtune.rerank.settings import TEXT, Settings
from lmtune.rerank.settings import TextOptions as TextOptions
from lmtune.rerank.sources import FeatureSettings, ListSource, RunFeatures, in_order, of_known_topics
from lmtune.rerank.text.cross_encoder import CrossEncoder, find_language_model, load_network
from lmtune.rerank.training.loop import (
    ListTask,
    StepProgress,
    Training,
    TrainingOptions,
    TrainingRun,
    run_training,
)

_AT_A_TIME = 1024


class Texts(Protocol):
    """Documents' texts by docno."""

    def of(self, docnos: Sequence[str]) -> list[str]:
        """Return documents' texts, as a model is to read them.

        Raises
        ------
        InputError
            For a document without text.
        """


@dataclass(frozen=True)
class GivenTexts:
    """Documents' texts in memory.

    Attributes
    ----------
    by_docno : mapping of str to str
    """

    by_docno: Mapping[str, str]

    def of(self, docnos: Sequence[str]) -> list[str]:
        """Return documents' texts; see `Texts`."""
        try:
            return [self.by_docno[docno] for docno in docnos]
        except KeyError as error:
            raise InputError("a document without text", value=error.args[0]) from None


@dataclass(frozen=True, eq=False)
class TextLists(RankingData):
    """Queries, each with a list of documents, as `RankingData`, and all their texts.

    There are no features: their shape is (rows, 0).

    Attributes
    ----------
    topics : mapping of str to str
        The text of each query, by identifier.
    texts : Texts
        Those of the documents, by docno.
    options : TextOptions
        How they are cut.
    """

    topics: Mapping[str, str] = field(default_factory=dict)
    texts: Texts = field(default_factory=lambda: GivenTexts({}))
    options: TextOptions = field(default_factory=TextOptions)

    def __post_init__(self) -> None:
        super().__post_init__()
        for query in self.queries:
            if query not in self.topics:
                raise InputError("a query without text", value=query)

    @classmethod
    def of(
        cls,
        topics: Mapping[str, str],
        run: Mapping[str, Mapping[str, float]],
        texts: Texts | Mapping[str, str],
        options: TextOptions | None = None,
    ) -> TextLists:
        """Make lists of documents with labels.

        Parameters
        ----------
        topics : mapping of str to str
            Query texts by identifier.
        run : mapping of str to mapping of str to float
            The label of each query's documents, by docno, in the order that ties keep.
        texts : Texts, or mapping of str to str
            Those of the documents.
        options : TextOptions, optional
            The defaults by default.

        Raises
        ------
        InputError
            For a query without text or documents, and a label out of range.
        """
        labels = [label for documents in run.values() for label in documents.values()]
        return cls(
            np.empty((len(labels), 0), np.float32),
            np.asarray(labels, np.float32),
            np.cumsum([0, *map(len, run.values())], dtype=np.int64),
            tuple(run),
            tuple(docno for documents in run.values() for docno in documents),
            topics=topics,
            texts=GivenTexts(texts) if isinstance(texts, Mapping) else texts,
            options=options or TextOptions(),
        )

    def pairs(self, rows: ArrayLike) -> tuple[list[str], list[str]]:
        """Return the texts of rows' queries and documents.

        Raises
        ------
        InputError
            For a document without text.
        """
        chosen = np.asarray(rows, np.int64)
        queries = [self.topics[self.queries[q]] for q in self.query_of_row[chosen].tolist()]
        docnos = self.docnos or ()
        return queries, self.texts.of([docnos[row] for row in chosen.tolist()])

    def blocks(self, rows: int = _AT_A_TIME) -> Iterator[NDArray[np.int64]]:
        """Yield all rows, some at a time."""
        every = np.arange(self.labels.size)
        for first in range(0, every.size, rows):
            yield every[first : first + rows]

    def text_digest(self) -> str:
        """Return what tells these texts from others; every document is read.

        Raises
        ------
        InputError
            For a document without text.
        """
        digest = hashlib.blake2b(repr(self.options).encode(), digest_size=16)
        for rows in self.blocks():
            for texts in self.pairs(rows):
                for text in texts:
                    digest.update(f"{len(text)} {text}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def _check_texts(lists: Any) -> TextLists:
    """Return lists with texts as such; raise InputError for others."""
    if not isinstance(lists, TextLists):
        raise InputError("no texts to read", accepted="lists of a run, whose documents have text")
    return lists


@dataclass(frozen=True)
class TextSource:
    """Texts of a run's documents, as `lmtune.rerank.sources.ListSource` has it.

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
            for topic, scores in of_known_topics(run, dataset.topics).items()
        }
        return RunFeatures(TextLists.of(dataset.topics, taken, texts, self.options), dataset, texts.index)

    def names(self, fields: Sequence[str]) -> tuple[str, ...]:
        """Return none: there are no features."""
        del fields
        return ()

    def facts(self, fields: Sequence[str]) -> dict[str, Any]:
        """Return what a model must remember."""
        del fields
        return {"text": asdict(self.options), "depth": self.depth}


_SCORES = "scores.sqlite"


@dataclass(frozen=True)
class TextTrained(Training):
    """A reranker of texts that was trained.

    Attributes
    ----------
    network : CrossEncoder
        With the weights of the best epoch.
    """

    network: CrossEncoder
    kind: ClassVar = "text"
    scales: ClassVar = False

    @classmethod
    def untrained(cls, name: str, options: TextOptions) -> Self:
        """Take a cross-encoder that was trained elsewhere, ``text:MODEL``.

        Raises
        ------
        InputError
            As `lmtune.rerank.text.cross_encoder.load_language_model`.
        """
        network = load_network(name, options)
        return cls(Settings(network=name), network.state_dict(), (), (), 0, network)

    def score(
        self, data: RankingData, *, progress: StepProgress | None = None, **how: Unpack[ScoringOptions]
    ) -> NDArray[np.float32]:
        """Score every row of lists with texts, shape (rows,); see `Reranker.score`.

        Raises
        ------
        InputError
            For a document without text.
        """
        lists = _check_texts(data)
        device, folder, bf16 = how.get("device", "cpu"), how.get("checkpoint"), how.get("bf16", False)
        of = f"{_weights_digest(self.weights)} {lists.text_digest()} {bf16}" if folder else ""
        network = self.network.to(device)
        feed = TextFeed(lists, device, bf16=bf16)
        begin = time.perf_counter()
        scores = feed.scores(network, _kept_scores(folder, of), progress)
        spent = time.perf_counter() - begin
        note(
            f"{quantity(len(scores), 'document')} scored in {spent:.1f} s, {len(scores) / spent:.3g} a second"
        )
        return scores.numpy()

    def source(self, facts: Mapping[str, Any], depth: int | None) -> ListSource:
        """Return what reads a run's documents, as in training or to another depth."""
        return TextSource(TextOptions(**facts["text"]), depth or facts["depth"])

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the network as transformers load it, and the course; see `Scorer`."""
        self.network.save(folder)
        return self.save_history(folder)

    @classmethod
    def load(cls, home: Path, files: Mapping[str, bytes], kept: Mapping[str, Any]) -> Self:
        """Make it of what `save` wrote."""
        network = load_network(f"{TEXT}{home}", TextOptions(**kept["facts"]["text"]))
        return cls(weights=network.state_dict(), network=network, **cls.load_history(files, kept))


class TextLearner(Learner):
    """Trains a network that reads texts."""

    scorer = TextTrained

    def check(self, *, lists: bool = True) -> None:
        """Raise InputError without texts, or for a model that cannot be had."""
        if not lists:
            accepted = "--run, of a collection with documents"
            raise InputError("no texts to read", value=self.settings.network, accepted=accepted)
        find_language_model(self.settings.network)

    def source(self, features: FeatureSettings, text: TextOptions) -> ListSource:
        """Return texts, as many of a topic as there would be features."""
        return TextSource(text, features.depth)

    def fit(self, train: RankingData, validation: RankingData, **how: Unpack[TrainingOptions]) -> TextTrained:
        """Train on lists with texts: see `fit`."""
        return fit(_check_texts(train), _check_texts(validation), self.settings, **how)


def _kept_scores(folder: Path | None, of: str) -> KeptValues | None:
    """Open the scores that are kept in a folder, for scoring that was interrupted to go on from."""
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    return KeptValues(folder / _SCORES, of)


class TextFeed:
    """Lists' texts, read as a network takes them.

    Parameters
    ----------
    lists : TextLists
    device : str
        Where the network is.
    bf16 : bool
        Whether it computes scores in bfloat16.
    """

    def __init__(self, lists: TextLists, device: str, *, bf16: bool = False) -> None:
        self.lists, self.device, self.bf16 = lists, device, bf16

    def inputs(self, network: CrossEncoder, rows: NDArray[np.int64]) -> tuple[Any, ...]:
        """Give what a network takes for a padded table of rows, (batch, items), -1 on padding."""
        valid = rows >= 0
        pieces = network.encode(*self.lists.pairs(rows[valid]))
        return pieces, torch.from_numpy(valid).to(self.device)

    @torch.no_grad()
    def scores(
        self, network: CrossEncoder, kept: KeptValues | None = None, progress: StepProgress | None = None
    ) -> Tensor:
        """Score every row, nothing dropped out; in blocks, pairs of like length together."""
        network.eval()
        out = np.empty(self.lists.labels.size, np.float32)
        begin, scored = time.perf_counter(), 0
        for rows in self.lists.blocks():
            first = int(rows[0])
            found = np.frombuffer((kept and kept.get(str(first))) or b"", np.float32)
            if len(found) == rows.size:
                out[rows] = found
                continue
            pieces = network.encode(*self.lists.pairs(rows))
            with autocast(self.device, bf16=self.bf16):
                out[rows] = network.of_pairs(pieces).cpu().numpy()
            scored += rows.size
            if kept is not None:
                kept.put(str(first), out[rows].tobytes())
            if progress is not None:
                rate = scored / (time.perf_counter() - begin)
                progress(first + rows.size, out.size, f"{rate:.3g} documents a second")
        return torch.from_numpy(out)


def fit(
    train: TextLists,
    validation: TextLists | None,
    settings: Settings,
    *,
    watch: Callable[[TrainingRun], None] | None = None,
    **how: Unpack[TrainingOptions],
) -> TextTrained:
    """Train a network on texts, as `lmtune.rerank.learners.feature_networks.fit` does on features.

    The gradient of a step goes through the network in micro-batches of `TextOptions.batch_tokens`, so that
    a step holds one micro-batch's graph however many documents it has; what that takes is said first.

    Parameters
    ----------
    train, validation : TextLists
        What to learn from and to choose the epoch by.
    settings : Settings
        Its network is ``text:MODEL``, see `lmtune.rerank.text.cross_encoder.find_model`.
    watch, **how
        As for `lmtune.rerank.learners.feature_networks.fit`.

    Raises
    ------
    InputError
        As there, and for a model that cannot be had, a document without text, or more memory than there
        is.
    """
    device = how.get("device", "cpu")
    check_device(device)
    check_training_data(train, validation)
    identity = {
        "settings": settings.as_record(),
        "options": asdict(train.options),
        "data": digest_of(train, validation),
        # Every text is read, so that none is missing later.
        "texts": [data.text_digest() for data in (train, validation) if data is not None],
    }

    def make() -> ListTask:
        network = load_network(settings.network, train.options, dropout=settings.dropout, seed=settings.seed)
        network.to(device)
        _check_memory(network, settings, device)
        feed = partial(TextFeed, device=device, bf16=settings.amp_bf16)
        return ListTask(train, validation, settings, network, feed)

    run = run_training(make, settings, identity, how, watch)
    network: Any = run.network
    network.load_state_dict(run.best)
    run.best = network.state_dict()
    return TextTrained.of(run, network=network.eval())


def _check_memory(network: CrossEncoder, settings: Settings, device: str) -> None:
    """Say how much memory training takes at most, as far as weights and graphs go.

    Weights count with the best epoch's copy, those that are learnt with their gradients and what the
    optimizer keeps of them. Graphs are
    measured on one piece of the greatest length.

    Raises
    ------
    InputError
        Where there is less.
    """
    of_optimizer = {"adam": 2, "adamw": 2, "sgd": 1}.get(settings.optimizer, 0)
    learnt = sum(weight.nbytes for weight in network.parameters() if weight.requires_grad)
    weights = 2 * sum(weight.nbytes for weight in network.parameters()) + learnt * (1 + of_optimizer)
    graphs = network.graph_bytes()
    needed, there = weights + graphs, _available_bytes(device)
    note(
        f"training takes up to {_megabytes(needed)} besides libraries: {_megabytes(weights)} for weights, "
        f"{_megabytes(graphs)} for the graph of {network.batch_tokens} tokens"
        + ("" if there is None else f"; {_megabytes(there)} are free")
    )
    if there is not None and needed > there:
        raise InputError(
            f"training takes more memory than the {_megabytes(there)} that are free",
            value=_megabytes(needed),
            accepted="a smaller --batch-tokens, --max-length or model",
        )


def _available_bytes(device: str) -> int | None:
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):  # not on Linux
        return None


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


def _weights_digest(weights: Mapping[str, Tensor]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in weights.items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()
