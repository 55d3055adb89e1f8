from pathlib import Path

import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from freki.infra.models import OnnxEmbedder
from freki.infra.models.session import LASTING, TRANSIENT, open_tokenizer
from freki.infra.settings import ModelSettings
from tests.unit.tiny_models import word_tokenizer


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
