"""Rerankers that prompt a language model to answer yes or no.

The score is the difference of the two answers' logits after a prompt with both texts: at the prompt's end, or
as the first word of a sequence-to-sequence model. The softmax over the two logits is the probability of
relevance (Nogueira et al., Document Ranking with a Pretrained Sequence-to-Sequence Model, Findings of EMNLP
2020: monoT5, whose answers are "true" and "false").
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import torch
import transformers
from tokenizers import processors
from torch import Tensor
from transformers.modeling_outputs import SequenceClassifierOutput

from lmtune.errors import InputError

_ANSWERS = "two comma-separated answers of one token each: yes,no"


class YesOrNoConfig(transformers.PretrainedConfig):  # type: ignore[no-untyped-call]
    """Configuration of `YesOrNo`, in transformers' format."""

    model_type = "lmtune-yes-or-no"

    def __init__(
        self, decoder: Any = None, answers: tuple[int, int] = (0, 1), lora: int = 0, **others: Any
    ) -> None:
        super().__init__(**others)
        self.decoder, self.answers, self.lora = decoder, tuple(answers), lora


class YesOrNo(transformers.PreTrainedModel):  # type: ignore[no-untyped-call]
    """Scores prompts by the logits of two answers at the last token, or at the first of the model's output.

    Parameters
    ----------
    config : YesOrNoConfig
        The language model's configuration, the two answers' tokens, and the rank of the trained adapters
        (LoRA, Hu et al., ICLR 2022); rank 0 trains all weights.
    """

    config_class = YesOrNoConfig

    def __init__(self, config: YesOrNoConfig) -> None:
        super().__init__(config)
        parts = transformers.AutoConfig.for_model(**config.decoder)
        self.decoder = auto_class(parts).from_config(parts)
        self.adapt()
        self.post_init()  # type: ignore[no-untyped-call]

    @classmethod
    def from_pretrained(cls, *where: Any, **how: Any) -> Any:
        """Load a model as transformers do, and freeze the weights that adapters replace in training."""
        loaded: Any = super().from_pretrained(*where, **how)
        model = loaded[0] if isinstance(loaded, tuple) else loaded  # with output_loading_info
        model.freeze()
        return loaded

    def adapt(self) -> None:
        """Add LoRA adapters to the language model's matrices if the configuration has a rank."""
        if self.config.lora:
            import peft

            rank = self.config.lora
            adapters = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
            with warnings.catch_warnings():  # peft warns of transposed layers, which it handles
                warnings.simplefilter("ignore")
                peft.inject_adapter_in_model(adapters, self.decoder)
            self.freeze()

    def freeze(self) -> None:
        """Freeze all weights but the adapters' if there are adapters."""
        for name, weight in self.named_parameters():
            weight.requires_grad_(not self.config.lora or "lora_" in name)

    def get_input_embeddings(self) -> Any:
        """Return the language model's input embeddings."""
        return self.decoder.get_input_embeddings()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, **_others: Tensor
    ) -> SequenceClassifierOutput:
        """Score prompts, shape (prompts, tokens), padded on either side; logits have shape (prompts, 1)."""
        prompts = {"input_ids": input_ids, "attention_mask": attention_mask, "use_cache": False}
        if self.decoder.config.is_encoder_decoder:
            start = input_ids.new_full((len(input_ids), 1), self.decoder.config.decoder_start_token_id)
            logits = self.decoder(**prompts, decoder_input_ids=start).logits[:, 0]
        else:
            places = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)
            output = self.decoder.base_model(**prompts, position_ids=places)
            last = (torch.arange(input_ids.shape[1], device=input_ids.device) * attention_mask).argmax(dim=1)
            state = output.last_hidden_state[torch.arange(len(last), device=last.device), last]
            logits = self.decoder.get_output_embeddings()(state)
        yes, no = self.config.answers
        return SequenceClassifierOutput(logits=logits[:, [yes]] - logits[:, [no]])


def auto_class(config: Any) -> Any:
    """Return transformers' class that loads the language model of a configuration."""
    return (
        transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    )


def wrap_decoder(decoder: Any, tokenizer: Any, prompt: str, answers: str, lora: int) -> YesOrNo:
    """Create a reranker from a language model, and make its tokenizer add the prompt.

    Parameters
    ----------
    decoder, tokenizer
        A causal or sequence-to-sequence model and its tokenizer, of transformers. The tokenizer is changed:
        it inserts each pair into the prompt, and pads on the right.
    prompt : str
        Text with {query} and {document}, each once, in any order. Only query and document are truncated.
    answers : str
        The answers for relevant and non-relevant documents, one token each: ``yes,no``.
    lora : int
        Rank of the adapters; 0 trains all weights.

    Raises
    ------
    InputError
        If the prompt lacks {query} or {document}, or an answer is not one token.
    """
    parts = re.split(r"\{(query|document)\}", prompt)
    if sorted(parts[1::2]) != ["document", "query"]:
        raise InputError("bad prompt", value=prompt, accepted="a text with {query} and {document}, each once")
    tokens = [tokenizer(word, add_special_tokens=False).input_ids for word in answers.split(",")]
    if [len(one) for one in tokens] != [1, 1] or tokens[0] == tokens[1]:
        raise InputError("bad answers", value=answers, accepted=_ANSWERS)
    first, last = (tokenizer("a").input_ids[end] for end in (0, -1))
    has_bos = tokenizer.bos_token_id is not None and first == tokenizer.bos_token_id
    # A causal model would answer after the end mark.
    encodes = decoder.config.is_encoder_decoder
    has_eos = encodes and tokenizer.eos_token_id is not None and last == tokenizer.eos_token_id
    special_tokens, template = [], []
    for number, part in enumerate(parts):
        if number % 2:
            template.append({"query": "$A:0", "document": "$B:1"}[part])
            continue
        # SentencePiece adds a blank before each text.
        ids = tokenizer(part.strip() if encodes else part, add_special_tokens=False).input_ids
        if number == 0 and has_bos:
            ids = [tokenizer.bos_token_id, *ids]
        if number == len(parts) - 1 and has_eos:
            ids = [*ids, tokenizer.eos_token_id]
        if ids:
            name, tokens_of_part = f"<prompt {number}>", tokenizer.convert_ids_to_tokens(ids)
            special_tokens.append({"id": name, "ids": ids, "tokens": tokens_of_part})
            template.append(f"{name}:0")
    pair = processors.TemplateProcessing(single="$A:0", pair=template, special_tokens=special_tokens)
    tokenizer.backend_tokenizer.post_processor = pair
    tokenizer.padding_side = "right"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    yes, no = (one[0] for one in tokens)
    config = YesOrNoConfig(decoder.config.to_dict(), (yes, no), lora, pad_token_id=tokenizer.pad_token_id)
    with torch.device("meta"):  # allocates no weights: the decoder has them
        model = YesOrNo(config)
    model.decoder = decoder
    model.adapt()
    return model


def register() -> None:
    """Register the classes with transformers' auto classes, which load saved models."""
    transformers.AutoConfig.register(YesOrNoConfig.model_type, YesOrNoConfig, exist_ok=True)
    transformers.AutoModelForSequenceClassification.register(YesOrNoConfig, YesOrNo, exist_ok=True)
