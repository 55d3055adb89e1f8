"""Models that run in this process: embedder and reranker on onnxruntime."""

from freki.infra.models.cache import check_choices, embedder_identity, joint_identity, kind_embedder_identities
from freki.infra.models.descriptions import ModelKind
from freki.infra.models.embed_once import embed_once
from freki.infra.models.embedder import OnnxEmbedder
from freki.infra.models.fake import FakeEmbedder
from freki.infra.models.health import ModelState, check_models, describe_models, ensure_built
from freki.infra.models.multi_embedder import open_embedder
from freki.infra.models.remote import RemoteEmbedder
from freki.infra.models.reranker import OnnxReranker
from freki.infra.models.tokens import open_token_counter
from freki.infra.models.vectors import VectorCache
from freki.infra.models.window import check_window

__all__ = [
    "FakeEmbedder",
    "ModelKind",
    "ModelState",
    "OnnxEmbedder",
    "OnnxReranker",
    "RemoteEmbedder",
    "VectorCache",
    "check_choices",
    "check_models",
    "check_window",
    "describe_models",
    "embed_once",
    "embedder_identity",
    "ensure_built",
    "joint_identity",
    "kind_embedder_identities",
    "open_embedder",
    "open_token_counter",
]
