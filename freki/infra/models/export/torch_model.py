"""A model of Hugging Face's transformers in torch: its outputs and its ONNX graph. Needs the extra `models-export`."""

import inspect
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from freki.infra.models.descriptions import ModelDescription, ModelKind, Pooling
from freki.infra.models.export.folder import refused_decoder
from freki.infra.models.export.texts import PASSAGES, QUERIES
from freki.schemas.arrays import Floats
from freki.schemas.errors import Misconfigured

NAME = f"torch {torch.__version__}, transformers {transformers.__version__}"
_OPSET = 20
_UNUSED = ("pooler.", "embeddings.position_ids")
"""Weights that do not matter for token states."""
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class TorchModel:
    """An open model in float32."""

    def __init__(self, folder: Path, description: ModelDescription) -> None:
        """Load a model. Raises Misconfigured for one that transformers does not load, and for a decoder."""
        self._description = description
        self._is_reranker = description.kind is ModelKind.RERANKER
        loader = AutoModelForSequenceClassification if self._is_reranker else AutoModel
        with _quiet(), _explained(folder):
            self._model, report = loader.from_pretrained(
                folder,
                dtype=torch.float32,
                attn_implementation="eager",
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
            )
            self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        if missing := [name for name in report["missing_keys"] if self._is_reranker or not name.startswith(_UNUSED)]:
            raise Misconfigured(f"{folder} lacks weights, such as {min(missing)}: take a complete model")
        self._model.eval()
        if self._is_causal():
            raise refused_decoder(folder, type(self._model).__name__)

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts with their prefix, (texts, dim), each of length 1, computed one by one."""
        return np.array([self._vector(text) for text in texts], np.float32)

    def scores(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Return the scores of (query, text) pairs, (pairs,), 0..1, computed one by one."""
        logits = [self._run(*pair)["logits"].reshape(-1) for pair in pairs]
        scores: Floats = torch.sigmoid(torch.cat(logits)).numpy()
        return scores

    def write(self, file: Path) -> None:
        """Write the graph with its weights beside it; batch and length are dynamic.

        Raises Misconfigured where torch cannot export it.
        """
        output = "logits" if self._is_reranker else "last_hidden_state"
        example = self._example()
        names = [name for name in _INPUTS if name in example]
        dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
        try:
            with _quiet(), torch.inference_mode():
                program = torch.onnx.export(
                    _Output(self._model, output),
                    kwargs={name: example[name] for name in names},
                    input_names=names,
                    output_names=[output],
                    opset_version=_OPSET,
                    dynamo=True,
                    dynamic_shapes=dict.fromkeys(names, dynamic),
                    verbose=False,
                )
        except torch.onnx.errors.OnnxExporterError as error:
            raise Misconfigured(
                f"torch cannot export {type(self._model).__name__} to ONNX: {str(error).splitlines()[0]}; take another "
                "model, or another version of torch"
            ) from error
        program.save(file, external_data=True)

    def _vector(self, text: str) -> Floats:
        states = self._run(text)["last_hidden_state"][0]
        vector = states[0] if self._description.pooling is Pooling.CLS else states.mean(dim=0)
        unit: Floats = torch.nn.functional.normalize(vector, dim=0).numpy()
        return unit

    def _run(self, *texts: str) -> Any:  # noqa: ANN401 - as transformers returns it
        # The text is truncated, not the query.
        truncation = "only_second" if len(texts) > 1 else True
        # As lists: a single empty text would not count as the second one of a pair.
        tokens = self._tokenizer(
            *([text] for text in texts),
            truncation=truncation,
            max_length=self._description.max_tokens,
            return_tensors="pt",
        )
        with torch.inference_mode():
            return self._model(**self._known(tokens))

    def _example(self) -> dict[str, Any]:
        """Return a batch with padding."""
        texts = ([*QUERIES[:2]], [*PASSAGES[:2]]) if self._is_reranker else ([*PASSAGES[:2]],)
        return self._known(self._tokenizer(*texts, padding=True, return_tensors="pt"))

    def _known(self, tokens: Any) -> dict[str, Any]:  # noqa: ANN401 - as transformers returns it
        """Return the inputs that the model has."""
        parameters = inspect.signature(self._model.forward).parameters
        return {name: tokens[name] for name in _INPUTS if name in tokens and name in parameters}

    def _is_causal(self) -> bool:
        """Return whether states do not depend on later tokens, as in decoders."""
        if self._is_reranker:
            return False
        with torch.inference_mode():
            ids = self._known(self._tokenizer(PASSAGES[0], return_tensors="pt"))["input_ids"]
            other = ids.clone()
            other[0, -2] = ids[0, 1]
            states = [self._model(input_ids=each)["last_hidden_state"][0, 0] for each in (ids, other)]
        return bool((states[0] == states[1]).all())


class _Output(torch.nn.Module):
    """A model with a single output."""

    def __init__(self, model: Any, output: str) -> None:  # noqa: ANN401 - of transformers
        super().__init__()
        self._model = model
        self._output = output

    def forward(self, **inputs: Any) -> Any:  # noqa: ANN401 - tensors
        return self._model(**inputs)[self._output]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings about the export, whose outcome is verified."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Translate errors of transformers, which have no class of their own."""
    try:
        yield
    except (ImportError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise Misconfigured(
            f"transformers {transformers.__version__} does not load {folder}: {str(error).strip().splitlines()[0]}; "
            "check that it is complete, or install a version of transformers that has its architecture"
        ) from error
