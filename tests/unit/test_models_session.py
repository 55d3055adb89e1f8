import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from freki.infra.models import OnnxEmbedder
from freki.infra.models.session import LASTING, TRANSIENT
from freki.infra.settings import ModelSettings


def test_every_error_of_onnxruntime_is_translated() -> None:
    raised = {kind for kind in vars(ort_errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}

    assert raised == {*TRANSIENT, *LASTING}
    assert not {*TRANSIENT} & {*LASTING}


def test_an_embedder_that_is_not_open_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        _ = OnnxEmbedder(ModelSettings()).dim
