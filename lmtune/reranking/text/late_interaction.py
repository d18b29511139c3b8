r"""Light rerankers: a query's and a document's word vectors, each found without the other, compared.

With cosines :math:`M_{ij}` of query token i and document token j, and weights :math:`w_i` of the
query's tokens, both of which are learnt,

.. math:: \text{maxsim} = \sum_i w_i \max_j M_{ij}, \qquad
    \text{knrm} = \sum_k v_k \sum_i w_i \ln \sum_j e^{-(M_{ij} - \mu_k)^2 / 2 \sigma_k^2} .

Khattab and Zaharia, ColBERT, SIGIR 2020, eq. 3, and Xiong et al., End-to-End Neural Ad-hoc Ranking with
Kernel Pooling, SIGIR 2017, eq. 2 to 6, both with w = 1; the latter's tanh, which changes no order, is
left out.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer, normalizers, processors
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import SequenceClassifierOutput

from lmtune.errors import InputError

# KNRM's kernels: one for equal words, ten along the cosine.
_MEANS = (1.0, 0.9, 0.7, 0.5, 0.3, 0.1, -0.1, -0.3, -0.5, -0.7, -0.9)
_SPREADS = (1e-3,) + (0.1,) * 10
_LEAST, _SCALE = 1e-10, 0.01  # of the logarithms


class LateInteractionConfig(transformers.PretrainedConfig):  # type: ignore[no-untyped-call]
    """The parts of `LateInteraction`, as transformers keeps it beside the weights."""

    model_type = "lmtune-late-interaction"

    def __init__(
        self, pooling: str = "maxsim", table: tuple[int, int] = (1, 1), encoder: Any = None, **others: Any
    ) -> None:
        super().__init__(**others)
        self.pooling, self.table, self.encoder = pooling, tuple(table), encoder


class LateInteraction(transformers.PreTrainedModel):  # type: ignore[no-untyped-call]
    """Scores pairs by the cosines of their tokens' vectors.

    The vectors are a fixed table's, turned by a learnt matrix, or those of an encoder that reads
    query and document apart.

    Parameters
    ----------
    config : LateInteractionConfig
        With the pooling, ``"maxsim"`` or ``"knrm"``, and the table's shape or the encoder's own
        configuration.
    """

    config_class = LateInteractionConfig

    def __init__(self, config: LateInteractionConfig) -> None:
        super().__init__(config)
        rows, width = config.table
        if config.encoder is None:
            self.words = nn.Embedding(rows, width)
            self.turn = nn.Linear(width, width, bias=False)
        else:
            encoder = transformers.AutoConfig.for_model(**config.encoder)
            self.encoder = transformers.AutoModel.from_config(encoder)  # type: ignore[no-untyped-call]
        self.importance = nn.Linear(width, 1)
        if config.pooling == "knrm":
            self.kernels = nn.Linear(len(_MEANS), 1, bias=False)
        self.post_init()  # type: ignore[no-untyped-call]

    def get_input_embeddings(self) -> nn.Module:
        """Return the table of words."""
        if self.config.encoder is None:
            return self.words
        embeddings: nn.Module = self.encoder.get_input_embeddings()
        return embeddings

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> SequenceClassifierOutput:
        """Score pairs, (pairs, tokens): logits of shape (pairs, 1); the tokens of type 0 are the query's."""
        real = attention_mask.bool()
        query, document = real & (token_type_ids == 0), real & (token_type_ids == 1)
        longest = max(int(query.sum(dim=1).max()), 1)
        vectors = self._vectors(input_ids, query, document)
        asked = vectors[:, :longest]
        weights = functional.softplus(self.importance(asked)).squeeze(2) * query[:, :longest]
        cosines = asked @ vectors.transpose(1, 2)
        if self.config.pooling == "maxsim":
            best = cosines.masked_fill(~document[:, None], -1.0).amax(dim=2)
            return SequenceClassifierOutput(logits=(weights * best).sum(dim=1, keepdim=True))
        pooled = []
        for mean, spread in zip(_MEANS, _SPREADS, strict=True):
            near = torch.exp(-((cosines - mean) ** 2) / (2 * spread**2)) * document[:, None]
            pooled.append((weights * near.sum(dim=2).clamp(min=_LEAST).log()).sum(dim=1))
        return SequenceClassifierOutput(logits=self.kernels(_SCALE * torch.stack(pooled, dim=1)))

    def _vectors(self, input_ids: Tensor, query: Tensor, document: Tensor) -> Tensor:
        """Find the tokens' vectors, (pairs, tokens, width), of length 1."""
        if self.config.encoder is None:
            words, places = torch.unique(input_ids, return_inverse=True)  # each turned once
            turned: Tensor = self.turn(self.words(words).detach())
            return functional.embedding(places, functional.normalize(turned, dim=1))
        # Each reads its own tokens alone, from position 0 on; padding reads what it likes.
        together = (query[:, :, None] & query[:, None]) | (document[:, :, None] & document[:, None])
        together |= torch.eye(input_ids.shape[1], dtype=torch.bool, device=input_ids.device)
        position = torch.where(document, document.cumsum(dim=1), query.cumsum(dim=1)).sub(1).clamp(min=0)
        read = self.encoder(input_ids=input_ids, attention_mask=together[:, None], position_ids=position)
        return functional.normalize(read.last_hidden_state, dim=2)


def register() -> None:
    """Let transformers load these models from the folders that they were kept in."""
    config = LateInteractionConfig
    transformers.AutoConfig.register(config.model_type, config, exist_ok=True)
    transformers.AutoModelForSequenceClassification.register(config, LateInteraction, exist_ok=True)


def of_encoder(pooling: str, encoder: Any) -> LateInteraction:
    """Make a model over the vectors of an encoder, one of transformers' models."""
    kept = encoder.config.to_dict()
    model = LateInteraction(LateInteractionConfig(pooling, (1, encoder.config.hidden_size), kept))
    model.encoder = encoder
    return _begun(model)


def of_table(pooling: str, weights: Path, tokenizer: Path) -> tuple[LateInteraction, Any]:
    """Make a model over a table of words, and its tokenizer.

    Parameters
    ----------
    pooling : {"maxsim", "knrm"}
    weights : Path
        A safetensors file with one matrix, (tokens, width).
    tokenizer : Path
        Of the tokens, as Hugging Face's tokenizers write it. It is made to drop case and to add no
        marks of its own.

    Raises
    ------
    InputError
        Where they are something else, or do not fit.
    """
    accepted = "a safetensors file of one matrix, a row a token, beside the tokenizer's JSON"
    try:
        [table] = load_file(weights).values()
        rows, width = table.shape
    except (ValueError, SafetensorError):
        raise InputError("no table of words", file=weights, accepted=accepted) from None
    try:
        reader = Tokenizer.from_file(str(tokenizer))
    except Exception as error:  # tokenizers raise nothing narrower
        raise InputError(f"no tokenizer ({error})", file=tokenizer, accepted=accepted) from None
    places = reader.get_vocab()
    if max(places.values(), default=rows) >= rows:
        raise InputError("the tokenizer is of another table", file=tokenizer, accepted=accepted)
    steps = [normalizers.Lowercase(), *([reader.normalizer] if reader.normalizer else [])]
    reader.normalizer = normalizers.Sequence(steps)
    reader.post_processor = processors.TemplateProcessing(single="$A", pair="$A:0 $B:1", special_tokens=[])
    model = LateInteraction(LateInteractionConfig(pooling, (rows, width)))
    with torch.no_grad():
        model.words.weight.copy_(table)
        nn.init.eye_(model.turn.weight)
    first = min(places, key=places.__getitem__)
    names = ["input_ids", "token_type_ids", "attention_mask"]
    kind: Any = transformers.PreTrainedTokenizerFast
    return _begun(model), kind(tokenizer_object=reader, pad_token=first, model_input_names=names)


def _begun(model: LateInteraction) -> LateInteraction:
    """Let each token of a query count 1 at first."""
    with torch.no_grad():
        model.importance.weight.zero_()
        model.importance.bias.fill_(math.log(math.e - 1.0))
    return model
