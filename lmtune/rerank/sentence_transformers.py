"""lmtune's losses for the trainers of sentence-transformers.

    from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer
    from lmtune.rerank.sentence_transformers import ApproxNDCGLoss

    model = CrossEncoder(name, num_labels=1)
    CrossEncoderTrainer(model, train_dataset=dataset, loss=ApproxNDCGLoss(model, alpha=5)).train()

The signature is
``Loss(model, mini_batch_size=32, list_size=None, list_relevant=None, in_batch=0, **options)``,
where ``options`` are the loss's, such as ``LambdaRankLoss(model, k=10)``; see `ListLoss`.
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
from lmtune.rerank.text.cross_encoder import scores_in_pieces, split_by_count
from lmtune.rerank.training.objectives import BatchLabels, make_objective

__all__ = [
    "ADRMSELoss",
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
    "SLatKLoss",
    "SongLoss",
]


class ListLoss(nn.Module):
    """A listwise loss of lmtune for ``CrossEncoderTrainer``.

    A row of the dataset has a query, the list of its documents' texts, and the list of their labels
    (relevance grades, 0 or more). Lists can have different lengths.

    Parameters
    ----------
    model : sentence_transformers.CrossEncoder
        A model with one output.
    loss : str
        A loss as in ``lmtune rerank train --loss``: ``"lambdarank"``, ``"lambdas:FILE.py:NAME"``.
    mini_batch_size : int, optional
        Number of (query, document) pairs whose graph is in memory at a time. It bounds the memory of a
        step for any length of lists; see `lmtune.rerank.text.cross_encoder`. If a step has more pairs, it
        needs a second forward pass. None encodes all pairs at once.
    list_size : int, optional
        Number of documents sampled from longer lists in each step; default all.
    list_relevant : int, optional
        Number of relevant documents in the sample. Default: a uniform sample, and a quarter (2 to 10) for
        SONG's losses.
    in_batch : int
        Number of in-batch negatives: documents of the batch's other rows, sampled in each step and added
        to each list with label 0. Texts of the list itself are excluded. All are used if there are fewer.
    **options
        Options of the loss.

    Raises
    ------
    InputError
        If an option is unknown, a value is out of bounds, the model has several outputs, or `in_batch` is
        used with SONG's losses, whose lists must not change. When called, if the numbers of labels and
        documents differ.

    Notes
    -----
    SONG's losses keep an estimate for each relevant document. A list is identified by a digest of its
    query, texts and labels, and a document by its position in the list. Rows should therefore be whole
    candidate lists; use `list_size` to encode a sample of them. Rows that change between epochs are new
    lists, which is correct but uses memory. The estimates are not stored in the trainer's checkpoints.
    A new list starts with the estimate of its first sample.

    Without gradients, as in the trainer's evaluation, lists are neither sampled nor extended, and
    estimates do not change.

    ``ListNetLoss(model, target="labels", in_batch=n)`` is InfoNCE for lists with one relevant document,
    see `lmtune.losses.listnet`. A cross-encoder encodes each added document with the query.
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
        parsed = parse_loss(loss)
        self.settings = Settings(
            loss=make_loss(parsed.name, {**parsed.options, **options}),
            list_size=list_size,
            list_relevant=list_relevant,
        )
        if in_batch < 0 or (in_batch and self.settings.loss.family == SONG):
            accepted = "0 or more" if in_batch < 0 else f"0 with {parsed.name}"
            raise InputError("bad in_batch", value=in_batch, accepted=accepted)
        self.model, self.mini_batch_size, self.in_batch = model, mini_batch_size, in_batch
        self._estimates: dict[bytes, dict[str, Tensor]] = {}

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
            The batch's queries, and the list of each query's document texts.
        labels : sequence of Tensor
            The labels of each query's documents, shape (documents,).
        prompt, task : str, optional
            Arguments of the model's ``preprocess``.

        Returns
        -------
        Tensor ()
        """
        queries, documents = _checked(inputs, labels)
        label = torch.cat(list(labels)).float().cpu().numpy()
        data = RankingData.from_lengths(np.empty((label.size, 0)), label, [len(texts) for texts in documents])
        is_training = torch.is_grad_enabled()
        seed = int(torch.randint(2**62, ()))
        random = np.random.default_rng(seed)
        size = self.settings.list_size if is_training else None
        batch = batch_of(data, np.arange(len(queries)), size, self.settings.relevant_of_sample, random)
        if is_training and self.in_batch:
            batch = _with_negatives(batch, documents, self.in_batch, random)
        texts = list(itertools.chain.from_iterable(documents))
        items = zip(np.nonzero(batch.mask)[0].tolist(), batch.rows[batch.mask].tolist(), strict=True)
        pairs = [(queries[query], texts[row]) for query, row in items]

        def score(indices: Tensor) -> Tensor:
            tokens = self.model.preprocess([pairs[n] for n in indices.tolist()], prompt=prompt, task=task)
            output: Tensor = self.model(_to_device(self.model.device, tokens))["scores"]
            return output.view(-1).float()

        lengths = [len(query) + len(text) for query, text in pairs]
        pieces = split_by_count(lengths, self.mini_batch_size or len(pairs))
        scores = scores_in_pieces(score, pieces, self.model.device)
        relevant = RelevantPairs.from_lists(data.starts, data.labels)
        objective = make_objective(self.settings.loss, lambda: relevant, str(scores.device))
        is_stateful = is_training and self.settings.loss.family == SONG
        keys = _keys(queries, documents, labels) if is_stateful else []
        objective.restore(self._with_estimates(keys, objective.state(), relevant))
        seen = BatchLabels.of(batch, seed, scores.device)
        value, _ = objective(seen, scores.new_zeros(seen.mask.shape).masked_scatter(seen.mask, scores))
        for number, key in enumerate(keys):
            of_list = _state_of_list(objective.state(), relevant, number)
            self._estimates[key] = {name: part.clone() for name, part in of_list.items()}
        return value

    def _with_estimates(
        self, keys: Sequence[bytes], state: dict[str, Tensor], pairs: RelevantPairs
    ) -> dict[str, Tensor]:
        """Copy the estimates of known lists into the state of a new objective."""
        for number, key in enumerate(keys):
            of_list = _state_of_list(state, pairs, number)
            for name, estimate in self._estimates.get(key, {}).items():
                of_list[name].copy_(estimate)
        return state

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        settings = self.settings
        sizes = {"list_size": settings.list_size, "list_relevant": settings.relevant_of_sample}
        config = {
            "loss": settings.loss.name,
            **settings.loss.options,
            "mini_batch_size": self.mini_batch_size,
        }
        if self.in_batch:
            config["in_batch"] = self.in_batch
        return config if settings.list_size is None else config | sizes


def _loss_class(class_name: str, loss: str) -> Callable[..., ListLoss]:
    """Create the subclass of `ListLoss` for a loss."""

    def init(self: ListLoss, model: Any, **options: Any) -> None:
        ListLoss.__init__(self, model, loss, **options)

    text = f"lmtune's loss ``{loss}`` for ``CrossEncoderTrainer``, with options of `ListLoss` and the loss."
    return type(class_name, (ListLoss,), {"__init__": init, "__doc__": text, "__module__": __name__})


RankNetLoss = _loss_class("RankNetLoss", "ranknet")
LambdaRankLoss = _loss_class("LambdaRankLoss", "lambdarank")
NDCGLoss2PPLoss = _loss_class("NDCGLoss2PPLoss", "ndcgloss2++")
ApproxNDCGLoss = _loss_class("ApproxNDCGLoss", "approxndcg")
NeuralNDCGLoss = _loss_class("NeuralNDCGLoss", "neuralndcg")
PiRankLoss = _loss_class("PiRankLoss", "pirank")
ListNetLoss = _loss_class("ListNetLoss", "listnet")
SLatKLoss = _loss_class("SLatKLoss", "slatk")
ListMLELoss = _loss_class("ListMLELoss", "listmle")
BinaryCrossEntropyLoss = _loss_class("BinaryCrossEntropyLoss", "binary-cross-entropy")
MarginMSELoss = _loss_class("MarginMSELoss", "margin-mse")
ADRMSELoss = _loss_class("ADRMSELoss", "adr-mse")
SongLoss = _loss_class("SongLoss", "song")
KSongLoss = _loss_class("KSongLoss", "k-song")
ListwiseCrossEntropyLoss = _loss_class("ListwiseCrossEntropyLoss", "cross-entropy")


def _checked(inputs: Sequence[Any], labels: Any) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the queries and documents of a batch; raise InputError if they do not match the labels."""
    if isinstance(labels, Tensor) or len(inputs) != 2 or any(isinstance(texts, str) for texts in inputs[1]):
        raise InputError(
            "no lists of documents", accepted="columns query, documents (lists) and labels (lists)"
        )
    queries, documents = inputs
    sizes, label_counts = [len(texts) for texts in documents], [len(grades) for grades in labels]
    if sizes != label_counts or len(queries) != len(sizes):
        raise InputError("documents and labels differ in number", value=(sizes, label_counts))
    return queries, documents


def _with_negatives(
    batch: Batch, documents: Sequence[Sequence[str]], count: int, random: np.random.Generator
) -> Batch:
    """Add documents of the other lists to each list, with label 0, if their text is not in the list."""
    row_of = {text: row for row, text in enumerate(itertools.chain.from_iterable(documents))}
    lists = []
    for texts, rows, mask in zip(documents, batch.rows, batch.mask, strict=True):
        others = [row_of[text] for text in row_of.keys() - set(texts)]
        negatives = random.permutation(np.sort(np.asarray(others, np.int64)))[:count]
        lists.append(np.append(rows[mask], negatives))
    table = np.full((len(lists), max(map(len, lists))), -1)
    for rows, extended in zip(table, lists, strict=True):
        rows[: len(extended)] = extended
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


def _state_of_list(state: dict[str, Tensor], pairs: RelevantPairs, number: int) -> dict[str, Tensor]:
    """Return views of the parts of SONG's state that belong to a list: its relevant pairs and its query."""
    of_pairs = slice(int(pairs.starts[number]), int(pairs.starts[number + 1]))
    return {
        name: tensor[of_pairs if name.endswith("estimate") else slice(number, number + 1)]
        for name, tensor in state.items()
        if tensor.ndim
    }


def _to_device(device: torch.device, tokens: dict[str, Any]) -> dict[str, Any]:
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in tokens.items()}
