"""Cross-encoders as ONNX: the model's file, the tokenizer's files, and a check by other libraries."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lmtune.errors import FilePosition, InputError, MissingExtraError, PathLike
from lmtune.io.files import read_lines
from lmtune.rerank.exchange.exporting import README, Check, compare_scores
from lmtune.rerank.exchange.readers import Scores
from lmtune.rerank.exchange.targets import Files
from lmtune.rerank.reranker import Reranker
from lmtune.rerank.settings import TextOptions
from lmtune.rerank.text.cross_encoder import CrossEncoder, quiet
from lmtune.rerank.text.training import TextLists, TextTrained

_MODEL, _TOKENIZER = "model.onnx", "tokenizer.json"
_INPUTS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""Inputs of models, and the attributes of the library tokenizers that have them."""

_MAX_BYTES = (2 << 30) - (16 << 20)  # a protobuf message has less than 2 GiB; the graph needs some
_BATCH = 32
_PAIR = "a query, a tab and the text of a document"

_README = """\
{model} scores pairs of a query and a document. A higher score is more relevant; scores are not probabilities.
  inputs      {inputs}: int64, shape (batch, sequence)
  output      score: float32, shape (batch, 1)

{tokenizer} makes the inputs. The library tokenizers reads it; truncation and padding are set in the file.
  pair        {pair}
  QUERY       text of the topic
  DOCUMENT    {template}, of the document's fields
  max length  {length} tokens, special tokens included; {truncation}
  padding     to the longest pair of a batch, on the {side}, with {pad}

In Python:

    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file("{tokenizer}")
    session = onnxruntime.InferenceSession("{model}")
    pairs = [("what is a whale", "the whale lives in the sea"), ("what is a whale", "a bear")]
    encoded = tokenizer.encode_batch(pairs)
    inputs = {{
{columns}
    }}
    scores = session.run(["score"], {{name: np.array(rows) for name, rows in inputs.items()}})[0][:, 0]
"""


class _Scores(nn.Module):
    """A model with its inputs by position, as torch's exporter calls it."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return scores, shape (batch, 1)."""
        logits: Tensor = self.model(**dict(zip(self.names, inputs, strict=True))).logits
        return logits


def is_text(reranker: Reranker) -> bool:
    """Return whether a reranker reads text."""
    return isinstance(reranker.scorer, TextTrained)


def write_cross_encoder(reranker: Reranker) -> Files:
    """Write a cross-encoder: ``model.onnx``, the tokenizer's files and `README`.

    Raises
    ------
    InputError
        If the model is a bi-encoder, is prompted, or is too large for one file.
    MissingExtraError
        If onnx is not installed.
    """
    network = _cross_encoder(reranker)
    options = TextOptions(**reranker.facts["text"])
    # Texts of two lengths, so that the exporter sees padding.
    columns = network.encode(["a", "a b"], ["a", "a b c d"]).columns
    sample = network.padded(columns, torch.arange(2))
    names = [name for name in _INPUTS if name in sample]
    tokenizer = _tokenizer_files(network, options)
    files = {_MODEL: _graph(network.model, {name: sample[name] for name in names}), **tokenizer}
    return files | {README: _readme(tokenizer[_TOKENIZER].decode(), names, options).encode()}


def _cross_encoder(reranker: Reranker) -> CrossEncoder:
    """Return the network; refuse what is not exported."""
    from lmtune.rerank.text.decoder import YesOrNo

    network: Any = reranker.scorer.network  # type: ignore[attr-defined]
    name, accepted = reranker.scorer.settings.network, "a cross-encoder, text:MODEL"
    if not isinstance(network, CrossEncoder):
        raise InputError("cannot export a bi-encoder", value=name, accepted=accepted)
    if isinstance(network.model, YesOrNo):
        raise InputError("cannot export a language model with a prompt", value=name, accepted=accepted)
    size = sum(weight.nbytes for weight in network.parameters())
    if size > _MAX_BYTES:
        problem, accepted = "the weights are too large for an ONNX file", f"{_MAX_BYTES / 1e6:,.0f} MB"
        raise InputError(problem, value=f"{size / 1e6:,.0f} MB", accepted=f"at most {accepted}")
    return network


def _graph(model: nn.Module, sample: Mapping[str, Tensor]) -> bytes:
    try:
        import onnx  # noqa: F401 - torch's exporter needs it
    except ImportError as error:
        raise MissingExtraError("ONNX", "export") from error
    axes = {name: {0: "batch", 1: "sequence"} for name in sample} | {"score": {0: "batch"}}
    names, stream = list(sample), io.BytesIO()
    with quiet(), warnings.catch_warnings():
        # The newer exporter (dynamo=True) needs onnxscript. Both gave the same scores for 11 architectures.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Scores(model, names).eval(),
            tuple(sample.values()),
            stream,  # type: ignore[arg-type]
            input_names=names,
            output_names=["score"],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
    return stream.getvalue()


def _tokenizer_files(network: CrossEncoder, options: TextOptions) -> Files:
    """Return the tokenizer's files; ``tokenizer.json`` truncates and pads as the network does."""
    from tokenizers import Tokenizer

    tokenizer = network.tokenizer
    with tempfile.TemporaryDirectory() as folder, quiet():
        tokenizer.save_pretrained(folder)
        files = {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}
    by_passage = options.passages != "first"
    backend = Tokenizer.from_str(files[_TOKENIZER].decode())
    backend.enable_truncation(
        tokenizer.model_max_length,
        stride=options.overlap if by_passage else 0,
        strategy="only_second" if by_passage else "longest_first",
        direction=tokenizer.truncation_side,
    )
    backend.enable_padding(
        direction=tokenizer.padding_side,
        pad_id=tokenizer.pad_token_id,
        pad_type_id=tokenizer.pad_token_type_id,
        pad_token=tokenizer.pad_token,
    )
    return files | {_TOKENIZER: backend.to_str(pretty=True).encode()}


def _readme(tokenizer: str, names: Sequence[str], options: TextOptions) -> str:
    from tokenizers import Tokenizer

    backend: Any = Tokenizer.from_str(tokenizer)
    truncation, padding = backend.truncation, backend.padding
    how = "the longer text is truncated first"
    if options.passages != "first":
        how = (
            f"a longer document has\n              passages that share {options.overlap} tokens "
            f"(encoding.overflowing): its score is their {options.passages}"
        )
    return _README.format(
        model=_MODEL,
        tokenizer=_TOKENIZER,
        inputs=", ".join(names),
        pair=_pair(backend),
        template=options.template,
        length=truncation["max_length"],
        truncation=how,
        side=padding["direction"],
        pad=f"{padding['pad_token']} (id {padding['pad_id']})",
        columns="\n".join(f'        "{name}": [one.{_INPUTS[name]} for one in encoded],' for name in names),
    )


def _pair(tokenizer: Any) -> str:
    """Return how a pair is encoded, such as ``[CLS] QUERY [SEP] DOCUMENT [SEP]``."""
    tokenizer.no_padding()
    encoded, texts = tokenizer.encode("a", "a"), ("QUERY", "DOCUMENT")
    parts = [
        token if text is None else texts[text]
        for token, text in zip(encoded.tokens, encoded.sequence_ids, strict=True)
    ]
    return " ".join(
        part for part, before in zip(parts, ["", *parts], strict=False) if part not in texts or part != before
    )


def read_cross_encoder(
    files: Mapping[str, bytes], passages: str
) -> Callable[[Sequence[str], Sequence[str]], Scores]:
    """Read an export with onnxruntime and tokenizers; the function scores queries with documents.

    Parameters
    ----------
    files : mapping of str to bytes
    passages : {"first", "max", "sum"}
        See `TextOptions`.
    """
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError("ONNX", "export") from error
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(files[_TOKENIZER].decode())
    session = onnxruntime.InferenceSession(files[_MODEL], providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def scores_of(pieces: Sequence[Any]) -> Scores:
        inputs = {name: np.array([getattr(one, _INPUTS[name]) for one in pieces], np.int64) for name in names}
        return np.asarray(session.run(["score"], inputs)[0])[:, 0]

    def score(queries: Sequence[str], documents: Sequence[str]) -> Scores:
        pairs = list(zip(queries, documents, strict=True))
        batches = (pairs[first : first + _BATCH] for first in range(0, len(pairs), _BATCH))
        encoded = [tokenizer.encode_batch(batch) for batch in batches]
        if passages == "first":
            return np.concatenate([scores_of(batch) for batch in encoded])
        combine: Any = {"max": np.max, "sum": np.sum}[passages]
        return np.array([combine(scores_of([one, *one.overflowing])) for batch in encoded for one in batch])

    return score


def check_cross_encoder(files: Mapping[str, bytes], reranker: Reranker, pairs: TextLists) -> Check:
    """Compare the scores of exported files with a cross-encoder's."""
    ours = reranker.score(pairs)
    score = read_cross_encoder(files, pairs.options.passages)
    return compare_scores(ours, score(*pairs.pairs(range(ours.size))), pairs)


def read_pairs(path: PathLike, options: TextOptions) -> TextLists:
    """Read pairs from lines of a query, a tab and a document's text; blank lines are skipped.

    Raises
    ------
    InputError
        If a line has no tab or no query, or there is no line.
    """
    run: dict[str, dict[str, float]] = {}
    texts: dict[str, str] = {}
    with FilePosition(path) as position:
        for position.line, line in read_lines(path):
            query, tab, text = line.partition("\t")
            if not line.strip():
                continue
            if not tab or not query.strip():
                raise InputError("not a pair", value=line, accepted=_PAIR)
            run.setdefault(query, {})[str(position.line)] = 0.0
            texts[str(position.line)] = text
    if not run:
        raise InputError("no pairs: the file is empty", file=path, accepted=_PAIR)
    return TextLists.of({query: query for query in run}, run, texts, options)
