"""Rerankers that ask a causal language model whether a document answers a query, and read yes or no.

The score is the logit of one answer less that of the other, at the end of a prompt that holds both texts;
as a probability it is softmax over the two (Nogueira et al., Document Ranking with a Pretrained
Sequence-to-Sequence Model, Findings of EMNLP 2020, with "true" and "false").
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

_ANSWERS = "two answers of one token each, with a comma between: yes,no"


class YesOrNoConfig(transformers.PretrainedConfig):  # type: ignore[no-untyped-call]
    """The parts of `YesOrNo`, as transformers keeps it beside the weights."""

    model_type = "lmtune-yes-or-no"

    def __init__(
        self, decoder: Any = None, answers: tuple[int, int] = (0, 1), lora: int = 0, **others: Any
    ) -> None:
        super().__init__(**others)
        self.decoder, self.answers, self.lora = decoder, tuple(answers), lora


class YesOrNo(transformers.PreTrainedModel):  # type: ignore[no-untyped-call]
    """Scores prompts by the logits of two answers at their last token.

    Parameters
    ----------
    config : YesOrNoConfig
        With the causal model's own configuration, the two tokens, and the rank of the adapters that are
        learnt in place of all weights (LoRA, Hu et al., ICLR 2022); 0 learns all.
    """

    config_class = YesOrNoConfig

    def __init__(self, config: YesOrNoConfig) -> None:
        super().__init__(config)
        parts = transformers.AutoConfig.for_model(**config.decoder)
        self.decoder = transformers.AutoModelForCausalLM.from_config(parts)  # type: ignore[no-untyped-call]
        self.adapt()
        self.post_init()  # type: ignore[no-untyped-call]

    @classmethod
    def from_pretrained(cls, *where: Any, **how: Any) -> Any:
        """Load it as transformers do; what adapters stand in for is not learnt."""
        loaded: Any = super().from_pretrained(*where, **how)
        loaded.freeze()
        return loaded

    def adapt(self) -> None:
        """Put adapters beside the causal model's matrices."""
        if self.config.lora:
            import peft

            rank = self.config.lora
            adapters = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
            with warnings.catch_warnings():  # it sees to layers that are stored transposed itself
                warnings.simplefilter("ignore")
                peft.inject_adapter_in_model(adapters, self.decoder)
            self.freeze()

    def freeze(self) -> None:
        """Learn the adapters alone, where there are any."""
        for name, weight in self.named_parameters():
            weight.requires_grad_(not self.config.lora or "lora_" in name)

    def get_input_embeddings(self) -> Any:
        """Return the table of words."""
        return self.decoder.get_input_embeddings()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, **_others: Tensor
    ) -> SequenceClassifierOutput:
        """Score prompts, (prompts, tokens), padded at either end: logits of shape (prompts, 1)."""
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        last = (places * attention_mask).argmax(dim=1)
        read = self.decoder.base_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=(attention_mask.cumsum(dim=1) - 1).clamp(min=0),
            use_cache=False,
        )
        state = read.last_hidden_state[torch.arange(len(last), device=last.device), last]
        logits = self.decoder.get_output_embeddings()(state)
        yes, no = self.config.answers
        return SequenceClassifierOutput(logits=logits[:, [yes]] - logits[:, [no]])


def of_causal(decoder: Any, tokenizer: Any, prompt: str, answers: str, lora: int) -> YesOrNo:
    """Make a reranker of a causal model, and its tokenizer write prompts.

    Parameters
    ----------
    decoder, tokenizer
        Of transformers; the tokenizer writes the prompt about each pair from now on, and pads at the end.
    prompt : str
        With {query} and {document}, each once, in any order. Texts are cut, the prompt never is.
    answers : str
        What speaks for and against the document, one token each: ``yes,no``.
    lora : int
        The adapters' rank; 0 learns all weights.

    Raises
    ------
    InputError
        For a prompt that lacks a text, and answers that are not one token each.
    """
    parts = re.split(r"\{(query|document)\}", prompt)
    if sorted(parts[1::2]) != ["document", "query"]:
        raise InputError("bad prompt", value=prompt, accepted="{query} and {document} in it, each once")
    tokens = [tokenizer(word, add_special_tokens=False).input_ids for word in answers.split(",")]
    if [len(one) for one in tokens] != [1, 1] or tokens[0] == tokens[1]:
        raise InputError("bad answers", value=answers, accepted=_ANSWERS)
    begins = tokenizer.bos_token_id is not None and tokenizer("a").input_ids[0] == tokenizer.bos_token_id
    marks, template = [], []
    for number, part in enumerate(parts):
        if number % 2:
            template.append({"query": "$A:0", "document": "$B:1"}[part])
            continue
        ids = tokenizer(part, add_special_tokens=False).input_ids
        if number == 0 and begins:
            ids = [tokenizer.bos_token_id, *ids]
        if ids:
            mark = f"<prompt {number}>"
            marks.append({"id": mark, "ids": ids, "tokens": tokenizer.convert_ids_to_tokens(ids)})
            template.append(f"{mark}:0")
    pair = processors.TemplateProcessing(single="$A:0", pair=template, special_tokens=marks)
    tokenizer.backend_tokenizer.post_processor = pair
    tokenizer.padding_side = "right"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    yes, no = (one[0] for one in tokens)
    config = YesOrNoConfig(decoder.config.to_dict(), (yes, no), lora, pad_token_id=tokenizer.pad_token_id)
    with torch.device("meta"):  # without weights, which the decoder has
        model = YesOrNo(config)
    model.decoder = decoder
    model.adapt()
    return model


def register() -> None:
    """Let transformers load these models from the folders that they were kept in."""
    transformers.AutoConfig.register(YesOrNoConfig.model_type, YesOrNoConfig, exist_ok=True)
    transformers.AutoModelForSequenceClassification.register(YesOrNoConfig, YesOrNo, exist_ok=True)
