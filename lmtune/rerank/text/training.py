"""Text rerankers: lists of texts, training and scoring."""

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
from lmtune.io.value_cache import ValueCache
from lmtune.progress import Progress, note, quantity, silent
from lmtune.rerank.data import RankingData, check_training_data
from lmtune.rerank.learners.feature_networks import digest_of
from lmtune.rerank.learners.learner import Learner, ScoringOptions
from lmtune.rerank.settings import ENCODER, TEXT, Settings
from lmtune.rerank.settings import TextOptions as TextOptions
from lmtune.rerank.sources import FeatureSettings, ListSource, RunFeatures, rank_docnos, select_known_topics
from lmtune.rerank.text.bi_encoder import BiEncoder
from lmtune.rerank.text.cross_encoder import CrossEncoder, find_language_model, load_network
from lmtune.rerank.training.loop import (
    ListTask,
    StepProgress,
    Training,
    TrainingOptions,
    TrainingRun,
    run_training,
)

_BLOCK_ROWS = 1024


class Texts(Protocol):
    """Source of documents' texts by docno."""

    def of(self, docnos: Sequence[str]) -> list[str]:
        """Return the texts of documents, as the model's input.

        Raises
        ------
        InputError
            If a document has no text.
        """


@dataclass(frozen=True)
class GivenTexts:
    """Documents' texts in a mapping.

    Attributes
    ----------
    by_docno : mapping of str to str
    """

    by_docno: Mapping[str, str]

    def of(self, docnos: Sequence[str]) -> list[str]:
        """Return the texts of documents; see `Texts`."""
        try:
            return [self.by_docno[docno] for docno in docnos]
        except KeyError as error:
            raise InputError("a document without text", value=error.args[0]) from None


@dataclass(frozen=True, eq=False)
class TextLists(RankingData):
    """`RankingData` with the texts of queries and documents.

    There are no features: their shape is (rows, 0).

    Attributes
    ----------
    topics : mapping of str to str
        Query texts by identifier.
    texts : Texts
        Document texts by docno.
    options : TextOptions
        How texts are truncated or divided into passages.
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
        """Create lists from a mapping of labels.

        Parameters
        ----------
        topics : mapping of str to str
            Query texts by identifier.
        run : mapping of str to mapping of str to float
            The label of each document, by query and docno. Ties in scores keep this order.
        texts : Texts, or mapping of str to str
            Document texts by docno.
        options : TextOptions, optional
            Default ``TextOptions()``.

        Raises
        ------
        InputError
            If a query has no text or no documents, or a label is out of range.
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
        """Return the query texts and the document texts of rows.

        Raises
        ------
        InputError
            If a document has no text.
        """
        chosen = np.asarray(rows, np.int64)
        queries = [self.topics[self.queries[q]] for q in self.query_of_row[chosen].tolist()]
        docnos = self.docnos or ()
        return queries, self.texts.of([docnos[row] for row in chosen.tolist()])

    def blocks(self, rows: int = _BLOCK_ROWS) -> Iterator[NDArray[np.int64]]:
        """Yield all row numbers in blocks of at most `rows`."""
        every = np.arange(self.labels.size)
        for first in range(0, every.size, rows):
            yield every[first : first + rows]

    def text_digest(self) -> str:
        """Return a digest of all texts and the options; reads every document.

        Raises
        ------
        InputError
            If a document has no text.
        """
        digest = hashlib.blake2b(repr(self.options).encode(), digest_size=16)
        for rows in self.blocks():
            for texts in self.pairs(rows):
                for text in texts:
                    digest.update(f"{len(text)} {text}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def _check_texts(lists: Any) -> TextLists:
    if not isinstance(lists, TextLists):
        raise InputError("the lists have no texts", accepted="lists of a run, with texts of the documents")
    return lists


@dataclass(frozen=True)
class TextSource:
    """Texts of a run's documents; a `lmtune.rerank.sources.ListSource`.

    Attributes
    ----------
    options : TextOptions
    depth : int
        Number of documents per topic, from the top.
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
        """Return lists of the top documents of each topic, with their texts; labels as in `run_data`.

        Raises
        ------
        InputError
            If the depth is out of bounds, the run is empty, a topic has no text, or texts cannot be read.
        """
        check_least("bad depth", self.depth, 1)
        texts = open_texts(collection, dataset, self.options.template, progress=progress)
        gains = {
            topic: {
                docno: max(0, dataset.qrels.get(topic, {}).get(docno, 0))
                for docno in rank_docnos(scores)[: self.depth]
            }
            for topic, scores in select_known_topics(run, dataset.topics).items()
        }
        return RunFeatures(TextLists.of(dataset.topics, gains, texts, self.options), dataset, texts.index)

    def names(self, fields: Sequence[str]) -> tuple[str, ...]:
        """Return an empty tuple: there are no features."""
        del fields
        return ()

    def facts(self, fields: Sequence[str]) -> dict[str, Any]:
        """Return options and depth, as JSON values."""
        del fields
        return {"text": asdict(self.options), "depth": self.depth}


_SCORES = "scores.sqlite"


@dataclass(frozen=True)
class TextTrained(Training):
    """A trained text reranker.

    Attributes
    ----------
    network : CrossEncoder or BiEncoder
        The network with the weights of the best epoch.
    """

    network: CrossEncoder | BiEncoder
    kind: ClassVar = "text"
    scales: ClassVar = False

    @classmethod
    def untrained(cls, name: str, options: TextOptions) -> Self:
        """Create a reranker from a model that was trained elsewhere: ``text:MODEL``, ``encoder:MODEL``.

        Raises
        ------
        InputError
            As `lmtune.rerank.text.cross_encoder.load_language_model`, and if the model lacks weights: a model
            without a trained last layer would rank at random.
        """
        if name.startswith(ENCODER):
            similar = BiEncoder(name, options)
            return cls(Settings(network=name), similar.state_dict(), (), (), 0, similar)
        network = load_network(name, options)
        if network.missing:
            raise InputError(
                f"the model has no trained {', '.join(network.missing[:3])}, so it cannot score pairs",
                value=name,
                accepted="a cross-encoder, encoder:MODEL for a bi-encoder's similarity, decoder:MODEL, or a "
                "model trained by lmtune rerank train",
            )
        return cls(Settings(network=name), network.state_dict(), (), (), 0, network)

    def score(
        self, data: RankingData, *, progress: StepProgress | None = None, **how: Unpack[ScoringOptions]
    ) -> NDArray[np.float32]:
        """Score every row of lists with texts, shape (rows,); see `Reranker.score`.

        Raises
        ------
        InputError
            If a document has no text.
        """
        lists = _check_texts(data)
        device, folder, bf16 = how.get("device", "cpu"), how.get("checkpoint"), how.get("bf16", False)
        identity = f"{_weights_digest(self.weights)} {lists.text_digest()} {bf16}" if folder else ""
        network = self.network.to(device)
        feed = TextFeed(lists, device, bf16=bf16)
        begin = time.perf_counter()
        scores = feed.scores(network, _open_stored_scores(folder, identity), progress)
        spent = time.perf_counter() - begin
        note(f"{quantity(len(scores), 'document')} scored in {spent:.1f} s, {len(scores) / spent:.3g} per s")
        return scores.numpy()

    def source(self, facts: Mapping[str, Any], depth: int | None) -> ListSource:
        """Return the source of texts, as in training or to another depth."""
        return TextSource(TextOptions(**facts["text"]), depth or facts["depth"])

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the network in transformers' format, and the history; see `Scorer`."""
        self.network.save(folder)
        return self.save_history(folder)

    @classmethod
    def load(cls, folder: Path, files: Mapping[str, bytes], model: Mapping[str, Any]) -> Self:
        """Load the scorer that `save` wrote; see `Scorer`."""
        network = load_network(f"{TEXT}{folder}", TextOptions(**model["facts"]["text"]))
        return cls(weights=network.state_dict(), network=network, **cls.load_history(files, model))


class TextLearner(Learner):
    """Trains a network on texts."""

    scorer = TextTrained

    def check(self, *, lists: bool = True) -> None:
        """Raise InputError if there are no texts, or the model is not found."""
        if not lists:
            accepted = "--run, of a collection with documents"
            raise InputError("the network needs texts", value=self.settings.network, accepted=accepted)
        if self.settings.network.startswith(ENCODER):
            raise InputError(
                "bi-encoders are not trained",
                value=self.settings.network,
                accepted="text:MODEL, which starts from it",
            )
        find_language_model(self.settings.network)

    def source(self, features: FeatureSettings, text: TextOptions) -> ListSource:
        """Return the source of texts, to the depth of the features' settings."""
        for flag, value in (("--feature", features.custom), ("--only-features", features.only)):
            if value:
                reader, first = self.settings.network, value if isinstance(value, str) else value[0]
                raise InputError(f"{flag} has no effect with {reader}", value=first)
        return TextSource(text, features.depth)

    def fit(self, train: RankingData, validation: RankingData, **how: Unpack[TrainingOptions]) -> TextTrained:
        """Train on lists with texts; see `fit`."""
        self.check()
        return fit(_check_texts(train), _check_texts(validation), self.settings, **how)


def _open_stored_scores(folder: Path | None, identity: str) -> ValueCache | None:
    """Open the scores stored by an interrupted scoring of the same texts by the same model."""
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    return ValueCache(folder / _SCORES, identity)


class TextFeed:
    """Network inputs from lists of texts; see `ListFeed`.

    Parameters
    ----------
    lists : TextLists
    device : str
        Device of the network.
    bf16 : bool
        Whether `scores` computes in bfloat16.
    """

    def __init__(self, lists: TextLists, device: str, *, bf16: bool = False) -> None:
        self.lists, self.device, self.bf16 = lists, device, bf16

    def inputs(self, network: CrossEncoder, rows: NDArray[np.int64]) -> tuple[Any, ...]:
        """Return the network's input for padded rows, shape (batch, items); -1 marks padding."""
        valid = rows >= 0
        pieces = network.encode(*self.lists.pairs(rows[valid]))
        return pieces, torch.from_numpy(valid).to(self.device)

    @torch.no_grad()
    def scores(
        self, network: Any, stored: ValueCache | None = None, progress: StepProgress | None = None
    ) -> Tensor:
        """Score every row without dropout by a CrossEncoder or BiEncoder, in blocks.

        If `stored` is given, the blocks are stored there.
        """
        network.eval()
        out = np.empty(self.lists.labels.size, np.float32)
        begin, scored = time.perf_counter(), 0
        for rows in self.lists.blocks():
            first = int(rows[0])
            earlier = np.frombuffer((stored and stored.get(str(first))) or b"", np.float32)
            if len(earlier) == rows.size:
                out[rows] = earlier
                continue
            pieces = network.encode(*self.lists.pairs(rows))
            with autocast(self.device, bf16=self.bf16):
                out[rows] = network.score_pairs(pieces).cpu().numpy()
            scored += rows.size
            if stored is not None:
                stored.put(str(first), out[rows].tobytes())
            if progress is not None:
                rate = scored / (time.perf_counter() - begin)
                progress(first + rows.size, out.size, f"{rate:.3g} documents/s")
        return torch.from_numpy(out)


def fit(
    train: TextLists,
    validation: TextLists | None,
    settings: Settings,
    *,
    watch: Callable[[TrainingRun], None] | None = None,
    **how: Unpack[TrainingOptions],
) -> TextTrained:
    """Train a network on texts.

    Gradients are computed in micro-batches of `TextOptions.batch_tokens`, so that the memory of a step
    does not depend on its number of documents. A note reports the memory needed before training starts.

    Parameters
    ----------
    train, validation : TextLists
        Training queries, and queries that select the best epoch.
    settings : Settings
        The network is ``text:MODEL`` or ``decoder:MODEL``; see
        `lmtune.rerank.text.cross_encoder.find_language_model`.
    watch, **how
        As for `lmtune.rerank.learners.feature_networks.fit`.

    Raises
    ------
    InputError
        As `lmtune.rerank.learners.feature_networks.fit`; and if the model cannot be loaded, a document
        has no text, or memory is too small.
    """
    device = how.get("device", "cpu")
    check_device(device)
    check_training_data(train, validation)
    identity = {
        "settings": settings.as_record(),
        "options": asdict(train.options),
        "data": digest_of(train, validation),
        # Reads every text, so that a missing text is reported before training.
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
    """Print the maximum memory of training, for weights and graphs.

    Weights include the copy of the best epoch, gradients and the optimizer's state. The size of graphs is
    measured on one piece of maximum length.

    Raises
    ------
    InputError
        If more memory is needed than is free.
    """
    optimizer_copies = {"adam": 2, "adamw": 2, "sgd": 1}.get(settings.optimizer, 0)
    trained = sum(weight.nbytes for weight in network.parameters() if weight.requires_grad)
    weights = 2 * sum(weight.nbytes for weight in network.parameters()) + trained * (1 + optimizer_copies)
    graphs = network.graph_bytes()
    needed, free = weights + graphs, _available_bytes(device)
    note(
        f"training takes up to {_megabytes(needed)} besides libraries: {_megabytes(weights)} for weights, "
        f"{_megabytes(graphs)} for the graph of {network.batch_tokens} tokens"
        + ("" if free is None else f"; {_megabytes(free)} are free")
    )
    if free is not None and needed > free:
        raise InputError(
            f"training needs more than the {_megabytes(free)} of free memory",
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
