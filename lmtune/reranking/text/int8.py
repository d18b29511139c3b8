"""Cross-encoders with weights and activations of eight bits, which ONNX Runtime computes on the CPU.

Scales of activations are those of all texts that are read together, so that a score depends a little on the
texts beside it; those of weights are of a column. The table of words stays as it is.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from lmtune.errors import InputError, MissingExtraError

_ERRORS = 3  # of ONNX Runtime's levels: no warnings


class Int8Model(nn.Module):
    """A model of transformers with one score a pair, in eight bits.

    Parameters
    ----------
    model : nn.Module
        As `lmtune.reranking.text.models.LanguageModel` has it; on the CPU.
    columns : mapping of str to Tensor
        What it takes, (pairs, tokens) each, of two pairs or more.

    Raises
    ------
    InputError
        For a model that cannot be written for ONNX.
    MissingExtraError
        Where ONNX or its runtime is not installed.
    """

    def __init__(self, model: nn.Module, columns: Mapping[str, Tensor]) -> None:
        super().__init__()
        try:
            import onnx
            import onnxruntime
            import onnxscript  # noqa: F401 - by which torch writes for ONNX
            from onnxruntime import quantization
        except ImportError as error:
            raise MissingExtraError("--int8", "int8") from error
        # A matrix's place is known by it: see `CrossEncoder.last`.
        self.last = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
        shapes = {name: dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC) for name in columns}
        with TemporaryDirectory() as folder, _silent():
            path = Path(folder, "model.onnx")
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            options.log_severity_level = _ERRORS
            try:
                torch.onnx.export(model.eval(), (), path, kwargs=dict(columns), dynamic_shapes=shapes)
                written = onnx.load(path)
                del written.graph.value_info[:]  # which the quantiser takes for those of turned matrices
                kinds = ["MatMul", "Gemm"]
                quantization.quantize_dynamic(written, path, op_types_to_quantize=kinds, per_channel=True)
                self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            except Exception as error:  # whatever a model that nobody has tried brings
                reason = str(error).strip().splitlines()[0]
                accepted = "no --int8, or another model"
                raise InputError(
                    "the model cannot be computed in int8", value=reason, accepted=accepted
                ) from error
        self.names = [one.name for one in self.session.get_inputs()]

    def forward(self, **columns: Tensor) -> SequenceClassifierOutput:
        """Score pairs, (pairs, tokens): logits of shape (pairs, 1)."""
        [logits] = self.session.run(None, {name: columns[name].numpy() for name in self.names})
        return SequenceClassifierOutput(logits=torch.from_numpy(logits))


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep the exporter's and the quantiser's advice from the screen."""
    handler = logging.NullHandler()  # without any, advice to the root makes one for all that is said later
    logging.root.addHandler(handler)
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(None), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
        logging.root.removeHandler(handler)
