"""lmtune's losses for the training loops of sentence-transformers.

    from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer
    from lmtune.rerank.sentence_transformers import ApproxNDCGLoss

    model = CrossEncoder(name, num_labels=1)
    CrossEncoderTrainer(model, train_dataset=dataset, loss=ApproxNDCGLoss(model, alpha=5)).train()

Each is ``Loss(model, mini_batch_size=32, list_size=None, list_relevant=None, in_batch=0, **options)`` with
the loss's own options, such as ``LambdaRankLoss(model, k=10)``; see `ListLoss`.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lmtune.errors import InputError
from lmtune.losses.songs import RelevantPairs
from lmtune.rerank.data import Batch, RankingData, batch_of
from lmtune.rerank.loss_names import SONG, make_loss, parse_loss
from lmtune.rerank.settings import Settings
from lmtune.rerank.text.cross_encoder import pieces_of, scores_in_pieces
from lmtune.rerank.training.objectives import BatchLabels, make_objective

__all__ = [
    "ApproxNDCGLoss",
    "BinaryCrossEntropyLoss",
    "KSongLoss",
    "LambdaRankLoss",
    "ListLoss",
    "ListMLELoss",
    "ListNetLoss",
    "ListwiseCrossEntropyLoss",
    "MarginMSELoss",
    "NDCGLoss2PPLoss",
    "NeuralNDCGLoss",
    "PiRankLoss",
    "RankNetLoss",
    "SongLoss",
]


class ListLoss(nn.Module):
    """A loss of lmtune over a query's documents, for ``CrossEncoderTrainer``.

    A row of the dataset is a query, the list of its documents' texts, and the list of their labels:
    grades of 0 or more. Rows may be of any length each.

    Parameters
    ----------
    model : sentence_transformers.CrossEncoder
        With one output.
    loss : str
        As ``lmtune rerank train --loss`` takes it: ``"lambdarank"``, ``"lambdas:FILE.py:NAME"``.
    mini_batch_size : int, optional
        How many pairs (query, document) are encoded with a graph at a time, which bounds the memory
        of a step however long the lists are; see `lmtune.rerank.text.cross_encoder`. More
        pairs take a second forward pass. None encodes all at once.
    list_size : int, optional
        Encode so many documents of each longer list, drawn anew in each step; all by default.
    list_relevant : int, optional
        How many of these are relevant ones; by default a uniform sample, or with SONG's losses a
        quarter, 2 to 10.
    in_batch : int
        Add to each list so many documents of the batch's other rows, drawn anew in each step, with label 0:
        in-batch negatives, none of them a text of the row's own list. More than there are takes all.
    **options
        The loss's own.

    Raises
    ------
    InputError
        For unknown options, values out of bounds, a model of several outputs, and `in_batch` with SONG's
        losses, which remember whole lists; when called, for labels that do not fit the documents.

    Notes
    -----
    SONG's losses remember an estimate for each relevant document of a row. A row is known again by
    a digest of its query, texts and labels, a document by its place in it: rows are to be whole
    candidate lists, and `list_size` says how many documents of them a step is to encode. Rows that
    change from epoch to epoch are new lists each time, without harm but for the memory. The
    estimates are not in the trainer's checkpoints; a list seen first takes the sample's own.

    Without gradients, as in the trainer's evaluation, lists are taken whole, nothing is added and nothing
    remembered.

    ``ListNetLoss(model, target="labels", in_batch=n)`` of lists with one relevant document is InfoNCE, see
    `lmtune.losses.listnet`. A cross-encoder reads each added document with the query anew.
    """

    def __init__(
        self,
        model: Any,
        loss: str,
        *,
        mini_batch_size: int | None = 32,
        list_size: int | None = None,
        list_relevant: int | None = None,
        in_batch: int = 0,
        **options: Any,
    ) -> None:
        super().__init__()
        outputs = model.num_labels
        if outputs != 1:
            raise InputError("a model of several outputs", value=outputs, accepted="one: num_labels=1")
        if mini_batch_size is not None and mini_batch_size < 1:
            raise InputError("bad mini_batch_size", value=mini_batch_size, accepted="1 or more, or None")
        named = parse_loss(loss)
        self.settings = Settings(
            loss=make_loss(named.name, {**named.options, **options}),
            list_size=list_size,
            list_relevant=list_relevant,
        )
        if in_batch < 0 or (in_batch and self.settings.loss.family == SONG):
            accepted = "0 or more" if in_batch < 0 else f"0 with {named.name}"
            raise InputError("bad in_batch", value=in_batch, accepted=accepted)
        self.model, self.mini_batch_size, self.in_batch = model, mini_batch_size, in_batch
        self._kept: dict[bytes, dict[str, Tensor]] = {}

    def forward(
        self,
        inputs: Sequence[Any],
        labels: Sequence[Tensor],
        prompt: str | None = None,
        task: str | None = None,
    ) -> Tensor:
        """Compute the loss.

        Parameters
        ----------
        inputs : [queries, documents]
            A batch's queries, and for each the list of its documents' texts.
        labels : sequence of Tensor
            The documents' labels, of shape (documents,) each.
        prompt, task : str, optional
            For the model's ``preprocess``.

        Returns
        -------
        Tensor ()
        """
        queries, documents = _checked(inputs, labels)
        label = torch.cat(list(labels)).float().cpu().numpy()
        data = RankingData.from_lengths(np.empty((label.size, 0)), label, [len(own) for own in documents])
        learning = torch.is_grad_enabled()
        seed = int(torch.randint(2**62, ()))
        random = np.random.default_rng(seed)
        size = self.settings.list_size if learning else None
        batch = batch_of(data, np.arange(len(queries)), size, self.settings.relevant_of_sample, random)
        if learning and self.in_batch:
            batch = _with_others(batch, documents, self.in_batch, random)
        texts = [text for own in documents for text in own]
        read = zip(np.nonzero(batch.mask)[0].tolist(), batch.rows[batch.mask].tolist(), strict=True)
        pairs = [(queries[query], texts[row]) for query, row in read]

        def score(places: Tensor) -> Tensor:
            tokens = self.model.preprocess([pairs[n] for n in places.tolist()], prompt=prompt, task=task)
            found: Tensor = self.model(_on(self.model.device, tokens))["scores"]
            return found.view(-1).float()

        lengths = [len(query) + len(text) for query, text in pairs]
        pieces = pieces_of(lengths, self.mini_batch_size or len(pairs))
        scores = scores_in_pieces(score, pieces, self.model.device)
        known = RelevantPairs.from_lists(data.starts, data.labels)
        objective = make_objective(self.settings.loss, lambda: known, str(scores.device))
        remembering = learning and self.settings.loss.family == SONG
        keys = _keys(queries, documents, labels) if remembering else []
        objective.restore(self._recalled(keys, objective.state(), known))
        seen = BatchLabels.of(batch, seed, scores.device)
        value, _ = objective(seen, scores.new_zeros(seen.mask.shape).masked_scatter(seen.mask, scores))
        for place, key in enumerate(keys):
            own = _of_list(objective.state(), known, place)
            self._kept[key] = {name: part.clone() for name, part in own.items()}
        return value

    def _recalled(
        self, keys: Sequence[bytes], state: dict[str, Tensor], pairs: RelevantPairs
    ) -> dict[str, Tensor]:
        """Put what is remembered of lists into the state of a loss that has seen nothing."""
        for place, key in enumerate(keys):
            own = _of_list(state, pairs, place)
            for name, kept in self._kept.get(key, {}).items():
                own[name].copy_(kept)
        return state

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model's card."""
        settings = self.settings
        sizes = {"list_size": settings.list_size, "list_relevant": settings.relevant_of_sample}
        own = {"loss": settings.loss.name, **settings.loss.options, "mini_batch_size": self.mini_batch_size}
        if self.in_batch:
            own["in_batch"] = self.in_batch
        return own if settings.list_size is None else own | sizes


def _loss(class_name: str, loss: str) -> Callable[..., ListLoss]:
    """Make the class of a loss that has a name."""

    def begin(self: ListLoss, model: Any, **options: Any) -> None:
        ListLoss.__init__(self, model, loss, **options)

    text = f"lmtune's loss ``{loss}``, for ``CrossEncoderTrainer``; the options are `ListLoss`'s and its own."
    return type(class_name, (ListLoss,), {"__init__": begin, "__doc__": text, "__module__": __name__})


RankNetLoss = _loss("RankNetLoss", "ranknet")
LambdaRankLoss = _loss("LambdaRankLoss", "lambdarank")
NDCGLoss2PPLoss = _loss("NDCGLoss2PPLoss", "ndcgloss2++")
ApproxNDCGLoss = _loss("ApproxNDCGLoss", "approxndcg")
NeuralNDCGLoss = _loss("NeuralNDCGLoss", "neuralndcg")
PiRankLoss = _loss("PiRankLoss", "pirank")
ListNetLoss = _loss("ListNetLoss", "listnet")
ListMLELoss = _loss("ListMLELoss", "listmle")
BinaryCrossEntropyLoss = _loss("BinaryCrossEntropyLoss", "binary-cross-entropy")
MarginMSELoss = _loss("MarginMSELoss", "margin-mse")
SongLoss = _loss("SongLoss", "song")
KSongLoss = _loss("KSongLoss", "k-song")
ListwiseCrossEntropyLoss = _loss("ListwiseCrossEntropyLoss", "cross-entropy")


def _checked(inputs: Sequence[Any], labels: Any) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return a batch's queries and documents, as many of these as labels."""
    if isinstance(labels, Tensor) or len(inputs) != 2 or any(isinstance(own, str) for own in inputs[1]):
        raise InputError(
            "no lists of documents", accepted="columns query, documents (lists) and labels (lists)"
        )
    queries, documents = inputs
    sizes, labelled = [len(own) for own in documents], [len(own) for own in labels]
    if sizes != labelled or len(queries) != len(sizes):
        raise InputError("documents and labels differ in number", value=(sizes, labelled))
    return queries, documents


def _with_others(
    batch: Batch, documents: Sequence[Sequence[str]], count: int, random: np.random.Generator
) -> Batch:
    """Add to each list, with label 0, some of the other lists' documents whose text it has not itself."""
    row_of = {text: row for row, text in enumerate(itertools.chain.from_iterable(documents))}
    lists = []
    for own, rows, real in zip(documents, batch.rows, batch.mask, strict=True):
        others = [row_of[text] for text in row_of.keys() - set(own)]
        drawn = random.permutation(np.sort(np.asarray(others, np.int64)))[:count]
        lists.append(np.append(rows[real], drawn))
    table = np.full((len(lists), max(map(len, lists))), -1)
    for rows, longer in zip(table, lists, strict=True):
        rows[: len(longer)] = longer
    labels = np.zeros(table.shape, batch.labels.dtype)
    labels[:, : batch.labels.shape[1]] = batch.labels
    return Batch(labels, table >= 0, table, batch.queries)


def _keys(
    queries: Sequence[str], documents: Sequence[Sequence[str]], labels: Sequence[Tensor]
) -> list[bytes]:
    """Return a digest of each list."""
    rows = zip(queries, documents, labels, strict=True)
    texts = [repr((query, list(own), label.tolist())) for query, own, label in rows]
    return [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in texts]


def _of_list(state: dict[str, Tensor], pairs: RelevantPairs, place: int) -> dict[str, Tensor]:
    """Return what SONG's state holds of a list: of its relevant pairs, and of the query."""
    own = slice(int(pairs.starts[place]), int(pairs.starts[place + 1]))
    return {
        name: tensor[own if name.endswith("estimate") else slice(place, place + 1)]
        for name, tensor in state.items()
        if tensor.ndim
    }


def _on(device: torch.device, tokens: dict[str, Any]) -> dict[str, Any]:
    return {name: own.to(device) if isinstance(own, Tensor) else own for name, own in tokens.items()}
