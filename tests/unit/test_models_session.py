from pathlib import Path

import numpy as np
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from freki.infra.models import OnnxEmbedder
from freki.infra.models.session import LASTING, TRANSIENT
from freki.infra.models.tokenizer import open_tokenizer
from freki.infra.settings import ModelSettings
from freki.schemas.errors import Misconfigured
from tests.unit.tiny_models import word_tokenizer, write_hub_files, write_sentence_encoder


def test_every_error_of_onnxruntime_is_translated() -> None:
    raised = {kind for kind in vars(ort_errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}

    assert raised == {*TRANSIENT, *LASTING}
    assert not {*TRANSIENT} & {*LASTING}


def test_an_embedder_that_is_not_open_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        _ = OnnxEmbedder(ModelSettings()).dim


def test_equal_tokenizers_take_memory_once(tmp_path: Path) -> None:
    for name in ("one.json", "two.json"):
        word_tokenizer().save(str(tmp_path / name))

    assert open_tokenizer(tmp_path / "one.json") is open_tokenizer(tmp_path / "two.json")


async def test_a_part_of_a_text_has_the_states_of_its_tokens_by_a_foreign_model(tmp_path: Path) -> None:
    table = write_sentence_encoder(tmp_path)
    write_hub_files(tmp_path)
    expected = table[word_tokenizer().token_to_id("w6")] + table[word_tokenizer().token_to_id("w7")]

    async with OnnxEmbedder(ModelSettings(embedder=str(tmp_path), late_window_tokens=8)) as embedder:
        (found,) = (await embedder.embed_within(["w5 w6 w7 w8"], [[(3, 8)]])).vectors
        fingerprint = embedder.fingerprint

    assert found == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)
    assert fingerprint.endswith("+late8")


async def test_a_model_that_takes_no_mean_does_no_late_chunking(tmp_path: Path) -> None:
    write_sentence_encoder(tmp_path)
    write_hub_files(tmp_path, pooling="pooling_mode_cls_token")

    with pytest.raises(Misconfigured, match="LATE_WINDOW_TOKENS=0"):
        async with OnnxEmbedder(ModelSettings(embedder=str(tmp_path), late_window_tokens=8)):
            pass


async def test_an_execution_provider_that_is_not_there_is_named_with_the_fix(tmp_path: Path) -> None:
    write_sentence_encoder(tmp_path)
    write_hub_files(tmp_path)

    with pytest.raises(
        Misconfigured, match="FREKI_MODELS__PROVIDERS: this onnxruntime has no CUDAExecutionProvider, but"
    ):
        async with OnnxEmbedder(
            ModelSettings(embedder=str(tmp_path), providers=("CUDAExecutionProvider", "CPUExecutionProvider"))
        ):
            pass
